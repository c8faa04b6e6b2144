"""The model calls and tool calls of one CrewAI run, joined from what hooks and the event bus report.

Neither reports all of a call. A hook can act, but sees no error, no reply that requests tools, and no attempt
that CrewAI makes by itself. The bus sees these, and what a call used, but nothing of a model that the host
wrote itself. The bus reports a model's native call first; the hook is first for a call that CrewAI reads from
a model's text.
"""

import itertools
import sys
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.crewai.translate import (
    describe_state,
    find_length,
    find_requesting_message,
    make_reply,
    parse_args,
    read_reply_text,
    read_usage,
)
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.errors import MissingExtraError
from steadyhelm.forks import ForkSafeLock
from steadyhelm.host_objects import is_a

try:
    from crewai.hooks import HookAborted
    from crewai.types.usage_metrics import UsageMetrics
    from crewai.utilities.i18n import I18N_DEFAULT
except ImportError as exc:
    raise MissingExtraError("CrewAI adapter", extra="crewai") from exc

_MAX_REPORTED_CALLS: Final = 64


class _PendingModelCall(NamedTuple):
    """A model that was called, and what it had used until then."""

    llm: Any
    usage_before: Any

    def measure_usage(self) -> Any:
        usage = read_usage(self.llm)
        known = usage is not None and self.usage_before is not None
        return usage.delta_since(self.usage_before) if known else None


class ModelCalls:
    """Records the model calls of a run, and carries out its instructions.

    Args:
        run: The run.
        parent: The model calls of the run around this one.
    """

    def __init__(self, run: AgentRun, parent: "ModelCalls | None") -> None:
        self.run = run
        self.executor: Any = None
        self._parent = parent
        self._pending: _PendingModelCall | None = None
        self._reported: deque[str] = deque(maxlen=_MAX_REPORTED_CALLS)
        self._lock = ForkSafeLock()

    # --- hooks -----------------------------------------------------------------------------------

    def before(self, context: Any) -> None:
        """Begin a model call, with our guidance in its messages; raises to stop."""
        self.settle()
        self._raise_if_stopped()
        is_own = self._is_own_call(context)
        if context.executor is not None:
            self.executor = context.executor
            self._record_feedback(context)
        self._pending = _PendingModelCall(context.llm, read_usage(context.llm))
        if not is_own:
            self.run.begin_model_call()
            return
        instruction = self.run.before_model(state=describe_state(context.messages))
        self._raise_if_stopped()
        self._carry_out(instruction, context.messages)

    def after(self, context: Any) -> None:
        """Record a reply, unless the bus has reported it."""
        pending = self._take_pending()
        if pending is not None:
            self._record(pending, text=context.response or "")

    # --- the event bus ---------------------------------------------------------------------------

    def record_completed(self, event: Any) -> None:
        """Record a reply that the bus reports."""
        pending = self._take_pending()
        if event.call_id in self._reported:
            return
        self._reported.append(event.call_id)
        usage = UsageMetrics.from_provider_dict(event.usage) or (pending.measure_usage() if pending else None)
        self.run.after_model(make_reply(read_reply_text(event), event.model, usage))

    def record_failed(self, event: Any) -> None:
        """Record a failure, with the exception that is being handled now; a provider may report it twice."""
        self._take_pending()
        if event.call_id in self._reported or self.run.stopped is not None:
            return
        self._reported.append(event.call_id)
        self.run.after_model(make_reply("", event.model, None), error=sys.exception() or event.error)

    def settle(self, error: object = None) -> None:
        """Record a call whose end was not reported: the model has requested tools, or failed with this."""
        pending = self._take_pending() if self._pending is not None else None
        if pending is not None and self.run.stopped is None:
            self._record(pending, error=error)

    # --- inside ----------------------------------------------------------------------------------

    def _is_own_call(self, context: Any) -> bool:
        """Return whether an agent calls the model for itself: guidance to a helper, like memory, is lost."""
        is_planned = getattr(context.agent, "planning_enabled", False)
        return context.executor is not None or self.executor is None or bool(is_planned)

    def _record_feedback(self, context: Any) -> None:
        """Record what a user said who was shown the result: the agent begins anew with that."""
        if not getattr(context.executor, "_is_feedback_iteration", False) or context.iterations:
            return
        before, _, after = I18N_DEFAULT.slice("feedback_instructions").partition("{feedback}")
        text = str(context.messages[-1].get("content") or "")
        self.run.record_user_message(text.removeprefix(before).removesuffix(after))

    def _take_pending(self) -> _PendingModelCall | None:
        with self._lock:
            pending, self._pending = self._pending, None
        return pending

    def _record(self, pending: _PendingModelCall, *, text: str = "", error: object = None) -> None:
        reply = make_reply(text, getattr(pending.llm, "model", None), pending.measure_usage())
        self.run.after_model(reply, error=error)

    def _raise_if_stopped(self) -> None:
        """Stop all of CrewAI's work where a part of it was stopped: an aborted model call ends the whole."""
        stopped = next((it.run.stopped for it in self._iter_outwards() if it.run.stopped is not None), None)
        if stopped is None:
            return
        for calls in self._iter_outwards():
            calls.run.stopped = calls.run.stopped or stopped
        raise HookAborted(str(stopped), source="steadyhelm")

    def _iter_outwards(self) -> Iterator["ModelCalls"]:
        calls: ModelCalls | None = self
        while calls is not None:
            yield calls
            calls = calls._parent  # noqa: SLF001 - one of its own

    def _carry_out(self, instruction: Instruction, messages: list[Any]) -> None:
        """Edit the messages, which are the executor's own: added text stays, and what is cut stays away."""
        if instruction.verdict == "rollback" and instruction.checkpoint is not None:
            length = find_length(instruction.checkpoint.label, messages)
            if length is None:
                self.run.report_failed_rollback("the conversation was rewritten since")
            else:
                del messages[length:]
                self._forget_repeated_calls()
        if instruction.verdict in {"guide", "rollback"} and instruction.text:
            messages.append({"role": "user", "content": instruction.text})

    def _forget_repeated_calls(self) -> None:
        """Clear CrewAI's own count of equal calls, which ends a run at the fifth: they are taken back."""
        counts = getattr(self.executor, "_tool_call_counts", None)
        if is_a(counts, dict):
            counts.clear()


class _CrewToolCall:
    """One tool call, until its result is recorded."""

    def __init__(self, owner: "ToolCalls", call_id: str, name: str, args: Any, *, is_native: bool) -> None:
        self.owner, self.call_id, self.name, self.args, self.is_native = owner, call_id, name, args, is_native
        self.outer = _current_call.get()
        self.attempts = 0
        self.is_checked = False
        self.is_over = False
        self.is_failure_reported = False
        self.refusal: str | None = None
        self.result: Any = None
        self.error: object = None


_call_ids: Final = itertools.count(1)

# The call that the code now running makes, and the last one it made. Calls at the same time do not share it.
_current_call: Final[ContextVar[_CrewToolCall | None]] = ContextVar("steadyhelm_crewai_call", default=None)
_last_call: Final[ContextVar[_CrewToolCall | None]] = ContextVar("steadyhelm_crewai_made", default=None)


class ToolCalls:
    """Records the tool calls of a run, and carries out its instructions.

    Args:
        models: The model calls of the same run: a tool call means that the model has replied.
    """

    def __init__(self, models: ModelCalls) -> None:
        self._run = models.run
        self._models = models
        self._requesting_message: dict[str, Any] | None = None
        self._requested: list[_Request] = []
        self._lock = ForkSafeLock()

    # --- hooks -----------------------------------------------------------------------------------

    def before(self, context: Any) -> bool | None:
        """Begin a tool call; return False to refuse it."""
        self._models.settle()
        call = self._find_current()
        if call is None or call.is_checked or not call.is_native:
            call = self._open(context.tool_name, context.tool_input, is_native=False)
        call.is_checked = True
        instruction = self._run.before_tool(call.call_id, call.name, call.args)
        if instruction.verdict == "proceed":
            return None
        call.refusal = instruction.text or "Not called."
        return False

    def after(self, context: Any) -> str | None:
        """Record a result; return the text that replaces it where the call was refused."""
        call = self._find_current() or self._open(context.tool_name, context.tool_input, is_native=False)
        if not call.is_checked:
            # Another hook has refused it before ours was called.
            self._run.record_call(call.call_id, call.name, call.args, error=context.tool_result)
            self._close(call)
            return None
        call.result = context.tool_result if context.raw_tool_result is None else context.raw_tool_result
        if call.refusal is not None:
            self._close(call)
        elif not call.is_native or call.error is not None:
            self._record(call)
        return call.refusal

    # --- the event bus ---------------------------------------------------------------------------

    def record_started(self, event: Any) -> None:
        """Open a native call, or count another attempt at one that was read from a model's text."""
        call = self._find_current()
        if call is None or call.is_native:
            self._models.settle()
            self._open(event.tool_name, event.tool_args, is_native=True)
            return
        if call.error is not None:
            attempt_id = f"{call.call_id}.{call.attempts}"
            self._run.record_call(attempt_id, call.name, call.args, error=call.error)
            call.error = None
        call.attempts += 1

    def record_raised(self, event: Any) -> None:
        """Note what a tool has raised."""
        call = self._find_current()
        if call is not None:
            call.error = event.error
            self._record_if_unchecked(call)

    def record_finished(self, event: Any) -> None:
        """Record a native call whose result the hook has seen; note the result of any other."""
        call = self._find_current()
        if call is None:
            return
        if event.failure is not None:
            call.error = event.failure.message
        if call.is_native and call.is_checked:
            self._record(call)
            return
        call.result = event.output
        self._record_if_unchecked(call)

    def record_failure(self, event: Any) -> None:
        """Record a call that was never made, which is reported nowhere else; other failures are known."""
        last = _last_call.get()
        is_known = last is not None and last.owner is self and last.name == event.tool_name
        if last is not None and is_known and not last.is_failure_reported:
            last.is_failure_reported = True
            return
        self._models.settle()
        args = parse_args(event.tool_args)
        call_id = self._take_call_id(event.tool_name, args)
        self._run.record_call(call_id, event.tool_name, args, error=event.failure.message)

    # --- inside ----------------------------------------------------------------------------------

    def _find_current(self) -> _CrewToolCall | None:
        call = _current_call.get()
        return call if call is not None and call.owner is self and not call.is_over else None

    def _open(self, name: str, args: Any, *, is_native: bool) -> _CrewToolCall:
        args = dict(args) if is_a(args, dict) else parse_args(args)
        call = _CrewToolCall(self, self._take_call_id(name, args), name, args, is_native=is_native)
        _current_call.set(call)
        return call

    def _record(self, call: _CrewToolCall) -> None:
        self._run.after_tool(call.call_id, call.result, error=call.error)
        self._close(call)

    def _record_if_unchecked(self, call: _CrewToolCall) -> None:
        """Record a call of a model that was handed the functions themselves: no hook is called for it."""
        if call.is_native and not call.is_checked:
            self._run.record_call(call.call_id, call.name, call.args, call.result, error=call.error)
            self._close(call)

    def _close(self, call: _CrewToolCall) -> None:
        call.is_over = True
        _current_call.set(call.outer)
        _last_call.set(call)

    def _take_call_id(self, name: str, args: Any) -> str:
        """Return the id under which the model requested the call, which it may do twice; else a new one."""
        message = find_requesting_message(self._models.executor)
        with self._lock:
            if message is not self._requesting_message:
                self._requesting_message, self._requested = message, _read_requests(message)
            for request in self._requested:
                if request.name == name and request.args == args:
                    self._requested = [it for it in self._requested if it.call_id != request.call_id]
                    return request.call_id
        return f"call-{next(_call_ids)}"


class _Request(NamedTuple):
    """A call that a model requested in its last message."""

    call_id: str
    name: str
    args: Any


def _read_requests(message: dict[str, Any] | None) -> list[_Request]:
    """Return the calls that a message requests."""
    requested = []
    for it in (message or {}).get("tool_calls", ()):
        function = it["function"]
        requested.append(_Request(str(it["id"]), function["name"], parse_args(function["arguments"])))
    return requested
