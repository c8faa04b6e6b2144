"""`steadyhelm interventions`: what interventions were made, and how often they worked."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from steadyhelm.cli.context import OnlyAgent, Since, choose_agent, find_start
from steadyhelm.cli.output import AsJson, print_json, print_table
from steadyhelm.reports.formats import format_count, format_response_level, pluralize
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steadyhelm.policy.outcomes import (
        EffectReport,
        Facet,
        InterventionEffect,
        OutcomeShare,
        ShareDifference,
    )

_MOST_READ: Final = 100_000
_COUNTS: Final = ("said", "worked", "ignored", "worse", "unknown")
_TITLES: Final = ("delivered", *_COUNTS[1:], "saved", "before", "gain", "by itself", "helped")
_LEGEND: Final = """\
helped: how often the drift did not come back, of interventions with an outcome, [95 % interval]
by itself: the same where nothing was delivered
gain: the difference of the two, in percentage points
before, saved: tokens the incidents had cost before, and at most so many that did not have to be spent"""


def interventions(
    context: typer.Context,
    agent: OnlyAgent = None,
    since: Since = None,
    by: Annotated[
        Literal["agent", "wording", "kind", "action"] | None,
        typer.Option(
            "--by", help="How to group (action: by response level); by default by agent and wording."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Report interventions, and how often they worked."""
    from steadyhelm.policy.outcomes import measure_effects

    after = find_start(since)
    with closing(context.obj.open_store()) as store:
        name = choose_agent(store, agent)
        found = store.list_interventions(name, since=after, limit=_MOST_READ)
    facets: tuple[Facet, ...] = ("agent", "wording") if by is None else (by,)
    report = measure_effects(found, facets)
    if as_json:
        print_json({"by": facets, "since": after, "counted": len(found), **_to_data(report)})
        return
    _print_report(report, facets, since)
    if len(found) == _MOST_READ:
        say(f"Only the newest {_MOST_READ:,} were counted; --since narrows the time.")


def _to_data(report: "EffectReport") -> "dict[str, object]":
    return {name: getattr(report, name) for name in report.__struct_fields__}


def _print_report(report: "EffectReport", facets: "Sequence[Facet]", since: str | None) -> None:
    rows = [
        _format_row(row, [_format_group(facet, row.group[facet]) for facet in facets]) for row in report.rows
    ]
    if len(rows) > 1:
        rows.append(_format_row(report.together, [*[""] * (len(facets) - 1), "total"]))
    period = f" in the last {since}" if since is not None else ""
    print_table(
        (*("response level" if facet == "action" else facet for facet in facets), *_TITLES),
        rows,
        empty=f"No interventions{period}. They are made when an incident opens: "
        "`steadyhelm alerts --all` lists incidents, `steadyhelm demo` shows one.",
    )
    if rows:
        say(_LEGEND)
    _print_missing(report)


def _format_group(facet: "Facet", name: str) -> str:
    return (format_response_level(name) if facet == "action" else safe(name, most=32)) or "(unnamed)"


def _print_missing(report: "EffectReport") -> None:
    together = report.together
    if together.unsaid and not together.said:
        say(
            'No guidance was delivered: mode "observe" only records it, and some agents cannot receive it. '
            'Deliver it with: mode = "guide"'
        )
    if together.not_carried_out:
        say(f"{pluralize(together.not_carried_out, 'intervention')} could not be carried out by the host.")
    if report.false_alarms:
        say(f"{pluralize(report.false_alarms, 'intervention')} not counted: marked as a false alarm.")


def _format_row(effect: "InterventionEffect", group: list[str]) -> tuple[str, ...]:
    cost = f", ${effect.cost_before_usd:,.4f}" if effect.cost_before_usd else ""
    return (
        *group,
        *(str(getattr(effect, name) or "-") for name in _COUNTS),
        format_count(effect.tokens_saved) if effect.tokens_saved else "-",
        f"{format_count(effect.tokens_before)}{cost}" if effect.said else "-",
        _format_gain(effect.gain),
        _format_share(effect.by_itself),
        _format_share(effect.helped),
    )


def _format_share(share: "OutcomeShare") -> str:
    """Return a share with the number of cases and its interval; of too few cases, only the counts."""
    if share.value is None or share.low is None or share.high is None:
        return "-"
    if not share.is_enough:
        return f"{share.hits} of {share.of}, too few"
    return f"{share.value:.0%} of {share.of:,} [{100 * share.low:.0f}-{100 * share.high:.0f}]"


def _format_gain(gain: "ShareDifference | None") -> str:
    """Return the difference in percentage points with its interval."""
    if gain is None:
        return "-"
    return f"{100 * gain.value:+.0f} [{100 * gain.low:+.0f} to {100 * gain.high:+.0f}]"
