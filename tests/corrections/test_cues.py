import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.corrections import conversation, deferred, messages, model
from steadyhelm.corrections.features import CUE_FILES, find_cues, load_cues, score_cues
from steadyhelm.corrections.messages import PACKAGE
from steadyhelm.corrections.model import compute_rarities, count_terms, weigh_terms
from steadyhelm.lexicons import load_lexicon

CUES = load_cues().entries


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
            ("my bad, wrong branch", "user's own doing"),
        ],
    )
    def test_a_turn_of_phrase(self, text, name):
        """
        Each turn of phrase is found under its name.
        """
        assert name in find_cues(text)

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
        assert name not in find_cues(text)

    def test_names_are_unique(self):
        """
        No two cues share a name, so none hides another.
        """
        assert len(CUES) == sum(len(load_lexicon(PACKAGE, name).entries) for name in CUE_FILES)

    @given(st.text(max_size=600), st.sampled_from(["not ", "ok, ", "yes and ", "why is the ", "a-b/c "]))
    def test_no_text_is_slow(self, text, again):
        """
        Every pattern copes with any text and with long repetitions.
        """
        assert isinstance(find_cues((text + again * 150)[:600]), dict)


PATTERNS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": pattern
    for module in (deferred, conversation, messages, model)
    for name, pattern in vars(module).items()
    if isinstance(pattern, re.Pattern)
} | {
    f"{path.stem}: {entry.name}": entry.regex
    for path in Path(messages.__file__).parent.glob("patterns/*.toml")
    for entry in load_lexicon(PACKAGE, path.stem).entries.values()
    if entry.pattern
}


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
        assert "picks an option" not in find_cues(separator.join(pair * 75) + " \x00")


class TestCueScores:
    def test_they_are_sums(self):
        """
        The score of a text is the sum of its cues' weights.
        """
        scores = score_cues(["still", "broken"], ["still"], 5)

        assert pytest.approx(CUES["still"].weight + CUES["broken"].weight) == scores["cue score"]
        assert pytest.approx(CUES["still"].weight) == scores["cue score of the first sentence"]

    def test_a_report_counts_less(self):
        """
        In a review that is passed on, the same cues count for less.
        """
        plain, passed_on = (
            score_cues(["wrong"], ["wrong"], 30, is_report=it)["cue score"] for it in (False, True)
        )

        assert 0 < passed_on < plain

    @given(st.lists(st.sampled_from(sorted(CUES))), st.integers(0, 10_000))
    def test_they_are_bounded(self, names, words):
        """
        No number of cues makes a score without bounds.
        """
        assert all(-4 <= value <= 8 for value in score_cues(names, names, words).values())


class TestTerms:
    def test_words_pairs_and_the_opening(self):
        """
        A text's terms are its words, pairs of neighbours and the word it opens with.
        """
        assert {"^ why", "why", "why not", "not", "not ?", "?"} == set(count_terms("why not?"))

    @given(st.text())
    def test_digits_are_no_terms(self, text):
        """
        No number is ever learnt.
        """
        assert not any(re.search(r"\d", term) for term in count_terms(text.lower()) if term.isascii())

    @given(st.text())
    def test_their_length_is_one(self, text):
        """
        However long a text is, its known terms weigh the same together.
        """
        terms = count_terms(text)
        values = weigh_terms(terms, dict.fromkeys(terms, 2.0)).values()

        assert not values or pytest.approx(1) == sum(value * value for value in values)

    def test_the_rarer_weighs_more(self):
        """
        A term that few texts have weighs more than one that all have.
        """
        texts = [count_terms("still"), count_terms("still red")]

        assert compute_rarities(texts, ["still"])["still"] < compute_rarities(texts, ["red"])["red"]
