"""Which runs are live, and which one the code now running belongs to."""

from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from steadyhelm.decisions import PROCEED, Decision, Verdict
from steadyhelm.engine.session import Session
from steadyhelm.errors import RunStopped
from steadyhelm.forks import ForkSafeLock

if TYPE_CHECKING:
    from types import TracebackType

    from steadyhelm.engine.recorder import Recorder

_DEEPEST: Final = 32
_ENDED_KEPT: Final = 1000


class _Entry(NamedTuple):
    monitor: int
    run_id: str


# One stack for all monitors: an agent that calls another agent is its parent, whoever watches it.
_stack: Final[ContextVar[tuple[_Entry, ...]]] = ContextVar("steadyhelm_runs", default=())


class LiveRun:
    """A run that is being watched: its session, and the lock under which its events are put in order."""

    __slots__ = ("could", "lock", "session", "stop", "watched")

    def __init__(self, session: Session, *, watched: bool) -> None:
        self.session = session
        self.watched = watched
        self.lock = ForkSafeLock()
        self.could = session.can
        self.stop: RunStopped | None = None


class LiveRuns:
    """The live runs of one monitor, and the ids of those that ended lately."""

    def __init__(self, monitor: int, most: int) -> None:
        self._monitor = monitor
        self._most = most
        self._lock = ForkSafeLock()
        self._live: OrderedDict[str, LiveRun] = OrderedDict()
        self._ended: set[str] = set()
        self._ended_order: deque[str] = deque()
        self._renamed: dict[str, str] = {}
        self._parties: dict[str, dict[int, frozenset[Verdict]]] = {}

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._live))

    def get(self, run_id: str) -> LiveRun | None:
        """The live run of that id."""
        return self._live.get(run_id) or self._live.get(self._name(run_id))

    def add(self, run_id: str, live: LiveRun) -> str | None:
        """Watch a run; gives the id of one that must be put aside to make room."""
        with self._lock:
            self._live[run_id] = live
            self._narrow(run_id)
            return next(iter(self._live)) if len(self._live) > self._most else None

    def remove(self, run_id: str, *, ended: bool) -> LiveRun | None:
        """Forget a run, remembering for a while that it ended."""
        with self._lock:
            run_id = self._name(run_id)
            live = self._live.pop(run_id, None)
            if ended:
                self._parties.pop(run_id, None)
            if live is not None and ended:
                self._ended.add(run_id)
                self._ended_order.append(run_id)
                if len(self._ended_order) > _ENDED_KEPT:
                    self._ended.discard(self._ended_order.popleft())
        return live

    def has_ended(self, run_id: str) -> bool:
        """Whether a run of that id ended lately."""
        return self._name(run_id) in self._ended

    def takes_part(self, run_id: str, who: object, can: frozenset[Verdict]) -> None:
        """Somebody takes part in the run who can do only this: what is asked for must be possible to all."""
        with self._lock:
            self._parties.setdefault(self._name(run_id), {})[id(who)] = can
            self._narrow(self._name(run_id))

    def leaves(self, run_id: str, who: object) -> None:
        """They have left it."""
        with self._lock:
            parties = self._parties.get(self._name(run_id), {})
            parties.pop(id(who), None)
            self._narrow(self._name(run_id))
            if not parties:
                self._parties.pop(self._name(run_id), None)

    def current(self) -> str | None:
        """The run that the code now running belongs to, by context: threads and tasks do not mix."""
        for entry in reversed(_stack.get()):
            if entry.monitor == self._monitor and not self.has_ended(entry.run_id):
                return entry.run_id
        return None

    def enter(self, run_id: str) -> None:
        """From here on the code in this context belongs to that run."""
        _stack.set((*_stack.get()[-_DEEPEST + 1 :], _Entry(self._monitor, run_id)))

    def leave(self, run_id: str) -> None:
        """From here on it does not."""
        _stack.set(tuple(entry for entry in _stack.get() if entry != _Entry(self._monitor, run_id)))

    @contextmanager
    def within(self, run_id: str) -> Iterator[None]:
        """Code in this block belongs to that run, whatever its context belonged to before."""
        before = _stack.get()
        self.enter(run_id)
        try:
            yield
        finally:
            # The context may be another one by now, as with a generator that is left: no token, no error.
            _stack.set(before)

    def _name(self, run_id: str) -> str:
        """What a run is called by now: every fork gave it another name."""
        while run_id in self._renamed:
            run_id = self._renamed[run_id]
        return run_id

    def _narrow(self, run_id: str) -> None:
        live = self._live.get(run_id)
        if live is not None:
            live.session.can = live.could.intersection(*self._parties.get(run_id, {}).values())

    def after_fork(self, pid: int) -> list[tuple[str, LiveRun]]:
        """In a child process every run goes on as a child of its own: two processes never share one."""
        runs = list(self._live.items())
        self._live = OrderedDict()
        for run_id, live in runs:
            self._renamed[run_id] = f"{run_id}.{pid}"
            self._live[f"{run_id}.{pid}"] = live
            if run_id in self._parties:
                self._parties[f"{run_id}.{pid}"] = self._parties.pop(run_id)
        return runs


def outer_run_id() -> str | None:
    """The innermost run this context belongs to, whichever monitor watches it."""
    stack = _stack.get()
    return stack[-1].run_id if stack else None


def outcome_of(error: BaseException | None) -> str:
    """How a run has ended, by the exception that ended it."""
    if error is None:
        return "done"
    if isinstance(error, RunStopped):
        return "stopped"
    is_left = isinstance(error, GeneratorExit) or type(error).__name__ == "CancelledError"
    return "left early" if is_left else f"error: {type(error).__name__}"


class Run:
    """A run as a context manager, for `with` and `async with`.

    The run ends when the block does; an exception that leaves the block passes unchanged and
    becomes the run's outcome.
    """

    def __init__(self, monitor: "Recorder", options: dict[str, Any]) -> None:
        self._monitor = monitor
        self._options = options
        self.run_id = ""
        self.decision: Decision = PROCEED

    def record(self, action_type: str, action_name: str, **fields: Any) -> Decision:
        """Record one event of this run, whatever context it is called from."""
        self.decision = self._monitor.record_event(action_type, action_name, run_id=self.run_id, **fields)
        return self.decision

    def __enter__(self) -> Self:
        options = {"parent_run_id": outer_run_id(), **self._options}
        self.run_id = self._monitor.start_run(**options)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        self._monitor.end_run(self.run_id, outcome=outcome_of(error))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        self.__exit__(kind, error, trace)
