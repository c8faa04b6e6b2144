import pytest

from steadyhelm.stores.sqlite import SQLiteStore


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def store(path):
    opened = SQLiteStore(path)
    yield opened
    opened.close()


@pytest.fixture
def other(store, path):
    """A second store on the same file, as another process would have it."""
    opened = SQLiteStore(path)
    yield opened
    opened.close()
