"""A hook may be out of time, or killed, at any moment: its step is stored or counted as lost, once."""

import contextlib
import signal
import sqlite3

import pytest
from hook_processes import HOOK, call, finish, shared_home

pytestmark = pytest.mark.slow

SLOW = "time.sleep(2)"
KILLED = "os.kill(os.getpid(), 9)"
HARMED = """
import os, sys, time
def harm(moment, what):
    def watch(frame, event, function):
        own = event == "call" and "steadyhelm" in frame.f_code.co_filename
        is_fork = event == "c_call" and function is os.fork
        if (frame.f_code.co_name if own else "fork" if is_fork else "") == moment:
            watches.remove(moment)
            exec(what)
    watches = [moment]
    return lambda *call: watch(*call) if watches else None
# An error in one of them turns it off.
for arm, (moment, what) in zip((sys.setprofile, sys.settrace), {harms!r}.items()):
    arm(harm(moment, what))
"""
IN_THE_HOOK = ("_read_input", "ask_resident", "_start_resident", "_handle_in_copy", "fork")
IN_A_COPY = ("_detach", "become_resident", "run_resident", "handle_alone", "handle_request", "_record_event")
AFTER_STORING = ("remove_note", "release_note", "record_rest")
TOO_LATE = ("_finish_later", "fork", "_finish", "become_resident", "handle_late", "handle_request")


@pytest.fixture
def hooks():
    with shared_home() as hooks:
        yield hooks


@pytest.fixture(params=["0", "1"], ids=["alone", "helped"])
def host(request):
    """Each hook by itself, or with the process that stays."""
    return {"STEADYHELM_HOOK_HOST": request.param}


def run_harmed(hooks, n, harms, body=None, **host):
    """Run a hook to which one or two things happen when it, or a copy of it, gets to these functions."""
    body = call(n, f"/p/{n}.py") if body is None else body
    child = hooks.start(body, code=HARMED.format(harms=harms) + HOOK, **host)
    finish(child)
    assert child.returncode in ({0, -signal.SIGKILL} if KILLED in harms.values() else {0})


@contextlib.contextmanager
def held(hooks):
    """The database, held by another connection."""
    holder = sqlite3.connect(hooks.home / "steadyhelm.db", isolation_level=None, timeout=30)
    holder.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.close()


@pytest.mark.parametrize("harm", [SLOW, KILLED], ids=["slow", "killed"])
@pytest.mark.parametrize(
    "moments", [IN_THE_HOOK, IN_A_COPY, AFTER_STORING], ids=["hook", "copy", "after storing"]
)
def test_anywhere(hooks, host, moments, harm):
    """
    A hook, or the copy of it that handles its step, is out of time or killed in one of its functions.
    """
    for n, moment in enumerate(moments):
        run_harmed(hooks, n, {moment: harm}, **host)
    sent, accounted = hooks.count_steps(len(moments), **host)
    assert sent == accounted


@pytest.mark.parametrize("harm", [SLOW, KILLED], ids=["slow", "killed"])
def test_after_its_time(hooks, host, harm):
    """
    A hook whose time is over is held up, or killed, once more while it leaves its step to a copy.
    """
    for n, moment in enumerate(TOO_LATE):
        run_harmed(hooks, n, {moment: harm, "ask_resident": SLOW}, **host)
    sent, accounted = hooks.count_steps(len(TOO_LATE), **host)
    assert sent == accounted


@pytest.mark.parametrize("harm", [SLOW, KILLED], ids=["slow", "killed"])
def test_while_the_step_is_kept(hooks, host, harm):
    """
    The database is held, and the process that writes the step to disk is out of time or killed.
    """
    moments = ("_keep_step", "put_step", "remove_note", "record_rest")
    hooks.run(call("first"), **host)
    hooks.wait_for_calls(1)
    with held(hooks):
        for n, moment in enumerate(moments):
            run_harmed(hooks, n, {moment: harm}, **host)
        hooks.wait_until(lambda: not hooks.has_work(), "a process is still at work")
    sent, accounted = hooks.count_steps(1 + len(moments), **host)
    assert sent == accounted


@pytest.mark.parametrize("harm", [SLOW, KILLED], ids=["slow", "killed"])
def test_while_a_bad_event_is_counted(hooks, host, harm):
    """
    An event that cannot be used is counted once, also when the process that counts it is killed.
    """
    moments = ("_report_error", "_log_error", "fork", "_detach", "count_loss")
    for n, moment in enumerate(moments):
        run_harmed(hooks, n, {moment: harm, "_read_input": SLOW}, **host)
    run_harmed(hooks, 0, {"count_loss": harm}, b"no JSON", **host)
    sent, accounted = hooks.count_steps(len(moments) + 1, **host)
    assert sent == accounted
