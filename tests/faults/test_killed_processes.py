"""kill -9: what was answered is stored by the next monitor, or counted where that is not possible."""

import os
import signal

import pytest
from fault_tools import Account, adopt, find_journals, make_monitor, start_process, with_tools

from steadyhelm.engine.backlog import Backlog
from steadyhelm.events import RunInfo
from steadyhelm.journal.abandoned import claim, list_pending

RECORDS_UNTIL_KILLED = """
import os, struct, sys
from steadyhelm import DriftMonitor
from fault_tools import OFF
monitor = DriftMonitor("doomed", db_path=sys.argv[1], durability=sys.argv[2], detectors=OFF)
answered = 0
while True:
    if answered % 40 == 0:
        if answered:
            monitor.end_run()
        monitor.start_run()
    monitor.record_event("tool_call", "search", input_data=answered)
    answered += 1
    os.write(1, struct.pack("<I", answered))
"""

HOLDS_DATABASE = """
import errno, os, sys, threading
from fault_tools import locked, make_monitor, record
monitor = make_monitor(sys.argv[1])
monitor.start_run("run")
assert monitor.flush(60).complete
other = locked(sys.argv[1])
other.__enter__()
"""
KILLS_ITSELF = """
os.kill(os.getpid(), 9)
"""


def run_until_killed(source, database):
    """Run a process that kills itself, and let another monitor store what it left."""
    with start_process(source + KILLS_ITSELF, database, env=with_tools()) as process:
        process.wait(120)
    assert -signal.SIGKILL == process.returncode
    adopt(database)
    return Account(database)


class TestKill:
    @pytest.mark.parametrize("mode", ["fast", "durable"])
    @pytest.mark.parametrize("after", [1, 90, 1234])
    def test_what_was_answered_is_kept(self, database, mode, after):
        """
        After kill -9 every event whose recording had returned is stored by the next monitor.
        """
        with start_process(RECORDS_UNTIL_KILLED, database, mode, env=with_tools()) as child:
            said = child.stdout.read(4 * after)
            os.kill(child.pid, signal.SIGKILL)
            said += child.stdout.read()
        answered = len(said) // 4
        adopt(database)

        account = Account(database)
        assert answered <= account.stored <= answered + 1
        assert (0, []) == (account.lost, account.faults)

    def test_a_fork_in_the_middle(self, database):
        """
        Parent and child of a fork each have a journal: what both recorded is kept when both are killed.
        """
        source = """
import os, sys, time
from fault_tools import make_monitor, record
monitor = make_monitor(sys.argv[1])
monitor.start_run("run")
record(monitor, 30)
child = os.fork()
record(monitor, 20)
time.sleep(0.3 if child else 0.1)
record(monitor, 10)
if child:
    os.waitpid(child, 0)
os.kill(os.getpid(), 9)
"""
        with start_process(source, database, env=with_tools()) as child:
            child.wait(60)
        adopt(database)

        account = Account(database)
        assert [30, 60] == sorted(account.runs.values())
        assert 0 == account.lost

    def test_a_child_at_its_first_event(self, database):
        """
        A forked child has a journal before it records anything.
        """
        account = run_until_killed(
            """
import os, sys
from fault_tools import make_monitor, record
monitor = make_monitor(sys.argv[1])
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    monitor.start_run("child")
    record(monitor, 1)
""",
            database,
        )

        assert ({"child": 1}, 0) == (account.runs, account.lost)


class TestWhatTheJournalDidNotTake:
    def test_losses_while_the_store_is_away_survive_a_kill(self, database):
        """
        What was counted while the store was away is in the journal: a kill does not undo it.
        """
        source = """
import os, sys
from fault_tools import locked, make_monitor, record
monitor = make_monitor(sys.argv[1])
monitor._dispatch._backlog.journal._cap = 600_000
monitor.start_run("run")
monitor.flush()
other = locked(sys.argv[1])
other.__enter__()
record(monitor, 8000)
monitor._dispatch._pause(0.0)
print(monitor.health.lost, flush=True)
os.kill(os.getpid(), 9)
"""
        with start_process(source, database, env=with_tools()) as child:
            lost = int(child.stdout.read())
        adopt(database)

        account = Account(database)
        assert lost == account.lost > 0
        assert 8000 == account.stored + account.lost

    @pytest.mark.parametrize("count", [1500, 5000])
    def test_a_journal_that_is_full(self, database, count):
        """
        Events that were in memory alone, and those that were dropped, are counted by the next monitor.
        """
        source = f"monitor._dispatch._backlog.journal._cap = 100_000\nrecord(monitor, {count})\n"
        account = run_until_killed(HOLDS_DATABASE + source, database)

        assert account.stored > 0
        assert account.lost > 0
        assert count == account.stored + account.lost

    @pytest.mark.parametrize("count", [300, 4000])
    def test_a_full_disk(self, database, count):
        """
        A disk that takes no further bytes still takes the number of records that are not on it.
        """
        source = f"""
write = os.pwrite
def write_if_there_is_room(descriptor, content, offset):
    if offset + len(content) > 20_000:
        raise OSError(errno.ENOSPC, "No space left on device")
    return write(descriptor, content, offset)
os.pwrite = write_if_there_is_room
record(monitor, {count})
"""
        account = run_until_killed(HOLDS_DATABASE + source, database)

        assert account.stored > 0
        assert account.lost > 0
        assert count == account.stored + account.lost

    def test_what_was_stored_after_all_is_not_counted(self, database):
        """
        Once the events that were in memory alone are stored, a kill loses nothing.
        """
        source = """
monitor._dispatch._backlog.journal._cap = 100_000
record(monitor, 1500)
other.__exit__(None, None, None)
assert monitor.flush(60).complete
"""
        account = run_until_killed(HOLDS_DATABASE + source, database)

        assert ({"run": 1500}, 0) == (account.runs, account.lost)


def open_backlog(database):
    """Return the queue of a writer, with its journal open."""
    journals = find_journals(database)
    journals.parent.mkdir(parents=True, exist_ok=True)
    backlog = Backlog(cap=10, may_drop=True, database=journals, journal_cap=1 << 20)
    backlog.open_journal()
    return backlog


WAITS_FOR_STATE = """
import os, sys, threading
from fault_tools import make_monitor, record
monitor = make_monitor(sys.argv[1])
may_go_on = threading.Event()
monitor._dispatch.run_on_writer(may_go_on.wait)
monitor.start_run("run")
record(monitor, 20)
assert monitor.runs.get("run").postponed is not None
"""


class TestARunThatWaitsForItsState:
    @pytest.fixture
    def suspended(self, database):
        monitor = make_monitor(database)
        monitor.start_run("run")
        for _ in range(5):
            monitor.record_event("tool_call", "search")
        monitor.suspend("run")
        monitor.close(60)
        return database

    def test_its_steps_are_kept(self, suspended):
        """
        Steps recorded before the saved state was read are stored, as those of a run of their own.
        """
        account = run_until_killed(WAITS_FOR_STATE, suspended)

        assert [5, 20] == sorted(account.runs.values())
        assert 0 == account.lost

    def test_its_steps_are_stored_once(self, suspended):
        """
        When the saved state was read, the steps belong to the suspended run, and to no other.
        """
        resumed = """
may_go_on.set()
assert monitor.flush(60).complete
record(monitor, 5)
"""
        account = run_until_killed(WAITS_FOR_STATE + resumed, suspended)

        assert ({"run": 30}, 0) == (account.runs, account.lost)

    def test_what_was_withdrawn_is_not_stored(self, database):
        """
        What was held is in the journal until it is withdrawn; what was put stays.
        """
        backlog = open_backlog(database)
        held, other, put = (RunInfo(agent_id="a", run_id=name) for name in ("held", "other", "put"))
        backlog.hold("one", [held])
        backlog.hold("two", [other])
        backlog.put("three", [put])
        backlog.release(1, withdrawn="one")
        backlog.close(is_counted=True)
        (path,) = list_pending(find_journals(database))
        with claim(path) as journal:
            found = [record.run_id for entries in journal for _, record in entries]

        assert ["other", "put"] == found

    def test_what_is_held_is_not_deleted(self, database):
        """
        While records are held, storing others does not delete them from the journal.
        """
        backlog = open_backlog(database)
        (path,) = list_pending(find_journals(database))
        empty = path.stat().st_size
        backlog.hold("one", [RunInfo(agent_id="a", run_id="held")])
        backlog.put("two", [RunInfo(agent_id="a", run_id="put")])
        backlog.take(10)
        backlog.complete(1)
        backlog.tidy_journal()
        during = path.stat().st_size
        backlog.release(1)
        backlog.tidy_journal()

        assert empty < during
        assert empty == path.stat().st_size
        backlog.close(is_counted=True)
