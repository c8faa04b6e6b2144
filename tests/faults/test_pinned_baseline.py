import threading
import time
from contextlib import closing

import pytest
from fault_tools import get_store_class
from msgspec import structs

from steadyhelm import DriftMonitor
from steadyhelm.baselines import BaselineStats, Spread
from steadyhelm.components import make_detector_factory, make_steering
from steadyhelm.engine.agent_knowledge import Reference
from steadyhelm.engine.health import Health
from steadyhelm.engine.session_factory import SessionFactory
from steadyhelm.events import RunInfo
from steadyhelm.stores import open_store

AGENT = "researcher"
STARTED_AT = float(int(time.time()))  # what is older would be deleted as too old to keep
FRUGAL = BaselineStats(
    agent_id=AGENT,
    calibration_runs=30,
    is_calibrated=True,
    mean_tokens_per_run=2000.0,
    std_tokens_per_run=200.0,
    spreads={"tokens": Spread(p50=2000.0, p95=2400.0)},
)
"""What is normal for an agent that spends little: the runs below spend much more."""
LAVISH = structs.replace(
    FRUGAL,
    calibration_runs=60,
    mean_tokens_per_run=1e6,
    spreads={"tokens": Spread(p50=1e6, p95=2e6)},
)


@pytest.fixture
def database(make_database):
    database = make_database()
    with closing(open_store(database)) as store:
        store.save_baseline(FRUGAL)
    return database


@pytest.fixture
def monitor(database):
    monitor = make_loaded_monitor(database)
    yield monitor
    monitor.close()


def make_loaded_monitor(database, clock=None):
    """Return a monitor that has read the baseline."""
    monitor = DriftMonitor(AGENT, db_path=database, clock=clock or Clock(), mode="guide")
    assert monitor.flush(60).complete
    return monitor


class Clock:
    """A clock that goes on by a second with every step."""

    def __init__(self):
        self.now = STARTED_AT

    def __call__(self):
        self.now += 1.0
        return self.now


def spend(monitor, calls, *, first=0):
    """Record calls that cost far more than usual, each another one; return what was decided."""
    return [
        describe(
            monitor.record_event(
                "tool_call", "search", input_data={"q": n}, output_data=f"page {n}", token_count=4000
            )
        )
        for n in range(first, first + calls)
    ]


def describe(decision):
    """Return what a decision says, without what every run has of its own."""
    findings = [(it.detector, it.severity, round(it.score, 6), it.message) for it in decision.findings]
    return decision.action, decision.verdict, decision.guidance, findings


def replay(monitor, run_id):
    """Judge a stored run again, compared with what was pinned when it ran."""
    store, settings, health = monitor.store, monitor.settings, Health()
    pinned = store.get_pinned_baseline(AGENT, run_id)
    reference = Reference.decode(pinned)
    sessions = SessionFactory(
        make_detectors=make_detector_factory(settings, health),
        health=health,
        mode=settings.mode,
        steering=make_steering(settings),
    )
    info = RunInfo(agent_id=AGENT, run_id=run_id, started_at=store.find_run(run_id).started_at)
    session = sessions.begin(info, reference if pinned.seq == 0 else None)
    decisions = []
    for event in store.get_run_traces(AGENT, run_id):
        if event.seq == pinned.seq > 0:
            session.use_baseline(reference.baseline, reference.thresholds)
        decisions.append(describe(session.observe(event).decision))
    return decisions


def found(decisions):
    return [finding for *_, findings in decisions for finding in findings]


class TestPinned:
    @pytest.mark.parametrize("change", ["newer", "reset"])
    def test_a_run_keeps_its_baseline(self, database, monitor, change):
        """
        A newer baseline, or a reset, in the middle of a run changes nothing for it, and counts for the next.
        """
        monitor.start_run("undisturbed")
        undisturbed = spend(monitor, 8)
        monitor.end_run(outcome="failed")
        monitor.start_run("disturbed")
        disturbed = spend(monitor, 4)
        with closing(open_store(database)) as other:
            if change == "newer":
                other.save_baseline(LAVISH)
            else:
                other.reset_baseline(AGENT)
        monitor.flush()
        disturbed += spend(monitor, 4, first=4)
        monitor.start_run("next")

        assert found(undisturbed)
        assert undisturbed == disturbed
        assert not found(spend(monitor, 8))

    def test_a_stored_run_gives_the_same_decisions_again(self, database, monitor):
        """
        A stored run, judged again with its pinned baseline, leads to the same decisions.
        """
        run_id = monitor.start_run()
        decisions = spend(monitor, 8)
        monitor.store.save_baseline(LAVISH)
        monitor.flush()

        assert found(decisions)
        assert decisions == replay(monitor, run_id)

    def test_a_run_that_is_resumed_keeps_its_baseline(self, database, monitor):
        """
        A run that goes on in another process is compared with the baseline it began with.
        """
        monitor.start_run("session-1")
        decisions = spend(monitor, 4)
        monitor.close()
        with closing(open_store(database)) as store:
            store.reset_baseline(AGENT)
        second = make_loaded_monitor(database, monitor._services.clock)
        second.start_run("session-1")
        second.flush()
        decisions += spend(second, 4, first=4)
        second.flush()

        assert found(decisions[4:])
        assert decisions == replay(second, "session-1")
        second.close()

    def test_runs_decide_alike_whatever_the_writer_does(self, database):
        """
        The decisions about a run are the same while the writer is busy and while it is idle.
        """
        decided = []
        for is_busy in (False, True, False):
            monitor = make_loaded_monitor(database)
            release = threading.Event()
            if is_busy:
                monitor._dispatch.run_on_writer(lambda gate=release: gate.wait(60))
            monitor.start_run()
            decided.append(spend(monitor, 8))
            release.set()
            monitor.close()

        assert found(decided[0])
        assert decided[0] == decided[1] == decided[2]


@pytest.fixture
def released(database, monkeypatch):
    """Until this is set, no store can be read, as on a disk that does not answer."""
    released = threading.Event()
    store_class = get_store_class(database)
    get_version = store_class.get_version

    def get_version_later(store):
        released.wait(30)
        return get_version(store)

    monkeypatch.setattr(store_class, "get_version", get_version_later)
    return released


class TestLateBaseline:
    def test_a_run_that_starts_first_says_so(self, database, released):
        """
        A run that starts before its baseline was read is watched without it and says so; stored is the event
        from which it counts, so that the run can be judged again.
        """
        monitor = DriftMonitor(AGENT, db_path=database, clock=Clock(), mode="guide")
        run_id = monitor.start_run()
        decisions = spend(monitor, 4)
        assert "baseline" in monitor.not_checked()
        assert "baseline" in monitor.status()["not_checked"]
        released.set()
        monitor.flush()
        decisions += spend(monitor, 4, first=4)
        monitor.flush()

        assert "baseline" not in monitor.not_checked()
        assert not found(decisions[:4])
        assert found(decisions[4:])
        assert 4 == monitor.store.get_pinned_baseline(AGENT, run_id).seq
        assert decisions == replay(monitor, run_id)
        monitor.close()
