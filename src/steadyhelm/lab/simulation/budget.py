"""What a budget would have done to recorded runs: which it would have harmed, which it would have cut."""

from collections.abc import Sequence

from msgspec import Struct

from steadyhelm.lab.simulation.figures import Share, is_wasteful, share_of
from steadyhelm.lab.simulation.runs import RanOut, SimulatedRun
from steadyhelm.lab.simulation.truth import SUCCESS


class BudgetFigures(Struct, frozen=True, kw_only=True):
    """Which runs would have used up the budget before they ended.

    `harmed` are the runs that succeeded without it, `cut` all others.
    `tokens_saved` is what those of them that nobody takes for healthy spent after that; None where no tokens
    were recorded.
    `not_applied` counts, for each limit, the runs whose recording lacks what it limits.
    """

    limits: dict[str, float]
    succeeded: Share
    failed: Share
    unjudged: Share
    tokens_saved: int | None
    harmed: list[RanOut]
    cut: list[RanOut]
    not_applied: dict[str, int]


def budget_figures(runs: Sequence[SimulatedRun], limits: dict[str, float]) -> BudgetFigures | None:
    """Which of these runs the budget would have ended; None without a budget."""
    if not limits:
        return None
    groups = {
        outcome: [run for run in runs if run.truth.outcome == outcome] for outcome in (SUCCESS, "failure", "")
    }
    cut = [run.ran_out for run in runs if run.ran_out is not None and run.truth.outcome != SUCCESS]
    saved = [run.ran_out.tokens_left or 0 for run in runs if run.ran_out is not None and is_wasteful(run)]
    is_recorded = any(run.tokens is not None for run in runs)
    return BudgetFigures(
        limits=limits,
        succeeded=share_of(groups[SUCCESS], _has_run_out),
        failed=share_of(groups["failure"], _has_run_out),
        unjudged=share_of(groups[""], _has_run_out),
        tokens_saved=sum(saved) if is_recorded else None,
        harmed=[run.ran_out for run in groups[SUCCESS] if run.ran_out is not None],
        cut=cut,
        not_applied={name: times for name in limits if (times := sum(_lacks(run, name) for run in runs))},
    )


def _has_run_out(run: SimulatedRun) -> bool:
    return run.ran_out is not None


def _lacks(run: SimulatedRun, limit: str) -> bool:
    """Whether a run's recording lacks what a limit counts; steps are always there."""
    recorded = {"tokens": run.tokens is not None, "wall_s": run.has_durations, "cost_usd": run.has_costs}
    return not recorded.get(limit, True)
