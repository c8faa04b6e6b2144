"""Call a function when an object is no longer referred to, such as a stream that was not read to its end."""

import _thread
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def on_garbage_collected(thing: Any, then: Callable[[], object]) -> "weakref.finalize[..., Any]":
    """Call `then` once nothing refers to the object, unless the returned finalizer is detached before.

    The garbage collector may run anywhere, perhaps while we hold a lock: so `then` is called on a thread of
    its own. It must not refer to the object itself, which would never be collected.
    """
    finalizer = weakref.finalize(thing, _call_on_thread, then)
    finalizer.atexit = False
    return finalizer


def _call_on_thread(then: Callable[[], object]) -> None:
    # Starting a `threading.Thread` takes locks and waits.
    with suppress(RuntimeError):  # no thread can be started while the interpreter shuts down
        _thread.start_new_thread(then, ())
