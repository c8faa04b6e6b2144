"""Read Codex rollouts: one session a file, as JSON Lines.

Two generations are read: lines of `{timestamp, type, payload}`, and before them bare items.
"""

import re
from collections import deque
from typing import Any, ClassVar, Final

from steadyhelm.events import TraceEvent
from steadyhelm.recordings.content import as_object, as_text, opened, words_of
from steadyhelm.recordings.run_entries import Notes, number
from steadyhelm.recordings.transcript import Transcript
from steadyhelm.recordings.transcript_reader import TranscriptReader, moment

AGENT: Final = "codex"
SUBAGENT: Final = "codex/subagent"

_ENVELOPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
# Tools of the model's own side, whose result is never written.
_ASIDE: Final = frozenset({"web_search_call", "image_generation_call"})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_COMPACTIONS: Final = frozenset({"compaction", "compaction_summary", "context_compaction"})
_ITEMS: Final = _CALLS | _ASIDE | _OUTPUTS | _COMPACTIONS | {"message", "reasoning", "ghost_snapshot"}
# Said by an item as well, or of no use to anybody who asks what the agent did.
_REPEATED: Final = frozenset(
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
_HARNESS: Final = re.compile(
    r"\s*(?:<[a-z][a-z_ -]*>|# AGENTS\.md instructions|Warning: |The following is the Codex agent history)"
)
_EXIT: Final = re.compile(r"(?:Process exited with code|Exit code:)\s*(-?\d+)")
_HEADER: Final = 512
_TOLD: Final = 16


class Codex(TranscriptReader):
    """Reads a rollout, also one that is still being written.

    What a reply cost is told only after its items; until then its events are held back.

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
        self._in_items: deque[str] = deque(maxlen=_TOLD)
        self._in_events: deque[str] = deque(maxlen=_TOLD)

    @staticmethod
    def recognises(value: Any) -> bool:
        """Whether this is a line of a rollout."""
        line = as_object(value)
        kind = as_text(line.get("type"))
        if kind is None:
            return line.get("record_type") == "state" or ("instructions" in line and "timestamp" in line)
        return (kind in _ENVELOPES and isinstance(line.get("payload"), dict)) or (
            kind in _ITEMS and "payload" not in line and "uuid" not in line
        )

    def take(self, value: Any) -> None:
        """Hand a line to the session."""
        line = as_object(value)
        kind = as_text(line.get("type"))
        payload = as_object(line.get("payload"))
        t = moment(line.get("timestamp"))
        if kind == "session_meta":
            self._meta(payload)
        elif kind == "turn_context":
            self._model = as_text(payload.get("model")) or self._model
        elif kind == "response_item":
            self._item(payload, t)
        elif kind == "event_msg":
            self._event(payload, t)
        elif kind == "compacted":
            self._of_session().state("compacted", as_text(payload.get("message")), t)
        elif kind in _ITEMS:
            self._item(line, t)
        elif kind is None and (line.get("record_type") == "state" or "instructions" in line):
            self._meta(line)
        else:
            self._pass_over("the line type", line.get("type"))

    def _released(self, run: Transcript) -> list[TraceEvent]:
        return [] if self._is_replying else super()._released(run)

    def _of_session(self) -> Transcript:
        agent = AGENT if self._parent is None else SUBAGENT
        run = self._run(self._session, agent_id=agent, parent_run_id=self._parent)
        run.version = self._version
        if self._cwd is not None:
            run.metadata["cwd"] = self._cwd
        return run

    def _meta(self, meta: dict[str, Any]) -> None:
        """What the session is called; a later head is that of a session it was branched off."""
        if self._session is not None or self.runs or as_text(meta.get("id")) is None:
            return
        self._session = as_text(meta.get("id"))
        self._version = as_text(meta.get("cli_version")) or ""
        self._cwd = as_text(meta.get("cwd"))
        spawned = as_object(as_object(as_object(meta.get("source")).get("subagent")).get("thread_spawn"))
        self._parent = as_text(spawned.get("parent_thread_id")) or as_text(meta.get("parent_thread_id"))

    def _item(self, item: dict[str, Any], t: float | None) -> None:
        kind = as_text(item.get("type"))
        if kind == "message" and item.get("role") != "assistant":
            self._message(item, t)
        elif kind in _OUTPUTS:
            self._output(item, t)
        elif kind in _COMPACTIONS:
            self._of_session().state("compacted", None, t)
        elif kind == "message":
            self._said(words_of(item.get("content")), t)
        elif kind == "reasoning":
            self._replying().flag(thinking=True)
        elif kind in _CALLS:
            name, args = _call(item)
            self._replying().call(name, args, call_id=as_text(item.get("call_id")), t=t)
        elif kind is not None and kind in _ASIDE:
            run = self._replying()
            call_id = as_text(item.get("id")) or f"{kind}-{self.line}"
            run.call(kind.removesuffix("_call"), item.get("action"), call_id=call_id, t=t)
            run.result(call_id, None, t=t, error=item.get("status") == "failed")
        elif kind != "ghost_snapshot":
            self._pass_over("the item type", item.get("type"))

    def _said(self, words: Any, t: float | None) -> None:
        run = self._replying()
        if isinstance(words, str) and words.strip():
            run.said(words, t)

    def _replying(self) -> Transcript:
        """The session, in the middle of a reply; a new one begins when all calls before it are answered."""
        run = self._of_session()
        if not self._is_replying or (self._has_answer and not run.awaits_results):
            self._replies += 1
        self._is_replying, self._has_answer = True, False
        self._in_items.clear()
        self._in_events.clear()
        run.reply(f"reply-{self._replies}", model=self._model)
        return run

    def _message(self, item: dict[str, Any], t: float | None) -> None:
        """Instructions and surroundings that the harness sends, or what a user says."""
        text = words_of(item.get("content"))
        if not isinstance(text, str) or not text.strip():
            return
        if item.get("role") == "user" and not _HARNESS.match(text):
            if text in self._in_events:
                self._in_events.remove(text)
            else:
                self._in_items.append(text)
                self._user(text, t)
        elif text.lstrip().startswith("<turn_aborted>"):
            # An event says so too.
            return
        else:
            self._of_session().state("harness", text, t)

    def _user(self, text: str, t: float | None) -> None:
        self._is_replying = False
        self._of_session().user(text, t)

    def _output(self, item: dict[str, Any], t: float | None) -> None:
        words, about = _came_back(item.get("output"))
        is_error = about.pop("success", True) is False or about.get("exit_code", 0) != 0
        self._has_answer = True
        self._of_session().result(as_text(item.get("call_id")), words, t=t, error=is_error, **about)

    def _event(self, event: dict[str, Any], t: float | None) -> None:
        kind = as_text(event.get("type"))
        if kind == "token_count":
            self._tokens(as_object(event.get("info")))
        elif kind == "user_message":
            self._told_again(as_text(event.get("message")) or "", t)
        elif kind == "turn_aborted":
            self._is_replying = False
            self._of_session().state("interrupted", as_text(event.get("reason")), t)
        elif kind in ("error", "stream_error"):
            message = as_text(event.get("message"))
            self._of_session().state("error", message, t, error=message or "error")
        elif kind not in _REPEATED:
            self._pass_over("the event type", event.get("type"))

    def _told_again(self, text: str, t: float | None) -> None:
        """A user's message as an event: mostly it stands in an item too, before this line or after it."""
        if self._in_items:
            # Pictures may make the two differ.
            self._in_items.remove(text if text in self._in_items else self._in_items[0])
        elif text.strip():
            self._in_events.append(text)
            self._user(text, t)

    def _tokens(self, info: dict[str, Any]) -> None:
        """What the last reply cost; the same figures may be told again."""
        total = _total(info.get("total_token_usage"))
        last = _total(info.get("last_token_usage"))
        if total is None and last is None:
            return
        is_told = total is not None and total == self._spent
        before, self._spent = self._spent or 0, total
        run = self._of_session()
        if not is_told:
            run.charge(last if last is not None else max(0, (total or 0) - before))
        self._is_replying = False


def _call(item: dict[str, Any]) -> tuple[str, Any]:
    if item.get("type") == "local_shell_call":
        return "local_shell", item.get("action")
    args = item.get("arguments") if item.get("arguments") is not None else item.get("input")
    name = as_text(item.get("name")) or str(item.get("type")).removesuffix("_call")
    space = as_text(item.get("namespace"))
    return (f"{space}{name}" if space else name), opened(args)


def _came_back(output: Any) -> tuple[Any, dict[str, Any]]:
    """The words of a result, and what the harness says about it: success, exit code."""
    value = opened(output)
    about: dict[str, Any] = {}
    if isinstance(value, dict):
        told = as_object(value.get("metadata"))
        if isinstance(code := told.get("exit_code"), int):
            about["exit_code"] = code
        if isinstance(value.get("success"), bool):
            about["success"] = value["success"]
        if about or "content" in value:
            return words_of(value.get("output", value.get("content"))), about
        return output, about
    words = words_of(value)
    if isinstance(words, str):
        header = words[:_HEADER].partition("\nOutput:")
        code_told = _EXIT.search(header[0]) if header[1] else None
        if code_told:
            about["exit_code"] = int(code_told[1])
    return words, about


def _total(usage: Any) -> int | None:
    told = as_object(usage)
    total = number(told.get("total_tokens"), "total_tokens", Notes())
    if total is None and told:
        counts = (number(told.get(key), key, Notes()) for key in ("input_tokens", "output_tokens"))
        total = sum(count or 0 for count in counts)
    return None if total is None else int(total)
