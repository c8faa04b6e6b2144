"""Hooks as the agents run them: real processes, one for each event."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from steadyhelm.hooks.client import pack_request
from steadyhelm.hooks.resident import stop_resident
from steadyhelm.stores.sqlite import SQLiteStore

SOURCE = Path(__file__).parents[2] / "src"
HOOK = "import sys; from steadyhelm.hooks.client import main; main(sys.argv[1:])"
LOADED = HOOK + "; print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
GUIDE = ("--agent", "claude-code", "--mode", "guide")


class Hooks:
    """Starts hooks that share a home."""

    def __init__(self, home):
        self.home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STEADYHELM_")}
        self.environment = {**kept, "PYTHONPATH": str(SOURCE), "STEADYHELM_HOME": str(home)}

    @property
    def socket(self):
        return self.home / "hook.sock"

    def start(self, body, *options, code=HOOK, **environment):
        child = subprocess.Popen(
            [sys.executable, "-c", code, *(options or GUIDE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.home,
            env={**self.environment, **environment},
        )
        child.stdin.write(body if isinstance(body, bytes) else json.dumps(body).encode())
        child.stdin.close()
        child.stdin = None
        return child

    def run(self, body, *options, **more):
        child = self.start(body, *options, **more)
        out, err = child.communicate(timeout=30)
        assert 0 == child.returncode
        return out.decode(), err.decode()

    def wait_for_host(self):
        until = time.monotonic() + 10
        while time.monotonic() < until:
            if self.socket.exists():
                return
            time.sleep(0.02)
        pytest.fail("no host was left behind")

    def log(self):
        path = self.home / "hook.log"
        return path.read_text().splitlines() if path.exists() else []

    def run_kept(self, run_id="s1"):
        store = SQLiteStore(self.home / "steadyhelm.db", read_only=True)
        try:
            return store.find_run(run_id, agent_id="claude-code")
        finally:
            store.close()


@pytest.fixture
def hooks():
    # A socket's path must be short, and pytest's folders are not.
    with tempfile.TemporaryDirectory(prefix="sh-", dir="/tmp") as folder:
        hooks = Hooks(Path(folder))
        yield hooks
        if hooks.socket.exists():
            stop_resident(str(hooks.socket))
            until = time.monotonic() + 5
            while hooks.socket.exists() and time.monotonic() < until:
                time.sleep(0.01)


def call(n, path="/p/a.py", session="s1"):
    return {
        "session_id": session,
        "hook_event_name": "PostToolUse",
        "tool_name": "Read",
        "tool_input": {"file_path": path},
        "tool_response": f"what stands in {path}",
        "tool_use_id": f"t{n}",
    }


@pytest.mark.parametrize("host", ["0", "1"])
def test_a_loop_is_noticed_over_processes(hooks, host):
    """
    A loop over several processes is noticed, whether one of them stays to help the others or not.
    """
    said = [hooks.run(call(n), STEADYHELM_HOOK_HOST=host)[0] for n in range(4)]
    assert any("Read called" in words for words in said)
    assert (host == "1") is hooks.socket.exists()
    assert [] == hooks.log()


def test_a_hook_loads_next_to_nothing(hooks):
    """
    Once there is somebody to ask, a hook loads neither the engine nor the command line.
    """
    hooks.run(call(0))
    hooks.wait_for_host()
    _, loaded = hooks.run(call(1), code=LOADED)
    for name in ("msgspec", "typer", "rich", "httpx", "click", "sqlite3", "json"):
        assert f"'{name}'" not in loaded


def test_the_first_hook_does_not_wait(hooks):
    """
    The first hook leaves its event to a copy of itself, and loads nothing either.
    """
    _, loaded = hooks.run(call(0), code=LOADED)
    assert "'msgspec'" not in loaded
    hooks.wait_for_host()
    assert 1 == hooks.run_kept().tool_calls


def test_what_a_late_event_calls_for_is_said_with_the_next(hooks, monkeypatch):
    """
    An event that was left on disk by a process that died is taken in by the next hook, and so are its words.
    """
    for n in range(2):
        hooks.run(call(n), STEADYHELM_HOOK_HOST="0")
    monkeypatch.setenv("STEADYHELM_HOME", str(hooks.home))
    (hooks.home / "hook.sock.event").write_bytes(pack_request(list(GUIDE), json.dumps(call(2)).encode()))
    said, _ = hooks.run(call(3, path="/p/other.py"))
    assert "Read called 3 times" in said
    assert 4 == hooks.run_kept().tool_calls


@pytest.mark.parametrize("left", [b"", b"\xff" * 50, b"\x00\x00\x00\x02\x00\x00\x00\x00a\x00"])
def test_nonsense_left_on_disk_stands_in_nobodys_way(hooks, left):
    """
    What cannot be taken in is removed, and the hooks go on.
    """
    (hooks.home / "hook.sock.event").write_bytes(left)
    hooks.run(call(0))
    assert not (hooks.home / "hook.sock.event").exists()
    assert 1 == hooks.run_kept().tool_calls


def test_a_denial_is_given_at_once(hooks):
    """
    In mode enforce a hook answers by itself when nobody is there to ask: a call is denied before it is made.
    """
    enforce = ("--agent", "claude-code", "--mode", "enforce")
    for n in range(6):
        hooks.run(call(n), *enforce)
    stop_resident(str(hooks.socket))
    before = {**call(9), "hook_event_name": "PreToolUse"}
    assert "permissionDecision" in hooks.run(before, *enforce)[0]


def test_hooks_at_once_on_one_session(hooks):
    """
    Hooks that run at the same moment lose nothing, and a notice told by two of them counts once.
    """
    children = [hooks.start(call(n // 2, path=f"/p/{n // 2}.py")) for n in range(16)]
    said = [child.communicate(timeout=60)[0] for child in children]
    assert [b""] * 16 == said
    assert ([], 8) == (hooks.log(), hooks.run_kept().tool_calls)


def test_hooks_at_once_without_help(hooks):
    """
    The same holds when every hook does all of it by itself.
    """
    hooks.run(call(99, path="/p/z.py"), STEADYHELM_HOOK_HOST="0")
    children = [hooks.start(call(n // 2, path=f"/p/{n // 2}.py"), STEADYHELM_HOOK_HOST="0") for n in range(8)]
    said = [child.communicate(timeout=60)[0] for child in children]
    assert [b""] * 8 == said
    assert ([], 5) == (hooks.log(), hooks.run_kept().tool_calls)


def test_a_killed_helper_is_not_missed(hooks):
    """
    When the process that helps is killed, the next hook does without, and leaves another one behind.
    """
    hooks.run(call(0))
    hooks.wait_for_host()
    os.kill(_owner(hooks.socket), signal.SIGKILL)
    for n in range(1, 4):
        hooks.run(call(n, path=f"/p/{n}.py"))
    assert ([], 4) == (hooks.log(), hooks.run_kept().tool_calls)


def _owner(path):
    """The process that listens on a socket."""
    import socket
    import struct

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(str(path))
        credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[0]


def test_only_the_owner_can_reach_the_helper(hooks):
    """
    Nobody but the owner can speak to the process that helps.
    """
    hooks.run(call(0))
    hooks.wait_for_host()
    assert 0 == hooks.socket.stat().st_mode & 0o077


def test_each_hook_is_answered_by_its_own_settings(hooks):
    """
    The process that helps answers each hook by that hook's settings, not by those it began with.
    """
    for n in range(4):
        hooks.run(call(n), "--agent", "claude-code", STEADYHELM_MODE="observe")
    assert "Read called" in "".join(
        hooks.run(call(n), "--agent", "claude-code", STEADYHELM_MODE="guide")[0] for n in range(4, 8)
    )


@pytest.mark.parametrize("body", [b"", b"{", b"\xff" * 100, b'{"session_id": 7, "hook_event_name": []}'])
def test_bad_input_is_answered_with_nothing(hooks, body):
    """
    Whatever stands on standard input, the exit status is 0 and nothing is printed, with help and without.
    """
    assert [("", ""), ("", "")] == [hooks.run(body), hooks.run(body)]


def test_a_giant_event_is_passed_over(hooks):
    """
    An event too large to be looked at is read to its end, noted, and answered with nothing.
    """
    body = json.dumps({**call(0), "tool_response": "x" * (20 << 20)}).encode()
    assert ("", "") == hooks.run(body)
    assert 1 == len(hooks.log())
    assert "too large" in hooks.log()[0]


def test_a_locked_store_blocks_nobody_for_long(hooks):
    """
    While the database is held, hooks come back within their time, with nothing, and it is noted.
    """
    hooks.run(call(0))
    hooks.wait_for_host()
    holder = sqlite3.connect(hooks.home / "steadyhelm.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        children = [hooks.start(call(n)) for n in range(1, 3)]
        assert [b"", b""] == [child.communicate(timeout=20)[0] for child in children]
    finally:
        holder.close()
    assert 2 == len(hooks.log())
    assert 1 == hooks.run_kept().tool_calls


def test_the_status_line(hooks):
    """
    The status line is one line about the session.
    """
    hooks.run(call(0))
    assert "steadyhelm: on course · 1 calls\n" == hooks.run({"session_id": "s1"}, "statusline")[0]


def test_turned_off(hooks):
    """
    With everything turned off nothing is done and nothing is left behind.
    """
    assert ("", "") == hooks.run(call(0), STEADYHELM_DISABLED="1")
    assert [] == list(hooks.home.iterdir())
