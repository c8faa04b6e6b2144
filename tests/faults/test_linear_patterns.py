"""No regular expression takes long on a text that was made to be slow for it."""

import re
import time

import pytest
from hostile_texts import find_patterns, find_uses, write_texts

SMALL, LARGE = 1024, 80 * 1024
MOST_S = 0.02
REFERENCE = re.compile(r"\w")
REFERENCE_S = 0.006
"""What the reference takes on 80 KiB of single letters; a pattern is measured beside it."""
MOST_TIMES = 2 * MOST_S / REFERENCE_S
"""Twice what an idle machine allows: a busy one does not slow down all patterns alike."""
MOST_GROWTH = 3.0
"""A text of twice the length may take as many times as long: twice, and some for what is measured with it."""
QUICK_S = MOST_S * SMALL / LARGE / 2
"""A small text that takes less than this is no danger, even where the time grows with the square of it."""
TRIES = 40
"""Other work of the machine makes a time longer and never shorter, so one good try is enough."""

READ_CHARS = {
    "_SHORT_VALUE": 240,
    "_LONG_VALUE": 240,
    "_LOGIN_BEFORE": 80,
    "_SAID_BEFORE": 80,
    "_SLASH_COMMAND": 8192,
    "_TOKEN": 800,
}
"""Patterns that are applied to at most so many characters of a text; `_TOKEN` reads our own patterns."""

PATTERNS = list(
    {(pattern.pattern, pattern.flags): (name, pattern) for name, pattern in find_patterns()}.values()
)


def measure(run, text):
    """Return the processor time that going through a text takes."""
    began = time.thread_time()
    run(text)
    return time.thread_time() - began


def compare(run, text, other_run, other_text):
    """Yield how many times as long the first takes as the second, measured side by side, a few times."""
    least, least_other = float("inf"), float("inf")
    for _ in range(TRIES):
        least_other = min(least_other, measure(other_run, other_text))
        least = min(least, measure(run, text))
        yield least / least_other


def run_reference(text):
    for _ in REFERENCE.finditer(text):
        pass


def use(name, pattern):
    """Return a function that applies a pattern to a text as the package does: anywhere, or at one place."""
    is_anchored = find_uses(name) and find_uses(name) <= {"match", "fullmatch"}
    is_bytes = isinstance(pattern.pattern, bytes)
    most = READ_CHARS.get(name.rpartition(".")[2], LARGE)

    def run(text):
        text = text[:most]
        text = text.encode("utf-8", "replace") if is_bytes else text
        if is_anchored:
            pattern.match(text)
            pattern.fullmatch(text)
        else:
            for _ in pattern.finditer(text):
                pass

    return run


def find_slowest(run, pattern):
    """Return the text on which a pattern takes longest, of those made for it."""
    slowest, most = "", 0.0
    for text in write_texts(pattern, SMALL):
        took = measure(run, text)
        if took > most:
            slowest, most = text, took
    return slowest, most


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
        80 KiB of hostile text take 20 ms on an ordinary machine, and twice the text takes twice the time.
        """
        run = use(name, pattern)
        text, took = find_slowest(run, pattern)
        if took < QUICK_S:
            return
        large = (text * (LARGE // len(text) + 1))[:LARGE]
        half, whole = large[: LARGE // 16], large[: LARGE // 8]

        assert any(growth < MOST_GROWTH for growth in compare(run, whole, run, half))
        assert any(times < MOST_TIMES for times in compare(run, large, run_reference, "a." * (LARGE // 2)))
