"""A hook answers or lets the agent go on within a second, and no step is lost, whatever is wrong."""

import contextlib
import fcntl
import json
import os
import signal
import socket
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from hook_processes import GUIDE, HANG_S, PROMISED_S, call, finish, keeps_promise, shared_home

from steadyhelm.hooks.request import Deadline, HookRequest, get_installation_id
from steadyhelm.hooks.waiting_steps import LOST_REASON

ENFORCE = ("--agent", "claude-code", "--mode", "enforce")


@pytest.fixture
def hooks():
    with shared_home() as hooks:
        yield hooks


@pytest.fixture(params=["alone", "helped"])
def host(request, hooks):
    """Each hook by itself, or with the process that stays."""
    if request.param == "alone":
        return {"STEADYHELM_HOOK_HOST": "0"}
    hooks.run(call("first", session="other"))
    hooks.wait_for_host()
    return {}


def sent_by(host):
    """The number of calls that fixture has sent."""
    return 0 if host else 1


@contextlib.contextmanager
def locked(hooks):
    """The database, held by another connection."""
    if not (hooks.home / "steadyhelm.db").exists():
        hooks.run(call("first", session="other"), STEADYHELM_HOOK_HOST="0")
        hooks.wait_until((hooks.home / "steadyhelm.db").exists, "no database")
    holder = sqlite3.connect(hooks.home / "steadyhelm.db", isolation_level=None, timeout=10)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        holder.close()


HANGS = """
import os, sys, time
from steadyhelm.hooks import client
from steadyhelm.hooks import request as hook_request

set_real_alarm = hook_request.set_alarm

def set_alarm(timeout_s):
    os.write(2, f"{timeout_s} ".encode())
    set_real_alarm(timeout_s)

def hang(request):
    while True:
        try:
            time.sleep(60)
        except TimeoutError:
            pass

hook_request.set_alarm = client.set_alarm = set_alarm
client._handle_event = hang
client.main(sys.argv[1:])
"""


def test_an_alarm_ends_it_wherever_it_is(hooks):
    """
    A hook that hangs, and goes on when interrupted, is ended by alarms that add up to less than a second.
    """
    out, alarms = hooks.run(call(0), code=HANGS)

    assert "" == out
    assert 0 < sum(map(float, alarms.split())) < PROMISED_S


def odd_transcripts(home):
    os.mkfifo(home / "pipe")
    (home / "folder").mkdir()
    with (home / "huge").open("wb") as file:
        file.truncate(50 << 30)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(home / "socket"))
    server.close()
    (home / "loop").symlink_to(home / "loop")
    names = ("pipe", "folder", "huge", "socket", "loop", "missing")
    return [*(str(home / name) for name in names), "/dev/zero", "/dev/tty", "/proc/kmsg", "a\0b", "x" * 5000]


def test_odd_transcripts(hooks, host):
    """
    A transcript that is a pipe, a folder, a device or endless is not waited for, and the step is recorded.
    """
    paths = odd_transcripts(hooks.home)
    for n, path in enumerate(paths):
        assert keeps_promise(
            lambda again, n=n, path=path: hooks.time(
                call(f"{n}", f"/p/{n}.py", transcript_path=path), **host
            )[0]
        )
    hooks.wait_for_calls(len(paths))
    assert [] == hooks.log()


def test_a_locked_database(hooks, host):
    """
    While the database is held hooks go on within their time, and their steps are recorded once it is free.
    """
    with locked(hooks):
        tries = []
        assert keeps_promise(lambda n: (tries.append(n), hooks.time(call(n, f"/p/{n}.py"), **host)[0])[1])
        assert 0 == hooks.calls_kept()
    hooks.run(call("later"), **host)
    hooks.wait_until(lambda: not list(hooks.steps.iterdir()), "a step still waits")
    hooks.wait_for_calls(len(tries) + 1)


def test_a_stopped_helper(hooks):
    """
    A process that stays and is stopped makes no hook wait for long: it is replaced, and nothing is lost.
    """
    hooks.run(call("first"))
    hooks.wait_for_host()
    stopped = hooks.host()
    os.kill(stopped, signal.SIGSTOP)
    try:
        tries = []
        assert keeps_promise(lambda n: (tries.append(n), hooks.time(call(n, f"/p/{n}.py"))[0])[1])
        hooks.wait_until(lambda: not is_alive(stopped), "the stopped process is still there")
    finally:
        with contextlib.suppress(OSError):
            os.kill(stopped, signal.SIGKILL)
    hooks.wait_for_calls(len(tries) + 1)
    hooks.run(call("later", "/p/later.py"))
    hooks.wait_for_calls(len(tries) + 2)
    assert hooks.host() != stopped
    assert {} == losses(hooks)


def is_alive(process):
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("options", [GUIDE, ENFORCE])
def test_a_helper_that_never_answers(hooks, options):
    """
    Something that listens in place of the helper and never answers is not waited for, and is replaced.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(hooks.socket))
        listener.listen(64)
        tries = []
        assert keeps_promise(lambda n: (tries.append(n), hooks.time(call(n, f"/p/{n}.py"), *options)[0])[1])
        hooks.wait_for_calls(len(tries))
    hooks.run(call("later"), *options)
    hooks.wait_for_calls(len(tries) + 1)


def test_the_dead_socket_of_a_killed_helper(hooks):
    """
    A socket file that no process listens on is replaced.
    """
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(hooks.socket))
    hooks.run(call(0))
    hooks.wait_for_calls(1)


@pytest.mark.parametrize("kind", ["folder", "file", "pipe"])
def test_something_else_in_place_of_the_socket(hooks, kind):
    """
    Where the socket cannot be there each hook is handled all the same.
    """
    {"folder": hooks.socket.mkdir, "file": hooks.socket.touch, "pipe": lambda: os.mkfifo(hooks.socket)}[
        kind
    ]()
    assert keeps_promise(lambda n: hooks.time(call(0))[0])
    hooks.wait_for_calls(1)


def test_input_left_open(hooks, host):
    """
    An agent that writes the event and leaves standard input open is answered, and the step is recorded.
    """
    assert keeps_promise(lambda n: hooks.time(call(0), open_input=True, **host)[0])
    hooks.wait_for_calls(1)


@pytest.mark.parametrize("written", [b"", b'{"session_id": "s1", "hook_event_na'])
def test_input_that_never_comes(hooks, host, written):
    """
    An event that is not written in time is let pass and counted.
    """
    tries = []
    assert keeps_promise(lambda n: (tries.append(n), hooks.time(written, open_input=True, **host)[0])[1])
    sent, accounted = hooks.count_steps(sent_by(host) + len(tries), **host)
    assert sent == accounted
    assert "hook: the event did not come in time" in losses(hooks)


def losses(hooks):
    try:
        return hooks.losses()
    except Exception:  # noqa: BLE001 - there is no database yet
        return {}


def test_input_that_trickles(hooks, host):
    """
    An agent that writes a byte at a time for ever is not waited for.
    """

    def once(n):
        began = time.monotonic()
        child = hooks.start(b"{", open_input=True, **host)
        with contextlib.suppress(BrokenPipeError):
            while child.poll() is None and time.monotonic() - began < HANG_S:
                child.stdin.write(b" ")
                child.stdin.flush()
                time.sleep(0.01)
        taken = time.monotonic() - began
        assert 0 == child.wait(timeout=HANG_S)
        finish(child)
        return taken

    assert keeps_promise(once)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(call(0, tool_response="cut inside an emoji \ud83d")).encode(),
        b"\xef\xbb\xbf" + json.dumps(call(0)).encode(),
        json.dumps(call(0, duration_ms=10**400, tool_input={"n": 10**400})).encode(),
        json.dumps(call(0)).encode().replace(b"the content", b"\xff\xfe content"),
        json.dumps(call(0))
        .encode()
        .replace(b"PostToolUse", b"PostToolUse")
        .replace(b'"t0"', b'"t0", "x": NaN'),
        json.dumps(call(0)).encode().replace(b'"t0"', b'"t0", "x": 1e999'),
        json.dumps(call(0)).encode().replace(b'"t0"', b'"t0", "x": ' + b"9" * 5000),
    ],
    ids=["half a pair", "byte order mark", "400 digits", "not UTF-8", "NaN", "1e999", "5000 digits"],
)
def test_json_that_is_not_strict(hooks, body):
    """
    Half characters as JavaScript writes them, a byte order mark, giant numbers and broken UTF-8 cost no step.
    """
    hooks.run(body, STEADYHELM_HOOK_HOST="0")
    hooks.wait_for_calls(1)
    assert [] == hooks.log()


@pytest.mark.parametrize("depth", [500, 100_000])
def test_deep_json(hooks, host, depth):
    """
    However deep an event is nested, it is recorded or counted, within the time.
    """
    body = json.dumps(call(0)).encode().replace(b'"t0"', b'"t0", "x": ' + b"[" * depth + b"]" * depth)
    assert keeps_promise(lambda n: hooks.time(body, **host)[0])
    hooks.wait_until(lambda: hooks.calls_kept() + len(losses(hooks)), "neither recorded nor counted")


HEADS = [
    b"",
    b"\0",
    b"\xff" * 8,
    b"\xff" * 500,
    get_installation_id().encode(),
    get_installation_id().encode() + b"\0/tmp",
    b"\0".join([get_installation_id().encode(), b"/tmp", b"x", b"y", b"z", b"w"]),
    b"\0".join([get_installation_id().encode(), b"/tmp", b"1.0", b"t", b"1e9", b"9", b"a"]),
    b"\0".join([get_installation_id().encode(), b"/tmp", b"1.0", b"../../x", b"1e9", b"0"]),
    b"\0".join([get_installation_id().encode(), b"/tmp", b"nan", b"t", b"inf", b"0", b"no-equal-sign"]),
]


def test_malformed_requests(hooks):
    """
    Whatever is written to the socket, the helper stays and answers the next hook.
    """
    hooks.run(call(0, "/p/0.py"))
    hooks.wait_for_host()
    owner = hooks.host()
    for n, head in enumerate(HEADS):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client, contextlib.suppress(OSError):
            client.settimeout(5)
            client.connect(str(hooks.socket))
            client.sendall(len(head).to_bytes(4, "big") + bytes(4) + head)
            client.recv(1)
        hooks.run(call(n + 1, f"/p/{n}.py"))
    hooks.wait_for_calls(len(HEADS) + 1)
    assert owner == hooks.host()


def test_clients_that_trickle(hooks):
    """
    Clients that send one byte, or one now and then, keep no other from its answer.
    """
    hooks.run(call(0, "/p/0.py"))
    hooks.wait_for_host()
    over = threading.Event()
    clients = [threading.Thread(target=trickle, args=(hooks.socket, over), daemon=True) for _ in range(30)]
    for client in clients:
        client.start()
    try:
        assert keeps_promise(lambda n: hooks.time(call(f"a{n}", f"/p/a{n}.py"))[0])
        hooks.wait_until(lambda: hooks.calls_kept() >= 2, "not recorded")
    finally:
        over.set()
        for client in clients:
            client.join(10)


def trickle(path, over):
    while not over.is_set():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client, contextlib.suppress(OSError):
            client.settimeout(1)
            client.connect(str(path))
            while not over.is_set():
                client.sendall(b"\0")
                over.wait(0.2)


def test_more_clients_than_the_helper_takes(hooks):
    """
    A hook that finds the helper with all its places taken goes on in time, and its step is recorded.
    """
    hooks.run(call(0, "/p/0.py"))
    hooks.wait_for_host()
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            client.setblocking(False)
            with contextlib.suppress(OSError):
                client.connect(str(hooks.socket))
                client.send(b"\0")
        assert keeps_promise(lambda n: hooks.time(call(1, "/p/1.py"))[0])
    hooks.run(call(2, "/p/2.py"))
    hooks.wait_for_calls(3)


def test_a_helper_of_another_version(hooks):
    """
    A helper that is asked by another installation ends, and the next hook starts one of its own.
    """
    hooks.run(call(0, "/p/0.py"))
    hooks.wait_for_host()
    owner = hooks.host()
    other = HookRequest(list(GUIDE), b"{}", Deadline()).pack().replace(b"python", b"pythos")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(hooks.socket))
        client.sendall(other)
        assert b"" == client.recv(1)
    assert keeps_promise(lambda n: hooks.time(call(1, "/p/1.py"))[0])
    hooks.wait_for_calls(2)
    assert owner != hooks.host()


@pytest.mark.parametrize("home", ["/proc/self/nowhere", "/dev/null/x"])
@pytest.mark.parametrize("alone", ["0", "1"])
def test_no_home_to_write_to(hooks, home, alone):
    """
    Without a folder that can be written to a hook goes on within its time, and says nothing.
    """
    settings = {"STEADYHELM_HOME": home, "HOME": home, "STEADYHELM_HOOK_HOST": alone}
    assert keeps_promise(lambda n: hooks.time(call(0), **settings)[0])


def test_no_home_but_a_database(hooks):
    """
    A database elsewhere is used although Steadyhelm's own folder cannot be written to.
    """
    elsewhere = str(hooks.home / "steadyhelm.db")
    hooks.run(call(0), STEADYHELM_HOME="/proc/self/nowhere", STEADYHELM_DB_PATH=elsewhere)
    hooks.wait_for_calls(1)


FULL = (
    "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0));"
    "from steadyhelm.hooks.client import main; main(sys.argv[1:])"
)


def test_a_full_disk(hooks):
    """
    On a disk that takes nothing any more a hook goes on within its time; its step is counted later.
    """
    sent = []
    for host in ({"STEADYHELM_HOOK_HOST": "0"}, {}):
        assert keeps_promise(
            lambda n, host=host: (sent.append(n), hooks.time(call(n), code=FULL, **host)[0])[1]
        )
    sent, accounted = hooks.count_steps(len(sent))
    assert sent == accounted


def test_a_settings_file_that_never_comes(hooks, host):
    """
    A settings file that is a pipe holds up no hook; the event is counted, and later ones are handled.
    """
    os.mkfifo(hooks.home / "settings.toml")
    stuck = {"STEADYHELM_CONFIG": str(hooks.home / "settings.toml")}
    tries = []
    assert keeps_promise(lambda n: (tries.append(n), hooks.time(call(n), **host, **stuck)[0])[1])
    sent, accounted = hooks.count_steps(sent_by(host) + len(tries), **host)
    assert (sent, len(tries)) == (accounted, sum(hooks.losses().values()))


def test_a_process_that_was_killed_is_counted(hooks, host):
    """
    An event whose process was ended before it was recorded is counted as lost by the next hook.
    """
    hooks.steps.mkdir(exist_ok=True)
    (hooks.steps / "01600000000000000-0a0b0c0d.open").touch()
    with (hooks.steps / "01600000000000000-0a0b0c0e.open").open("w") as at_work:
        fcntl.flock(at_work, fcntl.LOCK_EX)
        hooks.run(call(0), **host)
        hooks.wait_until(lambda: losses(hooks), "not counted")
        assert {LOST_REASON: 1} == losses(hooks)
        hooks.wait_for_calls(1)
        hooks.wait_until(lambda: list(hooks.steps.iterdir()) == [Path(at_work.name)], "other files are left")


def test_many_hooks_at_once(hooks):
    """
    Two dozen hooks at once all end well, and none of their steps is lost.
    """
    children = [hooks.start(call(n, path=f"/p/{n}.py")) for n in range(24)]
    said = [child.communicate(timeout=HANG_S) for child in children]
    assert [(b"", b"")] * 24 == said
    hooks.wait_for_calls(24)
