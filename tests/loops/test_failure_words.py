import pytest
from agent_steps import call, failing, names, reported, run, shell

from steadyhelm.loops.failure_memory import FailureMemory
from steadyhelm.loops.repetitions import RepetitionMemory
from steadyhelm.loops.steps import ToolStep

PAGE = "A page about gateways. " * 30


def has_failed(made):
    return ToolStep(run(made)[0]).outcome.failed


class TestWords:
    @pytest.mark.parametrize(
        "result",
        [
            "publish failed: hero image has no alternative text",
            "The upload of the report failed.",
            "\u2717 Build failed in 3310ms\n[bundler] no such module ./audit",
            "Compilation failed after 4 s\n" + PAGE,
            "Could not post the advert: the salary range is empty.",
            "E: Could not get lock /var/lib/dpkg/lock-frontend",
            "curl: (6) Could not resolve host: packages.example",
            "mount: /mnt: can't read superblock",
            "I couldn\u2019t save the draft.",
            "Unable to open display :0",
            "Payment declined: the card is expired",
            "Order not accepted: account on hold",
            "Kernel is dead",
            "The simulator is not responding",
            "Upload failed: 413 Payload Too Large",
            "step 12 loss nan, stopped after 8.1 s",
            "connect: Network is unreachable",
            "success: false\nthe domain is not verified",
        ],
    )
    def test_of_a_deed_that_came_to_nothing(self, result):
        """
        A deed has failed whose answer begins with words that say so, also where nobody marked an error.
        """
        assert has_failed(call("publish", {"slug": "menu"}, result))

    @pytest.mark.parametrize(
        "result",
        [
            "npm ERR! missing script: build",
            "panic: runtime error: index out of range",
            "thread 'main' panicked at src/main.rs:3",
            PAGE + "\nSegmentation fault (core dumped)",
            "Cannot connect to the daemon at unix:///run/d.sock. Is it running?",
        ],
    )
    def test_of_a_program(self, result):
        """
        A command has failed whose program crashed or complained as its kind does.
        """
        assert has_failed(shell("make all", result))

    @pytest.mark.parametrize(
        "result",
        [
            "No build failed in the last week.",
            "Tests failed: 0",
            "First attempt failed, the second one succeeded",
            "Could not find any hotel for these dates",
            "Cannot be combined with other offers",
            "Can you set the table? Done.",
            "Saved. What failed last time is noted.",
            PAGE + "The build failed: see above. The kernel died. " + PAGE,
            "The loss fell to 0.2",
        ],
    )
    def test_that_only_talk_about_failures(self, result):
        """
        Nothing has failed where failures are denied, looked for in vain, or talked about in a long text.
        """
        assert not has_failed(call("publish", {"slug": "menu"}, result))

    @pytest.mark.parametrize(
        "made",
        [
            call("read_page", {"title": "incidents"}, "Deployment failed: what we learnt"),
            call("search_issues", {"query": "crash"}, "The app has crashed"),
            shell("cat notes.txt", "Build failed: ask Ola"),
            shell("cd app && git log -1", "Could not build: pin the compiler"),
            call("reject_request", {"id": 4}, "Request rejected: 4"),
            call("review", {"id": 4, "verdict": "reject"}, "Request rejected."),
            call("ask_agent", {"task": "find the owner"}, "Unable to open the register today"),
        ],
    )
    def test_that_others_wrote(self, made):
        """
        What a tool reads, and what was refused on purpose, is no failure of the call.
        """
        assert not has_failed(made)

    def test_that_no_reader_has_a_connection(self):
        """
        A tool that reads has failed where it says in a word or two that it was not connected.
        """
        assert has_failed(call("read_page", {"title": "a"}, "Could not connect to wiki.example"))


class TestFields:
    @pytest.mark.parametrize(
        "result",
        [
            {"ok": False, "message": "Passport expiry date is not on file"},
            '{"success": false, "detail": "domain is not verified"}',
            "{'success': False, 'error_message': 'no title'}",
            {"success": False},
            {"state": "rejected", "ticket": 5100, "why": "account on hold"},
            {"status": 422, "message": "the title is empty"},
            {"published": False, "reason": "the title is empty"},
        ],
    )
    def test_that_deny_success(self, result):
        """
        A field of its own that denies success is a failure, where another one says why.
        """
        assert has_failed(call("publish", {"slug": "menu"}, result))

    @pytest.mark.parametrize(
        "result",
        [
            {"ok": False, "rooms": 0},
            {"success": False, "message": "already a member"},
            {"posts": [{"ok": False, "message": "no title"}], "total": 4},
            {"urgent": False, "message": "noted"},
            {"status": "done", "note": "nothing rejected"},
            {"ok": True, "message": "false alarm cleared"},
        ],
    )
    def test_of_something_else(self, result):
        """
        A field of an entry, one of another meaning, and one for what was done before is none.
        """
        assert not has_failed(call("publish", {"slug": "menu"}, result))

    def test_of_a_verdict(self):
        """
        What a check finds wrong is its answer, and no failure of the check.
        """
        verdict = {"ok": False, "message": "certificate expires tomorrow"}

        assert not has_failed(call("check_domain", {"name": "www"}, verdict))
        assert has_failed(call("check_in", {"booking": "KQ7"}, verdict))


class TestLoops:
    @pytest.mark.parametrize(
        "result",
        ["publish failed: no title", {"ok": False, "message": "no title"}, "Could not publish: no title"],
    )
    def test_one_failing_step_between_other_work(self, result):
        """
        A step that fails at the same thing again is a loop, however much is read in between.
        """
        steps = []
        for lap in range(4):
            steps.append(call("publish", {"slug": "menu"}, result))
            steps += [call("read_note", {"title": f"{lap}{n}"}, f"note {lap}{n}: {PAGE}") for n in range(7)]

        assert [24] == reported(RepetitionMemory(), run(*steps))

    def test_one_command_after_another(self):
        """
        Commands that all say that the daemon is not there are one failure.
        """
        answer = "Cannot connect to the daemon at unix:///run/d.sock. Is it running?"
        commands = ("docker ps", "docker images", "docker info", "docker build .", "docker compose up -d")

        assert ["same error"] == names(FailureMemory(), run(*(shell(one, answer) for one in commands)))

    def test_things_refused_one_by_one(self):
        """
        A batch in which some things are refused with the same words is none, one that goes on without end is.
        """
        guests = ("ola", "ann", "bo", "cid", "dag", "eva", "fay", "gus", "han", "ida", "jon", "kim")
        answers = {"ok": False, "message": "the guest has left"}, {"ok": True}
        refused = [call("check_in", {"guest": one, "house": "North"}, answers[0]) for one in guests]
        mixed = [
            call("check_in", {"guest": one, "house": "North"}, answers[n % 3 == 0])
            for n, one in enumerate(guests)
        ]

        assert [] == reported(FailureMemory(), run(*mixed))
        assert [] == reported(FailureMemory(), run(*refused[:5]))
        assert 5 == reported(FailureMemory(), run(*refused))[0]

    def test_a_computation_that_diverges(self):
        """
        The same setting tried again under another name is a loop, a search for a setting that works is none.
        """
        again = [call("train", {"lr": 0.1, "tag": f"run-{n}"}, f"loss nan after {n}.1 s") for n in range(6)]
        search = [call("train", {"lr": 10.0**-n, "tag": "run"}, f"loss nan after {n}.1 s") for n in range(5)]

        assert ["same error"] == names(FailureMemory(), run(*again))
        assert [] == reported(FailureMemory(), run(*search))

    def test_a_deed_that_works_after_a_repair(self):
        """
        A deed that fails and is done again after new work is no loop.
        """
        steps = []
        for lap in range(5):
            steps.append(call("publish", {"slug": "menu"}, f"publish failed: part {lap} has no title"))
            steps.append(call("write_title", {"part": lap, "title": f"Part {lap}"}, "saved"))

        assert [] == reported(FailureMemory(), run(*steps))
        assert [] == reported(RepetitionMemory(), run(*steps))


class TestItems:
    @pytest.mark.parametrize(
        "take",
        [
            lambda item: call("pop", "dead-letter", item),
            lambda item: call("next_report", {"inbox": "bugs"}, item),
            lambda item: call("queue", {"op": "receive", "name": "jobs"}, item),
            lambda item: call("read_dead_letter", {}, item),
            lambda item: shell("aws sqs receive-message --queue-url q", item),
        ],
    )
    def test_tell_of_their_own_failures(self, take):
        """
        An item of a queue may say what it failed at: the call that took it did not fail.
        """
        items = [{"id": 40 + n, "topic": "mail", "error": f"Mailbox {n} is full"} for n in range(6)]
        lines = [f"Error in job-{n}: mailbox of customer {n} is full" for n in "abcdefgh"]

        assert not any(has_failed(take(item)) for item in items)
        assert [] == reported(FailureMemory(), run(*map(take, items)))
        assert [] == reported(FailureMemory(), run(*map(take, lines)))
        assert [] == reported(RepetitionMemory(), run(*map(take, items)))

    @pytest.mark.parametrize("answer", [{"error": "no such queue"}, "Error: no such queue"])
    def test_that_never_come(self, answer):
        """
        A queue that returns the same error each time is a loop, and so is one that the host marks.
        """
        marked = call("pop", {"queue": "jobs"}, None, error="no such queue")

        assert [2, 3, 4] == reported(RepetitionMemory(), run(*[call("pop", {"queue": "jobs"}, answer)] * 5))
        assert [2, 3, 4] == reported(RepetitionMemory(), run(*[marked] * 5))

    def test_an_error_that_the_host_marked(self):
        """
        A call that the host marks as failed counts, though its tool takes items.
        """
        answers = [
            call("pop", {}, None, error=f"{word} is down") for word in ("north", "south", "east", "west")
        ]

        assert reported(FailureMemory(), run(*answers))


class TestReasonsFirst:
    @pytest.mark.parametrize(
        "result",
        [
            "Kiln 305: lid open, cannot fire.",
            "The drawer is jammed, so it could not be opened",
            "Tank empty; unable to pump",
            "There is no 30 February. Choose an existing date.",
            "Sorry, there are no seats in row 40. Please pick another row.",
            "Teal is not a colour of the list: give one of the twelve.",
        ],
    )
    def test_what_hinders(self, result):
        """
        A deed has failed where a short answer names what hinders it, then what follows.
        """
        assert has_failed(call("kiln", [305, "fire biscuit"], result))
        assert has_failed(call("book_room", {"date": "2026-02-30"}, result))

    @pytest.mark.parametrize(
        "result",
        [
            "Booked, you can cancel.",
            "Room Oslo is free on 3 March. Choose a time.",
            "There is no 30 February. " + PAGE,
            "He left early, I cannot tell",
            "Booked. There is no charge. Use the side door.",
        ],
    )
    def test_none(self, result):
        """
        An answer that hinders nothing is none, nor is what a page says.
        """
        assert not has_failed(call("book_room", {"date": "2026-03-03"}, result))

    def test_what_is_read(self):
        """
        What was only read has not failed.
        """
        assert not has_failed(call("read_log", {"day": 4}, "Kiln 305: lid open, cannot fire."))

    def test_other_spellings(self):
        """
        One value refused in the same words, however it is spelt, is the same error.
        """
        dates = ("2026-02-30", "30 Feb 2026", "30.02.2026", "February 30th 2026", "02/30/2026", "2026 02 30")
        answer = "There is no 30 February. Choose an existing date."
        steps = [call("book_room", {"room": "Oslo", "date": it}, answer) for it in dates]

        assert reported(FailureMemory(), run(*steps))
        del steps[4:]
        steps[2:2] = [call("book_room", {"room": "Oslo", "date": "2026-02-28"}, "Booked.")]
        assert [] == reported(FailureMemory(), run(*steps))


class TestTallies:
    @pytest.mark.parametrize(
        "error",
        [
            "a name is required [warning: failed {} times with identical arguments]",
            "a name is required (this is the {}th identical call)",
            "a name is required, rejected {} times",
        ],
    )
    def test_a_tool_that_counts(self, error):
        """
        An error in which a tool counts how often the call failed is the same error each time.
        """
        steps = [failing("forward", {"to": "lamp"}, error.format(n)) for n in range(4, 8)]

        assert [2, 3] == reported(RepetitionMemory(), run(*steps))

    def test_other_counts(self):
        """
        What is counted of other things is news: fewer tests that fail are progress.
        """
        steps = [shell("make test", f"FAILED: {n} tests failed, 2 times") for n in range(9, 3, -1)]

        assert [] == reported(RepetitionMemory(), run(*steps))
