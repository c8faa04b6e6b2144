"""What every test and every docstring example may use."""

import os
from importlib.util import find_spec

import pytest
from hypothesis import settings

from steadyhelm.adapters.frameworks import FRAMEWORKS
from steadyhelm.assembly import DriftMonitor
from steadyhelm.engine import live_runs
from steadyhelm.engine.dispatch import Dispatch
from steadyhelm.engine.health import Health
from steadyhelm.engine.monitor import Monitor
from steadyhelm.testing.traces import fired_at, said_at

# A busy machine must not decide whether a property holds.
settings.register_profile("steadyhelm", deadline=None)
settings.load_profile("steadyhelm")


pytest_plugins = ["postgres_server"]

PATIENCE_S = 30.0

# Frameworks and the browser have environments of their own: see `make test-adapters` and `make test-ui`.
collect_ignore = [
    folder
    for folder, variable in {
        "tests/frameworks": "STEADYHELM_FRAMEWORKS",
        "tests/spark": "STEADYHELM_SPARK",
        "tests/ui": "STEADYHELM_UI",
    }.items()
    if not os.environ.get(variable)
]
collect_ignore_glob = [
    f"src/steadyhelm/adapters/{folder}{framework.name}*.py"
    for framework in FRAMEWORKS
    for folder in ("", "clients/")
    if framework.describe_missing()
]
if find_spec("pyspark") is None:
    collect_ignore.append("src/steadyhelm/scale/run_processor.py")


def pytest_addoption(parser):
    """Let a run of the suite look whether every test finds what it needs, without all its cases."""
    parser.addoption("--first-cases", action="store_true", help="run every test with its first case only")


def pytest_collection_modifyitems(config, items):
    """Leave out the other cases of tests that have several, where that was asked for."""
    if not config.getoption("--first-cases"):
        return
    first = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
    left_out = [item for item in items if first[item.nodeid.partition("[")[0]] is not item]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if first[item.nodeid.partition("[")[0]] is item]


@pytest.fixture(autouse=True)
def _examples_know_the_pictures(doctest_namespace):
    """Docstring examples speak in pictures of traces."""
    doctest_namespace.update(fired_at=fired_at, said_at=said_at)


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    """No test reads or writes the settings or the database of whoever runs it."""
    monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path / "steadyhelm-home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _outside_of_runs():
    """Leave the run that an earlier test left open in this thread."""
    token = live_runs._stack.set(())
    yield
    live_runs._stack.reset(token)


@pytest.fixture(autouse=True)
def _loud(monkeypatch):
    """Raise the errors that we swallow in production, so that they fail a test."""
    monkeypatch.setattr(Health, "loud", True)


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Let a flush or a close without a time take as long as a busy machine needs: what is read is stored."""
    for method in (Dispatch.flush, Dispatch.close, Monitor.flush, Monitor.close, DriftMonitor.close):
        monkeypatch.setattr(method, "__defaults__", (PATIENCE_S,))


@pytest.fixture
def quiet(monkeypatch):
    """As in production: errors of ours are swallowed and counted."""
    monkeypatch.setattr(Health, "loud", False)
