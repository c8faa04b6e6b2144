"""The tool calls of one run of the OpenAI Agents SDK: asked for, decided on, made, refused or waiting."""

from collections.abc import Callable, Iterable
from typing import Any

from agents import AgentsException, UserError
from agents.tool import default_tool_timeout_error_message
from agents.tracing import get_current_span

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.openai_agents.approvals import allow, made_to_wait, refuse
from steadyhelm.adapters.openai_agents.items import Asked, plain, spoken_of, unannounced
from steadyhelm.boundary.agent_run import AgentRun


class Calls:
    """Tells a run of its calls, and carries out what is decided about them."""

    def __init__(self, run: AgentRun) -> None:
        self.errors: dict[str, object] = {}
        self._run = run
        self._open: dict[str, Asked] = {}
        self._started: set[str] = set()
        self._refused: set[str] = set()
        self._waiting: dict[str, Instruction] = {}
        self._undo: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def question(self, call_id: str) -> str:
        """What the user is asked about a call, empty where nobody asks."""
        instruction = self._waiting.get(call_id)
        return instruction.text if instruction is not None else ""

    def decide(self, asked: Iterable[Asked], context: Any, agent: Any) -> None:
        """The model asks for these calls, and none has been made yet."""
        decided = [(it, self._decided(it)) for it in asked]
        for it, instruction in decided:
            if instruction.verdict == "deny":
                self._refuse(it, instruction.text, context, agent)
            elif instruction.verdict == "ask":
                self._put_to_user(it, instruction, context, agent)
        waiting = {it.name for it, instruction in decided if instruction.verdict == "ask"}
        for it, instruction in decided:
            if instruction.verdict == "proceed" and it.name in waiting:
                allow(it, context, agent)

    def _decided(self, asked: Asked) -> Instruction:
        """What to do with a call; those that nobody can refuse are only told of."""
        if asked.maker == "provider":
            self._run.record_call(asked.call_id, asked.name, asked.args, asked.result, error=asked.error)
            return Instruction()
        self._open[asked.call_id] = asked
        self._refused.discard(asked.call_id)
        if asked.maker == "runner" or self._run.stopped is not None:
            return Instruction()
        return self._run.before_tool(asked.call_id, asked.name, asked.args)

    def _refuse(self, asked: Asked, words: str, context: Any, agent: Any) -> None:
        del self._open[asked.call_id]
        self._refused.add(asked.call_id)
        refuse(asked, words, context, agent)

    def _put_to_user(self, asked: Asked, instruction: Instruction, context: Any, agent: Any) -> None:
        undo = made_to_wait(agent, asked.name)
        if undo is None:
            self._run.report_not_carried_out("only a tool in the agent's own list can wait for an answer")
            self._refuse(asked, "Not called: the user has to be asked first.", context, agent)
            return
        self._undo.append(undo)
        self._waiting[asked.call_id] = instruction

    def turn_over(self, results: dict[str, Any]) -> None:
        """The model is about to be asked again: no tool waits any longer than for the call in question."""
        while self._undo:
            self._undo.pop()()
        self.settle(results)

    # --- what becomes of them --------------------------------------------------------------------

    def starts(self, call_id: str) -> None:
        """A call is made: one that waited for the user was allowed."""
        self._started.add(call_id)
        if (instruction := self._waiting.pop(call_id, None)) is not None:
            self._run.apply_answer(True, instruction, call_id)
        if call_id in self._refused:
            self._run.report_not_carried_out("the SDK makes the call all the same")

    def ends(self, context: Any, tool: Any, result: object) -> None:
        """A call has come back."""
        call_id = context.tool_call_id
        self._started.discard(call_id)
        asked = self._open.pop(call_id, None) or unannounced(context)
        self._tell(asked, plain(result), self.errors.pop(call_id, None) or _failure(tool, result))

    def fails(self, args: Any) -> None:
        """A tool raised, a call was rejected, or the tool is not there."""
        if args.kind == "tool_exception":
            self.errors[args.call_id] = args.error
            return
        asked = self._open.pop(args.call_id, None)
        instruction = self._waiting.pop(args.call_id, None)
        if instruction is not None:
            self._run.apply_answer(False, instruction, args.call_id)
        elif asked is not None:
            self._tell(asked, None, args.default_message)

    def settle(self, results: dict[str, Any]) -> None:
        """Of some calls no hook tells how they ended: what the conversation says of them."""
        for call_id in [it for it in self._open if it in results]:
            asked, said = self._open.pop(call_id), results[call_id]
            instruction = self._waiting.pop(call_id, None)
            if instruction is not None:
                self._run.apply_answer(str(said), instruction, call_id)
            elif asked.maker == "tool":
                # Nobody saw it begin: a guardrail of the host's, or its user, said no.
                self._tell(asked, None, f"Not called. {said}")
            else:
                self._tell(asked, said, None)

    def failed_with(self, error: BaseException) -> None:
        """The run failed, perhaps by one of its calls."""
        if not isinstance(error, AgentsException):
            return
        cause = (error.__cause__ if isinstance(error, UserError) else None) or error
        for asked in spoken_of(str(error), list(self._open.values())):
            del self._open[asked.call_id]
            self._tell(asked, None, cause)

    def run_over(self) -> None:
        """No more will be heard of those that are open: only what was begun has been made."""
        for asked in self._open.values():
            if asked.maker == "tool" and asked.call_id not in self._started:
                self._run.drop_call(asked.call_id)
            elif asked.maker == "runner" and self._run.stopped is None:
                self._tell(asked, None, None)

    def _tell(self, asked: Asked, result: Any, error: object) -> None:
        if asked.maker == "tool":
            self._run.after_tool(asked.call_id, result, error=error)
        else:
            self._run.record_call(asked.call_id, asked.name, asked.args, result, error=error)


def _failure(tool: Any, result: object) -> str | None:
    """What a tool failed with, where only its trace or its words tell."""
    span = get_current_span()
    if span is not None and span.error is not None:
        return str(result)
    timeout_s = getattr(tool, "timeout_seconds", None)
    if timeout_s is None or not isinstance(result, str):
        return None
    late = default_tool_timeout_error_message(tool_name=tool.name, timeout_seconds=timeout_s)
    return result if result == late else None
