"""Convert the public layouts of labelled agent runs to run files, with their labels.

An importer gets the JSON documents of all files and yields runs in the form of a run file.
What it cannot read is an error with the file's name, never a silent gap.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from steadyhelm.errors import FormatError, SettingsError
from steadyhelm.lab.importers import trail
from steadyhelm.lab.importers.documents import Document, Entries, Importer, get_text, parse_json_text

# Read the layout of tau-bench: a list of tasks, each with its `traj` of messages and its reward.

_SOLVED_REWARD: Final = 1.0
_TAU_ERROR_PREFIX: Final = "Error"


def _read_tau_runs(found: list[Document]) -> Iterator[dict[str, Any]]:
    """Yield a run for every task and trial; the reward decides its outcome."""
    for file, value in found:
        for task in value if isinstance(value, list) else [value]:
            if not isinstance(task, dict) or not isinstance(task.get("traj"), list):
                raise FormatError(f"{str(file)!r} is not in the layout of tau-bench: no list under `traj`.")
            yield _convert_tau_task(task, file.stem)


def _convert_tau_task(task: dict[str, Any], name: str) -> dict[str, Any]:
    entries = Entries()
    for message in task["traj"]:
        if isinstance(message, dict):
            _add_message(entries, message)
    info = task.get("info") or {}
    instruction = (info.get("task") or {}).get("instruction", "")
    return {
        "run_id": f"tau-{name}-{task.get('task_id')}-{task.get('trial', 0)}",
        "source": "tau-bench",
        "goal": instruction,
        "events": entries.all,
        "labels": [],
        "outcome": "success" if (task.get("reward") or 0.0) >= _SOLVED_REWARD else "failure",
        "meta": {"user": "simulated"},
    }


def _add_calls(entries: Entries, calls: Iterable[Mapping[str, Any]]) -> None:
    for call in calls:
        wanted = call.get("function") or {}
        arguments = parse_json_text(wanted.get("arguments"))
        entries.add("tool_call", name=wanted.get("name"), args=arguments, call_id=call.get("id"))


def _add_message(entries: Entries, message: Mapping[str, Any]) -> None:
    role, text = message.get("role"), get_text(message.get("content"))
    if role == "system":
        entries.add("state", name="system_prompt", text=text)
    elif role == "user":
        entries.add("user_message", text=text)
    elif role == "assistant":
        if text:
            entries.add("llm_output", text=text)
        _add_calls(entries, message.get("tool_calls") or ())
    elif role == "tool":
        name, call_id = message.get("name"), message.get("tool_call_id")
        entries.add("tool_result", name=name, text=text, call_id=call_id)
        if text.startswith(_TAU_ERROR_PREFIX):
            entries.add("error", name=name, text=text, call_id=call_id)


# Read the layout of Who&When: a `history` of messages of several agents, and the decisive mistake.

_CODE: Final = re.compile(r"```(?:python|py|sh|bash)\s*\n(.*?)```", re.DOTALL)
_FAILED_EXIT: Final = re.compile(r"exitcode: [1-9]")
_TO: Final = re.compile(r"\(-> (\w+)\)")
_TERMINAL: Final = "Computer_terminal"


def _read_who_and_when_runs(found: list[Document]) -> Iterator[dict[str, Any]]:
    """Yield a run for every file; its label is the decisive step."""
    for file, value in found:
        if not isinstance(value, dict) or not isinstance(value.get("history"), list):
            raise FormatError(f"{str(file)!r} is not in the layout of Who&When: no list under `history`.")
        yield _convert_history(value, file.stem)


def _convert_history(value: dict[str, Any], name: str) -> dict[str, Any]:
    entries = Entries()
    history = [message for message in value["history"] if isinstance(message, dict)]
    # Who&When itself counts messages; systems built by hand begin with the human's, the others do not.
    is_crafted = not any(message.get("name") for message in history)
    if not is_crafted:
        entries.add("user_message", text=str(value.get("question", "")))
    add = _add_orchestrator_message if is_crafted else _add_chat_message
    places = [add(entries, message, history[i + 1 : i + 2]) for i, message in enumerate(history)]
    return {
        "run_id": f"whowhen-{name}",
        "source": "whowhen-handcrafted" if is_crafted else "whowhen-generated",
        "goal": str(value.get("question", "")),
        "events": entries.all,
        "labels": [_make_label(value, places)],
        "outcome": "success" if value.get("is_correct") else "failure",
        "meta": {"question_id": value.get("question_ID")},
    }


def _make_label(value: Mapping[str, Any], places: list[int]) -> dict[str, Any]:
    step = str(value.get("mistake_step", ""))
    return {
        "kind": "decisive_error",
        "original": "Who&When mistake_step",
        "at": places[int(step)] if step.isdecimal() and int(step) < len(places) else None,
        "note": value.get("mistake_reason"),
        "by": "human",
        "derived": False,
        "failed_agent": value.get("mistake_agent"),
    }


def _add_chat_message(entries: Entries, message: Mapping[str, Any], following: list[dict[str, Any]]) -> int:
    """Add a message of a group chat; code in it is a call when the terminal answers it."""
    who, text = message.get("name"), get_text(message.get("content"))
    if who == _TERMINAL:
        at = entries.add("tool_result", name="python", text=text, agent=who)
        if _FAILED_EXIT.match(text):
            entries.add("error", name="python", text=text, agent=who)
        return at
    at = entries.add("llm_output", text=text, agent=who)
    code = _CODE.search(text)
    if code and following and following[0].get("name") == _TERMINAL:
        entries.add("tool_call", name="python", args={"code": code[1].strip()}, agent=who)
    return at


def _add_orchestrator_message(entries: Entries, message: Mapping[str, Any], _: list[dict[str, Any]]) -> int:
    """Add a message of an orchestrator or its helpers; an instruction to a helper is a call."""
    role, text = str(message.get("role", "")), get_text(message.get("content"))
    who = role.split(" (", maxsplit=1)[0]
    if role.lower() in {"human", "user"}:
        return entries.add("user_message", text=text)
    told = _TO.search(role)
    if told:
        return entries.add("tool_call", name=f"delegate:{told[1]}", args={"instruction": text}, agent=who)
    if "(thought)" in role:
        name = "plan" if text.startswith("Initial plan") else "ledger" if "Ledger" in text[:40] else None
        kind = "state" if text.startswith("Next speaker") else "llm_output"
        return entries.add(kind, name=name, text=text, agent=who)
    if "(termination" in role:
        return entries.add("state", name="termination", text=text, agent=who)
    return entries.add("tool_result", name=f"delegate:{who}", text=text, agent=who)


IMPORTERS: Final[dict[str, Importer]] = {
    "trail": trail.read_runs,
    "tau": _read_tau_runs,
    "who-and-when": _read_who_and_when_runs,
}


def read_documents(paths: Iterable[Path]) -> list[Document]:
    """Return every JSON file under these paths, sorted within a folder."""
    found = []
    for path in paths:
        if not path.exists():
            raise SettingsError(f"There is no file or folder {str(path)!r}.")
        files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        found += [Document(file, _read_json(file)) for file in files]
    if not found:
        raise FormatError("No JSON file was found there.")
    return found


def write_runs(runs: Iterable[dict[str, Any]], target: Path) -> int:
    """Write a run file, gzip when its name ends in .gz, and return how many runs it has."""
    # All of them before the first is written: a file half written would look like a whole one.
    lines = b"".join(msgspec.json.encode(run) + b"\n" for run in runs)
    try:
        target.write_bytes(gzip.compress(lines, mtime=0) if target.suffix == ".gz" else lines)
    except OSError as exc:
        raise FormatError(f"{str(target)!r} cannot be written: {exc.strerror or exc}.") from exc
    return lines.count(b"\n")


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as exc:
        raise FormatError(f"{str(file)!r} cannot be read: {exc}.") from exc
