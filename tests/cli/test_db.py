import sqlite3
import stat
import time

import pytest
from watched_agent import CommandLine
from whole_program import process

from steadyhelm.assembly import DriftMonitor
from steadyhelm.stores.schema import MIGRATIONS
from steadyhelm.stores.sqlite import SQLiteStore


class TestInfo:
    def test_numbers(self, steadyhelm, database):
        """
        Place, schema, rows and losses are one document.
        """
        [document] = steadyhelm("db info --json").documents

        assert str(database) == document["path"]
        assert (8, 32, 3) == tuple(document["rows"][name] for name in ("runs", "events", "incidents"))
        assert {} == document["losses"]

    @pytest.mark.parametrize("line", [["--db", "", "db", "info"], ["--db", "", "alerts", "ack", "x"]])
    def test_an_empty_name(self, apart, line):
        """
        An empty name, of a variable that was not set, does not mean the database of the settings.
        """
        answer = process(*line)

        assert (2, "") == (answer.status, answer.out)
        assert "--db must be the path of a file, or begin with postgresql://, got ''." in answer.err

    def test_for_people(self, steadyhelm, database):
        """
        The same is shown as text.
        """
        lines = [line.split() for line in steadyhelm("db info").out.splitlines()]

        assert ["path", str(database)] in lines
        assert ["runs", "8"] in lines
        assert ["counted", "by", "run", "events,", "payloads,", "findings,", "incidents"] in lines

    def test_path(self, apart):
        """
        Where the database would be can be asked before it exists.
        """
        assert f"{apart / 'later.db'}\n" == CommandLine(apart / "later.db")("db path").out


class TestCheck:
    def test_sound(self, steadyhelm):
        """
        A database without faults says so, with status 0.
        """
        assert (0, "", "The database is sound.\n") == tuple(steadyhelm("db check"))

    def test_sums_that_do_not_add_up(self, steadyhelm, database):
        """
        Faults are listed on standard output, with status 1 and what to do.
        """
        with sqlite3.connect(database) as connection:
            connection.execute("UPDATE runs SET events = events + 1 WHERE run_id = 'costly'")
        connection.close()

        answer = steadyhelm("db check")

        assert 1 == answer.status
        assert "the sums of run 'costly' are not those of its events (2 said, 1 there)\n" == answer.out
        assert "Make a copy" in answer.err
        assert [{"sound": False, "faults": answer.out.splitlines()}] == steadyhelm(
            "db check --json"
        ).documents

    def test_not_a_database(self, apart):
        """
        A file that is no database ends with status 1.
        """
        (apart / "noise.db").write_bytes(b"noise" * 1000)

        assert 1 == CommandLine(apart / "noise.db")("db check").status


class TestBackup:
    def test_copy(self, steadyhelm, apart):
        """
        The copy is a whole database that only its owner may read.
        """
        steadyhelm("db backup copy.db")

        assert 8 == len(CommandLine(apart / "copy.db")("runs --json").document["runs"])
        assert 0o600 == stat.S_IMODE((apart / "copy.db").stat().st_mode)

    def test_never_overwrites(self, steadyhelm, apart):
        """
        A file that exists is left alone.
        """
        (apart / "copy.db").write_text("mine")

        assert 1 == steadyhelm("db backup copy.db").status
        assert "mine" == (apart / "copy.db").read_text()


class TestPrune:
    def test_asks(self, steadyhelm):
        """
        Without --yes it says what it would remove, by the settings, and removes nothing.
        """
        answer = steadyhelm("db prune")

        assert 2 == answer.status
        assert "arguments and results older than 30 days and runs older than 180 days" in answer.err

    def test_removes_what_is_old(self, steadyhelm, store, database):
        """
        Runs older than the days given go, newer ones stay.
        """
        monitor = DriftMonitor("ancient", db_path=database)
        with monitor.run(run_id="first"):
            monitor.record_event("tool_call", "x", timestamp=time.time() - 10)
        monitor.close()
        with store.transaction(), store._connections.transaction() as connection:
            connection.execute("UPDATE runs SET started_at = 1, last_at = 2 WHERE run_id = 'first'")

        answer = steadyhelm("db prune --payload-days 0 --run-days 1 --yes")

        assert "Removed 0 payloads and 1 run with 1 step.\n" == answer.err
        assert 8 == len(store.list_runs())

    def test_kept_for_ever(self, steadyhelm):
        """
        Two noughts keep everything: there is nothing to do.
        """
        assert 0 == steadyhelm("db prune --payload-days 0 --run-days 0").status

    def test_negative_days(self, steadyhelm):
        """
        A negative number of days is a usage error.
        """
        assert 2 == steadyhelm("db prune --run-days -1 --yes").status


class TestDelete:
    def test_run(self, steadyhelm, store):
        """
        A run goes with its steps and incidents, once somebody said yes.
        """
        assert 2 == steadyhelm("db delete-run loop-l").status
        assert 8 == len(store.list_runs())

        answer = steadyhelm("db delete-run loop-l --yes")

        assert "Deleted run loop-long of researcher: 5 steps.\n" == answer.err
        assert 7 == len(store.list_runs())
        assert [] == store.list_incidents("researcher", "loop-long")

    def test_unknown_run(self, steadyhelm):
        """
        A run that is not there ends with status 1.
        """
        assert 1 == steadyhelm("db delete-run zzz --yes").status

    def test_agent(self, steadyhelm, store):
        """
        An agent goes with everything, once somebody said yes.
        """
        assert 2 == steadyhelm("db delete-agent researcher").status

        answer = steadyhelm("db delete-agent researcher --yes")

        assert "Deleted agent researcher: 8 runs.\n" == answer.err
        assert [] == store.list_agents()

    def test_an_agent_needs_its_whole_name(self, steadyhelm, store):
        """
        A beginning of a name is enough to look, not to delete.
        """
        answer = steadyhelm("db delete-agent rese --yes")

        assert 1 == answer.status
        assert "its whole name is needed: researcher" in answer.err
        assert 8 == len(store.list_runs())


class TestMigrate:
    def test_up_to_date(self, steadyhelm, database):
        """
        A current database is left as it is.
        """
        assert f"{database} is up to date ({MIGRATIONS[-1].name}).\n" == steadyhelm("db migrate").err

    def test_new_file(self, apart):
        """
        An empty file becomes a database, and the steps taken are named.
        """
        (apart / "empty.db").touch()

        answer = CommandLine(apart / "empty.db")("db migrate")

        assert f"Applied {', '.join(it.name for it in MIGRATIONS)} to {apart / 'empty.db'}.\n" == answer.err
        SQLiteStore(apart / "empty.db", read_only=True).close()

    def test_newer(self, steadyhelm, database):
        """
        A database of a newer Steadyhelm is left untouched, and says so.
        """
        with sqlite3.connect(database) as connection:
            connection.execute("INSERT INTO migrations VALUES ('9999-future', 0)")
        connection.close()

        answer = steadyhelm("db migrate")

        assert 1 == answer.status
        assert "written by a newer Steadyhelm" in answer.err
