"""Learn which arguments of a tool only vary: with all others equal, they never changed its result."""

from typing import Any, Final

import msgspec
from msgspec import Struct, field

from steadyhelm.loops.near_repeats import PreviousCall
from steadyhelm.loops.steps import ToolStep

_MAX_TOOLS: Final = 16
_MAX_ARGUMENTS: Final = 4
_MIN_VARIATIONS: Final = 2


class VariedArgument(Struct):
    """How often an argument alone differed from the call before, with the same result and with another."""

    same: int = 0
    changed: int = 0


class VariedArguments(Struct):
    """The arguments that varied alone in a run, by tool, as long as one of them left the result the same."""

    tools: dict[str, dict[str, VariedArgument]] = field(default_factory=dict)

    def record(self, before: PreviousCall, step: ToolStep) -> None:
        """Compare a call with the one just before it, of the same tool."""
        outcome, known = step.outcome, self.tools.get(before.name)
        if step.call_key == before.call_key or step.kind != "look":
            return
        # A failure or a short answer is the same for whatever was asked: it says nothing about the argument.
        if (
            not before.outcome.known
            or not outcome.known
            or outcome.failed
            or before.outcome.failed
            or outcome.is_short
        ):
            return
        is_same = before.outcome.equals(outcome)
        if not is_same and known is None:
            return
        name = find_varied_argument(before.arguments, step.arguments)
        if name is None or (not is_same and (known is None or name not in known)):
            return
        counts = self._count(before.name, name)
        if counts is not None:
            counts.same += is_same
            counts.changed += not is_same

    def list_asides(self) -> dict[str, list[str]]:
        """Return the arguments that varied in this run and never changed a result, by tool."""
        found = {
            tool: [name for name, it in arguments.items() if it.same >= _MIN_VARIATIONS and not it.changed]
            for tool, arguments in self.tools.items()
        }
        return {tool: names for tool, names in found.items() if names}

    def _count(self, tool: str, name: str) -> VariedArgument | None:
        arguments = self.tools.get(tool)
        if arguments is None:
            if len(self.tools) >= _MAX_TOOLS:
                return None
            arguments = self.tools[tool] = {}
        if name not in arguments and len(arguments) >= _MAX_ARGUMENTS:
            return None
        return arguments.setdefault(name, VariedArgument())


def find_varied_argument(one: bytes, other: bytes) -> str | None:
    """Return the one argument in which two calls differ; None when they differ in more, or have no other.

    >>> find_varied_argument(b'{"city":"Oslo","hint":"a"}', b'{"city":"Oslo","hint":"b"}')
    'hint'
    >>> find_varied_argument(b'{"city":"Oslo"}', b'{"city":"Rome"}') is None
    True
    """
    before, now = _read_arguments(one), _read_arguments(other)
    if before is None or now is None or len(now) < 2 or before.keys() != now.keys():  # noqa: PLR2004 - see above
        return None
    varied = [name for name in now if before[name] != now[name]]
    return varied[0] if len(varied) == 1 else None


def _read_arguments(arguments: bytes) -> dict[str, Any] | None:
    try:
        read = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # none, or cut off, or nested too deeply
    return read if isinstance(read, dict) else None
