"""Had this policy been on: what it would have done to recorded runs, good and bad."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct

from steadyhelm.lab.evaluation.evaluation import TOGETHER
from steadyhelm.lab.evaluation.excerpts import ShownEvent
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.evaluation.places import RunSet
from steadyhelm.lab.simulation.budget import BudgetFigures, budget_figures
from steadyhelm.lab.simulation.figures import (
    Answers,
    HealthyFigures,
    LoopFigures,
    Rung,
    TokenFigures,
    answers,
    by_itself,
    healthy_figures,
    ladder,
    loop_figures,
    token_figures,
)
from steadyhelm.lab.simulation.runs import Reached, Refusal, SimulatedRun, simulated
from steadyhelm.lab.simulation.truth import Well, known_of
from steadyhelm.replay import Judge
from steadyhelm.settings import Settings

MOST_DISTURBED: Final = 0.02
"""Of the runs known to have succeeded, the share that may get more than a reminder."""

_LIMITS: Final = ("steps", "tokens", "cost_usd", "wall_s")


class Disturbed(Struct, frozen=True, kw_only=True):
    """A run that should be left alone, and what it would have got: for people to judge."""

    set_name: str
    run_id: str
    well: Well
    reached: list[Reached]
    refusals: list[Refusal]
    events: list[ShownEvent]


class SetSimulation(Struct, frozen=True, kw_only=True):
    """What the policy would have done to the runs of one set.

    `succeeded` and `unjudged` are the two kinds of runs that should be left alone: known to have succeeded,
    and of a set of which nobody said anything.
    `by_itself` is how often a recorded agent came off after the first answer, without having heard it.
    """

    name: str
    runs: int
    steps: int
    broken: int
    loops: LoopFigures
    tokens: TokenFigures | None
    succeeded: HealthyFigures | None
    unjudged: HealthyFigures | None
    ladder: list[Rung]
    answers: list[Answers]
    by_itself: Estimate
    budget: BudgetFigures | None


class SimulationReport(Struct, frozen=True, kw_only=True):
    """What `steadyhelm lab simulate` found out.

    `is_gentle` says whether at most 2 in 100 healthy runs known to have succeeded get more than a reminder;
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
    disturbed: list[Disturbed]
    is_gentle: bool | None


def simulate(
    sets: Sequence[RunSet],
    settings: Settings,
    *,
    samples: int = 1000,
    seed: int = 0,
    judge: Judge | None = None,
    on_run: Callable[[], None] = lambda: None,
) -> SimulationReport:
    """Replay recorded runs through the session that watches live agents, and count what it would have done.

    The same runs and settings give the same report.

    Args:
        sets: The runs, each judged alone, without a baseline.
        settings: The policy, its budget and its detectors.
        samples: How often runs are resampled for an interval.
        seed: Makes the intervals repeatable.
        judge: Replays the runs, instead of one made from the settings.
        on_run: Called after each run, for those who show how far it is.
    """
    judge = judge or Judge(settings, mode="enforce")
    limits = limits_of(settings)
    summed = partial(_summed, limits=limits, samples=samples, seed=seed)
    replayed = [_replayed(one, judge, on_run) for one in sets]
    everything = [run for it in replayed for run in it.runs]
    together = summed(
        TOGETHER, everything, definition="as in each set", broken=sum(it.broken for it in replayed)
    )
    return SimulationReport(
        detectors=judge.detectors,
        thresholds=_thresholds(settings),
        limits=limits,
        samples=samples,
        seed=seed,
        troubles=judge.troubles,
        sets=[summed(it.name, it.runs, definition=it.definition, broken=it.broken) for it in replayed],
        together=together,
        disturbed=_disturbed(replayed),
        is_gentle=_is_gentle(together.succeeded),
    )


def limits_of(settings: Settings) -> dict[str, float]:
    """The limits of the budget that are set, by name."""
    return {name: limit for name in _LIMITS if (limit := getattr(settings, f"budget_{name}"))}


class _Replayed(NamedTuple):
    name: str
    runs: list[SimulatedRun]
    definition: str
    broken: int


def _replayed(one: RunSet, judge: Judge, on_run: Callable[[], None]) -> _Replayed:
    known = known_of(one.runs)
    runs = []
    for run in one.runs:
        runs.append(simulated(run, judge, known))
        on_run()
    return _Replayed(one.name, runs, known.definition, len(one.broken))


def _summed(
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
        loops=loop_figures(runs, definition),
        tokens=token_figures(runs, samples=samples, seed=seed),
        succeeded=healthy_figures(runs, "succeeded"),
        unjudged=healthy_figures(runs, "unjudged"),
        ladder=ladder(runs),
        answers=answers(runs),
        by_itself=by_itself(runs, samples=samples, seed=seed),
        budget=budget_figures(runs, limits),
    )


def _is_gentle(healthy: HealthyFigures | None) -> bool | None:
    share = None if healthy is None else healthy.disturbed.share.value
    return None if share is None else share <= MOST_DISTURBED


def _thresholds(settings: Settings) -> dict[str, float]:
    names = ("nudge", "replan", "checkpoint", "stop")
    return {name: getattr(settings, f"policy_{name}_threshold") for name in names}


def _disturbed(replayed: Sequence[_Replayed]) -> list[Disturbed]:
    """Every healthy run that would not have been left alone, the strongest answers first."""
    found = [
        Disturbed(
            set_name=one.name,
            run_id=run.run_id,
            well=run.truth.well,
            reached=run.reached,
            refusals=run.refusals,
            events=run.shown,
        )
        for one in replayed
        for run in one.runs
        if run.truth.is_healthy and (run.reached or run.refusals)
    ]
    return sorted(found, key=lambda it: -max((answer.action.level for answer in it.reached), default=0))
