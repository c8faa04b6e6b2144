"""Tools for tests that break things: processes, and the account of what was recorded, stored and lost."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from steadyhelm import DriftMonitor
from steadyhelm.engine import registry
from steadyhelm.journal.abandoned import list_pending
from steadyhelm.stores import open_store
from steadyhelm.stores.locations import DatabaseLocation

OFF = {name: {"enabled": False} for name in registry.list_names(registry.DETECTORS)}

LOST = (
    "journal full",
    "not written before exit",
    "queue full",
    "record in the journal damaged",
    "recorded after close",
    "sink store failed",
)
"""The reasons, or their beginnings, under which records are counted as lost."""

HOLDS_LOCK = """
import sys
from fault_tools import locked
with locked(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""
"""The source of a process that keeps a database locked until its standard input ends."""

_READ_ACCOUNT = """
import json, sys
from pathlib import Path
from steadyhelm.stores import open_store
store = open_store(sys.argv[1], read_only=True)
rows = store.list_runs(limit=100_000)
runs = {run.run_id: len(store.get_run_traces(run.agent_id, run.run_id)) for run in rows}
print(json.dumps({"runs": runs, "losses": store.get_losses(), "faults": store.check()}))
"""


def start_process(source, *arguments, **options):
    """Start a Python process that runs this text."""
    command = [sys.executable, "-c", source, *map(str, arguments)]
    options = {"env": with_tools(), **options}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, **options)


def run_process(source, *arguments):
    """Run a Python process to its end and return what it printed."""
    with start_process(source, *arguments) as child:
        said, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    return said.decode()


class Account:
    """What a database holds, read by a process of its own."""

    def __init__(self, database):
        read = json.loads(run_process(_READ_ACCOUNT, database))
        self.runs = read["runs"]
        self.losses = read["losses"]
        self.faults = read["faults"]

    @property
    def stored(self):
        """Events that are stored."""
        return sum(self.runs.values())

    @property
    def lost(self):
        """Records that are counted as lost."""
        return sum(count for reason, count in self.losses.items() if reason.startswith(LOST))


def make_monitor(database, agent="agent", **options):
    """Return a monitor without detectors, so that records are events, starts and ends of runs alone."""
    return DriftMonitor(agent, db_path=database, **{"detectors": OFF, **options})


def record(monitor, count, run_id=None):
    """Record that many events."""
    for n in range(count):
        monitor.record_event("tool_call", "search", run_id=run_id, input_data=n, output_data={"n": n})


def record_run(monitor, count, run_id):
    """Record a run of that many events, and end it."""
    with monitor.run(run_id=run_id):
        record(monitor, count)


def adopt(database):
    """Let another monitor store what dead ones left beside the database."""
    left = set(list_pending(find_journals(database)))
    monitor = make_monitor(database, "adopter")
    wait_until(lambda: left.isdisjoint(list_pending(find_journals(database))))
    monitor.close(60)


def find_journals(database):
    """Return the path beside which records wait for a database."""
    return DatabaseLocation(str(database)).journal_path


def wait_until(is_true, seconds=60):
    """Wait for something that must happen soon."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def get_store_class(database):
    """Return the class of the store that holds this database, to change what it does."""
    store = open_store(database)
    store.close()
    return type(store)


@contextmanager
def locked(database):
    """Hold the database locked, as another process that writes does."""
    if DatabaseLocation(str(database)).is_server:
        with locked_server(database):
            yield
        return
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def locked_server(url):
    """Hold the tables locked that every batch writes to."""
    import psycopg

    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE steadyhelm.runs, steadyhelm.agents IN ACCESS EXCLUSIVE MODE")
        yield
        other.rollback()


@contextmanager
def full_disk(monitor):
    """Let the database of a monitor take no further rows, as on a full disk."""
    if monitor.store.location.is_server:
        with refusing_server(monitor.store.location.where, "disk_full"):
            yield
        return
    writer = monitor.store._connections._writer
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages}")
    yield
    writer.execute("PRAGMA max_page_count = 1000000")


@contextmanager
def refusing_server(url, condition):
    """Let the server raise this error, by the name of its condition, for every event."""
    import psycopg

    with psycopg.connect(url, autocommit=True, options="-c search_path=steadyhelm") as other:
        other.execute(
            f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE {condition}; END $$"
        )
        other.execute(
            "CREATE TRIGGER refusing BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        yield
        # The writer may hold the table that the trigger is on, and wait for what this waits for.
        for _ in range(10):
            with suppress(psycopg.errors.DeadlockDetected):
                other.execute("DROP FUNCTION IF EXISTS refuse CASCADE")
                break


def build_failing_calls(folder):
    """Return the library that lets calls of the system fail; skip the test without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no compiler for the library that lets calls of the system fail")
    source, built = Path(__file__).with_name("failing_calls.c"), folder / "failing_calls.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True)
    return built


def with_tools():
    """Return an environment in which a process of ours finds these tools."""
    folders = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
