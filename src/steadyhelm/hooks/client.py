"""`steadyhelm hook`: send one event of a coding agent to the resident helper process, and print its response.

As a rule a hook process loads only this file. The event goes to a resident process that an earlier hook left
behind, which has everything loaded and ends by itself after ten minutes without an event. It keeps no state
outside the store.
Without a resident, a copy of this process becomes one and handles the event; guidance then comes with the
next event, so the agent does not wait.
Where there can be no resident (`STEADYHELM_HOOK_HOST=0`), and where a call may have to be denied now, the
event is handled in this process, which is slower.

Whatever happens, the agent continues: on any error the exit status is 0 and nothing is printed.
"""

import os
import sys
import time

from steadyhelm.environment import HOOK_HOST, PREFIX, get_home, get_variables

try:
    import _socket
except ImportError:  # pragma: no cover - a Python without sockets
    _socket = None  # type: ignore[assignment]

RESPONSE_TIMEOUT_S = 3.0
"""How long a hook waits for a response before the agent continues without one."""
TIMEOUT_REASON = "hook: no response in time"
MAX_EVENT_BYTES = 16 << 20
_RESPONSE_MARK = b"+"
_MAX_SOCKET_PATH_BYTES = 100
_LOCK_ATTEMPTS = 75
_LOCK_PAUSE_S = 0.02
_PERSON_COMMANDS = ("install", "uninstall", "status")


def is_hook_event(arguments: "list[str]") -> bool:
    """Return whether these arguments of `steadyhelm` are a hook's, and not a person's."""
    if arguments[:1] != ["hook"]:
        return False
    rest = arguments[1:]
    return not any(word in _PERSON_COMMANDS or word in {"--help", "-h"} for word in rest)


def main(arguments: "list[str]") -> None:
    """Handle one event, or print the status line; `arguments` are those after `hook`."""
    try:
        _handle_event(arguments)
    except BaseException as exc:  # noqa: BLE001 - the agent must not notice
        _log_error("hook: " + type(exc).__name__, exc)


def _handle_event(arguments: "list[str]") -> None:
    body = _read_input()
    if os.environ.get(PREFIX + "DISABLED", "").lower() in {"1", "true", "yes", "on"}:
        return
    if body is None:
        _log_error("hook: the event is too large")
        return
    response = ask_resident(arguments, body)
    if response is None and not _must_respond_now(arguments):
        response = _hand_to_new_resident(arguments, body)
    _print(_handle_here(arguments, body) if response is None else response)


def _read_input() -> "bytes | None":
    """Read standard input to its end; return None when it is too large."""
    pieces, size = [], 0
    while piece := os.read(0, 1 << 20):
        size += len(piece)
        if size <= MAX_EVENT_BYTES:
            pieces.append(piece)
        else:
            pieces.clear()
    return b"".join(pieces) if size <= MAX_EVENT_BYTES else None


def _print(response: bytes) -> None:
    if response:
        sys.stdout.buffer.write(response + b"\n")
        sys.stdout.buffer.flush()


def _handle_here(arguments: "list[str]", body: bytes) -> bytes:
    """Return the response, computed by this process; leave a resident behind where that is possible."""
    from steadyhelm.hooks.handler import handle_event

    path = socket_path()
    if not path:
        return handle_event(arguments, body)
    from steadyhelm.hooks.resident import fork_resident, handle_left_event

    handle_left_event(path)
    _print(handle_event(arguments, body))
    fork_resident(path)
    return b""


def _must_respond_now(arguments: "list[str]") -> bool:
    return "enforce" in arguments or os.environ.get(PREFIX + "MODE") == "enforce"


def _hand_to_new_resident(arguments: "list[str]", body: bytes) -> "bytes | None":
    """Let a copy of this process handle the event and stay as the resident; None when that is not possible.

    The event is on disk until it is handled: if the copy is killed, the next hook finds it there.
    """
    path = socket_path()
    if not path:
        return None
    os.makedirs(get_home(), mode=0o700, exist_ok=True)  # noqa: PTH103 - pathlib takes as long as all the rest
    for attempt in range(_LOCK_ATTEMPTS):
        if attempt:
            time.sleep(_LOCK_PAUSE_S)
            response = ask_resident(arguments, body)
            if response is not None:
                return response
        lock = acquire_lock(path)
        if lock is not None:
            break
    else:
        return None
    left = path + ".event"
    if os.path.exists(left):  # noqa: PTH110 - the same
        os.close(lock)
        return None
    with open(os.open(left, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:  # noqa: PTH123 - the same
        file.write(pack_request(arguments, body))
    if not os.fork():
        become_resident(path, lock)
    return b"steadyhelm: watching" if "statusline" in arguments else b""


def become_resident(path: str, lock: int) -> None:
    """Become the resident that handles later hooks. Called in a forked copy only; never returns."""
    try:
        # The agent waits until its pipes are closed: close them before anything is loaded.
        detach(lock)
        from steadyhelm.hooks.resident import run_resident

        run_resident(path)
    finally:
        os._exit(0)


def detach(lock: int) -> None:
    """Close everything that belongs to the agent, and keep the lock."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.dup2(lock, 3)
    os.closerange(4, 256)
    os.umask(0o077)


def acquire_lock(path: str) -> "int | None":
    """Return the lock of the one process that may listen there; None while another process holds it."""
    import fcntl

    lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def socket_path() -> str:
    """Return the socket the resident listens on; empty where there can be no resident."""
    path = get_home() + "/hook.sock"
    allowed = os.environ.get(HOOK_HOST, "1") != "0" and hasattr(os, "fork")
    return (
        path
        if allowed and hasattr(_socket, "AF_UNIX") and len(os.fsencode(path)) < _MAX_SOCKET_PATH_BYTES
        else ""
    )


def installation_id() -> str:
    """Return which installation this is: a resident of another one must not respond for it."""
    return f"{sys.executable} {os.stat(__file__).st_mtime_ns}"  # noqa: PTH116 - the same


def ask_resident(arguments: "list[str]", body: bytes) -> "bytes | None":
    """Return the response of the resident; None when there is none.

    A resident that takes too long still handles the step, so the step is not handled twice.
    """
    path = socket_path()
    if not path:
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(RESPONSE_TIMEOUT_S)
        try:
            connection.connect(path)
        except OSError:
            return None
        connection.sendall(pack_request(arguments, body))
        response = b""
        while piece := connection.recv(1 << 16):
            response += piece
    except TimeoutError:
        _log_error(TIMEOUT_REASON)
        return b""
    except OSError:
        return None
    finally:
        connection.close()
    return response[1:] if response[:1] == _RESPONSE_MARK else None


def pack_request(arguments: "list[str]", body: bytes) -> bytes:
    """Return the request to the resident: the event, the working directory and the settings."""
    own = [f"{name}={value}" for name, value in get_variables().items()]
    head = "\0".join([installation_id(), working_directory(), str(len(arguments)), *arguments, *own])
    encoded = head.encode("utf-8", "surrogateescape")
    return len(encoded).to_bytes(4, "big") + len(body).to_bytes(4, "big") + encoded + body


def working_directory() -> str:
    """Return the working directory, or / when it was removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - the same
    except OSError:
        return "/"


def _log_error(reason: str, exc: object = "") -> None:
    try:
        from steadyhelm.hooks.handler import log_error

        log_error(reason, exc, count=reason != TIMEOUT_REASON)
    except BaseException:  # noqa: BLE001, S110 - there is nowhere left to report it
        pass
