"""Judge whether interventions helped: one by the steps that follow it, many by comparison in groups."""

import math
from collections.abc import Sequence
from typing import Final, Literal, get_args

from msgspec import Struct

from steadyhelm.decisions import Intervention, Outcome
from steadyhelm.store_rows import StoredIntervention
from steadyhelm.windows import quantile, wilson_interval

TRIAL_STEPS: Final = 8
"""Steps of the agent without the same drift after which an intervention has worked."""

RETURNS_UNTIL_IGNORED: Final = 2
"""Steps with the same drift after which it was ignored: the first may have been under way already."""

EXPECTED_CHANGES: Final = {
    "loop": "the same steps do not come back",
    "goal": "the next replies are about the goal again",
    "resource": "the run comes to an end, or spends less",
    "style": "the next replies are as they should be",
    "correction": "the user has no more to correct",
    "transition": "the agent goes back to its usual ways",
}


class Trial(Struct):
    """An intervention whose outcome is not known yet.

    `seq` is where it was delivered, `counts` the type of step the drift showed in: only such steps count.
    `quiet` counts those since the same drift was last seen, `returns` how often it was seen again.
    """

    seq: int
    counts: str
    window: int = TRIAL_STEPS
    quiet: int = 0
    returns: int = 0

    def is_after(self, started_seq: int | None) -> bool:
        """Return whether a step began after the intervention; a call under way could not follow it."""
        return started_seq is None or started_seq > self.seq

    @property
    def is_last_chance(self) -> bool:
        """Whether the intervention counts as ignored if the same drift is seen once more."""
        return self.returns + 1 >= RETURNS_UNTIL_IGNORED

    def final_outcome(self) -> Outcome:
        """Return the outcome if the run ends now: half the usual steps are enough, fewer are not."""
        return "worked" if 2 * self.quiet >= TRIAL_STEPS else "unknown"

    def record_step(self, *, returned: bool, other: bool = False) -> Outcome | None:
        """Record one step after the intervention, and return the outcome once it is known.

        `returned` says that the same drift was seen at this step, `other` that drift of another kind began:
        then the intervention did more harm than good.

        >>> trial = Trial(seq=4, counts="tool_call")
        >>> [trial.record_step(returned=returned) for returned in (True, False, True)]
        [None, None, 'ignored']
        """
        if other:
            return "worse"
        if not returned:
            self.quiet += 1
            return "worked" if self.quiet >= self.window else None
        self.quiet = 0
        self.returns += 1
        return "ignored" if self.returns >= RETURNS_UNTIL_IGNORED else None


# Measure in groups whether interventions helped, compared with drift that got no response. An intervention
# helped when the drift did not come back within its window. Some drift stops by itself, so the share that
# helped means little alone: responses that were not delivered, as in mode `observe`, are judged in the same
# way and reported beside it.

Facet = Literal["agent", "wording", "kind", "action"]
FACETS: Final[tuple[Facet, ...]] = get_args(Facet)

MIN_JUDGED: Final = 10
"""Judged interventions from which a share is meaningful; below, only the counts are."""


class OutcomeShare(Struct, frozen=True, kw_only=True):
    """A share of interventions, with its 95 % interval."""

    hits: int = 0
    of: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None
    is_enough: bool = False


class ShareDifference(Struct, frozen=True, kw_only=True):
    """How much more often drift stopped after an intervention than without; below 0, less often."""

    value: float
    low: float
    high: float


class InterventionEffect(Struct, frozen=True, kw_only=True):
    """The outcomes of the interventions of one group.

    `said` were delivered to the agent: `worked`, `ignored` and `worse` are those judged so far, `unknown` the
    others. `not_carried_out` went to a caller that could not carry them out.
    `helped` is the share that worked of those judged, `by_itself` the share of drift that stopped without
    an intervention; `gain` is the difference, None while either is based on too few.
    `tokens_saved` adds up what the interventions that worked saved; `tokens_before` and `cost_before_usd`
    are the medians of what an incident had cost at the intervention.
    """

    group: dict[Facet, str]
    said: int = 0
    worked: int = 0
    ignored: int = 0
    worse: int = 0
    unknown: int = 0
    unsaid: int = 0
    not_carried_out: int = 0
    helped: OutcomeShare
    by_itself: OutcomeShare
    gain: ShareDifference | None = None
    tokens_saved: int = 0
    tokens_before: float = 0.0
    cost_before_usd: float = 0.0


class EffectReport(Struct, frozen=True, kw_only=True):
    """The effect of each group, the most delivered first, and of all of them together.

    `false_alarms` counts the interventions left out because people marked their incident as a false alarm:
    that nothing came back after those proves nothing.
    """

    rows: tuple[InterventionEffect, ...]
    together: InterventionEffect
    false_alarms: int = 0


def measure_effects(
    stored: Sequence[StoredIntervention], by: Sequence[Facet] = ("agent", "wording")
) -> EffectReport:
    """Return the effects of these interventions, in groups that share these facets.

    A response to drift of two kinds at once counts for each: it is judged for each by itself.
    """
    groups: dict[tuple[str, ...], list[Intervention]] = {}
    false_alarms = [it for it in stored if it.review == "false_alarm"]
    for it in stored:
        if it.review != "false_alarm":
            groups.setdefault(tuple(_get_facet(it, name) for name in by), []).append(it.intervention)
    rows = [_measure_group(dict(zip(by, key, strict=True)), group) for key, group in groups.items()]
    rows.sort(key=lambda row: (-row.said, -row.unsaid, *row.group.values()))
    together = _measure_group({}, [it for group in groups.values() for it in group])
    return EffectReport(rows=tuple(rows), together=together, false_alarms=len(false_alarms))


def _get_facet(stored: StoredIntervention, name: Facet) -> str:
    if name == "agent":
        return stored.agent_id
    if name == "kind":
        return stored.kind
    return stored.intervention.wording if name == "wording" else stored.intervention.action.value


def _measure_group(group: dict[Facet, str], interventions: Sequence[Intervention]) -> InterventionEffect:
    reached = [it for it in interventions if it.said and not it.not_carried_out]
    unsaid = [it for it in interventions if not it.said]
    count = {name: sum(it.outcome == name for it in reached) for name in ("worked", "ignored", "worse")}
    judged = sum(count.values())
    helped = build_share(count["worked"], judged)
    by_itself = build_share(
        sum(it.outcome == "worked" for it in unsaid), sum(it.outcome != "unknown" for it in unsaid)
    )
    return InterventionEffect(
        group=group,
        said=len(reached),
        **count,
        unknown=len(reached) - judged,
        unsaid=len(unsaid),
        not_carried_out=len(interventions) - len(reached) - len(unsaid),
        helped=helped,
        by_itself=by_itself,
        gain=compare_shares(helped, by_itself),
        tokens_saved=sum(it.tokens_saved or 0 for it in reached if it.outcome == "worked"),
        tokens_before=quantile(sorted(it.tokens_before for it in reached), 0.5),
        cost_before_usd=quantile(sorted(it.cost_before_usd for it in reached), 0.5),
    )


def build_share(hits: int, of: int) -> OutcomeShare:
    """Return the share of hits, with its Wilson interval.

    >>> build_share(0, 0).value is None, build_share(9, 9).is_enough, round(build_share(9, 9).low, 2)
    (True, False, 0.7)
    """
    if of == 0:
        return OutcomeShare()
    low, high = wilson_interval(hits, of)
    return OutcomeShare(hits=hits, of=of, value=hits / of, low=low, high=high, is_enough=of >= MIN_JUDGED)


def compare_shares(helped: OutcomeShare, by_itself: OutcomeShare) -> ShareDifference | None:
    """Return the difference of two shares with Newcombe's interval; None where either has too few.

    >>> round(compare_shares(build_share(18, 20), build_share(6, 20)).low, 2)
    0.3
    """
    if not (helped.is_enough and by_itself.is_enough):
        return None
    one, other = wilson_interval(helped.hits, helped.of), wilson_interval(by_itself.hits, by_itself.of)
    first, second = helped.hits / helped.of, by_itself.hits / by_itself.of
    value = first - second
    return ShareDifference(
        value=value,
        low=value - math.hypot(first - one.low, other.high - second),
        high=value + math.hypot(one.high - first, second - other.low),
    )
