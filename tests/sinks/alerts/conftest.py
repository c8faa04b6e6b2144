import pytest
from receiver import Receiver

from steadyhelm.findings import Severity
from steadyhelm.incidents import Incident
from steadyhelm.policy.alerting import Alert
from steadyhelm.stores.sqlite import SQLiteStore


@pytest.fixture
def receiver():
    """A web server on loopback."""
    server = Receiver()
    yield server
    server.close()


@pytest.fixture
def alert():
    """An ordinary alert."""
    incident = Incident(
        incident_id="i1",
        agent_id="researcher",
        run_id="r1",
        detector="action_loop",
        kind="loop",
        severity=Severity.HIGH,
        peak=0.8,
        message="search was called 5 times with the same result",
        suggested_action="Try something else.",
        opened_at=1700000000.0,
        opened_seq=3,
        last_at=1700000010.0,
        last_seq=9,
        findings=4,
        event_ids=("e1", "e2"),
    )
    return Alert(alert_id="a1", reason="opened", incident=incident, created_at=1700000010.0)


@pytest.fixture
def store(tmp_path):
    """A store in a file, with its outbox."""
    opened = SQLiteStore(tmp_path / "alerts.db")
    yield opened
    opened.close()
