"""Whatever fails: what was recorded is stored, or counted as lost."""

import errno
import logging
import os
import subprocess
import textwrap
import time

import pytest
from fault_tools import (
    HOLDS_LOCK,
    Account,
    adopt,
    find_journals,
    full_disk,
    locked,
    make_monitor,
    record,
    record_run,
    run_process,
    start_process,
    wait_until,
)

from steadyhelm.engine.run_recorder import NOT_STORED
from steadyhelm.journal.abandoned import list_pending
from steadyhelm.sink import Sink


class Broken(Sink):
    """A sink that raises whatever it is handed."""

    name = "broken"

    def __init__(self, error):
        self.error = error

    def write(self, records):
        raise self.error


class TestAStoreThatCannotBeOpened:
    """What is recorded for a database that cannot be used at all is counted, event by event."""

    @pytest.mark.parametrize("place", ["folder", "damaged file", "loop of links"])
    def test_every_event_is_counted(self, tmp_path, place):
        """
        Nothing can be stored, so every event is lost, and a flush is not complete.
        """
        monitor = make_monitor(_make_unusable(tmp_path / "steadyhelm.db", place))
        monitor.start_run("run")
        record(monitor, 700)
        monitor.end_run()
        result = monitor.flush()
        monitor.close()

        assert (False, 0, {"store cannot be opened": 700}) == (
            result.complete,
            result.remaining,
            monitor.health.totals(),
        )

    def test_durable_mode_acknowledges_nothing(self, tmp_path):
        """
        In durable mode the decision says of each event that it is not stored.
        """
        monitor = make_monitor(_make_unusable(tmp_path / "steadyhelm.db", "folder"), durability="durable")
        monitor.start_run("run")
        decision = monitor.record_event("tool_call", "search")
        monitor.close()

        assert decision.not_stored
        assert 1 == monitor.health.totals()["store cannot be opened"]


def _make_unusable(database, place):
    if place == "folder":
        database.mkdir()
    elif place == "damaged file":
        database.write_bytes(b"this is not a database" * 100)
    else:
        database.symlink_to(database)
    return database


class TestAStoreThatIsAway:
    def test_locked_by_another_process(self, database):
        """
        What is recorded while another process holds the database locked is stored once it lets go.
        """
        monitor = make_monitor(database)
        monitor.start_run("run")
        with start_process(HOLDS_LOCK, database) as other:
            other.stdout.readline()
            record(monitor, 3000)
            monitor.end_run()
            assert not monitor.flush(0.2).complete
            other.communicate(timeout=60)

        result = monitor.flush(60)
        monitor.close()
        account = Account(database)
        assert (True, 0) == (result.complete, result.remaining)
        assert ({"run": 3000}, 0) == (account.runs, account.lost)

    def test_findings_and_ends_wait_with_the_events(self, database):
        """
        A loop that happens while the database is locked becomes an incident, with its findings and its end.
        """
        monitor = make_monitor(database, detectors={})
        monitor.start_run("run")
        monitor.flush()
        with locked(database):
            for _ in range(8):
                monitor.record_event("tool_call", "search", input_data="x", output_data="y")
            monitor.end_run()
            time.sleep(1.5)
        monitor.flush(60)
        run = monitor.store.find_run("run")

        assert ("ended", 8, 1) == (run.state, run.events, run.incidents)
        assert run.findings > 0
        monitor.close()

    def test_closed_while_locked(self, database):
        """
        What could not be written before the close waits in the journal, and the next monitor stores it.
        """
        monitor = make_monitor(database)
        monitor.start_run("run")
        monitor.flush()
        writer = monitor._dispatch._writer.thread
        with locked(database):
            record(monitor, 50)
            result = monitor.close(0.3)
            wait_until(lambda: not writer.is_alive())

        assert not result.complete
        assert result.remaining >= 50
        assert list_pending(find_journals(database))
        adopt(database)
        account = Account(database)
        assert ({"run": 50}, 0) == (account.runs, account.lost)
        assert [] == list_pending(find_journals(database))

    def test_a_full_disk(self, database, monkeypatch):
        """
        On a full disk events beyond the cap are dropped and counted, everything else waits for room.
        """
        monitor = make_monitor(database)
        monitor.start_run("run")
        monitor.flush()

        def no_space(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with full_disk(monitor):
            with monkeypatch.context() as journal:
                journal.setattr(os, "pwrite", no_space)
                record(monitor, 5000)
            monitor.end_run()
            assert not monitor.flush(0.3).complete
        result = monitor.flush(60)
        monitor.close()

        account = Account(database)
        assert 0 < account.lost
        assert 5000 == account.stored + account.lost
        assert (False, 0) == (result.complete, result.remaining)
        assert [] == account.faults

    @pytest.mark.sqlite
    def test_a_small_disk(self, tmp_path):
        """
        A file system that is really full loses events only, and counts them.
        """
        folder = tmp_path / "small"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("no file system can be mounted here")
        try:
            monitor = make_monitor(folder / "steadyhelm.db")
            filler = folder / "filler"
            with monitor.run(run_id="run"):
                record(monitor, 20)
                monitor.flush()
                with pytest.raises(OSError, match="No space"):
                    filler.write_bytes(bytes(4 << 20))
                record(monitor, 5000)
            monitor.flush(0.3)
            filler.unlink()
            assert 0 == monitor.flush(60).remaining
            monitor.close()
            account = Account(folder / "steadyhelm.db")
            assert (5020, True) == (account.stored + account.lost, account.lost > 0)
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=False)

    def test_the_journal_is_full(self, database):
        """
        When the journal has reached its size, events are dropped and counted; ends of runs are not.
        """
        monitor = make_monitor(database)
        monitor._dispatch._backlog.journal._cap = 100_000
        monitor.start_run("run")
        monitor.flush()
        with locked(database):
            record(monitor, 5000)
            monitor.end_run()
        monitor.flush(60)
        assert "ended" == monitor.store.find_run("run").state
        monitor.close()

        account = Account(database)
        assert account.losses["journal full"] == account.lost > 0
        assert 5000 == account.stored + account.lost


class TestNotTaken:
    """Events that never reach the queue: a flush after them is not complete."""

    def test_after_the_end_of_their_run(self, database):
        """
        Events of a run that has ended are lost.
        """
        monitor = make_monitor(database)
        record_run(monitor, 3, "run")
        record(monitor, 2, "run")
        result = monitor.flush(60)

        assert (False, {"event after the run's end": 2}) == (result.complete, result.losses)
        monitor.close()

    @pytest.mark.usefixtures("quiet")
    def test_a_clock_that_fails(self, database):
        """
        An event that cannot be made is lost, and what comes before and after it is stored.
        """
        times = iter([time.time()] * 3)
        monitor = make_monitor(database, clock=lambda: next(times, None) or 1 / 0)
        monitor.start_run("run")
        record(monitor, 5, "run")
        result = monitor.flush(60)

        lost = result.losses["error in record_event"]
        assert (False, 5) == (result.complete, lost + Account(database).stored)
        monitor.close()

    @pytest.mark.parametrize("moment", [None, "noon", float("nan"), float("inf"), 10**400])
    def test_a_clock_that_is_wrong(self, database, moment):
        """
        Where a host's clock returns no time, that of the system is used: nothing is lost, and nothing waits.
        """
        monitor = make_monitor(database, clock=lambda: moment)
        record_run(monitor, 5, "run")

        assert monitor.flush(60).complete
        assert {"run": 5} == Account(database).runs
        monitor.close()

    def test_at_the_end_of_the_stack(self, database):
        """
        An event for which the host's stack has no room is lost.
        """
        monitor = make_monitor(database)

        def descend():
            monitor.record_event("tool_call", "search")
            descend()

        with monitor.run(run_id="run"), pytest.raises(RecursionError):
            descend()
        result = monitor.flush(60)

        assert not result.complete
        assert result.losses["call at the end of the stack"] > 0
        monitor.close()


class TestOthersFail:
    @pytest.mark.parametrize("error", [ValueError("no"), OSError("gone"), SystemExit(1), KeyboardInterrupt()])
    def test_a_sink_that_raises(self, database, error):
        """
        A sink that raises, whatever it raises, keeps nothing from the store, and its losses are counted.
        """
        monitor = make_monitor(database, sinks=[Broken(error)])
        with monitor.run(run_id="run"):
            record(monitor, 10)
        monitor.flush(60)
        result = monitor.close()

        account = Account(database)
        assert {"run": 10} == account.runs
        assert not result.complete
        assert sum(count for reason, count in account.losses.items() if "sink broken failed" in reason) >= 10

    @pytest.mark.parametrize("error", [ValueError, SystemExit])
    def test_a_log_handler_that_raises(self, database, error):
        """
        A log handler that raises does not end the writer.
        """

        class Raising(logging.Handler):
            def emit(self, record):
                raise error

        handler, logger = Raising(), logging.getLogger("steadyhelm")
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        try:
            monitor = make_monitor(database, sinks=[Broken(ValueError())])
            with monitor.run(run_id="run"):
                record(monitor, 10)
            monitor.flush(60)
            monitor.health.count("something new")
            record(monitor, 10, "another")
            assert 0 == monitor.flush(60).remaining
            monitor.close()
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)

        assert 20 == Account(database).stored

    def test_a_dead_writer_is_started_again(self, database, monkeypatch):
        """
        A writer thread that ended, whatever was raised in it, is started again by the next record.
        """
        monitor = make_monitor(database)
        dispatch = monitor._dispatch

        def end_thread(*_):
            raise SystemExit

        with monitor.run(run_id="run"):
            record(monitor, 10)
            writer = dispatch._writer.thread
            monkeypatch.setattr(monitor.health, "count", end_thread)
            dispatch.run_on_writer(end_thread)
            writer.join(60)
            assert not writer.is_alive()
            monkeypatch.undo()
            record(monitor, 10)
            wait_until(lambda: not dispatch.waiting)
        monitor.close(60)

        assert {"run": 20} == Account(database).runs

    def test_recorded_after_the_close(self, database):
        """
        What a program records after it closed its monitor is counted in the database when the program ends.
        """
        source = """
            import sys
            from fault_tools import *
            monitor = make_monitor(sys.argv[1])
            record_run(monitor, 5, "before")
            monitor.close(60)
            record(monitor, 7, "after")
        """
        run_process(textwrap.dedent(source), database)

        adopt(database)
        account = Account(database)
        assert ({"before": 5}, True) == (account.runs, account.lost >= 7)

    def test_a_writer_that_runs_at_once(self):
        """
        A thread that runs while it is being started, as a greenlet does in place of one, does its work.
        """
        source = """
            import os, threading
            from steadyhelm.engine.health import Health
            from steadyhelm.engine.writer_thread import WriterThread
            from steadyhelm.forks import ForkSafeLock
            threading._start_new_thread = lambda function, arguments: function(*arguments)
            writer = WriterThread(lambda: print("written", flush=True), ForkSafeLock(), Health())
            writer.start()
            os._exit(0)
        """

        assert "written" == run_process(textwrap.dedent(source)).strip()

    @pytest.mark.sqlite
    def test_a_writer_that_the_host_ends(self, tmp_path):
        """
        A writer that the host ended, as by what it lets trace its threads, is started again and finishes.
        """
        tracing = """
            import threading
            def end(*_):
                raise SystemExit
            monitor = make_monitor(sys.argv[1])
            monitor.flush(60)
            threading.settrace(end)
            traced = make_monitor(sys.argv[1], "traced")
            record_run(traced, 10, "first")
            threading.settrace(None)
            before = traced.flush(60)
            record_run(traced, 10, "second")
            print(before.complete, traced.close(60).complete, monitor.close(60).complete)
        """
        source = "import sys\nfrom fault_tools import *\n" + textwrap.dedent(tracing)

        said = run_process(source, tmp_path / "steadyhelm.db")

        assert "True True True" == said.strip()
        assert {"first": 10, "second": 10} == Account(tmp_path / "steadyhelm.db").runs


class TestDurable:
    def test_it_says_what_is_not_stored(self, database):
        """
        When the deadline passes, the decision and the counts say that the event is not stored yet.
        """
        monitor = make_monitor(database, durability="durable")
        monitor._dispatch.durable_timeout_s = 60.0
        monitor.start_run("run")
        before = monitor.record_event("tool_call", "search")
        with locked(database):
            monitor._dispatch.durable_timeout_s = 0.2
            decisions = [monitor.record_event("tool_call", "search") for _ in range(5)]
        monitor.flush(60)
        monitor._dispatch.durable_timeout_s = 60.0
        after = monitor.record_event("tool_call", "search")
        monitor.end_run()
        monitor.close()

        account = Account(database)
        assert [False, *[True] * 5, False] == [bool(it.not_stored) for it in (before, *decisions, after)]
        assert account.losses[NOT_STORED] >= 5
        assert (7, 0) == (account.stored, account.lost)
