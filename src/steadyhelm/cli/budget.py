"""`steadyhelm budget`: what tasks of each type take, recommended budgets, and what was spent today."""

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import structs

from steadyhelm.cli.context import AgentArgument, AgentCommand, OnlyAgent, choose_agent, find_agent
from steadyhelm.cli.output import (
    EXIT_USAGE,
    AsJson,
    Yes,
    confirm,
    confirm_replacing,
    fail,
    print_fields,
    print_json,
    print_table,
    read_small_file,
    refuse_early_options,
    write_private_file,
)
from steadyhelm.errors import FormatError, NotFoundError
from steadyhelm.reports.formats import format_count, format_duration, pluralize
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.budgets.daily import DailyLimits
    from steadyhelm.budgets.profiles import BudgetRecommendation
    from steadyhelm.decisions import DailyBudgetState, TaskProfile
    from steadyhelm.settings import Settings
    from steadyhelm.store import BaselineStore


app = typer.Typer(
    help="Show what tasks take and what was spent today; grant more.",
    rich_markup_mode=None,
)

_TITLES: Final = ("agent", "tasks", "tool calls", "tokens", "cost", "time", "task type")

TaskTypeArgument = Annotated[
    str, typer.Argument(metavar="TASK_TYPE", help="The type of task, or the beginning of it.")
]


@app.callback(invoke_without_command=True)
def _budget(context: typer.Context, agent: OnlyAgent = None, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        list_profiles(context, agent, as_json)
    elif as_json or agent is not None:
        refuse_early_options(context)


@app.command("profiles", cls=AgentCommand)
def list_profiles(context: typer.Context, agent: OnlyAgent = None, as_json: AsJson = False) -> None:
    """List what completed tasks of each type took, on average."""
    with closing(context.obj.open_store()) as store:
        found = store.list_profiles(choose_agent(store, agent))
    if as_json:
        print_json({"profiles": [_to_data(profile) for profile in found]})
        return
    print_table(
        _TITLES,
        [_format_row(profile) for profile in found],
        empty="No task profiles yet. They are learnt from runs with a `task_type` that complete without an "
        "incident; `steadyhelm budget import` reads profiles from a file.",
    )


@app.command("recommend", cls=AgentCommand)
def recommend(
    context: typer.Context,
    agent: AgentArgument,
    task_type: TaskTypeArgument,
    as_json: AsJson = False,
) -> None:
    """Recommend a budget for a type of task. It is the mean of completed ones plus a fifth."""
    from steadyhelm.budgets.profiles import recommend_budget

    with closing(context.obj.open_store()) as store:
        profile = _find_profile(store, find_agent(store, agent), task_type)
    advice = recommend_budget(profile, profile.task_type)
    if as_json:
        print_json({"agent_id": profile.agent_id, **_list_fields(advice)})
        return
    _print_advice(profile, advice)


@app.command("export")
def export_profiles(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; - is standard output.")],
    agent: OnlyAgent = None,
    yes: Yes = False,
) -> None:
    """Write task profiles as one JSON document."""
    from steadyhelm.budgets.profiles import export_profiles

    with closing(context.obj.open_store()) as store:
        found = store.list_profiles(choose_agent(store, agent))
    document = export_profiles(found)
    if str(file) == "-":
        typer.echo(document, nl=False)
        return
    confirm_replacing(file, yes=yes)
    write_private_file(file, document.encode(), what="The task profiles")
    say(f"Wrote {pluralize(len(found), 'task profile')} to {file}.")


@app.command("import")
def import_profiles(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `budget export` wrote.")],
    yes: Yes = False,
) -> None:
    """Import task profiles from a file. Shows what `budget export` wrote there would change."""
    given = read_task_profiles(file)
    with closing(context.obj.open_store(read_only=False)) as store:
        known = {(it.agent_id, it.task_type): it for it in store.list_profiles()}
        changed = [it for it in given if it != known.get((it.agent_id, it.task_type))]
        if not changed:
            say(
                f"{file} says nothing new: its {pluralize(len(given), 'task profile')} are known as they are."
            )
            return
        _print_changes(changed, known)
        replaced = sum((it.agent_id, it.task_type) in known for it in changed)
        if replaced:
            confirm(f"Replace {pluralize(replaced, 'task profile')}?", yes=yes)
        with store.transaction():
            for profile in changed:
                store.save_profile(profile)
    say(f"Imported {pluralize(len(changed), 'task profile')}, {replaced} of them replacing one.")


def _find_profile(store: "BaselineStore", agent: str, task_type: str) -> "TaskProfile":
    found = store.list_profiles(agent)
    exact = [profile for profile in found if profile.task_type == task_type]
    alike = exact or [it for it in found if task_type and it.task_type.startswith(task_type)]
    if len(alike) == 1:
        return alike[0]
    names = ", ".join(safe(it.task_type, most=60) for it in (alike or found)[:8])
    if alike:
        raise NotFoundError(f"Several task types begin with {safe(task_type)!r}: {names}. Give more of it.")
    known = f"Known types: {names}." if names else "It has not completed any task yet."
    raise NotFoundError(f"There is no completed task of type {safe(task_type)!r} of {safe(agent)}. {known}")


def _list_fields(record: "TaskProfile | BudgetRecommendation") -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _to_data(profile: "TaskProfile") -> dict[str, Any]:
    from steadyhelm.budgets.profiles import recommend_budget

    return {**_list_fields(profile), "recommended": recommend_budget(profile, profile.task_type)}


def _format_row(profile: "TaskProfile") -> tuple[Any, ...]:
    return (safe(profile.agent_id, most=24), profile.tasks, *_compute_means(profile), safe(profile.task_type))


def _compute_means(profile: "TaskProfile") -> tuple[str, ...]:
    """Return what one task takes on average: tool calls, tokens, cost, time."""
    tasks = max(profile.tasks, 1)
    return (
        f"{profile.steps / tasks:,.1f}",
        format_count(profile.tokens / tasks),
        f"${profile.cost_usd / tasks:,.4f}" if profile.cost_usd else "-",
        format_duration(profile.wall_s / tasks) if profile.wall_s else "-",
    )


def _print_advice(profile: "TaskProfile", advice: "BudgetRecommendation") -> None:
    lines = [
        ("agent", profile.agent_id),
        ("task", profile.task_type),
        ("tool calls", f"{advice.steps:,}"),
        ("tokens", f"{advice.tokens:,}"),
        ("cost", f"${advice.cost_usd:,.4f}" if advice.cost_usd is not None else ""),
        ("time", format_duration(advice.wall_s) if advice.wall_s is not None else ""),
    ]
    print_fields(lines)
    few = ": too few to rely on" if not advice.is_reliable else ""
    say(f"The mean of {pluralize(advice.tasks, 'completed task')}, plus a fifth{few}.")


def _print_changes(changed: list["TaskProfile"], known: dict[tuple[str, str], "TaskProfile"]) -> None:
    rows = []
    for profile in changed:
        before = known.get((profile.agent_id, profile.task_type))
        old = (before.tasks, *_compute_means(before)[:2]) if before is not None else ("-", "-", "-")
        new = (profile.tasks, *_compute_means(profile)[:2])
        names = (safe(profile.agent_id, most=24), safe(profile.task_type, most=32))
        rows.append(
            (*names, *(f"{a} → {b}" if before else f"new: {b}" for a, b in zip(old, new, strict=True)))
        )
    print_table(("agent", "task type", "tasks", "tool calls", "tokens"), rows, empty="")


_LARGEST_FILE_BYTES: Final = 16 << 20


def read_task_profiles(path: Path) -> "tuple[TaskProfile, ...]":
    """Return the task profiles in a file; raises FormatError with what is wrong with it."""
    from steadyhelm.budgets.profiles import import_profiles

    document = read_small_file(path, _LARGEST_FILE_BYTES, what="task profiles")
    try:
        profiles = import_profiles(document)
    except FormatError as exc:
        raise FormatError(f"{path}: {exc} Nothing was changed.") from exc
    if not profiles:
        raise FormatError(f"{path} holds no task profile. Nothing was changed.")
    return profiles


_DAY_TITLES: Final = ("agent", "tool calls", "tokens", "cost", "state")


@app.command("today", cls=AgentCommand)
def show_today(
    context: typer.Context,
    agent: OnlyAgent = None,
    as_json: AsJson = False,
) -> None:
    """Show what agents spent today. All runs are summed; the limits are those of the settings."""
    from steadyhelm.budgets.daily import format_time

    limits = read_limits(context.obj.load().settings)
    day = limits.find_day(time.time())
    with closing(context.obj.open_store()) as store:
        only = choose_agent(store, agent)
        found = store.list_spending(since=day.start, until=day.end, agent_id=only)
    states = {spent.agent_id: limits.build_state(day, spent) for spent in found}
    if as_json:
        shown = [{"agent_id": agent_id, **structs.asdict(state)} for agent_id, state in states.items()]
        print_json({"day": day.date, "opens_at": day.end, "agents": shown})
        return
    print_table(
        _DAY_TITLES,
        [_build_day_row(agent_id, state) for agent_id, state in states.items()],
        empty=f"Nothing was spent on {day.date} yet.",
    )
    if states:
        say(f"{day.date}, until {format_time(day.end)}.")


@app.command("grant", cls=AgentCommand)
def grant_more(
    context: typer.Context,
    agent: AgentArgument,
    steps: Annotated[int, typer.Option("--steps", min=0, help="Tool calls to add.")] = 0,
    tokens: Annotated[int, typer.Option("--tokens", min=0, help="Tokens to add.")] = 0,
    cost_usd: Annotated[float, typer.Option("--cost-usd", min=0.0, help="Dollars to add.")] = 0.0,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is stored.")] = "",
    yes: Yes = False,
) -> None:
    """Add to an agent's budget of today. All its runs may use it."""
    from steadyhelm.budgets.daily import format_time
    from steadyhelm.components import make_redactor
    from steadyhelm.engine.capture import Capture
    from steadyhelm.events import new_id
    from steadyhelm.sink import DailyGrant

    amounts = [
        *([pluralize(steps, "tool call")] if steps else []),
        *([f"{tokens:,} tokens"] if tokens else []),
        *([f"${cost_usd:,.2f}"] if cost_usd else []),
    ]
    if not amounts:
        fail("say how much: --steps, --tokens or --cost-usd.", EXIT_USAGE)
    now, settings = time.time(), context.obj.load().settings
    day = read_limits(settings).find_day(now)
    why = Capture(make_redactor(settings)).text(reason)
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


def _build_day_row(agent_id: str, state: "DailyBudgetState") -> tuple[Any, ...]:
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
