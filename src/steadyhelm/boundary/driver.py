"""The runs of one adapter: start them, find them again, and end them with the right exception.

A stop is recorded before anything raises: however a framework wraps or swallows exceptions, the caller of the
agent receives `RunStopped`.
"""

import contextvars
import inspect
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Final

from steadyhelm.adapter import Capabilities
from steadyhelm.bounded import BoundedDict
from steadyhelm.decisions import Verdict
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.live_runs import find_outer_run_id
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import SettingsError
from steadyhelm.forks import ForkSafeLock

Ask = Callable[[str], str | bool]

_RUNS_KEPT: Final = 10_000

# The runs that adapters started, by id: an agent that starts inside one of them is its child.
_enclosing: Final["weakref.WeakValueDictionary[str, AgentRun]"] = weakref.WeakValueDictionary()


class Boundary:
    """The table of one adapter's runs, for one monitor.

    Args:
        monitor: The monitor.
        source: The adapter's name.
        can: What it can carry out, by hook point.
        ask: Asks the user and returns the answer: a text, or True or False to allow or refuse.
            It is called on the agent's own thread; without it a framework's own way is used, if it has one.
        sees_models: Whether it sees each model call when it happens; if not, calls that run at the same time
            count as asked for together.
        control: Exceptions by which the framework controls its own flow: they are no failures.
        encloses: Whether other agents can start inside its runs; the requests of a client enclose none.
    """

    def __init__(
        self,
        monitor: Monitor,
        source: str,
        can: Capabilities,
        *,
        ask: Ask | None = None,
        sees_models: bool = True,
        control: tuple[type[BaseException], ...] = (),
        encloses: bool = True,
    ) -> None:
        if not isinstance(monitor, Monitor):
            raise SettingsError(f"An agent is watched by a monitor, such as a DriftMonitor; got {monitor!r}.")
        if ask is not None and not callable(ask):
            raise SettingsError(f"ask must be a function that takes a question, got {ask!r}.")
        if inspect.iscoroutinefunction(ask):
            raise SettingsError("ask must be a plain function: the agent waits for the answer where it is.")
        self.monitor = monitor
        self.source = source
        self.ask = ask
        self.sees_models = sees_models
        self.control = control
        self.encloses = encloses
        asking: frozenset[Verdict] = frozenset(("ask",) if ask is not None else ())
        self.can = {place: frozenset(verdicts) | asking for place, verdicts in can.items()}
        proceed: frozenset[Verdict] = frozenset(("proceed",))
        self.verdicts = proceed.union(*self.can.values())
        self._runs: BoundedDict[Hashable, AgentRun] = BoundedDict(_RUNS_KEPT)
        self._starting: dict[Hashable, ForkSafeLock] = {}
        self._lock = ForkSafeLock()

    def start_run(
        self,
        goal: str = "",
        *,
        key: Hashable = None,
        parent: AgentRun | None = None,
        agent: str = "",
        metadata: dict[str, Any] | None = None,
    ) -> AgentRun:
        """Start a run and return it; return the run known under that key while it has not ended.

        Inside a watched run it is a child of it; inside a run that the host opened itself it joins that run.
        The context stays as it is: see `AgentRun.activate`.
        """
        if key is None:
            return self._start(goal, None, parent, agent, metadata)
        with self._lock:
            known = self.find_run(key)
            starting = self._starting.setdefault(key, ForkSafeLock()) if known is None else None
        if known is not None:
            return known
        assert starting is not None
        # Only a second surface of the same run waits here; the table's lock is not held meanwhile.
        with starting:
            return self.find_run(key) or self._start(goal, key, parent, agent, metadata)

    def _start(
        self,
        goal: str,
        key: Hashable,
        parent: AgentRun | None,
        agent: str,
        metadata: dict[str, Any] | None,
    ) -> AgentRun:
        outer = find_outer_run_id()
        parent = parent or _enclosing.get(outer or "")
        host_run = self.monitor.current_run if parent is None else None
        details = {"source": self.source, **({"agent": agent} if agent else {}), **(metadata or {})}
        run_id = host_run or contextvars.copy_context().run(
            self.monitor.start_run,
            goal=goal or None,
            task_type=agent if parent is not None else "",
            parent_run_id=parent.run_id if parent is not None else outer,
            metadata=details,
        )
        run = AgentRun(self, run_id, goal, joined=host_run is not None)
        with self._lock:
            if self.encloses:
                _enclosing[run_id] = run
            dropped = self._runs.put(key if key is not None else run_id, run)
            self._starting.pop(key, None)
        if dropped is not None:
            self.monitor.health.count("watched run forgotten to make room")
        if goal:
            run.record_user_message(goal)
        return run

    def find_run(self, key: Hashable) -> AgentRun | None:
        """Return the run known under this key while it has not ended."""
        with self._lock:
            run = self._runs.get(key)
        return run if run is not None and not run.has_ended else None

    def run(self, goal: str = "", **options: Any) -> "RunContext":
        """Return a run as a context manager for the outermost call; takes what `start_run` takes."""
        return RunContext(self, goal, options)

    @contextmanager
    def guard(self, where: str) -> Iterator[None]:
        """Count errors of ours that are raised in the block, and hide them from the agent."""
        try:
            yield
        except BaseException as exc:  # noqa: BLE001 - not even an exit that an object of the host raises
            self.monitor.health.swallow(f"{self.source} adapter, {where}", exc)

    def forget(self, run: AgentRun) -> None:
        """Forget a run that has ended."""
        with self._lock:
            for key in [key for key, known in self._runs.items() if known is run]:
                del self._runs[key]
        if _enclosing.get(run.run_id) is run:
            del _enclosing[run.run_id]


def is_asking() -> bool:
    """Return whether the code now executing belongs to a model call that a watched run reports already."""
    run = _enclosing.get(find_outer_run_id() or "")
    return run is not None and run.is_asking


class RunContext:
    """The outermost call of an agent, for `with` and `async with`.

    An exception that leaves the block passes unchanged, unless the run was stopped: then it is `RunStopped`,
    whatever the framework made of it, and also where the framework made nothing of it.
    """

    def __init__(self, boundary: Boundary, goal: str, options: dict[str, Any]) -> None:
        self._boundary, self._goal, self._options = boundary, goal, options
        self._inside: AbstractContextManager[None] | None = None
        self._run: AgentRun | None = None

    def __enter__(self) -> AgentRun:
        self._run = self._boundary.start_run(self._goal, **self._options)
        self._inside = self._run.activate()
        self._inside.__enter__()
        return self._run

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._run is not None
        assert self._inside is not None
        self._inside.__exit__(kind, error, trace)
        left = self._run.finish(error)
        if left is not None and left is not error:
            raise left from error

    async def __aenter__(self) -> AgentRun:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
