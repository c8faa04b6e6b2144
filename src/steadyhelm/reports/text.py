"""Describe scanned runs for people: a block for each flagged run, and one line that sums everything up."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field
from rich.text import Text

from steadyhelm.findings import Severity
from steadyhelm.replay import Judged, RunReport
from steadyhelm.reports.evidence import EvidenceFormatter, agent_name
from steadyhelm.reports.terminal import safe, severity_label

_PLURALS: Final = {"loop": "loops", "transition": "transitions", "correction": "corrections"}
_REASONS_SHOWN: Final = 4
_REASON_WIDTH: Final = 100
_TITLE_WIDTH, _TITLE_GAP = 10, 2
"""The least width of titles, and the space between the longest title and its text."""


def lowest_flagged_rank(fail_on: Severity) -> int:
    """Return the severity rank from which a run is flagged: MED, or LOW when that is asked to fail."""
    return min(fail_on.rank, Severity.MED.rank)


class ScanTotals(Struct):
    """What was counted over all runs of a scan."""

    runs: int = 0
    flagged: int = 0
    failing: int = 0
    unreadable: int = 0
    in_part: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    not_checked: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, report: RunReport, *, least: int, fail_on: int) -> None:
        """Count one run; `least` is the rank from which it is flagged."""
        self.runs += 1
        self.not_checked.update((missed.detector, missed.reason) for missed in report.not_checked)
        if report.worst < least:
            return
        self.flagged += 1
        self.failing += report.worst >= fail_on
        self.kinds.update({finding.kind for finding in report.findings if finding.severity.rank >= least})


def summarize(totals: ScanTotals, fail_on: Severity) -> str:
    """Return one line about all runs.

    >>> totals = ScanTotals(runs=98, flagged=3, failing=3, kinds=Counter(loop=2, resource=1), unreadable=1)
    >>> summarize(totals, Severity.MED)
    '98 runs, 3 flagged (2 loops, 1 resource), 1 unreadable'
    """
    parts = [f"{totals.runs:,} run{'s' * (totals.runs != 1)}", f"{totals.flagged:,} flagged"]
    if totals.kinds:
        parts[1] += f" ({', '.join(_pluralize_kind(kind, n) for kind, n in totals.kinds.most_common())})"
    if totals.failing != totals.flagged:
        parts.append(f"{totals.failing:,} of them {fail_on} or above")
    if totals.in_part:
        parts.append(f"{totals.in_part:,} read in part")
    if totals.unreadable:
        parts.append(f"{totals.unreadable:,} unreadable")
    return ", ".join(parts)


def describe_not_checked(totals: ScanTotals) -> Iterator[str]:
    """Yield what was not checked, the most frequent first: silence must not pass for health."""
    for (detector, reason), runs in totals.not_checked.most_common(_REASONS_SHOWN):
        why = safe(reason, most=_REASON_WIDTH)
        yield f"not checked: {detector} in {runs:,} of {totals.runs:,} runs ({why})"
    rest = len(totals.not_checked) - _REASONS_SHOWN
    if rest > 0:
        yield f"not checked: {rest} further reasons; --format json has them all"


def describe_run(judged: Judged, where: str, evidence: EvidenceFormatter) -> Iterator[Text]:
    """Yield a flagged run: its name and place, what was found, the evidence, and the response."""
    worst = max(evidence.list_findings(judged), key=lambda finding: finding.severity.rank)
    agent = f"  {agent_name(judged.run)}" * bool(agent_name(judged.run))
    name = (safe(judged.report.run_id), "bold")
    yield Text.assemble(severity_label(worst.severity), " ", name, f"{agent}  {safe(where)}")
    lines = list(evidence.describe(judged))
    width = max(_TITLE_WIDTH, *(len(title) + _TITLE_GAP for title, _ in lines)) if lines else _TITLE_WIDTH
    for title, text in lines:
        yield Text.assemble(("  " + title.ljust(width), "dim"), text)


def _pluralize_kind(kind: str, n: int) -> str:
    return f"{n:,} {kind if n == 1 else _PLURALS.get(kind, kind)}"
