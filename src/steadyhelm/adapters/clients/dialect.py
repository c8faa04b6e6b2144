"""Contract: how one kind of request to a model is read, and how words are put into it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from steadyhelm.recordings.content import ContentPart


class Answer(Struct, frozen=True, kw_only=True):
    """What a model replied.

    `parts` are the calls it asks for, and those that were made at its side with what came of them; a reply
    that was cut short has none, since nobody can make half a call.
    `items` are the reply as the host will send it back, `reply_id` is what it may name it by instead.
    `is_final` says that the model waits for nothing; `is_waiting` that the reply is still to come.
    """

    text: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    parts: Sequence[ContentPart] = ()
    items: Sequence[Any] = ()
    reply_id: str = ""
    is_final: bool = True
    is_waiting: bool = False
    error: str | None = None


class Gathering(Protocol):
    """A reply that comes in pieces."""

    def take(self, piece: Any) -> bool:
        """Take one piece in; gives whether it was the last that matters."""
        ...

    def answer(self, *, is_over: bool) -> Answer:
        """The reply as far as it has come; `is_over` says that there is no more of it."""
        ...


class Held(NamedTuple):
    """What the model's side holds of a conversation: what it is known by, and whether that stays the same.

    `arguments` are those that say so.
    """

    at: str | None = None
    lasts: bool = False
    arguments: Mapping[str, Any] = MappingProxyType({})


class Dialect(Protocol):
    """How one kind of request is read and edited.

    `field` is the argument that has the messages; `can_hold` says that the model's side may hold the rest.
    """

    field: str
    can_hold: bool

    def items(self, given: Any) -> list[Any]:
        """The messages of a request."""
        ...

    def held_by(self, arguments: dict[str, Any]) -> Held:
        """What the model's side holds of this request's conversation."""
        ...

    def read(self, result: Any) -> Answer | None:
        """A reply that came as a whole; None for anything else."""
        ...

    def gathering(self, arguments: dict[str, Any]) -> Gathering:
        """What takes in the pieces of a reply to this request."""
        ...

    def place(self, items: list[Any], words: str) -> None:
        """Put words for the model at the end of these messages; those that are there stay as they are."""
        ...
