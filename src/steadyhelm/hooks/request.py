"""What one hook asks for, and the time it has: one deadline for all of its steps, and an alarm behind it.

Every hook process loads this module: it imports nothing that takes long to load.
"""

import os
import sys
import time

from steadyhelm.environment import get_home, get_variables

try:
    import _signal  # type: ignore[import-not-found]
except ImportError:  # pragma: no cover - a Python without signals
    _signal = None

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

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
STATUS_LINE = "statusline"
"""The argument of a request for the status line, which is no step."""
STEPS_FOLDER = "hook-steps"
"""Steps that wait to be recorded, in Steadyhelm's own folder."""
OPEN_SUFFIX = ".open"
"""The ending of an empty file, the note of an event. The process at work on the event holds a lock on it."""
STEP_SUFFIX = ".step"
"""The ending of a file with a step that waits, without secrets."""


class Deadline:
    """A moment of the monotonic clock, which all processes of a machine share.

    Args:
        timeout_s: How long from now.
        at: The moment itself, instead.
    """

    def __init__(self, timeout_s: float = ANSWER_TIMEOUT_S, *, at: "float | None" = None) -> None:
        self.at = time.monotonic() + timeout_s if at is None else at

    def get_left_s(self) -> float:
        """Return the seconds left; 0 when it has passed."""
        return max(0.0, self.at - time.monotonic())

    def has_passed(self) -> bool:
        """Return whether it has passed."""
        return self.get_left_s() <= 0.0

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


class HookRequest:
    """One event of a coding agent, as it came.

    Args:
        arguments: The options of the hook.
        body: The event.
        deadline: Until when the agent waits.
        at: When it came.
        token: Tells it from others at the same time.
        is_late: Whether the agent no longer waits: the response is then kept for the session's next event.
    """

    __slots__ = ("arguments", "at", "body", "deadline", "is_late", "note", "token")

    def __init__(
        self,
        arguments: "list[str]",
        body: bytes,
        deadline: Deadline,
        *,
        at: float = 0.0,
        token: str = "",
        is_late: bool = False,
    ) -> None:
        self.arguments = arguments
        self.body = body
        self.deadline = deadline
        self.at = at or time.time()
        self.token = token or os.urandom(8).hex()
        self.is_late = is_late
        self.note = -1

    @property
    def is_step(self) -> bool:
        """Whether it is about a step of the agent."""
        return STATUS_LINE not in self.arguments

    @property
    def name(self) -> str:
        """The name of its files, without their ending: in order of time."""
        return f"{int(self.at * 1e6):017d}-{self.token}"

    def make_late(self, timeout_s: float) -> "HookRequest":
        """Return the same request with more time, as the agent has gone on."""
        deadline = Deadline(timeout_s)
        late = HookRequest(self.arguments, self.body, deadline, at=self.at, token=self.token, is_late=True)
        late.note = self.note
        return late

    def pack(self) -> bytes:
        """Return the request to the resident: the event, the working directory and the settings."""
        own = [f"{name}={value}" for name, value in get_variables().items()]
        until = f"{self.deadline.at!r}{' late' if self.is_late else ''}"
        facts = [repr(self.at), self.token, until, str(len(self.arguments))]
        head = "\0".join([get_installation_id(), get_working_directory(), *facts, *self.arguments, *own])
        encoded = head.encode("utf-8", "surrogateescape")
        return len(encoded).to_bytes(4, "big") + len(self.body).to_bytes(4, "big") + encoded + self.body

    def write_note(self) -> None:
        """Note on disk, without the event, that a step came: a later hook counts it if it is lost.

        The note is locked until this process and its copies have ended, or have released it.
        """
        if not self.is_step or self.note >= 0:
            return
        try:
            path, flags = f"{get_steps_folder()}/{self.name}{OPEN_SUFFIX}", os.O_CREAT | os.O_WRONLY
            try:
                self.note = os.open(path, flags, 0o600)
            except FileNotFoundError:
                for folder in (get_home(), get_steps_folder()):
                    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - pathlib takes long to load
                self.note = os.open(path, flags, 0o600)
            try_lock(self.note)
        except OSError:
            pass

    def remove_note(self) -> None:
        """Remove the note: the event is recorded, waits as a step, or was counted as lost."""
        try:  # noqa: SIM105 - contextlib takes long to load
            os.unlink(f"{get_steps_folder()}/{self.name}{OPEN_SUFFIX}")  # noqa: PTH108 - pathlib takes long to load
        except OSError:
            pass

    def release_note(self) -> None:
        """Release the note: if it is still there, the event is lost, and a later hook counts it."""
        if self.note >= 0:
            os.close(self.note)
            self.note = -1


def try_lock(file: int) -> "bool | None":
    """Lock an open file for this process and its copies, without waiting.

    Return whether it is locked now; False when another process holds it, None where files cannot be locked.
    """
    if not hasattr(fcntl, "flock"):  # pragma: no cover - Windows
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def get_steps_folder() -> str:
    """Return the folder of steps that wait to be recorded."""
    return f"{get_home()}/{STEPS_FOLDER}"


def get_installation_id() -> str:
    """Return which installation this is: a resident of another one must not respond for it."""
    return f"{sys.executable} {os.stat(__file__).st_mtime_ns}"  # noqa: PTH116 - pathlib takes long to load


def get_working_directory() -> str:
    """Return the working directory, or / when it was removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib takes long to load
    except OSError:
        return "/"
