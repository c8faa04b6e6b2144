"""Judge recorded runs in several processes or on Spark: the same reports, in the same order."""

import signal
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from typing import Final, NamedTuple, TypeVar

from msgspec import structs

from steadyhelm.components import open_store
from steadyhelm.decisions import Mode
from steadyhelm.errors import SteadyhelmError
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import Judge, RemoteJudge, call_counted
from steadyhelm.settings import Settings
from steadyhelm.stores.sql_store import SQLStore

_Result = TypeVar("_Result")

_RUNS_AHEAD: Final = 4
"""Runs for each process that are sent before they are asked for: more would only fill the memory."""


class Workers(NamedTuple):
    """Where runs are judged: in this process, in several, or on Spark where a master is given."""

    jobs: int = 1
    spark_master: str = ""


@contextmanager
def open_judge(
    settings: Settings,
    *,
    workers: Workers = Workers(),  # noqa: B008 - immutable
    store: SQLStore | None = None,
    kinds: Collection[str] | None = None,
    mode: Mode = "observe",
) -> Iterator[Judge]:
    """Yield a judge whose `judge_all` works in so many processes, or on Spark; one is this process itself.

    The other processes open the store too. Spark is sent what the store knows.
    """
    if workers.spark_master:
        from steadyhelm.scale.batch import open_spark_judge  # noqa: PLC0415 - an extra

        master = workers.spark_master
        with open_spark_judge(settings, master=master, store=store, kinds=kinds, mode=mode) as on_spark:
            yield on_spark
        return
    if workers.jobs <= 1:
        yield Judge(settings, store=store, kinds=kinds, mode=mode)
        return
    judge = _PoolJudge(settings, jobs=workers.jobs, store=store, kinds=kinds, mode=mode)
    try:
        yield judge
    finally:
        judge.close()


class _PoolJudge(RemoteJudge):
    """A judge whose `judge_all` works in several processes."""

    def __init__(
        self,
        settings: Settings,
        *,
        jobs: int,
        store: SQLStore | None,
        kinds: Collection[str] | None,
        mode: Mode,
    ) -> None:
        super().__init__(settings, store=store, kinds=kinds, mode=mode)
        where = None if store is None else store.location.where
        self._jobs = jobs
        self._pool = ProcessPoolExecutor(
            jobs,
            mp_context=_get_process_context(),
            initializer=_start_process,
            initargs=(settings, where, None if kinds is None else tuple(kinds), mode),
        )

    def close(self) -> None:
        """End the processes; what they were about to judge is dropped."""
        self._pool.shutdown(cancel_futures=True)

    def _send(
        self, function: Callable[[Judge, ReadRun], _Result], runs: Iterable[ReadRun]
    ) -> Iterator[tuple[ReadRun, _Result]]:
        sent: deque[tuple[ReadRun, Future[tuple[_Result, dict[str, int]]]]] = deque()
        try:
            for run in runs:
                sent.append((run, self._pool.submit(_call, function, run)))
                if len(sent) >= self._jobs * _RUNS_AHEAD:
                    yield self._receive(*sent.popleft())
            while sent:
                yield self._receive(*sent.popleft())
        except BrokenProcessPool as exc:
            raise SteadyhelmError(
                "A process that judged runs has ended, perhaps for lack of memory. Try again with --jobs 1."
            ) from exc

    def _receive(
        self, run: ReadRun, future: "Future[tuple[_Result, dict[str, int]]]"
    ) -> tuple[ReadRun, _Result]:
        result, troubles = future.result()
        self._remote_troubles.update(troubles)
        return run, result


def _get_process_context() -> BaseContext:
    """Return a way to start processes: copies of one that has imported this module and has no other thread.

    A copy of this process would have the locks of a progress bar's thread as they are at that moment.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


_judge: Judge | None = None


def _start_process(settings: Settings, where: str | None, kinds: Collection[str] | None, mode: Mode) -> None:
    """Make the judge of this process, once for all runs."""
    global _judge  # noqa: PLW0603 - the only place that all calls in a pool's process share
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the sender ends the pool
    store = None if where is None else open_store(structs.replace(settings, db=where), read_only=True)
    _judge = Judge(settings, store=store, kinds=kinds, mode=mode)


def _call(function: Callable[[Judge, ReadRun], _Result], run: ReadRun) -> tuple[_Result, dict[str, int]]:
    """Call a function with the judge of this process."""
    assert _judge is not None
    return call_counted(_judge, function, run)
