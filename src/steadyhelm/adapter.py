"""Contract: what an adapter tells about an agent's steps, and what it is told to do.

An adapter only translates. It hands every model call, tool call, error and user turn of its framework to a
`steadyhelm.boundary.Boundary`, and carries out the `Steer` that comes back by its framework's own means.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from steadyhelm.checkpoint import Checkpoint
from steadyhelm.decisions import PROCEED, Decision, Verdict

HookPoint = Literal["before_model", "before_tool", "after_tool"]

Capabilities = Mapping[HookPoint, Collection[Verdict]]
"""What an adapter can carry out, by place; what it can do nowhere is never asked of it."""


class Instruction(Struct, frozen=True, kw_only=True):
    """What an adapter shall do at the place where it asked.

    `text` is for the model with `guide`, `deny` and `rollback`, for the user with `ask`; with `stop` they
    are the reason.
    `checkpoint` is what to return to with `rollback`: its `label` is what the adapter called that state.
    """

    verdict: Verdict = "proceed"
    text: str = ""
    decision: Decision = PROCEED
    checkpoint: Checkpoint | None = None


CONTINUE: Final = Instruction()


class ModelReply(Struct, frozen=True, kw_only=True):
    """What a model answered, as far as the framework tells."""

    text: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


class ToolResult(Struct, frozen=True, kw_only=True):
    """What came of a tool call."""

    value: Any = None
    error: object = None


class Adapter(Protocol):
    """An adapter class as `monitor.wrap` uses it: it recognises the objects of a framework and watches them.

    Further keywords of the constructor are the adapter's own options; all take `ask`.
    """

    def __init__(self, monitor: Any, agent: Any, **options: Any) -> None: ...

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether the object belongs to this adapter's framework. Must not raise for any object."""
        ...
