"""The runs of one adapter: start them, find them again, and end them with the right exception.

A stop is recorded before anything raises: however a framework wraps or swallows exceptions, the caller of the
agent receives `RunStopped`. Runs that wait for an answer are in a `RunTable` until it comes.
"""

import contextvars
import inspect
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar

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
MAX_PAUSED_RUNS: Final = 1000
LEFT_EARLY: Final = "left early"


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


class HasRun(Protocol):
    """An adapter's own record of a run; `run` is None while the run has not begun."""

    @property
    def run(self) -> AgentRun | None:
        """The run."""
        ...


R = TypeVar("R", bound=HasRun)


class RunTable(Generic[R]):
    """Paused runs of one adapter, by the keys with which their answers come back.

    A key is what the framework repeats when it resumes: a thread, a conversation or the id of a call.
    A run that asks several questions has several keys. Safe to use from any thread.

    Args:
        boundary: The boundary the runs were started at.
        end: Ends a run that is not resumed. By default its outcome is "left early".
        limit: How many keys are kept. One more ends the run that waits longest, and is counted in health.

    ```python
    self._paused = RunTable(boundary)
    self._paused.pause(record, thread_id)
    record = self._paused.resume(thread_id) or self._start(...)
    ```
    """

    def __init__(
        self, boundary: Boundary, end: Callable[[R], None] | None = None, *, limit: int = MAX_PAUSED_RUNS
    ) -> None:
        self._boundary = boundary
        self._end = end or _end_run
        self._paused: BoundedDict[Hashable, R] = BoundedDict(limit)
        self._lock = ForkSafeLock()

    def __len__(self) -> int:
        return len(self._paused)

    def pause(self, record: R, *keys: Hashable) -> None:
        """Keep a run until `resume` is called with one of the keys."""
        with self._lock:
            crowded_out = [item[1] for key in keys if (item := self._paused.put(key, record)) is not None]
        for oldest in crowded_out:
            if oldest.run is None or not oldest.run.has_ended:
                self._boundary.monitor.health.count("paused run ended to make room")
                self._end(oldest)

    def resume(self, *keys: Hashable) -> R | None:
        """Return the run that waits under one of the keys, and forget these keys of it.

        Returns None when there is none, or when the monitor does not keep the run any more: it has ended, or
        was closed for being idle. Then `end` is called for what the adapter may still keep of it.
        """
        record = self.take(*keys)
        if record is None:
            return None
        run = record.run
        if run is not None and not run.has_ended and self._boundary.monitor.count_events(run.run_id):
            return record
        self._end(record)
        return None

    def take(self, *keys: Hashable) -> R | None:
        """Return and forget what waits under one of the keys, whether or not it can be resumed."""
        with self._lock:
            found = [record for key in keys if (record := self._paused.pop(key, None)) is not None]
        return found[0] if found else None

    def abandon(self, *keys: Hashable) -> None:
        """End the run that waits under one of the keys, if there is one: its answer will not come."""
        record = self.take(*keys)
        if record is not None:
            self._end(record)

    def items(self) -> list[tuple[Hashable, R]]:
        """Return every key with its run, the one that waits longest first."""
        with self._lock:
            return list(self._paused.items())


def detach_stop(stop: BaseException, error: BaseException | None) -> None:
    """Cut a stop out of the causes of the error that carried it through a framework.

    The stop is raised anew while that error is handled, and the error becomes its cause or its context: the
    chain would be a circle.

    >>> stop, carrier = ValueError("stop"), RuntimeError("failed")
    >>> carrier.__cause__ = stop
    >>> detach_stop(stop, carrier)
    >>> carrier.__cause__ is None
    True
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        if link.__cause__ is stop:
            link.__cause__ = None
        if link.__context__ is stop:
            link.__context__ = None
        waiting += (link.__cause__, link.__context__)


def _end_run(record: HasRun) -> None:
    if record.run is not None:
        record.run.end(outcome=LEFT_EARLY)
