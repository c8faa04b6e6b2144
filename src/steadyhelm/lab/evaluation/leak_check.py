"""Shuffle what must not matter: findings must stay. Shuffle what must matter: figures must fall.

A detector that reads labels, names of runs or later events has good figures and is useless.
So is one whose figures stay when every call gets another call's result.
"""

import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

from msgspec import Struct, structs

from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.lab.evaluation.labelled_runs import LabelQuestion, RunSet
from steadyhelm.lab.evaluation.metrics import balanced_accuracy, sum_counts
from steadyhelm.lab.evaluation.scoring import RunScore, score_runs
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import FindingReport, Replayer

_CHANCE: Final = 0.5
_LABEL_SHUFFLES: Final = 50
"""A single shuffle of few labels may by chance hit many of them again: the mean of several counts."""

LeakVerdict = Literal["ok", "LEAK", "NOT USED", "not checked"]
Shuffle = Callable[[Sequence[ReadRun], random.Random], list[ReadRun]]
LaterChange = Callable[[ReadRun, int], ReadRun]
_DAY_S: Final = 86_400.0
_REPLACEMENT_TEXT: Final = "Something else entirely was said here."


class ShuffleRow(Struct, frozen=True, kw_only=True):
    """One thing shuffled: the runs judged differently, and balanced accuracy before and after."""

    shuffled: str
    must_matter: bool
    runs_changed: int
    runs: int
    before: float | None
    after: float | None
    verdict: LeakVerdict


class ShuffleReport(Struct, frozen=True, kw_only=True):
    """The result of shuffling one set."""

    name: str
    rows: list[ShuffleRow]

    @property
    def is_clean(self) -> bool:
        """Whether nothing leaks and everything that must matter does, as far as it could be checked."""
        return all(row.verdict in ("ok", "not checked") for row in self.rows)


class LeakCheck:
    """Checks detectors on one set after the other.

    Args:
        replayer: Replays runs.
        question: Which findings count, and the label they are held against.
        seed: Makes the shuffling repeatable.
    """

    def __init__(self, replayer: Replayer, question: LabelQuestion, *, seed: int = 0) -> None:
        self._replayer = replayer
        self._question = question
        self._seed = seed

    def check(self, one: RunSet) -> ShuffleReport:
        """Apply every shuffle to the runs of one set and return what changed."""
        plain = self._score(one.runs)
        rows = [self._check_unchanged(name, plain, shuffle) for name, shuffle in MUST_NOT_MATTER.items()]
        rows += [
            self._check_later_change(name, plain, change) for name, change in LATER_MUST_NOT_MATTER.items()
        ]
        rows.append(self._check_labels(plain))
        rows += [self._check_falling_score(name, plain, shuffle) for name, shuffle in MUST_MATTER.items()]
        return ShuffleReport(name=one.name, rows=rows)

    def _score(self, runs: Sequence[ReadRun]) -> list[RunScore]:
        return score_runs([(it.run, it.report) for it in self._replayer.judge_all(runs)], self._question)

    def _new_random(self) -> random.Random:
        return random.Random(self._seed)  # noqa: S311 - shuffling, not secrets

    def _check_unchanged(self, name: str, plain: Sequence[RunScore], shuffle: Shuffle) -> ShuffleRow:
        shuffled = self._score(shuffle([score.run for score in plain], self._new_random()))
        by_line = {score.run.line: score for score in shuffled}
        others = [by_line[score.run.line] for score in plain]
        changed = sum(
            _summarise_findings(a.found) != _summarise_findings(b.found)
            for a, b in zip(plain, others, strict=True)
        )
        again = [structs.replace(a, found=b.found) for a, b in zip(plain, others, strict=True)]
        return _build_stable_row(name, plain, changed, after=_measure_accuracy(again))

    def _check_later_change(self, name: str, plain: Sequence[RunScore], change: LaterChange) -> ShuffleRow:
        """Change what follows a run's first finding: the finding itself must stay."""
        flagged = [(score, score.first) for score in plain if score.first is not None]
        again = [self._score([change(score.run, first)])[0].first for score, first in flagged]
        changed = sum(first != later for (_, first), later in zip(flagged, again, strict=True))
        return _build_stable_row(
            name, plain, changed, after=_measure_accuracy(plain) if not changed else None
        )

    def _check_labels(self, plain: Sequence[RunScore]) -> ShuffleRow:
        """Exchange labels between runs: figures that stay the same do not depend on the labels."""
        judged = [score for score in plain if score.expected.run is not None]
        draw = self._new_random()
        changed, figures = 0, []
        for _ in range(_LABEL_SHUFFLES):
            others = draw.sample(judged, len(judged))
            scores = [
                structs.replace(score, expected=other.expected)
                for score, other in zip(judged, others, strict=True)
            ]
            changed += sum(a.counts != b.counts for a, b in zip(judged, scores, strict=True))
            figures.append(_measure_accuracy(scores))
        known = [figure for figure in figures if figure is not None]
        after = statistics.fmean(known) if known else None
        return _build_falling_row("labels, between runs", plain, round(changed / _LABEL_SHUFFLES), after)

    def _check_falling_score(self, name: str, plain: Sequence[RunScore], shuffle: Shuffle) -> ShuffleRow:
        shuffled = self._score(shuffle([score.run for score in plain], self._new_random()))
        changed = sum(
            _summarise_findings(a.found) != _summarise_findings(b.found)
            for a, b in zip(plain, shuffled, strict=True)
        )
        return _build_falling_row(name, plain, changed, _measure_accuracy(shuffled))


def _build_stable_row(
    name: str, plain: Sequence[RunScore], changed: int, *, after: float | None
) -> ShuffleRow:
    return ShuffleRow(
        shuffled=name,
        must_matter=False,
        runs_changed=changed,
        runs=len(plain),
        before=_measure_accuracy(plain),
        after=after,
        verdict="LEAK" if changed else "ok",
    )


def _build_falling_row(name: str, plain: Sequence[RunScore], changed: int, after: float | None) -> ShuffleRow:
    before = _measure_accuracy(plain)
    return ShuffleRow(
        shuffled=name,
        must_matter=True,
        runs_changed=changed,
        runs=len(plain),
        before=before,
        after=after,
        verdict=_judge_fall(before, after),
    )


def _judge_fall(before: float | None, after: float | None) -> LeakVerdict:
    """Return "ok" if at least half of the accuracy above chance is gone."""
    if before is None or after is None or before <= _CHANCE:
        return "not checked"
    return "ok" if after - _CHANCE <= (before - _CHANCE) / 2 else "NOT USED"


def _measure_accuracy(scores: Sequence[RunScore]) -> float | None:
    return balanced_accuracy(sum_counts(score.counts for score in scores))


def _summarise_findings(findings: Sequence[FindingReport]) -> list[tuple[int, str, str, float]]:
    return [(finding.at, finding.detector, finding.severity, finding.score) for finding in findings]


def _remove_labels(runs: Sequence[ReadRun], _: random.Random) -> list[ReadRun]:
    return [structs.replace(run, labels=[], outcome="", meta={}, extra={}) for run in runs]


def _rename_runs(runs: Sequence[ReadRun], draw: random.Random) -> list[ReadRun]:
    return [_set_run_id(run, f"run-{draw.getrandbits(64):016x}") for run in runs]


def _set_run_id(run: ReadRun, run_id: str) -> ReadRun:
    info = structs.replace(run.info, run_id=run_id, metadata=None)
    return structs.replace(
        run, info=info, events=[structs.replace(event, run_id=run_id) for event in run.events]
    )


def _reorder_runs(runs: Sequence[ReadRun], draw: random.Random) -> list[ReadRun]:
    shuffled = list(runs)
    draw.shuffle(shuffled)
    return shuffled


def _change_day(runs: Sequence[ReadRun], draw: random.Random) -> list[ReadRun]:
    return [_move_in_time(run, draw.randrange(1, 1000) * _DAY_S) for run in runs]


def _move_in_time(run: ReadRun, by_s: float) -> ReadRun:
    info = structs.replace(run.info, started_at=run.info.started_at + by_s)
    events = [structs.replace(event, timestamp=event.timestamp + by_s) for event in run.events]
    return structs.replace(run, info=info, events=events)


def _exchange_results(runs: Sequence[ReadRun], draw: random.Random) -> list[ReadRun]:
    """Replace every result by that of another call of the set, every reply by another reply."""
    answers = {kind: _shuffle_results(runs, kind, draw) for kind in (TOOL_CALL, LLM_REQUEST)}
    return [
        structs.replace(run, events=[_replace_result(event, answers) for event in run.events]) for run in runs
    ]


def _shuffle_results(
    runs: Sequence[ReadRun], kind: str, draw: random.Random
) -> Iterator[tuple[Any, str | None]]:
    pool = [(e.output_data, e.error) for run in runs for e in run.events if e.action_type == kind]
    draw.shuffle(pool)
    return iter(pool)


def _replace_result(event: TraceEvent, answers: dict[str, Iterator[tuple[Any, str | None]]]) -> TraceEvent:
    if event.action_type not in answers:
        return event
    output, error = next(answers[event.action_type])
    return structs.replace(event, output_data=output, error=error, call_hash=0, result_hash=0)


def _cut_after(run: ReadRun, at: int) -> ReadRun:
    return structs.replace(run, events=run.events[: _find_place(run, at) + 1])


def _replace_later_messages(run: ReadRun, at: int) -> ReadRun:
    place = _find_place(run, at)
    events = [
        structs.replace(event, input_data={"text": _REPLACEMENT_TEXT})
        if i > place and event.action_type == USER_MESSAGE
        else event
        for i, event in enumerate(run.events)
    ]
    return structs.replace(run, events=events)


def _find_place(run: ReadRun, at: int) -> int:
    return next(i for i, event in enumerate(run.events) if int(event.event_id) == at)


MUST_NOT_MATTER: Final[dict[str, Shuffle]] = {
    "labels, outcome and notes, taken away": _remove_labels,
    "run ids and sources": _rename_runs,
    "the order of runs": _reorder_runs,
    "the day it happened": _change_day,
}


LATER_MUST_NOT_MATTER: Final[dict[str, LaterChange]] = {
    "what the user says after the first finding": _replace_later_messages,
    "everything after the first finding, cut off": _cut_after,
}


MUST_MATTER: Final[dict[str, Shuffle]] = {
    "results and replies, between all steps of the set": _exchange_results
}
