"""Hooks as coding agents run them: real processes that share a home."""

import contextlib
import fcntl
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from steadyhelm.errors import SteadyhelmError
from steadyhelm.hooks.resident import stop_resident
from steadyhelm.stores.sqlite import SQLiteStore

SOURCE = Path(__file__).parents[2] / "src"
HOOK = "import sys; from steadyhelm.hooks.client import main; main(sys.argv[1:])"
GUIDE = ("--agent", "claude-code", "--mode", "guide")
PROMISED_S = 1.0
"""A hook ends within this time."""
HANG_S = 120
STARTS = 30
"""So many starts of a process may be added to the promised time: a second or two on an idle machine."""
TRIES = 5
"""Of so many tries one must keep the promise."""


class Hooks:
    """Starts hooks that share a home."""

    def __init__(self, home):
        self.home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STEADYHELM_")}
        self.environment = {**kept, "PYTHONPATH": str(SOURCE), "STEADYHELM_HOME": str(home)}

    @property
    def socket(self):
        return self.home / "hook.sock"

    @property
    def steps(self):
        return self.home / "hook-steps"

    def start(self, body, *options, code=HOOK, open_input=False, **environment):
        """Start a hook; what fits into a pipe is written first, so that a busy machine cannot delay it."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        sent = os.write(writer, content) if content else 0
        os.set_blocking(writer, True)
        with os.fdopen(reader, "rb") as own_input:
            child = subprocess.Popen(
                [sys.executable, "-c", code, *(options or GUIDE)],
                stdin=own_input,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.home,
                env={**self.environment, **environment},
            )
        child.stdin = os.fdopen(writer, "wb", buffering=0)
        with contextlib.suppress(BrokenPipeError):  # its time may be over
            while sent < len(content):
                sent += child.stdin.write(content[sent:])
        if not open_input:
            child.stdin.close()
            child.stdin = None
        return child

    def run(self, body, *options, **more):
        child = self.start(body, *options, **more)
        out, err = child.communicate(timeout=HANG_S)
        assert 0 == child.returncode
        return out.decode(), err.decode()

    def time(self, body, *options, **more):
        """Seconds from start to end of one hook, which must end well and say nothing on standard error."""
        began = time.monotonic()
        child = self.start(body, *options, **more)
        child.wait(timeout=HANG_S)
        taken = time.monotonic() - began
        said, wrong = finish(child)
        assert (0, b"") == (child.returncode, wrong)
        return taken, said.decode()

    def wait_for_host(self):
        self.wait_until(self.socket.exists, "no host was left behind")

    def wait_until(self, holds, otherwise, limit_s=60):
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            if holds():
                return
            time.sleep(0.02)
        pytest.fail(otherwise)

    def wait_for_calls(self, number, run_id="s1"):
        """Wait until so many calls are stored: a hook that was out of time leaves them to another process."""
        self.wait_until(lambda: self.calls_kept(run_id) == number, f"not {number} calls")

    def log(self):
        path = self.home / "hook.log"
        return path.read_text().splitlines() if path.exists() else []

    def losses(self):
        with self.store() as store:
            return store.get_losses()

    @contextlib.contextmanager
    def store(self):
        store = SQLiteStore(self.home / "steadyhelm.db", read_only=True)
        try:
            yield store
        finally:
            store.close()

    def run_kept(self, run_id="s1"):
        with self.store() as store:
            return store.find_run(run_id, agent_id="claude-code")

    def calls_kept(self, run_id="s1"):
        try:
            return self.run_kept(run_id).tool_calls
        except SteadyhelmError:
            return 0

    def count_steps(self, sent, **environment):
        """How many calls were sent, and how many of them are stored or counted as lost, in the end.

        That is when no process is at work on one and none waits; what waits is recorded by a later hook.
        """
        later = itertools.count()

        def is_settled():
            self.wait_until(lambda: not self.has_work(), "a process is still at work", limit_s=90)
            is_empty = not any(self.steps.iterdir())
            if not is_empty:
                self.run(call(f"later{next(later)}", session="later"), **environment)
            return is_empty

        self.wait_until(is_settled, "a step still waits", limit_s=90)
        with self.store() as store:
            stored = sum(run.tool_calls for run in store.list_runs())
        return sent + next(later), stored + sum(self.losses().values())

    def has_work(self):
        """Whether a process is at work on a step: then it holds the step's note."""
        return any(is_locked(note) for note in self.steps.glob("*.open"))

    def host(self):
        """The process that stays."""
        lock = self.home / "hook.sock.lock"
        self.wait_until(lambda: lock.exists() and lock.read_text(), "no process holds the lock")
        return int(lock.read_text())

    def everything_on_disk(self):
        """The content of every file under the home, as one text of bytes."""
        return b"".join(read_file(file) for file in sorted(self.home.rglob("*")))


def read_file(path):
    """The content of a file that another process may remove at any moment."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:
        return b""


def is_locked(path):
    """Whether a process holds the lock of a file."""
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def finish(child):
    """What a hook that has ended wrote; its pipes are closed."""
    if child.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        child.stdin = None
    return child.communicate(timeout=HANG_S)


@contextlib.contextmanager
def shared_home():
    """Hooks with a home of their own; the process that stays is ended afterwards."""
    # A socket's path must be short, and pytest's folders are not.
    with tempfile.TemporaryDirectory(prefix="sh-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        hooks = Hooks(Path(folder))
        try:
            yield hooks
        finally:
            # A resident that was killed leaves its socket behind: nobody removes that.
            if hooks.socket.exists() and stop_resident(str(hooks.socket)):
                until = time.monotonic() + HANG_S
                while hooks.socket.exists() and time.monotonic() < until:
                    time.sleep(0.01)


def call(n, path="/p/a.py", session="s1", **more):
    """A finished call of Claude Code."""
    return {
        "session_id": session,
        "hook_event_name": "PostToolUse",
        "tool_name": "Read",
        "tool_input": {"file_path": path},
        "tool_response": f"the content of {path}",
        "tool_use_id": f"t{n}",
        **more,
    }


def keeps_promise(once):
    """One of some tries is within the promised time; `once(n)` returns how long try n took.

    What a machine needs to start processes, at this very moment, is not the hook's: a hook starts several,
    and each gets only a share of a busy machine.
    """
    return any(once(n) < PROMISED_S + STARTS * measure_start() for n in range(TRIES))


def measure_start():
    """Return how long this machine takes now to start a process that does nothing."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import select, _socket"], check=True)
    return time.monotonic() - began
