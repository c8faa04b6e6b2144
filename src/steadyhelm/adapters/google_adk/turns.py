"""Which runs belong to an invocation of Google ADK, and what in it waits for the user."""

import asyncio
import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, Final, NamedTuple, Self

from steadyhelm.adapter import Capabilities, Instruction
from steadyhelm.adapters.google_adk.contents import stop_in, task_in, text_of
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.driver import Boundary
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import RunStopped

KEPT: Final = 10_000
MODEL: Final = "model"
NO_ANSWER: Final = "the model gave no whole answer"

# The runs whose tool the code now running is part of, one for each monitor that watches: each call works in a
# task, and so in a context, of its own.
_calling: Final[ContextVar[tuple[AgentRun, ...]]] = ContextVar("steadyhelm_adk_calling", default=())


def session_name(app: str, user: str, session: str) -> str:
    """What a session is known by here: its id is its own only among those of one user of one app."""
    return f"{app}/{user}/{session}"


class HookPoint(NamedTuple):
    """Where a step is taken.

    Agents in one branch of a session share a conversation, and each is shown it in its own way.
    """

    session: str
    branch: str
    agent: str

    @classmethod
    def of(cls, context: Any) -> Self:
        """Where a callback is called."""
        it = context.session
        agent = getattr(getattr(context, "agent", None), "name", "") or getattr(context, "agent_name", "")
        return cls(session_name(it.app_name, it.user_id, it.id), context.branch or "", agent or "")

    def __str__(self) -> str:
        return "/".join(self)


def caller(monitor: Monitor) -> AgentRun | None:
    """The run that the code now running works for: the one of this monitor, else of whoever watches."""
    runs = _calling.get()
    return next((run for run in runs if run.boundary.monitor is monitor), runs[-1] if runs else None)


def calls(run: AgentRun) -> None:
    """From here on the code in this context works for a call of this run: what begins here is its child."""
    others = (it for it in _calling.get() if it.boundary.monitor is not run.boundary.monitor)
    _calling.set((*others, run))
    inside = run.activate()
    inside.__enter__()
    # Left in a copy of the context: this one, which ends with the call, stays inside.
    copy_context().run(inside.__exit__, None, None, None)


class Turn:
    """One invocation: its runs by branch, its calls that are on their way, and those that wait for the user.

    `speakers` are its agents that no model speaks for, or none that we are told of.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.is_nested = bool(_calling.get())
        self.runs: dict[str, AgentRun] = {}
        self.speakers: set[str] = set()
        self.going: set[str] = set()
        self.paused: set[str] = set()
        self.asked: dict[str, tuple[AgentRun, Instruction]] = {}
        self.settled: dict[str, Instruction] = {}
        self.code: dict[str, str] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether it goes on when the user has answered; an agent inside a tool is never taken up again."""
        return bool(self.paused) and not self.is_nested

    @property
    def stopped(self) -> RunStopped | None:
        """Why it was stopped, if it was."""
        return next((run.stopped for run in self.runs.values() if run.stopped is not None), None)

    def at(self, place: Any) -> AgentRun | None:
        """The run of the branch that a context, or an event, is in; None when nobody has worked there yet."""
        return self.runs.get(place.branch or "")

    def around(self, branch: str) -> AgentRun:
        """The run of the nearest branch that this one came from."""
        while branch and branch not in self.runs:
            branch = branch.rpartition(".")[0]
        return self.runs[branch]


class Turns:
    """The invocations that go on.

    Args:
        boundary: Where their runs are told of.
        nested_can: What can be carried out in an agent that works inside a tool, where that is less.
    """

    def __init__(self, boundary: Boundary, nested_can: Capabilities | None = None) -> None:
        self._boundary = boundary
        self._nested_can = nested_can
        self._turns: dict[str, Turn] = {}
        self._tasks: dict[str, tuple[asyncio.Task[Any], Callable[[asyncio.Task[Any]], None]]] = {}

    def get(self, invocation_id: str) -> Turn | None:
        """An invocation that goes on."""
        return self._turns.get(invocation_id)

    def begin(self, context: Any, goal: str | None = None) -> Turn:
        """An invocation begins, or is taken up again."""
        turn = self._turns.get(context.invocation_id)
        if turn is None:
            turn = self._begun(context, text_of(context.user_content) if goal is None else goal)
        self._watch_task(context.invocation_id)
        return turn

    def run(self, context: Any, contents: Sequence[Any] = ()) -> AgentRun | None:
        """The run of this place: an agent in a branch of its own has its own conversation, and its own run.

        `contents` is that conversation, where it is known.
        """
        turn = self._turns.get(context.invocation_id)
        if turn is None:
            return None
        return turn.at(context) or self.branched(turn, context, HookPoint.of(context).agent, contents)

    def branched(self, turn: Turn, at: Any, agent: str, contents: Sequence[Any] = ()) -> AgentRun:
        """A run of the branch that a context, or an event, is in."""
        branch = at.branch or ""
        if branch not in turn.runs:
            parent = turn.around(branch)
            goal = task_in(contents) or parent.goal
            key = (at.invocation_id, branch)
            turn.runs[branch] = self._boundary.start_run(goal, key=key, parent=parent, agent=agent)
        return turn.runs[branch]

    def over(self, invocation_id: str, error: BaseException | None = None, *, left: bool = False) -> None:
        """An invocation is over, or was left; one that waits for the user goes on with their answer."""
        turn = self._turns.get(invocation_id)
        if turn is None or (turn.is_waiting and error is None and not left):
            return
        self._turns.pop(invocation_id, None)
        self._forget_task(invocation_id)
        early = "left early" if left else ""
        for branch, run in sorted(turn.runs.items(), reverse=True):
            if run.is_asking and error is None:
                run.after_model(key=MODEL, error=NO_ANSWER)
            if branch:
                run.end(outcome="left early" if error is not None else early)
            else:
                run.end(stop_in(error) or turn.stopped or error, outcome=early)

    def give_up_waiting(self, session: str | None = None) -> None:
        """Nobody answers any more what was asked in this session, or in any."""
        for invocation_id, turn in list(self._turns.items()):
            if turn.is_waiting and session in {None, turn.session}:
                self.over(invocation_id, left=True)

    def left_by(self, task: "asyncio.Task[Any] | None", session: str) -> None:
        """Nobody goes on with what this task began in this session, unless it waits for the user."""
        for invocation_id, (known, _) in list(self._tasks.items()):
            turn = self._turns.get(invocation_id)
            if known is task and turn is not None and turn.session == session and not turn.is_waiting:
                self.over(invocation_id, left=True)

    # --- inside ----------------------------------------------------------------------------------

    def _begun(self, context: Any, goal: str) -> Turn:
        place = HookPoint.of(context)
        # An app of which only the plugin is ours tells nothing of an invocation that ran out of time.
        self.left_by(asyncio.current_task(), place.session)
        turn = self._turns[context.invocation_id] = Turn(place.session)
        turn.runs[""] = run = self._boundary.start_run(
            goal,
            key=(context.invocation_id, ""),
            parent=caller(self._boundary.monitor),
            agent=place.agent,
            metadata={"session": context.session.id},
        )
        if turn.is_nested and self._nested_can is not None:
            run.set_capabilities(self._nested_can)
        if len(self._turns) > KEPT:
            self.over(next(iter(list(self._turns))), left=True)
        return turn

    def _watch_task(self, invocation_id: str) -> None:
        """A task that is cancelled, or interrupted, tells its plugins nothing: then its end is the end."""
        task = asyncio.current_task()
        known = self._tasks.get(invocation_id)
        if task is None or (known is not None and known[0] is task):
            return
        self._forget_task(invocation_id)
        ended = functools.partial(self._task_ended, invocation_id)
        task.add_done_callback(ended)
        self._tasks[invocation_id] = (task, ended)

    def _forget_task(self, invocation_id: str) -> None:
        known = self._tasks.pop(invocation_id, None)
        if known is not None:
            task, ended = known
            task.remove_done_callback(ended)

    def _task_ended(self, invocation_id: str, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(invocation_id, None)
        turn = self._turns.get(invocation_id)
        if turn is not None and (task.cancelled() or not turn.is_waiting):
            self.over(invocation_id, left=True)
