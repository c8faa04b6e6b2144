import pytest
from agent_steps import call, matches, names, reported, run, says, shell, user

from steadyhelm.detectors.repetitive_text import ReplyMemory
from steadyhelm.detectors.stagnation import StagnationMemory
from steadyhelm.loops.failure_memory import FailureMemory
from steadyhelm.loops.repetitions import RepetitionMemory

BODY = "the ledger has forty open rows and no lock on any of them"
WAY = (
    "How to find us: from the station walk along the quay until the white tower, then turn left into the lane"
    " behind it, and ring at number twelve."
)
BIRDS = ("falcon", "heron", "otter", "lynx", "raven")


def seen(*steps):
    return reported(RepetitionMemory(), run(*steps))


def looks(*results, of="fetch_page", **fields):
    return [call(of, {"target": "main"}, result, **fields) for result in results]


def _in_turn(actions, looks):
    return [step for pair in zip(actions, looks, strict=True) for step in pair]


class TestIdentifiers:
    def test_need_no_digits(self):
        """
        A word that varies while the rest stays is an identifier, and is named in the match.
        """
        trace = run(*looks(*[f"Session {it}: {BODY}" for it in BIRDS]))

        assert [2, 3, 4] == reported(RepetitionMemory(), trace)
        assert ("otter",) == matches(RepetitionMemory(), trace)[2].ignored

    @pytest.mark.parametrize(
        "results",
        [
            [f"phase {it}: {BODY}" for it in ("build", "test", "sign", "ship")],
            [f"{it} modules, {BODY}" for it in ("compiling", "linking", "packing", "signing")],
            [f"{n} of 90 done, {BODY}" for n in (3, 9, 14, 20)],
            [f"transferred 40{n}12 bytes so far, {BODY}" for n in range(4)],
            [f"{it} sails to {it} pier, {BODY}, says {it}" for it in BIRDS],
            [f"{it}" for it in BIRDS],
        ],
        ids=[
            "a phase",
            "what is being done",
            "a small number",
            "a number that rises",
            "three names",
            "all of it",
        ],
    )
    def test_progress_is_none(self, results):
        """
        A step of a process, a state and a number that rises are progress.
        """
        assert [] == seen(*looks(*results))

    def test_a_tool_that_takes_the_next_thing(self):
        """
        A tool that takes the next thing from a queue gives another one each time.
        """
        assert [] == seen(*looks(*[f"Message {it}: {BODY}" for it in BIRDS], of="receive_message"))

    def test_made_up_by_a_machine(self):
        """
        Beside a word or two, what a machine made up is an identifier too; a name or a number is an answer.
        """
        codes = ("3edc1fc39caa6a", "789b2c508c098f", "20cfdb3ad0f1f6", "a32488e03214c2")

        assert [2, 3] == seen(*looks(*[f"accepted as <{it}@mx.example>" for it in codes]))
        assert [] == seen(*looks(*[f"queued behind {it}" for it in BIRDS]))
        assert [] == seen(*looks(*[f"next number is 48{n * n:06}" for n in range(4)]))

    def test_beside_words_that_there_is_nothing(self):
        """
        An answer that says that there is nothing stays the same, whatever hint follows it.
        """
        hints = ("Try the app.", "Our shop is closed on Monday.", "New: filters!", "Did you mean ledgers?")

        assert [2, 3] == seen(*looks(*[f"No articles matched.\n\n{it}" for it in hints]))
        assert [] == seen(*looks(*[f"No articles matched.\n{n} shelves to go" for n in (9, 7, 4, 1)]))
        assert [] == seen(*looks(*[f"From the inbox.\n{it}" for it in hints]))

    def test_who_sees_a_page(self):
        """
        How many people see a page says nothing of it; another count, or one that rises, does.
        """
        page = "<script nonce='{}'></script><h1>Bees in town</h1><p>By the editors of the magazine.</p>{}"
        nonces = ("7feb561932", "026f026f02", "4f38105ce2", "92c08fb692")
        readers = [page.format(it, f"{n} people are viewing") for n, it in enumerate(nonces, 210)]
        comments = [page.format(it, f"{n} comments so far") for n, it in enumerate(nonces, 210)]

        assert [2, 3] == seen(*looks(*readers))
        assert [] == seen(*looks(*comments))

    @pytest.mark.parametrize("order", [(0, 1, 2, 0, 1), (0, 1, 0, 2, 1, 0)])
    def test_a_sentence_that_comes_back(self, order):
        """
        A sentence that is another one each time is no news once it comes back; until then it may be.
        """
        page = "The museum of Bergen.\nOpen from ten to five.\nNo tickets are sold here.\n{}\n" + WAY
        hints = [
            page.format(it)
            for it in (
                "Try our podcast about ships, storms and salted fish.",
                "Spring sale ends this Sunday, hurry before it rains.",
                "Win a city trip with seven nights in Lisbon.",
                "Ask Anna whenever guided tours suit you better.",
            )
        ]

        assert [] == seen(*looks(*hints))
        assert seen(*looks(*[hints[it] for it in (2, *order)]))

    @pytest.mark.parametrize(
        "sentences",
        [
            ["Step 1 is running.", "Step 2 is running.", "Step 3 is running.", "Step 1 is running."] * 2,
            ["The gate is open.", "The gate is shut.", "The gate is open.", "The gate is jammed."] * 2,
        ],
    )
    def test_a_sentence_that_changes(self, sentences):
        """
        A sentence that says another thing of the same is news, also when it comes back.
        """
        page = "The port of Bergen.\nSeen from the bridge.\nAll times are local.\n{}\n" + WAY

        assert [] == seen(*looks(*[page.format(it) for it in sentences]))

    def test_a_page_that_grows_or_shrinks(self):
        """
        A list that loses a line each time, or a log that gains one, is news, also where its end is far away.
        """
        line = "10:41 the batch was processed without a fault, and the next one waits for its turn.\n"
        orders = ["The open orders.", *(f"The order of {name} waits for its parcel." for name in BIRDS)]
        shrinking = ["\n".join(orders[: len(orders) - n]) for n in range(3)]
        log = [line * (80 + n) for n in range(5)]

        assert [] == seen(*looks(shrinking[0] + "\nAll told.", *shrinking))
        assert [] == seen(*looks("Nothing yet.\nWait.\nThe log is empty.\nSo far.", *log))

    def test_half_a_character(self):
        """
        A sentence with half a character in it is compared like any other.
        """
        page = "The port of Bergen.\nSeen from the bridge.\nAll times are local.\n{}\n" + WAY
        odd = "Wholly novel \ud800 words were put here instead."

        assert [] == seen(*looks("Nothing.", *[page.format(it) for it in ("Ships leave at noon.", odd)]))

    def test_in_a_long_result(self):
        """
        What lies in the middle of a long result must be as long as before.
        """
        middle = "row after row of figures, " * 40

        assert [2, 3, 4] == seen(*looks(*[f"Node {it}. {BODY} {middle} {BODY}" for it in BIRDS]))
        assert [] == seen(
            *looks(*[f"Node {it}. {BODY} {middle * n} {BODY}" for n, it in enumerate(BIRDS, 1)])
        )


class TestAsides:
    @pytest.mark.parametrize(
        "name",
        [
            "attempt",
            "retryCount",
            "retries_left",
            "nonce",
            "cache_bust",
            "ts",
            "requestedAt",
            "iteration",
            "reason",
            "request_no",
            "call_no",
            "client_ref",
            "note",
            "max_length",
        ],
    )
    def test_by_name(self, name):
        """
        An argument that counts or explains does not make another call.
        """
        assert [2, 3] == seen(*[call("load", {"target": "x", name: f"{n} more"}, BODY) for n in range(4)])

    @pytest.mark.parametrize("parameter", ["_", "cb", "ts", "nonce", "session_id", "sig"])
    def test_in_an_address(self, parameter):
        """
        A parameter that only makes an address fresh does not make it another one.
        """
        steps = [
            call("get", {"url": f"https://x.example/a?lang=en&{parameter}=7{n}c"}, BODY) for n in range(4)
        ]

        assert [2, 3] == seen(*steps)

    @pytest.mark.parametrize("parameter", ["id", "page", "token", "posts", "q"])
    def test_an_address_of_another_page(self, parameter):
        """
        Any other parameter leads to another page.
        """
        steps = [call("get", {"url": f"https://x.example/a?{parameter}=7{n}c"}, BODY) for n in range(4)]

        assert [] == seen(*steps)

    def test_the_content_of_work_is_none(self):
        """
        What is written is the content of the call that writes it.
        """
        assert [] == seen(
            *[call("add_comment", {"issue": 5, "comment": f"part {n}"}, "ok") for n in range(25)]
        )


class TestNoEffect:
    def test_clicks(self):
        """
        Four actions after which the same page is seen have no effect.
        """
        steps = [
            it
            for n in range(5)
            for it in (call("click", {"element": f"b{n}"}, "Done."), call("get_page", {}, f"Page: {BODY}"))
        ]

        assert ["no effect"] == names(RepetitionMemory(), run(*steps))

    def test_a_page_whose_references_are_new(self):
        """
        What a machine makes up for each view is no effect, and what the page names is one.
        """
        view = (
            "- url: https://shop.example/step?s={}\n- title: Step 2\n- main: {} costs 412 EUR, not accepted"
        )
        marks = ("1f2e3d4c5b", "9a8b7c6d5e", "0f1e2d3c4b", "7e6d5c4b3a", "2b3c4d5e6f")
        clicks = [call("browser_click", {"ref": it}, f"Clicked {it}") for it in marks]
        same = [call("browser_snapshot", {}, view.format(it, "the lamp")) for it in marks]
        pages = zip(marks, BIRDS, strict=True)
        others = [call("browser_snapshot", {}, view.format(*it)) for it in pages]

        assert "no effect" in names(RepetitionMemory(), run(*_in_turn(clicks, same)))
        assert "no effect" not in names(RepetitionMemory(), run(*_in_turn(clicks, others)))

    def test_an_action_that_returns_the_page(self):
        """
        Four actions that return the same page have no effect, wherever on it they were made.
        """
        page = "Welcome\n[Continue]\nPlease accept the terms"
        taps = [call("tap", {"x": 100 + n, "y": 600 - n}, page) for n in range(5)]
        scrolls = [call("scroll", {"amount": 100 * n}, page) for n in range(5)]

        assert [3, 4] == seen(*taps)
        assert [3, 4] == seen(*scrolls)

    def test_an_acknowledgement_is_no_page(self):
        """
        Actions on one thing after another that are each acknowledged are a batch.
        """
        steps = [
            call("click", {"element": "Approve", "ref": f"e{n}"}, "Clicked: approved") for n in range(25)
        ]

        assert [] == seen(*steps)

    def test_what_is_still_there(self):
        """
        An action after which something is still there has done nothing.
        """
        steps = [call("mouse_click", {"x": 60 * n, "y": 300}, "The popup is still visible") for n in range(6)]

        assert [5] == reported(StagnationMemory(), run(*steps))

    def test_edits_of_one_file_that_replace_nothing(self):
        """
        Edits of one file that each replace nothing are a loop at the fourth; of one file after another not.
        """
        one = [
            call("replace_in_file", {"path": "a.py", "old": f"x{n}"}, "0 replacements made") for n in range(5)
        ]
        many = [
            call("replace_in_file", {"path": f"{n}.py", "old": "x"}, "0 replacements made") for n in range(25)
        ]

        assert [3] == reported(StagnationMemory(), run(*one))
        assert [] == reported(StagnationMemory(), run(*many))

    def test_a_success_between_new_results(self):
        """
        A check that succeeds after each new step is no loop; made in a row it is one.
        """
        check = call("terraform", {"args": "validate"}, "Success! The configuration is valid.")
        steps = [
            it
            for n in range(25)
            for it in (call("terraform", {"args": f"import b{n}"}, f"{BIRDS[n % 5]} {n} imported"), check)
        ]

        assert [] == seen(*steps)
        assert [2, 3] == seen(*[check] * 4)

    def test_a_status_between_steps_of_work(self):
        """
        A status that stays the same while other files are written is no sign of it.
        """
        steps = [
            it
            for n in range(25)
            for it in (
                call("write_file", {"path": f"{n}.py", "content": f"x = {n}"}, "Written."),
                shell("git status --short", f"?? {BODY}"),
            )
        ]

        assert [] == seen(*steps)


class TestMemory:
    def test_covers_hundreds_of_calls(self):
        """
        The same look with three hundred others between is found at the fourth time.
        """
        others = [call("read", {"path": f"{n}.py"}, f"class C{n}: ...") for n in range(900)]
        again = call("read", {"path": "main.py"}, "class Main: ...")

        assert [903] == seen(again, *others[:300], again, *others[300:600], again, *others[600:], again)

    def test_few_pages_are_kept_in_words(self):
        """
        Of many pages that were read twice and differed, the latest alone are kept in words.
        """
        lines = "The port of Bergen.\nSeen from the bridge.\nAll times are local.\n"
        memory = RepetitionMemory()
        reads = [
            call("fetch_page", {"target": name}, f"{lines}{words} {name}.\n{WAY}")
            for words in (
                "Try our podcast about ships, storms and salted fish",
                "Spring sale ends this Sunday",
            )
            for name in range(60)
        ]
        reported(memory, run(*reads))

        assert 16 == len([it for it in memory.calls.latest.values() if it.page is not None])


class TestFailures:
    def test_falling_behind_one_exit_status(self):
        """
        Fewer failures are progress, whatever the exit status says.
        """
        steps = [
            call("run_tests", {"suite": "all"}, f"{n} failed, {90 - n} passed", error="exit 1")
            for n in range(12, 0, -1)
        ]

        assert [] == reported(FailureMemory(), run(*steps))

    def test_falling_in_a_number_alone(self):
        """
        What a linter counts without a word for it may fall too; a status that changes is no count.
        """
        lint = [shell("flake8", f"{n} E501 line too long", error="exit 1") for n in (21, 19, 17, 11, 8)]
        codes = [call("get", {"id": 1}, f"{n} no page", error="http") for n in (404, 403, 410, 404, 403)]

        assert [] == reported(FailureMemory(), run(*lint))
        assert reported(FailureMemory(), run(*codes))

    def test_the_same_number_is_none(self):
        """
        The same failures again are not.
        """
        steps = [call("run_tests", {"n": n}, f"9 failed, order {n}", error="exit 1") for n in range(6)]

        assert reported(FailureMemory(), run(*steps))

    def test_other_errors_after_the_users_words(self):
        """
        Another error after the user's words is another matter.
        """
        steps = []
        for it in ("alpha", "beta", "gamma", "delta"):
            steps += [
                call("deploy", {"env": "x"}, error=f"missing variable {it}"),
                user(f"I have set {it} now"),
            ]

        assert [] == reported(FailureMemory(), run(*steps))


class TestOtherWords:
    TASKS = (
        "Find the ledger entry of Bergen.",
        "Please locate the entry of Bergen in the ledger",
        "Look up Bergen, ledger entry, and report back",
        "Go and get me the ledger entry for Bergen",
    )

    def test_the_state_of_a_task(self):
        """
        Asking how a task stands delegates nothing, and writes no plan.
        """
        named = "compute the climate of the north sea"
        shares = [0.4 + n / 100 for n in range(20)]

        for tool in ("task_state", "get_task", "check_task"):
            steps = [call(tool, {"task": named}, {"state": "running", "fraction_done": it}) for it in shares]
            assert [] == reported(StagnationMemory(), run(*steps))

    def test_a_task_delegated_again(self):
        """
        The same task in other words to the same end is a loop at the fourth time.
        """
        steps = [
            call("delegate", {"agent": "a", "task": it}, "I could not find the entry.") for it in self.TASKS
        ]

        assert [3] == reported(StagnationMemory(), run(*steps))

    def test_a_task_whose_answers_are_about_the_same(self):
        """
        Tasks with few words in common are one when their answers say the same of one subject.
        """
        tasks = (
            "Please provide the main reasons of churn in the spring.",
            "Prepare a short summary of spring churn drivers.",
            "Analyse churn and name what drove it this spring.",
            "Which drivers explain the churn of spring?",
        )
        answers = (
            "The churn table of spring is empty, so there is nothing to name.",
            "There are no rows in the spring churn table.",
        )
        steps = [call("delegate", {"task": it}, answers[n % 2]) for n, it in enumerate(tasks)]

        assert [3] == reported(StagnationMemory(), run(*steps))

    def test_answers_about_another_thing_each_time(self):
        """
        Orders in other words about other things are none, whatever wording their answers share.
        """
        orders = (
            "Check the licence of {}.",
            "Which licence terms does {} have?",
            "Look at {} and its licence.",
        )
        replies = ("The licence of {} is BSD.", "{} has a BSD licence.", "It is BSD, says the licence of {}.")
        steps = [
            call("delegate", {"task": orders[n % 3].format(it)}, replies[n % 3].format(it))
            for n, it in enumerate(BIRDS)
        ]

        verdicts = ("No leaks were found in the module.", "The module has no leaks.")
        checks = ("Look for leaks in the {} module.", "Does the module {} leak?")
        checked = [
            call("delegate", {"task": checks[n % 2].format(it)}, verdicts[n % 2])
            for n, it in enumerate(BIRDS)
        ]

        assert [] == reported(StagnationMemory(), run(*steps))
        assert [] == reported(StagnationMemory(), run(*checked))

    def test_a_task_handed_over_again(self):
        """
        A request that comes back from each hand-over is one task; money sent to many is none.
        """
        words = (
            "Order 5512 seems charged twice, billing should check.",
            "Please have billing check a second charge for order 5512.",
            "Billing: check whether order 5512 was charged twice.",
            "Ask billing to check the charges on order 5512.",
        )
        handed = [call("transfer_to", {"message": it}, "This belongs to support.") for it in words]
        paid = [
            call("transfer_to_account", {"message": f"salary of March for {it}"}, "accepted") for it in BIRDS
        ]

        assert [3] == reported(StagnationMemory(), run(*handed))
        assert [] == reported(StagnationMemory(), run(*paid * 5))

    def test_one_task_about_many_things(self):
        """
        One task about another thing each time is a batch.
        """
        steps = [
            call("delegate", {"agent": "a", "task": f"Review module {it} for leaks"}, "No leaks were found.")
            for it in BIRDS * 5
        ]

        assert [] == reported(StagnationMemory(), run(*steps))

    def test_a_plan_rewritten(self):
        """
        A plan written four times in other words with nothing done is a loop; with work between it is none.
        """
        verbs = ("Inspect", "Examine", "Review", "Study")
        plans = [
            call("update_plan", {"items": [f"{it} the ledger", f"{it} the parser", f"{it} the index"]}, "ok")
            for it in verbs
        ]
        worked = [step for n, plan in enumerate(plans) for step in (plan, shell(f"cat {n}", f"text {n}"))]

        assert [3] == reported(StagnationMemory(), run(*plans))
        assert [] == reported(StagnationMemory(), run(*worked))

    def test_a_plan_ticked_off(self):
        """
        A plan in which something was done is another plan.
        """
        items = ("ledger", "parser", "index", "cache")
        plans = [
            call(
                "TodoWrite",
                {"todos": [f"[{'x' if n > k else ' '}] {it}" for k, it in enumerate(items)]},
                "ok",
            )
            for n in range(5)
        ]

        assert [] == reported(StagnationMemory(), run(*plans))

    def test_thoughts_that_come_back(self):
        """
        Four replies about the same with nothing done in between are a loop; with calls between they are none.
        """
        thoughts = [
            says(f"{it} the ledger table joins the parser index twice.")
            for it in ("Hmm,", "So", "But", "Again,")
        ]
        acted = [step for n, it in enumerate(thoughts) for step in (it, shell(f"cat {n}", f"text {n}"))]

        assert [3] == reported(ReplyMemory(), run(*thoughts))
        assert [] == reported(ReplyMemory(), run(*acted))

    def test_one_question_to_the_user(self):
        """
        A question of few words that is put again in others is the same thought.
        """
        questions = (
            "Could you tell me your budget for the trip?",
            "What is your budget for this trip?",
            "Please tell me the budget you have for the trip.",
            "I need your budget for the trip, could you tell me?",
        )
        pages = [says(f"The {it} page is there.") for it in BIRDS]

        assert [3] == reported(ReplyMemory(), run(*map(says, questions)))
        assert [] == reported(ReplyMemory(), run(*pages))
