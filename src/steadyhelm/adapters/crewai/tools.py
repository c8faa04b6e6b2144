"""The tool calls of one CrewAI run, as hooks and the event bus tell of them.

A hook can refuse a call, but sees neither what a tool raised nor the attempts that CrewAI makes by itself.
Of a model's native call the bus tells first, of one that CrewAI reads from a model's words the hook does.
"""

import itertools
import json
from contextvars import ContextVar
from typing import Any, Final

from steadyhelm.adapters.crewai.models import ModelCalls
from steadyhelm.forks import ForkSafeLock

_LOOKED_BACK: Final = 64
_ids: Final = itertools.count(1)


class _Call:
    """One call, until what came of it is told."""

    def __init__(self, of: "ToolCalls", call_id: str, name: str, args: Any, *, native: bool) -> None:
        self.of, self.call_id, self.name, self.args, self.native = of, call_id, name, args, native
        self.outer = _calling.get()
        self.attempts = 0
        self.is_asked = False
        self.is_over = False
        self.is_reported = False
        self.refusal: str | None = None
        self.result: Any = None
        self.error: object = None


# The call that the code now running makes, and the last one it made. Calls at the same time do not share it.
_calling: Final[ContextVar[_Call | None]] = ContextVar("steadyhelm_crewai_call", default=None)
_made: Final[ContextVar[_Call | None]] = ContextVar("steadyhelm_crewai_made", default=None)


class ToolCalls:
    """Tells a run of its tool calls, and carries out what it answers.

    Args:
        models: The model calls of the same run: a call means that the model has answered.
    """

    def __init__(self, models: ModelCalls) -> None:
        self._run = models.run
        self._models = models
        self._turn: dict[str, Any] | None = None
        self._taken: set[str] = set()
        self._lock = ForkSafeLock()

    # --- what hooks tell -------------------------------------------------------------------------

    def before(self, context: Any) -> bool | None:
        """A tool is about to be called; False refuses it."""
        self._models.settle()
        call = self._current()
        if call is None or call.is_asked or not call.native:
            call = self._opened(context.tool_name, context.tool_input, native=False)
        call.is_asked = True
        instruction = self._run.before_tool(call.call_id, call.name, call.args)
        if instruction.verdict == "proceed":
            return None
        call.refusal = instruction.text or "Not called."
        return False

    def after(self, context: Any) -> str | None:
        """A call is over, or was refused; words that this gives stand for its result."""
        call = self._current() or self._opened(context.tool_name, context.tool_input, native=False)
        if not call.is_asked:
            # Another hook has refused it before we were asked.
            self._run.record_failed_call(call.call_id, call.name, call.args, error=context.tool_result)
            self._over(call)
            return None
        call.result = context.tool_result if context.raw_tool_result is None else context.raw_tool_result
        if call.refusal is not None:
            self._over(call)
        elif not call.native or call.error is not None:
            self._tell(call)
        return call.refusal

    # --- what the bus tells ----------------------------------------------------------------------

    def started(self, event: Any) -> None:
        """A native call begins, or another attempt at one that was read from words."""
        call = self._current()
        if call is None or call.native:
            self._models.settle()
            self._opened(event.tool_name, event.tool_args, native=True)
            return
        if call.error is not None:
            attempt_id = f"{call.call_id}.{call.attempts}"
            self._run.record_call(attempt_id, call.name, call.args, error=call.error)
            call.error = None
        call.attempts += 1

    def raised(self, event: Any) -> None:
        """A tool has raised."""
        call = self._current()
        if call is not None:
            call.error = event.error
            self._tell_if_unasked(call)

    def finish(self, event: Any) -> None:
        """A tool has answered, if only that it could not do it; of a native call the hook knows by now."""
        call = self._current()
        if call is None:
            return
        if event.failure is not None:
            call.error = event.failure.message
        if call.native and call.is_asked:
            self._tell(call)
            return
        call.result = event.output
        self._tell_if_unasked(call)

    def failed(self, event: Any) -> None:
        """A call has failed: known already, unless it was never made, which is told nowhere else."""
        made = _made.get()
        if made is not None and made.of is self and made.name == event.tool_name and not made.is_reported:
            made.is_reported = True
            return
        self._models.settle()
        args = _parsed(event.tool_args)
        call_id = self._call_id(event.tool_name, args)
        self._run.record_failed_call(call_id, event.tool_name, args, error=event.failure.message)

    # --- inside ----------------------------------------------------------------------------------

    def _current(self) -> _Call | None:
        call = _calling.get()
        return call if call is not None and call.of is self and not call.is_over else None

    def _opened(self, name: str, args: Any, *, native: bool) -> _Call:
        args = dict(args) if isinstance(args, dict) else _parsed(args)
        call = _Call(self, self._call_id(name, args), name, args, native=native)
        _calling.set(call)
        return call

    def _tell(self, call: _Call) -> None:
        self._run.after_tool(call.call_id, call.result, error=call.error)
        self._over(call)

    def _tell_if_unasked(self, call: _Call) -> None:
        """A model that was handed the functions themselves calls them, and asks no hook."""
        if call.native and not call.is_asked:
            self._run.record_call(call.call_id, call.name, call.args, call.result, error=call.error)
            self._over(call)

    def _over(self, call: _Call) -> None:
        call.is_over = True
        _calling.set(call.outer)
        _made.set(call)

    def _call_id(self, name: str, args: Any) -> str:
        """The id under which the model asked for the call, if it did; it may ask for the same one twice."""
        turn = _last_turn(self._models.executor)
        with self._lock:
            if turn is not self._turn:
                self._turn, self._taken = turn, set()
            for asked in (turn or {}).get("tool_calls", ()):
                call_id, function = str(asked["id"]), asked["function"]
                is_it = function["name"] == name and _parsed(function["arguments"]) == args
                if is_it and call_id not in self._taken:
                    self._taken.add(call_id)
                    return call_id
        return f"call-{next(_ids)}"


def _last_turn(executor: Any) -> dict[str, Any] | None:
    """The model's last turn, if it asked for calls."""
    messages = getattr(executor, "messages", None) or []
    for message in itertools.islice(reversed(messages), _LOOKED_BACK):
        if message.get("role") == "assistant":
            return message if message.get("tool_calls") else None
    return None


def _parsed(args: Any) -> Any:
    """Arguments as they are meant; a text that is none of them stands for itself."""
    if not isinstance(args, str):
        return args
    try:
        return json.loads(args)
    except ValueError:
        return {"input": args}
