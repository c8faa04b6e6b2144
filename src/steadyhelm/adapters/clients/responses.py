"""Responses, OpenAI's newer way to ask a model."""

from collections.abc import Sequence
from typing import Any, Final

from steadyhelm.adapters.clients.dialect import Answer, Held
from steadyhelm.adapters.clients.items import count, field, item_call, listed, plain, word
from steadyhelm.recordings.content import ContentPart, as_object, as_text, join_text

_DONE: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_WAITING: Final = frozenset({"queued", "in_progress"})


class ResponsesDialect:
    """Responses: items of many kinds, and a conversation that the model's side may hold."""

    field = "input"
    can_hold = True

    def items(self, given: Any) -> list[Any]:
        """The items of a request."""
        return [{"role": "user", "content": given}] if isinstance(given, str) else listed(given)

    def held_by(self, arguments: dict[str, Any]) -> Held:
        """The response it follows, or the conversation it is part of."""
        lasting = arguments.get("conversation")
        known = as_text(lasting) or as_text(as_object(lasting).get("id"))
        if known is not None:
            return Held(known, lasts=True)
        before = as_text(arguments.get("previous_response_id"))
        return Held(before, arguments={"previous_response_id": before}) if before is not None else Held()

    def read(self, result: Any) -> Answer | None:
        """A response."""
        output = field(result, "output")
        if not isinstance(output, list):
            return None
        usage = field(result, "usage")
        text = "\n".join(_said(item) for item in output if field(item, "type") == "message")
        failure = as_text(field(field(result, "error"), "message"))
        return Answer(
            text=text,
            model=word(result, "model"),
            input_tokens=count(usage, "input_tokens"),
            output_tokens=count(usage, "output_tokens"),
            parts=[part for item in output for part in _calls(item)],
            items=output,
            reply_id=word(result, "id"),
            is_waiting=word(result, "status") in _WAITING,
            error=failure if field(result, "status") == "failed" else None,
        )

    def gathering(self, arguments: dict[str, Any]) -> "_Events":  # noqa: ARG002
        """What takes in the events of a response."""
        return _Events(self)

    def place(self, items: list[Any], words: str) -> None:
        """As a message of its own."""
        items.append({"role": "user", "content": words})


class _Events:
    """A response that comes as events: the last has all of it."""

    def __init__(self, dialect: ResponsesDialect) -> None:
        self._dialect = dialect
        self._response: Any = None
        self._said: list[str] = []
        self._items: list[Any] = []
        self._has_ended = False

    def take(self, event: Any) -> bool:
        kind = word(event, "type")
        if kind in _DONE or kind == "response.created":
            self._response = field(event, "response")
            self._has_ended = kind in _DONE
        elif kind == "response.output_text.delta":
            self._said.append(word(event, "delta"))
        elif kind == "response.output_item.done":
            self._items.append(field(event, "item"))
        return self._has_ended

    def answer(self, *, is_over: bool) -> Answer:  # noqa: ARG002 - its last event says so itself
        """The response as far as it has come."""
        answer = self._dialect.read(self._response)
        if answer is not None and self._has_ended:
            return answer
        return Answer(
            text="".join(self._said),
            model=answer.model if answer is not None else "",
            items=self._items,
            reply_id=answer.reply_id if answer is not None else "",
            is_final=False,
        )


def _calls(item: Any) -> Sequence[ContentPart]:
    """A call that the host shall make; one that was made at the model's side, with what came of it."""
    told = as_object(plain(item))
    if not str(told.get("type")).endswith("_call"):
        return ()
    call = item_call(told)
    if as_text(told.get("call_id")) is not None:
        return (call,)
    failure = told.get("error")
    came = next((told[key] for key in ("output", "results", "outputs") if told.get(key)), None)
    words = failure or came
    return (call, ContentPart(kind="result", words=words, call_id=call.call_id, is_error=bool(failure)))


def _said(item: Any) -> str:
    words = join_text(field(plain(item), "content"))
    return words if isinstance(words, str) else ""
