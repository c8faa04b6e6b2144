"""A plugin of Google's Agent Development Kit: it is told of every step of every agent of an app."""

import asyncio
from typing import Any, Final, Literal

from steadyhelm.adapter import CONTINUE, Capabilities
from steadyhelm.adapters.google_adk.contents import (
    CONFIRMATION,
    answers_in,
    calls_in,
    code_in,
    confirmed_in,
    failure_in,
    is_reply,
    refusal_in,
    reply_of,
    stop_in,
    text_of,
)
from steadyhelm.adapters.google_adk.requests import Requests
from steadyhelm.adapters.google_adk.turns import MODEL, NO_ANSWER, HookPoint, Turn, Turns, calls
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, RunStopped

try:
    from google.adk.plugins import BasePlugin
    from google.adk.tools.tool_confirmation import ToolConfirmation
    from google.genai import types
except ImportError as exc:
    raise MissingExtraError("Google ADK adapter", extra="google-adk") from exc

CAN: Final[Capabilities] = {"before_model": {"guide", "rollback", "stop"}, "before_tool": {"deny", "stop"}}
CAN_CONFIRM: Final[Capabilities] = {**CAN, "before_tool": {"deny", "ask", "stop"}}

_WAITING: Final = "Not called yet: the user is being asked."


class _PausedError(Exception):
    """A call waits for the user: it was not made, and did not fail."""


class SteadyhelmPlugin(BasePlugin):
    """Watches every agent of an app: `App(name=..., root_agent=..., plugins=[SteadyhelmPlugin(monitor)])`.

    Put it first: the framework asks no further plugin once one has answered.

    Args:
        monitor: Who watches.
        ask: Puts a question to the user and gives the answer. "confirmation" asks by the framework's own tool
            confirmation: the invocation pauses, and goes on when whoever runs the agent sends the answer.
        name: What the framework knows this plugin by; no two plugins of an app may share one.
    """

    def __init__(
        self, monitor: Monitor, *, ask: Ask | Literal["confirmation"] | None = None, name: str = "steadyhelm"
    ) -> None:
        super().__init__(name=name)
        self.monitor = monitor
        native = isinstance(ask, str) and ask == "confirmation"
        self._boundary = Boundary(
            monitor,
            "google_adk",
            CAN_CONFIRM if native else CAN,
            ask=None if native else ask,  # type: ignore[arg-type]
            control=(_PausedError,),
        )
        # An agent inside a tool has a session that is thrown away: no confirmation would ever reach it.
        self._turns = Turns(self._boundary, CAN if native else None)
        self._requests = Requests(types.UserContent)

    # --- an invocation ---------------------------------------------------------------------------

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any, **_: Any) -> None:
        """The user says something, or answers what they were asked."""
        with self._boundary.guard("user message"):
            answers = answers_in(user_message)
            if answers:
                self._answered(invocation_context, answers)
                return
            self._turns.give_up_waiting(HookPoint.of(invocation_context).session)
            self._turns.begin(invocation_context, text_of(user_message))

    async def before_run_callback(self, *, invocation_context: Any, **_: Any) -> None:
        """An invocation begins; one that is taken up again may come without a message."""
        with self._boundary.guard("before run"):
            if invocation_context.live_request_queue is None:
                self._turns.begin(invocation_context)
            else:
                self.monitor.health.count("live invocation of Google ADK, which is not watched")

    async def after_run_callback(self, *, invocation_context: Any, **_: Any) -> None:
        """An invocation is over."""
        with self._boundary.guard("after run"):
            self._turns.over(invocation_context.invocation_id)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception, **_: Any) -> None:
        """An invocation has failed."""
        with self._boundary.guard("run error"):
            self._turns.over(invocation_context.invocation_id, error)

    async def close(self) -> None:
        """The runner closes."""
        with self._boundary.guard("close"):
            self._turns.give_up_waiting()

    async def before_agent_callback(self, *, agent: Any, callback_context: Any, **_: Any) -> None:
        """An agent begins; what one without a model says, such as a remote agent, only its events tell."""
        with self._boundary.guard("before agent"):
            turn = self._turns.get(callback_context.invocation_id)
            if turn is not None and not hasattr(agent, "canonical_model"):
                turn.speakers.add(agent.name)

    # --- the model -------------------------------------------------------------------------------

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any, **_: Any) -> None:
        """A request is ready to be sent."""
        stopped = None
        with self._boundary.guard("before_model"):
            run = self._turns.run(callback_context, llm_request.contents)
            if run is not None:
                stopped = run.stopped or self._prepared(run, callback_context, llm_request)
        if stopped is not None:
            raise stopped

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any, **_: Any) -> None:
        """The model has answered; in a stream, first in parts and then as a whole."""
        with self._boundary.guard("after_model"):
            run = self._turns.run(callback_context)
            if run is not None and not llm_response.partial:
                run.after_model(reply_of(llm_response), key=MODEL, error=refusal_in(llm_response))

    async def on_model_error_callback(self, *, callback_context: Any, error: Exception, **_: Any) -> None:
        """The model has failed; to mend that is not for us."""
        with self._boundary.guard("model error"):
            run = self._turns.run(callback_context)
            if run is not None:
                run.after_model(key=MODEL, error=error)

    # --- tools -----------------------------------------------------------------------------------

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, **_: Any
    ) -> dict[str, Any] | None:
        """A tool is about to be called; what is given back stands for its result."""
        answer = stopped = None
        with self._boundary.guard("before_tool"):
            run = self._turns.run(tool_context)
            if run is not None:
                answer = None if run.stopped else self._considered(run, tool.name, tool_args, tool_context)
                stopped = run.stopped
        if stopped is not None:
            raise stopped
        return answer

    async def after_tool_callback(self, *, tool_context: Any, result: Any, **_: Any) -> None:
        """A tool has answered, or waits for its user before it is really called."""
        with self._boundary.guard("after_tool"):
            run = self._turns.run(tool_context)
            if run is None:
                return
            call_id, actions = _call_id(tool_context), tool_context.actions
            self._turn(tool_context).going.discard(call_id)
            if call_id in actions.requested_tool_confirmations or call_id in actions.requested_auth_configs:
                self._turn(tool_context).paused.add(call_id)
                run.after_tool(call_id, error=_PausedError())
            else:
                run.after_tool(call_id, result, error=failure_in(result))

    async def on_tool_error_callback(self, *, tool_context: Any, error: BaseException, **_: Any) -> None:
        """A tool has failed, is not known or was cancelled; to mend that is not for us."""
        with self._boundary.guard("tool error"):
            run = self._turns.run(tool_context)
            if run is not None:
                self._turn(tool_context).going.discard(_call_id(tool_context))
                run.after_tool(_call_id(tool_context), error=stop_in(error) or error)

    async def on_event_callback(self, *, invocation_context: Any, event: Any, **_: Any) -> None:
        """What nobody else tells: answers given in the model's place, and calls that are no tool's."""
        with self._boundary.guard("event"):
            turn = self._turns.get(invocation_context.invocation_id)
            if turn is None or event.partial:
                return
            speaks = event.author in turn.speakers and is_reply(event) and bool(text_of(event.content))
            run = self._turns.branched(turn, event, event.author) if speaks else turn.at(event)
            if run is None:
                return
            if speaks or (run.is_asking and is_reply(event)):
                run.after_model(reply_of(event), key="" if speaks else MODEL, error=refusal_in(event))
            for call in calls_in(event, invocation_context.session.events, turn.code.get(run.run_id, "")):
                run.record_call(*call[:4], error=call.error, surface="events")
            turn.code[run.run_id] = code_in(event)

    # --- inside ----------------------------------------------------------------------------------

    def turn_of(self, invocation_id: str) -> Turn | None:
        """An invocation that goes on, with its runs."""
        return self._turns.get(invocation_id)

    def left_by(self, task: "asyncio.Task[Any] | None", session: str) -> None:
        """A caller is gone, whatever took it away: its invocation is over, unless it waits for the user."""
        with self._boundary.guard("left"):
            self._turns.left_by(task, session)

    def _turn(self, context: Any) -> Turn:
        turn = self._turns.get(context.invocation_id)
        assert turn is not None, "a step is told of while its invocation goes on"
        return turn

    def _answered(self, context: Any, answers: list[Any]) -> None:
        """The user has answered: what their own tools asked first, then what we did."""
        turn = self._turns.begin(context)
        events = context.session.events
        about = [(confirmed_in(it, events), it) for it in answers if it.name == CONFIRMATION]
        for (call_id, branch), given in sorted(about, key=lambda it: it[0].call_id in turn.asked):
            said = ToolConfirmation.from_response_dict(given.response)
            words = said.payload if isinstance(said.payload, str) else ""
            run, instruction = turn.asked.pop(call_id, (turn.around(branch), None))
            if instruction is None:
                run.record_user_message("Go on." if said.confirmed else words or "No.")
            else:
                turn.settled[call_id] = run.apply_answer(
                    said.confirmed or words or False, instruction, call_id
                )

    def _prepared(self, run: AgentRun, context: Any, request: Any) -> RunStopped | None:
        """Put into the request what there is to say, or give the stop."""
        if run.is_asking:
            run.after_model(key=MODEL, error=NO_ANSWER)
        state = self._requests.state(context, request) if self.monitor.mode == "enforce" else None
        instruction = run.before_model(key=MODEL, state=state)
        if instruction.verdict != "stop":
            self._requests.carry_out(run, instruction, context, request)
        return run.stopped

    def _considered(
        self, run: AgentRun, name: str, args: dict[str, Any], context: Any
    ) -> dict[str, Any] | None:
        """What stands for a call's result; None when it shall be made."""
        turn, call_id = self._turn(context), _call_id(context)
        turn.paused.discard(call_id)
        if call_id in turn.going:
            instruction = CONTINUE  # an agent inside this call has waited for the user: it is the same call
        elif call_id in turn.settled:
            instruction = turn.settled.pop(call_id)
        else:
            instruction = run.before_tool(call_id, name, dict(args))
        if instruction.verdict == "proceed":
            turn.going.add(call_id)
            calls(run)
            return None
        if instruction.verdict == "ask":
            turn.asked[call_id] = (run, instruction)
            context.request_confirmation(hint=instruction.text)
            context.actions.skip_summarization = True
            return {"error": _WAITING}
        return {"error": instruction.text}


def _call_id(context: Any) -> str:
    return context.function_call_id or f"call-{id(context)}"
