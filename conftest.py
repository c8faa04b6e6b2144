"""What every test and every docstring example may use."""

import json
import os
from importlib.util import find_spec
from pathlib import Path

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
    """Let two runs of the suite share the tests: what passed in the first is left out of the second.

    Give a file with `=`, as in `--leave-out=passed.json`: pytest takes a word of its own for a path of tests.
    """
    parser.addoption("--write-passed", metavar="FILE", type=Path, help="write the tests that passed to FILE")
    parser.addoption("--leave-out", metavar="FILE", type=Path, help="leave out the tests that FILE names")


def pytest_configure(config):
    """Watch the results where they are gathered, not in each process that runs tests."""
    path = config.getoption("--write-passed")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(PassedTests(path))


class PassedTests:
    """Writes the names of the tests that passed, set-up and clean-up included."""

    def __init__(self, path):
        self._path = path.absolute()
        self._passed = set()

    def pytest_runtest_logreport(self, report):
        """Keep the name of a test that passed, until its clean-up fails."""
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif report.failed:
            self._passed.discard(report.nodeid)

    def pytest_sessionfinish(self):
        """Write the names, as a list of JSON: an id may hold any character."""
        self._path.write_text(json.dumps(sorted(self._passed)))


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that a file names: they passed elsewhere."""
    path = config.getoption("--leave-out")
    if path is None:
        return
    passed = set(json.loads((config.invocation_params.dir / path).read_text()))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


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
