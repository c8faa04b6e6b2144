"""Format numbers, durations and text for people: short, rounded, on one line."""

from collections.abc import Iterable
from html import escape
from itertools import pairwise
from typing import Final

_THOUSAND: Final = 1000
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600


def counted(number: int, noun: str, several: str = "") -> str:
    """A number with its noun, in the singular or plural.

    >>> counted(1, "step"), counted(1200, "step"), counted(0, "entry", "entries")
    ('1 step', '1,200 steps', '0 entries')
    """
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def compact(number: float) -> str:
    """A number in at most five characters.

    >>> compact(950), compact(1250), compact(48_300), compact(2_400_000)
    ('950', '1.2k', '48k', '2.4M')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            scaled = number / size
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"  # noqa: PLR2004 - two digits will do
    return f"{number:.0f}"


def lasting(seconds: float) -> str:
    """How long something took.

    >>> lasting(0.0421), lasting(3.25), lasting(187), lasting(7_384)
    ('42 ms', '3.2 s', '3 min 07 s', '2 h 03 min')
    """
    if seconds < 1:
        return f"{max(0.0, seconds) * _THOUSAND:.0f} ms"
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S:.0f} min {seconds % _MINUTE_S:02.0f} s"
    return f"{seconds // _HOUR_S:.0f} h {seconds % _HOUR_S // _MINUTE_S:02.0f} min"


def number(seq: int) -> int:
    """The number of a step on the screen, where people count from one; data counts from nought."""
    return seq + 1


def steps(seqs: Iterable[int]) -> str:
    """The numbers of these steps, neighbours drawn together.

    >>> steps([4, 3, 5, 9])
    '4-6, 10'
    """
    ordered = sorted({number(seq) for seq in seqs})
    if not ordered:
        return "none"
    breaks = [place for place, (a, b) in enumerate(pairwise(ordered), start=1) if b != a + 1]
    parts = [ordered[start:end] for start, end in pairwise([0, *breaks, len(ordered)])]
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def printable(text: object) -> str:
    r"""Return text on one line in which every character is visible.

    >>> printable("red\x1b[31m")
    'red\\x1b[31m'
    """
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in str(text))


def escape_markup(text: object) -> str:
    """Return printable text that is safe in XML, between tags and inside attributes."""
    return escape(printable(text))
