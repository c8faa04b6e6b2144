"""The process that has everything loaded: answers hooks until nobody has spoken for a while.

It remembers nothing between two steps that is not in the store: ended at any moment, it is not missed.
Only its owner can reach it, and all it does is turn events into answers.
"""

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

from steadyhelm.environment import get_variables
from steadyhelm.hooks import client as hook
from steadyhelm.hooks.handler import answered, prune

IDLE_S: Final = 600.0
_READ_S: Final = 2.0
_STOP: Final = "stop"


def stay(path: str) -> None:
    """Leave a copy of this process behind to answer the hooks to come; the agent does not wait for it."""
    lock = hook.locked(path)
    if lock is None:
        return  # another hook was faster
    sys.stdout.flush()
    if not os.fork():
        hook.stay_behind(path, lock)


def begin(path: str) -> NoReturn:
    """Become the process that answers: take in the event that was left to us, then listen."""
    try:
        settle(path)
        os.chdir("/")
        _serve(path)
    except BaseException:  # noqa: BLE001, S110 - nobody is there to hear it
        pass
    finally:
        os._exit(0)


def settle(path: str) -> None:
    """Take in an event that was left on disk, by the one we were copied from or by one that died.

    It is taken off the disk first: an event nobody can take in must not stand in the way for ever.
    """
    left = Path(f"{path}.event")
    try:
        question = left.read_bytes()
        left.unlink()
    except OSError:
        return
    size = int.from_bytes(question[:4], "big")
    head, body = question[8 : 8 + size], question[8 + size :]
    with contextlib.suppress(ValueError, IndexError):
        _answer(head.decode("utf-8", "surrogateescape").split("\0"), body, late=True)


def end(path: str) -> bool:
    """Ask the process that listens there to end; whether there was one."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as line:
        line.settimeout(_READ_S)
        try:
            line.connect(path)
            head = _STOP.encode()
            line.sendall(len(head).to_bytes(4, "big") + bytes(4) + head)
            line.recv(1)
        except OSError:
            return False
    return True


def _serve(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - left by one that was killed
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as door:
        door.bind(path)
        door.listen(64)
        door.settimeout(IDLE_S)
        try:
            while _answer_next(door):
                pass
        except TimeoutError:
            prune()
        finally:
            # The lock file stays: a new one beside a lock still held would let two of us in.
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108


def _answer_next(door: socket.socket) -> bool:
    """Answer one hook; whether to go on."""
    line, _ = door.accept()
    with contextlib.closing(line):
        line.settimeout(_READ_S)
        try:
            head, body = _question(line)
            if head[0] == _STOP:
                return False
            if head[0] != hook.build():
                return False  # a newer Steadyhelm was installed; whoever asks next leaves one of it behind
            line.sendall(b"+" + _answer(head, body))
        except (OSError, ValueError):
            pass  # it went away, or is none of ours
    return True


def _question(line: socket.socket) -> tuple[list[str], bytes]:
    sizes = _exactly(line, 8)
    head = _exactly(line, int.from_bytes(sizes[:4], "big"))
    body = _exactly(line, int.from_bytes(sizes[4:], "big"))
    return head.decode("utf-8", "surrogateescape").split("\0"), body


def _exactly(line: socket.socket, size: int) -> bytes:
    if size > hook.MOST_BYTES:
        raise ValueError(f"a question of {size} bytes")
    pieces = []
    while size and (piece := line.recv(min(size, 1 << 20))):
        pieces.append(piece)
        size -= len(piece)
    if size:
        raise ValueError("half a question")
    return b"".join(pieces)


def _answer(head: list[str], body: bytes, *, late: bool = False) -> bytes:
    """Answer as if in the hook's own place: its folder and its settings."""
    cwd, count = head[1], int(head[2])
    arguments, own = head[3 : 3 + count], head[3 + count :]
    settings = dict(setting.split("=", 1) for setting in own)
    before = get_variables()
    with _in_folder(cwd), _with_settings(before, settings):
        return answered(arguments, body, late=late)


@contextlib.contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    before = hook.here_or_root()
    with contextlib.suppress(OSError):
        os.chdir(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.chdir(before)


@contextlib.contextmanager
def _with_settings(before: dict[str, str], now: dict[str, str]) -> Iterator[None]:
    for name in before:
        del os.environ[name]
    os.environ.update(now)
    try:
        yield
    finally:
        for name in now:
            os.environ.pop(name, None)
        os.environ.update(before)
