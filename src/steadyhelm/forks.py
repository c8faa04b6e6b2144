"""Locks and other things that must start afresh in a forked child.

A child has one thread. A lock that another thread of the parent held at that moment is never released in the
child: whoever waits for it there waits for ever.
"""

import os
import weakref
from _thread import RLock
from typing import Final, Protocol


class ForkSafeLock(RLock):  # type: ignore[misc]  # it may be subclassed, whatever its stub says
    """A re-entrant lock that is free again in every forked child, whichever thread held it in the parent.

    Use it for every lock that no `after_fork` rebuilds: it costs no more than `threading.RLock`, and needs no
    `after_fork` of its own.

    >>> lock = ForkSafeLock()
    >>> with lock:
    ...     with lock:
    ...         pass
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        _locks.add(self)


class RestartsAfterFork(Protocol):
    """Something that holds more than locks: threads, queues or ids that a child may not share."""

    def after_fork(self) -> None:
        """Start afresh in a child process."""
        ...


_locks: Final["weakref.WeakSet[ForkSafeLock]"] = weakref.WeakSet()
_restarted: Final["weakref.WeakSet[RestartsAfterFork]"] = weakref.WeakSet()


def call_after_fork(target: RestartsAfterFork) -> None:
    """Call `target.after_fork()` in every child process, for as long as something else refers to it."""
    _restarted.add(target)


def _start_afresh_in_child() -> None:
    # The locks first: `after_fork` methods use them.
    for lock in list(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001 - as the standard library does
    for target in list(_restarted):
        target.after_fork()


if hasattr(os, "register_at_fork"):
    # Once for all: what is registered here can never be taken back.
    os.register_at_fork(after_in_child=_start_afresh_in_child)
