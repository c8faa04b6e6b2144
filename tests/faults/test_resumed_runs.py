import threading
from contextlib import closing

import pytest
from fault_tools import get_store_class

from steadyhelm import Budget, DriftMonitor
from steadyhelm.engine.turns import MOST_POSTPONED
from steadyhelm.errors import StoreError
from steadyhelm.stores import open_store

LOOP = {"input_data": {"q": "oslo"}, "output_data": {"text": "none"}}


@pytest.fixture
def database(make_database):
    """A database with a suspended run that has begun a loop."""
    database = make_database()
    add_suspended_elsewhere(database, "session-1")
    return database


@pytest.fixture
def released(database, monkeypatch):
    """Until this is set, no saved state can be taken, as while another process writes."""
    released = threading.Event()
    store_class = get_store_class(database)
    take_state = store_class.take_state

    def take_state_later(store, agent_id, run_id):
        if not released.is_set():
            raise StoreError("The database is held by another process.")
        return take_state(store, agent_id, run_id)

    monkeypatch.setattr(store_class, "take_state", take_state_later)
    return released


@pytest.fixture
def monitor(database, released):
    monitor = DriftMonitor("researcher", db_path=database, mode="guide")
    yield monitor
    released.set()
    monitor.close()


def add_suspended_elsewhere(database, run_id):
    """Let another monitor begin a run and suspend it."""
    other = DriftMonitor("researcher", db_path=database)
    other.start_run(run_id, goal="find a flight")
    search(other, 2)
    other.close()


def search(monitor, times):
    return [monitor.record_event("tool_call", "search", **LOOP) for _ in range(times)]


def fail_to_read():
    raise StoreError("The database is held by another process.")


def list_seqs(monitor, run_id):
    return [event.seq for event in monitor.store.get_run_traces("researcher", run_id)]


class TestWaiting:
    def test_a_run_says_that_it_waits(self, monitor):
        """
        A run whose saved state is not read yet is judged as a new one, says so, and stores nothing yet.
        """
        assert "session-1" == monitor.start_run("session-1")
        decisions = search(monitor, 3)

        assert "saved state" in monitor.not_checked()
        assert [False, False, True] == [decision.drifting for decision in decisions]
        assert not monitor.flush(0.1).complete
        assert [0, 1] == list_seqs(monitor, "session-1")

    def test_its_steps_are_judged_again(self, monitor, released):
        """
        When the saved state is there, the steps since the start follow those of before, in order and once.
        """
        monitor.start_run("session-1")
        search(monitor, 2)
        released.set()
        assert monitor.flush().complete

        assert "saved state" not in monitor.not_checked()
        assert "find a flight" in search(monitor, 1)[0].guidance
        monitor.flush()
        assert [0, 1, 2, 3, 4] == list_seqs(monitor, "session-1")
        assert {"session-1"} == set(monitor.store.get_run_ids("researcher"))

    def test_a_store_that_cannot_be_read_is_not_taken_for_an_empty_one(self, database, monkeypatch):
        """
        While the list of suspended runs cannot be read, a run goes on waiting for its saved state.
        """
        monitor = DriftMonitor("researcher", db_path=database, mode="guide")
        assert monitor.flush().complete
        read = monitor.store.get_version
        monkeypatch.setattr(monitor.store, "get_version", fail_to_read)
        add_suspended_elsewhere(database, "session-2")
        monitor._knowledge.add_suspended("session-2")
        monitor.start_run("session-2")
        search(monitor, 2)
        assert not monitor.flush(0.2).complete
        monkeypatch.setattr(monitor.store, "get_version", read)
        assert monitor.flush(30).complete

        assert [0, 1, 2, 3] == list_seqs(monitor, "session-2")
        monitor.close()

    @pytest.mark.parametrize("is_suspended", [True, False])
    def test_its_steps_count_in_the_budget_of_the_day(self, database, released, is_suspended):
        """
        What a run spends while it waits counts at once, and once: also when its steps are judged again.
        """
        budget = Budget(daily_tokens=400)
        monitor = DriftMonitor("researcher", db_path=database, mode="enforce", budget=budget)
        assert monitor.flush().complete
        monitor._knowledge.add_suspended("session-9")
        monitor.start_run("session-1" if is_suspended else "session-9")
        spent = [monitor.record_event("llm_request", "model", token_count=100).verdict for _ in range(4)]
        waiting = monitor.daily_budget().tokens_used
        released.set()
        assert monitor.flush().complete

        assert ["proceed"] * 3 + ["ask"] == spent
        assert (400, 400) == (waiting, monitor.daily_budget().tokens_used)
        monitor.close()

    def test_it_may_end_before(self, monitor, released):
        """
        A run that ends before its saved state was read is stored as a whole afterwards.
        """
        monitor.start_run("session-1")
        search(monitor, 2)
        monitor.end_run(outcome="done")
        released.set()
        assert monitor.flush().complete

        run = monitor.store.find_run("session-1")
        assert ("ended", "done", 4) == (run.state, run.outcome, run.events)

    def test_it_may_be_suspended_and_resumed_before(self, monitor, released):
        """
        A run that is suspended and resumed while it waits goes on, and loses nothing.
        """
        monitor.start_run("session-1")
        search(monitor, 1)
        monitor.suspend()
        monitor.start_run("session-1")
        search(monitor, 1)
        released.set()
        assert monitor.flush().complete

        assert [0, 1, 2, 3] == list_seqs(monitor, "session-1")

    def test_one_that_is_suspended_before_is_resumed_by_another_monitor(self, database, monkeypatch):
        """
        A new run that is suspended before it is known to be new goes on in another monitor of the process.
        """
        first, second = (DriftMonitor("researcher", db_path=database, mode="guide") for _ in range(2))
        assert first.flush(30).complete
        assert second.flush(30).complete
        second._dispatch.repeated_job = None  # it has not looked at the store since
        with monkeypatch.context() as held:
            held.setattr(first.store, "get_version", fail_to_read)
            first._knowledge.add_suspended("session-2")
            first.start_run("session-2", goal="find a flight")
            search(first, 2)
            first.suspend()
        assert first.flush(30).complete
        second.start_run("session-2")
        assert second.flush(30).complete

        assert "find a flight" in search(second, 1)[0].guidance
        first.close()
        second.close()


class TestGivingUp:
    def test_after_many_steps_it_is_a_new_run(self, monitor):
        """
        When too many steps wait, the run goes on as a new one; the saved state stays for another time.
        """
        monitor.start_run("session-1")
        for n in range(MOST_POSTPONED + 10):
            monitor.record_event("tool_call", "open", input_data={"page": n}, output_data=f"page {n}")
        assert monitor.flush(30).complete

        assert list(range(MOST_POSTPONED + 10)) == list_seqs(monitor, "session-1~2")
        assert [0, 1] == list_seqs(monitor, "session-1")
        assert ["session-1"] == monitor.store.list_suspended("researcher")

    def test_closing_stores_what_waits(self, monitor, database):
        """
        What waits when the monitor is closed is stored as a new run.
        """
        monitor.start_run("session-1")
        search(monitor, 3)
        monitor.close()

        with closing(open_store(database)) as store:
            assert [0, 1, 2] == [event.seq for event in store.get_run_traces("researcher", "session-1~2")]
