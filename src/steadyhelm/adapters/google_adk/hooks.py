"""Watch every agent of a Google ADK app through a plugin."""

import asyncio
import sys
from typing import Any, Final, Literal

from steadyhelm.adapter import CONTINUE, Capabilities
from steadyhelm.adapters.google_adk.invocations import (
    MODEL_CALL,
    NO_REPLY,
    Invocation,
    Invocations,
    InvocationView,
    RequestEdits,
    enter_call,
)
from steadyhelm.adapters.google_adk.translate import (
    CONFIRMATION,
    find_answers,
    find_calls,
    find_confirmed_call,
    find_model_error,
    find_stop,
    find_tool_error,
    is_reply,
    read_code,
    read_reply,
    read_text,
)
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, RunStopped
from steadyhelm.host_objects import is_a

try:
    from google.adk.plugins import BasePlugin
    from google.adk.tools.tool_confirmation import ToolConfirmation
    from google.genai import types
except ImportError as exc:
    raise MissingExtraError("Google ADK adapter", extra="google-adk") from exc

CAN: Final[Capabilities] = {"before_model": {"guide", "rollback", "stop"}, "before_tool": {"deny", "stop"}}
CAN_CONFIRM: Final[Capabilities] = {**CAN, "before_tool": {"deny", "ask", "stop"}}

_WAITING_TEXT: Final = "Not called yet: the user is being asked."


class _PausedError(Exception):
    """A call that waits for the user: it was not made, and did not fail."""


class SteadyhelmPlugin(BasePlugin):
    """Watch every agent of an app: `App(name=..., root_agent=..., plugins=[SteadyhelmPlugin(monitor)])`.

    Put it first: the framework skips the other plugins once one returns a value.

    Args:
        monitor: The monitor that records the runs.
        ask: A function that puts a question to the user and returns the answer. "confirmation" uses the
            framework's own tool confirmation: the invocation pauses, and continues when the answer is sent.
        name: The name of this plugin, unique among the plugins of an app.
    """

    def __init__(
        self, monitor: Monitor, *, ask: Ask | Literal["confirmation"] | None = None, name: str = "steadyhelm"
    ) -> None:
        super().__init__(name=name)
        self.monitor = monitor
        native = is_a(ask, str) and ask == "confirmation"
        self._boundary = Boundary(
            monitor,
            "google_adk",
            CAN_CONFIRM if native else CAN,
            ask=None if native else ask,  # type: ignore[arg-type]
            control=(_PausedError,),
        )
        # The session of an agent inside a tool is discarded: a confirmation would never reach it.
        self._invocations = Invocations(self._boundary, CAN if native else None)
        self._edits = RequestEdits(types.UserContent)

    # --- an invocation ---------------------------------------------------------------------------

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any, **_: Any) -> None:
        """Start an invocation, or apply the user's answers."""
        with self._boundary.guard("user message"):
            answers = find_answers(user_message)
            if answers:
                self._apply_answers(invocation_context, answers)
                return
            self._invocations.abandon_waiting(InvocationView.from_context(invocation_context).session)
            self._invocations.start(invocation_context, read_text(user_message))

    async def before_run_callback(self, *, invocation_context: Any, **_: Any) -> None:
        """Start an invocation; one that continues may come without a message."""
        with self._boundary.guard("before run"):
            if invocation_context.live_request_queue is None:
                self._invocations.start(invocation_context)
            else:
                self.monitor.health.count("live invocation of Google ADK, which is not watched")

    async def after_run_callback(self, *, invocation_context: Any, **_: Any) -> None:
        """End an invocation. Older versions call this for one that is cancelled too."""
        with self._boundary.guard("after run"):
            is_cancelled = is_a(sys.exc_info()[1], asyncio.CancelledError)
            self._invocations.end(invocation_context.invocation_id, abandoned=is_cancelled)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception, **_: Any) -> None:
        """End an invocation that failed."""
        with self._boundary.guard("run error"):
            self._invocations.end(invocation_context.invocation_id, error)

    async def close(self) -> None:
        """End the invocations that wait for the user."""
        with self._boundary.guard("close"):
            self._invocations.abandon_waiting()

    async def before_agent_callback(self, *, agent: Any, callback_context: Any, **_: Any) -> None:
        """Note an agent without a model, such as a remote one: only its events show its replies."""
        with self._boundary.guard("before agent"):
            invocation = self._invocations.get(callback_context.invocation_id)
            if invocation is not None and not hasattr(agent, "canonical_model"):
                invocation.modelless_agents.add(agent.name)

    # --- the model -------------------------------------------------------------------------------

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any, **_: Any) -> None:
        """Record the start of a model call, and edit its request."""
        stopped = None
        with self._boundary.guard("before_model"):
            run = self._invocations.find_run(callback_context, llm_request.contents)
            if run is not None:
                stopped = run.stopped or self._prepare_request(run, callback_context, llm_request)
        if stopped is not None:
            raise stopped

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any, **_: Any) -> None:
        """Record a reply; a stream reports its parts first, then the whole."""
        with self._boundary.guard("after_model"):
            run = self._invocations.find_run(callback_context)
            if run is not None and not llm_response.partial:
                run.after_model(
                    read_reply(llm_response), key=MODEL_CALL, error=find_model_error(llm_response)
                )

    async def on_model_error_callback(self, *, callback_context: Any, error: Exception, **_: Any) -> None:
        """Record a model call that failed."""
        with self._boundary.guard("model error"):
            run = self._invocations.find_run(callback_context)
            if run is not None:
                run.after_model(key=MODEL_CALL, error=error)

    # --- tools -----------------------------------------------------------------------------------

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, **_: Any
    ) -> dict[str, Any] | None:
        """Record the start of a tool call. Returns a result in place of the call to block it."""
        result = stopped = None
        with self._boundary.guard("before_tool"):
            run = self._invocations.find_run(tool_context)
            if run is not None:
                result = None if run.stopped else self._check_call(run, tool.name, tool_args, tool_context)
                stopped = run.stopped
        if stopped is not None:
            raise stopped
        return result

    async def after_tool_callback(self, *, tool_context: Any, result: Any, **_: Any) -> None:
        """Record a result, or that the call waits for the user."""
        with self._boundary.guard("after_tool"):
            run = self._invocations.find_run(tool_context)
            if run is None:
                return
            call_id, actions = _read_call_id(tool_context), tool_context.actions
            self._get(tool_context).open_calls.discard(call_id)
            if call_id in actions.requested_tool_confirmations or call_id in actions.requested_auth_configs:
                self._get(tool_context).paused_calls.add(call_id)
                run.after_tool(call_id, error=_PausedError())
            else:
                run.after_tool(call_id, result, error=find_tool_error(result))

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException, **_: Any
    ) -> None:
        """Record a call that failed, was cancelled, or has no tool."""
        with self._boundary.guard("tool error"):
            run = self._invocations.find_run(tool_context)
            if run is None:
                return
            call_id, open_calls = _read_call_id(tool_context), self._get(tool_context).open_calls
            if call_id in open_calls:
                open_calls.discard(call_id)
                run.after_tool(call_id, error=find_stop(error) or error)
            else:
                run.record_call(call_id, tool.name, dict(tool_args), error=error)

    async def on_event_callback(self, *, invocation_context: Any, event: Any, **_: Any) -> None:
        """Record what no other callback reports: replies without a model call, and calls without a tool."""
        with self._boundary.guard("event"):
            invocation = self._invocations.get(invocation_context.invocation_id)
            if invocation is None or event.partial:
                return
            is_modelless = (
                event.author in invocation.modelless_agents
                and is_reply(event)
                and bool(read_text(event.content))
            )
            run = (
                self._invocations.start_branch(invocation, event, event.author)
                if is_modelless
                else invocation.find_run(event)
            )
            if run is None:
                return
            if is_modelless or (run.is_asking and is_reply(event)):
                run.after_model(
                    read_reply(event), key="" if is_modelless else MODEL_CALL, error=find_model_error(event)
                )
            for call in find_calls(
                event, invocation_context.session.events, invocation.code.get(run.run_id, "")
            ):
                run.record_call(*call[:4], error=call.error, surface="events")
            invocation.code[run.run_id] = read_code(event)

    # --- inside ----------------------------------------------------------------------------------

    def find_invocation(self, invocation_id: str) -> Invocation | None:
        """Return a live invocation."""
        return self._invocations.get(invocation_id)

    def abandon_task(self, task: "asyncio.Task[Any] | None", session: str) -> None:
        """End the invocation of a caller that is gone, unless it waits for the user."""
        with self._boundary.guard("abandon"):
            self._invocations.abandon_task(task, session)

    def _get(self, context: Any) -> Invocation:
        invocation = self._invocations.get(context.invocation_id)
        assert invocation is not None, "a step is reported while its invocation is live"
        return invocation

    def _apply_answers(self, context: Any, answers: list[Any]) -> None:
        """Apply the user's answers: first to questions of the host's tools, then to ours."""
        invocation = self._invocations.start(context)
        events = context.session.events
        about = [(find_confirmed_call(it, events), it) for it in answers if it.name == CONFIRMATION]
        for (call_id, branch), given in sorted(about, key=lambda it: it[0].call_id in invocation.asked):
            confirmation = ToolConfirmation.from_response_dict(given.response)
            text = confirmation.payload if is_a(confirmation.payload, str) else ""
            run, instruction = invocation.asked.pop(call_id, (invocation.find_enclosing_run(branch), None))
            if instruction is None:
                run.record_user_message("Go on." if confirmation.confirmed else text or "No.")
            else:
                invocation.answered_calls[call_id] = run.apply_answer(
                    confirmation.confirmed or text or False, instruction, call_id
                )

    def _prepare_request(self, run: AgentRun, context: Any, request: Any) -> RunStopped | None:
        """Apply the instruction for a model call to its request. Returns the stop, if there is one."""
        if run.is_asking:
            run.after_model(key=MODEL_CALL, error=NO_REPLY)
        state = self._edits.read_state(context, request) if self.monitor.mode == "enforce" else None
        instruction = run.before_model(key=MODEL_CALL, state=state)
        if instruction.verdict != "stop":
            self._edits.apply(run, instruction, context, request)
        return run.stopped

    def _check_call(
        self, run: AgentRun, name: str, args: dict[str, Any], context: Any
    ) -> dict[str, Any] | None:
        """Return a result in place of the call; None when it is made."""
        invocation, call_id = self._get(context), _read_call_id(context)
        invocation.paused_calls.discard(call_id)
        if call_id in invocation.open_calls:
            instruction = CONTINUE  # an agent inside this call waited for the user: it is the same call
        elif call_id in invocation.answered_calls:
            instruction = invocation.answered_calls.pop(call_id)
        else:
            instruction = run.before_tool(call_id, name, dict(args))
        if instruction.verdict == "proceed":
            invocation.open_calls.add(call_id)
            enter_call(run)
            return None
        if instruction.verdict == "ask":
            invocation.asked[call_id] = (run, instruction)
            context.request_confirmation(hint=instruction.text)
            context.actions.skip_summarization = True
            return {"error": _WAITING_TEXT}
        return {"error": instruction.text}


def _read_call_id(context: Any) -> str:
    return context.function_call_id or f"call-{id(context)}"
