"""Follow something until Ctrl-C: when it is over, and what changed in the list of runs."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

from msgspec import Struct

from steadyhelm.store_rows import StoredRun

_PAUSE_S: Final = 0.5

Change = Literal["started", "incident", "ended"]


class RunChange(Struct, frozen=True):
    """A run that started, got a new or a worse incident, or ended."""

    change: Change
    run: StoredRun


@contextmanager
def until_interrupted(seconds: float | None) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed or the time is up.

    A second Ctrl-C ends the program.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    interrupted: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, _: object) -> None:
        interrupted.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(interrupted) or (deadline is not None and time.monotonic() >= deadline)
    finally:
        signal.signal(signal.SIGINT, before)


def follow_runs(
    known: Sequence[StoredRun],
    read: Callable[[], Sequence[StoredRun]],
    report: Callable[[RunChange], None],
    *,
    is_over: Callable[[], bool],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Report what changes in a list of runs, newest first, until `is_over` returns true."""
    before = {(row.agent_id, row.run_id): row for row in known}
    while True:
        for row in reversed(read()):
            for change in find_changes(before.get((row.agent_id, row.run_id)), row):
                report(RunChange(change, row))
            before[row.agent_id, row.run_id] = row
        if is_over():
            return
        pause(_PAUSE_S)


def find_changes(before: StoredRun | None, now: StoredRun) -> Iterator[Change]:
    """Yield what happened to a run between two readings of the list; `before` is None for a new one.

    >>> live = StoredRun(agent_id="a", run_id="r")
    >>> list(find_changes(None, live)), list(find_changes(live, live))
    (['started'], [])
    >>> over = StoredRun(agent_id="a", run_id="r", state="ended", incidents=1, peak=0.9)
    >>> list(find_changes(live, over))
    ['incident', 'ended']
    """
    if before is None:
        yield "started"
    known = (before.incidents, before.peak) if before is not None else (0, 0.0)
    if now.incidents and (now.incidents, now.peak) > known:
        yield "incident"
    if now.state != "running" and (before is None or before.state == "running"):
        yield "ended"
