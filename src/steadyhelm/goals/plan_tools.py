"""What the plan tools of coding agents say about how far a plan is.

Known are tools that write the whole list (`todos`, `plan`, `task_list`), those that change some of it by id,
and those that create and update one task at a time.
"""

import functools
import re
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import LOOKED_AT
from steadyhelm.goals.plan_words import status_named
from steadyhelm.goals.tree_nodes import GoalStatus

ITEMS_KEPT: Final = 100

_PLANNING: Final = re.compile(r"todo|plan|task", re.IGNORECASE)
_LISTS: Final = ("todos", "plan", "task_list", "tasks", "plans", "items", "steps")
_IDS: Final = ("taskId", "task_id", "todo_id", "id")
_WORDS: Final = ("content", "description", "step", "title", "subject", "task", "name", "text")
_CREATED: Final = re.compile(r"#(\d{1,9})")
_KEY_LENGTH: Final = 300


class PlanChange(NamedTuple):
    """Items of a plan by key: done, open, or None for one given up; `whole` says that there are no others."""

    items: dict[int, bool | None]
    whole: bool


@functools.lru_cache(maxsize=256)
def is_plan_tool(name: str) -> bool:
    """Whether a tool is named after plans."""
    return _PLANNING.search(name[:100]) is not None


def plan_change(event: TraceEvent) -> PlanChange | None:
    """What a call of a plan tool changes; None when it is none, or only looks.

    >>> plan = [{"step": "read", "status": "completed"}, {"step": "fix", "status": "pending"}]
    >>> call = {"agent_id": "a", "run_id": "r", "action_type": "tool_call", "action_name": "update_plan"}
    >>> list(plan_change(TraceEvent(**call, input_data={"plan": plan})).items.values())
    [True, False]
    """
    args = event.input_data
    if not isinstance(args, dict) or not is_plan_tool(event.action_name):
        return None
    listed = next((args[name] for name in _LISTS if name in args), None)
    if isinstance(listed, str) and listed[:1] == "[":
        listed = _decoded(listed)
    if isinstance(listed, (list, tuple)):
        items = dict(filter(None, map(_item, listed[:ITEMS_KEPT])))
        return PlanChange(items, whole=args.get("merge") is not True) if items else None
    return _one_task(event, args)


def _one_task(event: TraceEvent, args: dict[Any, Any]) -> PlanChange | None:
    """A task created, or its status changed; the tool that sends a sub-agent out has neither."""
    known: Any = next((args[name] for name in _IDS if name in args), None)
    if _is_name(known) and "status" in args:
        return PlanChange({_key(known): _is_done(args["status"])}, whole=False)
    if known is None and isinstance(args.get("subject"), str):
        output = event.output_data
        told = output.get("text", "") if isinstance(output, dict) else output
        created = _CREATED.search(told[:_KEY_LENGTH]) if isinstance(told, str) else None
        return PlanChange({_key(created[1] if created else args["subject"]): False}, whole=False)
    return None


def _item(item: Any) -> tuple[int, bool | None] | None:
    if isinstance(item, str):
        return (_key(item), False) if item else None
    if not isinstance(item, dict):
        return None
    name = next((item[key] for key in (*_IDS, *_WORDS) if _is_name(item.get(key))), None)
    told = next((item[key] for key in ("status", "state", "done", "completed") if key in item), None)
    return None if name is None or told is None else (_key(name), _is_done(told))


def _is_name(value: Any) -> bool:
    return (isinstance(value, str) and value != "") or (
        isinstance(value, int) and not isinstance(value, bool)
    )


def _is_done(told: Any) -> bool | None:
    status = status_named(told)
    return None if status is GoalStatus.SKIPPED else status is GoalStatus.COMPLETE


def _key(name: str | int) -> int:
    text = name if isinstance(name, str) else f"{name:d}"
    return crc32(text[:_KEY_LENGTH].strip().encode("utf-8", "replace"))


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text[: 4 * LOOKED_AT].encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
