import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.baselines import BaselineStats
from steadyhelm.embedders.idf import (
    BUCKETS,
    CHARS_READ,
    Idf,
    add_run_words,
    count_words,
    halve_counts,
    mark_words,
)

NOTHING_LEARNT = BaselineStats(agent_id="a")
GOAL = "find the cheapest flight to Oslo"
TEXTS = st.text(alphabet="abcdefg .,\n0é", max_size=200)


def learnt(*outputs):
    """A baseline whose runs each said one of these."""
    counts = b""
    for output in outputs:
        bitmap = bytearray(BUCKETS // 8)
        mark_words(bitmap, count_words(output))
        counts = add_run_words(counts, bytes(bitmap))
    return BaselineStats(agent_id="a", word_runs=len(outputs), word_counts=counts)


class TestWords:
    def test_words_are_counted_in_any_case(self):
        """
        A word counts however it is written.
        """
        assert [3] == list(count_words("Oslo oslo OSLO").values())

    def test_short_words_and_numbers_are_left_out(self):
        """
        Numbers and words of one or two letters say nothing.
        """
        assert not count_words("is it 2024 or 12_34 ?!")

    def test_only_the_beginning_is_looked_at(self):
        """
        Of a long text the first 512 characters count.
        """
        assert count_words("a " * (CHARS_READ // 2) + "Oslo") == count_words("")

    def test_words_are_kept_as_hashes(self):
        """
        A count never holds the word itself.
        """
        assert all(isinstance(word, int) for word in count_words("flight to Oslo"))


class TestSimilarity:
    @given(TEXTS, TEXTS)
    def test_it_lies_between_0_and_1(self, goal, text):
        """
        Whatever the texts are, their similarity is from 0 to 1, learnt words or not.
        """
        for baseline in (NOTHING_LEARNT, learnt(*["abc abcd abcde"] * 6)):
            assert 0.0 <= Idf().similarity(goal, text, baseline) <= 1.0

    @given(TEXTS.filter(count_words))
    def test_a_text_is_nearest_to_itself(self, text):
        """
        A text with words in it has similarity 1 to itself.
        """
        baseline = learnt(*["abc abcd abcde"] * 6)

        assert math.isclose(1.0, Idf().similarity(text, text, baseline))

    def test_nothing_in_common(self):
        """
        Texts without a common word have similarity 0.
        """
        assert 0.0 == Idf().similarity(GOAL, "poems about winter", NOTHING_LEARNT)

    def test_words_that_carry_nothing_do_not_count(self):
        """
        Before anything is learnt, sharing "the" and "and" is no similarity.
        """
        assert 0.0 == Idf().similarity("the cat and dog", "the sun and moon", NOTHING_LEARNT)

    @pytest.mark.parametrize("text", ["", "...", "12 34"])
    def test_a_text_without_words_is_far_from_everything(self, text):
        """
        A goal or an output without words has similarity 0, even to itself.
        """
        assert (
            0.0
            == Idf().similarity(text, text, NOTHING_LEARNT)
            == Idf().similarity(GOAL, text, NOTHING_LEARNT)
        )

    def test_a_word_every_run_says_counts_little(self):
        """
        Once learnt, a word of every output counts less than a rare one.
        """
        baseline = learnt(*["processing request number"] * 6)
        usual = Idf().similarity("processing flight", "processing done", baseline)
        rare = Idf().similarity("processing flight", "flight done", baseline)

        assert usual < 0.1 < rare

    def test_four_runs_are_not_enough(self):
        """
        What is rare counts from the fifth run on.
        """
        four, five = (learnt(*["processing request"] * runs) for runs in (4, 5))
        texts = ("processing flight", "processing done")

        assert Idf().similarity(*texts, NOTHING_LEARNT) == Idf().similarity(*texts, four)
        assert Idf().similarity(*texts, five) < Idf().similarity(*texts, four)

    def test_one_agents_words_are_not_anothers(self):
        """
        An embedder that was used with one baseline judges by the other when it is given the other.
        """
        one, other = learnt(*["flight Oslo"] * 6), learnt(*["hotel Rome"] * 6)
        shared = Idf()
        shared.similarity(GOAL, "flight found", one)

        assert Idf().similarity(GOAL, "flight found", other) == shared.similarity(GOAL, "flight found", other)

    def test_many_goals_are_not_all_kept(self):
        """
        A thousand goals leave no thousand vectors behind, and the first is still judged alike.
        """
        embedder = Idf()
        before = embedder.similarity(GOAL, "flight to Oslo", NOTHING_LEARNT)
        for n in range(1000):
            embedder.similarity(f"{GOAL} {'x' * n}", "flight", NOTHING_LEARNT)

        assert len(embedder._goals) <= 8
        assert before == embedder.similarity(GOAL, "flight to Oslo", NOTHING_LEARNT)


class TestCounts:
    def test_counts_do_not_overflow(self):
        """
        A word in more runs than a byte can count stays at the most a byte can hold.
        """
        (oslo,) = count_words("Oslo")

        assert 255 == learnt(*["Oslo"] * 300).word_counts[oslo % BUCKETS]

    def test_halved(self):
        """
        The past counts half.
        """
        assert bytes([0, 0, 1, 127]) == halve_counts(bytes([0, 1, 2, 255]))


class TestScale:
    def test_similarities_stay_comparable_while_runs_are_learnt(self):
        """
        The same words said in every run are as near to the goal after two hundred runs as after twenty.
        """
        said = "The cheapest flight to Oslo"
        early, late = (learnt(*["cheapest flight", "hotel found"] * (runs // 2)) for runs in (20, 200))

        assert math.isclose(
            Idf().similarity(GOAL, said, early), Idf().similarity(GOAL, said, late), rel_tol=1e-9
        )
