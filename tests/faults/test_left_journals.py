"""Journals that killed processes left: commands store them, and what is deleted does not come back."""

import json
import subprocess
import sys

import pytest
from fault_tools import (
    Account,
    adopt,
    find_journals,
    locked,
    make_monitor,
    record_run,
    start_process,
    with_tools,
)

from steadyhelm.journal.abandoned import describe_pending, list_pending
from steadyhelm.stores import open_store

LEAVES_A_JOURNAL = """
import os, sys
from fault_tools import locked, make_monitor, record_run
monitor = make_monitor(sys.argv[1], "doomed")
other = locked(sys.argv[1])
other.__enter__()
record_run(monitor, 5, "unwanted")
record_run(monitor, 5, "wanted")
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def database(make_database):
    """A database with a journal that a killed process left beside it."""
    database = make_database()
    make_monitor(database).close()
    with start_process(LEAVES_A_JOURNAL, database, env=with_tools()) as child:
        child.wait(30)
    assert 10 < sum(pending.records for pending in describe_pending(find_journals(database)))
    return database


class TestDeletion:
    def test_a_deleted_run_stays_deleted(self, database):
        """
        A run that is deleted is deleted from the journals of dead processes too.
        """
        store = open_store(database)
        store.delete_run("doomed", "unwanted")
        store.close()
        adopt(database)

        assert {"wanted": 5} == Account(database).runs

    def test_a_deleted_agent_stays_deleted(self, database):
        """
        An agent that is deleted is deleted from the journals of dead processes too.
        """
        store = open_store(database)
        store.delete_agent("doomed")
        store.close()
        adopt(database)

        assert {} == Account(database).runs

    def test_retention(self, database):
        """
        Journals that were last written before the time runs are kept are deleted.
        """
        store = open_store(database)
        store.prune(runs_before=1.0)
        assert list_pending(find_journals(database))
        store.prune(runs_before=4e9)
        store.close()

        assert [] == list_pending(find_journals(database))

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
        (pending,) = describe_pending(find_journals(database))

        assert "warning" == check["status"]
        assert f"{pending.records} records of an ended process not stored yet" in check["message"]

    def test_a_command_stores_it(self, database):
        """
        A command that reads the database stores first what waits beside it.
        """
        answer = run_command(database, "runs", "--json")
        runs = json.loads(answer.stdout)["runs"]

        assert {"wanted", "unwanted"} == {run["run_id"] for run in runs}
        assert [] == list_pending(find_journals(database))

    @pytest.mark.sqlite
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
