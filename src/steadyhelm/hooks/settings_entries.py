"""Add our entries to the settings files of coding agents, and remove them, changing nothing else."""

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from steadyhelm.errors import FormatError
from steadyhelm.recordings.hook_events import codex
from steadyhelm.recordings.hook_events.dialects import DIALECTS
from steadyhelm.recordings.hook_events.hook_step import StepKind

_OUR_COMMAND: Final = re.compile(r"\bsteadyhelm(?:\.exe)?['\"]?\s+hook\s+(?:--agent|statusline)\b")
_MODE_OPTION: Final = re.compile(r"--mode[ =](\w+)")
_TOOL_EVENTS: Final = frozenset({"before_tool", "after_tool"})
_TIMEOUT_S: Final = 10
_CODEX_END_TIMEOUT_S: Final = 3
"""Codex allows no more at the end of a session, and would warn the user."""
_MAX_DEPTH: Final = 100
STATUS_LINE: Final = "statusLine"


class SettingsPlace(NamedTuple):
    """Where an agent keeps its settings, in the user's home and in a project, and its commands."""

    user: str
    project: str
    commands: tuple[str, ...]
    home_variable: str = ""


SETTINGS_PLACES: Final = {
    # In a project, the user's own file: the other one is shared with everyone who works there.
    "claude-code": SettingsPlace(
        ".claude/settings.json", ".claude/settings.local.json", ("claude",), "CLAUDE_CONFIG_DIR"
    ),
    codex.AGENT: SettingsPlace(".codex/hooks.json", ".codex/hooks.json", ("codex",), "CODEX_HOME"),
    "gemini-cli": SettingsPlace(".gemini/settings.json", ".gemini/settings.json", ("gemini",)),
    "cursor": SettingsPlace(".cursor/hooks.json", ".cursor/hooks.json", ("cursor", "cursor-agent")),
}


def find_agents() -> dict[str, str]:
    """Return the coding agents of this user, each with what shows it: its folder, or its command."""
    found = {}
    for agent, place in SETTINGS_PLACES.items():
        with contextlib.suppress(FormatError, OSError):
            folder = find_settings_file(agent, project=False).parent
            if folder.is_dir():
                found[agent] = f"the folder {folder}"
                continue
        command = next((it for it in map(shutil.which, place.commands) if it), None)
        if command:
            found[agent] = f"the command {command}"
    return found


def find_settings_file(agent: str, *, project: bool) -> Path:
    """Return the file to edit; a link is followed, so that it stays a link."""
    place = SETTINGS_PLACES[agent]
    own = os.environ.get(place.home_variable, "") if place.home_variable else ""
    try:
        if project:
            path = Path.cwd() / place.project
        elif own:
            path = Path(own).expanduser() / Path(place.user).name
        else:
            path = Path.home() / place.user
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as exc:
        raise FormatError(f"The settings of {agent} cannot be found: {exc}.") from exc


def build_hook_command(agent: str, mode: str) -> str:
    """Return the command the agent runs at each event."""
    return f"{_get_own_command()} hook --agent {agent} --mode {mode}"


def get_status_line_command() -> str:
    """Return the command Claude Code runs for its status line."""
    return f"{_get_own_command()} hook statusline"


def _get_own_command() -> str:
    script = Path(sys.executable).with_name("steadyhelm")
    return shlex.quote(str(script)) if script.exists() else f"{shlex.quote(sys.executable)} -m steadyhelm"


def parse_settings(text: str, path: Path) -> dict[str, Any]:
    """Return the content of the file; raises FormatError when it is not plain JSON."""
    if not text.strip():
        return {}
    try:
        content = json.loads(text, object_pairs_hook=_build_object)
        _require_shallow(content)
    except RecursionError as exc:
        raise FormatError(f"{path} is nested too deeply; it was left as it is.") from exc
    except ValueError as exc:
        raise FormatError(
            f"{path} is not plain JSON ({exc}); comments would be lost, so it was left as it is. "
            "Add the entries by hand: `steadyhelm hook status` shows the command."
        ) from exc
    if not isinstance(content, dict) or not isinstance(content.get("hooks", {}), dict):
        raise FormatError(f"{path} does not hold an object with an object named hooks; it was left as it is.")
    return content


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return built


def _require_shallow(content: Any) -> None:
    """Raise RecursionError for what is nested more deeply than can be written again."""
    level = [content]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise RecursionError


def _add_hooks(known: Mapping[str, Any], agent: str, command: str) -> dict[str, Any]:
    hooks = dict(known)
    for event, kind in DIALECTS[agent].kinds.items():
        entries = hooks.get(event, [])
        if not isinstance(entries, list):
            raise FormatError(f"The entry hooks.{event} is not a list; the file was left as it is.")
        hooks[event] = [*entries, _make_entry(agent, command, kind)]
    return hooks


def add_entries(
    content: Mapping[str, Any], agent: str, command: str, *, status_line: str | None = None
) -> dict[str, Any]:
    """Return the settings with our entries, each once, after all others.

    `status_line` is the command of our status line, which never replaces another one. An empty text removes
    ours, None leaves it as it is. Raises FormatError where an event of ours has something other than a list.
    """
    fresh = remove_entries(content)
    hooks = _add_hooks(fresh.get("hooks", {}), agent, command)
    if agent == "cursor":
        fresh = {"version": 1, **fresh}
    if status_line is None and STATUS_LINE in content:
        fresh[STATUS_LINE] = content[STATUS_LINE]
    elif status_line and STATUS_LINE not in fresh:
        fresh[STATUS_LINE] = {"type": "command", "command": status_line}
    return {**fresh, "hooks": hooks}


def has_other_status_line(content: Mapping[str, Any]) -> bool:
    """Return whether the settings have a status line that is not ours."""
    return STATUS_LINE in content and not _is_ours(content[STATUS_LINE])


def _make_entry(agent: str, command: str, kind: StepKind) -> dict[str, Any]:
    if agent == "cursor":
        return {"command": command, "timeout": _TIMEOUT_S}
    timeout = _CODEX_END_TIMEOUT_S if agent == codex.AGENT and kind == "end" else _TIMEOUT_S
    timeout *= 1000 if agent == "gemini-cli" else 1
    entry = {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}
    return {"matcher": "*", **entry} if kind in _TOOL_EVENTS else entry


def _is_filled(entries: Any) -> bool:
    """Return whether this is a list with entries, rather than anything else a user wrote there."""
    return isinstance(entries, list) and bool(entries)


def remove_entries(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without our entries; a list or object that held only them is removed too."""
    rest = dict(content)
    if _is_ours(rest.get(STATUS_LINE)):
        del rest[STATUS_LINE]
    hooks = rest.get("hooks")
    if not isinstance(hooks, dict):
        return rest
    left = {event: _remove_our_entries(entries) for event, entries in hooks.items()}
    kept = {event: it for event, it in left.items() if it or not _is_filled(hooks[event])}
    if kept or not hooks:
        rest["hooks"] = kept
    else:
        del rest["hooks"]
    return rest


def _remove_our_entries(entries: Any) -> Any:
    if not isinstance(entries, list):
        return entries
    left = []
    for entry in entries:
        inner = entry.get("hooks") if isinstance(entry, dict) else None
        if isinstance(inner, list) and any(_is_ours(it) for it in inner):
            foreign = [it for it in inner if not _is_ours(it)]
            if foreign:
                left.append({**entry, "hooks": foreign})
        elif not _is_ours(entry):
            left.append(entry)
    return left


def _is_ours(entry: Any) -> bool:
    command = entry.get("command") if isinstance(entry, dict) else None
    return isinstance(command, str) and _OUR_COMMAND.search(command) is not None


def find_installed_events(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the events that run our command, each with the mode in it."""
    found = {}
    hooks = content.get("hooks")
    for event, entries in hooks.items() if isinstance(hooks, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            inner = entry.get("hooks", [entry]) if isinstance(entry, dict) else []
            for it in inner if isinstance(inner, list) else ():
                if _is_ours(it):
                    mode = _MODE_OPTION.search(it["command"])
                    found[event] = mode[1] if mode else ""
    return found


def write_settings(text: str, content: Mapping[str, Any]) -> str:
    """Return the file's text with this content: keys appended where possible, else rewritten in its style.

    >>> print(write_settings('{ "a": [1,2] }', {"a": [1, 2], "hooks": {}}))
    { "a": [1,2],
      "hooks": {}
    }
    """
    indent = _find_indent(text)
    added = _append_keys(text, content, indent)
    if added is not None:
        return added
    written = json.dumps(content, indent=indent, ensure_ascii=False)
    if not _has_utf8_form(written):
        written = json.dumps(content, indent=indent)
    return written + ("" if _lacks_final_newline(text) else "\n")


def _append_keys(text: str, content: Mapping[str, Any], indent: int | str) -> str | None:
    """Return the text with the new keys before its last brace; None when anything else has changed."""
    before = json.loads(text) if text.strip() else {}
    if not before or any(content.get(key) != value for key, value in before.items()):
        return None
    pad = indent if isinstance(indent, str) else " " * indent
    new = {key: value for key, value in content.items() if key not in before}
    pieces = [json.dumps({key: value}, indent=indent, ensure_ascii=False)[2:-2] for key, value in new.items()]
    body, tail = text[: text.rindex("}")].rstrip(), text[text.rindex("}") + 1 :]
    lines = ",\n".join(piece if piece.startswith(pad) else pad + piece for piece in pieces)
    added = f"{body},\n{lines}\n}}{tail}"
    return added if json.loads(added) == content else None


def _find_indent(text: str) -> int | str:
    found = re.search(r"^\{\s*?\n([ \t]+)\"", text)
    if found is None:
        return 2
    return found[1] if "\t" in found[1] else len(found[1])


def _has_utf8_form(text: str) -> bool:
    """Return whether the text holds no half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode() == text


def _lacks_final_newline(text: str) -> bool:
    return bool(text.strip()) and not text.endswith("\n")
