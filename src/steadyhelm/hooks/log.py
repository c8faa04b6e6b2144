"""The log of hooks that failed, which `hook status` reads.

A hook process loads this module when something went wrong: it imports nothing that takes long to load.
"""

import os
import time

from steadyhelm.environment import get_home

LOG_NAME = "hook.log"
_MAX_LOG_BYTES = 256 << 10
_MAX_CHARACTERS = 500
# A pipe under this name must not make the hook wait.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


def write_log(reason: str, details: str = "") -> None:
    """Append one line; do nothing where that is not possible."""
    words = " ".join(details.split())[:_MAX_CHARACTERS].encode("ascii", "backslashreplace").decode()
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {reason}{': ' if words else ''}{words}\n"
    try:
        os.makedirs(get_home(), mode=0o700, exist_ok=True)  # noqa: PTH103 - pathlib takes long to load
        path = f"{get_home()}/{LOG_NAME}"
        if os.path.exists(path) and os.stat(path).st_size > _MAX_LOG_BYTES:  # noqa: PTH110, PTH116 - the same
            os.replace(path, f"{path}.old")  # noqa: PTH105 - the same
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_WAIT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
    except OSError:
        pass


def read_log() -> "list[str]":
    """Return recent errors, oldest first."""
    try:
        file = os.open(f"{get_home()}/{LOG_NAME}", os.O_RDONLY | _NO_WAIT)
    except OSError:
        return []
    try:
        return os.read(file, 2 * _MAX_LOG_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return []
    finally:
        os.close(file)
