"""No regular expression takes long on a text that was made to be slow for it.

What a pattern costs is counted in steps and not timed: the same on every machine, however busy it is.
`python -m benchmarks patterns` measures the time.
"""

import functools
import re

import pytest
from counting_matcher import CountingMatcher, TooManySteps
from hostile_texts import find_distinct_patterns, find_read_chars, is_anchored, write_texts
from hypothesis import given, settings
from hypothesis import strategies as st

TRIED, LENGTH, LONG = 100, 400, 1600
"""Every text is tried with so many characters and twice as many, the hardest ones with more.

Only where the steps still grow too fast it is tried with many more: a repetition may end after some hundreds.
"""
HARDEST = 4
MOST_STEPS_PER_CHARACTER = 230
"""About 40 ms for 80 KiB; the slowest pattern takes 213."""
MOST_GROWTH = 2.2
"""A text of twice the length may take as many times the steps: twice, and some for what happens once."""

PATTERNS = find_distinct_patterns()
SLOW_PATTERNS = {
    "nested repetition": r"(a+)+$",
    "equal alternatives": r"(?:a|a)*b",
    "overlapping alternatives": r"(?:a|b|ab)*c",
    "spaces before a word": r"\s*x",
    "anything before a word": r".*foo",
    "three repetitions": r"a*a*a*b",
    "words to the end": r"(?:\w+\s?)*$",
    "a far condition": r"a(?=.*b)",
    "a lazy distance": r"<.*?>",
    "an optional quote": r"\"?[^\"]*\"x",
    "a doubled text": r"(\w+)-\1=",
    "bytes": rb"\s+$",
    "an ignored case": r"(?i)[a-z]*\d",
    "a condition before": r"(?<![.])\w+@",
}


def encode(pattern, text):
    """Return a text in the form that the pattern is for."""
    return text.encode("utf-8", "replace") if isinstance(pattern.pattern, bytes) else text


make_matcher = functools.lru_cache(maxsize=1)(CountingMatcher)


def count_steps(name, pattern, text):
    """Return how many steps a pattern takes where the package applies it: anywhere, or at one place."""
    matcher = make_matcher(pattern)
    matcher.steps, matcher.most_steps = 0, 2 * MOST_STEPS_PER_CHARACTER * len(text)
    text = encode(pattern, text[: find_read_chars(name)])
    try:
        if is_anchored(name):
            matcher.match(text)
            matcher.fullmatch(text)
        else:
            matcher.find_all(text)
    except TooManySteps:
        pass
    return matcher.steps


def measure(name, pattern, length, places=None):
    """Return growth and steps a character, by the places of the texts among those made for a pattern."""
    texts = zip(write_texts(pattern, length), write_texts(pattern, 2 * length), strict=True)
    figures = {}
    for place, (text, longer) in enumerate(texts):
        if places is None or place in places:
            once = count_steps(name, pattern, text) / len(text)
            twice = count_steps(name, pattern, longer) / len(longer)
            figures[place] = 2 * twice / once if once else 0.0, twice
    return figures


def find_hardest(name, pattern):
    """Return the places of the texts that are worth counting at length: the steepest and the slowest."""
    figures = measure(name, pattern, TRIED)
    steepest = sorted(figures, key=lambda place: figures[place], reverse=True)[:HARDEST]
    return {*steepest, max(figures, key=lambda place: figures[place][1])}


def find_faults(name, pattern):
    """Return what is wrong with a pattern: that its steps grow too fast, or are too many."""
    hardest = find_hardest(name, pattern)
    for length in (LENGTH, LONG):
        figures = measure(name, pattern, length, hardest).values()
        growth, steps = (max(figure) for figure in zip(*figures, strict=True))
        if growth <= MOST_GROWTH or steps > MOST_STEPS_PER_CHARACTER:
            break
    faults = {f"grows by {growth:.2f}": growth > MOST_GROWTH}
    faults[f"takes {steps:.0f} steps a character"] = steps > MOST_STEPS_PER_CHARACTER
    return [fault for fault, is_there in faults.items() if is_there]


class TestEveryPattern:
    def test_all_are_found(self):
        """
        The patterns of lexicons, modules and single calls are among those that are tried.
        """
        names = "\n".join(name for name, _ in PATTERNS)

        assert len(PATTERNS) > 300
        assert "steadyhelm.redaction.vendor_tokens: GitHub token" in names
        assert "steadyhelm.noise._VOLATILE" in names

    @pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=[name for name, _ in PATTERNS])
    def test_it_is_linear(self, name, pattern):
        """
        A hostile text takes few steps a character, and one of twice the length takes twice the steps.
        """
        assert [] == find_faults(name, pattern)


class TestTheCount:
    @pytest.mark.parametrize("source", SLOW_PATTERNS.values(), ids=SLOW_PATTERNS)
    def test_a_slow_pattern_is_noticed(self, source):
        """
        Patterns that take quadratic or exponential time have the texts and the steps that show it.
        """
        assert find_faults("planted.slow", re.compile(source))

    @pytest.mark.parametrize(
        "source", [r"[a-f]", r"\w+", r"a++", r"(?>a?)b", r"^\s*x", r"\bfoo|bar\b", rb"\d+"]
    )
    def test_an_ordinary_one_is_not(self, source):
        """
        Patterns that look at each character once or a few times are linear.
        """
        assert [] == find_faults("planted.ordinary", re.compile(source))


class TestTheMatcher:
    @pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=[name for name, _ in PATTERNS])
    def test_it_finds_what_the_engine_finds(self, name, pattern):
        """
        On hostile texts its matches and their groups are those of `re`: it counts the work that is done.
        """
        for text in write_texts(pattern, 40):
            compare_with_engine(pattern, encode(pattern, text))

    @settings(max_examples=400)
    @given(data=st.data())
    def test_it_finds_it_in_any_text(self, data):
        """
        So they are on texts that are made of pieces of hostile ones and of anything else.
        """
        _, pattern = data.draw(st.sampled_from(PATTERNS))
        pieces = [piece for text in write_texts(pattern, 30) for piece in (text[:30], text[:7])]
        parts = st.one_of(
            st.sampled_from(pieces), st.text(max_size=5), st.sampled_from("\n \u0130\u017f\u212aK")
        )
        compare_with_engine(pattern, encode(pattern, "".join(data.draw(st.lists(parts, max_size=6)))))

    @given(
        source=st.sampled_from(
            [
                r"(a|ab)(c|bcd)*?(d*)\b",
                r"(?:(a)|b)*\1?",
                r"(?i)(\w)\1|[^k]$",
                r"(?s)(?:a.?){2,3}?(?=b|\Z)",
                r"(?m)^(?:a*|b)*$|(?<=a)b",
                r"(?:a?|b)*+c|\B",
                r"(?i:\u017f)k|(?-i:K)|",
            ]
        ),
        text=st.text(alphabet="abcdkK\u212aS\u017fs \n", max_size=14),
    )
    def test_it_knows_what_no_pattern_of_ours_uses(self, source, text):
        """
        So they are for nested, empty, lazy and possessive repetitions, groups and flags of all kinds.
        """
        compare_with_engine(re.compile(source), text)


def compare_with_engine(pattern, text):
    """Assert that matcher and engine find the same."""
    matcher = make_matcher(pattern)
    matcher.most_steps = 10**9

    assert [match.regs for match in pattern.finditer(text)] == matcher.find_all(text)
    for way in ("match", "fullmatch"):
        found = getattr(pattern, way)(text)
        assert (found and found.regs) == getattr(matcher, way)(text)
