"""Whatever happens to the processes and the database while hooks run, each step is stored or counted."""

import contextlib
import os
import random
import signal
import sqlite3

import pytest
from hook_processes import call, finish, shared_home

HOOKS = 24


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_steps_sent_are_stored_or_counted(seed):
    """
    The helper is killed or stopped, and the database held, now and then: each step is stored or counted.
    """
    chance = random.Random(seed)
    with shared_home() as hooks, contextlib.ExitStack() as held:
        hooks.run(call("first", "/p/first.py"))
        hooks.wait_for_calls(1)
        sent = 1
        while sent < HOOKS:
            do_harm(chance.choice(["kill", "stop", "lock", "free", "", ""]), hooks, held)
            batch = [call(n, f"/p/{n}.py") for n in range(sent, sent + chance.choice([1, 2, 4]))]
            for child in [hooks.start(body) for body in batch]:
                child.wait(timeout=60)
                assert (0, b"") == (child.returncode, finish(child)[1])
            sent += len(batch)
        held.close()
        sent, accounted = hooks.count_steps(sent)
    assert sent == accounted


def do_harm(kind, hooks, held):
    with contextlib.suppress(OSError, ValueError, sqlite3.Error):
        owner = (hooks.home / "hook.sock.lock").read_text()
        if kind == "kill":
            os.kill(int(owner), signal.SIGKILL)
        elif kind == "stop":
            os.kill(int(owner), signal.SIGSTOP)
        elif kind == "lock":
            holder = sqlite3.connect(hooks.home / "steadyhelm.db", isolation_level=None)
            held.callback(holder.close)
            holder.execute("BEGIN IMMEDIATE")
        elif kind == "free":
            held.close()
