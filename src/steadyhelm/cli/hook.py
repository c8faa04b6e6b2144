"""`steadyhelm hook`: the commands a person types: install, uninstall, status."""

import os
from typing import Annotated, Final

import typer

from steadyhelm.cli.output import EXIT_FLAGGED, EXIT_USAGE, AsJson, confirm, fail, print_json, print_table
from steadyhelm.errors import FormatError
from steadyhelm.hooks import client as hook
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import safe, say

app = typer.Typer(
    help="Watch Claude Code, Codex CLI, Gemini CLI or Cursor.",
    rich_markup_mode=None,
)

_MODES: Final = ("observe", "guide", "enforce")

Agent = Annotated[
    str, typer.Option("--agent", help="claude-code, codex, gemini-cli or cursor.", show_default=False)
]
Project = Annotated[
    bool,
    typer.Option("--project/--user", help="Use the settings of this project, or of the user (the default)."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.callback(invoke_without_command=True)
def _event(
    context: typer.Context,
    agent: Annotated[
        str, typer.Option("--agent", help="The agent that sends the event; recognised by default.")
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


@app.command("install")
def install(
    agent: Agent = "",
    project: Project = False,
    mode: Annotated[str, typer.Option("--mode", help="observe, guide or enforce.")] = "guide",
    status_line: Annotated[
        bool, typer.Option("--status-line", help="Set Claude Code's status line too, unless it has one.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Add the hooks to an agent's settings. Shows the change and asks first."""
    from steadyhelm.hooks import installer, settings_entries

    _require_agent(agent)
    if mode not in _MODES:
        fail(f"--mode must be one of {', '.join(_MODES)}, got {safe(mode)!r}.", EXIT_USAGE)
    command = settings_entries.hook_command(agent, mode)
    line = settings_entries.status_line_command() if status_line and agent == "claude-code" else ""
    try:
        path = settings_entries.find_settings_file(agent, project=project)
        change = installer.plan_install(agent, path, command, status_line=line)
        if change.is_empty:
            say(f"{safe(path)} already has the hooks. Nothing was changed.")
            return
        _print_change(change)
        confirm(f"Change {safe(path)}?", yes=yes)
        backup = installer.apply_install(change)
    except FormatError as exc:
        fail(safe(exc))
    say(f"Installed in {safe(path)}, mode {mode}.")
    if backup is not None:
        say(f"A backup of the file is in {safe(backup)}.")
    if agent == "codex":
        say("Codex runs a new hook once you have trusted it: type /hooks in Codex.")
    say(f"Remove it with `steadyhelm hook uninstall --agent {agent}{' --project' if project else ''}`.")


@app.command("uninstall")
def uninstall(agent: Agent = "", project: Project = False, yes: Yes = False) -> None:
    """Remove the hooks from an agent's settings. The file is as it was before."""
    from steadyhelm.hooks import installer, settings_entries

    _require_agent(agent)
    try:
        path = settings_entries.find_settings_file(agent, project=project)
        change = installer.plan_uninstall(path)
        if not change.is_empty:
            _print_change(change)
            confirm(f"Change {safe(path)}?", yes=yes)
        installer.apply_uninstall(change)
    except FormatError as exc:
        fail(safe(exc))
    _stop_resident()
    say(f"{safe(path)} has no hooks of Steadyhelm{' any more' if not change.is_empty else ''}.")


@app.command("status")
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
        shown = [
            (row["agent"], row["scope"], _describe_state(row), ", ".join(row["modes"]), row["path"])
            for row in rows
        ]
        print_table(("agent", "scope", "state", "mode", "file"), shown, empty="")
        say(f"The hook command: {safe(settings_entries.hook_command(agent or 'claude-code', 'guide'))}")
        if waiting:
            say(f"{pluralize(waiting, 'step')} not recorded yet; the next hook records them.")
        if errors:
            say(f"{pluralize(len(errors), 'event')} not checked; the last: {safe(errors[-1], most=300)}")
    if errors:
        raise typer.Exit(EXIT_FLAGGED)


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
    from steadyhelm.recordings.hook_events.dialects import AGENTS

    if agent not in AGENTS:
        fail(f"--agent must be one of {', '.join(AGENTS)}, got {safe(agent)!r}.", EXIT_USAGE)


def _print_change(change: object) -> None:
    from steadyhelm.hooks.installer import SettingsChange, diff_lines

    assert isinstance(change, SettingsChange)
    for line in diff_lines(change):
        say(safe(line))


def _stop_resident() -> None:
    path = hook.socket_path()
    if path:
        from steadyhelm.hooks.resident import stop_resident

        stop_resident(path)


def _pass_on_options(context: typer.Context) -> None:
    """Apply the options before the command to the hook too, through the environment."""
    shared = context.obj
    if shared is not None and shared.database is not None:
        os.environ["STEADYHELM_DB_PATH"] = str(shared.database.absolute())
    if shared is not None and shared.config_file is not None:
        os.environ["STEADYHELM_CONFIG"] = str(shared.config_file.absolute())
