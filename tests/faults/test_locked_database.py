import contextlib
import threading
import time
from functools import partial

import pytest
from fault_tools import HOLDS_LOCK, start_process

from postgres_server import REQUIRED
from steadyhelm import DriftMonitor
from steadyhelm.engine.run_recorder import NOT_STORED
from steadyhelm.forks import ReentrantEvent
from steadyhelm.stores.tracked_connections import TrackedConnection

if REQUIRED:
    from steadyhelm.stores.postgres.connection import PostgresConnection

LONGEST_WAIT_S = 0.05
HANGING_S = 10.0
"""What no call takes that waits for nothing, also on a busy machine."""
STORE_TIMEOUT_S = 5.0
"""How long whoever asks a locked database waits."""
TRIES = 3
"""Of so many rounds one must be within the limits of time."""
LOOP = {"input_data": {"q": "oslo"}, "output_data": {"text": "none"}}


@contextlib.contextmanager
def locked_elsewhere(database):
    """Let another process hold the database locked inside the block."""
    with start_process(HOLDS_LOCK, database) as other:
        assert b"locked" == other.stdout.readline().strip()
        try:
            yield
        finally:
            other.communicate(timeout=60)


class CallWatch:
    """Makes calls on this thread, and notes what makes them wait: statements and waits that they ask for.

    Both are the same on a busy machine; the time that passes is only a limit far beyond them.
    """

    CONNECTION = PostgresConnection if REQUIRED else TrackedConnection
    STATEMENTS = ((CONNECTION, "execute"), (CONNECTION, "executemany"))
    WAITS = ((ReentrantEvent, "wait"), (threading.Condition, "wait"), (threading.Thread, "join"))

    def __init__(self, monkeypatch):
        self._thread, self._name, self._asked_s = threading.get_ident(), "", 0.0
        self.statements = []
        self.asked_s, self.longest_s = {}, {}
        for owner, method in self.STATEMENTS:
            monkeypatch.setattr(owner, method, self._watch(getattr(owner, method), self._note_statement))
        for owner, method in self.WAITS:
            monkeypatch.setattr(owner, method, self._watch(getattr(owner, method), self._note_wait))
        monkeypatch.setattr(time, "sleep", self._watch(time.sleep, partial(self._note_wait, None)))

    def take(self, name, call, *args, **fields):
        """Make a call and watch it."""
        self._name, self._asked_s, began = name, 0.0, time.monotonic()
        try:
            return call(*args, **fields)
        finally:
            self._name = ""
            self.asked_s[name] = max(self._asked_s, self.asked_s.get(name, 0.0))
            self.longest_s[name] = max(time.monotonic() - began, self.longest_s.get(name, 0.0))

    def start_round(self):
        """Forget how long calls took."""
        self.longest_s = {}

    def find_waiting(self):
        """Return the calls that asked for more than a moment in all, or for anything of the database."""
        asked = {name for name, seconds in self.asked_s.items() if seconds > LONGEST_WAIT_S}
        return asked | {f"{name}: {what}" for name, what in self.statements}

    def _watch(self, function, note):
        def watched(*args, **fields):
            if self._name and threading.get_ident() == self._thread:
                note(*args, **fields)
            return function(*args, **fields)

        return watched

    def _note_statement(self, connection, statement, *_):
        self.statements.append((self._name, statement))

    def _note_wait(self, _waiting, timeout_s=None, **fields):
        asked = fields.get("timeout", timeout_s)
        self._asked_s += float("inf") if asked is None else asked


@pytest.fixture
def watch(monkeypatch):
    return CallWatch(monkeypatch)


def use(monitor, watch, run_id):
    """Make every call that must not wait, in a run of that id; return the decisions about a loop."""
    take = watch.take
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


def find_waiting_calls(monitor, watch, run_ids):
    """Use the monitor for some rounds; return the calls that waited, or took far too long in all of them."""
    rounds = []
    for run_id in run_ids:
        watch.start_round()
        decisions = use(monitor, watch, run_id)
        assert any(decision.drifting for decision in decisions), "the run was not watched"
        rounds.append({name for name, took_s in watch.longest_s.items() if took_s > HANGING_S})
    return watch.find_waiting() | set.intersection(*rounds)


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
    monitor.close(2)


NEW = [f"new-{n}" for n in range(TRIES)]
UNNAMED = [None] * TRIES
SUSPENDED = [f"suspended-{n}" for n in range(TRIES)]


@pytest.mark.usefixtures("quiet")
class TestCallsDoNotWait:
    @pytest.mark.parametrize("run_ids", [NEW, UNNAMED, SUSPENDED], ids=["new", "unnamed", "suspended"])
    def test_another_process_holds_the_database(self, monitor, database, watch, run_ids):
        """
        While another process holds the database no call waits, the runs are watched, and nothing is lost.
        """
        with locked_elsewhere(database):
            assert set() == find_waiting_calls(monitor, watch, run_ids)
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

    @pytest.mark.sqlite
    def test_the_file_may_only_be_read(self, monitor, database, watch):
        """
        When the database can only be read, no call waits and the runs are watched.
        """
        monitor.flush()
        make_read_only(monitor, database)

        assert set() == find_waiting_calls(monitor, watch, NEW)

    @pytest.mark.sqlite
    def test_the_file_is_deleted(self, monitor, database, watch):
        """
        When the database is deleted no call waits and the runs are watched.
        """
        database.unlink()

        assert set() == find_waiting_calls(monitor, watch, [*NEW])
        assert set() == find_waiting_calls(monitor, watch, SUSPENDED)


def make_read_only(monitor, database):
    """Let every attempt to write fail as on a read-only mount, for any user."""
    monitor.store._connections._read_only = True


class TestTheConstructor:
    def test_it_waits_a_moment_only(self, monitor, database, tmp_path, watch):
        """
        With the database locked a monitor is built at once, and its runs are watched.
        """
        monitor.flush()
        took_s = []
        with locked_elsewhere(database):
            for _ in range(TRIES):
                began = time.monotonic()
                late = DriftMonitor("researcher", db_path=database, config=tmp_path / "steadyhelm.toml")
                took_s.append(time.monotonic() - began)
                assert set() == find_waiting_calls(late, watch, UNNAMED)
        late.close(10)

        assert min(took_s) < STORE_TIMEOUT_S


@pytest.mark.usefixtures("quiet")
class TestDurable:
    @pytest.fixture
    def monitor(self, database, tmp_path):
        settings = tmp_path / "steadyhelm.toml"
        settings.write_text("durable_timeout_s = 0.2\n")
        monitor = DriftMonitor("researcher", db_path=database, durability="durable", config=settings)
        assert monitor.flush(60).complete
        yield monitor
        monitor.close()

    def test_it_says_what_is_not_stored_yet(self, monitor, database):
        """
        A decision waits until its deadline, then says that its event is not stored yet, and that is counted.
        """
        run_id = monitor.start_run()
        monitor._dispatch.durable_timeout_s = 60.0
        before = monitor.record_event("tool_call", "search", **LOOP)
        monitor._dispatch.durable_timeout_s = 0.2
        with locked_elsewhere(database):
            began = time.monotonic()
            decision = monitor.record_event("tool_call", "search", **LOOP)
            took_s = time.monotonic() - began
        result = monitor.flush(60)

        assert ("", NOT_STORED) == (before.not_stored, decision.not_stored)
        assert took_s >= 0.2
        assert 1 == result.losses[NOT_STORED]
        assert [0, 1] == [event.seq for event in monitor.store.get_run_traces("researcher", run_id)]

    def test_it_waits_no_longer_than_that(self, monitor, database, watch):
        """
        With the database held for good, each step waits for its own deadline and no more.
        """
        monitor.start_run()
        with locked_elsewhere(database):
            for _ in range(3):
                decision = watch.take("record_event", monitor.record_event, "tool_call", "search", **LOOP)
                assert NOT_STORED == decision.not_stored
            watch.take("end_run", monitor.end_run)

        assert [] == watch.statements
        assert max(watch.asked_s.values()) <= 0.2
