"""Follow the tool calls of one run of the OpenAI Agents SDK: requested, made, blocked or waiting.

A call is blocked in the way the SDK treats one that a user rejected, which changes neither the agent nor its
tools. To wait for the user a call needs a tool that requires approval: such tools are copies.
"""

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any, Final

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.openai_agents.translate import (
    SDKCall,
    is_named_in,
    read_unannounced_call,
    simplify,
)
from steadyhelm.bounded import BoundedDict
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.errors import MissingExtraError
from steadyhelm.events import NotRun
from steadyhelm.host_objects import is_a

try:
    from agents import (
        Agent,
        AgentsException,
        FunctionTool,
        Handoff,
        ModelBehaviorError,
        ToolInputGuardrailTripwireTriggered,
        ToolOutputGuardrailTripwireTriggered,
        UserError,
    )
    from agents.items import ToolApprovalItem
    from agents.tool import default_tool_error_function, default_tool_timeout_error_message
    from agents.tracing import get_current_span
except ImportError as exc:
    raise MissingExtraError("OpenAI Agents SDK adapter", extra="openai-agents") from exc

_ORIGINAL: Final = "_steadyhelm_original"
_TOOL_TRIPWIRES: Final = (ToolInputGuardrailTripwireTriggered, ToolOutputGuardrailTripwireTriggered)
_REFUSALS: Final[dict[str, NotRun]] = {"approval_rejected": "refused", "tool_not_found": "no such tool"}
_IDS_KEPT: Final = 1024
_FAILED: Final = default_tool_error_function(None, Exception())
"""The beginning of the text by which the SDK tells the model of a failure: before 0.23 its only report."""


class SDKCalls:
    """Record the calls of a run, and carry out the decisions about them."""

    def __init__(self, run: AgentRun) -> None:
        self.errors: dict[str, object] = {}
        self._run = run
        self._open: dict[str, SDKCall] = {}
        self._started: set[str] = set()
        self._ended: BoundedDict[str, None] = BoundedDict(_IDS_KEPT)
        self._blocked: set[str] = set()
        self._waiting: dict[str, Instruction] = {}
        self._undo: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def question(self, call_id: str) -> str:
        """Return the question to the user about a call; empty when there is none."""
        instruction = self._waiting.get(call_id)
        return instruction.text if instruction is not None else ""

    def decide(self, calls: Iterable[SDKCall], context: Any, agent: Any) -> None:
        """Decide about the calls of a reply, none of which has been made yet."""
        decided = [(it, self._get_instruction(it)) for it in calls]
        for it, instruction in decided:
            if instruction.verdict == "deny":
                self._block(it, instruction.text, context, agent)
            elif instruction.verdict == "ask":
                self._ask_user(it, instruction, context, agent)
        waiting = {it.name for it, instruction in decided if instruction.verdict == "ask"}
        for it, instruction in decided:
            if instruction.verdict == "proceed" and it.name in waiting:
                _approve(it, context, agent)

    def _get_instruction(self, call: SDKCall) -> Instruction:
        """Return what to do with a call; one that cannot be blocked is only recorded."""
        if call.maker == "provider":
            self._run.record_call(call.call_id, call.name, call.args, call.result, error=call.error)
            return Instruction()
        self._open[call.call_id] = call
        self._blocked.discard(call.call_id)
        if call.maker == "runner" or self._run.stopped is not None:
            return Instruction()
        return self._run.before_tool(call.call_id, call.name, call.args)

    def _block(self, call: SDKCall, text: str, context: Any, agent: Any) -> None:
        del self._open[call.call_id]
        self._blocked.add(call.call_id)
        context.reject_tool(ToolApprovalItem(agent=agent, raw_item=call.item), rejection_message=text)

    def _ask_user(self, call: SDKCall, instruction: Instruction, context: Any, agent: Any) -> None:
        undo = _require_approval(agent, call.name)
        if undo is None:
            self._run.report_not_carried_out("only a tool in the agent's own list can wait for an answer")
            self._block(call, "Not called: the user has to be asked first.", context, agent)
            return
        self._undo.append(undo)
        self._waiting[call.call_id] = instruction

    def end_turn(self, results: dict[str, Any]) -> None:
        """Settle the turn before the next model call: a tool requires approval for one turn only."""
        while self._undo:
            self._undo.pop()()
        self.settle(results)

    # --- results ---------------------------------------------------------------------------------

    def start(self, call_id: str) -> None:
        """Record that a call is made; one that waited for the user was approved."""
        self._started.add(call_id)
        if (instruction := self._waiting.pop(call_id, None)) is not None:
            self._run.apply_answer(True, instruction, call_id)
        if call_id in self._blocked:
            self._run.report_not_carried_out("the SDK makes the call all the same")

    def end(self, context: Any, tool: Any, result: object) -> None:
        """Record the result of a call."""
        call_id = context.tool_call_id
        self._started.discard(call_id)
        call = self._open.pop(call_id, None) or read_unannounced_call(context)
        self._record(call, simplify(result), self.errors.pop(call_id, None) or _find_failure(tool, result))

    def fail(self, args: Any) -> None:
        """Record that a tool raised, a call was rejected, or the tool does not exist."""
        if args.kind == "tool_exception":
            self.errors[args.call_id] = args.error
            return
        call = self._open.pop(args.call_id, None)
        instruction = self._waiting.pop(args.call_id, None)
        if instruction is not None:
            self._run.apply_answer(False, instruction, args.call_id)
        elif call is not None:
            self._record(call, None, args.default_message, _REFUSALS.get(args.kind))

    def settle(self, results: dict[str, Any]) -> None:
        """Record calls whose end no hook reports, from their results in the conversation."""
        for call_id in [it for it in self._open if it in results]:
            call, result = self._open.pop(call_id), results[call_id]
            instruction = self._waiting.pop(call_id, None)
            if instruction is not None:
                self._run.apply_answer(str(result), instruction, call_id)
            elif call.maker == "tool":
                # Not started: a guardrail or the user rejected it, or its id is that of an earlier call.
                why: NotRun = "answered" if call_id in self._ended else "refused"
                self._record(call, None, f"Not called. {result}", why)
            else:
                self._record(call, result, None)

    def record_run_failure(self, error: BaseException) -> None:
        """Record the calls that made the run fail, if any."""
        if not is_a(error, AgentsException):
            return
        cause = (error.__cause__ if is_a(error, UserError) else None) or error
        for call in self._find_failed_calls(error):
            del self._open[call.call_id]
            self._record(call, None, cause, self._find_refusal(call, error))

    def _find_failed_calls(self, error: BaseException) -> list[SDKCall]:
        """Return the calls that an error is about: those whose tool it names, or the only one there is.

        An error that names none may have nothing to do with a call that was not started.
        """
        calls = list(self._open.values())
        named = [it for it in calls if is_named_in(str(error), it)]
        if named or len(calls) != 1:
            return named
        return calls if calls[0].call_id in self._started or is_a(error, _TOOL_TRIPWIRES) else []

    def _find_refusal(self, call: SDKCall, error: BaseException) -> NotRun | None:
        """Return why a call was not made that made the run fail; None where it was started."""
        if call.call_id in self._started:
            return None
        return "no such tool" if is_a(error, ModelBehaviorError) else "refused"

    def end_run(self) -> None:
        """Settle the calls that are still open: only those that were started have been made."""
        for call in self._open.values():
            if call.maker == "tool" and call.call_id not in self._started:
                self._run.drop_call(call.call_id)
            elif call.maker == "runner" and self._run.stopped is None:
                self._record(call, None, None)

    def _record(self, call: SDKCall, result: Any, error: object, not_run: NotRun | None = None) -> None:
        self._ended[call.call_id] = None
        if call.maker == "tool":
            if not_run is not None:
                self._run.mark_not_run(call.call_id, not_run)
            self._run.after_tool(call.call_id, result, error=error)
        else:
            self._run.record_call(call.call_id, call.name, call.args, result, error=error, not_run=not_run)


def _approve(call: SDKCall, context: Any, agent: Any) -> None:
    """Approve a call whose tool waits for another call's sake, unless the host requires approval itself."""
    original = getattr(agent, _ORIGINAL, agent)
    tools = [it for it in original.tools if is_a(it, FunctionTool) and it.qualified_name == call.name]
    if all(tool.needs_approval is False for tool in tools):
        context.approve_tool(ToolApprovalItem(agent=agent, raw_item=call.item))


def copy_agent(agent: Any, copies: dict[int, tuple[Any, Any]] | None = None) -> Any:
    """Return a copy of an agent with copies of its tools, and of every agent it hands off to."""
    copies = {} if copies is None else copies
    agent = getattr(agent, _ORIGINAL, agent)
    if id(agent) not in copies:
        tools = [copy.copy(tool) if is_a(tool, FunctionTool) else tool for tool in agent.tools]
        own = agent.clone(tools=tools, handoffs=[])
        setattr(own, _ORIGINAL, agent)
        copies[id(agent)] = (agent, own)
        own.handoffs = [_copy_handoff(it, copies) for it in agent.handoffs]
    return copies[id(agent)][1]


def _require_approval(agent: Any, tool_name: str) -> Callable[[], None] | None:
    """Make the calls of a tool wait for approval. Returns the undo; None where the tool is no copy."""
    if not hasattr(agent, _ORIGINAL):
        return None
    for tool in agent.tools:
        if is_a(tool, FunctionTool) and tool.qualified_name == tool_name:
            undo = functools.partial(setattr, tool, "needs_approval", tool.needs_approval)
            tool.needs_approval = True
            return undo
    return None


def _copy_handoff(handoff: Any, copies: dict[int, tuple[Any, Any]]) -> Any:
    if is_a(handoff, Agent):
        return copy_agent(handoff, copies)
    if not is_a(handoff, Handoff):
        return handoff
    own = copy.copy(handoff)

    async def invoke(context: Any, arguments: str) -> Any:
        return copy_agent(await handoff.on_invoke_handoff(context, arguments), copies)

    own.on_invoke_handoff = invoke
    return own


def _find_failure(tool: Any, result: object) -> str | None:
    """Return the failure of a tool where only its trace or its text shows one."""
    span = get_current_span()
    if span is not None and span.error is not None:
        return str(result)
    if not is_a(result, str):
        return None
    if result.startswith(_FAILED):
        return result.removeprefix(_FAILED)
    timeout_s = getattr(tool, "timeout_seconds", None)
    if timeout_s is None:
        return None
    late = default_tool_timeout_error_message(tool_name=tool.name, timeout_seconds=timeout_s)
    return result if result == late else None
