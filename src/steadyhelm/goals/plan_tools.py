"""Read the progress of a plan from the plan tools of coding agents.

Supported are tools that write the whole list (`todos`, `plan`, `task_list`), tools that change parts of it by
id, and tools that create and update one task at a time.
"""

import functools
import re
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import MAX_CHARS
from steadyhelm.goals.plan_annotations import parse_status
from steadyhelm.goals.tree_nodes import GoalStatus
from steadyhelm.lexicons import load_lexicon

ITEMS_KEPT: Final = 100

_LIST_KEYS: Final = ("todos", "plan", "task_list", "tasks", "plans", "items", "steps")
_ID_KEYS: Final = ("taskId", "task_id", "todo_id", "id")
_TEXT_KEYS: Final = ("content", "description", "step", "title", "subject", "task", "name", "text")
_CREATED_ID: Final = re.compile(r"#(\d{1,9})")
_KEY_CHARS: Final = 300


class PlanChange(NamedTuple):
    """Items of a plan by key: done, open, or None for a dropped one; `whole` means there are no others."""

    items: dict[int, bool | None]
    whole: bool


@functools.lru_cache(maxsize=256)
def is_plan_tool(name: str) -> bool:
    """Return whether a tool's name says that it is about a plan."""
    return load_lexicon(__package__, "plans")["plan tool"].search(name[:100]) is not None


def read_plan_change(event: TraceEvent) -> PlanChange | None:
    """Return what a call of a plan tool changes; None for another tool or a call that only reads.

    >>> plan = [{"step": "read", "status": "completed"}, {"step": "fix", "status": "pending"}]
    >>> call = {"agent_id": "a", "run_id": "r", "action_type": "tool_call", "action_name": "update_plan"}
    >>> list(read_plan_change(TraceEvent(**call, input_data={"plan": plan})).items.values())
    [True, False]
    """
    args = event.input_data
    if not isinstance(args, dict) or not is_plan_tool(event.action_name):
        return None
    listed = next((args[name] for name in _LIST_KEYS if name in args), None)
    if isinstance(listed, str) and listed[:1] == "[":
        listed = _decode_list(listed)
    if isinstance(listed, (list, tuple)):
        items = dict(filter(None, map(_read_item, listed[:ITEMS_KEPT])))
        return PlanChange(items, whole=args.get("merge") is not True) if items else None
    return _read_one_task(event, args)


def _read_one_task(event: TraceEvent, args: dict[Any, Any]) -> PlanChange | None:
    """Return the change by a tool that creates or updates one task; None for one that starts a sub-agent."""
    known: Any = next((args[name] for name in _ID_KEYS if name in args), None)
    if _is_name(known) and "status" in args:
        return PlanChange({_hash_name(known): _is_done(args["status"])}, whole=False)
    if known is None and isinstance(args.get("subject"), str):
        output = event.output_data
        text = output.get("text", "") if isinstance(output, dict) else output
        created = _CREATED_ID.search(text[:_KEY_CHARS]) if isinstance(text, str) else None
        return PlanChange({_hash_name(created[1] if created else args["subject"]): False}, whole=False)
    return None


def _read_item(item: Any) -> tuple[int, bool | None] | None:
    if isinstance(item, str):
        return (_hash_name(item), False) if item else None
    if not isinstance(item, dict):
        return None
    name = next((item[key] for key in (*_ID_KEYS, *_TEXT_KEYS) if _is_name(item.get(key))), None)
    status = next((item[key] for key in ("status", "state", "done", "completed") if key in item), None)
    return None if name is None or status is None else (_hash_name(name), _is_done(status))


def _is_name(value: Any) -> bool:
    return (isinstance(value, str) and value != "") or (
        isinstance(value, int) and not isinstance(value, bool)
    )


def _is_done(value: Any) -> bool | None:
    status = parse_status(value)
    return None if status is GoalStatus.SKIPPED else status is GoalStatus.COMPLETE


def _hash_name(name: str | int) -> int:
    text = name if isinstance(name, str) else f"{name:d}"
    return crc32(text[:_KEY_CHARS].strip().encode("utf-8", "replace"))


def _decode_list(text: str) -> Any:
    try:
        return msgspec.json.decode(text[: 4 * MAX_CHARS].encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
