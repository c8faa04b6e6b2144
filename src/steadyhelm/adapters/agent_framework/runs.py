"""The runs of Agent Framework's agents: how they begin, pause for the user, go on, and end."""

import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.adapter import Capabilities, Instruction
from steadyhelm.adapters.agent_framework.messages import Wanted, call_id_of, contents_of, goal_of, value_of
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import Boundary

CAN: Final[Capabilities] = {
    "before_model": frozenset({"guide", "rollback", "stop"}),
    "before_tool": frozenset({"deny", "stop"}),
}
CAN_APPROVE: Final[Capabilities] = {**CAN, "before_tool": frozenset({"deny", "ask", "stop"})}

_PAUSED_KEPT: Final = 1000
_COMES_BACK: Final = ("function_approval_response", "function_result")


class Live(Struct):
    """One run: the edits of its session, by agent, what the model asked for, what waits for the user."""

    run: AgentRun
    agent_id: str
    edits: dict[str, ConversationEdits]
    wanted: dict[str, Wanted] = field(default_factory=dict)
    asked: dict[str, Instruction] = field(default_factory=dict)
    allowed: set[str] = field(default_factory=set)
    asking: set[str] = field(default_factory=set)
    exhausted: bool = False

    @contextmanager
    def activate(self) -> Iterator[None]:
        """A block of code that is the agent at work."""
        token = _inside.set((*_inside.get(), self))
        try:
            with self.run.activate():
                yield
        finally:
            _inside.reset(token)

    def tell_calls_made_elsewhere(self, messages: Sequence[Any]) -> None:
        """Results that no function middleware saw: of unknown functions, or brought by the caller."""
        if not self.wanted:
            return
        for piece in contents_of(messages):
            if piece.type != "function_result" or piece.call_id not in self.wanted:
                continue
            value = value_of(piece.items) if piece.items else piece.result
            wanted = self.wanted.pop(piece.call_id)
            self.run.record_call(piece.call_id, *wanted, value, error=piece.exception)


# The runs that the code now running is inside of, outermost first; other monitors' agents may be among them.
_inside: Final[ContextVar[tuple[Live, ...]]] = ContextVar("steadyhelm_agent_framework", default=())

# Runs that wait for the user, by the ids of the calls it is about: the agent may be built anew in between.
_paused: Final[weakref.WeakKeyDictionary[Any, OrderedDict[str, Live]]] = weakref.WeakKeyDictionary()


class Runs:
    """The runs of one monitor's agents.

    Args:
        boundary: Where they are told.
    """

    def __init__(self, boundary: Boundary) -> None:
        self.boundary = boundary
        self.monitor = boundary.monitor
        self._paused = _paused.setdefault(self.monitor, OrderedDict())
        self._edits: weakref.WeakKeyDictionary[Any, dict[str, ConversationEdits]] = (
            weakref.WeakKeyDictionary()
        )

    def here(self) -> Live | None:
        """The run that the code now running belongs to."""
        ours = (it for it in reversed(_inside.get()) if it.run.boundary.monitor is self.monitor)
        return next(ours, None)

    def is_first(self, context: Any) -> bool:
        """Whether nobody watches this call yet: the middlewares may be given to an agent twice."""
        mark = f"steadyhelm {id(self.monitor)}"
        if self.monitor.disabled or mark in context.metadata:
            return False
        context.metadata[mark] = True
        return True

    def begin(self, context: Any) -> Live:
        """A run begins, or one that waited for the user goes on."""
        messages = context.messages
        answers = [it for it in contents_of(messages) if it.type in _COMES_BACK]
        paused = [live for it in answers if (live := self._paused.pop(call_id_of(it), None)) is not None]
        if paused:
            _take_answers(paused[0], messages)
            return paused[0]
        run = self.boundary.start_run(goal_of(messages), agent=str(context.agent.name or ""))
        if _inside.get():
            run.set_capabilities(
                CAN
            )  # whoever called it, a tool perhaps, does not expect it to come back with a question
        return Live(run, str(context.agent.id), self._edits_of(context))

    def end(self, live: Live, error: BaseException | None, response: Any = None) -> None:
        """A run is over, or waits for the user; raises what its caller shall receive."""
        run = live.run
        for key in live.asking:
            run.after_model(key=key)  # a model call that was left
        live.asking.clear()
        requests = list(getattr(response, "user_input_requests", None) or ())
        if error is None and run.stopped is None and requests:
            self._pause(live, requests)
            return
        if error is not None and run.stopped is None:
            for call_id, wanted in live.wanted.items():
                run.record_failed_call(call_id, *wanted, error=error)
        left = run.finish(error)
        if left is not None and left is not error:
            raise left from error

    def _pause(self, live: Live, requests: list[Any]) -> None:
        for request in requests:
            self._paused[call_id_of(request)] = live
        while len(self._paused) > _PAUSED_KEPT:
            self._paused.popitem(last=False)[1].run.end(outcome="left at a question")

    def _edits_of(self, context: Any) -> dict[str, ConversationEdits]:
        """A conversation's edits last as long as its session."""
        return {} if context.session is None else self._edits.setdefault(context.session, {})


def _take_answers(live: Live, messages: Sequence[Any]) -> None:
    """The user has answered. What is refused, the framework tells the model without asking us again."""
    from_here = next(n for n, it in enumerate(messages) if any(c.type in _COMES_BACK for c in it.contents))
    words = goal_of(messages[from_here:])
    was_asked = False
    for answer in contents_of(messages[from_here:]):
        instruction = live.asked.pop(call_id_of(answer), None)
        if instruction is None:
            continue
        was_asked = True
        said = True if answer.approved else words or False
        if live.run.apply_answer(said, instruction, call_id_of(answer)).verdict == "proceed":
            live.allowed.add(call_id_of(answer))
    if words and not was_asked:
        live.run.record_user_message(words)
