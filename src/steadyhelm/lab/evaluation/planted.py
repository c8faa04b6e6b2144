"""Measure by class how many planted loops are found, and how many healthy stretches are flagged."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from steadyhelm.errors import FormatError
from steadyhelm.findings import Severity
from steadyhelm.lab.evaluation.metrics import Estimate, estimate_share
from steadyhelm.lab.evaluation.report_text import format_table
from steadyhelm.lab.mutations.planting import PLANT, PlantedRun
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import Replayer, RunReport
from steadyhelm.reports.formats import make_printable

MIN_FOUND_SHARE: Final = 0.88
MIN_FOUND_SHARE_OF_A_CLASS: Final = 0.70
MAX_FLAGGED_SHARE: Final = 0.02
MAX_FLAGGED_SHARE_OF_A_CLASS: Final = 0.08
_TABLES: Final = (
    ("loop", "planted loops", "found"),
    ("healthy", "healthy stretches", "flagged"),
    ("goal", "other tasks", "found"),
)
_TARGETS: Final = (
    f"Targets: {MIN_FOUND_SHARE:.0%} of the loops and {MIN_FOUND_SHARE_OF_A_CLASS:.0%} of each class found; "
    f"at most {MAX_FLAGGED_SHARE:.0%} of the healthy stretches "
    f"and {MAX_FLAGGED_SHARE_OF_A_CLASS:.0%} of a class flagged"
)


class ClassResult(Struct, frozen=True, kw_only=True):
    """How the plants of one class were judged: `flagged` of `plants`, and the runs judged wrongly."""

    name: str
    kind: str
    plants: int
    flagged: int
    wrong: list[str]

    @property
    def share(self) -> Estimate:
        """The share that was flagged: the recall of a loop class, the false alarms of a healthy one."""
        return estimate_share(self.flagged, self.plants)


class PlantedResult(Struct, frozen=True, kw_only=True):
    """The results of all classes."""

    classes: list[ClassResult]

    def total(self, kind: str) -> Estimate:
        """Return the share of all plants of a kind that was flagged."""
        of_kind = self.list_kind(kind)
        return estimate_share(sum(one.flagged for one in of_kind), sum(one.plants for one in of_kind))

    @property
    def is_met(self) -> bool:
        """Whether enough loops are found and few healthy stretches flagged, in all and in each class."""
        loops = [one.share.value or 0.0 for one in self.list_kind("loop")]
        healthy = [one.share.value or 0.0 for one in self.list_kind("healthy")]
        return (
            (not loops or (self.total("loop").value or 0.0) >= MIN_FOUND_SHARE)
            and min(loops, default=1.0) >= MIN_FOUND_SHARE_OF_A_CLASS
            and (self.total("healthy").value or 0.0) <= MAX_FLAGGED_SHARE
            and max(healthy, default=0.0) <= MAX_FLAGGED_SHARE_OF_A_CLASS
        )

    def list_kind(self, kind: str) -> list[ClassResult]:
        """Return the classes of a kind."""
        return [one for one in self.classes if one.kind == kind]


def has_plant(run: ReadRun) -> bool:
    """Return whether something was planted in this run."""
    return PLANT in run.extra


def read_plant(run: ReadRun) -> PlantedRun:
    """Return what was planted in a run. Raises FormatError when its description cannot be read."""
    try:
        return msgspec.convert(run.extra[PLANT], PlantedRun)
    except msgspec.ValidationError as exc:
        raise FormatError(f"Run {run.info.run_id!r} has an unreadable {PLANT!r}: {exc}.") from exc


def is_flagged(report: RunReport, plant: PlantedRun) -> bool:
    """Return whether something was reported in the planted steps, MED or above, no later than the last one.

    That is a loop, or goal drift in a run that continues with another task.
    """
    kind = "goal" if plant.kind == "goal" else "loop"
    return any(
        finding.kind == kind
        and finding.severity.rank >= Severity.MED.rank
        and finding.at <= plant.last
        and any(plant.first <= place <= plant.last for place in (finding.at, *finding.evidence))
        for finding in report.findings
    )


def measure_plants(runs: Iterable[ReadRun], replayer: Replayer) -> PlantedResult:
    """Judge every run with a plant, and count by class."""
    judged: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for run, report, *_ in replayer.judge_all(runs):
        plant = read_plant(run)
        judged.setdefault((plant.kind, plant.name), []).append((run.info.run_id, is_flagged(report, plant)))
    classes = [
        ClassResult(
            name=name,
            kind=kind,
            plants=len(runs_judged),
            flagged=sum(flagged for _, flagged in runs_judged),
            wrong=[run_id for run_id, flagged in runs_judged if flagged != (kind != "healthy")],
        )
        for (kind, name), runs_judged in judged.items()
    ]
    return PlantedResult(classes=classes)


def format_plants(result: PlantedResult, *, wrong: bool = False) -> str:
    """Return the results as two tables, loops and healthy stretches, each with its total."""
    parts = []
    for kind, title, share in _TABLES:
        classes = result.list_kind(kind)
        if not classes:
            continue
        rows = [(one.name, str(one.plants), str(one.flagged), str(one.share)) for one in classes]
        rows.append(("all", *_sum_columns(classes), str(result.total(kind))))
        parts.append(format_table((title, "plants", share, "share [95 %]"), rows))
        if wrong:
            parts.append("\n".join(f"  {make_printable(run_id)}" for one in classes for run_id in one.wrong))
    if not (result.list_kind("loop") or result.list_kind("healthy")):
        return "\n\n".join(parts)
    parts.append(f"{_TARGETS}: {'met' if result.is_met else 'not met'}.")
    return "\n\n".join(part for part in parts if part)


def plants_to_builtins(result: PlantedResult) -> dict[str, Any]:
    """Return the results as plain values."""
    return {
        "met": result.is_met,
        "loops": msgspec.to_builtins(result.total("loop")),
        "healthy": msgspec.to_builtins(result.total("healthy")),
        "classes": [
            {**msgspec.to_builtins(one), "share": msgspec.to_builtins(one.share)} for one in result.classes
        ],
    }


def _sum_columns(classes: Sequence[ClassResult]) -> tuple[str, str]:
    return str(sum(one.plants for one in classes)), str(sum(one.flagged for one in classes))
