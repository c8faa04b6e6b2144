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
EXIT_TIMEOUT_S = 0.7
"""After this time a hook leaves its event to another process, whatever it is doing."""
_EXIT_GRACE_S = 0.15
"""How long that may take; then the hook ends."""
WORK_TIMEOUT_S = 5.0
"""How long the resident may work on one event; then it is ended."""
LATE_TIMEOUT_S = 60.0
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


def interrupt_after(timeout_s: float) -> None:
    """Raise TimeoutError in the main thread after that time, and end the process with status 0 soon after."""
    if hasattr(_signal, "setitimer"):
        _signal.signal(_signal.SIGALRM, _interrupt)
        set_alarm(timeout_s)


def end_process_after(timeout_s: float) -> None:
    """Let the system end this process after that time, wherever it is. Call it in the main thread."""
    if hasattr(_signal, "setitimer"):
        _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
        set_alarm(timeout_s)


def set_alarm(timeout_s: float) -> None:
    """Move the end of this process to that time from now; 0 cancels it."""
    if hasattr(_signal, "setitimer"):
        _signal.setitimer(_signal.ITIMER_REAL, timeout_s)


def end_soon() -> None:
    """End this process with status 0 when what is left to do takes too long."""
    if hasattr(_signal, "setitimer"):
        _signal.signal(_signal.SIGALRM, _exit_quietly)
        set_alarm(_EXIT_GRACE_S)


def _interrupt(*_: object) -> None:
    end_soon()
    raise TimeoutError("the time of the hook is over")


def _exit_quietly(*_: object) -> None:
    os._exit(0)
