"""Locks and other things that must start afresh in a forked child.

A child has one thread. A lock that another thread of the parent held at that moment is never released in the
child: whoever waits for it there waits for ever.
"""

import os
import weakref
from _thread import RLock, allocate_lock
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol


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

    if TYPE_CHECKING:

        def is_held(self) -> bool:
            """Return whether this thread holds the lock."""
            ...

    else:
        is_held = RLock._is_owned  # noqa: SLF001 - a method in C: it is asked several times at every step


class ReentrantEvent:
    """An event like `threading.Event` for one waiting thread; it may be set in the middle of its own methods.

    The garbage collector and signals run code of the host anywhere, which may call us: a `threading.Event`
    that is being set when that code sets it again waits for ever.

    >>> event = ReentrantEvent()
    >>> event.set(), event.set(), event.wait(1.0), event.is_set()
    (None, None, True, True)
    >>> event.clear(), event.is_set(), event.wait(0.01)
    (None, False, False)
    """

    __slots__ = ("_clear",)

    def __init__(self) -> None:
        self._clear = allocate_lock()
        self._clear.acquire()

    def is_set(self) -> bool:
        """Return whether it is set."""
        return not self._clear.locked()

    def set(self) -> None:
        """Set it, and wake the thread that waits."""
        with suppress(RuntimeError):  # it is set already
            self._clear.release()

    def clear(self) -> None:
        """Unset it."""
        self._clear.acquire(blocking=False)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set, or the time is up; return whether it is set."""
        is_set = self._clear.acquire(timeout=-1 if timeout_s is None else max(0.0, timeout_s))
        if is_set:
            self.set()
        return is_set


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
