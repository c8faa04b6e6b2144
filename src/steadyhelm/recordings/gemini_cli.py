"""Read the chats of Gemini CLI: one session per file, as JSON Lines.

A reply is written when it begins and once more, under the same id, with the results of its calls.
"""

from typing import Any, ClassVar, Final

from steadyhelm.recordings.content import as_object, as_text
from steadyhelm.recordings.hook_events.gemini_cli import AGENT, SHELL, read_shell_result
from steadyhelm.recordings.run_builder import RunBuilder
from steadyhelm.recordings.run_entries import Notes, read_number
from steadyhelm.recordings.transcript_reader import TranscriptReader, parse_time

_HARNESS_PREFIX: Final = "<session_context>"
_NOTICES: Final = frozenset({"info", "warning", "error"})


class GeminiCLI(TranscriptReader):
    """A reader of chats, also of one that is still being written.

    >>> reader = GeminiCLI()
    >>> [event] = reader.feed(b'{"id": "1", "timestamp": "", "type": "user", "content": [{"text": "hi"}]}')
    >>> event.action_type, event.text
    ('user_message', 'hi')
    """

    title: ClassVar[str] = "Gemini CLI chat"

    def __init__(self, *, name: str = "") -> None:
        super().__init__(name=name)
        self._session: str | None = None
        self._read: dict[str, int] = {}
        """How many calls of each reply were read."""
        self._texts: set[str] = set()

    @staticmethod
    def can_read(value: Any) -> bool:
        """Return whether this is a line of a chat."""
        line = as_object(value)
        is_header = "sessionId" in line and "projectHash" in line
        is_message = line.get("type") in ("user", "gemini") and "content" in line and "message" not in line
        return is_header or "$set" in line or (is_message and "id" in line and "timestamp" in line)

    def add_line(self, value: Any) -> None:
        """Add a line to the session."""
        line = as_object(value)
        if "$set" in line:
            messages = as_object(line["$set"]).get("messages")
            for message in messages if isinstance(messages, list) else ():
                self._add_message(as_object(message))
        elif "sessionId" in line and "type" not in line:
            self._session = self._session or as_text(line.get("sessionId"))
        else:
            self._add_message(line)

    def _add_message(self, message: dict[str, Any]) -> None:
        kind, t = as_text(message.get("type")), parse_time(message.get("timestamp"))
        text = _join_parts(message.get("content"))
        run = self._get_run(self._session, agent_id=AGENT)
        if kind == "gemini":
            self._add_reply(run, message, text, t)
        elif kind in _NOTICES:
            run.add_state(str(kind), text, t, error=text if kind == "error" else None)
        elif kind != "user":
            self._count_unknown("the message type", message.get("type"))
        elif text.lstrip().startswith(_HARNESS_PREFIX):
            run.add_state("harness", text, t)
        elif text.strip():
            run.add_user_message(text, t)

    def _add_reply(self, run: RunBuilder, message: dict[str, Any], text: str, t: float | None) -> None:
        reply = as_text(message.get("id")) or f"line-{self.line}"
        tokens = read_number(as_object(message.get("tokens")).get("total"), "tokens", Notes())
        run.begin_reply(reply, model=as_text(message.get("model")), tokens=int(tokens or 0))
        if message.get("thoughts") and reply not in self._read:
            run.add_flags(thinking=True)
        if text.strip() and reply not in self._texts:
            self._texts.add(reply)
            run.add_text(text, t)
        calls = message.get("toolCalls")
        calls = [as_object(call) for call in calls] if isinstance(calls, list) else []
        new = calls[self._read.get(reply, 0) :]
        self._read[reply] = len(calls)
        for call in new:
            run.add_call(call.get("name"), call.get("args"), call_id=as_text(call.get("id")), t=t)
        for call in new:
            _add_result(run, call)


def _add_result(run: RunBuilder, call: dict[str, Any]) -> None:
    """Add the result of a call; one that was cancelled has failed."""
    parts = call.get("result")
    first = as_object(parts[0]) if isinstance(parts, list) and parts else {}
    response = as_object(as_object(first.get("functionResponse")).get("response"))
    error = as_text(response.get("error"))
    words: Any = error if error is not None else response.get("output", response or None)
    about: dict[str, Any] = {}
    if call.get("name") == SHELL and isinstance(words, str):
        words, code = read_shell_result(words)
        about = {"exit_code": code} if code else {}
    is_failed = call.get("status") in ("error", "cancelled") or bool(about)
    run.add_result(
        as_text(call.get("id")), words, t=parse_time(call.get("timestamp")), error=error or is_failed, **about
    )


def _join_parts(content: Any) -> str:
    """Return the text of a message; its other parts repeat results."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (as_text(as_object(part).get("text")) for part in parts)
    return "\n".join(text for text in texts if text)
