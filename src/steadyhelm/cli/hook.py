"""`steadyhelm hook`: what a person types about it: install, uninstall, status."""

import os
from typing import Annotated, Final

import typer

from steadyhelm.cli.output import FLAGGED, USAGE, confirm, fail, print_json, print_rows
from steadyhelm.errors import FormatError
from steadyhelm.hooks import client as hook
from steadyhelm.reports.terminal import safe, say

app = typer.Typer(
    help="Watch a coding agent: Claude Code, Codex CLI, Gemini CLI or Cursor.",
    rich_markup_mode=None,
)

_MODES: Final = ("observe", "guide", "enforce")

Agent = Annotated[
    str, typer.Option("--agent", help="claude-code, codex, gemini-cli or cursor.", show_default=False)
]
Project = Annotated[
    bool,
    typer.Option("--project/--user", help="The settings of this project, or of the user (the default)."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.callback(invoke_without_command=True)
def _event(
    context: typer.Context,
    agent: Annotated[
        str, typer.Option("--agent", help="Which agent speaks; recognised when it is not said.")
    ] = "",
    mode: Annotated[str, typer.Option("--mode", help="observe, guide or enforce.")] = "",
) -> None:
    """Answer one event of a coding agent: JSON on standard input, the answer on standard output."""
    _take_over(context)
    if context.invoked_subcommand is None:
        given = (("--agent", agent), ("--mode", mode))
        hook.main([word for name, value in given if value for word in (name, value)])


@app.command("statusline")
def statusline(context: typer.Context) -> None:
    """One short line about the session, for Claude Code's status line."""
    _take_over(context)
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
    """Add the hooks to an agent's settings; shows what would change, and asks."""
    from steadyhelm.hooks import config_edits as hook_changes
    from steadyhelm.hooks import install as hook_settings

    _require_agent(agent)
    if mode not in _MODES:
        fail(f"--mode must be one of {', '.join(_MODES)}, got {safe(mode)!r}.", USAGE)
    path = hook_settings.settings_file(agent, project=project)
    command = hook_settings.command_for(agent, mode)
    line = hook_settings.status_line_command() if status_line and agent == "claude-code" else ""
    try:
        change = hook_changes.to_install(agent, path, command, status_line=line)
        if change.is_empty:
            say(f"{safe(path)} has the hooks already. Nothing was changed.")
            return
        _show(change)
        confirm(f"Change {safe(path)}?", yes=yes)
        backup = hook_changes.install(change)
    except FormatError as exc:
        fail(safe(exc))
    say(f"Installed in {safe(path)}, mode {mode}.")
    if backup is not None:
        say(f"What it was before is kept in {safe(backup)}.")
    if agent == "codex":
        say("Codex runs a new hook once you have trusted it: type /hooks in Codex.")
    say(f"Remove it with `steadyhelm hook uninstall --agent {agent}{' --project' if project else ''}`.")


@app.command("uninstall")
def uninstall(agent: Agent = "", project: Project = False, yes: Yes = False) -> None:
    """Take the hooks out of an agent's settings again, and leave no trace."""
    from steadyhelm.hooks import config_edits as hook_changes
    from steadyhelm.hooks import install as hook_settings

    _require_agent(agent)
    path = hook_settings.settings_file(agent, project=project)
    try:
        change = hook_changes.to_uninstall(path)
        if not change.is_empty:
            _show(change)
            confirm(f"Change {safe(path)}?", yes=yes)
        hook_changes.uninstall(change)
    except FormatError as exc:
        fail(safe(exc))
    _end_host()
    say(f"{safe(path)} has no hooks of Steadyhelm{' any more' if not change.is_empty else ''}.")


@app.command("status")
def status(
    agent: Agent = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Say where hooks are installed, and what went wrong lately; status 3 when something did."""
    from steadyhelm.hooks import config_edits as hook_changes
    from steadyhelm.hooks import install as hook_settings
    from steadyhelm.hooks.handler import log_lines

    if agent:
        _require_agent(agent)
    rows = []
    for name in [agent] if agent else hook_settings.PLACES:
        for project in (False, True):
            found = hook_changes.summary(hook_settings.settings_file(name, project=project))
            rows.append({"agent": name, "scope": "project" if project else "user", **found})
    troubles = log_lines()
    if as_json:
        print_json({"places": rows, "troubles": len(troubles), "last_trouble": (troubles or [""])[-1]})
    else:
        shown = [
            (row["agent"], row["scope"], _state(row), ", ".join(row["modes"]), row["path"]) for row in rows
        ]
        print_rows(("agent", "scope", "state", "mode", "file"), shown, empty="")
        say(f"The command: {safe(hook_settings.command_for(agent or 'claude-code', 'guide'))}")
        if troubles:
            say(f"{len(troubles)} events could not be looked at; the last: {safe(troubles[-1], most=300)}")
    if troubles:
        raise typer.Exit(FLAGGED)


def _state(row: dict[str, object]) -> str:
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
        fail(f"--agent must be one of {', '.join(AGENTS)}, got {safe(agent)!r}.", USAGE)


def _show(change: object) -> None:
    from steadyhelm.hooks.config_edits import Change, difference

    assert isinstance(change, Change)
    for line in difference(change):
        say(safe(line))


def _end_host() -> None:
    path = hook.address()
    if path:
        from steadyhelm.hooks.resident import end

        end(path)


def _take_over(context: typer.Context) -> None:
    """What was said before the command counts for the hook too."""
    shared = context.obj
    if shared is not None and shared.database is not None:
        os.environ["STEADYHELM_DB_PATH"] = str(shared.database.absolute())
    if shared is not None and shared.config_file is not None:
        os.environ["STEADYHELM_CONFIG"] = str(shared.config_file.absolute())
