"""Read Codex rollouts: one session per file, as JSON Lines.

Two generations are read: lines of `{timestamp, type, payload}`, and before them bare items.
"""

import re
from collections import deque
from typing import Any, ClassVar, Final

from steadyhelm.events import TraceEvent
from steadyhelm.recordings.content import as_object, as_text, join_text
from steadyhelm.recordings.run_builder import RunBuilder
from steadyhelm.recordings.run_entries import Notes, parse_arguments, read_number
from steadyhelm.recordings.transcript_reader import TranscriptReader, parse_time

AGENT: Final = "codex"
SUBAGENT: Final = "codex/subagent"

# Repeated by an event, or irrelevant to what the agent did.
_IGNORED_LINES: Final = frozenset({"token_usage_record", "world_state"})
_LINE_TYPES: Final = _IGNORED_LINES | {
    "session_meta",
    "response_item",
    "event_msg",
    "turn_context",
    "compacted",
}
_CALL_TYPES: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
# Tools of the model's own side, whose result is never written.
_MODEL_SIDE_CALLS: Final = frozenset({"web_search_call", "image_generation_call"})
_OUTPUT_TYPES: Final = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_COMPACTION_TYPES: Final = frozenset({"compaction", "compaction_summary", "context_compaction"})
_ITEM_TYPES: Final = (
    _CALL_TYPES
    | _MODEL_SIDE_CALLS
    | _OUTPUT_TYPES
    | _COMPACTION_TYPES
    | {"message", "reasoning", "ghost_snapshot"}
)
# Repeated by an item, or irrelevant to what the agent did.
_IGNORED_EVENTS: Final = frozenset(
    {
        *("agent_message", "agent_reasoning", "agent_reasoning_raw_content", "agent_reasoning_section_break"),
        *("task_started", "turn_started", "task_complete", "turn_complete", "turn_diff", "plan_update"),
        *("exec_command_begin", "exec_command_end", "patch_apply_begin", "patch_apply_end"),
        *("mcp_tool_call_begin", "mcp_tool_call_end", "web_search_begin", "web_search_end"),
        *("view_image_tool_call", "context_compacted", "entered_review_mode", "exited_review_mode"),
        *("item_completed", "thread_name_updated", "thread_settings_applied", "thread_rolled_back"),
        *("undo_completed", "collab_agent_spawn_end", "collab_waiting_end", "collab_close_end"),
        *("collab_agent_interaction_end", "image_generation_end", "dynamic_tool_call_response"),
    }
)
_HARNESS_TEXT: Final = re.compile(
    r"\s*(?:<[a-z][a-z_ -]*>|# AGENTS\.md instructions|Warning: |The following is the Codex agent history)"
)
_EXIT_CODE: Final = re.compile(r"(?:Process exited with code|Exit code:)\s*(-?\d+)")
_MAX_HEADER_CHARACTERS: Final = 512
_MAX_RECENT_MESSAGES: Final = 16


class Codex(TranscriptReader):
    """A reader of rollouts, also of one that is still being written.

    The cost of a reply is recorded only after its items; until then its events are held back.

    >>> line = b'{"type": "response_item", "payload": {"type": "message", "role": "user", "content": "hi"}}'
    >>> [event] = Codex().feed(line)
    >>> event.action_type, event.text
    ('user_message', 'hi')
    """

    title: ClassVar[str] = "Codex rollout"

    def __init__(self, *, name: str = "") -> None:
        super().__init__(name=name)
        self._session: str | None = None
        self._parent: str | None = None
        self._model: str | None = None
        self._version = ""
        self._cwd: str | None = None
        self._replies = 0
        self._is_replying = False
        self._has_answer = False
        self._spent: int | None = None
        self._in_items: deque[str] = deque(maxlen=_MAX_RECENT_MESSAGES)
        self._in_events: deque[str] = deque(maxlen=_MAX_RECENT_MESSAGES)

    @staticmethod
    def can_read(value: Any) -> bool:
        """Return whether this is a line of a rollout."""
        line = as_object(value)
        kind = as_text(line.get("type"))
        if kind is None:
            return line.get("record_type") == "state" or ("instructions" in line and "timestamp" in line)
        return (kind in _LINE_TYPES and isinstance(line.get("payload"), dict)) or (
            kind in _ITEM_TYPES and "payload" not in line and "uuid" not in line
        )

    def add_line(self, value: Any) -> None:
        """Add a line to the session."""
        line = as_object(value)
        kind = as_text(line.get("type"))
        payload = as_object(line.get("payload"))
        t = parse_time(line.get("timestamp"))
        if kind == "session_meta":
            self._read_meta(payload)
        elif kind == "turn_context":
            self._model = as_text(payload.get("model")) or self._model
        elif kind == "response_item":
            self._add_item(payload, t)
        elif kind == "event_msg":
            self._add_event(payload, t)
        elif kind == "compacted":
            self._get_session_run().add_state("compacted", as_text(payload.get("message")), t)
        elif kind in _ITEM_TYPES:
            self._add_item(line, t)
        elif kind is None and (line.get("record_type") == "state" or "instructions" in line):
            self._read_meta(line)
        elif kind not in _IGNORED_LINES:
            self._count_unknown("the line type", line.get("type"))

    def _release_run(self, run: RunBuilder) -> list[TraceEvent]:
        return [] if self._is_replying else super()._release_run(run)

    def _get_session_run(self) -> RunBuilder:
        agent = AGENT if self._parent is None else SUBAGENT
        run = self._get_run(self._session, agent_id=agent, parent_run_id=self._parent)
        run.version = self._version
        if self._cwd is not None:
            run.metadata["cwd"] = self._cwd
        return run

    def _read_meta(self, meta: dict[str, Any]) -> None:
        """Read the id of the session; a later header belongs to the session it was forked from."""
        if self._session is not None or self.runs or as_text(meta.get("id")) is None:
            return
        self._session = as_text(meta.get("id"))
        self._version = as_text(meta.get("cli_version")) or ""
        self._cwd = as_text(meta.get("cwd"))
        spawned = as_object(as_object(as_object(meta.get("source")).get("subagent")).get("thread_spawn"))
        self._parent = as_text(spawned.get("parent_thread_id")) or as_text(meta.get("parent_thread_id"))

    def _add_item(self, item: dict[str, Any], t: float | None) -> None:
        kind = as_text(item.get("type"))
        if kind == "message" and item.get("role") != "assistant":
            self._add_message(item, t)
        elif kind in _OUTPUT_TYPES:
            self._add_output(item, t)
        elif kind in _COMPACTION_TYPES:
            self._get_session_run().add_state("compacted", None, t)
        elif kind == "message":
            self._add_reply_text(join_text(item.get("content")), t)
        elif kind == "reasoning":
            self._continue_reply().add_flags(thinking=True)
        elif kind in _CALL_TYPES:
            name, args = _read_call(item)
            self._continue_reply().add_call(name, args, call_id=as_text(item.get("call_id")), t=t)
        elif kind is not None and kind in _MODEL_SIDE_CALLS:
            run = self._continue_reply()
            call_id = as_text(item.get("id")) or f"{kind}-{self.line}"
            run.add_call(kind.removesuffix("_call"), item.get("action"), call_id=call_id, t=t)
            run.add_result(call_id, None, t=t, error=item.get("status") == "failed")
        elif kind != "ghost_snapshot":
            self._count_unknown("the item type", item.get("type"))

    def _add_reply_text(self, words: Any, t: float | None) -> None:
        run = self._continue_reply()
        if isinstance(words, str) and words.strip():
            run.add_text(words, t)

    def _continue_reply(self) -> RunBuilder:
        """Return the session's run, in a reply; a new reply begins when all earlier calls have results."""
        run = self._get_session_run()
        if not self._is_replying or (self._has_answer and not run.has_open_calls):
            self._replies += 1
        self._is_replying, self._has_answer = True, False
        self._in_items.clear()
        self._in_events.clear()
        run.begin_reply(f"reply-{self._replies}", model=self._model)
        return run

    def _add_message(self, item: dict[str, Any], t: float | None) -> None:
        """Add a message: instructions of the harness, or a user message."""
        text = join_text(item.get("content"))
        if not isinstance(text, str) or not text.strip():
            return
        if item.get("role") == "user" and not _HARNESS_TEXT.match(text):
            if text in self._in_events:
                self._in_events.remove(text)
            else:
                self._in_items.append(text)
                self._add_user(text, t)
        elif text.lstrip().startswith("<turn_aborted>"):
            # An event records it too.
            return
        else:
            self._get_session_run().add_state("harness", text, t)

    def _add_user(self, text: str, t: float | None) -> None:
        self._is_replying = False
        self._get_session_run().add_user_message(text, t)

    def _add_output(self, item: dict[str, Any], t: float | None) -> None:
        words, about = read_output(item.get("output"))
        is_error = about.pop("success", True) is False or about.get("exit_code", 0) != 0
        self._has_answer = True
        self._get_session_run().add_result(as_text(item.get("call_id")), words, t=t, error=is_error, **about)

    def _add_event(self, event: dict[str, Any], t: float | None) -> None:
        kind = as_text(event.get("type"))
        if kind == "token_count":
            self._add_token_count(as_object(event.get("info")))
        elif kind == "user_message":
            self._add_user_event(as_text(event.get("message")) or "", t)
        elif kind == "turn_aborted":
            self._is_replying = False
            self._get_session_run().add_state("interrupted", as_text(event.get("reason")), t)
        elif kind in ("error", "stream_error"):
            message = as_text(event.get("message"))
            self._get_session_run().add_state("error", message, t, error=message or "error")
        elif kind not in _IGNORED_EVENTS:
            self._count_unknown("the event type", event.get("type"))

    def _add_user_event(self, text: str, t: float | None) -> None:
        """Add a user message from an event, unless an item before or after it is the same."""
        if self._in_items:
            # Pictures may make the two differ.
            self._in_items.remove(text if text in self._in_items else self._in_items[0])
        elif text.strip():
            self._in_events.append(text)
            self._add_user(text, t)

    def _add_token_count(self, info: dict[str, Any]) -> None:
        """Add the cost of the last reply; the same figures may be repeated."""
        total = _sum_usage(info.get("total_token_usage"))
        last = _sum_usage(info.get("last_token_usage"))
        if total is None and last is None:
            return
        is_repeated = total is not None and total == self._spent
        before, self._spent = self._spent or 0, total
        run = self._get_session_run()
        if not is_repeated:
            run.add_tokens(last if last is not None else max(0, (total or 0) - before))
        self._is_replying = False


def _read_call(item: dict[str, Any]) -> tuple[str, Any]:
    if item.get("type") == "local_shell_call":
        return "local_shell", item.get("action")
    args = item.get("arguments") if item.get("arguments") is not None else item.get("input")
    name = as_text(item.get("name")) or str(item.get("type")).removesuffix("_call")
    space = as_text(item.get("namespace"))
    return (f"{space}{name}" if space else name), parse_arguments(args)


def _read_status(value: dict[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if isinstance(code := as_object(value.get("metadata")).get("exit_code"), int):
        about["exit_code"] = code
    if isinstance(value.get("success"), bool):
        about["success"] = value["success"]
    return about


def read_output(output: Any) -> tuple[Any, dict[str, Any]]:
    """Return the text of a result, and what the harness recorded about it: success, exit code."""
    value = parse_arguments(output)
    if isinstance(value, dict):
        about = _read_status(value)
        is_wrapped = about or "content" in value
        return join_text(value.get("output", value.get("content"))) if is_wrapped else output, about
    words, about = join_text(value), {}
    if isinstance(words, str):
        header = words[:_MAX_HEADER_CHARACTERS].partition("\nOutput:")
        code_match = _EXIT_CODE.search(header[0]) if header[1] else None
        if code_match:
            about["exit_code"] = int(code_match[1])
    return words, about


def _sum_usage(usage: Any) -> int | None:
    counted = as_object(usage)
    total = read_number(counted.get("total_tokens"), "total_tokens", Notes())
    if total is None and counted:
        counts = (read_number(counted.get(key), key, Notes()) for key in ("input_tokens", "output_tokens"))
        total = sum(count or 0 for count in counts)
    return None if total is None else int(total)
