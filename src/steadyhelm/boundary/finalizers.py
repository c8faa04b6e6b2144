"""Learn that nobody holds something any more, such as a stream that was never read to its end."""

import _thread
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def on_garbage_collected(thing: Any, then: Callable[[], object]) -> "weakref.finalize[..., Any]":
    """Calls `then` once nobody holds the thing, unless what this gives is detached before.

    The garbage collector works in the middle of whatever is going on, perhaps where we hold a lock: so it is
    called on a thread of its own. It must not hold the thing itself, or that is never dropped.
    """
    dropped = weakref.finalize(thing, _elsewhere, then)
    dropped.atexit = False
    return dropped


def _elsewhere(then: Callable[[], object]) -> None:
    # To start a `threading.Thread` takes locks of its own, and waits.
    with suppress(RuntimeError):  # no threads are to be had while the interpreter shuts down
        _thread.start_new_thread(then, ())
