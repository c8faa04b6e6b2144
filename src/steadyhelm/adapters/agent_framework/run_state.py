"""The state of one run, and how runs start, pause for the user, resume and end."""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.adapter import Capabilities, Instruction
from steadyhelm.adapters.agent_framework.translate import (
    RequestedCall,
    iter_contents,
    read_call_id,
    read_goal,
    read_result,
)
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import Boundary, RunTable, detach_stop
from steadyhelm.engine.agent_run import AgentRun

CAN: Final[Capabilities] = {
    "before_model": frozenset({"guide", "rollback", "stop"}),
    "before_tool": frozenset({"deny", "stop"}),
}
CAN_APPROVE: Final[Capabilities] = {**CAN, "before_tool": frozenset({"deny", "ask", "stop"})}

_ANSWERS: Final = ("function_approval_response", "function_result")


class AgentFrameworkRunState(Struct):
    """One run: its session's edits by agent, the calls the model requested, and the questions to the user."""

    run: AgentRun
    agent_id: str
    edits: dict[str, ConversationEdits]
    requested: dict[str, RequestedCall] = field(default_factory=dict)
    asked: dict[str, Instruction] = field(default_factory=dict)
    allowed: set[str] = field(default_factory=set)
    open_model_calls: set[str] = field(default_factory=set)
    exhausted: bool = False

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Make this the current run inside the block."""
        token = _inside.set((*_inside.get(), self))
        try:
            with self.run.activate():
                yield
        finally:
            _inside.reset(token)

    def record_outside_results(self, messages: Sequence[Any]) -> None:
        """Record results that no function middleware saw: of unknown functions, or added by the caller."""
        if not self.requested:
            return
        for piece in iter_contents(messages):
            if piece.type != "function_result" or piece.call_id not in self.requested:
                continue
            value = read_result(piece.items) if piece.items else piece.result
            call = self.requested.pop(piece.call_id)
            self.run.record_call(piece.call_id, *call, value, error=piece.exception)


# The runs that enclose the code running now, outermost first; those of other monitors too.
_inside: Final[ContextVar[tuple[AgentFrameworkRunState, ...]]] = ContextVar(
    "steadyhelm_agent_framework", default=()
)

# Paused runs, by monitor and the ids of the calls they wait for: the agent may be built anew in between.
_paused: Final[weakref.WeakKeyDictionary[Any, RunTable[AgentFrameworkRunState]]] = weakref.WeakKeyDictionary()


class AgentFrameworkRuns:
    """The runs of one monitor's agents.

    Args:
        boundary: The boundary at which they are recorded.
    """

    def __init__(self, boundary: Boundary) -> None:
        self.boundary = boundary
        self.monitor = boundary.monitor
        self._paused = _paused.setdefault(self.monitor, RunTable(boundary))
        self._edits: weakref.WeakKeyDictionary[Any, dict[str, ConversationEdits]] = (
            weakref.WeakKeyDictionary()
        )

    def find_current(self) -> AgentFrameworkRunState | None:
        """Return the run that encloses the code running now."""
        ours = (it for it in reversed(_inside.get()) if it.run.boundary.monitor is self.monitor)
        return next(ours, None)

    def is_first(self, context: Any) -> bool:
        """Return whether this call is not recorded yet: an agent may be given the middlewares twice."""
        mark = f"steadyhelm {id(self.monitor)}"
        if self.monitor.disabled or mark in context.metadata:
            return False
        context.metadata[mark] = True
        return True

    def resume_or_start(self, context: Any) -> AgentFrameworkRunState:
        """Start a run, or resume the one that these messages answer."""
        messages = context.messages
        answers = [it for it in iter_contents(messages) if it.type in _ANSWERS]
        paused = self._paused.take(*map(read_call_id, answers))
        if paused is not None:
            _apply_answers(paused, messages)
            return paused
        run = self.boundary.start_run(read_goal(messages), agent=str(context.agent.name or ""))
        if _inside.get():
            # The caller, such as a tool, does not expect a question in place of a result.
            run.set_capabilities(CAN)
        return AgentFrameworkRunState(run, str(context.agent.id), self._find_edits(context))

    def end(self, live: AgentFrameworkRunState, error: BaseException | None, response: Any = None) -> None:
        """End a run, or pause it where it asks the user. Raises the exception for the caller."""
        run = live.run
        for key in live.open_model_calls:
            run.after_model(key=key)  # a model call that was abandoned
        live.open_model_calls.clear()
        requests = list(getattr(response, "user_input_requests", None) or ())
        if error is None and run.stopped is None and requests:
            self._paused.pause(live, *map(read_call_id, requests))
            return
        if error is not None and run.stopped is None:
            for call_id, call in live.requested.items():
                run.record_call(call_id, *call, error=error)
        left = run.finish(error)
        if left is not None and left is not error:
            detach_stop(left, error)
            raise left from error

    def _find_edits(self, context: Any) -> dict[str, ConversationEdits]:
        """Return the edits of a conversation, which last as long as its session."""
        return {} if context.session is None else self._edits.setdefault(context.session, {})


def _apply_answers(live: AgentFrameworkRunState, messages: Sequence[Any]) -> None:
    """Apply the user's answers. The framework reports refused calls to the model without calling us again."""
    from_here = next(n for n, it in enumerate(messages) if any(c.type in _ANSWERS for c in it.contents))
    text = read_goal(messages[from_here:])
    was_asked = False
    for answer in iter_contents(messages[from_here:]):
        instruction = live.asked.pop(read_call_id(answer), None)
        if instruction is None:
            continue
        was_asked = True
        decision = True if answer.approved else text or False
        if live.run.apply_answer(decision, instruction, read_call_id(answer)).verdict == "proceed":
            live.allowed.add(read_call_id(answer))
    if text and not was_asked:
        live.run.record_user_message(text)
