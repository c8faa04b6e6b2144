"""The bars a loop detector is held to, measured in one go.

python -m steadyhelm.lab.evaluation.bars [--data FOLDER] [--config FILE] [--json] [--wrong] [--loud]
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
from steadyhelm.lab.evaluation.cost import Cost, measure
from steadyhelm.lab.evaluation.expectations import Question
from steadyhelm.lab.evaluation.metrics import Counts, Estimate, bootstrap, f1, proportion, total
from steadyhelm.lab.evaluation.places import data_folder, read_set
from steadyhelm.lab.evaluation.rules import first_triple
from steadyhelm.lab.evaluation.scoring import RunScore, in_words, score_runs
from steadyhelm.lab.evaluation.tables import table
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import Judge
from steadyhelm.reports.formats import printable
from steadyhelm.settings import Settings, load

CASES: Final = "loops/cases.jsonl"
SOLA: Final = "runs/sola_thought_action.jsonl.gz"
TRAIL: Final = "runs/trail.jsonl.gz"
CLAUDE_CODE: Final = "runs/claudecode_sessions.jsonl.gz"
OPENHANDS: Final = "runs/openhands_swebench.jsonl.gz"

_COUNTED_TIERS: Final = ("core", "hard")
_SHOWN: Final = 6
_COST_BAR: Final = 5.0
_GROWTH_BAR: Final = 1.2


class Bar(Struct, frozen=True, kw_only=True):
    """One line of the table: what is asked, what was measured, and whether it is enough."""

    data: str
    what: str
    least: float | None = None
    most: float | None = None
    measured: Estimate
    note: str = ""
    wrong: list[str] = field(default_factory=list)

    @property
    def met(self) -> bool:
        """Whether the figure itself, not its interval, reaches the bar."""
        value = self.measured.value
        if value is None:
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    @property
    def limit(self) -> str:
        """The bar in words."""
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"


class Bars:
    """Measures every bar on one data folder with one set of detectors."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        *,
        samples: int = 1000,
        seed: int = 0,
        health: Health | None = None,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._judge = Judge(settings, kinds={"loop"}, health=health)
        self._samples = samples
        self._seed = seed

    @property
    def detectors(self) -> list[str]:
        """Whose findings are measured."""
        return self._judge.detectors

    def measure(self, *, cost: bool = True) -> list[Bar]:
        """Every bar, in the order of the table."""
        found = [*self._cases(), *self._sola(), *self._trail(), self._claude_code(), *self._openhands()]
        return [*found, *self._cost()] if cost else found

    def _scores(self, file: str, question: Question) -> list[RunScore]:
        reports = [(run, self._judge.judge(run).report) for run in self._runs(file)]
        return score_runs(reports, question)

    def _runs(self, file: str) -> list[ReadRun]:
        return read_set(self._folder / file).runs

    def _bootstrap(self, counts: Sequence[Counts], statistic: Callable[[Counts], float | None]) -> Estimate:
        return bootstrap(counts, statistic, samples=self._samples, seed=self._seed)

    def _cases(self) -> list[Bar]:
        scores = [
            score for score in self._scores(CASES, Question()) if score.expected.group in _COUNTED_TIERS
        ]
        sums = total(score.counts for score in scores)
        dated = [score for score in scores if score.in_time is not None]
        return [
            Bar(
                data="cases",
                what="recall, core + hard",
                least=0.95,
                measured=proportion(sums.tp, sums.tp + sums.fn),
                note=f"{sums.tp} of {sums.tp + sums.fn} loops",
                wrong=[_shown(score) for score in scores if score.counts.fn],
            ),
            Bar(
                data="cases",
                what="false alarms, core + hard",
                most=0.04,
                measured=proportion(sums.fp, sums.fp + sums.tn),
                note=f"{sums.fp} of {sums.fp + sums.tn} clean cases",
                wrong=[_shown(score) for score in scores if score.counts.fp],
            ),
            Bar(
                data="cases",
                what="found no later than at_event",
                least=0.92,
                measured=proportion(sum(bool(score.in_time) for score in dated), len(dated)),
                wrong=[_shown(score) for score in dated if not score.in_time],
            ),
        ]

    def _sola(self) -> list[Bar]:
        scores = self._scores(SOLA, Question(severity=Severity.LOW, adjacent=True))
        wrong_runs = [_shown(score) for score in scores if score.counts.fp or score.counts.fn]
        wrong_steps = [_shown(score) for score in scores if score.step_counts.fp or score.step_counts.fn]
        return [
            _of_counts("sola", "run level F1", 0.85, [s.counts for s in scores], self._bootstrap, wrong_runs),
            _of_counts(
                "sola", "step level F1", 0.75, [s.step_counts for s in scores], self._bootstrap, wrong_steps
            ),
        ]

    def _trail(self) -> list[Bar]:
        scores = self._scores(TRAIL, Question())
        counts = [score.counts for score in scores]
        sums = total(counts)
        wrong = [_shown(score) for score in scores if score.counts.fp or score.counts.fn]
        return [
            _of_counts("TRAIL", "run level F1", 0.70, counts, self._bootstrap, wrong),
            Bar(
                data="TRAIL",
                what="run level precision",
                least=0.80,
                measured=proportion(sums.tp, sums.tp + sums.fp),
                note=f"{sums.tp} of {sums.tp + sums.fp} flagged",
            ),
        ]

    def _claude_code(self) -> Bar:
        scores = self._scores(CLAUDE_CODE, Question())
        flagged = [score for score in scores if score.found]
        return Bar(
            data="Claude Code",
            what="sessions flagged",
            most=0.04,
            measured=proportion(len(flagged), len(scores)),
            note=f"{len(flagged)} of {len(scores)}",
            wrong=[_shown(score) for score in flagged],
        )

    def _openhands(self) -> list[Bar]:
        scores = self._scores(OPENHANDS, Question())
        triples = [(score, triple) for score in scores if (triple := first_triple(score.run.events))]
        missed = [
            (score, triple) for score, triple in triples if score.first is None or score.first > triple.third
        ]
        share = proportion(len(triples) - len(missed), len(triples))
        return [
            Bar(
                data="OpenHands",
                what="three equal in a row found by the third",
                least=1.0,
                measured=share,
                note=f"{len(triples) - len(missed)} of {len(triples)} runs",
                wrong=[f"{_shown(score)}, due at {triple.third}" for score, triple in missed],
            )
        ]

    def _cost(self) -> list[Bar]:
        cost: Cost = measure(self._settings, self._runs(CLAUDE_CODE))
        return [
            Bar(
                data="cost",
                what="all loop detectors, times the reference",
                most=_COST_BAR,
                measured=cost.ratio,
                note=f"{cost.event_us:.1f} µs an event, reference {cost.reference_us:.1f} µs; "
                f"with fingerprints given {cost.given_ratio:.2f}x",
            ),
            Bar(
                data="cost",
                what="the same events late in one long run",
                most=_GROWTH_BAR,
                measured=cost.growth,
                note=f"after {cost.long_events} events",
            ),
        ]


def _of_counts(
    data: str,
    what: str,
    least: float,
    counts: Sequence[Counts],
    estimate: Callable[[Sequence[Counts], Callable[[Counts], float | None]], Estimate],
    wrong: list[str],
) -> Bar:
    sums = total(counts)
    return Bar(
        data=data,
        what=what,
        least=least,
        measured=estimate(counts, f1),
        note=f"tp {sums.tp}, fp {sums.fp}, fn {sums.fn}",
        wrong=wrong,
    )


def _shown(score: RunScore) -> str:
    found = sorted({(finding.at, finding.detector, str(finding.severity)) for finding in score.found})
    words = ", ".join(f"{at} {name} {severity}" for at, name, severity in found[:_SHOWN]) or "nothing"
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"{score.run.info.run_id}: {in_words(score.expected)}; found {words}{more}"


def in_text(bars: Sequence[Bar], *, wrong: bool = False) -> str:
    """The bars as a table for people, with every run that was judged wrongly if wanted."""
    rows = [
        (bar.data, bar.what, bar.limit, str(bar.measured), "yes" if bar.met else "NO", bar.note)
        for bar in bars
    ]
    parts = [table(("data", "bar", "", "measured", "met", ""), rows)]
    parts += [
        "\n".join([f"{bar.data}, {bar.what}:", *(f"  {printable(words)}" for words in bar.wrong)])
        for bar in bars
        if wrong and bar.wrong
    ]
    return "\n\n".join(parts)


def as_data(bars: Sequence[Bar]) -> list[dict[str, Any]]:
    """The bars as plain data."""
    return [{**msgspec.to_builtins(bar), "met": bar.met} for bar in bars]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 when every bar is met, 3 when one is not, 1 when nothing could be measured."""
    parser = argparse.ArgumentParser(
        prog="python -m steadyhelm.lab.evaluation.bars", description="Measure the bars."
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
        bars = Bars(data_folder(given.data), load(path=given.config).settings, health=health)
        found = bars.measure(cost=not given.no_cost)
    except SteadyhelmError as exc:
        sys.stderr.write(f"steadyhelm: {exc}\n")
        return 1
    if given.json:
        sys.stdout.write(msgspec.json.encode(as_data(found)).decode() + "\n")
    else:
        sys.stdout.write(f"detectors: {', '.join(bars.detectors)}\n{in_text(found, wrong=given.wrong)}\n")
    return 0 if all(bar.met for bar in found) else 3


if __name__ == "__main__":
    sys.exit(main())
