"""`steadyhelm interventions`: what was said to agents that drifted, and how often it helped."""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from steadyhelm.cli.context import agent_named
from steadyhelm.cli.output import print_fitting, print_json, span
from steadyhelm.reports.formats import compact, counted
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steadyhelm.policy.effects import (
        EffectReport,
        Facet,
        InterventionEffect,
        OutcomeShare,
        ShareDifference,
    )

_MOST: Final = 100_000
_COUNTS: Final = ("said", "worked", "ignored", "worse", "unknown")
_TITLES: Final = (*_COUNTS, "saved", "before", "gain", "by itself", "helped")
_SPARE: Final = ("before", "gain", "unknown", "worse", "ignored", "saved", "worked")
_LEGEND: Final = """\
helped: how often the drift did not come back, of the answers judged so far, [95 % interval]
by itself: the same where nothing was said"""


def interventions(
    context: typer.Context,
    agent: Annotated[str | None, typer.Option("--agent", help="Only what was said to this agent.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only what was said in this time: 24h, 7d; without it, all.")
    ] = None,
    by: Annotated[
        Literal["agent", "wording", "kind", "action"] | None,
        typer.Option("--by", help="What makes a group; without it, agent and wording together."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Report what was said to agents that drifted, and how often it helped."""
    from steadyhelm.policy.effects import measure_effects

    after = None if since is None else time.time() - span(since)
    with closing(context.obj.store()) as store:
        name = agent_named(store, agent) if agent is not None else None
        kept = store.list_interventions(name, since=after, limit=_MOST)
    facets: tuple[Facet, ...] = ("agent", "wording") if by is None else (by,)
    report = measure_effects(kept, facets)
    if as_json:
        print_json({"by": facets, "since": after, "counted": len(kept), **_plain(report)})
        return
    named = ("agent",) if agent is not None and "agent" in facets else ()
    _print(report, facets, since, spare=(*named, *_SPARE))
    if len(kept) == _MOST:
        say(f"Only the newest {_MOST:,} were counted; --since narrows the time.")


def _plain(report: "EffectReport") -> "dict[str, object]":
    return {name: getattr(report, name) for name in report.__struct_fields__}


def _print(
    report: "EffectReport", facets: "Sequence[Facet]", since: str | None, spare: "Sequence[str]"
) -> None:
    rows = [
        _line(row, [safe(row.group[facet], most=32) or "(unnamed)" for facet in facets])
        for row in report.rows
    ]
    if len(rows) > 1:
        rows.append(_line(report.together, [*[""] * (len(facets) - 1), "together"]))
    period = f" in the last {since}" if since is not None else ""
    print_fitting(
        (*facets, *_TITLES),
        rows,
        spare=spare,
        empty=f"No intervention{period}. The first comes with the first incident: "
        "`steadyhelm alerts --all` lists those, `steadyhelm demo` shows one.",
    )
    if rows:
        say(_LEGEND)
    _say_what_is_missing(report)


def _say_what_is_missing(report: "EffectReport") -> None:
    together = report.together
    if together.unsaid and not together.said:
        say(
            'Nothing was said: mode "observe" only keeps what it would say, and some agents have no way '
            'to hear it. Speak with: mode = "guide"'
        )
    if together.not_carried_out:
        say(f"{counted(together.not_carried_out, 'answer')} could not be carried out by the caller.")
    if report.false_alarms:
        say(f"{counted(report.false_alarms, 'answer')} left out: people called the incident a false alarm.")


def _line(effect: "InterventionEffect", group: list[str]) -> tuple[str, ...]:
    cost = f", ${effect.cost_before_usd:,.4f}" if effect.cost_before_usd else ""
    return (
        *group,
        *(str(getattr(effect, name) or "-") for name in _COUNTS),
        compact(effect.tokens_saved) if effect.tokens_saved else "-",
        f"{compact(effect.tokens_before)}{cost}" if effect.said else "-",
        _gain(effect.gain),
        _share(effect.by_itself),
        _share(effect.helped),
    )


def _share(share: "OutcomeShare") -> str:
    """A share that says how much it rests on; of too few cases, only the counts."""
    if share.value is None or share.low is None or share.high is None:
        return "-"
    if not share.is_enough:
        return f"{share.hits} of {share.of}, too few"
    return f"{share.value:.0%} of {share.of:,} [{100 * share.low:.0f}-{100 * share.high:.0f}]"


def _gain(gain: "ShareDifference | None") -> str:
    """The difference in percentage points."""
    if gain is None:
        return "-"
    return f"{100 * gain.value:+.0f} [{100 * gain.low:+.0f} to {100 * gain.high:+.0f}]"
