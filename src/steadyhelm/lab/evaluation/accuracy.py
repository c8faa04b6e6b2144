"""Measure the accuracy targets of the loop detectors in one command.

python -m steadyhelm.lab.evaluation.accuracy [--data FOLDER] [--config FILE] [--json] [--wrong] [--loud]
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from steadyhelm.engine.health import Health
from steadyhelm.errors import SteadyhelmError
from steadyhelm.findings import Severity
from steadyhelm.lab.evaluation.cost import DetectorCost, measure_cost
from steadyhelm.lab.evaluation.labelled_runs import LabelQuestion, find_data_folder, read_set
from steadyhelm.lab.evaluation.metrics import Counts, Estimate, bootstrap, estimate_share, f1, sum_counts
from steadyhelm.lab.evaluation.report_text import format_table
from steadyhelm.lab.evaluation.scoring import (
    RunScore,
    describe_expectation,
    find_first_three_equal_calls,
    score_runs,
)
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import Replayer
from steadyhelm.reports.formats import make_printable
from steadyhelm.settings import Settings, load

MEASURED_KINDS: Final = frozenset({"loop"})
CASES: Final = "loops/cases.jsonl"
SOLA: Final = "runs/sola_thought_action.jsonl.gz"
TRAIL: Final = "runs/trail.jsonl.gz"
CLAUDE_CODE: Final = "runs/claudecode_sessions.jsonl.gz"
OPENHANDS: Final = "runs/openhands_swebench.jsonl.gz"

_COUNTED_TIERS: Final = ("core", "hard")
_FINDINGS_SHOWN: Final = 6
_MAX_COST_RATIO: Final = 5.0
_MAX_GROWTH_RATIO: Final = 1.2


class AccuracyTarget(Struct, frozen=True, kw_only=True):
    """One row of the table: the figure that is required, the figure that was measured, and its interval."""

    data: str
    what: str
    least: float | None = None
    most: float | None = None
    measured: Estimate
    note: str = ""
    wrong: list[str] = field(default_factory=list)

    @property
    def is_met(self) -> bool:
        """Whether the figure itself, not its interval, reaches the target."""
        value = self.measured.value
        if value is None:
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    @property
    def limit(self) -> str:
        """The target in words."""
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"


class AccuracyCheck:
    """Measures every target on one data folder with one set of detectors."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        *,
        samples: int = 1000,
        seed: int = 0,
        replayer: Replayer | None = None,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._replayer = replayer or Replayer(settings, kinds=MEASURED_KINDS)
        self._samples = samples
        self._seed = seed

    @property
    def detectors(self) -> list[str]:
        """The detectors whose findings are measured."""
        return self._replayer.detectors

    def measure(self, *, cost: bool = True) -> list[AccuracyTarget]:
        """Return every target with its figure, in the order of the table."""
        found = [
            *self._measure_cases(),
            *self._measure_sola(),
            *self._measure_trail(),
            self._measure_claude_code(),
            *self._measure_openhands(),
        ]
        return [*found, *self._measure_cost()] if cost else found

    def _score_file(self, file: str, question: LabelQuestion) -> list[RunScore]:
        reports = [(it.run, it.report) for it in self._replayer.judge_all(self._read_runs(file))]
        return score_runs(reports, question)

    def _read_runs(self, file: str) -> list[ReadRun]:
        return read_set(self._folder / file).runs

    def _bootstrap(self, counts: Sequence[Counts], statistic: Callable[[Counts], float | None]) -> Estimate:
        return bootstrap(counts, statistic, samples=self._samples, seed=self._seed)

    def _measure_cases(self) -> list[AccuracyTarget]:
        scores = [
            score
            for score in self._score_file(CASES, LabelQuestion())
            if score.expected.group in _COUNTED_TIERS
        ]
        sums = sum_counts(score.counts for score in scores)
        dated = [score for score in scores if score.in_time is not None]
        return [
            AccuracyTarget(
                data="cases",
                what="recall, core + hard",
                least=0.95,
                measured=estimate_share(sums.tp, sums.tp + sums.fn),
                note=f"{sums.tp} of {sums.tp + sums.fn} loops",
                wrong=[_describe_score(score) for score in scores if score.counts.fn],
            ),
            AccuracyTarget(
                data="cases",
                what="false alarms, core + hard",
                most=0.04,
                measured=estimate_share(sums.fp, sums.fp + sums.tn),
                note=f"{sums.fp} of {sums.fp + sums.tn} clean cases",
                wrong=[_describe_score(score) for score in scores if score.counts.fp],
            ),
            AccuracyTarget(
                data="cases",
                what="found no later than at_event",
                least=0.92,
                measured=estimate_share(sum(bool(score.in_time) for score in dated), len(dated)),
                wrong=[_describe_score(score) for score in dated if not score.in_time],
            ),
        ]

    def _measure_sola(self) -> list[AccuracyTarget]:
        scores = self._score_file(SOLA, LabelQuestion(severity=Severity.LOW, adjacent=True))
        wrong_runs = [_describe_score(score) for score in scores if score.counts.fp or score.counts.fn]
        wrong_steps = [
            _describe_score(score) for score in scores if score.step_counts.fp or score.step_counts.fn
        ]
        return [
            _build_f1_target(
                "sola", "run level F1", 0.85, [s.counts for s in scores], self._bootstrap, wrong_runs
            ),
            _build_f1_target(
                "sola", "step level F1", 0.75, [s.step_counts for s in scores], self._bootstrap, wrong_steps
            ),
        ]

    def _measure_trail(self) -> list[AccuracyTarget]:
        scores = self._score_file(TRAIL, LabelQuestion())
        counts = [score.counts for score in scores]
        sums = sum_counts(counts)
        wrong = [_describe_score(score) for score in scores if score.counts.fp or score.counts.fn]
        return [
            _build_f1_target("TRAIL", "run level F1", 0.70, counts, self._bootstrap, wrong),
            AccuracyTarget(
                data="TRAIL",
                what="run level precision",
                least=0.80,
                measured=estimate_share(sums.tp, sums.tp + sums.fp),
                note=f"{sums.tp} of {sums.tp + sums.fp} flagged",
            ),
        ]

    def _measure_claude_code(self) -> AccuracyTarget:
        scores = self._score_file(CLAUDE_CODE, LabelQuestion())
        flagged = [score for score in scores if score.found]
        return AccuracyTarget(
            data="Claude Code",
            what="sessions flagged",
            most=0.04,
            measured=estimate_share(len(flagged), len(scores)),
            note=f"{len(flagged)} of {len(scores)}",
            wrong=[_describe_score(score) for score in flagged],
        )

    def _measure_openhands(self) -> list[AccuracyTarget]:
        scores = self._score_file(OPENHANDS, LabelQuestion())
        triples = [
            (score, triple) for score in scores if (triple := find_first_three_equal_calls(score.run.events))
        ]
        missed = [(score, triple) for score, triple in triples if not _is_found_by(score, triple.third)]
        found = len(triples) - len(missed)
        target = AccuracyTarget(
            data="OpenHands",
            what="three equal in a row found by the third",
            least=1.0,
            measured=estimate_share(found, len(triples)),
            note=f"{found} of {len(triples)} runs",
            wrong=[f"{_describe_score(score)}, due at {triple.third}" for score, triple in missed],
        )
        return [target]

    def _measure_cost(self) -> list[AccuracyTarget]:
        cost: DetectorCost = measure_cost(self._settings, self._read_runs(CLAUDE_CODE))
        ratio = AccuracyTarget(
            data="cost",
            what="all loop detectors, times the reference",
            most=_MAX_COST_RATIO,
            measured=cost.ratio,
            note=f"{cost.event_us:.1f} µs an event, reference {cost.reference_us:.1f} µs; "
            f"with fingerprints given {cost.given_ratio:.2f}x",
        )
        late, note = "the same events late in one long run", f"after {cost.long_events} events"
        growth = AccuracyTarget(
            data="cost", what=late, most=_MAX_GROWTH_RATIO, measured=cost.growth, note=note
        )
        return [ratio, growth]


def _build_f1_target(
    data: str,
    what: str,
    least: float,
    counts: Sequence[Counts],
    estimate: Callable[[Sequence[Counts], Callable[[Counts], float | None]], Estimate],
    wrong: list[str],
) -> AccuracyTarget:
    sums = sum_counts(counts)
    return AccuracyTarget(
        data=data,
        what=what,
        least=least,
        measured=estimate(counts, f1),
        note=f"tp {sums.tp}, fp {sums.fp}, fn {sums.fn}",
        wrong=wrong,
    )


def _describe_score(score: RunScore) -> str:
    found = sorted({(finding.at, finding.detector, str(finding.severity)) for finding in score.found})
    words = (
        ", ".join(f"{at} {name} {severity}" for at, name, severity in found[:_FINDINGS_SHOWN]) or "nothing"
    )
    more = f" and {len(found) - _FINDINGS_SHOWN} more" if len(found) > _FINDINGS_SHOWN else ""
    return f"{score.run.info.run_id}: {describe_expectation(score.expected)}; found {words}{more}"


def _is_found_by(score: RunScore, entry: int) -> bool:
    return score.first is not None and score.first <= entry


def _format_row(target: AccuracyTarget) -> tuple[str, ...]:
    is_met = "yes" if target.is_met else "NO"
    return target.data, target.what, target.limit, str(target.measured), is_met, target.note


def format_targets(targets: Sequence[AccuracyTarget], *, wrong: bool = False) -> str:
    """Return the targets as a table, with every run that was judged wrongly if `wrong` is set."""
    parts = [format_table(("data", "target", "", "measured", "met", ""), [*map(_format_row, targets)])]
    parts += [
        "\n".join(
            [f"{target.data}, {target.what}:", *(f"  {make_printable(words)}" for words in target.wrong)]
        )
        for target in targets
        if wrong and target.wrong
    ]
    return "\n\n".join(parts)


def targets_to_builtins(targets: Sequence[AccuracyTarget]) -> list[dict[str, Any]]:
    """Return the targets as plain dictionaries."""
    return [{**msgspec.to_builtins(target), "met": target.is_met} for target in targets]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 0 when every target is met, 3 when one is not, 1 after an error."""
    parser = argparse.ArgumentParser(
        prog="python -m steadyhelm.lab.evaluation.accuracy", description="Measure the accuracy targets."
    )
    parser.add_argument("--data", type=Path, help="the folder of labelled data")
    parser.add_argument("--config", type=Path, help="a settings file, instead of the one that would be found")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--wrong", action="store_true", help="name every run that was judged wrongly")
    parser.add_argument("--loud", action="store_true", help="end with the first error in a detector")
    parser.add_argument("--no-cost", action="store_true", help="leave the cost out")
    given = parser.parse_args(arguments)
    health = Health()
    # Only this one: detectors being written should fail where one can see it.
    health.loud = given.loud
    try:
        settings = load(path=given.config).settings
        replayer = Replayer(settings, kinds=MEASURED_KINDS, health=health)
        check = AccuracyCheck(find_data_folder(given.data), settings, replayer=replayer)
        found = check.measure(cost=not given.no_cost)
    except SteadyhelmError as exc:
        sys.stderr.write(f"steadyhelm: {exc}\n")
        return 1
    if given.json:
        sys.stdout.write(msgspec.json.encode(targets_to_builtins(found)).decode() + "\n")
    else:
        sys.stdout.write(
            f"detectors: {', '.join(check.detectors)}\n{format_targets(found, wrong=given.wrong)}\n"
        )
    return 0 if all(target.is_met for target in found) else 3


if __name__ == "__main__":
    sys.exit(main())
