"""Which runs are live, which run the code now executing belongs to, and which streams of a run are open."""

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from steadyhelm.bounded import BoundedDict
from steadyhelm.decisions import PROCEED, Decision, Verdict
from steadyhelm.engine.run_recorder import RunRecorder
from steadyhelm.errors import RunStopped
from steadyhelm.forks import ForkSafeLock
from steadyhelm.host_objects import is_a

if TYPE_CHECKING:
    from types import TracebackType

    from steadyhelm.engine.monitor import Monitor

_STACK_PRUNED_FROM: Final = 32
_ENDED_KEPT: Final = 1000


class _StackEntry(NamedTuple):
    table: int
    run_id: str


# One stack for all monitors: an agent that calls another agent is its parent, whichever monitor watches it.
_stack: Final[ContextVar[tuple[_StackEntry, ...]]] = ContextVar("steadyhelm_runs", default=())
_numbers: Final = itertools.count(1)
_tables: Final["weakref.WeakValueDictionary[int, LiveRuns]"] = weakref.WeakValueDictionary()


def find_live_run(run_id: str, own: "LiveRuns") -> RunRecorder | None:
    """Return the live run of that id, of this monitor or of another one that alone has it."""
    found = own.get(run_id)
    if found is not None:
        return found
    elsewhere = [table.get(run_id) for table in list(_tables.values()) if table is not own]
    alive = [recorder for recorder in elsewhere if recorder is not None]
    return alive[0] if len(alive) == 1 else None


class LiveRuns:
    """The live runs of one monitor, and the ids of those that ended recently.

    Args:
        limit: The number of live runs from which the oldest should be suspended.
    """

    def __init__(self, limit: int) -> None:
        self._number = next(_numbers)
        self._limit = limit
        self.lock = ForkSafeLock()
        self._live: OrderedDict[str, RunRecorder] = OrderedDict()
        self._ended: BoundedDict[str, None] = BoundedDict(_ENDED_KEPT)
        self._renamed: dict[str, str] = {}
        self._participants: dict[str, dict[int, frozenset[Verdict]]] = {}
        _tables[self._number] = self

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[str]:
        with self.lock:
            return iter(list(self._live))

    def get(self, run_id: str) -> RunRecorder | None:
        """Return the live run of that id."""
        return self._live.get(run_id) or self._live.get(self._get_current_id(run_id))

    def add(self, run_id: str, recorder: RunRecorder) -> str | None:
        """Add a live run; return the id of the oldest run when there are too many."""
        with self.lock:
            self._live[run_id] = recorder
            self._narrow_verdicts(run_id)
            return next(iter(self._live)) if len(self._live) > self._limit else None

    def remove(self, run_id: str, *, ended: bool) -> RunRecorder | None:
        """Remove and return a live run; one that ended is remembered for a while."""
        with self.lock:
            run_id = self._get_current_id(run_id)
            recorder = self._live.pop(run_id, None)
            if ended:
                self._participants.pop(run_id, None)
            if recorder is not None:
                recorder.is_live = False
                if ended:
                    self._ended[run_id] = None
        return recorder

    def has_ended(self, run_id: str) -> bool:
        """Return whether a run of that id ended recently."""
        return self._get_current_id(run_id) in self._ended

    def add_participant(self, run_id: str, participant: object, can: frozenset[Verdict]) -> None:
        """Register a participant and the verdicts it can carry out: only what all can do is decided."""
        with self.lock:
            run_id = self._get_current_id(run_id)
            self._participants.setdefault(run_id, {})[id(participant)] = can
            self._narrow_verdicts(run_id)

    def remove_participant(self, run_id: str, participant: object) -> None:
        """Remove a participant of a run."""
        with self.lock:
            run_id = self._get_current_id(run_id)
            participants = self._participants.get(run_id, {})
            participants.pop(id(participant), None)
            self._narrow_verdicts(run_id)
            if not participants:
                self._participants.pop(run_id, None)

    def find_current(self) -> str | None:
        """Return the id of the run that the code now executing belongs to: threads and tasks do not mix."""
        for entry in reversed(_stack.get()):
            if entry.table == self._number and not self.has_ended(entry.run_id):
                return entry.run_id
        return None

    def enter(self, run_id: str) -> None:
        """Let the code in this context belong to that run from here on."""
        _push(_stack.get(), _StackEntry(self._number, run_id))

    def leave(self, run_id: str) -> None:
        """Let the code in this context not belong to that run any more."""
        _stack.set(tuple(entry for entry in _stack.get() if entry != _StackEntry(self._number, run_id)))

    def activate(self, run_id: str) -> "RunActivation":
        """Return a context manager: code in its block belongs to that run."""
        return RunActivation(_StackEntry(self._number, run_id))

    def continue_in_child(self, pid: int) -> None:
        """Rename every run in a forked process: two processes never share one."""
        runs = list(self._live.items())
        self._live = OrderedDict()
        for run_id, recorder in runs:
            new_id = f"{run_id}.{pid}"
            self._renamed[run_id] = new_id
            self._live[new_id] = recorder
            recorder.continue_in_child(new_id)
            if run_id in self._participants:
                self._participants[new_id] = self._participants.pop(run_id)

    def _get_current_id(self, run_id: str) -> str:
        """Return the id a run has now: every fork renames it."""
        while run_id in self._renamed:
            run_id = self._renamed[run_id]
        return run_id

    def _narrow_verdicts(self, run_id: str) -> None:
        recorder = self._live.get(run_id)
        if recorder is not None:
            can = recorder.own_verdicts
            for verdicts in self._participants.get(run_id, {}).values():
                can &= verdicts
            recorder.session.can = can


class RunActivation:
    """A block of code that belongs to one run, whatever its context belonged to before.

    One may be used for several blocks, one after the other.
    """

    __slots__ = ("_before", "_entry")

    def __init__(self, entry: _StackEntry) -> None:
        self._entry = entry
        self._before: tuple[_StackEntry, ...] = ()

    def __enter__(self) -> None:
        before = self._before = _stack.get()
        if len(before) < _STACK_PRUNED_FROM:
            _stack.set((*before, self._entry))
        else:
            _push(before, self._entry)

    def __exit__(self, *exc: object) -> None:
        # The context may be another one by now, as with a generator that is left: no token, no error.
        _stack.set(self._before)


def _push(stack: tuple[_StackEntry, ...], entry: _StackEntry) -> None:
    size = len(stack)
    # Runs that ended in another context are still on the stack of this one. It is looked through whenever it
    # has doubled, not each time: a context may have thousands of live runs.
    if size >= _STACK_PRUNED_FROM and not size & (size - 1):
        stack = tuple(it for it in stack if _is_live(it))
    _stack.set((*stack, entry))


def _is_live(entry: _StackEntry) -> bool:
    runs = _tables.get(entry.table)
    return runs is not None and runs.get(entry.run_id) is not None


def find_outer_run_id() -> str | None:
    """Return the id of the innermost run this context belongs to, whichever monitor watches it."""
    stack = _stack.get()
    return stack[-1].run_id if stack else None


def describe_outcome(error: BaseException | None) -> str:
    """Return the outcome of a run by the exception that ended it."""
    if error is None:
        return "done"
    if is_a(error, RunStopped):
        return "stopped"
    is_left = is_a(error, GeneratorExit) or type(error).__name__ == "CancelledError"
    return "left early" if is_left else f"error: {type(error).__name__}"


class Run:
    """A run as a context manager, for `with` and `async with`.

    The run ends when the block does; an exception that leaves the block passes unchanged and
    becomes the run's outcome.
    """

    def __init__(self, monitor: "Monitor", options: dict[str, Any]) -> None:
        self._monitor = monitor
        self._options = options
        self.run_id = ""
        self._last_decision: Decision = PROCEED

    def record(self, action_type: str, action_name: str, **fields: Any) -> Decision:
        """Record one event of this run, whatever context it is called from."""
        return self._monitor.record_event(action_type, action_name, run_id=self.run_id, **fields)

    @property
    def last_decision(self) -> Decision:
        """The decision about the latest event of this run, whoever recorded it."""
        recorder = self._monitor.runs.get(self.run_id)
        if recorder is not None:
            self._last_decision = recorder.last_decision
        return self._last_decision

    def guidance(self) -> str:
        """Return the guidance for the next request to the model, each once; empty when there is none."""
        return self._monitor.guidance(self.run_id) if self.run_id else ""

    def new_goal(self, goal: str) -> Decision:
        """Report that this run has another task from now on; see `Monitor.new_goal`."""
        return self._monitor.new_goal(goal, run_id=self.run_id)

    def plan(self, steps: Any) -> Decision:
        """Report the plan of this run; see `Monitor.plan`."""
        return self._monitor.plan(steps, run_id=self.run_id)

    def __enter__(self) -> Self:
        options = {"parent_run_id": find_outer_run_id(), **self._options}
        self.run_id = self._monitor.start_run(**options)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        self._last_decision = self.last_decision
        self._monitor.end_run(self.run_id, outcome=describe_outcome(error))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        self.__exit__(kind, error, trace)


class OpenStreams:
    """The generators that have begun, by run, each with the function that records it as left early.

    A host may keep one that it has left, or an event loop may close it only after the run.

    >>> streams, recorded = OpenStreams(), []
    >>> number = streams.add("run", lambda: recorded.append("left"))
    >>> streams.record_left("run"), streams.remove("run", number), recorded
    (None, False, ['left'])
    """

    def __init__(self) -> None:
        # One table for all runs: a table of each could be removed while another thread adds to it.
        self._records: dict[tuple[str, int], Callable[[], None]] = {}
        self._numbers = itertools.count()

    def add(self, run_id: str | None, record: Callable[[], None]) -> int:
        """Add a generator that begins in a run; return the number to remove it by."""
        number = next(self._numbers)
        if run_id is not None:
            self._records[run_id, number] = record
        return number

    def remove(self, run_id: str | None, number: int) -> bool:
        """Remove a generator that has ended; return whether it is not recorded yet."""
        return run_id is None or self._records.pop((run_id, number), None) is not None

    def record_left(self, run_id: str | None) -> None:
        """Record the generators of a run that are still open; called when it ends."""
        for key in [key for key in list(self._records) if key[0] == run_id]:
            record = self._records.pop(key, None)
            if record is not None:
                record()
