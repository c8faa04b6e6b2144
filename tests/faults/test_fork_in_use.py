"""A process that forks while its database is in use: nothing is lost, though the child cannot use SQLite."""

import os
import signal

import pytest
from fault_tools import HOLDS_LOCK, Account, adopt, start_process, with_tools

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

FORKS_IN_USE = """
import os, sys, threading, time
from fault_tools import make_monitor, record, record_run
monitor = make_monitor(sys.argv[1], durability=sys.argv[2])
record_run(monitor, 5, "before")
is_inside, may_leave = threading.Event(), threading.Event()

def use():
    with monitor.store.transaction():
        is_inside.set()
        may_leave.wait()

user = threading.Thread(target=use)
user.start()
is_inside.wait()
(hearing, telling), (waiting, releasing) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.close(releasing)
    try:
        IN_CHILD
    finally:
        os._exit(1)
os.close(telling)
os.close(waiting)
may_leave.set()
user.join()
IN_PARENT
"""


def fork_in_use(in_child, in_parent):
    """Return the source of a process that forks inside a transaction, with these lines of both processes."""
    lines = in_child.strip().replace("\n", "\n        ")
    return FORKS_IN_USE.replace("IN_CHILD", lines).replace("IN_PARENT", in_parent)


@pytest.mark.parametrize("mode", ["fast", "durable"])
def test_the_parent_stores_what_the_child_records(database, mode):
    """
    Whether it stores its records or hands them over, the child says that they are stored once they are.
    """
    in_child = """
record_run(monitor, 10, "child")
result = monitor.flush(60)
os._exit(0 if result.complete and not result.remaining else 2)
"""
    in_parent = "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\nmonitor.close(60)"
    with start_process(fork_in_use(in_child, in_parent), database, mode, env=with_tools()) as process:
        said = process.stdout.read()

    account = Account(database)
    assert b"0" == said.strip()
    assert ({"before": 5, "child": 10}, 0, []) == (account.runs, account.lost, account.faults)


@pytest.mark.sqlite
def test_a_child_that_nobody_helps_says_so(database):
    """
    Without another process the records remain, and the child does not say that they are stored.
    """
    in_child = """
os.read(waiting, 1)  # the parent is gone
record_run(monitor, 10, "child")
first, last = monitor.flush(0.1), monitor.close(0.1)
os.write(1, f"{first.complete} {last.complete} {last.remaining >= 10}".encode())
os._exit(0)
"""
    source = fork_in_use(in_child, "monitor.close(60)\nos._exit(0)")
    with start_process(source, database, "fast", env=with_tools()) as process:
        said = process.stdout.read()
    adopt(database)

    account = Account(database)
    assert b"False False True" == said
    assert ({"before": 5, "child": 10}, 0, []) == (account.runs, account.lost, account.faults)


@pytest.mark.postgres
def test_a_child_has_connections_of_its_own(database):
    """
    A child of a process that uses PostgreSQL stores its records by itself, though its parent is gone.
    """
    in_child = """
os.read(waiting, 1)  # the parent is gone
record_run(monitor, 10, "child")
os._exit(0 if monitor.close(60).complete else 2)
"""
    source = fork_in_use(in_child, "monitor.close(60)\nos._exit(0)")
    with start_process(source, database, "fast", env=with_tools()) as process:
        process.stdout.read()

    account = Account(database)
    assert ({"before": 5, "child": 10}, 0, []) == (account.runs, account.lost, account.faults)


@pytest.mark.parametrize("count", [1, 700])
def test_a_killed_child_loses_nothing(database, count):
    """
    What the child recorded before it was killed is stored by the next monitor, handed over or not.
    """
    in_child = f"""
monitor.start_run("child")
record(monitor, {count})
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
    in_parent = "os.waitpid(child, 0)\nos.kill(os.getpid(), 9)"
    with start_process(fork_in_use(in_child, in_parent), database, "fast", env=with_tools()) as process:
        process.wait(60)
    adopt(database)

    account = Account(database)
    assert ({"before": 5, "child": count}, 0) == (account.runs, account.lost)


def test_a_fork_while_the_database_is_locked(database):
    """
    Parent and child both record while another process has the database, and all of it is stored.
    """
    source = """
import os, subprocess, sys
from fault_tools import make_monitor, record_run
monitor = make_monitor(sys.argv[1])
record_run(monitor, 5, "before")
assert monitor.flush(60).complete
holder = subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], stdin=-1, stdout=-1)
holder.stdout.readline()
record_run(monitor, 5, "meanwhile")
children = []
for number in range(5):
    child = os.fork()
    if child == 0:
        holder.stdin.close()
        record_run(monitor, 10, f"child-{number}")
        os._exit(0 if monitor.flush(60).complete else 2)
    children.append(child)
holder.communicate()
print(*[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], flush=True)
monitor.close(60)
"""
    with start_process(source, database, HOLDS_LOCK, env=with_tools()) as process:
        said = process.stdout.read()

    account = Account(database)
    children = {f"child-{number}": 10 for number in range(5)}
    assert [b"0"] * 5 == said.split()
    assert ({"before": 5, "meanwhile": 5, **children}, 0) == (account.runs, account.lost)


@pytest.mark.sqlite
def test_a_child_that_exits_never_closes_what_its_parent_has_open(database):
    """
    A connection of the parent is not even closed when the child's interpreter ends, and the parent goes on.
    """
    source = """
import os, sys
from fault_tools import make_monitor, record_run
from steadyhelm.stores.tracked_connections import inherited

class Witness:
    def __del__(self, write=os.write):
        write(1, b"closed ")

monitor = make_monitor(sys.argv[1])
record_run(monitor, 5, "before")
assert monitor.flush(60).complete
with monitor.store.transaction():
    child = os.fork()
    if child == 0:
        (connection,) = inherited
        connection.witness = Witness()
        del connection
        sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
record_run(monitor, 5, "after")
monitor.close(60)
"""
    with start_process(source, database, env=with_tools()) as process:
        said = process.stdout.read()

    account = Account(database)
    assert b"0" == said.strip()
    assert ({"before": 5, "after": 5}, 0, []) == (account.runs, account.lost, account.faults)
