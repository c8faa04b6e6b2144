"""Hooks as the agents run them: real processes, one for each event."""

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys

import pytest
from hook_processes import GUIDE, HOOK, TRIES, call, shared_home

from steadyhelm.hooks.resident import stop_resident

LOADED = HOOK + "; print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"


@pytest.fixture
def hooks():
    with shared_home() as hooks:
        yield hooks


def test_a_hook_installs_nothing_in_itself(hooks):
    """
    A program whose agents are watched may start a coding agent: its hooks load nothing for that.
    """
    hooks.run(call(0))
    hooks.wait_for_host()
    environment = {**hooks.environment, "STEADYHELM_INSTALL": "guide"}
    program = [sys.executable, "-X", "importtime", "-m", "steadyhelm", "hook", *GUIDE]
    done = subprocess.run(
        program, input=json.dumps(call(1)).encode(), env=environment, capture_output=True, check=True
    )
    assert b"steadyhelm.hooks.client" in done.stderr
    assert b"msgspec" not in done.stderr


@pytest.mark.parametrize("host", ["0", "1"])
def test_a_loop_is_noticed_over_processes(hooks, host):
    """
    A loop over several processes is noticed, whether one of them stays to help the others or not.
    """
    said = "".join(hooks.run(call(n), STEADYHELM_HOOK_HOST=host)[0] for n in range(4))
    hooks.wait_for_calls(4)
    # On a busy machine no hook may be done in time by itself: what is found is stored all the same.
    with hooks.store() as store:
        assert "Read called" in said or store.list_incidents("claude-code", "s1", limit=5)
    if host == "1":
        hooks.wait_for_host()
    assert (host == "1") is hooks.socket.exists()
    assert [] == hooks.log()


def test_a_hook_loads_next_to_nothing(hooks):
    """
    Once there is somebody to ask, a hook loads neither the engine nor the command line.
    """
    hooks.run(call(0))
    hooks.wait_for_host()
    _, loaded = hooks.run(call(1), code=LOADED)
    for name in ("typing", "msgspec", "typer", "rich", "httpx", "click", "sqlite3", "json"):
        assert f"'{name}'" not in loaded


def test_the_first_hook_does_not_wait(hooks):
    """
    The first hook leaves its event to a copy of itself, and loads nothing either.
    """
    _, loaded = hooks.run(call(0), code=LOADED)
    assert "'msgspec'" not in loaded
    hooks.wait_for_calls(1)


def test_a_denial_is_given_at_once(hooks):
    """
    In mode enforce a call is denied before it is made; a hook that has no help leaves a helper behind.
    """
    enforce = ("--agent", "claude-code", "--mode", "enforce")
    for n in range(6):
        hooks.run(call(n), *enforce)
    hooks.wait_for_calls(6)
    stop_resident(str(hooks.socket))
    said = ""
    for n in range(TRIES):  # on a busy machine the first hook may be out of time before everything is loaded
        said += hooks.run(call(9 + n, hook_event_name="PreToolUse"), *enforce)[0]
        if said:
            break
        hooks.wait_for_host()
    assert "permissionDecision" in said


def test_hooks_at_once_on_one_session(hooks):
    """
    Hooks that run at the same moment lose nothing, and a notice told by two of them counts once.
    """
    children = [hooks.start(call(n // 2, path=f"/p/{n // 2}.py")) for n in range(16)]
    said = [child.communicate(timeout=60)[0] for child in children]
    assert [b""] * 16 == said
    hooks.run(call(9, path="/p/9.py"))
    hooks.wait_for_calls(9)
    assert [] == hooks.log()


def test_hooks_at_once_without_help(hooks):
    """
    The same holds when every hook does all of it by itself: a step that finds the database locked waits.
    """
    hooks.run(call(99, path="/p/z.py"), STEADYHELM_HOOK_HOST="0")
    children = [hooks.start(call(n // 2, path=f"/p/{n // 2}.py"), STEADYHELM_HOOK_HOST="0") for n in range(8)]
    said = [child.communicate(timeout=60)[0] for child in children]
    assert [b""] * 8 == said
    hooks.wait_for_calls(5)
    assert [] == [line for line in hooks.log() if "is locked" not in line]


def test_a_killed_helper_is_not_missed(hooks):
    """
    When the process that helps is killed, the next hook does without, and leaves another one behind.
    """
    hooks.run(call(0))
    hooks.wait_for_host()
    os.kill(hooks.host(), signal.SIGKILL)
    for n in range(1, 4):
        hooks.run(call(n, path=f"/p/{n}.py"))
    hooks.wait_for_calls(4)
    assert [] == hooks.log()


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
    calls = itertools.count()

    def say(mode):
        return hooks.run(call(next(calls)), "--agent", "claude-code", STEADYHELM_MODE=mode)[0]

    assert "" == "".join(say("observe") for _ in range(4))
    hooks.wait_for_calls(4)
    hooks.wait_until(lambda: "Read called" in say("guide"), "no guidance")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff" * 100, b'{"session_id": 7, "hook_event_name": []}'])
def test_bad_input_is_answered_with_nothing(hooks, body):
    """
    Whatever stands on standard input, the exit status is 0 and nothing is printed, with help and without.
    """
    assert [("", ""), ("", "")] == [hooks.run(body), hooks.run(body)]


def test_a_giant_event_is_passed_over(hooks):
    """
    An event too large to be looked at is counted as lost, and answered with nothing.
    """
    body = json.dumps({**call(0), "tool_response": "x" * (20 << 20)}).encode()
    assert ("", "") == hooks.run(body)
    sent, accounted = hooks.count_steps(1)
    assert (sent, 1) == (accounted, sum(hooks.losses().values()))


def test_a_locked_store_blocks_nobody_for_long(hooks):
    """
    While the database is held hooks end with nothing, and it is noted; their steps are recorded later.
    """
    hooks.run(call(0))
    hooks.wait_for_host()
    holder = sqlite3.connect(hooks.home / "steadyhelm.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        children = [hooks.start(call(n)) for n in range(1, 3)]
        assert [b"", b""] == [child.communicate(timeout=60)[0] for child in children]
        hooks.wait_until(lambda: not hooks.has_work(), "a process is still at work")
        assert 1 == hooks.run_kept().tool_calls
        assert 2 == len(list(hooks.steps.glob("*.step")))
        assert hooks.log()
        assert all("store cannot be used" in line for line in hooks.log())
    finally:
        holder.close()
    hooks.wait_for_calls(3)


def test_the_status_line(hooks):
    """
    The status line is one line about the session.
    """
    hooks.run(call(0))
    hooks.wait_for_calls(1)
    hooks.wait_for_host()
    line = "steadyhelm: on course · 1 calls\n"
    # On a busy machine it may be out of time, and then there is none.
    hooks.wait_until(lambda: hooks.run({"session_id": "s1"}, "statusline")[0] == line, "no status line")


def test_turned_off(hooks):
    """
    With everything turned off nothing is done and nothing is left behind.
    """
    assert ("", "") == hooks.run(call(0), STEADYHELM_DISABLED="1")
    assert [] == list(hooks.home.iterdir())


def test_a_hook_by_itself_loads_no_more_than_it_needs(hooks):
    """
    A hook without help loads the engine, but not what sends alerts or keeps checkpoints: it does neither.
    """
    code = "import sys, steadyhelm.hooks.resident; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=hooks.environment, capture_output=True, check=True, text=True
    )
    loaded = done.stdout.split()
    assert "steadyhelm.engine.session" in loaded
    assert not {"steadyhelm.sinks.alerts.worker", "steadyhelm.checkpoints.memory", "httpx"} & set(loaded)
