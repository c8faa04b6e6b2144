import contextlib
import multiprocessing
import sqlite3
import time

import pytest

from steadyhelm import DriftMonitor
from steadyhelm.engine.run_recorder import NOT_STORED

LONGEST_WAIT_S = 0.05
TRIES = 3
"""A busy machine may take its time: of so many rounds one must keep within the limit."""
LOOP = {"input_data": {"q": "oslo"}, "output_data": {"text": "none"}}


def hold_lock(path, is_held, release):
    """Hold the database locked, as another process that writes and does not come to an end."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    is_held.set()
    release.wait(60)
    connection.execute("ROLLBACK")
    connection.close()


@contextlib.contextmanager
def locked(path):
    """Let another process hold the database locked inside the block."""
    context = multiprocessing.get_context("spawn")
    is_held, release = context.Event(), context.Event()
    process = context.Process(target=hold_lock, args=(str(path), is_held, release))
    process.start()
    assert is_held.wait(60)
    try:
        yield
    finally:
        release.set()
        process.join(60)


class Stopwatch:
    """Measures calls: the longest of each round."""

    def __init__(self):
        self.longest = {}

    def take(self, name, call, *args, **fields):
        """Make a call and measure it."""
        began = time.perf_counter()
        result = call(*args, **fields)
        took = time.perf_counter() - began
        self.longest[name] = max(took, self.longest.get(name, 0.0))
        return result


def use(monitor, stopwatch, run_id):
    """Make every call that must not wait, in a run of that id; return the decisions about a loop."""
    take = stopwatch.take
    run = take("start_run", monitor.start_run, run_id, goal="find a flight", task_type="flight")
    decisions = [take("record_event", monitor.record_event, "tool_call", "search", **LOOP) for _ in range(6)]
    take("before_tool", monitor.before_tool, "search", {"q": "oslo"})
    take("call_refused", monitor.call_refused, "search", reason="it repeats itself")
    take("progress", monitor.progress, 0.5)
    take("budget", monitor.budget)
    take("request_extension", monitor.request_extension, "nearly there", steps=1)
    take("checkpoint", monitor.checkpoint, conversation_history=["hello"])
    take("roll_back", monitor.roll_back)
    with take("within", monitor.within, run):
        take("get_recent_alerts", monitor.get_recent_alerts)
    take("status", monitor.status)
    take("suspend", monitor.suspend)
    take("start_run", monitor.start_run, run_id)
    take("end_run", monitor.end_run)
    return decisions


def find_slow_calls(monitor, run_ids):
    """Use the monitor for some rounds; return the calls that took too long in every one of them."""
    rounds = []
    for run_id in run_ids:
        stopwatch = Stopwatch()
        decisions = use(monitor, stopwatch, run_id)
        assert any(decision.drifting for decision in decisions), "the run was not watched"
        rounds.append({name for name, took in stopwatch.longest.items() if took > LONGEST_WAIT_S})
    return set.intersection(*rounds)


@pytest.fixture
def database(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def monitor(database, tmp_path):
    settings = tmp_path / "steadyhelm.toml"
    settings.write_text(f'[budget]\nsteps = 500\n[checkpoints]\nfolder = "{tmp_path / "kept"}"\n')
    monitor = DriftMonitor("researcher", db_path=database, config=settings, mode="enforce")
    for n in range(TRIES):
        monitor.start_run(f"suspended-{n}")
        monitor.record_event("tool_call", "search", **LOOP)
        monitor.suspend()
    monitor.flush()
    yield monitor
    monitor.close()


NEW = [f"new-{n}" for n in range(TRIES)]
UNNAMED = [None] * TRIES
SUSPENDED = [f"suspended-{n}" for n in range(TRIES)]


@pytest.mark.usefixtures("quiet")
class TestCallsDoNotWait:
    @pytest.mark.parametrize("run_ids", [NEW, UNNAMED, SUSPENDED], ids=["new", "unnamed", "suspended"])
    def test_another_process_holds_the_database(self, monitor, database, run_ids):
        """
        While another process holds the database no call waits, the runs are watched, and nothing is lost.
        """
        with locked(database):
            assert set() == find_slow_calls(monitor, run_ids)
        result = monitor.flush(30)

        assert result.complete, result
        stored = monitor.store.get_traces("researcher", limit=1000)
        assert (
            6 * TRIES
            == sum(
                event.action_name == "search" and event.input_data == LOOP["input_data"] for event in stored
            )
            - TRIES
        )

    def test_the_file_may_only_be_read(self, monitor, database):
        """
        When the database can only be read, no call waits and the runs are watched.
        """
        monitor.flush()
        make_read_only(monitor, database)

        assert set() == find_slow_calls(monitor, NEW)

    def test_the_file_is_deleted(self, monitor, database):
        """
        When the database is deleted no call waits and the runs are watched.
        """
        database.unlink()

        assert set() == find_slow_calls(monitor, [*NEW])
        assert set() == find_slow_calls(monitor, SUSPENDED)


def make_read_only(monitor, database):
    """Let every attempt to write fail as on a read-only mount, for any user."""
    monitor.store._connections._read_only = True


class TestTheConstructor:
    def test_it_waits_a_moment_only(self, monitor, database, tmp_path):
        """
        With the database locked a monitor is built at once, and its runs are watched.
        """
        monitor.flush()
        took = []
        with locked(database):
            for _ in range(TRIES):
                began = time.perf_counter()
                late = DriftMonitor("researcher", db_path=database, config=tmp_path / "steadyhelm.toml")
                took.append(time.perf_counter() - began)
                assert set() == find_slow_calls(late, UNNAMED)
        late.close(10)

        assert min(took) < 1.0


@pytest.mark.usefixtures("quiet")
class TestDurable:
    @pytest.fixture
    def monitor(self, database, tmp_path):
        settings = tmp_path / "steadyhelm.toml"
        settings.write_text("durable_timeout_s = 0.2\n")
        monitor = DriftMonitor("researcher", db_path=database, durability="durable", config=settings)
        yield monitor
        monitor.close()

    def test_it_says_what_is_not_stored_yet(self, monitor, database):
        """
        A decision waits until its deadline, then says that its event is not stored yet, and that is counted.
        """
        run_id = monitor.start_run()
        before = monitor.record_event("tool_call", "search", **LOOP)
        with locked(database):
            began = time.perf_counter()
            decision = monitor.record_event("tool_call", "search", **LOOP)
            took = time.perf_counter() - began
        result = monitor.flush(30)

        assert ("", NOT_STORED) == (before.not_stored, decision.not_stored)
        assert took >= 0.2
        assert 1 == result.losses[NOT_STORED]
        assert [0, 1] == [event.seq for event in monitor.store.get_run_traces("researcher", run_id)]

    def test_it_waits_no_longer_than_that(self, monitor, database):
        """
        With the database held for good, each step waits for its own deadline and no more.
        """
        monitor.start_run()
        with locked(database):
            began = time.perf_counter()
            for _ in range(3):
                assert NOT_STORED == monitor.record_event("tool_call", "search", **LOOP).not_stored
            monitor.end_run()
            took = time.perf_counter() - began

        assert took < 5.0
