"""How long the slowest regular expressions take on texts that were made to be slow for them.

`tests/faults/test_linear_patterns.py` counts their steps; this measures the time, beside a reference.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measures import Measure, from_repeats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "faults"))

from hostile_texts import find_distinct_patterns, find_read_chars, is_anchored, write_texts

NAME = "patterns"
SMALL, LARGE = 1024, 80 * 1024
REFERENCE = re.compile(r"\w")
REFERENCE_TEXT = "a." * (LARGE // 2)
BAR, AIM = 6.7, 3.3
"""The reference takes 6 ms on an ordinary machine: the aim is 20 ms for 80 KiB, the bar is twice that."""
SLOWEST = 12


def run(*, quick: bool) -> list[Measure]:
    """Measure the slowest patterns on 80 KiB each, in turn with the reference, and twice the text."""
    patterns = find_distinct_patterns()
    tried = [_find_slowest(name, pattern) for name, pattern in (patterns[:20] if quick else patterns)]
    tried.sort(key=lambda one: one[0], reverse=True)
    return [
        measure
        for _, name, apply, text in tried[:SLOWEST]
        for measure in _measure(name, apply, text, quick=quick)
    ]


def _find_slowest(name: str, pattern: re.Pattern) -> tuple[float, str, Callable[[str], None], str]:
    apply = _make_use(name, pattern)
    took, text = max((_time(apply, text), text) for text in write_texts(pattern, SMALL))
    return took, name, apply, text


def _make_use(name: str, pattern: re.Pattern) -> Callable[[str], None]:
    """Return a function that applies a pattern to a text as the package does: anywhere, or at one place."""
    at_start, is_bytes, most = is_anchored(name), isinstance(pattern.pattern, bytes), find_read_chars(name)

    def apply(text: str) -> None:
        read = text[:most].encode("utf-8", "replace") if is_bytes else text[:most]
        if at_start:
            pattern.match(read)
            pattern.fullmatch(read)
        else:
            for _ in pattern.finditer(read):
                pass

    return apply


def _measure(name: str, apply: Callable[[str], None], text: str, *, quick: bool) -> Iterator[Measure]:
    large = (text * (LARGE // len(text) + 1))[:LARGE]
    times, growths = [], []
    for _ in range(2 if quick else 9):
        reference = _time(_apply_reference, REFERENCE_TEXT)
        half, whole = _time(apply, large[: LARGE // 2]), _time(apply, large)
        times.append(whole / reference)
        growths.append(whole / half)
    yield from_repeats(NAME, f"{name}, 80 KiB, times the reference", times, "x", bar=BAR, aim=AIM)
    yield from_repeats(NAME, f"{name}, 80 KiB against 40 KiB", growths, "x")


def _apply_reference(text: str) -> None:
    for _ in REFERENCE.finditer(text):
        pass


def _time(apply: Callable[[str], None], text: str) -> float:
    began = time.thread_time()
    apply(text)
    return time.thread_time() - began
