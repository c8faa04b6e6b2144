"""Find calls of ours that make an event loop wait: a file, a socket, the database, a lock that is held."""

import contextlib
import sys
import sysconfig
from pathlib import Path

import blockbuster
from blockbuster import BlockBuster

import steadyhelm

OURS = str(Path(steadyhelm.__file__).parent)
STANDARD_LIBRARY = sysconfig.get_path("stdlib")
IN_BETWEEN = (
    "<",
    str(Path(blockbuster.__file__).parent),
    __file__,
    str(Path(__file__).with_name("spies.py")),
)
MAY_WAIT = (
    # docs/safety.md says so: a monitor is built, flushed and closed, and an agent is wrapped, where waiting
    # does no harm. Wrapping imports the adapter of its framework.
    ("steadyhelm/assembly.py", ("__init__", "wrap", "close")),
    ("steadyhelm/engine/monitor.py", ("flush", "close")),
    # A test that looks into the store on an event loop waits for its own question.
    ("frameworks/watched.py", ("runs_of", "events_of", "story", "guidance_of")),
)


def is_called_by_us() -> bool:
    """Return whether the code that called a blocking function is ours.

    What a framework, a tool or a test does itself is theirs, also where one of our wrappers called it.
    """
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        # Between our code and a blocking function there may be the standard library, such as `pathlib`.
        is_library = file.startswith(STANDARD_LIBRARY) and "site-packages" not in file
        if not is_library and not file.startswith(IN_BETWEEN):
            return file.startswith(OURS)
        frame = frame.f_back
    return False


@contextlib.contextmanager
def no_blocking():
    """Raise `BlockingError` inside the block for every call of ours that makes an event loop wait."""
    detector = BlockBuster("steadyhelm")
    for function in detector.functions.values():
        function.can_block_predicate = allow_others(function.can_block_predicate)
        for file, names in MAY_WAIT:
            function.can_block_in(file, names)
    detector.activate()
    try:
        yield
    finally:
        detector.deactivate()


def allow_others(predicate):
    """Return the predicate, true also for calls that are not ours."""
    return lambda *args, **fields: predicate(*args, **fields) or not is_called_by_us()
