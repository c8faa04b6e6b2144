import msgspec
import pytest
from agent_steps import matches, reported, restored_copy, run, says, shell, user
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.detectors.repetitive_text import ReplyMemory, find_repeated_passage

STILL = "I am still working on it."
SENTENCE = "I will now end the turn and wait for you. "
BEGINNING = "Let me see what the tests say about it, and why the second one is slow. "

TABLE = "| name | value |\n|------|-------|\n" + "| same | the same value |\n" * 20
LIST = "- the same point once more\n" * 20
NUMBERED = "".join(f"{n}. check the same thing again\n" for n in range(20))
CODE = "```python\n" + "print('hello, hello, hello')\n" * 20 + "```\n"
QUOTE = "> he said it again and again\n" * 20
HEADINGS = "## The very same heading\n" * 20
PROSE = (
    "The first test fails because the clock is read twice. The second one is slow: it opens the file anew. "
    "Both can be mended in one place: read the clock once, keep the file open, hand both to the function. "
)


def seen(*steps):
    return reported(ReplyMemory(), run(*steps))


class TestWithinAReply:
    @pytest.mark.parametrize("times", [4, 8, 40])
    def test_a_sentence_again_and_again(self, times):
        """
        A sentence said four times without a break is repetitive.
        """
        assert times == find_repeated_passage(SENTENCE * times).repeats

    def test_an_endless_reply(self):
        """
        Of a reply without end its last part is looked at.
        """
        assert 8192 // len(SENTENCE) == find_repeated_passage(SENTENCE * 100_000).repeats

    def test_three_times_is_none(self):
        """
        Three times is emphasis.
        """
        assert find_repeated_passage(SENTENCE * 3) is None

    def test_short_words_take_longer(self):
        """
        A short word has to come more often, and to fill some space.
        """
        assert find_repeated_passage("no, not yet. " * 5) is None
        assert 9 == find_repeated_passage("no, not yet. " * 9).repeats

    def test_after_an_ordinary_beginning(self):
        """
        A reply that begins well and then gets stuck is repetitive.
        """
        assert find_repeated_passage(BEGINNING + SENTENCE * 10) is not None

    def test_before_an_ordinary_end(self):
        """
        So is one that got stuck and out again.
        """
        assert find_repeated_passage(SENTENCE * 20 + BEGINNING) is not None

    def test_several_sentences_in_turn(self):
        """
        Several sentences that come round again are one repeated passage.
        """
        text = SENTENCE + "Or should I go on? No, I should not. "
        assert find_repeated_passage(text * 6) is not None

    def test_line_by_line(self):
        """
        Plain lines that repeat are repetitive.
        """
        assert find_repeated_passage("wait for the build to end\n" * 12) is not None

    @pytest.mark.parametrize(
        "text",
        [TABLE, LIST, NUMBERED, CODE, QUOTE, HEADINGS, "-" * 300, "=" * 80 + "\n" + PROSE, PROSE, "ha" * 20],
        ids=[
            "table",
            "list",
            "numbers",
            "code",
            "quote",
            "headings",
            "divider",
            "ruled",
            "prose",
            "laughter",
        ],
    )
    def test_what_is_written_so_on_purpose(self, text):
        """
        Lists, tables, code, quotes, headings and dividers may repeat.
        """
        assert find_repeated_passage(text) is None

    def test_an_unfinished_block_of_code(self):
        """
        Neither is code whose end has not come yet, as in a stream.
        """
        assert find_repeated_passage("Here it is:\n" + CODE.removesuffix("```\n")) is None

    def test_it_is_said_what(self):
        """
        The finding quotes what was repeated, and how often.
        """
        (found,) = matches(ReplyMemory(), run(says(SENTENCE * 8))).values()

        assert ("repeated passage", 8, ("run.0",)) == (found.pattern, found.count, found.event_ids)
        assert "8 times in a row" in found.message

    @given(st.text(max_size=400))
    def test_any_text(self, text):
        """
        Any text can be looked at.
        """
        passage = find_repeated_passage(text)

        assert passage is None or passage.repeats >= 4

    @given(st.text(alphabet="abcdefg hij", min_size=20, max_size=60).filter(lambda unit: len(set(unit)) > 6))
    def test_any_long_unit(self, unit):
        """
        Whatever is said over and over is found.
        """
        assert find_repeated_passage(unit * 12) is not None


class TestFromReplyToReply:
    def test_the_third_time(self):
        """
        The same reply a third time, with nothing done in between, is a repeated reply.
        """
        assert [2, 3] == seen(*[says(STILL)] * 4)

    def test_across_a_users_turns(self):
        """
        What the user says in between does not hide it.
        """
        assert [4] == seen(says(STILL), user("go on"), says(STILL), user("please do"), says(STILL))

    def test_in_other_words_across_a_users_turns(self):
        """
        A reply that names nothing but what earlier ones named is the same, whatever the user answers.
        """
        asked = [
            "Which format would you like for the report, PDF or Word?",
            "Would you like the report as PDF or as Word?",
            "Should the report be PDF or Word? Please choose the format.",
        ]
        turns = [step for n in range(5) for step in (says(asked[n % 3]), user(f"PDF, I said it {n} times"))]

        assert [6, 8] == seen(*turns)
        assert [] == seen(*turns[:5], shell("make report", "done"), *turns[:5])

    def test_one_question_after_another(self):
        """
        Questions in equal words about another thing each time are an interview.
        """
        rooms = ("kitchen", "bathroom", "hall", "attic", "cellar", "garage")
        turns = [
            step
            for it in rooms
            for step in (says(f"Which colour would you like for the {it}?"), user("blue"))
        ]

        assert [] == seen(*turns)

    def test_work_between(self):
        """
        The same words after each step are a habit, not a loop.
        """
        assert [] == seen(*[says(STILL), shell("ls", "a")] * 6)

    def test_other_words(self):
        """
        Other words are something new.
        """
        assert [] == seen(*[says(f"Part {n} of the plan is done.") for n in range(9)])

    def test_a_word_or_two(self):
        """
        A very short reply says nothing either way.
        """
        assert [] == seen(*[says("Done.")] * 6)


class TestMemory:
    @given(
        st.lists(
            st.sampled_from([says(STILL), says("Something else."), shell("ls", "a"), user("hm")]), max_size=30
        ),
        st.integers(0, 30),
    )
    def test_put_aside_anywhere(self, steps, cut):
        """
        Put aside after any event and taken up again, it sees the same.
        """
        trace, first = run(*steps), ReplyMemory()
        before = matches(first, trace[:cut])

        assert matches(ReplyMemory(), trace) == before | matches(restored_copy(first), trace[cut:])

    def test_bounded(self):
        """
        Twenty thousand equal replies leave a few ids in memory.
        """
        pattern = ReplyMemory()
        for event in run(*[says(STILL)] * 20_000):
            pattern.observe(event)

        assert len(msgspec.msgpack.encode(pattern)) < 1_000
