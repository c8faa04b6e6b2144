"""Format numbers, durations, steps and text for people: short, rounded, on one line."""

from collections.abc import Iterable
from html import escape
from itertools import pairwise
from typing import Final

_MS_PER_S: Final = 1000
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600

_LEVEL_NAMES: Final = {
    "CONTINUE": "none",
    "INJECT_REMINDER": "remind",
    "SUMMARIZE_REPLAN": "replan",
    "CHECKPOINT_RESET": "rollback",
    "ASK_USER": "ask",
}
"""By action: the response level that screens show."""


def pluralize(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the singular or plural.

    >>> pluralize(1, "step"), pluralize(1200, "step"), pluralize(0, "entry", "entries")
    ('1 step', '1,200 steps', '0 entries')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def format_count(count: float) -> str:
    """Return a number in at most five characters.

    >>> format_count(950), format_count(1250), format_count(48_300), format_count(2_400_000)
    ('950', '1.2k', '48k', '2.4M')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            scaled = count / size
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"  # noqa: PLR2004 - two digits will do
    return f"{count:.0f}"


def format_duration(seconds: float) -> str:
    """Return a duration in the units that suit it.

    >>> format_duration(0.0421), format_duration(3.25), format_duration(187), format_duration(7_384)
    ('42 ms', '3.2 s', '3 min 07 s', '2 h 03 min')
    """
    if seconds < 1:
        return f"{max(0.0, seconds) * _MS_PER_S:.0f} ms"
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S:.0f} min {seconds % _MINUTE_S:02.0f} s"
    return f"{seconds // _HOUR_S:.0f} h {seconds % _HOUR_S // _MINUTE_S:02.0f} min"


def step_number(seq: int) -> int:
    """Return the number of a step on the screen, where people count from 1; data counts from 0."""
    return seq + 1


def format_steps(seqs: Iterable[int]) -> str:
    """Return the numbers of these steps, with neighbours joined into ranges.

    >>> format_steps([4, 3, 5, 9])
    '4-6, 10'
    """
    ordered = sorted({step_number(seq) for seq in seqs})
    if not ordered:
        return "none"
    breaks = [place for place, (a, b) in enumerate(pairwise(ordered), start=1) if b != a + 1]
    parts = [ordered[start:end] for start, end in pairwise([0, *breaks, len(ordered)])]
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def format_response_level(action: str, verdict: str = "") -> str:
    """Return the response level of an action and its verdict, in the words that screens use.

    >>> format_response_level("SUMMARIZE_REPLAN"), format_response_level("ASK_USER", "stop")
    ('replan', 'stop')
    """
    return "stop" if verdict == "stop" else _LEVEL_NAMES.get(action, action)


def format_verdict(verdict: str) -> str:
    """Return a verdict in the words that screens use.

    >>> format_verdict("deny"), format_verdict("guide")
    ('blocked', 'guide')
    """
    return "blocked" if verdict == "deny" else verdict


def make_printable(text: object) -> str:
    r"""Return text on one line in which every character is visible.

    >>> make_printable("red\x1b[31m")
    'red\\x1b[31m'
    """
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in str(text))


def escape_markup(text: object) -> str:
    """Return printable text that is safe in XML, between tags and inside attributes."""
    return escape(make_printable(text))
