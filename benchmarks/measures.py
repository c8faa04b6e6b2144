"""One measured figure with the bar it is held to, and the small statistics all benchmarks share."""

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any, Literal

Verdict = Literal["aim met", "bar met", "MISSED", "information", "not measured"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure:
    """A figure, what it may be, and how far it was spread over the repeats.

    `bar` and `aim` are limits in the figure's own unit; `at_least` turns them round: more is better.
    """

    benchmark: str
    what: str
    value: float | None
    unit: str
    bar: float | None = None
    aim: float | None = None
    at_least: bool = False
    spread: tuple[float, float] | None = None
    details: dict[str, Any] = dataclasses.field(default_factory=dict)
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Where the figure stands."""
        if self.value is None:
            return "not measured"
        if self.bar is None:
            return "information"
        if not self._within(self.bar):
            return "MISSED"
        return "aim met" if self.aim is not None and self._within(self.aim) else "bar met"

    def _within(self, limit: float) -> bool:
        assert self.value is not None
        return self.value >= limit if self.at_least else self.value <= limit

    def to_dict(self) -> dict[str, Any]:
        """Return the measure as plain data."""
        return {**dataclasses.asdict(self), "verdict": self.verdict}


def not_measured(benchmark: str, what: str, reason: str) -> Measure:
    """Return a figure that could not be measured, with the reason."""
    return Measure(benchmark=benchmark, what=what, value=None, unit="", note=reason)


def from_repeats(benchmark: str, what: str, values: Sequence[float], unit: str, **more: Any) -> Measure:
    """Return the median of several repeats, with the lowest and the highest."""
    return Measure(
        benchmark=benchmark,
        what=what,
        value=statistics.median(values),
        unit=unit,
        spread=(min(values), max(values)),
        **more,
    )


def share(values: Sequence[float], part: float) -> float:
    """Return the value below which this part of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
