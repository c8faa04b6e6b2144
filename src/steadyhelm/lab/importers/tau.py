"""Runs in the layout of tau-bench: a list of tasks, each with its `traj` of messages and its reward."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steadyhelm.errors import FormatError
from steadyhelm.lab.importers.importing import Document, Entries, opened, text_in

_SOLVED: Final = 1.0
_FAILED: Final = "Error"


def runs(found: list[Document]) -> Iterator[dict[str, Any]]:
    """A run for every task and trial; the reward says how it ended."""
    for file, value in found:
        for task in value if isinstance(value, list) else [value]:
            if not isinstance(task, dict) or not isinstance(task.get("traj"), list):
                raise FormatError(f"{str(file)!r} is not in the layout of tau-bench: no list under `traj`.")
            yield _run(task, file.stem)


def _run(task: dict[str, Any], name: str) -> dict[str, Any]:
    entries = Entries()
    for message in task["traj"]:
        if isinstance(message, dict):
            _add(entries, message)
    info = task.get("info") or {}
    instruction = (info.get("task") or {}).get("instruction", "")
    return {
        "run_id": f"tau-{name}-{task.get('task_id')}-{task.get('trial', 0)}",
        "source": "tau-bench",
        "goal": instruction,
        "events": entries.all,
        "labels": [],
        "outcome": "success" if (task.get("reward") or 0.0) >= _SOLVED else "failure",
        "meta": {"user": "simulated"},
    }


def _add(entries: Entries, message: Mapping[str, Any]) -> None:
    role, text = message.get("role"), text_in(message.get("content"))
    if role == "system":
        entries.add("state", name="system_prompt", text=text)
    elif role == "user":
        entries.add("user_message", text=text)
    elif role == "assistant":
        if text:
            entries.add("llm_output", text=text)
        for call in message.get("tool_calls") or ():
            wanted = call.get("function") or {}
            arguments = opened(wanted.get("arguments"))
            entries.add("tool_call", name=wanted.get("name"), args=arguments, call_id=call.get("id"))
    elif role == "tool":
        name, call_id = message.get("name"), message.get("tool_call_id")
        entries.add("tool_result", name=name, text=text, call_id=call_id)
        if text.startswith(_FAILED):
            entries.add("error", name=name, text=text, call_id=call_id)
