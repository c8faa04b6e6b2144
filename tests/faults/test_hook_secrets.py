"""Nothing raw reaches the disk through a hook, in whatever way its event goes."""

import contextlib
import os
import signal
import sqlite3

import pytest
from hook_processes import call, shared_home

CANARY = "ghp_" + "Zq8Lw3Rt5Yb7Nc1Vx9Km2Ph4Jd6Sf0Ga8Ue3"
VARIABLE = "canary-of-the-environment-77"


@pytest.fixture
def hooks():
    with shared_home() as hooks:
        hooks.environment["STEADYHELM_ALERTS_SECRET"] = VARIABLE
        yield hooks


def secret_call(n):
    return call(
        n,
        path=f"/p/{CANARY}/{n}.py",
        tool_input={"command": f"export GITHUB_TOKEN={CANARY}", "password": CANARY},
        tool_response={"stdout": f"token: {CANARY}"},
    )


def assert_clean(hooks):
    written = hooks.everything_on_disk()
    assert CANARY.encode() not in written
    assert VARIABLE.encode() not in written


@pytest.mark.parametrize("host", ["0", "1"])
def test_the_ordinary_way(hooks, host):
    """
    An event that is handled at once leaves no secret behind, from the first hook on.
    """
    for n in range(2):
        hooks.run(secret_call(n), STEADYHELM_HOOK_HOST=host)
        assert_clean(hooks)
    hooks.wait_for_calls(2)
    assert_clean(hooks)


def test_while_the_first_helper_starts(hooks):
    """
    While the process that stays is still loading, nothing of the event is on disk; it is not lost either.
    """
    child = hooks.start(secret_call(0))
    hooks.wait_until(lambda: assert_clean(hooks) or hooks.calls_kept() == 1, "not recorded")
    child.communicate(timeout=60)


@pytest.mark.parametrize("host", ["0", "1"])
def test_a_step_that_waits_is_redacted(hooks, host):
    """
    A step that is kept because the database is held has no secret in it, and is recorded later.
    """
    alone = {"STEADYHELM_HOOK_HOST": host}
    hooks.run(secret_call(0), **alone)
    hooks.wait_for_calls(1)
    holder = sqlite3.connect(hooks.home / "steadyhelm.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        hooks.run(secret_call(1), **alone)
        hooks.wait_until(lambda: list(hooks.steps.glob("*.step")), "no step was kept")
        [step] = hooks.steps.glob("*.step")
        assert b"t1" in step.read_bytes()
        assert (0o600, 0o700) == (step.stat().st_mode & 0o777, hooks.steps.stat().st_mode & 0o777)
        assert_clean(hooks)
    finally:
        holder.close()
    hooks.run(secret_call(2), **alone)
    hooks.wait_for_calls(3)
    assert_clean(hooks)


def test_while_the_helper_is_stopped(hooks):
    """
    While the process that stays does not answer, an event waits in the memory of another one.
    """
    hooks.run(secret_call(0))
    hooks.wait_for_calls(1)
    hooks.wait_for_host()
    stopped = hooks.host()
    os.kill(stopped, signal.SIGSTOP)
    try:
        hooks.run(secret_call(1))
        hooks.wait_until(lambda: assert_clean(hooks) or hooks.calls_kept() == 2, "not recorded")
    finally:
        with contextlib.suppress(OSError):
            os.kill(stopped, signal.SIGKILL)
    assert_clean(hooks)


@pytest.mark.parametrize("payloads", ["none", "hashes"])
def test_payloads_that_are_not_kept_do_not_wait_either(hooks, payloads):
    """
    Where the settings keep no text of a step, a step that cannot be recorded is counted and not kept.
    """
    alone = {"STEADYHELM_HOOK_HOST": "0", "STEADYHELM_PAYLOADS": payloads}
    hooks.run(secret_call(0), **alone)
    hooks.wait_for_calls(1)
    holder = sqlite3.connect(hooks.home / "steadyhelm.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        hooks.run(secret_call(1), **alone)
        hooks.wait_until(lambda: any("payloads are not kept" in line for line in hooks.log()), "not noted")
    finally:
        holder.close()
    assert_clean(hooks)
    assert all(b"Read" not in step.read_bytes() for step in hooks.steps.iterdir())
    hooks.run(secret_call(2), **alone)
    hooks.wait_for_calls(2)
    hooks.wait_until(hooks.losses, "not counted")
    assert {"hook: the step could not be recorded, and payloads are not kept": 1} == hooks.losses()


def test_the_log_holds_no_option_as_it_came(hooks):
    """
    An unknown option or agent in the command may be anything: the log does not repeat it.
    """
    for options in (("--agent", VARIABLE), ("--agent=" + VARIABLE,), (VARIABLE,)):
        hooks.run(call(0), *options, STEADYHELM_HOOK_HOST="0")
    hooks.wait_until(lambda: len(hooks.log()) == 3, "not logged")
    assert_clean(hooks)
