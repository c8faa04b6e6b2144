"""A real server on loopback, over a store that the real monitor has written."""

import shutil
import time
from urllib.parse import urlsplit

import pytest
from served_store import record_clean, record_loop, run_server
from written_runs import NOON

from postgres_server import REQUIRED
from steadyhelm import Budget, DriftMonitor
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.stores import open_store


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Steadyhelm's own folder, away from the user's."""
    folder = tmp_path / "home"
    monkeypatch.setenv("STEADYHELM_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def template(request, tmp_path_factory):
    """A store with six clean runs and one that loops, written once."""
    if not REQUIRED:
        yield _record(tmp_path_factory.mktemp("recorded") / "runs.db")
        return
    with request.getfixturevalue("postgres_server").new_database() as url:
        yield _record(url)


@pytest.fixture(scope="session")
def recorded(request, template):
    """That store, for all tests that only read."""
    if not REQUIRED:
        yield template
        return
    with _copy(request, template) as url:
        yield url


def _record(where):
    monitor = DriftMonitor("worker", db_path=where, mode="guide", alert_webhook="", calibration_runs=5)
    for number in range(6):
        record_clean(monitor, f"rename field {number}")
    record_loop(monitor, budget=Budget(tokens=5000))
    monitor.close()
    return where


@pytest.fixture
def database(request, tmp_path, template):
    """A copy of that store."""
    if not REQUIRED:
        yield shutil.copy(template, tmp_path / "runs.db")
        return
    with _copy(request, template) as url:
        yield url


def _copy(request, template):
    """Copy a database of the server: nothing may be connected to it."""
    name = urlsplit(template).path.strip("/")
    return request.getfixturevalue("postgres_server").new_database(copy_of=name)


@pytest.fixture
def empty_database(request, tmp_path):
    """Where a store of the test's own is, with nothing in it."""
    if not REQUIRED:
        yield tmp_path / "runs.db"
        return
    with request.getfixturevalue("postgres_server").new_database() as url:
        yield url


@pytest.fixture
def store(empty_database):
    """That store."""
    opened = open_store(empty_database)
    yield opened
    opened.close()


@pytest.fixture
def other(store, empty_database):
    """Another process that writes to the same store."""
    opened = open_store(empty_database)
    yield opened
    opened.close()


@pytest.fixture
def views(store):
    """What is kept of its agents."""
    return AgentViews(store)


@pytest.fixture
def noon(monkeypatch):
    """The clock stands at noon, so that no test runs over midnight."""
    monkeypatch.setattr(time, "time", lambda: NOON)


@pytest.fixture
def running_server(database, home):
    with run_server(database, home) as found:
        yield found


@pytest.fixture
def client(running_server):
    """A client with the server's token."""
    with running_server.client(authorization=f"Bearer {running_server.token}") as found:
        yield found
