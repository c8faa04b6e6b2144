"""Contract: what an adapter reports about an agent's steps, and the instructions it carries out.

An adapter only translates. It reports every model call, tool call, error and user turn of its framework to
the `AgentRun` that a `Boundary` starts, and carries out its `Instruction` by the framework's own means.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from steadyhelm.checkpoint import Checkpoint
from steadyhelm.decisions import PROCEED, Decision, Verdict

HookPoint = Literal["before_model", "before_tool", "after_tool"]

Capabilities = Mapping[HookPoint, Collection[Verdict]]
"""The verdicts an adapter can carry out, by hook point; what it can do nowhere is never asked of it."""


class Instruction(Struct, frozen=True, kw_only=True):
    """What an adapter must do at the hook point where it asked.

    `text` is for the model with `guide`, `deny` and `rollback`, for the user with `ask`; with `stop` it is
    the reason.
    `checkpoint` is what to return to with `rollback`: its `label` is the adapter's name for that state.
    """

    verdict: Verdict = "proceed"
    text: str = ""
    decision: Decision = PROCEED
    checkpoint: Checkpoint | None = None


CONTINUE: Final = Instruction()


class ModelReply(Struct, frozen=True, kw_only=True):
    """The reply of a model, as far as the framework reports it."""

    text: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


class ToolResult(Struct, frozen=True, kw_only=True):
    """The result or the error of a tool call."""

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
