import pytest

from steadyhelm import DriftMonitor
from steadyhelm.incidents import Incident
from steadyhelm.sink import Sink


class Incidents(Sink):
    """Keeps every version of an incident that reaches the sinks."""

    name = "incidents"

    def __init__(self):
        self.versions = []

    def write(self, batch):
        self.versions += [it for it in batch if isinstance(it, Incident)]


@pytest.fixture
def sink():
    return Incidents()


@pytest.fixture
def monitor(tmp_path, sink):
    monitor = DriftMonitor(
        "researcher", db_path=tmp_path / "agents.db", sinks=[sink], absolute_token_limit=50_000
    )
    yield monitor
    monitor.close()


def spend(monitor, steps, *, first=0, at=1_000.0, step_s=0.01):
    """Different steps of 1,000 tokens each; the limit is 50,000."""
    for i in range(first, first + steps):
        monitor.record_event(
            "tool_call", f"step_{i}", token_count=1_000, input_data={"page": i}, timestamp=at + i * step_s
        )


class TestALimitThatStaysPassed:
    def test_its_incident_is_not_stored_at_every_event(self, monitor, sink):
        """
        While nothing but its counts changes, no version is stored; a flush stores the latest.

        At 52 and 54 the outcome of a response is decided.
        """
        monitor.start_run()
        spend(monitor, 70)
        monitor.flush()

        assert [50, 52, 54, 62, 69] == [it.last_seq for it in sink.versions]

    def test_its_incident_is_stored_every_ten_seconds(self, monitor, sink):
        """
        A version is never much older than ten seconds of the run's own time.
        """
        monitor.start_run()
        spend(monitor, 58, step_s=5.0)
        monitor.flush()

        assert [50, 52, 54, 56, 57] == [it.last_seq for it in sink.versions]

    def test_its_end_is_stored_with_all_counts(self, monitor, sink):
        """
        At the end of the run the incident is closed with everything that was found.
        """
        monitor.start_run()
        spend(monitor, 60)
        monitor.end_run()
        monitor.flush()

        last = sink.versions[-1]
        assert ("closed", 59, 10) == (last.state, last.last_seq, last.findings)

    def test_a_suspended_run_stores_the_latest_version(self, monitor, sink):
        """
        A run that is suspended leaves its incident as it was then.
        """
        run_id = monitor.start_run()
        spend(monitor, 60)
        monitor.suspend(run_id)
        monitor.flush()

        assert [54, 59] == [it.last_seq for it in sink.versions[-2:]]
