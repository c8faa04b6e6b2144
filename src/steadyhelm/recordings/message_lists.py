"""Read message lists as model APIs take them: a conversation as JSON, or several as JSON Lines."""

from typing import Any, ClassVar, Final

from steadyhelm.recordings.content import (
    add_assistant_message,
    add_results,
    add_tool_message,
    as_object,
    as_text,
    get_content,
    get_role,
    join_text,
)
from steadyhelm.recordings.run_builder import RunBuilder
from steadyhelm.recordings.run_entries import Notes, read_name, read_number
from steadyhelm.recordings.transcript_reader import TranscriptReader, parse_time

_UNKNOWN_AGENT: Final = "scan"
_ID_KEYS: Final = ("run_id", "id", "session_id", "conversation_id", "thread_id", "trace_id")
_TIME_KEYS: Final = ("timestamp", "created_at", "time", "t")
_USAGE_KEYS: Final = (
    *("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens"),
    *("cache_creation_input_tokens", "cache_read_input_tokens"),
)


class Messages(TranscriptReader):
    """A reader of conversations: a list of messages, an object with `messages`, or one message per line.

    >>> line = b'[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]'
    >>> [(event.action_type, event.text) for event in Messages().feed(line)]
    [('user_message', 'hi'), ('llm_request', 'hello')]
    """

    title: ClassVar[str] = "message list"

    def __init__(self, *, name: str = "") -> None:
        super().__init__(name=name)
        self._messages = 0

    @staticmethod
    def can_read(value: Any) -> bool:
        """Return whether this is a message, a list of them, or an object that contains one."""
        found = as_object(value).get("messages", value)
        for message in found[:3] if isinstance(found, list) else [found]:
            if get_role(message) is not None:
                return True
        return False

    def add_line(self, value: Any) -> None:
        """Add a message to the one conversation of the file, or a whole conversation as a run of its own."""
        held = as_object(value).get("messages")
        if isinstance(value, list):
            self._add_conversation({}, value)
        elif isinstance(held, list):
            self._add_conversation(value, held)
        elif isinstance(value, dict):
            self._add_message(self._get_run(None, agent_id=_UNKNOWN_AGENT), value)
        else:
            self._count_unknown("the line", value)

    def _add_conversation(self, about: dict[str, Any], messages: list[Any]) -> None:
        run_id = next((found for key in _ID_KEYS if (found := _read_id(about.get(key)))), None)
        if run_id is None and self._name:
            run_id = self._name if self.line == 1 else f"{self._name}:{self.line}"
        run = self._get_run(
            run_id or f"line-{self.line}", agent_id=_read_id(about.get("agent_id")) or _UNKNOWN_AGENT
        )
        for message in messages:
            self._add_message(run, as_object(message), model=as_text(about.get("model")))
        self._finish_run(run)

    def _add_message(self, run: RunBuilder, message: dict[str, Any], model: str | None = None) -> None:
        role = get_role(message)
        # Some libraries write the kind of a message outside and its content inside.
        message = as_object(message.get("data")) or message
        t = parse_time(next((message[key] for key in _TIME_KEYS if message.get(key) is not None), None))
        self._messages += 1
        if role == "assistant":
            run.begin_reply(
                as_text(message.get("id")) or f"message-{self._messages}",
                model=as_text(message.get("model")) or model,
                tokens=_sum_tokens(message.get("usage") or message.get("usage_metadata")),
            )
            add_assistant_message(run, message, t, self._count_unknown_block)
        elif role == "user":
            texts = add_results(run, get_content(message), t)
            if any(text.strip() for text in texts):
                run.add_user_message("\n".join(texts), t)
        elif role == "tool":
            add_tool_message(run, message, t)
        elif role == "system":
            run.add_state("system", join_text(get_content(message)), t)
        else:
            self._count_unknown("the role", message.get("role"))

    def _count_unknown_block(self, kind: str) -> None:
        self._count_unknown("the content block", kind)


def _sum_tokens(usage: Any) -> int:
    """Return input and output tokens together, under any of their usual names."""
    counted = as_object(usage)
    counts = [read_number(counted.get(key), key, Notes()) or 0 for key in _USAGE_KEYS]
    total = read_number(counted.get("total_tokens"), "total_tokens", Notes())
    return int(total if total is not None else sum(counts))


def _read_id(value: Any) -> str | None:
    return read_name(value, "name", Notes())
