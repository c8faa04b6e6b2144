"""The run of a workflow that works now, found by everything that happens inside it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import Boundary
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.forks import ForkSafeLock
from steadyhelm.host_objects import is_a


class WorkflowRun:
    """One run of a workflow.

    The run of an agent starts with it. A workflow of another kind may have nothing to do with models: its
    run starts with its first call of a model or tool.

    Args:
        boundary: Where the run is started.
        goal: What the workflow was asked.
        name: The name of the agent or workflow.
    """

    def __init__(self, boundary: Boundary, goal: str, name: str) -> None:
        self.boundary = boundary
        self._goal, self._name = goal, name
        self._run: AgentRun | None = None
        self._edits = ConversationEdits()
        self._lock = ForkSafeLock()

    @property
    def run(self) -> AgentRun:
        """The run, started when it is first needed."""
        with self._lock:
            if self._run is None:
                self._run = self.boundary.start_run(self._goal, agent=self._name)
            return self._run

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Let what starts inside the block belong to this run."""
        token, tool_token = _current.set(self), _is_in_tool.set(False)
        try:
            if self._run is None:
                yield
            else:
                with self._run.activate():
                    yield
        finally:
            _is_in_tool.reset(tool_token)
            _current.reset(token)

    @contextmanager
    def call_tool(self) -> Iterator[None]:
        """Let a tool work inside the block: what it calls is its own, but agents in it are children."""
        token = _is_in_tool.set(True)
        try:
            with self.run.activate():
                yield
        finally:
            _is_in_tool.reset(token)

    def finish(self, error: BaseException | None, *, outcome: str = "") -> None:
        """End the run, if it was started."""
        if self._run is not None:
            self._run.finish(error, outcome=outcome)

    def edit_request(self, key: str, given: Any, make_message: Callable[[str], Any]) -> Any:
        """Announce a model call; return its messages, or its prompt, with guidance and rollbacks applied."""
        messages = given if is_a(given, (list, tuple)) else ()
        instruction = self.run.before_model(key=key, state=ConversationEdits.state(messages))
        if is_a(given, str):
            return f"{given}\n\n{instruction.text}" if instruction.text else given
        self._edits.add(instruction, len(messages))
        edited = self._edits.apply(messages, make_message)
        return edited if len(edited) != len(messages) or instruction.verdict == "rollback" else given


def find_workflow_run() -> WorkflowRun | None:
    """Return the run of the workflow whose own step is executing; None inside its tools."""
    return None if _is_in_tool.get() else _current.get()


def find_enclosing_run() -> WorkflowRun | None:
    """Return the run of the workflow that the code now executing belongs to, inside its tools too."""
    return _current.get()


_current: Final[ContextVar[WorkflowRun | None]] = ContextVar("steadyhelm_llama_index_run", default=None)
_is_in_tool: Final[ContextVar[bool]] = ContextVar("steadyhelm_llama_index_tool", default=False)
