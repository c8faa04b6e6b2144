"""Figures of a simulation: shares, tokens, response levels, outcomes and budgets, each with its interval."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec import Struct

from steadyhelm.decisions import RESPONSE_LEVELS, DriftAction, Outcome
from steadyhelm.lab.evaluation.evaluator import Delay, summarise_delays
from steadyhelm.lab.evaluation.metrics import Counts, Estimate, bootstrap, estimate_share, recall, sum_counts
from steadyhelm.lab.simulation.simulated_run import REPLAN_LEVEL, SUCCESS, BudgetEnd, SimulatedRun

REMINDER_LEVEL: Final = DriftAction.INJECT_REMINDER
OUTCOMES: Final[tuple[Outcome, ...]] = ("worked", "ignored", "worse", "unknown")
RunTest = Callable[[SimulatedRun], bool]


class RunShare(Struct, frozen=True, kw_only=True):
    """A number of runs out of all of a kind, with the Wilson interval of that share."""

    hits: int
    of: int
    share: Estimate

    def __str__(self) -> str:
        return f"{self.hits} of {self.of}" + (f": {self.share}" if self.of else "")


class LoopFigures(Struct, frozen=True, kw_only=True):
    """The responses that looping runs would have received.

    `refused` are the runs in which a call would have been blocked before it was made.
    Delays are counted in steps, from the first evidence of the loop.
    """

    definition: str
    runs: int
    stopped: RunShare
    reminded: RunShare
    refused: RunShare
    delay_to_stop: Delay | None
    delay_to_reminder: Delay | None


class TokenFigures(Struct, frozen=True, kw_only=True):
    """Tokens spent after a run would have been re-planned or stopped, until its end or the next user message.

    `saved` and `share` leave out runs that succeeded or are treated as healthy: what those spent
    after it, `in_healthy`, was not wasted. `unknown_runs` carry no tokens and count nowhere.
    """

    runs: int
    unknown_runs: int
    spent: int
    saved: int
    share: Estimate
    in_looping: int
    in_healthy: int


class HealthyFigures(Struct, frozen=True, kw_only=True):
    """The responses that healthy runs would have received; `left_out` repeat something."""

    left_out: int
    disturbed: RunShare
    reminded: RunShare
    refused: RunShare


class LevelFigures(Struct, frozen=True, kw_only=True):
    """The runs that would have reached a response level or a stronger one, and what caused it."""

    action: DriftAction
    runs: int
    looping: int
    healthy: int
    other: int
    by: dict[str, int]


class LevelOutcomes(Struct, frozen=True, kw_only=True):
    """The outcomes of one response level in recorded runs, whose agents could not receive the guidance."""

    action: DriftAction
    outcomes: dict[Outcome, int]


class BudgetFigures(Struct, frozen=True, kw_only=True):
    """The runs that would have used up the budget before they ended.

    `harmed` are the runs that succeeded without it, `cut` all others.
    `tokens_saved` is what the runs not treated as healthy spent after that; None where no tokens were
    recorded.
    `not_applied` counts, for each limit, the runs whose recording lacks what it limits.
    """

    limits: dict[str, float]
    succeeded: RunShare
    failed: RunShare
    unjudged: RunShare
    tokens_saved: int | None
    harmed: list[BudgetEnd]
    cut: list[BudgetEnd]
    not_applied: dict[str, int]


def measure_loops(runs: Sequence[SimulatedRun], definition: str) -> LoopFigures:
    """Return the responses that the looping runs among these would have received."""
    looping = [run for run in runs if run.truth.is_looping]
    return LoopFigures(
        definition=definition,
        runs=len(looping),
        stopped=measure_share(looping, _is_stopped),
        reminded=measure_share(looping, _is_reminded),
        refused=measure_share(looping, _is_refused),
        delay_to_stop=summarise_delays(run.delay(REPLAN_LEVEL) for run in looping),
        delay_to_reminder=summarise_delays(run.delay(REMINDER_LEVEL) for run in looping),
    )


def measure_tokens(runs: Sequence[SimulatedRun], *, samples: int, seed: int) -> TokenFigures | None:
    """Return the tokens that stopping would have saved; None where none of these runs recorded any."""
    recorded = [(run, run.tokens, run.tokens_saved or 0) for run in runs if run.tokens is not None]
    if not recorded:
        return None
    spent = sum(tokens for _, tokens, _ in recorded)
    wasted = [(tokens, saved if is_wasteful(run) else 0) for run, tokens, saved in recorded]
    saved = sum(saved for _, saved in wasted)
    counts = [Counts(tp=saved, fn=tokens - saved) for tokens, saved in wasted]
    return TokenFigures(
        runs=len(recorded),
        unknown_runs=len(runs) - len(recorded),
        spent=spent,
        saved=saved,
        share=_estimate_hit_share(counts, samples=samples, seed=seed),
        in_looping=sum(saved for run, _, saved in recorded if run.truth.is_looping and is_wasteful(run)),
        in_healthy=sum(saved for run, _, saved in recorded if not is_wasteful(run)),
    )


def measure_healthy(
    runs: Sequence[SimulatedRun], healthy_because: Literal["succeeded", "unjudged"]
) -> HealthyFigures | None:
    """Return the responses that the runs healthy for this reason would have received; None without any."""
    chosen = [run for run in runs if run.truth.healthy_because == healthy_because]
    if not chosen:
        return None
    healthy = [run for run in chosen if run.truth.is_healthy]
    return HealthyFigures(
        left_out=len(chosen) - len(healthy),
        disturbed=measure_share(healthy, _is_stopped),
        reminded=measure_share(healthy, _is_reminded),
        refused=measure_share(healthy, _is_refused),
    )


def measure_levels(runs: Sequence[SimulatedRun]) -> list[LevelFigures]:
    """Return the response levels above `CONTINUE`, weakest first."""
    return [_measure_level(runs, action) for action in RESPONSE_LEVELS[1:]]


def count_outcomes(runs: Sequence[SimulatedRun]) -> list[LevelOutcomes]:
    """Return the outcomes of interventions, by response level."""
    return [
        LevelOutcomes(
            action=action,
            outcomes={
                outcome: sum(run.outcomes.get((action, outcome), 0) for run in runs) for outcome in OUTCOMES
            },
        )
        for action in RESPONSE_LEVELS[1:]
    ]


def estimate_unaided_recovery(runs: Sequence[SimulatedRun], *, samples: int, seed: int) -> Estimate:
    """Return how often the recorded agent recovered unaided after the first intervention of an incident.

    Unknown outcomes do not count, nor do later interventions, which follow only where the first failed.
    """
    counts = [
        Counts(tp=of.get("worked", 0), fn=of.get("ignored", 0) + of.get("worse", 0))
        for of in (run.first_outcomes for run in runs)
    ]
    return _estimate_hit_share(counts, samples=samples, seed=seed)


def is_wasteful(run: SimulatedRun) -> bool:
    """Return whether tokens spent after the stop count as saved: not in runs that went well."""
    return run.truth.outcome != SUCCESS and not run.truth.is_healthy


def _estimate_hit_share(counts: Sequence[Counts], *, samples: int, seed: int) -> Estimate:
    """Return the share of hits among hits and misses, resampled by run.

    At 0 and 1 there is no interval: resampling equal values cannot produce others.
    """
    if recall(sum_counts(counts)) in {0.0, 1.0}:
        samples = 0
    return bootstrap(counts, recall, samples=samples, seed=seed)


def measure_share(runs: Sequence[SimulatedRun], test: RunTest) -> RunShare:
    """Return the share of these runs that pass a test."""
    hits = sum(map(test, runs))
    return RunShare(hits=hits, of=len(runs), share=estimate_share(hits, len(runs)))


def _is_stopped(run: SimulatedRun) -> bool:
    return run.find_level(REPLAN_LEVEL) is not None


def _is_reminded(run: SimulatedRun) -> bool:
    return bool(run.reached)


def _is_refused(run: SimulatedRun) -> bool:
    return bool(run.refusals)


def _measure_level(runs: Sequence[SimulatedRun], action: DriftAction) -> LevelFigures:
    reached = [(run, answer) for run in runs if (answer := run.find_level(action)) is not None]
    looping = sum(run.truth.is_looping for run, _ in reached)
    healthy = sum(run.truth.is_healthy for run, _ in reached)
    return LevelFigures(
        action=action,
        runs=len(reached),
        looping=looping,
        healthy=healthy,
        other=len(reached) - looping - healthy,
        by=dict(Counter(answer.by for _, answer in reached)),
    )


def measure_budget(runs: Sequence[SimulatedRun], limits: dict[str, float]) -> BudgetFigures | None:
    """Return which of these runs the budget would have ended; None without a budget."""
    if not limits:
        return None
    groups = {
        outcome: [run for run in runs if run.truth.outcome == outcome] for outcome in (SUCCESS, "failure", "")
    }
    cut = [run.budget_end for run in runs if run.budget_end is not None and run.truth.outcome != SUCCESS]
    saved = [
        run.budget_end.tokens_left or 0 for run in runs if run.budget_end is not None and is_wasteful(run)
    ]
    is_recorded = any(run.tokens is not None for run in runs)
    return BudgetFigures(
        limits=limits,
        succeeded=measure_share(groups[SUCCESS], _has_run_out),
        failed=measure_share(groups["failure"], _has_run_out),
        unjudged=measure_share(groups[""], _has_run_out),
        tokens_saved=sum(saved) if is_recorded else None,
        harmed=[run.budget_end for run in groups[SUCCESS] if run.budget_end is not None],
        cut=cut,
        not_applied={
            name: times for name in limits if (times := sum(_is_missing(run, name) for run in runs))
        },
    )


def _has_run_out(run: SimulatedRun) -> bool:
    return run.budget_end is not None


def _is_missing(run: SimulatedRun, limit: str) -> bool:
    """Return whether a run's recording lacks what a limit counts; steps are always recorded."""
    recorded = {"tokens": run.tokens is not None, "wall_s": run.has_durations, "cost_usd": run.has_costs}
    return not recorded.get(limit, True)
