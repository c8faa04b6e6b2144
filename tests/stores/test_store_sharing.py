"""Threads, forks, other processes, killed processes, full disks."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from steadyhelm.errors import ForkedStoreError, StoreError
from steadyhelm.stores import connections, tracked_connections
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import a_delivery, an_event

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

WRITE_FOR_EVER = """
import sys
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import an_event
store = SQLiteStore(sys.argv[1])
batch = 0
while True:
    store.write([an_event(batch * 50 + i, run_id=f"run-{i % 7}") for i in range(50)])
    batch += 1
    print(batch * 50, flush=True)
"""


def write_many(path, run_id, count):
    store = SQLiteStore(path)
    for seq in range(count):
        store.write([an_event(seq, run_id=run_id), an_event(seq, run_id="shared")])
    store.close()


def claim_all(path):
    store = SQLiteStore(path)
    claimed = []
    while found := store.claim_deliveries(now=10.0, lease_s=100.0, limit=3):
        claimed += [delivery.delivery_id for delivery in found]
    store.close()
    return claimed


def in_child(work):
    """Run something in a forked child; its answer, or the error it died of."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            answer = repr(work())
        except BaseException as exc:  # noqa: BLE001 - told to the parent
            answer = f"failed: {exc!r}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer


class TestThreads:
    def test_every_thread_may_write(self, store):
        """
        Writers in several threads wait for each other and lose nothing.
        """
        threads = [
            threading.Thread(
                target=lambda n=n: [store.write([an_event(i, run_id=f"r{n}")]) for i in range(30)]
            )
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [30] * 4 == [run.events for run in store.list_runs()]
        assert [] == store.check()

    def test_a_reader_does_not_see_half(self, store):
        """
        Another thread sees nothing of a transaction before its end; the writing thread sees its own.
        """
        seen = []
        with store.transaction():
            store.write([an_event()])
            thread = threading.Thread(target=lambda: seen.append(store.list_runs()))
            thread.start()
            thread.join()
            own = store.list_runs()

        assert ([[]], 1) == (seen, len(own))

    def test_a_thread_takes_its_connection_along(self, store):
        """
        When a reading thread ends its connection is closed.
        """
        thread = threading.Thread(target=store.list_runs)
        thread.start()
        thread.join()

        assert 0 == len(store._connections._readers)

    def test_closing_closes_all(self, store):
        """
        A closed store says so to every thread, however often it is closed.
        """
        store.list_runs()
        store.close()
        store.close()

        with pytest.raises(StoreError, match="has been closed"):
            store.list_runs()
        with pytest.raises(StoreError, match="has been closed"):
            store.write([an_event()])


class TestProcesses:
    def test_two_may_write(self, path):
        """
        Two processes write the same file, the same run even, and nothing is lost or counted twice.
        """
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=write_many, args=(str(path), f"own-{n}", 60)) for n in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        store = SQLiteStore(path)

        assert [0, 0] == [worker.exitcode for worker in workers]
        assert {"own-0": 60, "own-1": 60, "shared": 60} == {
            run.run_id: run.events for run in store.list_runs()
        }
        assert [] == store.check()
        store.close()

    def test_a_delivery_goes_to_one(self, store, path):
        """
        However many processes claim, each delivery is given out once.
        """
        for number in range(40):
            store.enqueue(a_delivery(str(number)))
        with multiprocessing.get_context("spawn").Pool(3) as pool:
            claimed = [one for some in pool.map(claim_all, [str(path)] * 3) for one in some]

        assert sorted(str(number) for number in range(40)) == sorted(claimed)

    def test_a_locked_file_is_named(self, store, path):
        """
        A file that another process does not let go of gives a clear error after the time set.
        """
        impatient = SQLiteStore(path, timeout_s=0.0)
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreError, match="in use by another process"):
            impatient.write([an_event()])
        blocker.execute("ROLLBACK")
        blocker.close()
        impatient.write([an_event()])
        impatient.close()

    @pytest.mark.slow
    @pytest.mark.parametrize("kill", range(4))
    def test_a_killed_writer_leaves_a_sound_file(self, path, kill):
        """
        Whatever a killed process had committed is there, its sums agree, and the next one goes on.
        """
        environment = {**os.environ, "PYTHONPATH": str(Path(connections.__file__).parents[2])}
        command = [sys.executable, "-c", WRITE_FOR_EVER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
            said = [int(writer.stdout.readline()) for _ in range(5 + 7 * kill)]
            writer.send_signal(signal.SIGKILL)
            said += [int(line) for line in writer.stdout.read().splitlines() if line.strip()]
        store = SQLiteStore(path)

        assert [] == store.check()
        assert sum(run.events for run in store.list_runs()) >= said[-1]
        store.write([an_event(0, run_id="after")])
        assert 1 == store.find_run("after").events
        store.close()


@needs_fork
class TestFork:
    def test_parent_and_child_both_go_on(self, store, path):
        """
        After a fork each has its own connections, and both write.
        """
        store.write([an_event(0)])
        store.list_runs()

        def work():
            store.write([an_event(1)])
            return store.find_run("run").events

        assert "2" == in_child(work)
        store.write([an_event(2)])
        assert (3, []) == (store.find_run("run").events, store.check())

    def test_the_parent_may_end_first(self, store, path):
        """
        What a child writes after its parent has closed the store is kept.
        """
        store.write([an_event(0)])
        (reading, writing), (hearing, telling) = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            store.write([an_event(1)])
            os.write(telling, b"written")
            os.read(reading, 1)
            store.write([an_event(2)])
            store.close()
            os._exit(0)
        os.read(hearing, 7)
        store.close()
        os.write(writing, b"x")
        os.waitpid(child, 0)
        again = SQLiteStore(path)

        assert (3, []) == (again.find_run("run").events, again.check())
        again.close()

    def test_two_threads_that_fork_at_once(self, store):
        """
        A thread that could not get the store's lock before its fork leaves it to the thread that has it.
        """
        has_lock, may_release = threading.Event(), threading.Event()

        def fork():
            connections._before_fork()
            has_lock.set()
            may_release.wait(60)
            connections._after_fork_in_parent()

        other = threading.Thread(target=fork)
        other.start()
        assert has_lock.wait(60)
        connections._before_fork()
        connections._after_fork_in_parent()
        may_release.set()
        other.join(60)

        with store.transaction():
            assert [] == store.list_runs()

    def test_a_fork_inside_a_transaction(self, store, path):
        """
        A transaction open during a fork is the parent's: the child uses neither its connection nor the file.
        """
        with store.transaction():
            store.write([an_event(0)])
            connection = store._connections._writer

            def work():
                with pytest.raises(ForkedStoreError):
                    store.list_runs()
                with pytest.raises(ForkedStoreError):
                    SQLiteStore(path)
                return connection in tracked_connections.inherited, store._connections._writer

            assert "(True, None)" == in_child(work)

        assert 1 == store.find_run("run").events

    def test_the_child_leaves_the_transaction_alone(self, path):
        """
        A child that leaves the parent's transaction neither commits nor rolls back.
        """
        store = SQLiteStore(path)

        def fork_inside():
            with store.transaction():
                store.write([an_event(0)])
                child = os.fork()
            if child == 0:
                os._exit(0)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        assert 0 == fork_inside()
        assert (1, []) == (store.find_run("run").events, store.check())
        store.close()

    def test_the_child_closes_nothing_that_another_thread_had_open(self, store, path):
        """
        Python drops what other threads had as soon as a child is forked: SQLite could wait for them forever.
        """
        opened, is_idle, may_end = [], threading.Event(), threading.Event()

        def read():
            with store._connections.reading() as connection:
                opened.append(connection)
            is_idle.set()
            may_end.wait(60)

        def use():
            with pytest.raises(ForkedStoreError):
                SQLiteStore(path)
            return opened[0].in_transaction, opened[0] in tracked_connections.inherited

        reader = threading.Thread(target=read)
        reader.start()
        assert is_idle.wait(60)
        with store._connections._readers_lock:  # as when another thread forks: idle ones stay open
            answer = in_child(use)
        may_end.set()
        reader.join()

        assert "(False, True)" == answer  # one that is closed would raise
        store.write([an_event(0)])
        assert (1, []) == (store.find_run("run").events, store.check())

    @pytest.mark.parametrize("is_reading", [False, True])
    def test_a_fork_while_another_thread_uses_the_file(self, store, path, is_reading):
        """
        SQLite would take the parent's locks for the child's: the child refuses the file, the parent goes on.
        """
        store.write([an_event(0)])
        is_inside, may_leave = threading.Event(), threading.Event()

        def use():
            part = store._connections
            with part.reading() if is_reading else part.transaction() as connection:
                connection.execute("SELECT * FROM migrations").fetchone()
                is_inside.set()
                may_leave.wait(60)

        def write():
            with pytest.raises(ForkedStoreError, match="was in use when this process was forked"):
                store.write([an_event(1)])
            other = SQLiteStore(path.with_name("other.db"))
            other.write([an_event(1)])
            return other.find_run("run").events

        user = threading.Thread(target=use)
        user.start()
        assert is_inside.wait(60)
        answer = in_child(write)
        may_leave.set()
        user.join()

        assert "1" == answer
        store.write([an_event(1)])
        assert (2, []) == (store.find_run("run").events, store.check())

    def test_a_store_that_waits_for_another_process_can_be_forked(self, store, path):
        """
        A thread that waits for a locked database holds no lock meanwhile: its process can fork.
        """
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        patient = SQLiteStore(path, timeout_s=60)
        writer = threading.Thread(target=lambda: patient.write([an_event(0)]))
        writer.start()
        lock = patient._connections._lock
        for _ in range(20):
            assert lock.acquire(timeout=60)
            lock.release()
        assert writer.is_alive()
        blocker.execute("ROLLBACK")
        blocker.close()
        writer.join(60)

        assert 1 == patient.find_run("run").events
        patient.close()

    def test_the_log_is_not_copied_before_a_fork(self, store, path):
        """
        The host does not wait until the log is copied into the database: that happens later.
        """
        store.write([an_event(seq) for seq in range(100)])
        log = path.with_name(path.name + "-wal")
        size = log.stat().st_size

        assert "100" == in_child(lambda: store.find_run("run").events)
        assert size == log.stat().st_size > 0

    def test_calling_it_again_changes_nothing(self, store):
        """
        Outside a fresh child `after_fork` does nothing.
        """
        store.write([an_event(0)])
        writer = store._connections._writer
        store.after_fork()

        assert store._connections._writer is writer


class TestFullDisk:
    def test_the_batch_is_taken_back_and_the_store_goes_on(self, store):
        """
        A full disk gives a clear error, keeps nothing of the batch, and harms nothing kept before.
        """
        store.write([an_event(0)])
        with store._connections.outside_transaction() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages + 3}")
        large = {"text": "x" * 8000}
        with pytest.raises(StoreError, match="the disk is full"):
            store.write([an_event(seq, run_id=f"run-{seq}", output_data=large) for seq in range(50)])

        assert (["run"], []) == (store.get_run_ids("agent"), store.check())
        with store._connections.outside_transaction() as connection:
            connection.execute("PRAGMA max_page_count = 1000000")
        store.write([an_event(1)])
        assert 2 == store.find_run("run").events

    def test_an_outer_transaction_does_not_commit_a_rest(self, store):
        """
        Nothing of a transaction is kept whose middle was taken back, even if the error was swallowed.
        """

        def write_and_swallow():
            with store.transaction():
                store.write([an_event(0)])
                with suppress(StoreError), store._connections.transaction() as connection:
                    connection.execute("ROLLBACK")

        with pytest.raises(StoreError, match="rolled back"):
            write_and_swallow()
        assert [] == store.list_runs()
