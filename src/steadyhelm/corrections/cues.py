"""All cues, and how a text leans by them."""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from steadyhelm.corrections.assents import ASSENTS
from steadyhelm.corrections.cue import Cue
from steadyhelm.corrections.objections import OBJECTIONS
from steadyhelm.corrections.protests import PROTESTS
from steadyhelm.corrections.reading import Reading
from steadyhelm.corrections.remarks import REMARKS

CUES: Final[dict[str, Cue]] = {cue.name: cue for cue in (*OBJECTIONS, *PROTESTS, *REMARKS, *ASSENTS)}

_LEAST, _MOST = -4.0, 8.0
_TRUST_IN_A_REPORT: Final = 0.3


def found_in(text: str) -> dict[str, str]:
    """The cues in a text, each with the words that are it.

    >>> found_in("still broken")["broken"]
    'broken'
    """
    found = ((cue.name, cue.pattern.search(text)) for cue in CUES.values())
    return {name: match.group().strip() for name, match in found if match}


def leanings(
    found: Iterable[str], first: Iterable[str], words: int, *, is_report: bool = False
) -> dict[str, float]:
    """How a text leans, over all of it, in its first sentence, and for its length.

    A review that is passed on speaks of faults by trade: its cues count for less.
    """
    trust = _TRUST_IN_A_REPORT if is_report else 1.0
    total = trust * sum(CUES[name].leans for name in found)
    return {
        "leans": _bounded(total),
        "leans first": _bounded(trust * sum(CUES[name].leans for name in first)),
        "leans for its length": _bounded(total / math.log2(words + 3)),
    }


def first_of(found: Mapping[str, str], reading: Reading) -> dict[str, str]:
    """Those of the cues found that are in the first sentence too."""
    return {name: words for name, words in found.items() if CUES[name].pattern.search(reading.first)}


def _bounded(value: float) -> float:
    return max(_LEAST, min(_MOST, value))
