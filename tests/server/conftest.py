"""A real server on loopback, over a store that the real monitor has written."""

import shutil

import pytest
from served_store import record_clean, record_loop, run_server

from steadyhelm import Budget, DriftMonitor


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Steadyhelm's own folder, away from the user's."""
    folder = tmp_path / "home"
    monkeypatch.setenv("STEADYHELM_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """A store with six clean runs and one that loops, written once."""
    path = tmp_path_factory.mktemp("recorded") / "runs.db"
    monitor = DriftMonitor("worker", db_path=path, mode="guide", alert_webhook="", calibration_runs=5)
    for number in range(6):
        record_clean(monitor, f"rename field {number}")
    record_loop(monitor, budget=Budget(tokens=5000))
    monitor.close()
    return path


@pytest.fixture
def database(tmp_path, recorded):
    """A copy of that store."""
    return shutil.copy(recorded, tmp_path / "runs.db")


@pytest.fixture
def running_server(database, home):
    with run_server(database, home) as found:
        yield found


@pytest.fixture
def client(running_server):
    """A client with the server's token."""
    with running_server.client(authorization=f"Bearer {running_server.token}") as found:
        yield found
