"""`steadyhelm hook`: hand one event of a coding agent over, and print the answer.

This file is all that a hook process loads as a rule: the event goes to a process that has everything loaded
already, left behind by an earlier hook, which ends by itself when nobody speaks for a while.
It keeps nothing that is not in the store. Where there is none yet, a copy of this process becomes one and
takes the event in, and what there is to say is said with the next event: the agent does not wait.
Where there can be none, with `STEADYHELM_HOOK_HOST=0`, and where a call may have to be denied now, the same
is done here, only slower.

Whatever happens, the agent goes on: the exit status is 0, and nothing is printed.
"""

import os
import sys
import time

from steadyhelm.environment import HOOK_HOST, PREFIX, get_home, get_variables

try:
    import _socket
except ImportError:  # pragma: no cover - a Python without sockets
    _socket = None  # type: ignore[assignment]

WAIT_S = 3.0
"""How long a hook waits for an answer before the agent goes on without one."""
LATE = "hook: no answer in time"
MOST_BYTES = 16 << 20
_ANSWERED = b"+"
_LONGEST_PATH = 100
_ATTEMPTS = 75
_PAUSE_S = 0.02
_COMMANDS = ("install", "uninstall", "status")


def wants(arguments: "list[str]") -> bool:
    """Whether these arguments of `steadyhelm` are for us, and not for a person at the command line."""
    if arguments[:1] != ["hook"]:
        return False
    rest = arguments[1:]
    return not any(word in _COMMANDS or word in {"--help", "-h"} for word in rest)


def main(arguments: "list[str]") -> None:
    """Answer one event, or give the status line; `arguments` stand behind `hook`."""
    try:
        _main(arguments)
    except BaseException as exc:  # noqa: BLE001 - the agent must not notice
        _note("hook: " + type(exc).__name__, exc)


def _main(arguments: "list[str]") -> None:
    body = _read()
    if os.environ.get(PREFIX + "DISABLED", "").lower() in {"1", "true", "yes", "on"}:
        return
    if body is None:
        _note("hook: the event is too large")
        return
    answer = asked(arguments, body)
    if answer is None and not _must_answer_now(arguments):
        answer = _handed_on(arguments, body)
    _print(_here(arguments, body) if answer is None else answer)


def _read() -> "bytes | None":
    """Everything on standard input; None when that is too much, and then it is read all the same."""
    pieces, size = [], 0
    while piece := os.read(0, 1 << 20):
        size += len(piece)
        if size <= MOST_BYTES:
            pieces.append(piece)
        else:
            pieces.clear()
    return b"".join(pieces) if size <= MOST_BYTES else None


def _print(answer: bytes) -> None:
    if answer:
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()


def _here(arguments: "list[str]", body: bytes) -> bytes:
    """The answer, worked out by this process; a copy of it stays behind where it can."""
    from steadyhelm.hooks.handler import answered

    path = address()
    if not path:
        return answered(arguments, body)
    from steadyhelm.hooks.resident import settle, stay

    settle(path)
    _print(answered(arguments, body))
    stay(path)
    return b""


def _must_answer_now(arguments: "list[str]") -> bool:
    return "enforce" in arguments or os.environ.get(PREFIX + "MODE") == "enforce"


def _handed_on(arguments: "list[str]", body: bytes) -> "bytes | None":
    """Leave the event to a copy of this process, which then stays; None when that cannot be done.

    The event is on disk until it is taken in: if the copy is not let live, the next hook finds it there.
    """
    path = address()
    if not path:
        return None
    os.makedirs(get_home(), mode=0o700, exist_ok=True)  # noqa: PTH103 - pathlib takes as long as all the rest
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_S)
            answer = asked(arguments, body)
            if answer is not None:
                return answer
        lock = locked(path)
        if lock is not None:
            break
    else:
        return None
    left = path + ".event"
    if os.path.exists(left):  # noqa: PTH110 - see folder
        os.close(lock)
        return None
    with open(os.open(left, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:  # noqa: PTH123 - see folder
        file.write(packed(arguments, body))
    if not os.fork():
        stay_behind(path, lock)
    return b"steadyhelm: watching" if "statusline" in arguments else b""


def stay_behind(path: str, lock: int) -> None:
    """Become the process that answers the hooks to come; only ever called in a copy."""
    try:
        # The agent waits until nobody holds its pipes: let go of them before anything is loaded.
        let_go(lock)
        from steadyhelm.hooks.resident import begin

        begin(path)
    finally:
        os._exit(0)


def let_go(lock: int) -> None:
    """Hold on to nothing of the agent's, and to the lock."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.dup2(lock, 3)
    os.closerange(4, 256)
    os.umask(0o077)


def locked(path: str) -> "int | None":
    """The lock of the one process that may listen there; None while another has it."""
    import fcntl

    lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def address() -> str:
    """Where the process that has everything loaded listens; empty where there can be none."""
    path = get_home() + "/hook.sock"
    allowed = os.environ.get(HOOK_HOST, "1") != "0" and hasattr(os, "fork")
    return path if allowed and hasattr(_socket, "AF_UNIX") and len(os.fsencode(path)) < _LONGEST_PATH else ""


def build() -> str:
    """Which installation this is: another one must not answer for it."""
    return f"{sys.executable} {os.stat(__file__).st_mtime_ns}"  # noqa: PTH116 - pathlib takes as long as all the rest


def asked(arguments: "list[str]", body: bytes) -> "bytes | None":
    """The answer of the process that has everything loaded; None when there is none to ask.

    One that takes too long was asked all the same: the step is not taken twice, and the agent goes on.
    """
    path = address()
    if not path:
        return None
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        line.settimeout(WAIT_S)
        try:
            line.connect(path)
        except OSError:
            return None
        line.sendall(packed(arguments, body))
        answer = b""
        while piece := line.recv(1 << 16):
            answer += piece
    except TimeoutError:
        _note(LATE)
        return b""
    except OSError:
        return None
    finally:
        line.close()
    return answer[1:] if answer[:1] == _ANSWERED else None


def packed(arguments: "list[str]", body: bytes) -> bytes:
    """All that is needed to answer elsewhere: the event, and whose folder and settings count."""
    own = [f"{name}={value}" for name, value in get_variables().items()]
    head = "\0".join([build(), here_or_root(), str(len(arguments)), *arguments, *own])
    encoded = head.encode("utf-8", "surrogateescape")
    return len(encoded).to_bytes(4, "big") + len(body).to_bytes(4, "big") + encoded + body


def here_or_root() -> str:
    """The folder we are in."""
    try:
        return os.getcwd()  # noqa: PTH109 - the same
    except OSError:
        return "/"  # the agent's folder was removed


def _note(reason: str, exc: object = "") -> None:
    try:
        from steadyhelm.hooks.handler import note

        note(reason, exc, count=reason != LATE)
    except BaseException:  # noqa: BLE001, S110 - there is nowhere left to say it
        pass
