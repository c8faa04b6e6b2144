"""Watch and steer Pydantic AI agents: a capability to give to an agent, and agents that are wrapped whole."""

import asyncio
import copy
from typing import Any, Final

from steadyhelm.adapter import Capabilities, ModelReply
from steadyhelm.adapters.pydantic_ai.course import Course, Paused
from steadyhelm.adapters.pydantic_ai.messages import can_ask, last_words, own_words, result_of, words_of
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError

try:
    from pydantic import ValidationError
    from pydantic_ai.agent import AbstractAgent, WrapperAgent
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

_CAN: Final[Capabilities] = {"before_model": {"guide", "rollback", "stop"}, "before_tool": {"deny", "stop"}}
_CAN_ASK: Final[Capabilities] = {**_CAN, "before_tool": {"deny", "ask", "stop"}}
_CONTROL: Final = (ApprovalRequired, CallDeferred)


class SteadyhelmCapability(AbstractCapability[Any]):
    """Watches and steers every run of the agents it is given to.

    Args:
        monitor: Who watches.
        ask: Puts a question to the user and gives the answer. Without it a call that needs an answer is
            deferred, where the agent may end with such calls (`DeferredToolRequests`) or has somebody who
            decides about them (`HandleDeferredToolCalls`).

    ```python
    agent = Agent(model, capabilities=[SteadyhelmCapability(monitor)])
    ```
    """

    # There is one for each monitor: a second one takes the first one's place.
    id: str | None = "steadyhelm"

    def __init__(self, monitor: Monitor, *, ask: Ask | None = None) -> None:
        # Two monitors may watch under one agent's name, and an id may not hold all that such a name may.
        self.id = f"steadyhelm-{id(monitor):x}"
        self.output_type: Any = None
        self._boundary = Boundary(monitor, "pydantic_ai", _CAN, ask=ask)
        self._paused = Paused()
        self._course: Course | None = None

    @classmethod
    def combine(cls, capabilities: Any) -> Any:
        """Of several for one monitor the last counts."""
        return capabilities[-1]

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """It cannot be read from a file: a monitor cannot."""
        return None

    def get_ordering(self) -> CapabilityOrdering:
        """Around all others: what they change is part of what the agent does."""
        return CapabilityOrdering(position="outermost")

    async def for_run(self, _ctx: Any) -> "SteadyhelmCapability":
        """What is known of one run is known to one object."""
        return copy.copy(self)

    # --- the run ---------------------------------------------------------------------------------

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        """A run from its beginning to its end; one that waits for somebody's decision has not ended."""
        course = self._course = self._begun(ctx)
        if course is None:
            return await handler()
        try:
            with course.run.activate():
                result = await handler()
        except asyncio.CancelledError:
            course.cut_off()
            course.run.finish(outcome="left early")
            raise
        except BaseException as exc:
            course.cut_off(exc)
            _raise_other(course.run.finish(exc), exc)
            raise
        if course.run.stopped is None and isinstance(result.output, DeferredToolRequests):
            self._paused.keep(ctx.conversation_id, course)
            return result
        _raise_other(course.run.finish())
        return result

    async def on_run_error(self, _ctx: Any, *, error: BaseException) -> Any:
        """Whatever a stop was made into on its way, its caller receives the stop."""
        course = self._course
        if course is None or not isinstance(error, Exception):
            raise error
        if course.asked and isinstance(error, UserError) and DeferredToolRequests.__name__ in str(error):
            course.nobody_answers()
        _raise_other(course.run.stopped, error)
        raise error

    # --- the model -------------------------------------------------------------------------------

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        """A request to the model, streamed or not."""
        course = self._course
        if course is None:
            return await handler(request_context)
        request, run, key = request_context, course.run, str(ctx.run_step)
        with self._boundary.guard("before the model"):
            course.cut_off()
            course.catch_up(ctx)
        instruction = run.before_model(key=key, state=ConversationEdits.state(request_context.messages))
        _raise_other(run.stopped)
        with self._boundary.guard("words"):
            request = course.edited(request_context, instruction)
        try:
            response = await handler(request)
        except SkipModelRequest as skipped:
            course.replied(ctx, request, skipped.response)
            raise
        except asyncio.CancelledError:
            course.cut = ctx, request
            raise
        except BaseException as exc:
            run.after_model(ModelReply(model=request.model.model_name), key=key, error=exc)
            raise
        course.replied(ctx, request, response)
        return response

    # --- tools -----------------------------------------------------------------------------------

    async def wrap_tool_validate(self, _ctx: Any, *, call: Any, args: Any, handler: Any, **_: Any) -> Any:
        """A call whose arguments the tool cannot take is never made."""
        try:
            return await handler(args)
        except (ValidationError, ModelRetry, ToolFailed) as exc:
            if self._course is not None:
                self._course.never_made(call, exc)
            raise

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, args: Any, handler: Any, **_: Any) -> Any:
        """A call of a tool."""
        course = self._course
        if course is None:
            return await handler(args)
        run, call_id = course.run, call.tool_call_id
        instruction = course.before_tool(ctx, call, args)
        _raise_other(run.stopped)
        if instruction.verdict == "ask":
            course.asked[call_id] = instruction
            raise ApprovalRequired(metadata={"steadyhelm": instruction.text})
        course.told.add(call_id)
        if instruction.verdict != "proceed":
            return ToolDenied(instruction.text)
        try:
            result = await handler(args)
        except SkipToolExecution as skipped:
            course.after_tool(call_id, result_of(skipped.result))
            raise
        except _CONTROL:
            # It is not made yet, but may be: whoever decides about it answers later.
            course.told.discard(call_id)
            run.drop_call(call_id)
            raise
        except BaseException as exc:
            course.after_tool(call_id, error=own_words(exc))
            raise
        refused = result.message if isinstance(result, ToolDenied) else None
        course.after_tool(call_id, None if refused else result_of(result), error=refused)
        return result

    # --- inside ----------------------------------------------------------------------------------

    def _begun(self, ctx: Any) -> Course | None:
        try:
            return self._paused.taken_up(ctx, self._boundary.monitor) or self._new(ctx)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._boundary.monitor.health.swallowed("pydantic_ai adapter, begin", exc)
            return None

    def _new(self, ctx: Any) -> Course:
        run = self._boundary.start_run(
            words_of(ctx.prompt) or last_words(ctx.messages),
            key=ctx.run_id,
            agent=getattr(ctx.agent, "name", None) or "",
            metadata={"conversation": ctx.conversation_id},
        )
        if self._boundary.ask is None and can_ask(ctx, self.output_type):
            run.set_capabilities(_CAN_ASK)
        return Course(run)


class WatchedAgent(WrapperAgent[Any, Any]):
    """An agent whose runs are watched; everything else about it stays as it is."""

    def __init__(self, agent: Any, capability: SteadyhelmCapability) -> None:
        super().__init__(agent)
        self._capability = capability

    def __getattr__(self, attribute: str) -> Any:
        if "wrapped" not in self.__dict__:
            raise AttributeError(attribute)
        return getattr(self.wrapped, attribute)

    def __repr__(self) -> str:
        return f"<watched {self.wrapped!r}>"

    def run(self, *args: Any, **options: Any) -> Any:
        """The agent's `run`, watched."""
        return self.wrapped.run(*args, **self._watched(options))

    def run_sync(self, *args: Any, **options: Any) -> Any:
        """The agent's `run_sync`, watched."""
        return self.wrapped.run_sync(*args, **self._watched(options))

    def run_stream(self, *args: Any, **options: Any) -> Any:
        """The agent's `run_stream`, watched."""
        return self.wrapped.run_stream(*args, **self._watched(options))

    def run_stream_sync(self, *args: Any, **options: Any) -> Any:
        """The agent's `run_stream_sync`, watched."""
        return self.wrapped.run_stream_sync(*args, **self._watched(options))

    def run_stream_events(self, *args: Any, **options: Any) -> Any:
        """The agent's `run_stream_events`, watched."""
        return self.wrapped.run_stream_events(*args, **self._watched(options))

    def iter(self, *args: Any, **options: Any) -> Any:
        """The agent's `iter`, watched."""
        return self.wrapped.iter(*args, **self._watched(options))

    def _watched(self, options: dict[str, Any]) -> dict[str, Any]:
        mine = copy.copy(self._capability)
        mine.output_type = options.get("output_type")
        return {**options, "capabilities": [*(options.get("capabilities") or ()), mine]}


class PydanticAIAdapter:
    """What `monitor.wrap` gives for an agent of Pydantic AI: a `WatchedAgent`."""

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Whether this is an agent of Pydantic AI."""
        return isinstance(agent, AbstractAgent)

    def __new__(cls, monitor: Monitor, agent: Any, *, ask: Ask | None = None) -> Any:
        """The agent, watched."""
        return WatchedAgent(agent, SteadyhelmCapability(monitor, ask=ask))


def _raise_other(left: BaseException | None, error: BaseException | None = None) -> None:
    """Raise what the caller shall receive, unless that is what it receives already."""
    if left is not None and left is not error:
        raise left from error
