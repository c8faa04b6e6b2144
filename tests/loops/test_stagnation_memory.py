import msgspec
import pytest
from agent_steps import (
    call,
    edit,
    failing,
    matches,
    names,
    reported,
    restored_copy,
    run,
    shell,
    user,
    write,
)
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.detectors.stagnation import StagnationMemory
from steadyhelm.testing.traces import healthy

PLACES = (
    "north gate",
    "river bank",
    "old mill",
    "high street",
    "town hall",
    "east wing",
    "south pier",
    "dark wood",
)
QUESTIONS = (
    "what lies at the north gate",
    "river bank view",
    "describe the old mill please",
    "high street shops",
    "is there anything in the town hall to see",
    "east wing",
    "go south to the pier",
    "dark wood, look around",
)
HITS = "Oslo from 49 euros\nOslo by night train\nFerries to Oslo"
FLIGHTS = (
    "cheap flights to oslo",
    "cheap flights oslo norway",
    "flights to oslo cheap",
    "cheap oslo flights may",
)
STEPS = (
    *(call("look", {"at": place}, "a wall of stone") for place in PLACES[:3]),
    *(call("search", {"query": words}, HITS) for words in FLIGHTS),
    write("a", "x"),
    user("go on"),
    shell("ls", ""),
)


def seen(*steps):
    return reported(StagnationMemory(), run(*steps))


def arguments(*results, of="look"):
    return [
        call(of, {"query": question}, result)
        for question, result in zip(QUESTIONS * 3, results, strict=False)
    ]


class TestSameAnswer:
    def test_the_sixth_time(self):
        """
        Other questions that get the same answer six times over are stagnation.
        """
        assert [5] == seen(*arguments(*["a wall of stone"] * 6))

    def test_noise_does_not_hide_it(self):
        """
        How long each answer took does not make it another answer.
        """
        assert [5] == seen(*arguments(*[f"a wall of stone ({n + 8} ms)" for n in range(6)]))

    def test_one_word_apart_the_third_time(self):
        """
        Nearly the same question, with the same answer, takes three.
        """
        patterns = ("scroll|pan|move", "pan|scroll|move", "move|pan|scroll")

        assert [2] == seen(*[call("look", {"at": it}, "a wall of stone") for it in patterns])

    def test_a_value_apart_is_a_batch(self):
        """
        The same short answer about another thing each time is a batch: noticed once it is long, no loop.
        """
        paths = [f"/srv/data/files/of/the/old/project/part/{n}" for n in range(25)]
        steps = [call("look", {"at": path, "how": "one by one"}, "a wall of stone") for path in paths]

        assert [] == seen(*steps)
        assert "batch" == matches(StagnationMemory(), run(*steps))[11].declare

    def test_a_counter_that_changes_nothing(self):
        """
        A whole page that comes back for every number is no batch: the number changes nothing.
        """
        page = "The service is being moved to another place. " * 6
        steps = [call("get", {"url": f"https://shop.example/?n={n}"}, page) for n in range(12)]

        assert [11] == seen(*steps)

    def test_an_echo_of_short_words_and_signs_does_not_hide_it(self):
        """
        A question that is quoted as a whole is an echo, also where its words are short.
        """
        names = ("Rosa Gupta", "Gupta, Rosa", "R. Gupta", "Gupta", "Rosa G.", "Gupta Rosa")
        answer = 'No customer matches "{}" (0 of 18,223 records searched).'
        asked = [call("customer_search", {"name": it}, answer.format(it)) for it in names]

        assert seen(*asked)

    def test_the_echo_of_a_question_does_not_hide_it(self):
        """
        An answer that differs only in the words of the question is the same answer.
        """
        names_tried = ("ledger", "ledgers", "Ledger", "ledger_id", "get_ledger")

        assert [3] == seen(
            *[call("find", {"name": it}, f"no symbol {it} in this project") for it in names_tried]
        )

    def test_one_short_word_after_another(self):
        """
        Other things asked for by one word each are other questions, not the same one reworded.
        """
        words = ("alpha", "beta", "gamma", "delta")

        assert {} == matches(
            StagnationMemory(), run(*[call("Grep", {"pattern": it}, "Found src/a.py") for it in words])
        )

    def test_nothing_found_is_patient(self):
        """
        "Nothing found" may rightly come many times about other things.
        """
        assert [] == seen(*arguments(*["No matches found"] * 20))
        assert [] == seen(*arguments(*[""] * 20))

    @pytest.mark.parametrize("verdict", ["valid", "200 OK", "positive", "true", "in stock"])
    def test_a_verdict_on_each_item_is_no_standstill(self, verdict):
        """
        A batch that gets the same word or two for every item gets on with each of them.
        """
        assert [] == seen(*arguments(*[verdict] * 20))

    def test_a_new_answer_is_progress(self):
        """
        One other answer begins anew.
        """
        assert [] == seen(*arguments(*["a wall"] * 4, "a door", *["a wall"] * 3))

    def test_the_same_question_is_left_to_others(self):
        """
        The same question again is a repetition, and told as that.
        """
        assert {} == matches(StagnationMemory(), run(*[shell("cat a", "the text")] * 9))

    def test_one_batch(self):
        """
        Questions asked at once learn nothing from each other.
        """
        assert [] == seen(arguments(*["a wall of stone"] * 8))

    @pytest.mark.parametrize("between", [edit("a", "x", "y"), user("look elsewhere")])
    def test_progress_between(self, between):
        """
        New work and a user's new words begin anew.
        """
        steps = arguments(*["a wall of stone"] * 6)

        assert [] == seen(*steps[:3], between, *steps[3:])

    @pytest.mark.parametrize(
        "make",
        [
            lambda n: write(f"{n}.txt", f"text {n}"),
            lambda n: shell(f"mkdir out/{n}", ""),
            lambda n: call("TodoWrite", {"todos": [n]}, "noted down"),
            lambda n: call("wait_for", {"what": n}, "it is not there yet"),
            lambda n: failing("look", {"at": PLACES[n % 8]}, f"fault {n}"),
        ],
        ids=["writing", "shell work", "planning", "waiting", "failing"],
    )
    def test_what_is_no_question(self, make):
        """
        Work, plans, waiting and failures are not questions.
        """
        assert [] == seen(*[make(n) for n in range(12)])

    def test_reading_many_files(self):
        """
        Reading one file after another is work.
        """
        assert [] == seen(*[call("Read", {"file_path": f"{n}.py"}, f"class C{n}: ...") for n in range(40)])

    def test_told_when_it_doubles(self):
        """
        Stagnation that goes on is told again when it has doubled.
        """
        steps = [
            call(
                "look",
                {"query": f"{'abcdefgh'[n % 8] * 9} {'far ' * (n % 3)}hill {n}"},
                "a wall of grey stone",
            )
            for n in range(30)
        ]

        assert [5, 11, 23] == seen(*steps)


class TestRewordedSearch:
    def test_the_fourth_time(self):
        """
        One question in ever other words that finds the same is a loop at the fourth.
        """
        steps = [call("search", {"query": words}, f"{HITS}\nadvert {words}") for words in FLIGHTS]

        assert [3] == seen(*steps)
        assert ["reworded search"] == names(StagnationMemory(), run(*steps))

    @pytest.mark.parametrize("argument", ["text", "input", "searchTerm"])
    def test_whatever_the_question_is_called(self, argument):
        """
        A tool that searches by its name may call the question as it likes; another tool's text is none.
        """
        steps = [(argument, f"{words}", f"{HITS}\nadvert {words}") for words in FLIGHTS]

        assert [3] == seen(*[call("vector_search", {name: words}, hits) for name, words, hits in steps])
        assert [] == seen(*[call("speak", {name: words}, hits) for name, words, hits in steps])

    def test_a_question_like_some_of_those_before(self):
        """
        A loop is reported also when the number of similar questions skips the fourth.
        """
        questions = (
            "retry backoff configuration",
            "how is the retry backoff set",
            "backoff settings for retry",
            "retry policy backoff config location",
            "configure backoff of retries",
            "where is retry backoff configured",
        )

        assert seen(*[call("search", {"query": it}, f"{HITS}\nfaq") for it in questions])

    def test_with_new_results(self):
        """
        Results that are all new are progress, however the question is worded.
        """
        assert [] == seen(*[call("search", {"query": words}, f"about {words}") for words in FLIGHTS])

    def test_a_value_in_one_place(self):
        """
        One question about another thing each time is a batch, whatever it finds.
        """
        months = ("january", "february", "march", "april", "may", "june")

        assert [] == seen(*[call("search", {"query": f"sales report of {it} 2025"}, HITS) for it in months])

    def test_other_questions(self):
        """
        Questions about other things are work.
        """
        things = (
            "oslo harbour history",
            "norway salmon export",
            "fjord ferry timetable",
            "bergen rain statistics",
        )

        assert [] == seen(*[call("search", {"query": words}, words) for words in things * 2])

    def test_the_same_words_with_new_answers(self):
        """
        The very same search whose answer changes is polling.
        """
        assert [] == seen(*[call("search", {"query": FLIGHTS[0]}, f"{n} offers") for n in range(9)])

    def test_page_after_page(self):
        """
        The same search read page by page is work.
        """
        pages = [call("search", {"query": FLIGHTS[0], "page": n}, f"page {n} of offers") for n in range(9)]

        assert [] == seen(*pages)

    def test_an_outage(self):
        """
        A search engine that is down may be asked again.
        """
        assert [] == seen(
            *[failing("search", {"query": words}, "429 Too Many Requests") for words in FLIGHTS]
        )

    def test_one_batch(self):
        """
        A question asked at once in several wordings is one decision.
        """
        assert [] == seen([call("search", {"query": words}, words) for words in FLIGHTS])

    def test_new_work_between(self):
        """
        After new work the same may be asked again.
        """
        steps = [call("search", {"query": words}, words) for words in FLIGHTS]

        assert [] == seen(*steps[:2], write("notes", "x"), *steps[2:])


class TestMemory:
    @given(st.lists(st.sampled_from(STEPS), max_size=40), st.integers(0, 40))
    def test_put_aside_anywhere(self, steps, cut):
        """
        Put aside after any event and taken up again, it sees the same.
        """
        trace, first = run(*steps), StagnationMemory()
        before = matches(first, trace[:cut])

        assert matches(StagnationMemory(), trace) == before | matches(restored_copy(first), trace[cut:])

    @given(st.lists(st.sampled_from(["ls", "pwd", "cat a", "pytest", "grep -rn x ."]), max_size=60))
    def test_where_every_result_is_new(self, commands):
        """
        A run in which every result is new is never stagnation.
        """
        assert [] == seen(*[shell(command, f"result number {n}") for n, command in enumerate(commands)])

    def test_bounded(self):
        """
        Twenty thousand events leave no more in memory than a thousand do.
        """
        pattern, sizes = StagnationMemory(), []
        for event in healthy(20_000):
            pattern.observe(event)
            if event.seq in {999, 19_999}:
                sizes.append(len(msgspec.msgpack.encode(pattern)))

        assert sizes[1] < 2 * sizes[0]
