import os
import threading

import pytest

from steadyhelm import DriftMonitor
from steadyhelm.boundary.driver import Boundary, RunTable


class Record:
    """What an adapter keeps about one run."""

    def __init__(self, run):
        self.run = run


@pytest.fixture
def boundary(tmp_path):
    monitor = DriftMonitor("agent", db_path=tmp_path / "runs.db")
    yield Boundary(monitor, "test", {"before_model": {"stop"}})
    monitor.close()


def outcomes(boundary):
    boundary.monitor.flush()
    return [run.outcome for run in boundary.monitor.store.list_runs("agent")]


class TestRunTable:
    def test_resume_returns_what_was_paused(self, boundary):
        """
        A run that waits is returned once, under its key.
        """
        table, record = RunTable(boundary), Record(boundary.start_run("find it"))
        table.pause(record, "thread")

        assert record is table.resume("thread")
        assert table.resume("thread") is None

    def test_one_run_under_several_keys(self, boundary):
        """
        A run that asks two questions resumes with the answer to either, and the other may come later.
        """
        table, record = RunTable(boundary), Record(boundary.start_run("find it"))
        table.pause(record, "call-1", "call-2")

        assert record is table.resume("call-2", "call-9")
        assert [("call-1", record)] == table.items()

    def test_an_ended_run_is_not_resumed(self, boundary):
        """
        What has ended in the meantime cannot go on.
        """
        table, record = RunTable(boundary), Record(boundary.start_run("find it"))
        table.pause(record, "thread")
        record.run.end()

        assert table.resume("thread") is None

    def test_a_run_the_monitor_has_closed_is_not_resumed(self, boundary):
        """
        The host may end a run itself while it waits; the adapter ends what it keeps of it.
        """
        ended = []
        table, record = RunTable(boundary, ended.append), Record(boundary.start_run("find it"))
        table.pause(record, "thread")
        boundary.monitor.end_run(record.run.run_id)

        assert table.resume("thread") is None
        assert [record] == ended

    def test_the_run_that_waits_longest_makes_room(self, boundary):
        """
        One more than the limit ends the oldest, and that is counted.
        """
        table = RunTable(boundary, limit=2)
        records = [Record(boundary.start_run(f"task {n}")) for n in range(3)]
        for n, record in enumerate(records):
            table.pause(record, n)

        assert [True, False, False] == [it.run.has_ended for it in records]
        assert [1, 2] == [key for key, _ in table.items()]
        assert 1 == boundary.monitor.health.totals()["paused run ended to make room"]
        assert ["left early"] == [it for it in outcomes(boundary) if it]

    def test_an_adapter_may_end_its_runs_itself(self, boundary):
        """
        What the adapter hands over as `end` is called instead, with its own record.
        """
        ended = []
        table, record = RunTable(boundary, ended.append), Record(boundary.start_run("find it"))
        table.pause(record, "thread")
        table.abandon("thread")
        table.abandon("thread")

        assert [record] == ended

    def test_pausing_again_is_waiting_anew(self, boundary):
        """
        A run that is paused a second time is the newest again.
        """
        table = RunTable(boundary, limit=2)
        records = [Record(boundary.start_run(f"task {n}")) for n in range(2)]
        for n in (0, 1, 0):
            table.pause(records[n], n)

        assert [1, 0] == [key for key, _ in table.items()]
        assert 2 == len(table)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_lock_held_at_a_fork_is_free_in_the_child(self, boundary):
        """
        The child of a process that forks while a thread works on the table does not wait for that thread.
        """
        table, held, go_on = RunTable(boundary), threading.Event(), threading.Event()

        def hold():
            with table._lock:
                held.set()
                go_on.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(60)
        child = os.fork()
        if child == 0:
            table.resume("thread")
            os._exit(7)
        go_on.set()
        thread.join()

        assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
