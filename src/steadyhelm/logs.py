"""Write to the log without trusting its handlers: they are code of the host."""

import logging
import threading
from typing import Any, Final

from steadyhelm.interrupts import pass_on_signal

_MAX_HELD: Final = 100

_Line = tuple[int, str, tuple[Any, ...], BaseException | None]


class GuardedLogger:
    """A logger whose handlers and filters may raise, wait for a lock, or call us again.

    What they raise goes no further. While a thread holds a lock of ours (see `hold`) its lines wait, and
    while it is in a handler its own lines are left out: handlers that call us would never end.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        self._thread = threading.local()

    def debug(self, message: str, *args: object, exc_info: BaseException | None = None) -> None:
        """Log a message for developers."""
        self._log((logging.DEBUG, message, args, exc_info))

    def info(self, message: str, *args: object) -> None:
        """Log a message."""
        self._log((logging.INFO, message, args, None))

    def warning(self, message: str, *args: object, exc_info: BaseException | None = None) -> bool:
        """Log a warning; return False when a handler raised."""
        return self._log((logging.WARNING, message, args, exc_info))

    def get_held(self) -> list[_Line] | None:
        """Return the lines of this thread that are kept; None when none are kept, but logged."""
        return getattr(self._thread, "held", None)

    def hold(self) -> None:
        """Keep the lines of this thread until `release`, which takes what `get_held` returned before."""
        if getattr(self._thread, "held", None) is None:
            self._thread.held = []

    def is_held(self) -> bool:
        """Return whether lines of this thread are kept: it holds a lock of ours."""
        return getattr(self._thread, "held", None) is not None

    def release(self, before: list[_Line] | None) -> None:
        """Log the lines that were kept, unless an outer `hold` keeps them. No lock may be held any more.

        Does nothing where `hold` was not reached.
        """
        if before is None:
            thread = self._thread
            lines, thread.held = getattr(thread, "held", None), None
            for line in lines or ():
                self._log(line)

    def _log(self, line: _Line) -> bool:
        thread = self._thread
        held = getattr(thread, "held", None)
        if held is not None:
            if len(held) < _MAX_HELD:
                held.append(line)
            return True
        if getattr(thread, "is_logging", False):
            return True
        thread.is_logging = True
        level, message, args, exc_info = line
        try:
            self._logger.log(level, message, *args, exc_info=exc_info, stacklevel=3)
        except BaseException as exc:  # noqa: BLE001 - a handler or a filter of the host
            pass_on_signal(exc)
            return False
        finally:
            thread.is_logging = False
        return True


logger: Final = GuardedLogger("steadyhelm")
