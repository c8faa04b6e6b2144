import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.corrections import (
    accord,
    attribution,
    before,
    contentment,
    manner,
    outlook,
    reading,
    shapes,
)
from steadyhelm.corrections.cues import CUES, found_in, leanings
from steadyhelm.corrections.terms import rarities, terms_of, weighed


class TestCues:
    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("the build fails", "failing"),
            ("it does not work", "does not work"),
            ("nothing happens", "no effect"),
            ("there is no button", "there is none"),
            ("since the last change it hangs", "since the change"),
            ("you never ran it", "you did not"),
            ("i meant the other one", "I meant"),
            ("shouldn't this be sorted?", "doubting question"),
            ("the second one, not the first", "this, not that"),
            ("better, but the edge is off", "good, but"),
            ("please roll back", "undo"),
            ("ok, hold on", "opens with stop"),
            ("nah", "opens with no"),
            ("ok, but why", "opens with but"),
            ("ugh", "opens with a sigh"),
            ("yes", "opens with yes"),
            ("go with option b", "picks an option"),
            ("ok now commit it", "ships"),
            ("my bad, wrong branch", "own doing"),
        ],
    )
    def test_a_turn_of_phrase(self, text, name):
        """
        Each turn of phrase is found under its name.
        """
        assert name in found_in(text)

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("the failsafe", "failing"),
            ("no problem", "opens with no"),
            ("no problem", "bug"),
            ("okra", "opens with yes"),
            ("a yes or no question", "opens with yes"),
            ("the stopwatch", "opens with stop"),
        ],
    )
    def test_what_only_looks_alike(self, text, name):
        """
        Part of a word, or a word in another place, is no cue.
        """
        assert name not in found_in(text)

    def test_names_are_unique(self):
        """
        No two cues share a name, so none hides another.
        """
        from steadyhelm.corrections.assents import ASSENTS
        from steadyhelm.corrections.objections import OBJECTIONS
        from steadyhelm.corrections.protests import PROTESTS
        from steadyhelm.corrections.remarks import REMARKS

        assert len(CUES) == len((*OBJECTIONS, *PROTESTS, *REMARKS, *ASSENTS))

    @given(st.text(max_size=600), st.sampled_from(["not ", "ok, ", "yes and ", "why is the ", "a-b/c "]))
    def test_no_text_is_slow(self, text, again):
        """
        Every pattern copes with any text and with long repetitions.
        """
        assert isinstance(found_in((text + again * 150)[:600]), dict)


PATTERNS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": pattern
    for module in (accord, attribution, before, contentment, manner, outlook, reading, shapes)
    for name, pattern in vars(module).items()
    if isinstance(pattern, re.Pattern)
} | {f"cue: {cue.name}": cue.pattern for cue in CUES.values()}


SEPARATORS = (" ", ", ", ". ", " \n", "'", "-", "  ,")
SIGNS = ("a", "A", "aA", "_", "a_", "-", ".", "/", "a/", "a.", "~", " ", "\n", "`", "1")


class TestRepetition:
    # A pattern that can read its own words in two ways takes twice as long for each of them: it hangs.

    @pytest.mark.parametrize("pattern", PATTERNS.values(), ids=list(PATTERNS))
    def test_a_pattern_on_its_own_words(self, pattern):
        """
        Every pattern comes to an end on the words it is made of, together and each by itself.
        """
        turns = re.findall(r"[a-z']{1,20}(?: [a-z']{1,20})*", pattern.pattern)
        words = {*turns, *(word for turn in turns for word in turn.split())}
        texts = [(word + between) * 75 for word in words for between in SEPARATORS]
        texts += [between.join(turns * 75)[:2048] for between in SEPARATORS]

        assert len(texts) == len([pattern.search(text + "\x00") for text in texts])

    @pytest.mark.parametrize("pattern", PATTERNS.values(), ids=list(PATTERNS))
    def test_a_pattern_on_long_words(self, pattern):
        """
        So it does on as long a word as is ever looked at.
        """
        texts = [(sign * 2048)[:2048] + "\x00" for sign in SIGNS]

        assert len(texts) == len([pattern.findall(text) for text in texts])

    @pytest.mark.parametrize("pair", [("go", "with"), ("with", "go with"), ("i", "think"), ("let's", "do")])
    @pytest.mark.parametrize("separator", [" ", ", ", ". "])
    def test_a_choice_that_is_never_made(self, pair, separator):
        """
        However often one sets out to choose, nothing is chosen.
        """
        assert "picks an option" not in found_in(separator.join(pair * 75) + " \x00")


class TestLeanings:
    def test_they_are_sums(self):
        """
        A text leans by the sum of its cues.
        """
        leans = leanings(["still", "broken"], ["still"], 5)

        assert pytest.approx(CUES["still"].leans + CUES["broken"].leans) == leans["leans"]
        assert pytest.approx(CUES["still"].leans) == leans["leans first"]

    def test_a_report_counts_less(self):
        """
        In a review that is passed on, the same cues count for less.
        """
        plain, passed_on = (leanings(["wrong"], ["wrong"], 30, is_report=it)["leans"] for it in (False, True))

        assert 0 < passed_on < plain

    @given(st.lists(st.sampled_from(sorted(CUES))), st.integers(0, 10_000))
    def test_they_are_bounded(self, names, words):
        """
        No heap of cues makes a text lean without end.
        """
        assert all(-4 <= value <= 8 for value in leanings(names, names, words).values())


class TestTerms:
    def test_words_pairs_and_the_opening(self):
        """
        A text's terms are its words, pairs of neighbours and the word it opens with.
        """
        assert {"^ why", "why", "why not", "not", "not ?", "?"} == set(terms_of("why not?"))

    @given(st.text())
    def test_digits_are_no_terms(self, text):
        """
        No number is ever learnt.
        """
        assert not any(re.search(r"\d", term) for term in terms_of(text.lower()) if term.isascii())

    @given(st.text())
    def test_their_length_is_one(self, text):
        """
        However long a text is, its known terms weigh the same together.
        """
        terms = terms_of(text)
        values = weighed(terms, dict.fromkeys(terms, 2.0)).values()

        assert not values or pytest.approx(1) == sum(value * value for value in values)

    def test_the_rarer_weighs_more(self):
        """
        A term that few texts have weighs more than one that all have.
        """
        texts = [terms_of("still"), terms_of("still red")]

        assert rarities(texts, ["still"])["still"] < rarities(texts, ["red"])["red"]
