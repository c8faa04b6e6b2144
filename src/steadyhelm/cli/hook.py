"""`steadyhelm hook`: the commands a person types: install, uninstall, status."""

import os
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
import typer.core

from steadyhelm.cli.context import AgentCommand
from steadyhelm.cli.output import (
    EXIT_FAILED,
    EXIT_FLAGGED,
    EXIT_USAGE,
    AsJson,
    Yes,
    confirm,
    fail,
    print_json,
    print_table,
)
from steadyhelm.errors import FormatError
from steadyhelm.hooks import client as hook
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import safe, say
from steadyhelm.stores.locations import DatabaseLocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steadyhelm.hooks.installer import SettingsChange


class _HookGroup(typer.core.TyperGroup):
    """The commands; one that does not exist fails with 1: an agent takes the 2 of a hook for a refusal."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as exc:
            exc.exit_code = EXIT_FAILED  # type: ignore[attr-defined]
            raise


app = typer.Typer(
    cls=_HookGroup,
    help="Watch Claude Code, Codex CLI, Gemini CLI or Cursor.",
    rich_markup_mode=None,
)

_MODES: Final = ("observe", "guide", "enforce")
_STATUS_LINE_AGENT: Final = "claude-code"
_BOTH_LINES_HINT: Final = "To see both, run `steadyhelm hook statusline` in it with the same input."

Agent = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="CODING_AGENT",
        help="The coding agent, and not the name of a watched one: claude-code, codex, gemini-cli or cursor.",
        show_default=False,
    ),
]
Project = Annotated[
    bool,
    typer.Option("--project/--user", help="Use the settings of this project, or of the user (the default)."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the change, and change nothing.")]


@app.callback(invoke_without_command=True)
def _event(
    context: typer.Context,
    agent: Annotated[
        str,
        typer.Option(
            "--agent",
            metavar="CODING_AGENT",
            help="The coding agent that sends the event; recognised by default.",
        ),
    ] = "",
    mode: Annotated[str, typer.Option("--mode", help="observe, guide or enforce.")] = "",
) -> None:
    """Handle one event of a coding agent: JSON on standard input, the response on standard output."""
    _pass_on_options(context)
    if context.invoked_subcommand is None:
        given = (("--agent", agent), ("--mode", mode))
        hook.main([word for name, value in given if value for word in (name, value)])


@app.command("statusline")
def statusline(context: typer.Context) -> None:
    """Print a line for Claude Code's status line."""
    _pass_on_options(context)
    hook.main(["statusline"])


@app.command("install", cls=AgentCommand)
def install(
    agent: Agent = "",
    project: Project = False,
    mode: Annotated[
        str, typer.Option("--mode", help="observe (the default), guide or enforce.", show_default=False)
    ] = "",
    status_line: Annotated[
        bool | None,
        typer.Option(
            "--status-line/--no-status-line",
            help="Set Claude Code's status line too, unless it has one, or remove ours.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Add the hooks to the settings of agents. Without --agent, of all found; shows the change first."""
    from steadyhelm.hooks import installer, settings_entries

    if mode and mode not in _MODES:
        fail(f"--mode must be one of {', '.join(_MODES)}, got {safe(mode)!r}.", EXIT_USAGE)
    line = settings_entries.get_status_line_command() if status_line else None if status_line is None else ""

    def plan(name: str) -> "SettingsChange":
        path = settings_entries.find_settings_file(name, project=project)
        wanted = line if name == _STATUS_LINE_AGENT else None
        return installer.plan_install(name, path, mode, status_line=wanted)

    changes = _plan_changes([agent] if agent else _find_agents(), plan)
    for change in changes.plans.values():
        if change.keeps_status_line:
            say(f"{safe(change.path)} has a status line of its own, which stays. {_BOTH_LINES_HINT}")
        if change.is_empty:
            say(f"{safe(change.path)} already has the hooks, mode {change.mode}. Nothing was changed.")
    for name, change in changes.apply(installer.apply_install, dry_run=dry_run, yes=yes):
        _explain_installation(name, change, project=project)
    changes.end()


def _explain_installation(agent: str, change: "SettingsChange", *, project: bool) -> None:
    from steadyhelm.hooks.installer import get_backup_path

    hint = ": nothing is said to the agent, --mode guide changes that" if change.mode == "observe" else ""
    say(f"Installed for {agent} in {safe(change.path)}, mode {change.mode}{hint}.")
    backup = get_backup_path(change.path)
    if backup.exists():
        say(f"A backup of the file is in {safe(backup)}.")
    if agent == "codex":
        say("Codex runs a new hook once you have trusted it: type /hooks in Codex.")
    say(f"Remove it with `steadyhelm hook uninstall --agent {agent}{' --project' if project else ''}`.")


@app.command("uninstall", cls=AgentCommand)
def uninstall(agent: Agent = "", project: Project = False, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Remove the hooks from the settings of agents. The files are as before."""
    from steadyhelm.hooks import installer, settings_entries

    def plan(name: str) -> "SettingsChange":
        return installer.plan_uninstall(settings_entries.find_settings_file(name, project=project))

    changes = _plan_changes([agent] if agent else list(settings_entries.SETTINGS_PLACES), plan)
    for change in changes.plans.values():
        if change.is_empty and agent:
            say(f"{safe(change.path)} has no hooks of Steadyhelm.")
        if change.is_empty and not dry_run:
            changes.write(change, installer.apply_uninstall)  # a backup may be left
    if not agent and all(change.is_empty for change in changes.plans.values()):
        say("No hooks of Steadyhelm are installed.")
    for _, change in changes.apply(installer.apply_uninstall, dry_run=dry_run, yes=yes):
        say(f"{safe(change.path)} has no hooks of Steadyhelm any more.")
    if not dry_run:
        _stop_resident()
    changes.end()


class _Changes:
    """The changes of one command, by agent. A file that cannot be changed does not keep others from it."""

    def __init__(self) -> None:
        self.plans: dict[str, SettingsChange] = {}
        self._has_failed = False

    def apply(
        self, write: "Callable[[SettingsChange], None]", *, dry_run: bool, yes: bool
    ) -> "Iterator[tuple[str, SettingsChange]]":
        """Show all changes, ask once, make them, and yield each that was made."""
        pending = {name: change for name, change in self.plans.items() if not change.is_empty}
        for change in pending.values():
            _print_change(change)
        if dry_run and pending:
            say("Nothing was changed: --dry-run.")
        if dry_run or not pending:
            return
        paths = ", ".join(safe(change.path) for change in pending.values())
        confirm(f"Change {paths}?", yes=yes)
        for name, change in pending.items():
            if self.write(change, write):
                yield name, change

    def write(self, change: "SettingsChange", write: "Callable[[SettingsChange], None]") -> bool:
        """Make one change, or report why that is not possible; return whether it was made."""
        try:
            write(change)
        except FormatError as exc:
            self.report(exc)
            return False
        return True

    def report(self, problem: FormatError) -> None:
        """Print what is wrong with one settings file."""
        say(f"steadyhelm: {safe(problem)}")
        self._has_failed = True

    def end(self) -> None:
        """End the command with status 1 when something went wrong."""
        if self._has_failed:
            raise typer.Exit(EXIT_FAILED)


def _plan_changes(agents: "list[str]", plan: "Callable[[str], SettingsChange]") -> _Changes:
    changes = _Changes()
    for name in agents:
        _require_agent(name)
        try:
            changes.plans[name] = plan(name)
        except FormatError as exc:
            changes.report(exc)
    return changes


def _find_agents() -> list[str]:
    from steadyhelm.hooks.settings_entries import SETTINGS_PLACES, find_agents

    found = find_agents()
    if not found:
        commands = ", ".join(it for place in SETTINGS_PLACES.values() for it in place.commands)
        fail(
            f"no coding agent was found: no settings folder, and none of {commands} on the PATH. Use --agent."
        )
    for name, why in found.items():
        say(f"Found {name}: {safe(why)}.")
    return list(found)


@app.command("status", cls=AgentCommand)
def status(
    agent: Agent = "",
    as_json: AsJson = False,
) -> None:
    """Show installed hooks and recent errors. The exit status is 3 when there are errors."""
    from steadyhelm.hooks import installer, settings_entries
    from steadyhelm.hooks.log import read_log
    from steadyhelm.hooks.waiting_steps import count_waiting

    if agent:
        _require_agent(agent)
    rows = []
    for name in [agent] if agent else settings_entries.SETTINGS_PLACES:
        for project in (False, True):
            found = installer.describe_place(name, project=project)
            rows.append({"agent": name, "scope": "project" if project else "user", **found})
    errors, waiting = read_log(), count_waiting()
    if as_json:
        last = (errors or [""])[-1]
        print_json({"places": rows, "waiting": waiting, "troubles": len(errors), "last_trouble": last})
    else:
        command = settings_entries.build_hook_command(agent or "claude-code", "observe")
        _print_status(rows, command, waiting, errors)
    if errors:
        raise typer.Exit(EXIT_FLAGGED)


def _print_status(rows: list[dict[str, Any]], command: str, waiting: int, errors: list[str]) -> None:
    shown = [
        (row["agent"], row["scope"], _describe_state(row), ", ".join(row["modes"]), row["path"])
        for row in rows
    ]
    print_table(("agent", "scope", "state", "mode", "file"), shown, empty="")
    for row in rows:
        if row["problem"]:
            say(f"{row['agent']}, {row['scope']}: {safe(row['problem'])}")
    say(f"The hook command: {safe(command)}")
    if waiting:
        say(f"{pluralize(waiting, 'step')} not recorded yet; the next hook records them.")
    if errors:
        say(f"{pluralize(len(errors), 'error')} in the log; the last: {safe(errors[-1], most=300)}")


def _describe_state(row: dict[str, object]) -> str:
    from steadyhelm.recordings.hook_events.dialects import DIALECTS

    if row["problem"]:
        return "cannot be read"
    events = row["events"]
    assert isinstance(events, list)
    missing = [event for event in DIALECTS[str(row["agent"])].kinds if event not in events]
    if not missing:
        return "installed"
    return f"incomplete: no {', '.join(missing)}" if events else "not installed"


def _require_agent(agent: str) -> None:
    from difflib import get_close_matches

    from steadyhelm.recordings.hook_events.dialects import AGENTS

    if agent not in AGENTS:
        close = [it for it in AGENTS if it.startswith(agent)] or get_close_matches(agent, AGENTS, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        known = ", ".join(AGENTS)
        fail(f"--agent must be a coding agent ({known}), got {safe(agent)!r}.{hint}", EXIT_USAGE)


def _print_change(change: "SettingsChange") -> None:
    from steadyhelm.hooks.installer import diff_lines

    for line in diff_lines(change):
        say(safe(line))


def _stop_resident() -> None:
    path = hook.get_socket_path()
    if path:
        from steadyhelm.hooks.resident import stop_resident

        stop_resident(path)


def _pass_on_options(context: typer.Context) -> None:
    """Apply the options before the command to the hook too, through the environment."""
    shared = context.obj
    if shared is not None and shared.database is not None:
        os.environ["STEADYHELM_DB"] = DatabaseLocation(str(shared.database)).to_absolute().where
    if shared is not None and shared.config_file is not None:
        os.environ["STEADYHELM_CONFIG"] = str(shared.config_file.absolute())
