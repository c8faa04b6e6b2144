"""The resident helper process: it has everything loaded and handles hooks until it has been idle for a while.

It keeps no state between two steps outside the store, so it can be ended at any moment.
Only its owner can reach it, and all it does is handle events.
Each client has a thread of its own and little time to write its request: none can block another. Events are
handled one after the other. One that takes too long ends the process, wherever it is: its hook has gone on,
and has kept the step.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import Final, NoReturn

from steadyhelm.environment import get_variables
from steadyhelm.forks import ForkSafeLock
from steadyhelm.hooks import client
from steadyhelm.hooks.handler import handle_request, prune_store, record_rest, send_alerts
from steadyhelm.hooks.request import (
    WORK_TIMEOUT_S,
    Deadline,
    HookRequest,
    get_installation_id,
    get_working_directory,
    set_alarm,
)

IDLE_TIMEOUT_S: Final = 600.0
_READ_TIMEOUT_S: Final = 1.0
_STOP_TIMEOUT_S: Final = 3.0
_UPKEEP_S: Final = 5.0
"""How often steps that wait are tried again while no hook comes."""
_PRUNE_TIMEOUT_S: Final = 60.0
_MAX_CLIENTS: Final = 64
_STOP_REQUEST: Final = "stop"


# In a copy of a hook process.


def run_resident(path: str, lock: int, request: HookRequest | None = None) -> NoReturn:
    """Handle the first event, for which no agent waits, then listen until idle. Never returns."""
    try:
        os.pwrite(lock, b"%d\n" % os.getpid(), 0)
        if request is not None:
            handle_request(request.make_late(WORK_TIMEOUT_S))
            request.release_note()
        record_rest()
        set_alarm(0)
        os.chdir("/")
        send_alerts(stays=True)
        Resident(path).serve()
    except BaseException:  # noqa: BLE001, S110 - no one reads its output
        pass
    finally:
        os._exit(0)


def handle_alone(request: HookRequest, sender: int) -> None:
    """Handle the event and send the response to the hook; stay as the resident where that is possible."""
    response = handle_request(request)
    with contextlib.suppress(OSError):
        os.write(sender, response or b"")
    os.close(sender)
    if response is None:
        handle_request(request.make_late(WORK_TIMEOUT_S))
    request.release_note()
    path = client.get_socket_path()
    lock = client.acquire_lock(path) if path else None
    if lock is not None:
        run_resident(path, lock)
    record_rest(WORK_TIMEOUT_S)
    send_alerts(stays=False)


def handle_late(request: HookRequest, timeout_s: float) -> None:
    """Handle an event for which no agent waits, and all steps that wait."""
    handle_request(request.make_late(timeout_s))
    request.release_note()
    record_rest(WORK_TIMEOUT_S)
    send_alerts(stays=False)


def stop_resident(path: str) -> bool:
    """Ask the resident that listens there to end; return whether there was one."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
        connection.settimeout(_STOP_TIMEOUT_S)
        try:
            connection.connect(path)
            head = _STOP_REQUEST.encode()
            connection.sendall(len(head).to_bytes(4, "big") + bytes(4) + head)
            connection.recv(1)
        except OSError:
            return False
    return True


class Resident:
    """Listens on a socket, and handles the events that hooks send.

    Args:
        path: The socket.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._turn = ForkSafeLock()
        self._clients = threading.BoundedSemaphore(_MAX_CLIENTS)

    def _accept_until_idle(self, listener: socket.socket) -> None:
        idle = Deadline(IDLE_TIMEOUT_S)
        while not idle.has_passed():
            try:
                self._accept(listener)
                idle = Deadline(IDLE_TIMEOUT_S)
            except TimeoutError:
                self._record_rest()

    def serve(self) -> None:
        """Handle hooks until none has come for a while; then remove what is too old."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)  # noqa: PTH108 - left by a resident that was killed
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as listener:
            listener.bind(self._path)
            listener.listen(_MAX_CLIENTS)
            listener.settimeout(_UPKEEP_S)
            self._accept_until_idle(listener)
        with self._turn:
            self._remove_socket()
            set_alarm(_PRUNE_TIMEOUT_S)
            prune_store()

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        if not self._clients.acquire(blocking=False):
            connection.close()
            return
        threading.Thread(target=self._serve_client, args=(connection,), daemon=True).start()

    def _serve_client(self, connection: socket.socket) -> None:
        try:
            with contextlib.closing(connection):
                self._respond(connection)
        except Exception:  # noqa: BLE001, S110 - the client closed the connection, or is not ours
            pass
        finally:
            self._clients.release()

    def _respond(self, connection: socket.socket) -> None:
        head, body = _receive_request(connection, Deadline(_READ_TIMEOUT_S))
        if head[0] == _STOP_REQUEST:
            self._end()
        request, folder, variables = _unpack_request(head, body)
        if head[0] != get_installation_id():
            self._end()  # after an upgrade the next hook starts a resident of the new version
        connection.sendall(client.ALIVE_MARK)
        if not self._turn.acquire(timeout=request.deadline.get_left_s()):
            return
        try:
            set_alarm(WORK_TIMEOUT_S)
            with _in_folder(folder), _with_environment(get_variables(), variables):
                _handle(request, connection)
        finally:
            set_alarm(0)
            self._turn.release()

    def _record_rest(self) -> None:
        """Record the steps that wait."""
        with self._turn:
            set_alarm(WORK_TIMEOUT_S)
            record_rest()
            send_alerts(stays=True)
            set_alarm(0)

    def _end(self) -> NoReturn:
        """End this process, as soon as the event under way is handled."""
        self._remove_socket()
        self._turn.acquire(timeout=WORK_TIMEOUT_S)
        os._exit(0)

    def _remove_socket(self) -> None:
        # The lock file stays: a new one beside a lock still held would allow two residents.
        with contextlib.suppress(OSError):
            os.unlink(self._path)  # noqa: PTH108


def _receive_request(connection: socket.socket, deadline: Deadline) -> tuple[list[str], bytes]:
    sizes = _receive_bytes(connection, 8, deadline)
    head = _receive_bytes(connection, int.from_bytes(sizes[:4], "big"), deadline)
    body = _receive_bytes(connection, int.from_bytes(sizes[4:], "big"), deadline)
    return head.decode("utf-8", "surrogateescape").split("\0"), body


def _receive_bytes(connection: socket.socket, size: int, deadline: Deadline) -> bytes:
    if size > client.MAX_EVENT_BYTES:
        raise ValueError(f"a request of {size} bytes")
    pieces = []
    while size:
        deadline.require_time()
        connection.settimeout(deadline.get_left_s() or 0.001)
        piece = connection.recv(min(size, 1 << 20))
        if not piece:
            raise ValueError("an incomplete request")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _unpack_request(head: list[str], body: bytes) -> tuple[HookRequest, str, dict[str, str]]:
    """Return the request, and the working directory and the settings of its hook; the reverse of `pack`."""
    _, folder, at, token, until, count, *rest = head
    arguments, own = rest[: int(count)], rest[int(count) :]
    if len(arguments) != int(count) or not token.isalnum():
        raise ValueError("a malformed request")
    moment, _, late = until.partition(" ")
    request = HookRequest(
        arguments, body, Deadline(at=float(moment)), at=float(at), token=token, is_late=bool(late)
    )
    return request, folder, dict(variable.split("=", 1) for variable in own)


# The resident handles each event in the hook's own working directory and with its settings.


@contextlib.contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    before = get_working_directory()
    with contextlib.suppress(OSError):
        os.chdir(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.chdir(before)


@contextlib.contextmanager
def _with_environment(before: dict[str, str], now: dict[str, str]) -> Iterator[None]:
    for name in before:
        del os.environ[name]
    os.environ.update(now)
    try:
        yield
    finally:
        for name in now:
            os.environ.pop(name, None)
        os.environ.update(before)


def _handle(request: HookRequest, connection: socket.socket) -> None:
    """Handle an event, send the response, and do what can wait until it is sent."""
    response = handle_request(request)
    if response is not None:
        connection.settimeout(_READ_TIMEOUT_S)
        connection.sendall(client.RESPONSE_MARK + response)
    connection.close()
    record_rest()
    send_alerts(stays=True)
