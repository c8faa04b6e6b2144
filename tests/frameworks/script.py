"""What an agent of any framework is made to do, and what came of it.

A script is the model's side of a conversation: one turn for each request it gets. A stage (one for each
framework, in `stages/`) plays it with that framework's own offline model and real tools, watched or not.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field
from spies import Spy, SpyError

from steadyhelm import Monitor

How = Literal["sync", "async", "stream", "async stream"]

GOAL = "Add up the numbers of the ledger"


class ToolBroke(Exception):  # noqa: N818 - what a user's own tool raises
    """A tool's own failure."""


class ModelBroke(Exception):  # noqa: N818 - what a user's own model raises
    """A model's own failure."""


def look_up(key: str) -> Any:
    """What the tool `lookup` returns; for "spy", an object that writes down what is asked of it."""
    return Spy() if key == "spy" else f"no entry for {key}"


def make_error(what: str) -> Exception:
    """What the tool `broken` raises; for "spy", an error that writes down what is asked of it."""
    return SpyError(what) if what == "spy" else ToolBroke(what)


class Ask(Struct, frozen=True):
    """The model asks for a call."""

    tool: str
    args: dict[str, Any]
    call_id: str


class Turn(Struct, frozen=True):
    """What the model answers to one request: words, calls, or a failure."""

    says: str = ""
    calls: tuple[Ask, ...] = ()
    breaks: bool = False


class Scene(Struct, frozen=True, kw_only=True):
    """One conversation: the goal, the model's turns, and those of the agent inside `delegate`.

    When the turns are used up the model says "done".
    """

    turns: Sequence[Turn] = ()
    inner: Sequence[Turn] = ()
    goal: str = GOAL
    answers: Sequence[str] = ()
    """What the user answers when asked, in order; empty when nobody can be asked."""


class Played(Struct, kw_only=True):
    """What came of a scene.

    `requests` is what the model was given, one text for each request, all its messages joined by newlines.
    `made` are the calls that really ran, as (tool, args).
    """

    result: str | None = None
    error: BaseException | None = None
    requests: list[str] = field(default_factory=list)
    made: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    streamed: list[str] = field(default_factory=list)


class Stage(Protocol):
    """Plays scenes with one framework."""

    name: str
    """The extra of this framework, such as `langchain`."""
    ways: tuple[How, ...]
    """The ways in which this framework can be called."""

    def play(self, scene: Scene, monitor: Monitor | None, how: How) -> Played:
        """Build the agent, watch it (with no monitor: leave it as it is) and let it work.

        Its tools, all real: `add(a: int, b: int)` gives `str(a + b)`; `lookup(key: str)` gives
        `f"no entry for {key}"`; `broken(what: str)` raises `ToolBroke(what)`; `delegate(task: str)` lets an
        inner agent of the same framework, named "inner", work on the task with `scene.inner` as its model's
        turns and `lookup` as its only tool, and gives what it says. A turn that `breaks` raises
        `ModelBroke("no model")` in the model.
        """
        ...
