import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.loops.loop_detector import hash_text, split_words, word_overlap

WORDS = st.lists(st.sampled_from(["find", "pan", "scroll", "mouse", "menu", "grep"])).map(
    lambda words: split_words(" ".join(words).encode())
)


class TestLikeness:
    def test_order_does_not_matter(self):
        """
        The same words in another order are the same words.
        """
        assert 1.0 == word_overlap(
            split_words(b"cheap flights to Oslo"), split_words(b"Oslo: flights to, cheap!")
        )

    def test_case_does_not_matter(self):
        """
        Neither do capitals.
        """
        assert split_words(b"Cheap FLIGHTS") == split_words(b"cheap flights")

    def test_the_share_they_have_in_common(self):
        """
        Three words in common of five used are three fifths.
        """
        assert 0.6 == word_overlap(split_words(b"find pan scroll one"), split_words(b"find pan scroll two"))

    def test_nothing_in_common(self):
        """
        Other words are nothing alike.
        """
        assert 0.0 == word_overlap(split_words(b"one two three"), split_words(b"four five six"))

    def test_nothing_asked(self):
        """
        Two calls that ask nothing are alike.
        """
        assert 1.0 == word_overlap(split_words(b"{}"), split_words(b""))

    @given(WORDS, WORDS)
    def test_a_share_either_way(self, one, other):
        """
        It is a share between 0 and 1, the same in both directions, and 1 for itself.
        """
        assert 0.0 <= word_overlap(one, other) == word_overlap(other, one) <= 1.0
        assert 1.0 == word_overlap(one, one)

    def test_a_very_long_call(self):
        """
        Of a very long call its first words are kept.
        """
        assert 200 == len(split_words(b" ".join(b"w%d" % n for n in range(5_000))))


class TestKey:
    @given(st.text(max_size=30), st.text(max_size=30))
    def test_equal_texts_have_equal_keys(self, one, other):
        """
        Any text has a key, half a surrogate pair or not, and texts with different keys are different.
        """
        assert hash_text(one) == hash_text(other) or one != other

    @pytest.mark.parametrize("place", [0, 20_000, 39_999])
    def test_a_long_text_by_its_ends_and_length(self, place):
        """
        A change at either end of a very long text is noticed, one in its middle only by the length.
        """
        text = "x" * 40_000
        changed = f"{text[:place]}y{text[place + 1 :]}"

        assert (place == 20_000) == (hash_text(text) == hash_text(changed))
        assert hash_text(text) != hash_text(text + "x")
