"""The boundary driver that all adapters share: where a framework's agent meets its model and its tools.

It keeps what belongs to one run together by the ids of its calls, tells no step twice, keeps what there is to
say until it can be said, and writes a stop down before anybody raises: however a framework wraps or swallows
exceptions, whoever started the agent receives `RunStopped`.
"""

import contextvars
import inspect
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Final

from steadyhelm.adapter import Capabilities
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.decisions import Verdict
from steadyhelm.engine.monitor import Monitor
from steadyhelm.engine.runs import outer_run_id
from steadyhelm.errors import SettingsError
from steadyhelm.forks import ForkSafeLock

Ask = Callable[[str], str | bool]

_RUNS_KEPT: Final = 10_000

# Which runs an adapter began, by id: an agent that starts inside one of them is its child.
_watched: Final["weakref.WeakValueDictionary[str, AgentRun]"] = weakref.WeakValueDictionary()


class Boundary:
    """Where one adapter hands over what it sees, for all runs of one monitor.

    Args:
        monitor: Who watches.
        source: The adapter's name.
        can: What it can carry out, by place.
        ask: Puts a question to the user and gives the answer: words, or True or False to allow or refuse.
            It is called on the agent's own thread; without it a framework's own way is used, if it has one.
        sees_models: Whether it sees each model call when it happens; if not, calls that run at the same time
            count as asked for together.
        control: Exceptions by which the framework only steers itself: they are no failures.
        encloses: Whether other agents can begin inside its runs; the requests of a client enclose nothing.
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
        self._runs: OrderedDict[Hashable, AgentRun] = OrderedDict()
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
        """A run begins; one that is known under that key goes on, for whoever else sees it.

        Inside a watched run it is a child of it; inside a run that the host opened itself it is that run.
        The context stays as it is: see `WatchedRun.entered`.
        """
        with self._lock:
            known = self._runs.get(key) if key is not None else None
            if known is not None and not known.has_ended:
                return known
            outer = outer_run_id()
            parent = parent or _watched.get(outer or "")
            host_run = self.monitor.current_run if parent is None else None
            told = {"source": self.source, **({"agent": agent} if agent else {}), **(metadata or {})}
            run_id = host_run or contextvars.copy_context().run(
                self.monitor.start_run,
                goal=goal or None,
                task_type=agent if parent is not None else "",
                parent_run_id=parent.run_id if parent is not None else outer,
                metadata=told,
            )
            run = AgentRun(self, run_id, goal, joined=host_run is not None)
            if self.encloses:
                _watched[run_id] = run
            self._keep(key if key is not None else run_id, run)
        if goal:
            run.record_user_message(goal)
        return run

    def find_run(self, key: Hashable) -> AgentRun | None:
        """The run that is known under this key, while it goes on."""
        with self._lock:
            run = self._runs.get(key)
        return run if run is not None and not run.has_ended else None

    def run(self, goal: str = "", **options: Any) -> "RunContext":
        """A run as a context manager, for whoever makes the outermost call; takes what `begin` takes."""
        return RunContext(self, goal, options)

    @contextmanager
    def guard(self, where: str) -> Iterator[None]:
        """What fails in here is our fault, and the agent must not notice."""
        try:
            yield
        except Exception as exc:  # noqa: BLE001 - that is what it is for
            self.monitor.health.swallowed(f"{self.source} adapter, {where}", exc)

    def forget(self, run: AgentRun) -> None:
        """A run has ended."""
        with self._lock:
            for key in [key for key, known in self._runs.items() if known is run]:
                del self._runs[key]
        if _watched.get(run.run_id) is run:
            del _watched[run.run_id]

    def _keep(self, key: Hashable, run: AgentRun) -> None:
        self._runs[key] = run
        while len(self._runs) > _RUNS_KEPT:
            self._runs.popitem(last=False)
            self.monitor.health.count("watched run forgotten to make room")


def is_asking() -> bool:
    """Whether the code now running belongs to a model call that a watched run already tells of."""
    run = _watched.get(outer_run_id() or "")
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
