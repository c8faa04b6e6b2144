"""The score of a reply, taken apart: components, their points, the words and where they stand."""

from typing import Any, Final

from msgspec import Struct, to_builtins

from steadyhelm.style.engagement import Quadrant
from steadyhelm.style.markers import Marker
from steadyhelm.style.profile import COMPLEXITY, LENGTH, VERBOSITY
from steadyhelm.style.rules import BrokenRule

_OFFENDING: Final = 0.5
_WORDS_SHOWN: Final = 4
_MEASURED: Final = {
    VERBOSITY: "{:.0f} words a sentence",
    LENGTH: "{:.0f} words",
    COMPLEXITY: "{:.0%} long words",
}


class Component(Struct, frozen=True, kw_only=True):
    """One component of a score: its value before and its points after weighing, and what it was found in."""

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
            return f"{self.name} ({', '.join(self.words[:_WORDS_SHOWN])})"
        return f"{self.name} ({_MEASURED[self.name].format(self.measured)})"


class ReplyScore(Struct, frozen=True, kw_only=True):
    """How a reply speaks, by one profile.

    `components` are the parts of the score: their points sum to it.
    `not_checked` says what could not be judged, or is None.
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
        """Whether there is anything to object to: the score, or a hard rule that is broken."""
        return self.drifting or bool(self.broken)

    @property
    def offenders(self) -> tuple[Component, ...]:
        """The components that make up the score, the heaviest first."""
        found = (component for component in self.components if component.points > _OFFENDING)
        return tuple(sorted(found, key=lambda component: -component.points))

    def points(self) -> dict[str, float]:
        """The points of each component, by name."""
        return {component.name: component.points for component in self.components}

    def to_dict(self) -> dict[str, Any]:
        """The score as plain data, verdict and offenders included."""
        plain: dict[str, Any] = to_builtins(self)
        offenders = [str(it) for it in self.offenders]
        return {**plain, "drifting": self.drifting, "flagged": self.flagged, "offenders": offenders}
