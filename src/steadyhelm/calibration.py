"""From past runs to what is normal: one clean run at a time, without a clock."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final

from msgspec import structs

from steadyhelm.baselines import BaselineStats, Spread, Trend
from steadyhelm.embedders.idf import counted, halved
from steadyhelm.events import RunSummary
from steadyhelm.loops.surprise import learnt_transitions
from steadyhelm.windows import next_trend, quantile

_SEQUENCES_KEPT: Final = 5
_SEQUENCES_A_RUN: Final = 20
_LENGTHS: Final = (2, 3, 4)
_SIMILARITIES_KEPT: Final = 400
_WORD_RUNS_KEPT: Final = 200
_ACTIONS_KEPT: Final = 64


def calibrate(baseline: BaselineStats, run: RunSummary, recent: Sequence[RunSummary]) -> BaselineStats:
    """The baseline after one more clean run; `recent` holds the clean runs it is learnt from, this one last.

    A frozen baseline stays as it is, and a run with an incident teaches nothing.
    """
    if baseline.is_frozen or run.had_incident:
        return baseline
    learnt_from = baseline.calibration_runs + 1
    known = baseline.similarities if run.embedder in {baseline.embedder, ""} else []
    similarities = _kept_similarities(known, run.similarities)
    counts, word_runs = _words(baseline, run)
    learnt = structs.replace(
        baseline,
        calibration_runs=learnt_from,
        is_calibrated=learnt_from >= baseline.required_runs,
        mean_goal_similarity=fmean(similarities) if similarities else 0.0,
        std_goal_similarity=_deviation(similarities) if similarities else 0.0,
        embedder=run.embedder or baseline.embedder,
        similarities=similarities,
        trends={
            measure: next_trend(baseline.trends.get(measure, Trend()), value).trend
            for measure, value in (
                ("tokens", run.tokens),
                ("tools", run.tool_calls),
                ("duration_ms", run.duration_ms),
            )
        },
        transitions=learnt_transitions(baseline.transitions, run.actions, _ACTIONS_KEPT),
        surprises=_kept_surprises(baseline.surprises, run.surprise),
        word_runs=word_runs,
        word_counts=counts,
    )
    # A baseline that was imported, or whose runs were pruned, knows more than the few runs still here.
    return _measured(learnt, recent) if len(recent) >= min(learnt_from, baseline.required_runs) else learnt


def _measured(baseline: BaselineStats, recent: Sequence[RunSummary]) -> BaselineStats:
    tokens = [float(summary.tokens) for summary in recent]
    tools = [float(summary.tool_calls) for summary in recent]
    durations = [summary.duration_ms for summary in recent]
    return structs.replace(
        baseline,
        mean_tokens_per_run=fmean(tokens),
        std_tokens_per_run=_deviation(tokens),
        mean_tools_per_run=fmean(tools),
        std_tools_per_run=_deviation(tools),
        mean_duration_ms=fmean(durations),
        std_duration_ms=_deviation(durations),
        common_sequences=_most_common(summary.sequences for summary in recent),
        spreads={"tokens": _spread(tokens), "tools": _spread(tools), "duration_ms": _spread(durations)},
    )


def _deviation(values: Sequence[float]) -> float:
    """The standard deviation; exact fractions, as `statistics` uses them, cost ten times as much."""
    mean = fmean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def frequent_sequences(names: Sequence[str]) -> list[list[str]]:
    """A run's most frequent sequences of two to four actions, most frequent first.

    >>> frequent_sequences(["read", "edit", "test", "read", "edit", "test"])[:2]
    [['edit', 'test'], ['read', 'edit']]
    """
    found: Counter[tuple[str, ...]] = Counter()
    for length in _LENGTHS:
        found.update(zip(*(names[start:] for start in range(length)), strict=False))
    ordered = sorted(found.items(), key=lambda item: (-item[1], len(item[0]), item[0]))
    return [list(sequence) for sequence, _ in ordered[:_SEQUENCES_A_RUN]]


def _most_common(sequences_of_runs: Iterable[list[list[str]]]) -> list[list[str]]:
    found = Counter(tuple(sequence) for sequences in sequences_of_runs for sequence in sequences)
    ordered = sorted(found.items(), key=lambda item: (-item[1], -len(item[0]), item[0]))
    return [list(sequence) for sequence, _ in ordered[:_SEQUENCES_KEPT]]


def _spread(values: Sequence[float]) -> Spread:
    """Quantiles are taken of logs: between two runs of 1,000 and 100,000 tokens lies 10,000, not 50,500."""
    logs = sorted(math.log(max(value, 1.0)) for value in values)
    return Spread(p50=math.exp(quantile(logs, 0.5)), p95=math.exp(quantile(logs, 0.95)))


def _kept_similarities(kept: list[float], fresh: list[float]) -> list[float]:
    """A sorted reference of bounded size: when full, every second value goes, which keeps its shape."""
    merged = sorted([*kept, *fresh])
    return merged if len(merged) <= _SIMILARITIES_KEPT else merged[::2]


def _kept_surprises(kept: list[float], fresh: float | None) -> list[float]:
    return kept if fresh is None else _kept_similarities(kept, [fresh])


def _words(baseline: BaselineStats, run: RunSummary) -> tuple[bytes, int]:
    if not any(run.words):
        return baseline.word_counts, baseline.word_runs
    counts, runs = counted(baseline.word_counts, run.words), baseline.word_runs + 1
    return (halved(counts), runs // 2) if runs >= _WORD_RUNS_KEPT else (counts, runs)
