"""Did the answers help? Counted in groups, beside what happened where nothing was said.

An answer helped when the drift did not come back within its window. Some drift stops by itself, and so the
share that helped means little alone: answers that nobody was told, as in mode `observe`, are judged in the
same way and stand beside it.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final, Literal, get_args

from msgspec import Struct

from steadyhelm.decisions import Intervention
from steadyhelm.store import StoredIntervention
from steadyhelm.windows import quantile, wilson

Facet = Literal["agent", "wording", "kind", "action"]
FACETS: Final[tuple[Facet, ...]] = get_args(Facet)

ENOUGH: Final = 10
"""Judged answers from which a share says something; below, only the counts do."""


class Share(Struct, frozen=True, kw_only=True):
    """How many of how many, with the interval in which 95 of 100 such samples would put the share."""

    hits: int = 0
    of: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None
    is_enough: bool = False


class Gain(Struct, frozen=True, kw_only=True):
    """How much more often drift stopped where something was said; below 0, less often."""

    value: float
    low: float
    high: float


class Effect(Struct, frozen=True, kw_only=True):
    """What came of the answers of one group.

    `said` answers reached the agent: `worked`, `ignored` and `worse` are those judged so far, `unknown` the
    others. `not_carried_out` were given to a caller that could not do what they asked.
    `helped` is the share that worked of those judged, `by_itself` the share of drift that stopped where
    nothing was said; `gain` is the one less the other, None while either rests on too little.
    `tokens_saved` adds up what the answers that worked saved; `tokens_before` and `cost_before_usd` are the
    medians of what an incident had cost when it was answered.
    """

    group: dict[Facet, str]
    said: int = 0
    worked: int = 0
    ignored: int = 0
    worse: int = 0
    unknown: int = 0
    unsaid: int = 0
    not_carried_out: int = 0
    helped: Share
    by_itself: Share
    gain: Gain | None = None
    tokens_saved: int = 0
    tokens_before: float = 0.0
    cost_before_usd: float = 0.0


class Effects(Struct, frozen=True, kw_only=True):
    """The effect of each group, the most said first, and of all of them together.

    `false_alarms` counts the answers left out because people called their incident a false alarm: that
    nothing came back after those proves nothing.
    """

    rows: tuple[Effect, ...]
    together: Effect
    false_alarms: int = 0


def effects(kept: Iterable[StoredIntervention], by: Sequence[Facet] = ("agent", "wording")) -> Effects:
    """What came of these answers, in groups that share these facets.

    An answer to drift of two kinds at once counts for each: it is judged for each by itself.
    """
    groups: dict[tuple[str, ...], list[Intervention]] = {}
    false_alarms = 0
    for it in kept:
        if it.review == "false_alarm":
            false_alarms += 1
        else:
            groups.setdefault(tuple(_facet(it, name) for name in by), []).append(it.intervention)
    rows = [_effect(dict(zip(by, key, strict=True)), answers) for key, answers in groups.items()]
    rows.sort(key=lambda row: (-row.said, -row.unsaid, *row.group.values()))
    together = _effect({}, [answer for answers in groups.values() for answer in answers])
    return Effects(rows=tuple(rows), together=together, false_alarms=false_alarms)


def _facet(kept: StoredIntervention, name: Facet) -> str:
    if name == "agent":
        return kept.agent_id
    if name == "kind":
        return kept.kind
    return kept.intervention.wording if name == "wording" else kept.intervention.action.value


def _effect(group: dict[Facet, str], answers: Sequence[Intervention]) -> Effect:
    reached = [it for it in answers if it.said and not it.not_carried_out]
    unsaid = [it for it in answers if not it.said]
    count = {name: sum(it.outcome == name for it in reached) for name in ("worked", "ignored", "worse")}
    judged = sum(count.values())
    helped = share(count["worked"], judged)
    by_itself = share(
        sum(it.outcome == "worked" for it in unsaid), sum(it.outcome != "unknown" for it in unsaid)
    )
    return Effect(
        group=group,
        said=len(reached),
        **count,
        unknown=len(reached) - judged,
        unsaid=len(unsaid),
        not_carried_out=len(answers) - len(reached) - len(unsaid),
        helped=helped,
        by_itself=by_itself,
        gain=gain(helped, by_itself),
        tokens_saved=sum(it.tokens_saved or 0 for it in reached if it.outcome == "worked"),
        tokens_before=quantile(sorted(it.tokens_before for it in reached), 0.5),
        cost_before_usd=quantile(sorted(it.cost_before_usd for it in reached), 0.5),
    )


def share(hits: int, of: int) -> Share:
    """How many of how many, with its Wilson interval.

    >>> share(0, 0).value is None, share(9, 9).is_enough, round(share(9, 9).low, 2)
    (True, False, 0.7)
    """
    if of == 0:
        return Share()
    low, high = wilson(hits, of)
    return Share(hits=hits, of=of, value=hits / of, low=low, high=high, is_enough=of >= ENOUGH)


def gain(helped: Share, by_itself: Share) -> Gain | None:
    """The difference of two shares with Newcombe's interval, made of theirs; None where either has too few.

    >>> round(gain(share(18, 20), share(6, 20)).low, 2)
    0.3
    """
    if not (helped.is_enough and by_itself.is_enough):
        return None
    one, other = wilson(helped.hits, helped.of), wilson(by_itself.hits, by_itself.of)
    first, second = helped.hits / helped.of, by_itself.hits / by_itself.of
    value = first - second
    return Gain(
        value=value,
        low=value - math.hypot(first - one.low, other.high - second),
        high=value + math.hypot(one.high - first, second - other.low),
    )
