"""Judge recorded runs in several processes or on Spark: the same reports, in the same order."""

import pickle
import signal
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from msgspec import structs

from steadyhelm.components import open_store
from steadyhelm.decisions import Mode
from steadyhelm.errors import SteadyhelmError
from steadyhelm.process_server import get_process_context
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import RemoteReplayer, Replayer, call_counted
from steadyhelm.settings import Settings
from steadyhelm.stores.sql_store import SQLStore

_Result = TypeVar("_Result")

_PARCEL_BYTES: Final = 256 << 10
"""Runs are sent together up to this size: each parcel costs the sender as much as reading a short run."""
_PARCELS_AHEAD: Final = 4
"""Parcels for each process that are sent before they are asked for: more would only fill the memory."""


class Workers(NamedTuple):
    """Where runs are judged: in this process, in several, or on Spark where a master is given."""

    jobs: int = 1
    spark_master: str = ""


@contextmanager
def open_replayer(
    settings: Settings,
    *,
    workers: Workers = Workers(),  # noqa: B008 - immutable
    store: SQLStore | None = None,
    kinds: Collection[str] | None = None,
    mode: Mode = "observe",
) -> Iterator[Replayer]:
    """Yield a replayer whose `judge_all` works in so many processes, or on Spark; one is this process itself.

    The other processes open the store too. Spark is sent what the store knows.
    """
    if workers.spark_master:
        from steadyhelm.scale.batch import open_spark_replayer  # noqa: PLC0415 - an extra

        master = workers.spark_master
        with open_spark_replayer(settings, master=master, store=store, kinds=kinds, mode=mode) as on_spark:
            yield on_spark
        return
    if workers.jobs <= 1:
        yield Replayer(settings, store=store, kinds=kinds, mode=mode)
        return
    replayer = _PoolReplayer(settings, jobs=workers.jobs, store=store, kinds=kinds, mode=mode)
    try:
        yield replayer
    finally:
        replayer.close()


class _PoolReplayer(RemoteReplayer):
    """A replayer whose `judge_all` works in several processes."""

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
            mp_context=get_process_context(),
            initializer=_start_process,
            initargs=(settings, where, None if kinds is None else tuple(kinds), mode),
        )

    def close(self) -> None:
        """End the processes; what they were about to judge is dropped."""
        self._pool.shutdown(cancel_futures=True)

    def _send(
        self, function: Callable[[Replayer, ReadRun], _Result], runs: Iterable[ReadRun]
    ) -> Iterator[tuple[ReadRun, _Result]]:
        sent: deque[tuple[Sequence[ReadRun], Future[_Answer[_Result]]]] = deque()
        try:
            for parcel in _pack(runs):
                sent.append((parcel.runs, self._pool.submit(_call, function, parcel.packed)))
                if len(sent) >= self._jobs * _PARCELS_AHEAD:
                    yield from self._receive(*sent.popleft())
            while sent:
                yield from self._receive(*sent.popleft())
        except BrokenProcessPool as exc:
            raise SteadyhelmError(
                "A process that judged runs has ended, perhaps for lack of memory. Try again with --jobs 1."
            ) from exc

    def _receive(
        self, runs: Sequence[ReadRun], future: "Future[_Answer[_Result]]"
    ) -> Iterator[tuple[ReadRun, _Result]]:
        for run, (result, troubles) in zip(runs, future.result(), strict=True):
            self._remote_troubles.update(troubles)
            yield run, result


_Answer = list[tuple[_Result, dict[str, int]]]
"""A result for each run of a parcel, and the troubles it led to."""


class _Parcel(NamedTuple):
    """Runs that are sent together, as they are and as bytes."""

    runs: Sequence[ReadRun]
    packed: Sequence[bytes]


def _pack(runs: Iterable[ReadRun]) -> Iterator[_Parcel]:
    """Yield all runs in order, as many together as reach the size of a parcel."""
    together: list[ReadRun] = []
    packed: list[bytes] = []
    size = 0
    for run in runs:
        together.append(run)
        packed.append(pickle.dumps(run, pickle.HIGHEST_PROTOCOL))
        size += len(packed[-1])
        if size >= _PARCEL_BYTES:
            yield _Parcel(together, packed)
            together, packed, size = [], [], 0
    if together:
        yield _Parcel(together, packed)


_replayer: Replayer | None = None


def _start_process(settings: Settings, where: str | None, kinds: Collection[str] | None, mode: Mode) -> None:
    """Make the replayer of this process, once for all runs."""
    global _replayer  # noqa: PLW0603 - the only place that all calls in a pool's process share
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the sender ends the pool
    store = None if where is None else open_store(structs.replace(settings, db=where), read_only=True)
    _replayer = Replayer(settings, store=store, kinds=kinds, mode=mode)


def _call(function: Callable[[Replayer, ReadRun], _Result], packed: Iterable[bytes]) -> _Answer[_Result]:
    """Call a function with the replayer of this process and each run of a parcel."""
    assert _replayer is not None
    runs = map(pickle.loads, packed)
    return [call_counted(_replayer, function, run) for run in runs]
