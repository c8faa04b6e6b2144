"""Write to the log without trusting its handlers: they are code of the host."""

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

from steadyhelm.interrupts import pass_on_signal

_MAX_HELD: Final = 100

_Line = tuple[int, str, tuple[Any, ...], BaseException | None]


class ThreadState(threading.local):
    """What is known about the lines of one thread."""

    held: list[_Line] | None = None
    """The lines that are kept; None while they are logged at once."""
    is_logging: bool = False


class GuardedLogger:
    """A logger whose handlers and filters may raise, wait for a lock, or call us again.

    What they raise goes no further. While a thread holds a lock of ours its lines are kept in
    `thread.held`, and while it is in a handler its own lines are left out: handlers that call us would never
    end.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        # Set without a call by those who hold lines: a signal handler may raise behind any call.
        self.thread = ThreadState()

    def debug(self, message: str, *args: object, exc_info: BaseException | None = None) -> None:
        """Log a message for developers."""
        self._log((logging.DEBUG, message, args, exc_info))

    def info(self, message: str, *args: object) -> None:
        """Log a message."""
        self._log((logging.INFO, message, args, None))

    def warning(self, message: str, *args: object, exc_info: BaseException | None = None) -> bool:
        """Log a warning; return False when a handler raised."""
        return self._log((logging.WARNING, message, args, exc_info))

    def is_held(self) -> bool:
        """Return whether lines of this thread are kept: it holds a lock of ours."""
        return self.thread.held is not None

    def log_held(self, lines: Sequence[_Line]) -> None:
        """Log lines that were kept. No lock may be held any more."""
        for line in lines:
            self._log(line)

    def _log(self, line: _Line) -> bool:
        thread = self.thread
        held = thread.held
        if held is not None:
            if len(held) < _MAX_HELD:
                held.append(line)
            return True
        if thread.is_logging:
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
