"""Journals that killed processes left: commands store them, and what is deleted does not come back."""

import json
import subprocess
import sys

import pytest
from fault_tools import Account, adopt, locked, make_monitor, record_run, start_process, with_tools

from steadyhelm import SQLiteStore
from steadyhelm.journal.abandoned import describe_pending, list_pending

LEAVES_A_JOURNAL = """
import os, sqlite3, sys
from fault_tools import make_monitor, record_run
monitor = make_monitor(sys.argv[1], "doomed")
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
record_run(monitor, 5, "unwanted")
record_run(monitor, 5, "wanted")
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def database(tmp_path):
    """A database with a journal that a killed process left beside it."""
    database = tmp_path / "steadyhelm.db"
    make_monitor(database).close()
    with start_process(LEAVES_A_JOURNAL, database, env=with_tools()) as child:
        child.wait(30)
    assert 10 < sum(pending.records for pending in describe_pending(database))
    return database


class TestDeletion:
    def test_a_deleted_run_stays_deleted(self, database):
        """
        A run that is deleted is deleted from the journals of dead processes too.
        """
        store = SQLiteStore(database)
        store.delete_run("doomed", "unwanted")
        store.close()
        adopt(database)

        assert {"wanted": 5} == Account(database).runs

    def test_a_deleted_agent_stays_deleted(self, database):
        """
        An agent that is deleted is deleted from the journals of dead processes too.
        """
        store = SQLiteStore(database)
        store.delete_agent("doomed")
        store.close()
        adopt(database)

        assert {} == Account(database).runs

    def test_retention(self, database):
        """
        Journals that were last written before the time runs are kept are deleted.
        """
        store = SQLiteStore(database)
        store.prune(runs_before=1.0)
        assert list_pending(database)
        store.prune(runs_before=4e9)
        store.close()

        assert [] == list_pending(database)

    def test_a_live_journal_is_not_touched(self, database):
        """
        Deleting leaves the journals of live processes to them.
        """
        monitor = make_monitor(database, "alive")
        record_run(monitor, 5, "mine")
        monitor.store.delete_agent("doomed")
        monitor.store.prune(runs_before=1.0)
        assert monitor.flush(60).complete
        monitor.close()

        assert 5 == Account(database).runs["mine"]


def run_command(database, *arguments):
    command = [sys.executable, "-m", "steadyhelm", "--db", str(database), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


class TestCommands:
    def test_doctor_names_it(self, database):
        """
        The doctor names each journal that waits, with its records, and leaves it as it is.
        """
        answer = json.loads(run_command(database, "doctor", "--json").stdout)
        (check,) = [check for check in answer["checks"] if check["name"] == "journal"]
        (pending,) = describe_pending(database)

        assert "warning" == check["status"]
        assert f"{pending.records} records of an ended process not stored yet" in check["message"]

    def test_a_command_stores_it(self, database):
        """
        A command that reads the database stores first what waits beside it.
        """
        answer = run_command(database, "runs", "--json")
        runs = json.loads(answer.stdout)["runs"]

        assert {"wanted", "unwanted"} == {run["run_id"] for run in runs}
        assert [] == list_pending(database)

    def test_a_backup_says_what_it_lacks(self, database, tmp_path):
        """
        A backup that is made while a live process has records waiting says so.
        """
        monitor = make_monitor(database, "alive")
        with locked(database):
            record_run(monitor, 5, "mine")
            answer = run_command(database, "db", "backup", str(tmp_path / "copy.db"))
        monitor.close()

        assert 0 == answer.returncode
        assert "of agents at work wait in a journal" in answer.stderr
