"""Records that an agent's loop exchanges with its model and its observers."""

# ruff: noqa: INP001 - an example is a script, not a package
from collections.abc import Mapping
from textwrap import shorten
from typing import Any, Final, Literal, NamedTuple, Protocol

from msgspec import Struct, field

from steadyhelm import Decision

Message = dict[str, str]
"""A part of the conversation: `role`, `content`, and for some a `name`, as most model services take it."""

Ended = Literal["done", "asked", "landed", "stopped"]

MomentKind = Literal[
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

_MAX_ARGUMENT_CHARACTERS: Final = 40

NOT_RECORDED: Final = frozenset({"answered", "planned", "asked", "switched"})


class Call(Struct, frozen=True, kw_only=True):
    """A tool call of the model. `completes` names the step of its plan that the call finishes."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    says: str = ""
    completes: str = ""
    tokens: int = 0

    def __str__(self) -> str:
        shown = (shorten(str(value), _MAX_ARGUMENT_CHARACTERS) for value in self.arguments.values())
        return f"{self.tool}({', '.join(shown)})"


class Answer(Struct, frozen=True, kw_only=True):
    """A reply of the model without a tool call: it has finished, or was asked for text."""

    says: str
    tokens: int = 0


class Model(Protocol):
    """Anything that turns a conversation into the next move."""

    def think(self, messages: list[Message]) -> Call | Answer:
        """Return the next call, or a reply."""


class RunMoment(NamedTuple):
    """Something that happened in a run.

    All are events of the run as well, in the same order, except those in `NOT_RECORDED`.
    """

    what: MomentKind
    words: str = ""
    decision: Decision | None = None


class RunResult(NamedTuple):
    """How a run ended, and its last message: the result, a question, or a summary of what is left."""

    ended: Ended
    words: str
    run_id: str
    turns: int
