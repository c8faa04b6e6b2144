"""Define the score of a reply: its components, their points, and the markers with their positions."""

from typing import Any, Final

from msgspec import Struct, to_builtins

from steadyhelm.style.engagement import Quadrant
from steadyhelm.style.markers import Marker
from steadyhelm.style.profile import COMPLEXITY, LENGTH, VERBOSITY
from steadyhelm.style.rules import BrokenRule

_OFFENDER_POINTS: Final = 0.5
_TERMS_SHOWN: Final = 4
_MEASURE_FORMATS: Final = {
    VERBOSITY: "{:.0f} words a sentence",
    LENGTH: "{:.0f} words",
    COMPLEXITY: "{:.0%} long words",
}


class Component(Struct, frozen=True, kw_only=True):
    """One component of a score: its value before and its points after weighting, and its markers."""

    name: str
    value: float
    weight: float
    points: float
    measured: float = 0.0
    markers: tuple[Marker, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The terms found, each once, those found most often first."""
        counts: dict[str, int] = {}
        for marker in self.markers:
            counts[marker.term] = counts.get(marker.term, 0) + 1
        return tuple(sorted(counts, key=lambda term: -counts[term]))

    def __str__(self) -> str:
        if self.markers:
            return f"{self.name} ({', '.join(self.words[:_TERMS_SHOWN])})"
        return f"{self.name} ({_MEASURE_FORMATS[self.name].format(self.measured)})"


class ReplyScore(Struct, frozen=True, kw_only=True):
    """The style score of a reply by one profile.

    `components` are the parts of the score: their points sum to it.
    `not_checked` is the reason why something could not be checked, or None.
    """

    score: float
    threshold: float
    profile: str
    components: tuple[Component, ...]
    words: int
    sentences: int
    language: str | None = None
    engagement: float | None = None
    quadrant: Quadrant = "on_course"
    broken: tuple[BrokenRule, ...] = ()
    not_checked: str | None = None

    @property
    def drifting(self) -> bool:
        """Whether the score has reached the profile's threshold."""
        return self.score >= self.threshold

    @property
    def flagged(self) -> bool:
        """Whether the score has reached the threshold or a hard rule is broken."""
        return self.drifting or bool(self.broken)

    @property
    def offenders(self) -> tuple[Component, ...]:
        """The components with the most points, the largest first."""
        found = (component for component in self.components if component.points > _OFFENDER_POINTS)
        return tuple(sorted(found, key=lambda component: -component.points))

    def points(self) -> dict[str, float]:
        """Return the points of each component by name."""
        return {component.name: component.points for component in self.components}

    def to_dict(self) -> dict[str, Any]:
        """Return the score as plain data, with the result and the offenders."""
        plain: dict[str, Any] = to_builtins(self)
        offenders = [str(it) for it in self.offenders]
        return {**plain, "drifting": self.drifting, "flagged": self.flagged, "offenders": offenders}
