"""Read message lists as model APIs take them: a conversation as JSON, or several as JSON Lines."""

from typing import Any, ClassVar, Final

from steadyhelm.recordings.content import (
    as_object,
    as_text,
    content_of,
    role_of,
    take_answer,
    take_results,
    take_tool_message,
    words_of,
)
from steadyhelm.recordings.run_entries import Notes, name_of, number
from steadyhelm.recordings.transcript import Transcript
from steadyhelm.recordings.transcript_reader import TranscriptReader, moment

_NOBODY: Final = "scan"
_IDS: Final = ("run_id", "id", "session_id", "conversation_id", "thread_id", "trace_id")
_TIMES: Final = ("timestamp", "created_at", "time", "t")
_USAGE: Final = (
    *("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens"),
    *("cache_creation_input_tokens", "cache_read_input_tokens"),
)


class Messages(TranscriptReader):
    """Reads conversations: a list of messages, an object with one under `messages`, or one message a line.

    >>> line = b'[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]'
    >>> [(event.action_type, event.text) for event in Messages().feed(line)]
    [('user_message', 'hi'), ('llm_request', 'hello')]
    """

    title: ClassVar[str] = "message list"

    def __init__(self, *, name: str = "") -> None:
        super().__init__(name=name)
        self._messages = 0

    @staticmethod
    def recognises(value: Any) -> bool:
        """Whether this is a message, a list of them, or an object that holds one."""
        found = as_object(value).get("messages", value)
        for message in found[:3] if isinstance(found, list) else [found]:
            if role_of(message) is not None:
                return True
        return False

    def take(self, value: Any) -> None:
        """A message goes to the one conversation of the file; a whole conversation is a run of its own."""
        held = as_object(value).get("messages")
        if isinstance(value, list):
            self._conversation({}, value)
        elif isinstance(held, list):
            self._conversation(value, held)
        elif isinstance(value, dict):
            self._message(self._run(None, agent_id=_NOBODY), value)
        else:
            self._pass_over("the line", value)

    def _conversation(self, about: dict[str, Any], messages: list[Any]) -> None:
        run_id = next((found for key in _IDS if (found := _name(about.get(key)))), None)
        if run_id is None and self._name:
            run_id = self._name if self.line == 1 else f"{self._name}:{self.line}"
        run = self._run(run_id or f"line-{self.line}", agent_id=_name(about.get("agent_id")) or _NOBODY)
        for message in messages:
            self._message(run, as_object(message), model=as_text(about.get("model")))
        self._finish(run)

    def _message(self, run: Transcript, message: dict[str, Any], model: str | None = None) -> None:
        role = role_of(message)
        # Some libraries write the kind of a message outside and its content inside.
        message = as_object(message.get("data")) or message
        t = moment(next((message[key] for key in _TIMES if message.get(key) is not None), None))
        self._messages += 1
        if role == "assistant":
            run.reply(
                as_text(message.get("id")) or f"message-{self._messages}",
                model=as_text(message.get("model")) or model,
                tokens=_tokens(message.get("usage") or message.get("usage_metadata")),
            )
            take_answer(run, message, t, self._pass_block)
        elif role == "user":
            texts = take_results(run, content_of(message), t)
            if any(text.strip() for text in texts):
                run.user("\n".join(texts), t)
        elif role == "tool":
            take_tool_message(run, message, t)
        elif role == "system":
            run.state("system", words_of(content_of(message)), t)
        else:
            self._pass_over("the role", message.get("role"))

    def _pass_block(self, kind: str) -> None:
        self._pass_over("the content block", kind)


def _tokens(usage: Any) -> int:
    """Input and output together, by whichever names they go."""
    told = as_object(usage)
    counts = [number(told.get(key), key, Notes()) or 0 for key in _USAGE]
    total = number(told.get("total_tokens"), "total_tokens", Notes())
    return int(total if total is not None else sum(counts))


def _name(value: Any) -> str | None:
    return name_of(value, "name", Notes())
