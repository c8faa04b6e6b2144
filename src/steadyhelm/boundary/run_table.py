"""Runs that wait for an answer, and resume when it comes: one table for all adapters."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

from steadyhelm.boundary.driver import Boundary
from steadyhelm.bounded import BoundedDict
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.forks import ForkSafeLock

MAX_PAUSED_RUNS: Final = 1000
LEFT_EARLY: Final = "left early"


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


def _end_run(record: HasRun) -> None:
    if record.run is not None:
        record.run.end(outcome=LEFT_EARLY)
