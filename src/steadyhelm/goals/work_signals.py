"""Read signs of work from tool calls: plan items done, files changed or reverted, test results."""

import functools
import re
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import MAX_CHARS
from steadyhelm.goals.plan_lines import parse_status
from steadyhelm.goals.tree_nodes import GoalStatus
from steadyhelm.lexicons import LexiconEntry, load_lexicon

_PATH_KEYS: Final = ("path", "file_path", "filePath", "filename", "file", "notebook_path", "target_file")
_NEW_TEXT_KEYS: Final = (
    "content",
    "new_string",
    "new_str",
    "newString",
    "new_text",
    "file_text",
    "contents",
    "new_source",
)
_OLD_TEXT_KEYS: Final = ("old_string", "old_str", "oldString", "old_text")
_CONTENT_CHARS_READ: Final = 4096

# Every runner's name contains one of these; searching for them costs a tenth of the pattern.
_RUNNER_HINTS: Final = ("test", "tox", "nox", "jest", "mocha", "rspec", "phpunit", "check", "verify")
_GO_FAILURE: Final = "--- FAIL"
_RESULT_CHARS_READ: Final = 1024
UNKNOWN_FAILURES: Final = 1_000_000
"""The number of failures of a test run that failed without saying how many."""


class FileChange(NamedTuple):
    """A change of a file: a key for it, the key of its reversal, and whether it changes nothing."""

    key: int
    undo: int
    is_none: bool


class SuiteRun(NamedTuple):
    """A run of a test suite: a key for the suite, and the number of failures."""

    key: int
    failures: int


def find_file_change(args: Any) -> FileChange | None:
    """Return the file change that a call's arguments describe; None when they describe none."""
    if not isinstance(args, dict):
        return None
    path, new, old = (
        _get_first(args, _PATH_KEYS),
        _get_first(args, _NEW_TEXT_KEYS),
        _get_first(args, _OLD_TEXT_KEYS),
    )
    if not isinstance(path, str) or not isinstance(new, str):
        return None
    before = hash_text(old) if isinstance(old, str) else 0
    after, where = hash_text(new), hash_text(path)
    return FileChange(
        key=hash_text(f"{where} {before} {after}"),
        undo=hash_text(f"{where} {after} {before}"),
        is_none=isinstance(old, str) and old == new,
    )


def find_written_path(args: Any) -> str | None:
    """Return the path of the file that a call's arguments write; None when they write none."""
    if not isinstance(args, dict):
        return None
    path = _get_first(args, _PATH_KEYS)
    writes = any(isinstance(args.get(key), str) for key in _NEW_TEXT_KEYS)
    return path if writes and isinstance(path, str) and path else None


def find_suite_run(event: TraceEvent, *, failed: bool) -> SuiteRun | None:
    """Return the test run that a call made; None for another call."""
    args = event.input_data
    has_command = isinstance(args, dict) and ("command" in args or "cmd" in args)
    command = _get_command(args) if has_command else None
    if command is None:
        if not _is_test_tool(event.action_name):
            return None
        which = event.action_name
    else:
        runner = (
            _find_pattern("test runner").search(command)
            if any(map(command.__contains__, _RUNNER_HINTS))
            else None
        )
        if runner is None:
            return None
        # Handling of the output, such as `2>&1 | tail`, does not make it another run.
        which = runner[0].rstrip(" 12")
    return SuiteRun(hash_text(which), _count_failures(event, failed=failed))


def _count_failures(event: TraceEvent, *, failed: bool) -> int:
    text = event.error or event.output_data
    if isinstance(text, dict):
        text = next((value for value in text.values() if isinstance(value, str)), "")
    if not isinstance(text, str):
        return UNKNOWN_FAILURES if failed else 0
    end = text[-_RESULT_CHARS_READ:]
    if "fail" not in end.lower() and "error" not in end.lower():
        return UNKNOWN_FAILURES if failed else 0
    counted = sum(
        int(one or other) for one, other in _find_pattern("failures").regex.findall(end)
    ) + end.count(_GO_FAILURE)
    return counted or (UNKNOWN_FAILURES if failed else 0)


def _get_command(args: dict[Any, Any]) -> str | None:
    command = args.get("command", args.get("cmd"))
    if isinstance(command, list):
        command = " ".join(part for part in command if isinstance(part, str))
    return command[:_CONTENT_CHARS_READ] if isinstance(command, str) else None


@functools.lru_cache(maxsize=256)
def _is_test_tool(name: str) -> bool:
    return _find_pattern("test tool").search(name[:100]) is not None


def _get_first(args: dict[Any, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if name in args:
            return args[name]
    return None


def hash_text(text: str) -> int:
    """Return a checksum of a text; of a long one, that of its beginning, its end and its length."""
    if len(text) > 2 * _CONTENT_CHARS_READ:
        text = f"{text[:_CONTENT_CHARS_READ]}{len(text)}{text[-_CONTENT_CHARS_READ:]}"
    return crc32(text.encode("utf-8", "replace"))


def _find_pattern(name: str) -> LexiconEntry:
    return load_lexicon(__package__, "work")[name]


# Read the progress of a plan from the plan tools of coding agents. Supported are tools that write the whole
# list (`todos`, `plan`, `task_list`), tools that change parts of it by id, and tools that create and update
# one task at a time.

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
