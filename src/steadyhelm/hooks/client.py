"""`steadyhelm hook`: send one event of a coding agent to the resident helper process, and print its response.

As a rule a hook process loads only this file and the few it imports. The event goes to a resident process
that an earlier hook left behind, which has everything loaded and ends by itself after ten minutes without an
event. It keeps no state outside the store.
Without a resident, a copy of this process becomes one and handles the event; guidance then comes with the
next event, so the agent does not wait.
Where there can be no resident (`STEADYHELM_HOOK_HOST=0`), and where a call may have to be denied now, a copy
of this process handles the event while the hook waits, which is slower.

Whatever happens, the agent continues: the hook ends within a second, on any error the exit status is 0 and
nothing is printed. This process itself only passes bytes on; an event that gets no response in time is left
to a copy of it, which keeps the step for the next hook.
Before anything else the hook writes an empty note to disk. The process that records, keeps or counts the
step removes it; a note whose processes have all ended is a lost step, which a later hook counts.
"""

import os
import select
import sys
import time

from steadyhelm.environment import HOOK_HOST, PREFIX, get_home
from steadyhelm.hooks.request import (
    EXIT_TIMEOUT_S,
    INPUT_TIMEOUT_S,
    LATE_TIMEOUT_S,
    STATUS_LINE,
    Deadline,
    HookRequest,
    end_process_after,
    end_soon,
    interrupt_after,
    set_alarm,
    try_lock,
)

try:
    import _socket
except ImportError:  # pragma: no cover - a Python without sockets
    _socket = None  # type: ignore[assignment]

MAX_EVENT_BYTES = 16 << 20
ALIVE_MARK = b"."
"""Sent by the resident when it has read a request."""
RESPONSE_MARK = b"+"
_MAX_SOCKET_PATH_BYTES = 100
_LOCK_PAUSE_S = 0.02
_ALIVE_TIMEOUT_S = 3.0
"""How long a resident may take to read a request; then it is stopped or stuck."""
_RESIDENT_PATIENCE_S = 10.0
"""How long a resident may take for an event for which no agent waits."""
_LATE_PAUSE_S = 0.1
_MAX_FILES = 256
"""More than a hook has open."""
_WITH_VALUE = ("--agent", "--mode")
"""The options of a hook; the word after one is its value."""


def is_hook_event(arguments: "list[str]") -> bool:
    """Return whether these arguments of `steadyhelm` are a hook's, and not a person's.

    A command that is misspelt is a person's: it must not fail in silence, as a hook does.
    """
    if arguments[:1] != ["hook"]:
        return False
    rest = arguments[1:]
    words = [word for place, word in enumerate(rest) if not place or rest[place - 1] not in _WITH_VALUE]
    commands = [word for word in words if word.replace("-", "").isalpha() and word[0] != "-"]
    return not any(word in {"--help", "-h"} for word in words) and all(it == STATUS_LINE for it in commands)


def main(arguments: "list[str]") -> None:
    """Handle one event, or print the status line; `arguments` are those after `hook`."""
    interrupt_after(EXIT_TIMEOUT_S)
    request = HookRequest(arguments, b"", Deadline())
    try:
        _handle_event(request)
    except BaseException as exc:  # noqa: BLE001 - the agent must not notice
        _report_error(request, "hook: " + type(exc).__name__, str(exc))
    finally:
        set_alarm(0)


def _handle_event(request: HookRequest) -> None:
    is_disabled = os.environ.get(PREFIX + "DISABLED", "").lower() in {"1", "true", "yes", "on"}
    if not is_disabled:
        request.write_note()
    body = _read_input(Deadline(INPUT_TIMEOUT_S))
    if is_disabled:
        return
    if isinstance(body, str):
        _report_error(request, body)
        return
    request.body = body
    try:
        response = _find_response(request)
    except BaseException:  # noqa: BLE001 - out of time, or interrupted: the event is here, and nothing else
        _finish_later(request)
    else:
        _print(response)


def _find_response(request: HookRequest) -> bytes:
    response = ask_resident(request)
    if response is None and not _must_respond_now(request.arguments):
        response = _start_resident(request)
    if response is None:
        request.deadline.require_time()
        response = _handle_in_copy(request)
    return response


def _read_input(deadline: Deadline) -> "bytes | str":
    """Return what is on standard input, or why it cannot be used.

    An agent that leaves it open has written the event when that ends with a brace.
    """
    pieces: list[bytes] = []
    size = 0
    while True:
        if not select.select([0], [], [], deadline.get_left_s())[0]:
            break
        piece = os.read(0, 1 << 20)
        if not piece:
            return b"".join(pieces) if size <= MAX_EVENT_BYTES else "hook: the event is too large"
        size += len(piece)
        if size <= MAX_EVENT_BYTES:
            pieces.append(piece)
        else:
            pieces.clear()
        if deadline.has_passed():
            break
    if pieces and pieces[-1].rstrip().endswith(b"}"):
        return b"".join(pieces)
    return "hook: the event did not come in time"


def _print(response: bytes) -> None:
    try:
        if response:
            sys.stdout.buffer.write(response + b"\n")
            sys.stdout.buffer.flush()
    except OSError as exc:  # the agent no longer reads; the step is recorded all the same
        _log_error("hook: the response could not be written", str(exc))


def _must_respond_now(arguments: "list[str]") -> bool:
    return "enforce" in arguments or os.environ.get(PREFIX + "MODE") == "enforce"


# The resident.


def get_socket_path() -> str:
    """Return the socket the resident listens on; empty where there can be no resident."""
    path = get_home() + "/hook.sock"
    allowed = os.environ.get(HOOK_HOST, "1") != "0" and hasattr(os, "fork")
    return (
        path
        if allowed and hasattr(_socket, "AF_UNIX") and len(os.fsencode(path)) < _MAX_SOCKET_PATH_BYTES
        else ""
    )


class StuckResidentError(TimeoutError):
    """The resident does not even read the request."""


def ask_resident(request: HookRequest) -> "bytes | None":
    """Return the response of the resident; None when there is none, or it has not handled the event.

    Raises TimeoutError when it does not respond in time.
    """
    path = get_socket_path()
    if not path:
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    received = b""
    try:
        _set_timeout(connection, request.deadline)
        connection.connect(path)
        connection.sendall(request.pack())
        while True:
            is_unread = request.is_late and not received
            _set_timeout(connection, Deadline(_ALIVE_TIMEOUT_S) if is_unread else request.deadline)
            piece = connection.recv(1 << 16)
            if not piece:
                break
            received += piece
    except TimeoutError as exc:
        raise TimeoutError if received else StuckResidentError from exc
    except OSError:
        return None
    finally:
        connection.close()
    mark = ALIVE_MARK + RESPONSE_MARK
    return received[len(mark) :] if received.startswith(mark) else None


def _set_timeout(connection: "_socket.socket", deadline: Deadline) -> None:
    deadline.require_time()
    connection.settimeout(deadline.get_left_s() or 0.001)


def _start_resident(request: HookRequest) -> "bytes | None":
    """Let a copy of this process handle the event and stay as the resident; None when that is impossible."""
    path = get_socket_path()
    if not path:
        return None
    try:
        os.makedirs(get_home(), mode=0o700, exist_ok=True)  # noqa: PTH103 - pathlib takes long to load
        while (lock := acquire_lock(path)) is None:
            request.deadline.require_time()
            time.sleep(_LOCK_PAUSE_S)
            response = ask_resident(request)
            if response is not None:
                return response
        if not os.fork():
            become_resident(path, lock, request)
    except TimeoutError:
        raise
    except OSError:
        return None
    return b"" if request.is_step else b"steadyhelm: watching"


def acquire_lock(path: str) -> "int | None":
    """Return the lock of the one process that may listen there; None while another process holds it."""
    lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not try_lock(lock):
        os.close(lock)
        return None
    os.ftruncate(lock, 0)  # the process that was named there no longer holds it
    return lock


def become_resident(path: str, lock: int, request: "HookRequest | None") -> None:
    """Become the resident that handles this event and later hooks. Called in a copy only; never returns."""
    try:
        # The agent waits until its pipes are closed: close them before anything is loaded.
        _detach(lock, request.note if request is not None else -1)
        from steadyhelm.hooks.resident import run_resident

        run_resident(path, lock, request)
    finally:
        os._exit(0)


def _detach(*kept: int) -> None:
    """Close everything that belongs to the agent but these files of ours; -1 is none."""
    # Its hook has an alarm of its own.
    end_process_after(LATE_TIMEOUT_S)
    if os.getsid(0) != os.getpid():
        os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    first = 3
    for file in (*sorted(it for it in kept if it >= first), _MAX_FILES):
        os.closerange(first, file)
        first = file + 1
    os.umask(0o077)


# Without the resident.


def _handle_in_copy(request: HookRequest) -> bytes:
    """Return the response of a copy of this process. It goes on by itself when the time is over."""
    if not hasattr(os, "fork"):  # pragma: no cover - Windows
        from steadyhelm.hooks.handler import handle_request

        return handle_request(request) or b""
    receiver, sender = os.pipe()
    sys.stdout.flush()
    if not os.fork():
        _work(request, sender)
    os.close(sender)
    return _read_until(request.deadline, receiver)


def _read_until(deadline: Deadline, receiver: int) -> bytes:
    """Return what comes through a pipe until it is closed, or until the time is over."""
    response = b""
    while select.select([receiver], [], [], deadline.get_left_s())[0]:
        piece = os.read(receiver, 1 << 16)
        if not piece:
            break
        response += piece
    return response


def _work(request: HookRequest, sender: int) -> None:
    """Handle the event in this copy, send the response, and stay as the resident where that is possible."""
    try:
        _detach(sender, request.note)
        from steadyhelm.hooks.resident import handle_alone

        handle_alone(request, sender)
    finally:
        os._exit(0)


def _finish_later(request: HookRequest) -> None:
    """Leave an event that got no response in time to a copy of this process."""
    end_soon()
    if request.is_step and hasattr(os, "fork") and not os.fork():
        try:
            _detach(request.note)
            _finish(request)
        finally:
            os._exit(0)


def _finish(request: HookRequest) -> None:
    """Have the event handled by the resident, or by this copy, where it can be as a new one."""
    path = get_socket_path()
    until = Deadline(LATE_TIMEOUT_S / 2)
    try:
        while path and not until.has_passed():
            if _ask_late(request, path):
                return
            lock = acquire_lock(path)
            if lock is not None:
                become_resident(path, lock, request)
            time.sleep(_LATE_PAUSE_S)  # it is starting, busy, or all its places are taken
        if path and time.time() - os.stat(path + ".lock").st_mtime > LATE_TIMEOUT_S / 2:  # noqa: PTH116
            _end_resident(path)  # it was stopped before it could listen
    except OSError:
        pass
    from steadyhelm.hooks.resident import handle_late

    handle_late(request, _RESIDENT_PATIENCE_S)


def _ask_late(request: HookRequest, path: str) -> bool:
    """Return whether the resident has handled the event; end a resident that does not even read it."""
    try:
        return ask_resident(request.make_late(_RESIDENT_PATIENCE_S)) is not None
    except StuckResidentError:
        _end_resident(path)
    except TimeoutError:
        pass
    return False


def _end_resident(path: str) -> None:
    """End the process that holds the lock of the resident."""
    lock = acquire_lock(path)
    if lock is not None:
        os.close(lock)
        return
    file = os.open(path + ".lock", os.O_RDONLY)
    try:
        owner = os.read(file, 20)
    finally:
        os.close(file)
    if owner.strip().isdigit():
        os.kill(int(owner), 9)


def _report_error(request: HookRequest, reason: str, details: str = "") -> None:
    """Write an error to the log; a copy of this process counts it, as the agent must not wait for that."""
    try:
        request.write_note()
        _log_error(reason, details)
        if request.is_step and hasattr(os, "fork") and not os.fork():
            try:
                _detach(request.note)
                from steadyhelm.hooks.handler import count_loss

                count_loss(request, reason)
            finally:
                os._exit(0)
    except BaseException:  # noqa: BLE001, S110 - there is nowhere left to report it
        pass


def _log_error(reason: str, details: str) -> None:
    from steadyhelm.hooks.log import write_log

    write_log(reason, details)
