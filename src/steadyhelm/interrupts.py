"""Tell an exception of a signal handler from one of the code that was running.

A signal may arrive while our code runs, or code of the host that we call: what its handler raises is meant
for the host and passes on. What our own code raises, or the host's code we called, is counted and goes no
further.
"""

import signal
import threading
from collections.abc import Iterator
from functools import partial
from opcode import opmap
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

_SCHEDULER_PACKAGES: Final = ("greenlet", "gevent")
_RAISE_OPCODES: Final = frozenset({opmap["RAISE_VARARGS"], opmap["RERAISE"]})


def is_from_signal(error: BaseException) -> bool:
    """Return whether a signal handler raised this exception, or a scheduler ends the greenlet it is in.

    Python's own handler for Ctrl-C leaves no frame: a `KeyboardInterrupt` counts as its own unless a `raise`
    statement made it.
    """
    if str(type(error).__module__).partition(".")[0] in _SCHEDULER_PACKAGES:
        return True
    if threading.get_ident() != threading.main_thread().ident:
        return False  # handlers run on the main thread alone
    codes = [code for number in signal.valid_signals() for code in _list_codes(signal.getsignal(number))]
    trace, last = error.__traceback__, None
    while trace is not None:
        if any(trace.tb_frame.f_code is code for code in codes):
            return True
        trace, last = trace.tb_next, trace
    if not issubclass(type(error), KeyboardInterrupt) or last is None:
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] not in _RAISE_OPCODES


def pass_on_signal(error: BaseException) -> None:
    """Raise the exception again if a signal handler raised it.

    Leaving a `with` block on its account may raise another one, such as a lock that was just released: then
    the handler's is the context of that one.
    """
    if is_from_signal(error):
        raise error
    replaced = error.__context__
    if replaced is not None and _was_raised_within(replaced, error) and is_from_signal(replaced):
        raise replaced


def _was_raised_within(replaced: BaseException, error: BaseException) -> bool:
    """Return whether an exception was on its way in a call that the other one left.

    One that the host was handling when it called us is a context too, and none of ours to raise.
    """
    start, trace = replaced.__traceback__, error.__traceback__
    while trace is not None and start is not None:
        if trace.tb_frame is start.tb_frame:
            return True
        trace = trace.tb_next
    return False


def _list_codes(handler: Any) -> Iterator[CodeType]:
    """Yield the code of a signal handler, as far as it is Python's."""
    kind = type(handler)
    if kind is FunctionType:
        yield handler.__code__
    elif kind is MethodType:
        yield from _list_codes(handler.__func__)
    elif kind is partial:
        yield from _list_codes(handler.func)
    elif handler is not None and kind.__module__ != "signal":
        call = kind.__dict__.get("__call__")
        if type(call) is FunctionType:
            yield call.__code__
