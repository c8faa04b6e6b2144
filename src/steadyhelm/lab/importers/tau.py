"""Read the layout of tau-bench: a list of tasks, each with its `traj` of messages and its reward."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steadyhelm.errors import FormatError
from steadyhelm.lab.importers.documents import Document, Entries, get_text, parse_json_text

_SOLVED_REWARD: Final = 1.0
_ERROR_PREFIX: Final = "Error"


def read_runs(found: list[Document]) -> Iterator[dict[str, Any]]:
    """Yield a run for every task and trial; the reward decides its outcome."""
    for file, value in found:
        for task in value if isinstance(value, list) else [value]:
            if not isinstance(task, dict) or not isinstance(task.get("traj"), list):
                raise FormatError(f"{str(file)!r} is not in the layout of tau-bench: no list under `traj`.")
            yield _convert_run(task, file.stem)


def _convert_run(task: dict[str, Any], name: str) -> dict[str, Any]:
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


def _add_message(entries: Entries, message: Mapping[str, Any]) -> None:
    role, text = message.get("role"), get_text(message.get("content"))
    if role == "system":
        entries.add("state", name="system_prompt", text=text)
    elif role == "user":
        entries.add("user_message", text=text)
    elif role == "assistant":
        if text:
            entries.add("llm_output", text=text)
        for call in message.get("tool_calls") or ():
            wanted = call.get("function") or {}
            arguments = parse_json_text(wanted.get("arguments"))
            entries.add("tool_call", name=wanted.get("name"), args=arguments, call_id=call.get("id"))
    elif role == "tool":
        name, call_id = message.get("name"), message.get("tool_call_id")
        entries.add("tool_result", name=name, text=text, call_id=call_id)
        if text.startswith(_ERROR_PREFIX):
            entries.add("error", name=name, text=text, call_id=call_id)
