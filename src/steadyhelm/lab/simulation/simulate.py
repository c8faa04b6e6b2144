"""Simulate a policy on recorded runs: what it would have done, good and bad."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct

from steadyhelm.lab.evaluation.evaluator import TOGETHER, ShownEvent
from steadyhelm.lab.evaluation.labelled_runs import RunSet
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.simulation.figures import (
    BudgetFigures,
    HealthyFigures,
    LevelFigures,
    LevelOutcomes,
    LoopFigures,
    TokenFigures,
    count_outcomes,
    estimate_unaided_recovery,
    measure_budget,
    measure_healthy,
    measure_levels,
    measure_loops,
    measure_tokens,
)
from steadyhelm.lab.simulation.simulated_run import (
    HealthReason,
    ReachedLevel,
    Refusal,
    SimulatedRun,
    read_set_truth,
    simulate_run,
)
from steadyhelm.replay import Replayer
from steadyhelm.settings import Settings

MAX_DISTURBED_SHARE: Final = 0.02
"""Of the runs known to have succeeded, the share that may get more than a reminder."""

_LIMITS: Final = ("steps", "tokens", "cost_usd", "wall_s")


class DisturbedRun(Struct, frozen=True, kw_only=True):
    """A healthy run that would have received a response, with that response for review."""

    set_name: str
    run_id: str
    healthy_because: HealthReason
    reached: list[ReachedLevel]
    refusals: list[Refusal]
    events: list[ShownEvent]


class SetSimulation(Struct, frozen=True, kw_only=True):
    """The responses that the runs of one set would have received.

    `succeeded` and `unjudged` are the two kinds of runs that should get no response: known to have succeeded,
    and of a set without outcomes and labels.
    `unaided_recovery` is how often a recorded agent recovered after the first intervention, which it did not
    receive.
    """

    name: str
    runs: int
    steps: int
    broken: int
    loops: LoopFigures
    tokens: TokenFigures | None
    succeeded: HealthyFigures | None
    unjudged: HealthyFigures | None
    levels: list[LevelFigures]
    outcomes: list[LevelOutcomes]
    unaided_recovery: Estimate
    budget: BudgetFigures | None


class SimulationReport(Struct, frozen=True, kw_only=True):
    """The result of `steadyhelm lab simulate`.

    `is_harmless` says whether at most 2 in 100 healthy runs known to have succeeded get more than a reminder;
    it is None where none is known to.
    """

    detectors: list[str]
    thresholds: dict[str, float]
    limits: dict[str, float]
    samples: int
    seed: int
    troubles: dict[str, int]
    sets: list[SetSimulation]
    together: SetSimulation
    disturbed: list[DisturbedRun]
    is_harmless: bool | None


def simulate(
    sets: Sequence[RunSet],
    settings: Settings,
    *,
    samples: int = 1000,
    seed: int = 0,
    replayer: Replayer | None = None,
    on_run: Callable[[], None] = lambda: None,
) -> SimulationReport:
    """Replay recorded runs through the session that watches live agents, and count what it would have done.

    The same runs and settings lead to the same report.

    Args:
        sets: The runs, each judged alone, without a baseline.
        settings: The policy, its budget and its detectors.
        samples: How often runs are resampled for an interval.
        seed: Makes the intervals reproducible.
        replayer: Replays the runs, instead of one made from the settings.
        on_run: Called after each run, to show progress.
    """
    replayer = replayer or Replayer(settings, mode="enforce")
    limits = get_budget_limits(settings)
    summarise = partial(_summarise_runs, limits=limits, samples=samples, seed=seed)
    replayed = [_replay_set(one, replayer, on_run) for one in sets]
    everything = [run for it in replayed for run in it.runs]
    together = summarise(
        TOGETHER, everything, definition="as in each set", broken=sum(it.broken for it in replayed)
    )
    return SimulationReport(
        detectors=replayer.detectors,
        thresholds=_get_thresholds(settings),
        limits=limits,
        samples=samples,
        seed=seed,
        troubles=replayer.troubles,
        sets=[summarise(it.name, it.runs, definition=it.definition, broken=it.broken) for it in replayed],
        together=together,
        disturbed=_find_disturbed(replayed),
        is_harmless=_is_gentle(together.succeeded),
    )


def get_budget_limits(settings: Settings) -> dict[str, float]:
    """Return the limits of the budget that are set, by name."""
    return {name: limit for name in _LIMITS if (limit := getattr(settings, f"budget_{name}"))}


class _ReplayedSet(NamedTuple):
    name: str
    runs: list[SimulatedRun]
    definition: str
    broken: int


def _replay_set(one: RunSet, replayer: Replayer, on_run: Callable[[], None]) -> _ReplayedSet:
    known = read_set_truth(one.runs)
    runs = []
    for run in replayer.apply(partial(simulate_run, known), one.runs):
        runs.append(run)
        on_run()
    return _ReplayedSet(one.name, runs, known.definition, len(one.broken))


def _summarise_runs(
    name: str,
    runs: Sequence[SimulatedRun],
    *,
    definition: str,
    broken: int,
    limits: dict[str, float],
    samples: int,
    seed: int,
) -> SetSimulation:
    return SetSimulation(
        name=name,
        runs=len(runs),
        steps=sum(run.steps for run in runs),
        broken=broken,
        loops=measure_loops(runs, definition),
        tokens=measure_tokens(runs, samples=samples, seed=seed),
        succeeded=measure_healthy(runs, "succeeded"),
        unjudged=measure_healthy(runs, "unjudged"),
        levels=measure_levels(runs),
        outcomes=count_outcomes(runs),
        unaided_recovery=estimate_unaided_recovery(runs, samples=samples, seed=seed),
        budget=measure_budget(runs, limits),
    )


def _is_gentle(healthy: HealthyFigures | None) -> bool | None:
    share = None if healthy is None else healthy.disturbed.share.value
    return None if share is None else share <= MAX_DISTURBED_SHARE


def _get_thresholds(settings: Settings) -> dict[str, float]:
    names = ("remind", "replan", "rollback", "ask")
    return {name: getattr(settings, f"policy_{name}_threshold") for name in names}


def _find_disturbed(replayed: Sequence[_ReplayedSet]) -> list[DisturbedRun]:
    """Return every healthy run that would have received a response, the strongest first."""
    found = [
        DisturbedRun(
            set_name=one.name,
            run_id=run.run_id,
            healthy_because=run.truth.healthy_because,
            reached=run.reached,
            refusals=run.refusals,
            events=run.events_shown,
        )
        for one in replayed
        for run in one.runs
        if run.truth.is_healthy and (run.reached or run.refusals)
    ]
    return sorted(found, key=lambda it: -max((answer.action.level for answer in it.reached), default=0))
