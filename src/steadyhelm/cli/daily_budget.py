"""`steadyhelm budget today|grant`: what agents spent today over all their runs, and a grant of more."""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import structs

from steadyhelm.cli.context import find_agent
from steadyhelm.cli.output import EXIT_USAGE, AsJson, confirm, fail, print_json, print_table
from steadyhelm.reports.formats import format_count
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.budgets.daily import DailyLimits
    from steadyhelm.decisions import DailyBudgetState
    from steadyhelm.settings import Settings

_TITLES: Final = ("agent", "steps", "tokens", "cost", "state")


def show_today(
    context: typer.Context,
    agent: Annotated[str | None, typer.Option("--agent", help="Only this agent.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what agents spent today. All runs are summed; the limits are those of the settings."""
    from steadyhelm.budgets.daily import format_time

    limits = read_limits(context.obj.load().settings)
    day = limits.find_day(time.time())
    with closing(context.obj.open_store()) as store:
        only = find_agent(store, agent) if agent is not None else None
        found = store.list_spending(since=day.start, until=day.end, agent_id=only)
    states = {spent.agent_id: limits.build_state(day, spent) for spent in found}
    if as_json:
        shown = [{"agent_id": agent_id, **structs.asdict(state)} for agent_id, state in states.items()]
        print_json({"day": day.date, "opens_at": day.end, "agents": shown})
        return
    print_table(
        _TITLES,
        [_row(agent_id, state) for agent_id, state in states.items()],
        empty=f"Nothing was spent on {day.date} yet.",
    )
    if states:
        say(f"{day.date}, until {format_time(day.end)}.")


def grant_more(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name, or the beginning of it.")],
    steps: Annotated[int, typer.Option("--steps", min=0, help="Tool calls to add.")] = 0,
    tokens: Annotated[int, typer.Option("--tokens", min=0, help="Tokens to add.")] = 0,
    cost_usd: Annotated[float, typer.Option("--cost-usd", min=0.0, help="Dollars to add.")] = 0.0,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is stored.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Add to an agent's budget of today. All its runs may use it."""
    from steadyhelm.budgets.daily import format_time
    from steadyhelm.engine.capture import Capture
    from steadyhelm.events import new_id
    from steadyhelm.redaction import Redactor
    from steadyhelm.sink import DailyGrant

    amounts = [
        *([f"{steps:,} steps"] if steps else []),
        *([f"{tokens:,} tokens"] if tokens else []),
        *([f"${cost_usd:,.2f}"] if cost_usd else []),
    ]
    if not amounts:
        fail("say how much: --steps, --tokens or --cost-usd.", EXIT_USAGE)
    now, settings = time.time(), context.obj.load().settings
    day = read_limits(settings).find_day(now)
    why = Capture(Redactor(key_words=settings.redaction_keys, patterns=settings.redaction_patterns)).text(
        reason
    )
    with closing(context.obj.open_store(read_only=False)) as store:
        name = find_agent(store, agent)
        added = " and ".join(amounts)
        until = format_time(day.end)
        confirm(f"Let {safe(name)} spend {added} more until {until}?", yes=yes)
        store.write([DailyGrant(name, "", new_id(), now, steps, tokens, cost_usd, why)])
    say(f"{safe(name)} may spend {added} more until {until}.")


def read_limits(settings: "Settings") -> "DailyLimits":
    """Return the daily limits of the settings; those that a program gave its monitor are not known here."""
    from steadyhelm.budgets.daily import DailyLimits

    return DailyLimits(
        steps=settings.budget_daily_steps or None,
        tokens=settings.budget_daily_tokens or None,
        cost_usd=settings.budget_daily_cost_usd or None,
        utc_offset_h=settings.budget_utc_offset_h,
    )


def _row(agent_id: str, state: "DailyBudgetState") -> tuple[Any, ...]:
    return (
        safe(agent_id),
        _describe(f"{state.steps_used:,}", state.steps_limit and f"{state.steps_limit:,}"),
        _describe(format_count(state.tokens_used), state.tokens_limit and format_count(state.tokens_limit)),
        _describe(f"${state.cost_used_usd:,.2f}", state.cost_limit_usd and f"${state.cost_limit_usd:,.2f}"),
        "used up" if state.exhausted else "open" if _has_limit(state) else "no limit",
    )


def _describe(used: str, limit: str | float | None) -> str:
    return f"{used} of {limit}" if limit else used


def _has_limit(state: "DailyBudgetState") -> bool:
    return any((state.steps_limit, state.tokens_limit, state.cost_limit_usd))
