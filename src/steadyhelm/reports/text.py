"""What scan says to people: a block for each flagged run, and one line that sums everything up."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field
from rich.text import Text

from steadyhelm.findings import Severity
from steadyhelm.replay import Judged, RunReport
from steadyhelm.reports.evidence import Evidence, whose
from steadyhelm.reports.terminal import safe, severity

_PLURALS: Final = {"loop": "loops", "transition": "transitions", "correction": "corrections"}
_REASONS: Final = 4
_REASON: Final = 100
_TITLE, _GAP = 10, 2
"""How wide titles are at least, and what parts the longest from its words."""


def least_rank(fail_on: Severity) -> int:
    """The rank from which a run is flagged: MED, or LOW when that alone is to fail."""
    return min(fail_on.rank, Severity.MED.rank)


class Tally(Struct):
    """Everything counted over all runs."""

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


def summary(tally: Tally, fail_on: Severity) -> str:
    """One line over all runs.

    >>> tally = Tally(runs=98, flagged=3, failing=3, kinds=Counter(loop=2, resource=1), unreadable=1)
    >>> summary(tally, Severity.MED)
    '98 runs, 3 flagged (2 loops, 1 resource), 1 unreadable'
    """
    words = [f"{tally.runs:,} run{'s' * (tally.runs != 1)}", f"{tally.flagged:,} flagged"]
    if tally.kinds:
        words[1] += f" ({', '.join(_counted(kind, n) for kind, n in tally.kinds.most_common())})"
    if tally.failing != tally.flagged:
        words.append(f"{tally.failing:,} of them {fail_on} or above")
    if tally.in_part:
        words.append(f"{tally.in_part:,} read in part")
    if tally.unreadable:
        words.append(f"{tally.unreadable:,} unreadable")
    return ", ".join(words)


def unchecked(tally: Tally) -> Iterator[str]:
    """What could not be looked at, the most frequent first: silence must not pass for health."""
    for (detector, reason), runs in tally.not_checked.most_common(_REASONS):
        yield f"not checked: {detector} in {runs:,} of {tally.runs:,} runs ({safe(reason, most=_REASON)})"
    rest = len(tally.not_checked) - _REASONS
    if rest > 0:
        yield f"not checked: {rest} further reasons; --format json has them all"


def block(judged: Judged, where: str, evidence: Evidence) -> Iterator[Text]:
    """A flagged run: its name and place, what was found, the evidence, and what would have been done."""
    worst = max(evidence.told(judged), key=lambda finding: finding.severity.rank)
    agent = f"  {whose(judged.run)}" * bool(whose(judged.run))
    name = (safe(judged.report.run_id), "bold")
    yield Text.assemble(severity(worst.severity), " ", name, f"{agent}  {safe(where)}")
    lines = list(evidence.lines(judged))
    width = max(_TITLE, *(len(title) + _GAP for title, _ in lines)) if lines else _TITLE
    for title, said in lines:
        yield Text.assemble(("  " + title.ljust(width), "dim"), said)


def _counted(kind: str, n: int) -> str:
    return f"{n:,} {kind if n == 1 else _PLURALS.get(kind, kind)}"
