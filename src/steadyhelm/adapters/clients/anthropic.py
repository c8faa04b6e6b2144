"""Watch what goes through an Anthropic client: messages, plain, streamed, parsed and in tool runners."""

from typing import Any, Final

import msgspec

from steadyhelm.adapters.clients.dialect import Answer, Dialect, Held
from steadyhelm.adapters.clients.items import count, field, listed, plain, word
from steadyhelm.adapters.clients.wrapping import Surface, found, unwrap, wrap
from steadyhelm.boundary.driver import Ask
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import SettingsError
from steadyhelm.recordings.content import as_object, as_text, iter_parts

_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_GOES_ON: Final = "pause_turn"
_METHODS: Final = ("create", "stream", "count_tokens")


class AnthropicClientAdapter:
    """`monitor.wrap(anthropic.Anthropic())`: the client itself, watched in place; `unwrap` puts it back."""

    def __new__(cls, monitor: Monitor, client: Any, *, ask: Ask | None = None) -> Any:
        """The client, watched."""
        if not cls.can_wrap(client):
            raise SettingsError(
                f"wrap() got a {type(client).__name__}, which has no messages.create to watch."
            )
        return wrap(monitor, client, "anthropic_client", SURFACES, ask)

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Whether the object can be used like Anthropic's client; others have a `messages.create` too."""
        return all(callable(found(agent, f"messages.{method}")) for method in _METHODS)

    @staticmethod
    def unwrap(client: Any) -> Any:
        """The client as it was before; runs that went on in it end."""
        return unwrap(client)


class MessagesDialect:
    """Messages: two sides that take turns, each message a list of blocks."""

    field = "messages"
    can_hold = True

    def items(self, given: Any) -> list[Any]:
        """The messages of a request."""
        return listed(given)

    def held_by(self, arguments: dict[str, Any]) -> Held:
        """The message of a thread that it follows."""
        thread = as_object(arguments.get("thread"))
        if not thread:
            return Held()
        return Held(as_text(thread.get("previous_message_id")), arguments={"thread": thread})

    def read(self, result: Any) -> Answer | None:
        """A message."""
        content = field(result, "content")
        if field(result, "type") != "message" or not isinstance(content, list):
            return None
        return _message(result, [plain(block) for block in content])

    def gathering(self, arguments: dict[str, Any]) -> "_Events":  # noqa: ARG002
        """What takes in the events of a message."""
        return _Events()

    def place(self, items: list[Any], words: str) -> None:
        """Behind all that stands in the user's last message; what the model shall go on from stays last."""
        at = len(items) - 1
        while at >= 0 and field(items[at], "role") != "user":
            at -= 1
        said = {"type": "text", "text": words}
        if at < 0:
            items.append({"role": "user", "content": [said]})
            return
        last = plain(items[at])
        content = last.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
        items[at] = {**last, "content": [*blocks, said]}


MESSAGES: Final[Dialect] = MessagesDialect()
SURFACES: Final = (
    Surface("messages", MESSAGES, managers=("stream",)),
    Surface("beta.messages", MESSAGES, managers=("stream",)),
)


class _Events:
    """A message that comes as events."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._has_ended = False

    def take(self, event: Any) -> bool:
        kind = word(event, "type")
        place = field(event, "index")
        if kind == "message_start":
            self._message = as_object(plain(field(event, "message")))
            self._usage = dict(as_object(self._message.get("usage")))
        elif kind == "content_block_start" and isinstance(place, int):
            self._blocks[place] = as_object(plain(field(event, "content_block")))
        elif kind == "content_block_delta" and isinstance(place, int):
            delta = field(event, "delta")
            piece = word(delta, "text") or word(delta, "partial_json")
            self._pieces.setdefault(place, []).append(piece)
        elif kind == "message_delta":
            self._message = {**self._message, "stop_reason": field(field(event, "delta"), "stop_reason")}
            told = as_object(plain(field(event, "usage")))
            self._usage |= {name: count for name, count in told.items() if count is not None}
        self._has_ended = self._has_ended or kind == "message_stop"
        return self._has_ended

    def answer(self, *, is_over: bool) -> Answer:
        """The message as far as it has come."""
        blocks = [self._block(place) for place in sorted(self._blocks)]
        return _message({**self._message, "usage": self._usage}, blocks, is_whole=is_over or self._has_ended)

    def _block(self, place: int) -> dict[str, Any]:
        block, told = self._blocks[place], "".join(self._pieces.get(place, ()))
        if block.get("type") == "text":
            return {**block, "text": str(block.get("text") or "") + told}
        return {**block, "input": _opened(told)} if told and "input" in block else block


def _message(about: Any, blocks: list[Any], *, is_whole: bool = True) -> Answer:
    usage = field(about, "usage")
    found_parts = list(iter_parts(blocks))
    return Answer(
        text="\n".join(part.words for part in found_parts if part.kind == "text"),
        model=word(about, "model"),
        input_tokens=sum(count(usage, name) for name in _INPUT),
        output_tokens=count(usage, "output_tokens"),
        parts=[part for part in found_parts if is_whole and part.kind in {"call", "result"}],
        items=[{"role": "assistant", "content": blocks}],
        reply_id=word(about, "id"),
        is_final=is_whole and field(about, "stop_reason") != _GOES_ON,
    )


def _opened(told: str) -> Any:
    try:
        return msgspec.json.decode(told)
    except ValueError:
        return told
