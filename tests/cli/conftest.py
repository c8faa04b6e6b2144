import os
import shutil

import pytest
from watched_agent import CommandLine, Listener, fill, incident_of

from steadyhelm.stores.sqlite import SQLiteStore


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A database the real monitor has written, made once."""
    folder = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patch:
        _stand_apart(patch, folder)
        fill(folder / "steadyhelm.db")
    return folder / "steadyhelm.db"


@pytest.fixture
def apart(tmp_path, monkeypatch):
    """A place without anybody's settings, on a wide screen."""
    _stand_apart(monkeypatch, tmp_path)
    return tmp_path


@pytest.fixture
def database(filled, apart):
    """A copy of that database for one test."""
    path = apart / "steadyhelm.db"
    shutil.copy(filled, path)
    return path


@pytest.fixture
def steadyhelm(database):
    """The commands, on that copy."""
    return CommandLine(database)


@pytest.fixture
def empty(apart):
    """The commands, on a database in which nothing was written yet."""
    SQLiteStore(apart / "empty.db").close()
    return CommandLine(apart / "empty.db")


@pytest.fixture
def store(database):
    """That copy, open for writing beside the commands."""
    opened = SQLiteStore(database)
    yield opened
    opened.close()


@pytest.fixture
def long(store):
    """The id of the long loop's incident."""
    return incident_of(store, "loop-long").incident_id


@pytest.fixture
def short(store):
    """The id of the short loop's incident."""
    return incident_of(store, "loop-short").incident_id


@pytest.fixture
def costly(store):
    """The id of the incident about a hard limit."""
    return incident_of(store, "costly", "resource_spike").incident_id


@pytest.fixture
def listener():
    """A web server on loopback."""
    server = Listener()
    yield server
    server.close()


def _stand_apart(patch, folder):
    for name in [name for name in os.environ if name.startswith("STEADYHELM_")]:
        patch.delenv(name)
    for name in ("STEADYHELM_DB", "STEADYHELM_DB_PATH", "STEADYHELM_CONFIG"):
        # A hook's commands set them for the processes they start: they go with the test.
        patch.setenv(name, "")
        patch.delenv(name)
    patch.setenv("STEADYHELM_HOME", str(folder))
    patch.setenv("COLUMNS", "220")
    patch.setenv("NO_COLOR", "1")
    patch.chdir(folder)
