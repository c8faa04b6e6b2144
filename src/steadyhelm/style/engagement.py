"""Measure the engagement of a reply: whether it contains anything of substance.

Concrete content (code, a path, a figure, a cause, a change that was made, a recommendation, a next step, a
request for what is needed) raises the score. Handing the work back without naming anything lowers it.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from steadyhelm.lexicons import load_lexicon
from steadyhelm.style.markers import HEDGES, Marker
from steadyhelm.style.prose import Prose

Quadrant = Literal["on_course", "drifted", "inert", "lost"]

MIN_WORDS: Final = 12
"""A shorter reply is not called inert: `Done.` may be a complete answer."""

_CODE_POINTS: Final = 30
_OUTCOME_POINTS: Final = 30
_ADVICE_POINTS: Final = 20
_FIGURE_POINTS: Final = 15
_DIRECT_POINTS: Final = 20
_HANDED_BACK_PENALTY: Final = 25
_HEDGE_PENALTY: Final = 10
_MAX_HEDGES: Final = 4

_SUBSTANCE_POINTS: Final = 35
_MIN_LONG_WORDS: Final = 5
_LONG_WORD_CHARS: Final = 5
_DIGIT: Final = re.compile(r"\d")


def measure_engagement(prose: Prose, markers: Sequence[Marker], *, readable: bool) -> float | None:
    """Return the engagement, 0 to 100; None for a reply that is too short or in an unknown language."""
    figures = _DIGIT.search(prose.text) is not None
    concrete = _CODE_POINTS * prose.has_matter + _FIGURE_POINTS * figures
    if not readable:
        return float(concrete + _DIRECT_POINTS) if concrete else None
    if len(prose.words) < MIN_WORDS and not prose.has_matter:
        return None
    outcomes = _has_word("outcomes", prose)
    concrete += _OUTCOME_POINTS * outcomes + _ADVICE_POINTS * (_has_word("advice", prose))
    score = concrete + _DIRECT_POINTS * (not markers or any(map(str.isalpha, prose.text[: markers[0].start])))
    if prose.has_matter or outcomes:
        return float(min(100, score))
    hedges = sum(marker.component == HEDGES for marker in markers)
    score -= _HEDGE_PENALTY * min(hedges, _MAX_HEDGES)
    if _names_things(prose, markers):
        score += _SUBSTANCE_POINTS
    elif not figures and _is_handed_back(prose):
        score -= _HANDED_BACK_PENALTY
    return float(max(0, min(100, score)))


def _is_handed_back(prose: Prose) -> bool:
    return load_lexicon(__package__, "engagement")["hands back"].search(prose.text) is not None


def _has_word(name: str, prose: Prose) -> bool:
    return not load_lexicon(__package__, "engagement")[name].word_set.isdisjoint(prose.words)


def _names_things(prose: Prose, markers: Sequence[Marker]) -> bool:
    """Return whether a reply has enough longer words apart from markers and polite words."""
    padding = {word for marker in markers for word in marker.term.split()}
    polite = load_lexicon(__package__, "engagement")["politeness"].word_set
    things = {word for word in prose.words if len(word) >= _LONG_WORD_CHARS} - padding - polite
    return len(things) >= _MIN_LONG_WORDS


def find_quadrant(*, drifting: bool, engagement: float | None, floor: float) -> Quadrant:
    """Return the quadrant of a reply by drift and engagement. Unknown engagement does not count against it.

    >>> find_quadrant(drifting=False, engagement=0.0, floor=20.0)
    'inert'
    """
    inert = engagement is not None and engagement < floor
    if drifting:
        return "lost" if inert else "drifted"
    return "inert" if inert else "on_course"
