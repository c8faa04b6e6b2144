"""What a policy would have done to many runs: shares, tokens, rungs and outcomes, each with its interval."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from steadyhelm.decisions import RESPONSE_LEVELS, DriftAction, Outcome
from steadyhelm.lab.evaluation.evaluation import Delay
from steadyhelm.lab.evaluation.metrics import Counts, Estimate, bootstrap, proportion, recall, total
from steadyhelm.lab.simulation.runs import STOPPING, SimulatedRun
from steadyhelm.lab.simulation.truth import SUCCESS

REMINDING: Final = DriftAction.INJECT_REMINDER
OUTCOMES: Final[tuple[Outcome, ...]] = ("worked", "ignored", "worse", "unknown")

Test = Callable[[SimulatedRun], bool]


class Share(Struct, frozen=True, kw_only=True):
    """So many of so many runs, with the Wilson interval of that share."""

    hits: int
    of: int
    share: Estimate

    def __str__(self) -> str:
        return f"{self.hits} of {self.of}" + (f": {self.share}" if self.of else "")


class LoopFigures(Struct, frozen=True, kw_only=True):
    """What the looping runs would have got.

    `refused` are the runs in which a call would not have been let through before it was made.
    Delays are counted in steps, from the first evidence of the loop.
    """

    definition: str
    runs: int
    stopped: Share
    reminded: Share
    refused: Share
    delay_to_stop: Delay | None
    delay_to_reminder: Delay | None


class TokenFigures(Struct, frozen=True, kw_only=True):
    """Tokens spent after a run would have been re-planned or stopped, until its end or the user's word.

    `saved` and `share` leave out runs that succeeded or have to be taken for healthy: what those spent
    after it, `in_well`, was no waste. `unknown_runs` carry no tokens and count nowhere.
    """

    runs: int
    unknown_runs: int
    spent: int
    saved: int
    share: Estimate
    in_looping: int
    in_well: int


class HealthyFigures(Struct, frozen=True, kw_only=True):
    """What runs that should be left alone would have got; `left_out` are those in which something repeats."""

    left_out: int
    disturbed: Share
    reminded: Share
    refused: Share


class Rung(Struct, frozen=True, kw_only=True):
    """How many runs would have reached a rung or a stronger one, which runs, and what brought them there."""

    action: DriftAction
    runs: int
    looping: int
    healthy: int
    other: int
    by: dict[str, int]


class Answers(Struct, frozen=True, kw_only=True):
    """What came of the answers of one rung in recorded runs, whose agents could not hear them."""

    action: DriftAction
    outcomes: dict[Outcome, int]


def loop_figures(runs: Sequence[SimulatedRun], definition: str) -> LoopFigures:
    """What the looping runs among these would have got."""
    looping = [run for run in runs if run.truth.is_looping]
    return LoopFigures(
        definition=definition,
        runs=len(looping),
        stopped=share_of(looping, _is_stopped),
        reminded=share_of(looping, _is_reminded),
        refused=share_of(looping, _is_refused),
        delay_to_stop=_delay(run.delay(STOPPING) for run in looping),
        delay_to_reminder=_delay(run.delay(REMINDING) for run in looping),
    )


def token_figures(runs: Sequence[SimulatedRun], *, samples: int, seed: int) -> TokenFigures | None:
    """The tokens that stopping would have spared; None where none of these runs recorded any."""
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
        share=_resampled(counts, samples=samples, seed=seed),
        in_looping=sum(saved for run, _, saved in recorded if run.truth.is_looping and is_wasteful(run)),
        in_well=sum(saved for run, _, saved in recorded if not is_wasteful(run)),
    )


def healthy_figures(
    runs: Sequence[SimulatedRun], well: Literal["succeeded", "unjudged"]
) -> HealthyFigures | None:
    """What the runs that are well for this reason would have got; None where there are none."""
    chosen = [run for run in runs if run.truth.well == well]
    if not chosen:
        return None
    healthy = [run for run in chosen if run.truth.is_healthy]
    return HealthyFigures(
        left_out=len(chosen) - len(healthy),
        disturbed=share_of(healthy, _is_stopped),
        reminded=share_of(healthy, _is_reminded),
        refused=share_of(healthy, _is_refused),
    )


def ladder(runs: Sequence[SimulatedRun]) -> list[Rung]:
    """The rungs above going on, gentlest first."""
    return [_rung(runs, action) for action in RESPONSE_LEVELS[1:]]


def answers(runs: Sequence[SimulatedRun]) -> list[Answers]:
    """What came of the answers, by rung."""
    return [
        Answers(
            action=action,
            outcomes={
                outcome: sum(run.given.get((action, outcome), 0) for run in runs) for outcome in OUTCOMES
            },
        )
        for action in RESPONSE_LEVELS[1:]
    ]


def by_itself(runs: Sequence[SimulatedRun], *, samples: int, seed: int) -> Estimate:
    """Of the first answers to an incident, the share after which the recorded agent came off by itself.

    Those whose outcome was not seen do not count; later answers are only given where the first failed.
    """
    counts = [
        Counts(tp=of.get("worked", 0), fn=of.get("ignored", 0) + of.get("worse", 0))
        for of in (run.first_given for run in runs)
    ]
    return _resampled(counts, samples=samples, seed=seed)


def is_wasteful(run: SimulatedRun) -> bool:
    """Whether what a run spends after it was stopped counts as saved: not where it went well."""
    return run.truth.outcome != SUCCESS and not run.truth.is_healthy


def _resampled(counts: Sequence[Counts], *, samples: int, seed: int) -> Estimate:
    """The share of hits among hits and misses, resampled by run: what one run holds goes together.

    At 0 and 1 there is no interval: resampling knows nothing but what it was given.
    """
    if recall(total(counts)) in {0.0, 1.0}:
        samples = 0
    return bootstrap(counts, recall, samples=samples, seed=seed)


def share_of(runs: Sequence[SimulatedRun], test: Test) -> Share:
    """The share of these runs that pass a test."""
    hits = sum(map(test, runs))
    return Share(hits=hits, of=len(runs), share=proportion(hits, len(runs)))


def _is_stopped(run: SimulatedRun) -> bool:
    return run.reaches(STOPPING) is not None


def _is_reminded(run: SimulatedRun) -> bool:
    return bool(run.reached)


def _is_refused(run: SimulatedRun) -> bool:
    return bool(run.refusals)


def _rung(runs: Sequence[SimulatedRun], action: DriftAction) -> Rung:
    reached = [(run, answer) for run in runs if (answer := run.reaches(action)) is not None]
    looping = sum(run.truth.is_looping for run, _ in reached)
    healthy = sum(run.truth.is_healthy for run, _ in reached)
    return Rung(
        action=action,
        runs=len(reached),
        looping=looping,
        healthy=healthy,
        other=len(reached) - looping - healthy,
        by=dict(Counter(answer.by for _, answer in reached)),
    )


def _delay(delays: Iterable[int | None]) -> Delay | None:
    values = sorted(delay for delay in delays if delay is not None)
    if not values:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return Delay(median=statistics.median(values), low=low, high=high, values=values)
