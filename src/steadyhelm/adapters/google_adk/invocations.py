"""Invocations of Google ADK: their runs, the calls that wait for the user, and the edits of requests."""

import asyncio
import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, Final, NamedTuple, Self

from msgspec import structs

from steadyhelm.adapter import Capabilities, Instruction
from steadyhelm.adapters.google_adk.translate import find_stop, read_goal, read_text
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import Boundary
from steadyhelm.bounded import BoundedDict
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import RunStopped

MAX_INVOCATIONS: Final = 10_000
MODEL_CALL: Final = "model"
NO_REPLY: Final = "the model returned no complete reply"

# The runs whose tool call encloses the code running now, one for each monitor. Each call has a task, and so
# a context, of its own.
_calling_runs: Final[ContextVar[tuple[AgentRun, ...]]] = ContextVar("steadyhelm_adk_calling", default=())


def make_session_key(app: str, user: str, session: str) -> str:
    """Return the key of a session: its id is unique only for one user of one app."""
    return f"{app}/{user}/{session}"


class InvocationView(NamedTuple):
    """The session, branch and agent of a step.

    Agents in one branch of a session share a conversation, and each sees it in its own way.
    """

    session: str
    branch: str
    agent: str

    @classmethod
    def from_context(cls, context: Any) -> Self:
        """Return the view of a callback's context."""
        it = context.session
        agent = getattr(getattr(context, "agent", None), "name", "") or getattr(context, "agent_name", "")
        return cls(make_session_key(it.app_name, it.user_id, it.id), context.branch or "", agent or "")

    def __str__(self) -> str:
        return "/".join(self)


def find_calling_run(monitor: Monitor) -> AgentRun | None:
    """Return the run whose tool call encloses the code running now: of this monitor, else of another."""
    runs = _calling_runs.get()
    return next((run for run in runs if run.boundary.monitor is monitor), runs[-1] if runs else None)


def enter_call(run: AgentRun) -> None:
    """Make this context part of a call of the run: runs that start here are its children."""
    others = (it for it in _calling_runs.get() if it.boundary.monitor is not run.boundary.monitor)
    _calling_runs.set((*others, run))
    inside = run.activate()
    inside.__enter__()
    # Exit in a copy of the context: this one, which ends with the call, stays inside.
    copy_context().run(inside.__exit__, None, None, None)


class Invocation:
    """One invocation: its runs by branch, its open calls, and those that wait for the user.

    `modelless_agents` are its agents without a model, or with one that no callback reports.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.is_nested = bool(_calling_runs.get())
        self.runs: dict[str, AgentRun] = {}
        self.modelless_agents: set[str] = set()
        self.open_calls: set[str] = set()
        self.paused_calls: set[str] = set()
        self.asked: dict[str, tuple[AgentRun, Instruction]] = {}
        self.answered_calls: dict[str, Instruction] = {}
        self.code: dict[str, str] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether it continues once the user answers; an agent inside a tool never does."""
        return bool(self.paused_calls) and not self.is_nested

    @property
    def stopped(self) -> RunStopped | None:
        """The stop of one of its runs, if there is one."""
        return next((run.stopped for run in self.runs.values() if run.stopped is not None), None)

    def find_run(self, at: Any) -> AgentRun | None:
        """Return the run of the branch of a context or an event; None when it has none yet."""
        return self.runs.get(at.branch or "")

    def find_enclosing_run(self, branch: str) -> AgentRun:
        """Return the run of the nearest branch that encloses this one."""
        while branch and branch not in self.runs:
            branch = branch.rpartition(".")[0]
        return self.runs[branch]


class Invocations:
    """The live invocations.

    Args:
        boundary: The boundary at which their runs are recorded.
        nested_can: The capabilities in an agent inside a tool, where they are fewer.
    """

    def __init__(self, boundary: Boundary, nested_can: Capabilities | None = None) -> None:
        self._boundary = boundary
        self._nested_can = nested_can
        self._live: dict[str, Invocation] = {}
        self._tasks: dict[str, tuple[asyncio.Task[Any], Callable[[asyncio.Task[Any]], None]]] = {}

    def get(self, invocation_id: str) -> Invocation | None:
        """Return a live invocation."""
        return self._live.get(invocation_id)

    def start(self, context: Any, goal: str | None = None) -> Invocation:
        """Start an invocation, or return the live one that continues."""
        invocation = self._live.get(context.invocation_id)
        if invocation is None:
            invocation = self._start(context, read_text(context.user_content) if goal is None else goal)
        self._watch_task(context.invocation_id)
        return invocation

    def find_run(self, context: Any, contents: Sequence[Any] = ()) -> AgentRun | None:
        """Return the run of a context; starts one for a branch that has none.

        An agent in a branch of its own has its own conversation: `contents`, where it is known.
        """
        invocation = self._live.get(context.invocation_id)
        if invocation is None:
            return None
        return invocation.find_run(context) or self.start_branch(
            invocation, context, InvocationView.from_context(context).agent, contents
        )

    def start_branch(
        self, invocation: Invocation, at: Any, agent: str, contents: Sequence[Any] = ()
    ) -> AgentRun:
        """Return the run of the branch of a context or an event; starts it where there is none."""
        branch = at.branch or ""
        if branch not in invocation.runs:
            parent = invocation.find_enclosing_run(branch)
            goal = read_goal(contents) or parent.goal
            key = (at.invocation_id, branch)
            invocation.runs[branch] = self._boundary.start_run(goal, key=key, parent=parent, agent=agent)
        return invocation.runs[branch]

    def end(self, invocation_id: str, error: BaseException | None = None, *, abandoned: bool = False) -> None:
        """End an invocation. One that waits for the user stays live, unless it failed or was abandoned."""
        invocation = self._live.get(invocation_id)
        if invocation is None or (invocation.is_waiting and error is None and not abandoned):
            return
        self._live.pop(invocation_id, None)
        self._forget_task(invocation_id)
        early = "left early" if abandoned else ""
        for branch, run in sorted(invocation.runs.items(), reverse=True):
            if run.is_asking and error is None:
                run.after_model(key=MODEL_CALL, error=NO_REPLY)
            if branch:
                run.end(outcome="left early" if error is not None else early)
            else:
                run.end(find_stop(error) or invocation.stopped or error, outcome=early)

    def abandon_waiting(self, session: str | None = None) -> None:
        """End the invocations of a session, or of all, that wait for an answer of the user."""
        for invocation_id, invocation in list(self._live.items()):
            if invocation.is_waiting and session in {None, invocation.session}:
                self.end(invocation_id, abandoned=True)

    def abandon_task(self, task: "asyncio.Task[Any] | None", session: str) -> None:
        """End what this task started in this session, unless it waits for the user."""
        for invocation_id, (known, _) in list(self._tasks.items()):
            invocation = self._live.get(invocation_id)
            if (
                known is task
                and invocation is not None
                and invocation.session == session
                and not invocation.is_waiting
            ):
                self.end(invocation_id, abandoned=True)

    # --- inside ----------------------------------------------------------------------------------

    def _start(self, context: Any, goal: str) -> Invocation:
        view = InvocationView.from_context(context)
        # With the plugin alone, without our runner, nothing reports an invocation that timed out.
        self.abandon_task(asyncio.current_task(), view.session)
        invocation = self._live[context.invocation_id] = Invocation(view.session)
        invocation.runs[""] = run = self._boundary.start_run(
            goal,
            key=(context.invocation_id, ""),
            parent=find_calling_run(self._boundary.monitor),
            agent=view.agent,
            metadata={"session": context.session.id},
        )
        if invocation.is_nested and self._nested_can is not None:
            run.set_capabilities(self._nested_can)
        if len(self._live) > MAX_INVOCATIONS:
            self.end(next(iter(list(self._live))), abandoned=True)
        return invocation

    def _watch_task(self, invocation_id: str) -> None:
        """End the invocation with its task: plugins are not called for one that is cancelled."""
        task = asyncio.current_task()
        known = self._tasks.get(invocation_id)
        if task is None or (known is not None and known[0] is task):
            return
        self._forget_task(invocation_id)
        on_done = functools.partial(self._end_with_task, invocation_id)
        task.add_done_callback(on_done)
        self._tasks[invocation_id] = (task, on_done)

    def _forget_task(self, invocation_id: str) -> None:
        known = self._tasks.pop(invocation_id, None)
        if known is not None:
            task, on_done = known
            task.remove_done_callback(on_done)

    def _end_with_task(self, invocation_id: str, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(invocation_id, None)
        invocation = self._live.get(invocation_id)
        if invocation is not None and (task.cancelled() or not invocation.is_waiting):
            self.end(invocation_id, abandoned=True)


class RequestEdits:
    """The edits of every conversation, by the view of it. Sessions are not changed.

    Args:
        make_message: Makes a message of the user from a text.
    """

    def __init__(self, make_message: Callable[[str], Any]) -> None:
        self._make_message = make_message
        self._edits: BoundedDict[InvocationView, ConversationEdits] = BoundedDict(MAX_INVOCATIONS)

    def read_state(self, context: Any, request: Any) -> str | None:
        """Return the state of the conversation; None where its positions may change with the next request."""
        if request.previous_interaction_id:
            return None
        if getattr(context.get_invocation_context().agent, "static_instruction", None):
            return None
        return f"{ConversationEdits.state(request.contents)} {InvocationView.from_context(context)}"

    def apply(self, run: AgentRun, instruction: Instruction, context: Any, request: Any) -> None:
        """Apply an instruction to this request and to all later ones of the same view."""
        if instruction.verdict == "proceed" and not self._edits:
            return
        view = InvocationView.from_context(context)
        edits = self._edits.get(view)
        if instruction.verdict in {"guide", "rollback"}:
            edits = edits or ConversationEdits()
            self._edits[view] = edits
            edits.add(_localize(run, instruction, view), len(request.contents))
        if edits is not None:
            request.contents = edits.apply(request.contents, self._make_message)


def _localize(run: AgentRun, instruction: Instruction, view: InvocationView) -> Instruction:
    """Return the instruction with the message count of this agent's own view."""
    if instruction.checkpoint is None:
        return instruction
    length, _, owner = instruction.checkpoint.label.partition(" ")
    if owner == str(view):
        return structs.replace(instruction, checkpoint=structs.replace(instruction.checkpoint, label=length))
    run.report_failed_rollback("the checkpoint is in another agent's view of the conversation")
    return Instruction(verdict="guide", text=instruction.text, decision=instruction.decision)
