"""What a judge may use, what it has used, and what its verdicts changed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.findings import Severity
from steadyhelm.incidents import IncidentVerdict
from steadyhelm.judge import NO_VERDICT, JudgedReport

_TOLERANCE: Final = 1e-9


class JudgeAmounts(Struct, frozen=True):
    """Calls, tokens and dollars of a judge; the cost is 0 where no price is known."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def add(self, other: "JudgeAmounts", sign: int = 1) -> "JudgeAmounts":
        """Return the sum with another amount, or the difference."""
        return JudgeAmounts(
            self.calls + sign * other.calls,
            self.tokens + sign * other.tokens,
            self.cost_usd + sign * other.cost_usd,
        )


class JudgeLimits(NamedTuple):
    """What may be used in one run, or in one day; 0 is no limit."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def find_passed(self, amounts: JudgeAmounts) -> str:
        """Return the limit that amounts would pass, in words; empty when they pass none."""
        if self.calls and amounts.calls > self.calls:
            return "calls"
        if self.tokens and amounts.tokens > self.tokens:
            return "tokens"
        return "dollars" if self.cost_usd and amounts.cost_usd > self.cost_usd + _TOLERANCE else ""


class JudgeSummary(Struct, frozen=True, kw_only=True):
    """What a judge was asked and what it changed.

    `asked` counts questions that were sent, `remembered` those answered by an equal one before, `not_asked`
    and `no_verdict` the others by reason. `verdicts` counts labels by what they are about.
    `raised`, `lowered` and `cleared` count incidents.
    """

    runs: int
    asked: int
    remembered: int
    verdicts: dict[str, dict[str, int]] = field(default_factory=dict)
    no_verdict: dict[str, int] = field(default_factory=dict)
    not_asked: dict[str, int] = field(default_factory=dict)
    addressed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    raised: int = 0
    lowered: int = 0
    cleared: int = 0


def summarise_judging(
    reports: Sequence[JudgedReport], changes: Iterable[IncidentVerdict], *, runs: int
) -> JudgeSummary:
    """Return the summary of what was recorded in some runs; `changes` are verdicts that moved incidents."""
    verdicts: dict[str, Counter[str]] = {}
    no_verdict: Counter[str] = Counter()
    not_asked: Counter[str] = Counter()
    for report in reports:
        if report.label != NO_VERDICT:
            verdicts.setdefault(report.about, Counter())[report.label] += 1
        else:
            (no_verdict if report.asked else not_asked)[report.reason] += 1
    costs = [report.cost_usd for report in reports if report.cost_usd is not None]
    changed = Counter(map(_name_change, changes))
    return JudgeSummary(
        runs=runs,
        asked=sum(report.asked for report in reports),
        remembered=sum(not it.asked and it.label != NO_VERDICT for it in reports),
        verdicts={about: dict(labels) for about, labels in sorted(verdicts.items())},
        no_verdict=dict(no_verdict),
        not_asked=dict(not_asked),
        addressed=sum(report.addressed for report in reports),
        input_tokens=sum(report.input_tokens for report in reports),
        output_tokens=sum(report.output_tokens for report in reports),
        cost_usd=sum(costs) if costs else None,
        raised=changed["raised"],
        lowered=changed["lowered"],
        cleared=changed["cleared"],
    )


def _name_change(judged: IncidentVerdict) -> str:
    """Return what a verdict changed about an incident."""
    if judged.moved_from is None or judged.moved_to.rank > judged.moved_from.rank:
        return "raised"
    return "cleared" if judged.moved_to is Severity.LOW else "lowered"
