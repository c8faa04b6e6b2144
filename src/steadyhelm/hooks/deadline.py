"""The time a hook has: one deadline for all of its steps, and an alarm behind it.

Every hook process loads this module: it imports nothing that takes long to load.
"""

import os
import time

try:
    import _signal  # type: ignore[import-not-found]
except ImportError:  # pragma: no cover - a Python without signals
    _signal = None

ANSWER_TIMEOUT_S = 0.6
"""How long the agent waits for a response; then it continues without one, and the step is recorded later."""
INPUT_TIMEOUT_S = 0.35
"""How long the agent may take to write the event."""
EXIT_TIMEOUT_S = 0.72
"""After this time a hook ends, whatever it is doing."""
WORK_TIMEOUT_S = 5.0
"""How long the resident may work on one event; then it is ended."""
LATE_TIMEOUT_S = 20.0
"""How long a copy of a hook may work on an event for which no agent waits; then it is ended."""


class Deadline:
    """A moment of the monotonic clock, which all processes of a machine share.

    Args:
        timeout_s: How long from now.
        at: The moment itself, instead.
    """

    def __init__(self, timeout_s: float = ANSWER_TIMEOUT_S, *, at: "float | None" = None) -> None:
        self.at = time.monotonic() + timeout_s if at is None else at

    def left_s(self) -> float:
        """Return the seconds left; 0 when it has passed."""
        return max(0.0, self.at - time.monotonic())

    def has_passed(self) -> bool:
        """Return whether it has passed."""
        return self.left_s() <= 0.0

    def require_time(self) -> None:
        """Raise TimeoutError when it has passed."""
        if self.has_passed():
            raise TimeoutError("the time for a response is over")


def end_process_after(timeout_s: float, *, quietly: bool = False) -> None:
    """End this process after that time: with status 0 when `quietly`, else by the system, wherever it is.

    Call it in the main thread.
    """
    if hasattr(_signal, "setitimer"):
        _signal.signal(_signal.SIGALRM, _exit_quietly if quietly else _signal.SIG_DFL)
        set_alarm(timeout_s)


def set_alarm(timeout_s: float) -> None:
    """Move the end of this process to that time from now; 0 cancels it."""
    if hasattr(_signal, "setitimer"):
        _signal.setitimer(_signal.ITIMER_REAL, timeout_s)


def _exit_quietly(*_: object) -> None:
    os._exit(0)
