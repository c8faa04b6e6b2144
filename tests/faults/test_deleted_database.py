"""A database that is deleted, replaced or damaged under a live monitor."""

import shutil

import pytest
from fault_tools import Account, make_monitor, record, record_run, wait_until

from steadyhelm import SQLiteStore


@pytest.fixture
def database(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "steadyhelm.db"


def delete_database(database):
    for path in database.parent.glob(database.name + "*"):
        if not path.name.endswith(".pending"):
            path.unlink()


class TestDeletedDatabase:
    @pytest.mark.parametrize("whole", [False, True], ids=["the file alone", "with its log"])
    def test_a_deleted_file(self, database, whole):
        """
        After the file is deleted a new one is created, what follows is stored there, and that is counted.
        """
        monitor = make_monitor(database)
        record_run(monitor, 10, "before")
        monitor.flush()
        delete_database(database) if whole else database.unlink()
        record_run(monitor, 10, "after")
        result = monitor.flush(60)
        monitor.close()

        account = Account(database)
        assert (True, {"after": 10}) == (result.complete, account.runs)
        assert 1 == account.losses["database was deleted or replaced"]
        assert [] == account.faults

    def test_a_deleted_folder(self, database):
        """
        After the folder is deleted it is created again, with the journal in it.
        """
        monitor = make_monitor(database)
        record_run(monitor, 10, "before")
        monitor.flush()
        shutil.rmtree(database.parent)
        record_run(monitor, 10, "after")
        monitor.flush(60)
        wait_until(lambda: list(database.parent.glob("*.pending")))
        record_run(monitor, 10, "later")
        monitor.close()

        account = Account(database)
        assert ({"after": 10, "later": 10}, []) == (account.runs, account.faults)

    def test_a_replaced_file(self, database, tmp_path):
        """
        When another database is put in its place, what follows is stored in that one.
        """
        other = make_monitor(tmp_path / "other.db")
        record_run(other, 5, "other")
        other.close()
        monitor = make_monitor(database)
        record_run(monitor, 10, "before")
        monitor.flush()
        delete_database(database)
        shutil.copy(tmp_path / "other.db", database)
        record_run(monitor, 10, "after")
        monitor.flush(60)
        monitor.close()

        account = Account(database)
        assert ({"other": 5, "after": 10}, []) == (account.runs, account.faults)

    def test_a_live_run_goes_on(self, database):
        """
        A run that was live when the database was deleted goes on in the new one under the same id.
        """
        monitor = make_monitor(database)
        with monitor.run(run_id="run"):
            record(monitor, 10)
            monitor.flush()
            delete_database(database)
            record(monitor, 10)
        monitor.close()

        account = Account(database)
        assert {"run": 10} == account.runs
        assert [] == account.faults

    def test_two_monitors_notice(self, database):
        """
        Several monitors that lose their database share the new one.
        """
        monitors = [make_monitor(database, f"agent-{n}") for n in range(3)]
        for monitor in monitors:
            record_run(monitor, 5, "before")
            monitor.flush()
        delete_database(database)
        for monitor in monitors:
            record_run(monitor, 5, f"after-{monitor.agent_id}")
        for monitor in monitors:
            assert monitor.flush(60).complete
            monitor.close()

        account = Account(database)
        assert {f"after-agent-{n}": 5 for n in range(3)} == account.runs
        assert [] == account.faults

    def test_readers_follow(self, database):
        """
        What is read after the database was deleted comes from the new one.
        """
        monitor = make_monitor(database)
        record_run(monitor, 5, "before")
        monitor.flush()
        assert ["before"] == monitor.store.get_run_ids("agent")
        delete_database(database)
        record_run(monitor, 5, "after")
        monitor.flush(60)

        assert ["after"] == monitor.store.get_run_ids("agent")
        monitor.close()

    def test_a_damaged_file(self, database):
        """
        While the file is damaged everything waits; once it is sound again everything is stored.
        """
        monitor = make_monitor(database)
        record_run(monitor, 5, "before")
        monitor.close()
        sound = database.read_bytes()
        monitor = make_monitor(database)
        with monitor.run(run_id="second"):
            delete_database(database)
            database.write_bytes(b"this is no database" * 100)
            record(monitor, 3000)
        assert not monitor.flush(0.5).complete
        database.unlink()
        database.write_bytes(sound)
        assert 0 == monitor.flush(60).remaining
        monitor.close()

        account = Account(database)
        assert {"before": 5, "second": 3000} == account.runs
        assert (0, []) == (account.lost, account.faults)

    def test_only_for_reading_for_a_while(self, database):
        """
        A store that may not be written for a while loses nothing.
        """
        monitor = make_monitor(database)
        monitor.start_run("run")
        monitor.flush()
        writer = monitor.store._connections._writer
        writer.execute("PRAGMA query_only = 1")
        record(monitor, 3000)
        monitor.end_run()
        assert not monitor.flush(0.5).complete
        writer.execute("PRAGMA query_only = 0")
        assert monitor.flush(60).complete
        monitor.close()

        assert {"run": 3000} == Account(database).runs


def test_a_store_alone_notices_too(tmp_path):
    """
    A store that is used without a monitor creates a deleted file again as well.
    """
    database = tmp_path / "steadyhelm.db"
    store = SQLiteStore(database)
    store.reset_baseline("agent")
    delete_database(database)
    store.reset_baseline("agent")

    assert 1 == store.replacements
    assert database.exists()
    store.close()
