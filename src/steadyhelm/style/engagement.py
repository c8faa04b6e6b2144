"""Measure the engagement of a reply: whether it contains anything of substance.

Concrete content (code, a path, a figure, a cause, a change that was made, a recommendation, a next step, a
request for what is needed) raises the score. Handing the work back without naming anything lowers it.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from steadyhelm.style.lexicons import HEDGES
from steadyhelm.style.markers import Marker
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
_SAID: Final = {
    "outcome": """
        fixed added removed changed renamed moved replaced updated wrote created deleted implemented installed
        reverted merged committed pushed pass passed passes failed fails failing returns returned raises found
        caused because cause broke broken crashes works built ran tested measured verified confirmed missing
        wrong instead means requires needs
    """,
    "advice": """
        recommend suggest use run set change add remove avoid prefer check replace keep choose try rename
        revert upgrade pick delete move trace look read fetch fix verify search examine analyze commit create
        test find plan compare provide confirm
    """,
    "handed back": "know like want here best ready",
    "politeness": """
        about again anything assist before being between could different either every everything exactly first
        forward further going great happy having issue matter might needed other please point proceed question
        questions ready really regarding right share should something situation still sure thank thanks their
        there these thing things think those through today together topic understand whatever where whether
        which while would yours yourself
    """,
}
_OUTCOMES: Final = frozenset(_SAID["outcome"].split())
_ADVICES: Final = frozenset(_SAID["advice"].split())
_POLITE: Final = frozenset(_SAID["politeness"].split())
_BACK_HINTS: Final = frozenset(_SAID["handed back"].split())
_BACK: Final = re.compile(
    r"\b(?:let me know (?:how|what|which|if|when)|would you like me to|how would you like|"
    r"what would you like|do you want me to|i am here to|i'm here to|i will do my best|i'll do my best|"
    r"ready to (?:help|assist|start|begin)|whenever you(?:'re| are) ready)\b"
)


def measure_engagement(prose: Prose, markers: Sequence[Marker], *, readable: bool) -> float | None:
    """Return the engagement, 0 to 100; None for a reply that is too short or in an unknown language."""
    figures = _DIGIT.search(prose.text) is not None
    concrete = _CODE_POINTS * prose.has_matter + _FIGURE_POINTS * figures
    if not readable:
        return float(concrete + _DIRECT_POINTS) if concrete else None
    if len(prose.words) < MIN_WORDS and not prose.has_matter:
        return None
    outcomes = not _OUTCOMES.isdisjoint(prose.words)
    concrete += _OUTCOME_POINTS * outcomes + _ADVICE_POINTS * (not _ADVICES.isdisjoint(prose.words))
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
    # The pattern is slow, and few replies contain one of its words.
    return not _BACK_HINTS.isdisjoint(prose.words) and _BACK.search(prose.text) is not None


def _names_things(prose: Prose, markers: Sequence[Marker]) -> bool:
    """Return whether a reply has enough longer words apart from markers and polite words."""
    padding = {word for marker in markers for word in marker.term.split()}
    things = {word for word in prose.words if len(word) >= _LONG_WORD_CHARS} - padding - _POLITE
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
