"""Watch and steer Pydantic AI agents through a capability."""

import asyncio
import copy
from typing import Any, Final

from steadyhelm.adapter import Capabilities
from steadyhelm.adapters.pydantic_ai.run_state import PydanticRunState
from steadyhelm.adapters.pydantic_ai.translate import (
    can_ask,
    find_tool_error,
    read_last_prompt,
    read_prompt,
    read_result,
)
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import Ask, Boundary, RunTable
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    from pydantic import ValidationError
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.exceptions import (
        ApprovalRequired,
        CallDeferred,
        ModelRetry,
        SkipModelRequest,
        SkipToolExecution,
        ToolFailed,
        UserError,
    )
    from pydantic_ai.tools import DeferredToolRequests, ToolDenied
except ImportError as exc:
    raise MissingExtraError("Pydantic AI adapter", extra="pydantic-ai") from exc

CAN: Final[Capabilities] = {"before_model": {"guide", "rollback", "stop"}, "before_tool": {"deny", "stop"}}
CAN_ASK: Final[Capabilities] = {**CAN, "before_tool": {"deny", "ask", "stop"}}
_CONTROL: Final = (ApprovalRequired, CallDeferred)

# The runs that a capability records now, by monitor and the framework's own run id.
_watched_runs: Final[set[tuple[int, str]]] = set()


class SteadyhelmCapability(AbstractCapability[Any]):
    """Watch and steer every run of the agents it is given to.

    Args:
        monitor: The monitor that records the runs.
        ask: A function that puts a question to the user and returns the answer. Without it a call that needs
            an answer is deferred, where the agent may end with such calls (`DeferredToolRequests`) or has a
            capability that decides about them (`HandleDeferredToolCalls`).

    ```python
    agent = Agent(model, capabilities=[SteadyhelmCapability(monitor)])
    ```
    """

    # One for each monitor: a second one replaces the first.
    id: str | None = "steadyhelm"

    def __init__(self, monitor: Monitor, *, ask: Ask | None = None) -> None:
        # Two monitors may have the same agent id, and it may hold characters that are not allowed here.
        # Older versions refuse two capabilities with one id, instead of combining them.
        self.id = f"steadyhelm-{id(monitor):x}" if hasattr(AbstractCapability, "combine") else None
        self.output_type: Any = None
        self._boundary = Boundary(monitor, "pydantic_ai", CAN, ask=ask)
        self._paused: RunTable[PydanticRunState] = RunTable(self._boundary)
        self._state: PydanticRunState | None = None

    @classmethod
    def combine(cls, capabilities: Any) -> Any:
        """Return the last of several capabilities of one monitor."""
        return capabilities[-1]

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: a monitor cannot be read from a file."""
        return None

    def get_ordering(self) -> CapabilityOrdering:
        """Return the outermost position: what other capabilities change is part of what the agent does."""
        return CapabilityOrdering(position="outermost")

    async def for_run(self, _ctx: Any) -> "SteadyhelmCapability":
        """Return a copy for one run, which holds the state of that run."""
        return copy.copy(self)

    # --- the run ---------------------------------------------------------------------------------

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        """Record a run from start to end. A run that waits for a decision about a call is paused."""
        watched = (id(self._boundary.monitor), ctx.run_id)
        if watched in _watched_runs:
            return await handler()  # before `combine` a second capability of one monitor stays in the run
        state = self._state = self._resume_or_start(ctx)
        if state is None:
            return await handler()
        _watched_runs.add(watched)
        try:
            with state.run.activate():
                result = await handler()
        except asyncio.CancelledError:
            state.record_cut_reply()
            state.run.finish(outcome="left early")
            raise
        except BaseException as exc:
            state.record_cut_reply(exc)
            _raise_other(state.run.finish(exc), exc)
            raise
        finally:
            _watched_runs.discard(watched)
        if state.run.stopped is None and is_a(result.output, DeferredToolRequests):
            self._paused.pause(state, ctx.conversation_id)
            return result
        _raise_other(state.run.finish())
        return result

    async def on_run_error(self, _ctx: Any, *, error: BaseException) -> Any:
        """Raise `RunStopped` for a run that was stopped, whatever the framework turned it into."""
        state = self._state
        if state is None or not is_a(error, Exception):
            raise error
        if state.asked and is_a(error, UserError) and DeferredToolRequests.__name__ in str(error):
            state.stop_unanswered()
        _raise_other(state.run.stopped, error)
        raise error

    # --- the model -------------------------------------------------------------------------------

    async def before_model_request(self, _ctx: Any, request_context: Any) -> Any:
        """Note that no other capability holds the request back; before 2.54 called ahead of their hooks."""
        if self._state is not None:
            self._state.is_passed_on = True
        return request_context

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        """Record a model call, streamed or not, and add guidance to its request."""
        state = self._state
        if state is None:
            return await handler(request_context)
        request, run, key = request_context, state.run, str(ctx.run_step)
        with self._boundary.guard("before the model"):
            state.record_cut_reply()
            state.record_new_messages(ctx)
        instruction = run.before_model(key=key, state=ConversationEdits.state(request_context.messages))
        _raise_other(run.stopped)
        with self._boundary.guard("guidance"):
            request = state.edit_request(request_context, instruction)
        state.open_request = ctx, request
        try:
            response = await handler(request)
        except SkipModelRequest as skipped:
            state.record_reply(ctx, request, skipped.response)
            raise
        except asyncio.CancelledError:
            raise  # whoever ends the run knows why, and may be cancelled first
        except BaseException as exc:
            state.record_failed_request(ctx, request, exc)
            raise
        state.record_reply(ctx, request, response)
        return response

    # --- tools -----------------------------------------------------------------------------------

    async def wrap_tool_validate(self, _ctx: Any, *, call: Any, args: Any, handler: Any, **_: Any) -> Any:
        """Record a call whose arguments do not fit: it is never made."""
        try:
            return await handler(args)
        except (ValidationError, ModelRetry, ToolFailed) as exc:
            if self._state is not None:
                self._state.record_unmade_call(call, exc, "invalid arguments")
            raise

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, args: Any, handler: Any, **_: Any) -> Any:
        """Record a tool call, which may be blocked or deferred."""
        state = self._state
        if state is None:
            return await handler(args)
        run, call_id = state.run, call.tool_call_id
        instruction = state.before_tool(ctx, call, args)
        _raise_other(run.stopped)
        if instruction.verdict == "ask":
            state.asked[call_id] = instruction
            raise ApprovalRequired(metadata={"steadyhelm": instruction.text})
        state.recorded_calls.add(call_id)
        if instruction.verdict != "proceed":
            return ToolDenied(instruction.text)
        try:
            result = await handler(args)
        except SkipToolExecution as skipped:
            state.after_tool(call_id, read_result(skipped.result), why="answered")
            raise
        except _CONTROL:
            # It is not made yet, but may be: the decision about it comes later.
            state.recorded_calls.discard(call_id)
            run.drop_call(call_id)
            raise
        except BaseException as exc:
            state.after_tool(call_id, error=find_tool_error(exc))
            raise
        if is_a(result, ToolDenied):
            state.after_tool(call_id, error=result.message, why="refused")
        else:
            state.after_tool(call_id, read_result(result))
        return result

    # --- inside ----------------------------------------------------------------------------------

    def _resume_or_start(self, ctx: Any) -> PydanticRunState | None:
        try:
            return self._resume(ctx) or self._start(ctx)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._boundary.monitor.health.swallow("pydantic_ai adapter, begin", exc)
            return None

    def _resume(self, ctx: Any) -> PydanticRunState | None:
        state = self._paused.resume(ctx.conversation_id)
        if state is not None and (prompt := read_prompt(ctx.prompt)):
            state.run.record_user_message(prompt)
        return state

    def _start(self, ctx: Any) -> PydanticRunState:
        run = self._boundary.start_run(
            read_prompt(ctx.prompt) or read_last_prompt(ctx.messages),
            key=ctx.run_id,
            agent=getattr(ctx.agent, "name", None) or "",
            metadata={"conversation": ctx.conversation_id},
        )
        if self._boundary.ask is None and can_ask(ctx, self.output_type):
            run.set_capabilities(CAN_ASK)
        return PydanticRunState(run)


def _raise_other(left: BaseException | None, error: BaseException | None = None) -> None:
    """Raise the exception for the caller, unless it is the one being raised already."""
    if left is not None and left is not error:
        raise left from error
