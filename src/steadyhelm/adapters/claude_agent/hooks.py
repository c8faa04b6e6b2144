"""Record a conversation with Claude Code from its hooks and, where they are read, its messages.

Hooks report every call and can steer; messages show the replies of the model and their tokens.
"""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from msgspec import Struct

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.claude_agent.replies import ReplyRecorder, ShownReply
from steadyhelm.boundary.driver import Boundary
from steadyhelm.bounded import BoundedDict
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.pending_decisions import NOT_CALLED
from steadyhelm.errors import RunStopped
from steadyhelm.host_objects import is_a
from steadyhelm.recordings.hook_events import claude_code
from steadyhelm.recordings.hook_events.hook_step import BatchCall, HookStep, get_text

EVENTS: Final = (*(event for event in claude_code.KINDS if event != "SessionEnd"), "SubagentStart")
"""The events to register for; the SDK does not report the end of a session."""

_AGENT_TOOLS: Final = frozenset({"Agent", "Task"})
_MAX_ENDED_CALLS: Final = 1024

HookOutput = dict[str, Any]


class PendingSubagent(Struct, frozen=True):
    """A task for a sub-agent whose id is not known yet."""

    call_id: str
    kind: str
    task: str
    parent: AgentRun


class ClaudeConversation:
    """Record the hooks and messages of one conversation, and return the output of each hook.

    Args:
        boundary: The boundary at which its runs are recorded.
        goal: The first prompt of the user, where it is known before the conversation begins.
        has_messages: Whether its messages are passed in too; if not, a run ends with each turn.
    """

    def __init__(self, boundary: Boundary, goal: str = "", *, has_messages: bool = False) -> None:
        self.boundary = boundary
        self.has_messages = has_messages
        self.is_waiting = False
        self._main: ReplyRecorder | None = None
        self._has_goal = not goal
        self._subagents: dict[str, ReplyRecorder] = {}
        self._subagent_of_call: dict[str, str] = {}
        self._delegations: list[PendingSubagent] = []
        self._asked: dict[str, Instruction] = {}
        self._ended_calls: BoundedDict[str, None] = BoundedDict(_MAX_ENDED_CALLS)
        self._cost_usd = 0.0
        if goal:
            self._start(goal)

    @property
    def stopped(self) -> RunStopped | None:
        """The stop of the conversation, if there is one."""
        return self._main.run.stopped if self._main is not None else None

    def activate(self) -> AbstractContextManager[None]:
        """Make the run of the conversation current inside the block, once it has started."""
        return self._main.run.activate() if self._main is not None else nullcontext()

    # --- the hooks -------------------------------------------------------------------------------

    def is_waiting_for_message(self, event: object, call_id: object) -> bool:
        """Return whether the message that this hook event is about has not been read yet."""
        if not self.is_waiting or self._main is None:
            return False
        if event == "PreToolUse":
            return not any(call_id in it.calls_shown for it in (self._main, *self._subagents.values()))
        return event == "Stop" and not self._main.is_partial

    def handle_hook(self, payload: Mapping[str, Any]) -> HookOutput:
        """Record a hook event, and return the output of the hook."""
        step = claude_code.read(payload)
        if step.event == "SubagentStart":
            self._find_or_start_subagent(step, get_text(payload, "agent_type"))
            return {}
        recorder = self._find_or_start(step, get_text(payload, "agent_type"))
        if recorder is None:
            return {}
        if step.kind == "before_tool":
            return self._before_tool(recorder, step)
        if step.kind in {"after_tool", "after_batch"}:
            self._after_tool(recorder, step)
            return self._guide(recorder, step, recorder.run.take_instruction("after_tool"))
        if step.kind in {"prompt", "notice"}:
            self._record_prompt(recorder, step)
            return self._guide(recorder, step, recorder.run.take_instruction("before_model"))
        self._end_turn(recorder, step, busy=bool(payload.get("background_tasks")))
        return {}

    def _before_tool(self, recorder: ReplyRecorder, step: HookStep) -> HookOutput:
        run = recorder.run
        recorder.begin_calls(step)
        if run.stopped is not None:
            # The other calls of the stopped reply are still reported.
            self._mark_ended(step.call_id)
            self.boundary.monitor.call_refused(
                step.tool, reason=NOT_CALLED["stop"], call_id=step.call_id, run_id=run.run_id
            )
            return _deny(step, NOT_CALLED["stop"], stops=True)
        instruction = run.before_tool(step.call_id, step.tool, step.args)
        if instruction.verdict == "proceed":
            if step.tool in _AGENT_TOOLS:
                args = step.args if is_a(step.args, dict) else {}
                delegation = PendingSubagent(
                    step.call_id, get_text(args, "subagent_type"), get_text(args, "prompt"), run
                )
                self._delegations.append(delegation)
            return {}
        if instruction.verdict == "ask":
            self._asked[step.call_id] = instruction
            return _make_output(step, permissionDecision="ask", permissionDecisionReason=instruction.text)
        self._mark_ended(step.call_id)
        if instruction.verdict == "stop" and not self.has_messages:
            run.end()
        return _deny(step, instruction.text, stops=instruction.verdict == "stop")

    def _after_tool(self, recorder: ReplyRecorder, step: HookStep) -> None:
        if step.kind == "after_batch":
            recorder.end_calls(step)
            for call in step.calls:
                if not self._mark_ended(call.call_id):
                    self._record_unmade_call(recorder.run, call)
        elif not self._mark_ended(step.call_id):
            asked = self._asked.pop(step.call_id, None)
            if asked is not None:
                recorder.run.apply_answer(True, asked, step.call_id)
            if step.error is not None:
                self._delegations = [it for it in self._delegations if it.call_id != step.call_id]
            recorder.run.after_tool(step.call_id, step.result, error=step.error)

    def _record_unmade_call(self, run: AgentRun, call: BatchCall) -> None:
        """Record a call that was not made: no tool, bad arguments, no permission, or refused by the user."""
        asked = self._asked.pop(call.call_id, None)
        if asked is not None:
            run.apply_answer(call.told, asked, call.call_id)
        else:
            run.record_call(call.call_id, call.tool, call.args, error=call.told or "not called")

    def _record_prompt(self, recorder: ReplyRecorder, step: HookStep) -> None:
        recorder.failed = False
        recorder.end_turn()
        self._asked.clear()
        if step.kind == "notice":
            recorder.run.record_state("harness", text=step.text[:200])
        elif self._has_goal:
            recorder.run.record_user_message(step.text)
        self._has_goal = True

    def _end_turn(self, recorder: ReplyRecorder, step: HookStep, *, busy: bool) -> None:
        if step.error is not None:
            recorder.fail(step.error)
        else:
            recorder.end_turn_reply(step)
        if recorder is not self._main:
            recorder.settle()
            self._subagents.pop(step.part, None)
        elif self.has_messages or busy:
            return
        recorder.run.end(outcome="error: the model failed" if step.error is not None else "")

    def _guide(self, recorder: ReplyRecorder, step: HookStep, instruction: Instruction) -> HookOutput:
        if instruction.verdict == "stop":
            if not self.has_messages:
                recorder.run.end()
            return {"continue_": False, "stopReason": instruction.text}
        return _make_output(step, additionalContext=instruction.text) if instruction.text else {}

    # --- the messages ----------------------------------------------------------------------------

    def show_reply(self, reply: ShownReply, *, calls: tuple[str, ...], parent_call: str | None) -> None:
        """Take in a reply, or a part of one, from a message."""
        recorder = self._find_recorder(parent_call)
        if recorder is not None:
            recorder.calls_shown.update(calls)
            recorder.show(reply)

    def show_failure(self, error: str, *, parent_call: str | None) -> None:
        """Record that a message reports a failure of the model."""
        recorder = self._find_recorder(parent_call)
        if recorder is not None:
            recorder.fail(error)

    def note_subagent(self, part: str, call_id: str | None) -> None:
        """Note which call a sub-agent belongs to."""
        if call_id:
            self._subagent_of_call[call_id] = part

    def show_turn_end(self, *, input_tokens: int, output_tokens: int, total_cost_usd: float | None) -> None:
        """Record the tokens of a turn that ended, and its cost, from the cost of all turns so far."""
        if self._main is None:
            return
        total = total_cost_usd or 0.0
        # A conversation that was cleared counts from zero again.
        cost = total - self._cost_usd if total >= self._cost_usd else total
        self._cost_usd = total
        self._main.add_turn_usage(input_tokens, output_tokens, cost)
        self._main.end_turn()

    # --- the end ---------------------------------------------------------------------------------

    def finish(self, error: BaseException | None = None) -> BaseException | None:
        """End the conversation. Returns the exception for its caller, if any."""
        for part in self._subagents.values():
            part.run.end()
        if self._main is None or self._main.run.has_ended:
            return self.stopped or error
        self._main.settle()
        is_recorded = self._main.failed and is_a(error, Exception)
        outcome = f"error: {type(error).__name__}" if is_recorded and self.stopped is None else ""
        self._main.run.end(None if is_recorded else error, outcome=outcome)
        return self.stopped or error

    def find_unraised_stop(self) -> RunStopped | None:
        """Return a stop that was not raised, because no message was read since."""
        is_open = self._main is not None and not self._main.run.has_ended
        return self.stopped if is_open else None

    # --- inside ----------------------------------------------------------------------------------

    def _start(self, goal: str) -> ReplyRecorder:
        self._main = ReplyRecorder(
            self.boundary.start_run(goal), has_messages=self.has_messages, since=time.time()
        )
        return self._main

    def _find_or_start(self, step: HookStep, kind: str) -> ReplyRecorder | None:
        if step.part:
            return self._find_or_start_subagent(step, kind)
        if self._main is not None and not self._main.run.has_ended:
            return self._main
        if step.kind == "prompt":
            self._has_goal = not step.text
            return self._start(step.text)
        if self.stopped is not None or step.kind == "reply":
            return self._main
        return self._start("")

    def _find_or_start_subagent(self, step: HookStep, kind: str) -> ReplyRecorder:
        known = self._subagents.get(step.part)
        if known is not None and not known.run.has_ended:
            return known
        matching = [it for it in self._delegations if it.kind == kind] or self._delegations
        delegation = matching[0] if matching else None
        if delegation is not None:
            self._delegations.remove(delegation)
            self._subagent_of_call.setdefault(delegation.call_id, step.part)
        parent = delegation.parent if delegation is not None else self._main.run if self._main else None
        run = self.boundary.start_run(
            delegation.task if delegation is not None else "", parent=parent, agent=kind
        )
        self._subagents[step.part] = ReplyRecorder(run, has_messages=self.has_messages, since=0.0)
        return self._subagents[step.part]

    def _find_recorder(self, parent_call: str | None) -> ReplyRecorder | None:
        if parent_call is None:
            return self._main
        return self._subagents.get(self._subagent_of_call.get(parent_call, ""))

    def _mark_ended(self, call_id: str) -> bool:
        """Mark a call as ended; return whether it was already."""
        if call_id in self._ended_calls:
            return True
        self._ended_calls[call_id] = None
        return False


def _make_output(step: HookStep, **fields: str) -> HookOutput:
    return {"hookSpecificOutput": {"hookEventName": step.event, **fields}}


def _deny(step: HookStep, text: str, *, stops: bool) -> HookOutput:
    """Return a denial; a stop needs both the denial and the end of the turn."""
    denial = _make_output(step, permissionDecision="deny", permissionDecisionReason=text)
    return {**denial, "continue_": False, "stopReason": text} if stops else denial
