"""What passes between an agent's loop, its model, and whoever watches it."""

# ruff: noqa: INP001 - an example is a script, not a package
from collections.abc import Mapping
from textwrap import shorten
from typing import Any, Final, Literal, NamedTuple, Protocol

from msgspec import Struct, field

from steadyhelm import Decision

Message = dict[str, str]
"""A part of the conversation: `role`, `content`, and for some a `name`, as most model services take it."""

Ended = Literal["done", "asked", "landed", "stopped"]

What = Literal[
    "user",
    "said",
    "called",
    "failed",
    "refused",
    "checkpoint",
    "progress",
    "went back",
    "not carried out",
    "asked for more",
    "answered",
    "planned",
    "asked",
    "switched",
]

_ARGUMENT_SHOWN: Final = 40

ASIDE: Final = frozenset({"answered", "planned", "asked", "switched"})


class Call(Struct, frozen=True, kw_only=True):
    """The model wants a tool. `completes` names the step of its plan that is done when the call succeeds."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    says: str = ""
    completes: str = ""
    tokens: int = 0

    def __str__(self) -> str:
        shown = (shorten(str(value), _ARGUMENT_SHOWN) for value in self.arguments.values())
        return f"{self.tool}({', '.join(shown)})"


class Answer(Struct, frozen=True, kw_only=True):
    """The model wants no tool: it has finished, or it was asked for words."""

    says: str
    tokens: int = 0


class Model(Protocol):
    """Whatever turns a conversation into the next move."""

    def think(self, messages: list[Message]) -> Call | Answer:
        """The next call, or words."""


class Moment(NamedTuple):
    """Something that happened in a run, for whoever tells its story.

    All are events of the run as well, in the same order, except those in `ASIDE`.
    """

    what: What
    words: str = ""
    decision: Decision | None = None


class Landing(NamedTuple):
    """How a run ended, and its last words: the result, a question, a hand-over."""

    ended: Ended
    words: str
    run_id: str
    turns: int
