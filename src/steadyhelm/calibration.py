"""Learn what is normal for an agent, one clean run at a time, and measure how unusual an action is."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any, Final

from msgspec import structs

from steadyhelm.baselines import BaselineStats, Spread, Trend
from steadyhelm.embedders.idf import add_run_words, halve_counts
from steadyhelm.events import RunSummary
from steadyhelm.lazy_properties import lazy_property
from steadyhelm.windows import next_trend, quantile

RUN_START: Final = ""
"""The placeholder for the action before a run's first one."""

_MAX_SEQUENCES: Final = 5
_MAX_SEQUENCES_PER_RUN: Final = 20
_SEQUENCE_LENGTHS: Final = (2, 3, 4)
_MAX_REFERENCE_VALUES: Final = 400
_MAX_WORD_RUNS: Final = 200
_MAX_ACTIONS: Final = 64
_SMOOTHING: Final = 0.5
_MAX_FLAGGED_SHARE: Final = 0.05
_WAIT_WEIGHT: Final = 0.1
_MAX_WAITED_TOOLS: Final = 32
_MAX_ASIDE_TOOLS: Final = 32

Transitions = Mapping[str, Mapping[str, int]]
"""How often each action followed each action, in clean runs."""


def calibrate(baseline: BaselineStats, run: RunSummary, recent: Sequence[RunSummary]) -> BaselineStats:
    """Return the baseline after one more clean run; `recent` holds the clean runs so far, this one last.

    A frozen baseline is returned unchanged, and so is any baseline after a run with an incident.
    """
    return learn_run(baseline, run, CleanRuns(recent))


class CleanRuns:
    """Clean runs, and what they have in common, computed once however many runs are learnt from."""

    def __init__(self, runs: Sequence[RunSummary]) -> None:
        self.runs = runs

    @lazy_property
    def statistics(self) -> dict[str, Any]:
        """The fields of a baseline that these runs alone decide."""
        tokens = [float(summary.tokens) for summary in self.runs]
        tools = [float(summary.tool_calls) for summary in self.runs]
        durations = [summary.duration_ms for summary in self.runs]
        return {
            "mean_tokens_per_run": fmean(tokens),
            "std_tokens_per_run": _compute_deviation(tokens),
            "mean_tools_per_run": fmean(tools),
            "std_tools_per_run": _compute_deviation(tools),
            "mean_duration_ms": fmean(durations),
            "std_duration_ms": _compute_deviation(durations),
            "common_sequences": _find_common_sequences(summary.sequences for summary in self.runs),
            "spreads": {
                "tokens": _spread(tokens),
                "tools": _spread(tools),
                "duration_ms": _spread(durations),
            },
        }


def learn_run(baseline: BaselineStats, run: RunSummary, recent: CleanRuns) -> BaselineStats:
    """Return the baseline after one more clean run, like `calibrate`; `recent` may be used for several."""
    if baseline.is_frozen or run.had_incident:
        return baseline
    run_count = baseline.calibration_runs + 1
    known = baseline.similarities if run.embedder in {baseline.embedder, ""} else []
    similarities = _merge_reference(known, run.similarities)
    counts, word_runs = _count_words(baseline, run)
    learnt = structs.replace(
        baseline,
        calibration_runs=run_count,
        is_calibrated=run_count >= baseline.required_runs,
        mean_goal_similarity=fmean(similarities) if similarities else 0.0,
        std_goal_similarity=_compute_deviation(similarities) if similarities else 0.0,
        embedder=run.embedder or baseline.embedder,
        similarities=similarities,
        goal_peaks=_merge_peak(baseline, run),
        trends={
            measure: next_trend(baseline.trends.get(measure, Trend()), value).trend
            for measure, value in (
                ("tokens", run.tokens),
                ("tools", run.tool_calls),
                ("duration_ms", run.duration_ms),
            )
        },
        transitions=add_transitions(baseline.transitions, run.actions, _MAX_ACTIONS),
        surprises=_merge_surprise(baseline.surprises, run.surprise),
        word_runs=word_runs,
        word_counts=counts,
        usual_waits=_merge_waits(baseline.usual_waits, run.waits),
        aside_runs=_merge_asides(baseline.aside_runs, run.asides),
        unusual_runs=0,
    )
    # A baseline that was imported, or whose runs were pruned, knows more than the few runs still here.
    knows_enough = len(recent.runs) >= min(run_count, baseline.required_runs)
    return structs.replace(learnt, **recent.statistics) if knows_enough else learnt


def count_unusual_run(baseline: BaselineStats) -> BaselineStats:
    """Return the baseline after a run that was reported only for differing from the agent's earlier runs.

    Such runs teach nothing, however many there are: nothing in them shows whether the agent was changed or
    goes wrong in every run, and drift must not become usual. A person can tell, and is asked to.
    """
    if baseline.is_frozen or baseline.may_be_outdated:
        return baseline
    return structs.replace(baseline, unusual_runs=baseline.unusual_runs + 1)


def learn_flagged_goal(baseline: BaselineStats, run: RunSummary) -> BaselineStats:
    """Return the baseline after a run that was reported for its goal: it learns how far that run was.

    Ordinary runs that pass the limit are a part of what is ordinary: without them the limit would fall with
    each of them. They may be one in twenty at most, so that real drift does not become ordinary.
    """
    most = round(_MAX_FLAGGED_SHARE * (len(baseline.goal_peaks) + 1))
    if baseline.is_frozen or not run.goal_flagged or baseline.goal_flagged >= most:
        return baseline
    return structs.replace(
        baseline, goal_peaks=_merge_peak(baseline, run), goal_flagged=baseline.goal_flagged + 1
    )


def _merge_waits(known: Mapping[str, float], waits: Mapping[str, float]) -> dict[str, float]:
    """Return how long tools are waited for after one more run: longer ones at once, shorter ones slowly.

    >>> _merge_waits({"build": 100.0}, {"build": 50.0, "deploy": 30.0})
    {'build': 95.0, 'deploy': 30.0}
    """
    merged = dict(known)
    for tool, waited_s in waits.items():
        before = merged.pop(tool, 0.0)
        merged[tool] = max(waited_s, before + _WAIT_WEIGHT * (waited_s - before))
    return dict(list(merged.items())[-_MAX_WAITED_TOOLS:])


def _merge_asides(
    known: Mapping[str, Mapping[str, int]], asides: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, int]]:
    """Return in how many runs each argument only varied, after one more run."""
    merged = {tool: dict(arguments) for tool, arguments in known.items()}
    for tool, names in asides.items():
        arguments = merged.pop(tool, {})
        merged[tool] = arguments | {name: arguments.get(name, 0) + 1 for name in names}
    return dict(list(merged.items())[-_MAX_ASIDE_TOOLS:])


def _merge_peak(baseline: BaselineStats, run: RunSummary) -> list[float]:
    if run.goal_peak is None:
        return baseline.goal_peaks
    known = baseline.goal_peaks if run.embedder in {baseline.embedder, ""} or not baseline.embedder else []
    return _merge_reference(known, [run.goal_peak])


def _compute_deviation(values: Sequence[float]) -> float:
    """Return the standard deviation; exact fractions, as `statistics` uses them, cost ten times as much."""
    mean = fmean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def compute_surprise(transitions: Transitions, before: str, action: str) -> float:
    """Return the surprise of an action after another, in bits: 1 for even odds, more the rarer it is.

    >>> learnt = {"read": {"edit": 9, "test": 1}, "edit": {"test": 10}, "test": {"read": 9}}
    >>> round(compute_surprise(learnt, "read", "edit"), 2), round(compute_surprise(learnt, "edit", "read"), 2)
    (0.28, 4.52)
    """
    follows = transitions.get(before, {})
    known = len(transitions) or 1
    share = (follows.get(action, 0) + _SMOOTHING) / (sum(follows.values()) + _SMOOTHING * known)
    return -math.log2(share) if share < 1.0 else 0.0


def add_transitions(transitions: Transitions, names: Sequence[str], most: int) -> dict[str, dict[str, int]]:
    """Return the counts after one more run's actions, for at most `most` different actions."""
    counts = {before: dict(follows) for before, follows in transitions.items()}
    for before, action in zip([RUN_START, *names], names, strict=False):
        if before not in counts and len(counts) >= most:
            continue
        follows = counts.setdefault(before, {})
        if action in follows or len(follows) < most:
            follows[action] = follows.get(action, 0) + 1
    return counts


def find_frequent_sequences(names: Sequence[str]) -> list[list[str]]:
    """Return a run's most frequent sequences of two to four actions, most frequent first.

    >>> find_frequent_sequences(["read", "edit", "test", "read", "edit", "test"])[:2]
    [['edit', 'test'], ['read', 'edit']]
    """
    found: Counter[tuple[str, ...]] = Counter()
    for length in _SEQUENCE_LENGTHS:
        found.update(zip(*(names[start:] for start in range(length)), strict=False))
    ordered = sorted(found.items(), key=lambda item: (-item[1], len(item[0]), item[0]))
    return [list(sequence) for sequence, _ in ordered[:_MAX_SEQUENCES_PER_RUN]]


def _find_common_sequences(sequences_of_runs: Iterable[list[list[str]]]) -> list[list[str]]:
    found = Counter(map(tuple, chain.from_iterable(sequences_of_runs)))
    # Most sequences are in one run or two: only those as frequent as the last one kept are put in order.
    least = min(sorted(found.values())[-_MAX_SEQUENCES:], default=0)
    frequent = [item for item in found.items() if item[1] >= least]
    ordered = sorted(frequent, key=lambda item: (-item[1], -len(item[0]), item[0]))
    return [list(sequence) for sequence, _ in ordered[:_MAX_SEQUENCES]]


def _spread(values: Sequence[float]) -> Spread:
    """Return the median and the 95 % quantile, taken of logs.

    Between two runs of 1,000 and 100,000 tokens lies 10,000, not 50,500.
    """
    logs = sorted(math.log(max(value, 1.0)) for value in values)
    return Spread(p50=math.exp(quantile(logs, 0.5)), p95=math.exp(quantile(logs, 0.95)))


def _merge_reference(known: list[float], fresh: list[float]) -> list[float]:
    """Return the values sorted; beyond the limit every second one is dropped, which keeps the shape."""
    merged = sorted([*known, *fresh])
    return merged if len(merged) <= _MAX_REFERENCE_VALUES else merged[::2]


def _merge_surprise(known: list[float], fresh: float | None) -> list[float]:
    return known if fresh is None else _merge_reference(known, [fresh])


def _count_words(baseline: BaselineStats, run: RunSummary) -> tuple[bytes, int]:
    if not any(run.words):
        return baseline.word_counts, baseline.word_runs
    counts, runs = add_run_words(baseline.word_counts, run.words), baseline.word_runs + 1
    return (halve_counts(counts), runs // 2) if runs >= _MAX_WORD_RUNS else (counts, runs)
