"""A conversation with Claude Code as its hooks tell it, and, where somebody listens to them, its messages.

The hooks tell of every call and can steer; the messages tell what the model said and what it took.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from msgspec import Struct

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.claude_agent.speaker import Said, Speaker
from steadyhelm.boundary.driver import Boundary
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.pending_decisions import NOT_CALLED
from steadyhelm.errors import RunStopped
from steadyhelm.recordings.hook_events import claude_code
from steadyhelm.recordings.hook_events.hook_step import BatchCall, HookStep, get_text

EVENTS: Final = (*(event for event in claude_code.KINDS if event != "SessionEnd"), "SubagentStart")
"""The events to ask for; the end of a session is not told to whoever started it."""

_AGENT_TOOLS: Final = frozenset({"Agent", "Task"})
_MOST_DONE: Final = 1024

Answer = dict[str, Any]


class Errand(Struct, frozen=True):
    """A task that an agent gives to a sub-agent, which is not known by its own id yet."""

    call_id: str
    kind: str
    task: str
    parent: AgentRun


class Conversation:
    """Hands over what the hooks and messages of one conversation tell, and answers the hooks.

    Args:
        boundary: Where it is handed over.
        goal: What the user asks for first, where that is known before the conversation begins.
        listens: Whether somebody hands over its messages too; if not, a run ends with each turn.
    """

    def __init__(self, boundary: Boundary, goal: str = "", *, listens: bool = False) -> None:
        self.boundary = boundary
        self.listens = listens
        self.is_waiting = False
        self._speaker: Speaker | None = None
        self._heard_first = not goal
        self._parts: dict[str, Speaker] = {}
        self._part_of_call: dict[str, str] = {}
        self._errands: list[Errand] = []
        self._asked: dict[str, Instruction] = {}
        self._done: OrderedDict[str, None] = OrderedDict()
        self._cost_usd = 0.0
        if goal:
            self._begin(goal)

    @property
    def stopped(self) -> RunStopped | None:
        """Why the conversation was stopped, if it was."""
        return self._speaker.run.stopped if self._speaker is not None else None

    def activate(self) -> AbstractContextManager[None]:
        """A block of code that belongs to the conversation's run, once it has begun."""
        return self._speaker.run.activate() if self._speaker is not None else nullcontext()

    # --- the hooks -------------------------------------------------------------------------------

    def awaits(self, event: object, call_id: object) -> bool:
        """Whether the message this event is about is still on its way to somebody who waits for it."""
        if not self.is_waiting or self._speaker is None:
            return False
        if event == "PreToolUse":
            return not any(call_id in it.calls_shown for it in (self._speaker, *self._parts.values()))
        return event == "Stop" and not self._speaker.is_coming

    def hook(self, payload: Mapping[str, Any]) -> Answer:
        """Take one event in, and say what shall be done about it."""
        step = claude_code.read(payload)
        if step.event == "SubagentStart":
            self._part(step, get_text(payload, "agent_type"))
            return {}
        speaker = self._speaker_of(step, get_text(payload, "agent_type"))
        if speaker is None:
            return {}
        if step.kind == "before_tool":
            return self._before(speaker, step)
        if step.kind in {"after_tool", "after_batch"}:
            self._after(speaker, step)
            return self._say(speaker, step, speaker.run.take_instruction("after_tool"))
        if step.kind in {"prompt", "notice"}:
            self._prompted(speaker, step)
            return self._say(speaker, step, speaker.run.take_instruction("before_model"))
        self._turn_over(speaker, step, busy=bool(payload.get("background_tasks")))
        return {}

    def _before(self, speaker: Speaker, step: HookStep) -> Answer:
        run = speaker.run
        speaker.works(step)
        if run.stopped is not None:
            # The other calls of the reply that was stopped come all the same.
            self._is_done(step.call_id)
            self.boundary.monitor.call_refused(
                step.tool, reason=NOT_CALLED["stop"], call_id=step.call_id, run_id=run.run_id
            )
            return _refusal(step, NOT_CALLED["stop"], stops=True)
        instruction = run.before_tool(step.call_id, step.tool, step.args)
        if instruction.verdict == "proceed":
            if step.tool in _AGENT_TOOLS:
                args = step.args if isinstance(step.args, dict) else {}
                task = Errand(step.call_id, get_text(args, "subagent_type"), get_text(args, "prompt"), run)
                self._errands.append(task)
            return {}
        if instruction.verdict == "ask":
            self._asked[step.call_id] = instruction
            return _output(step, permissionDecision="ask", permissionDecisionReason=instruction.text)
        self._is_done(step.call_id)
        if instruction.verdict == "stop" and not self.listens:
            run.end()
        return _refusal(step, instruction.text, stops=instruction.verdict == "stop")

    def _after(self, speaker: Speaker, step: HookStep) -> None:
        if step.kind == "after_batch":
            speaker.has_worked(step)
            for call in step.calls:
                if not self._is_done(call.call_id):
                    self._never_made(speaker.run, call)
        elif not self._is_done(step.call_id):
            asked = self._asked.pop(step.call_id, None)
            if asked is not None:
                speaker.run.apply_answer(True, asked, step.call_id)
            if step.error is not None:
                self._errands = [it for it in self._errands if it.call_id != step.call_id]
            speaker.run.after_tool(step.call_id, step.result, error=step.error)

    def _never_made(self, run: AgentRun, call: BatchCall) -> None:
        """No such tool, bad arguments, no permission; or the user was asked, and said no."""
        asked = self._asked.pop(call.call_id, None)
        if asked is not None:
            run.apply_answer(call.told, asked, call.call_id)
        else:
            run.record_failed_call(call.call_id, call.tool, call.args, error=call.told or "not called")

    def _prompted(self, speaker: Speaker, step: HookStep) -> None:
        speaker.failed = False
        speaker.turn_ends()
        self._asked.clear()
        if step.kind == "notice":
            speaker.run.record_state("harness", text=step.text[:200])
        elif self._heard_first:
            speaker.run.record_user_message(step.text)
        self._heard_first = True

    def _turn_over(self, speaker: Speaker, step: HookStep, *, busy: bool) -> None:
        if step.error is not None:
            speaker.fails(step.error)
        else:
            speaker.replied(step)
        if speaker is not self._speaker:
            speaker.settle()
            self._parts.pop(step.part, None)
        elif self.listens or busy:
            return
        speaker.run.end(outcome="error: the model failed" if step.error is not None else "")

    def _say(self, speaker: Speaker, step: HookStep, instruction: Instruction) -> Answer:
        if instruction.verdict == "stop":
            if not self.listens:
                speaker.run.end()
            return {"continue_": False, "stopReason": instruction.text}
        return _output(step, additionalContext=instruction.text) if instruction.text else {}

    # --- the messages ----------------------------------------------------------------------------

    def reply_shown(self, said: Said, *, calls: tuple[str, ...], parent_call: str | None) -> None:
        """A message shows a reply, or a part of one."""
        speaker = self._shown_by(parent_call)
        if speaker is not None:
            speaker.calls_shown.update(calls)
            speaker.shows(said)

    def failure_shown(self, error: str, *, parent_call: str | None) -> None:
        """A message shows that the model failed."""
        speaker = self._shown_by(parent_call)
        if speaker is not None:
            speaker.fails(error)

    def part_shown(self, part: str, call_id: str | None) -> None:
        """A message shows which call a sub-agent works for."""
        if call_id:
            self._part_of_call[call_id] = part

    def turn_shown(self, *, input_tokens: int, output_tokens: int, total_cost_usd: float | None) -> None:
        """A message shows that a turn is over, what it took, and what all turns so far have cost."""
        if self._speaker is None:
            return
        total = total_cost_usd or 0.0
        # A conversation that was cleared counts from nothing again.
        cost = total - self._cost_usd if total >= self._cost_usd else total
        self._cost_usd = total
        self._speaker.took(input_tokens, output_tokens, cost)
        self._speaker.turn_ends()

    # --- the end ---------------------------------------------------------------------------------

    def finish(self, error: BaseException | None = None) -> BaseException | None:
        """The conversation is over; gives the exception that its caller shall receive, if any."""
        for part in self._parts.values():
            part.run.end()
        if self._speaker is None or self._speaker.run.has_ended:
            return self.stopped or error
        self._speaker.settle()
        told = self._speaker.failed and isinstance(error, Exception)
        outcome = f"error: {type(error).__name__}" if told and self.stopped is None else ""
        self._speaker.run.end(None if told else error, outcome=outcome)
        return self.stopped or error

    def unheard_stop(self) -> RunStopped | None:
        """A stop that nobody was told of, because nobody listened when it came."""
        is_open = self._speaker is not None and not self._speaker.run.has_ended
        return self.stopped if is_open else None

    # --- inside ----------------------------------------------------------------------------------

    def _begin(self, goal: str) -> Speaker:
        self._speaker = Speaker(self.boundary.start_run(goal), listens=self.listens, since=time.time())
        return self._speaker

    def _speaker_of(self, step: HookStep, kind: str) -> Speaker | None:
        if step.part:
            return self._part(step, kind)
        if self._speaker is not None and not self._speaker.run.has_ended:
            return self._speaker
        if step.kind == "prompt":
            self._heard_first = not step.text
            return self._begin(step.text)
        if self.stopped is not None or step.kind == "reply":
            return self._speaker
        return self._begin("")

    def _part(self, step: HookStep, kind: str) -> Speaker:
        known = self._parts.get(step.part)
        if known is not None and not known.run.has_ended:
            return known
        fitting = [it for it in self._errands if it.kind == kind] or self._errands
        errand = fitting[0] if fitting else None
        if errand is not None:
            self._errands.remove(errand)
            self._part_of_call.setdefault(errand.call_id, step.part)
        parent = errand.parent if errand is not None else self._speaker.run if self._speaker else None
        run = self.boundary.start_run(errand.task if errand is not None else "", parent=parent, agent=kind)
        self._parts[step.part] = Speaker(run, listens=self.listens, since=0.0)
        return self._parts[step.part]

    def _shown_by(self, parent_call: str | None) -> Speaker | None:
        if parent_call is None:
            return self._speaker
        return self._parts.get(self._part_of_call.get(parent_call, ""))

    def _is_done(self, call_id: str) -> bool:
        """Whether what came of a call is known already; from now on it is."""
        if call_id in self._done:
            return True
        self._done[call_id] = None
        if len(self._done) > _MOST_DONE:
            self._done.popitem(last=False)
        return False


def _output(step: HookStep, **fields: str) -> Answer:
    return {"hookSpecificOutput": {"hookEventName": step.event, **fields}}


def _refusal(step: HookStep, words: str, *, stops: bool) -> Answer:
    """A denial; a stop is one that also ends the turn: alone neither of the two would do."""
    refusal = _output(step, permissionDecision="deny", permissionDecisionReason=words)
    return {**refusal, "continue_": False, "stopReason": words} if stops else refusal
