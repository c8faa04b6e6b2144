"""The resident helper process: it has everything loaded and handles hooks until it has been idle for a while.

It keeps no state between two steps outside the store, so it can be ended at any moment.
Only its owner can reach it, and all it does is handle events.
"""

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

from steadyhelm.environment import get_variables
from steadyhelm.hooks import client
from steadyhelm.hooks.handler import handle_event, prune_store

IDLE_TIMEOUT_S: Final = 600.0
_READ_TIMEOUT_S: Final = 2.0
_STOP_REQUEST: Final = "stop"


def fork_resident(path: str) -> None:
    """Fork a resident that handles later hooks; the agent does not wait for it."""
    lock = client.acquire_lock(path)
    if lock is None:
        return  # another hook started one
    sys.stdout.flush()
    if not os.fork():
        client.become_resident(path, lock)


def run_resident(path: str) -> NoReturn:
    """Handle the event that was left on disk, then listen until idle. Never returns."""
    try:
        handle_left_event(path)
        os.chdir("/")
        _serve(path)
    except BaseException:  # noqa: BLE001, S110 - no one reads its output
        pass
    finally:
        os._exit(0)


def handle_left_event(path: str) -> None:
    """Handle an event that was left on disk, by the process we were forked from or by one that died.

    It is removed from disk first: an event that cannot be handled must not block later ones.
    """
    left = Path(f"{path}.event")
    try:
        request = left.read_bytes()
        left.unlink()
    except OSError:
        return
    size = int.from_bytes(request[:4], "big")
    head, body = request[8 : 8 + size], request[8 + size :]
    with contextlib.suppress(ValueError, IndexError):
        _handle_request(head.decode("utf-8", "surrogateescape").split("\0"), body, late=True)


def stop_resident(path: str) -> bool:
    """Ask the resident that listens there to end; return whether there was one."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
        connection.settimeout(_READ_TIMEOUT_S)
        try:
            connection.connect(path)
            head = _STOP_REQUEST.encode()
            connection.sendall(len(head).to_bytes(4, "big") + bytes(4) + head)
            connection.recv(1)
        except OSError:
            return False
    return True


def _serve(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - left by a resident that was killed
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as listener:
        listener.bind(path)
        listener.listen(64)
        listener.settimeout(IDLE_TIMEOUT_S)
        try:
            while _serve_next(listener):
                pass
        except TimeoutError:
            prune_store()
        finally:
            # The lock file stays: a new one beside a lock still held would allow two residents.
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108


def _serve_next(listener: socket.socket) -> bool:
    """Handle one hook; return whether to continue."""
    connection, _ = listener.accept()
    with contextlib.closing(connection):
        connection.settimeout(_READ_TIMEOUT_S)
        try:
            head, body = _receive_request(connection)
            if head[0] == _STOP_REQUEST:
                return False
            if head[0] != client.installation_id():
                return False  # a newer Steadyhelm was installed; the next hook starts a resident of it
            connection.sendall(b"+" + _handle_request(head, body))
        except (OSError, ValueError):
            pass  # the client closed the connection, or is not ours
    return True


def _receive_request(connection: socket.socket) -> tuple[list[str], bytes]:
    sizes = _receive_bytes(connection, 8)
    head = _receive_bytes(connection, int.from_bytes(sizes[:4], "big"))
    body = _receive_bytes(connection, int.from_bytes(sizes[4:], "big"))
    return head.decode("utf-8", "surrogateescape").split("\0"), body


def _receive_bytes(connection: socket.socket, size: int) -> bytes:
    if size > client.MAX_EVENT_BYTES:
        raise ValueError(f"a request of {size} bytes")
    pieces = []
    while size and (piece := connection.recv(min(size, 1 << 20))):
        pieces.append(piece)
        size -= len(piece)
    if size:
        raise ValueError("an incomplete request")
    return b"".join(pieces)


def _handle_request(head: list[str], body: bytes, *, late: bool = False) -> bytes:
    """Handle a request in the hook's own working directory and with its settings."""
    cwd, count = head[1], int(head[2])
    arguments, own = head[3 : 3 + count], head[3 + count :]
    settings = dict(setting.split("=", 1) for setting in own)
    before = get_variables()
    with _in_folder(cwd), _with_environment(before, settings):
        return handle_event(arguments, body, late=late)


@contextlib.contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    before = client.working_directory()
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
