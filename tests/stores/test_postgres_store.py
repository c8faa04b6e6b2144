"""What only a PostgreSQL store can do wrong: lost servers, odd text, partitions, the numbers of changes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from postgres_server import run_server
from steadyhelm.errors import NewerStoreError, SettingsError, StoreError
from steadyhelm.stores import schema
from steadyhelm.stores.database import read_bounds, read_changes
from steadyhelm.stores.postgres import PostgresStore
from steadyhelm.stores.postgres.connections import PostgresConnections
from steadyhelm.stores.postgres.opening import prepare
from steadyhelm.stores.postgres.partitions import list_buckets, read_bucket
from steadyhelm.stores.postgres.schema import BUCKET_BITS, MIGRATIONS, PARTITIONED
from steadyhelm.testing.store_records import AT, a_finding, a_summary, an_event, an_incident

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture
def store(postgres_url):
    opened = PostgresStore(postgres_url)
    yield opened
    opened.close()


@pytest.fixture
def other(store, postgres_url):
    """A second store on the same database, as another process would have it; it does not wait long."""
    opened = PostgresStore(postgres_url, timeout_s=0.1)
    yield opened
    opened.close()


@pytest.fixture
def raw(postgres_url):
    """A connection of somebody else."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SET search_path = steadyhelm")
        yield connection


class TestText:
    @pytest.mark.parametrize(
        "text", ["nul \0 inside", "\0", "\ufdd0", "\ufdd00", "\ufdd0\0\ufdd0", "back\\slash\n\t'", "%s %% ?"]
    )
    def test_it_comes_back(self, store, text):
        """
        Whatever is in a text comes back, NUL and the character it is written with included.
        """
        store.write([an_event(0, run_id=text, agent_id=text, action_name=text, error=text, call_id=text)])
        (event,) = store.get_run_traces(text, text)

        assert (text, text, text) == (event.action_name, event.error, event.call_id)
        assert text == store.find_run(text[:1], agent_id=text).run_id

    def test_the_order_is_that_of_code_points(self, store):
        """
        Lists by name have one order, whatever the collation of the database: B, a, ä.
        """
        store.write([an_event(n, action_name=name) for n, name in enumerate(["a", "ä", "B"])])

        assert ["B", "a", "ä"] == [tool.action_name for tool in store.list_run_tools("agent", "run")]

    def test_what_is_no_number_is_replaced(self, store):
        """
        A number that fits no column does not lose the batch it is in.
        """
        store.write([an_event(0, token_count=10**30, duration_ms=float("nan")), an_event(1)])

        assert 2 == store.find_run("run").events


class TestConnections:
    def test_a_lost_connection_is_replaced(self, store, raw):
        """
        Connections that the server ended are opened again: neither a reader nor a writer notices.
        """
        store.write([an_event(0)])
        store.list_runs()
        raw.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid != pg_backend_pid()"
        )
        store.write([an_event(1)])

        assert 2 == store.find_run("run").events

    def test_a_connection_lost_inside_is_tried_again(self, store, raw):
        """
        A batch whose connection is lost half way is written again, as a whole and once.
        """
        attempts = []

        def work():
            attempts.append(1)
            store.write([an_event(0)])
            if len(attempts) == 1:
                raw.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid != pg_backend_pid()"
                )
            store.write([an_event(1)])

        store.run_transaction(work)

        assert ([1, 1], 2) == (attempts, store.find_run("run").events)
        assert [] == store.check()

    def test_agents_are_locked(self, store, other):
        """
        Until a transaction ends, no other can lock the agents it locked; other agents it can.
        """
        with store.transaction():
            store.lock_agents({"b", "a"})
            with other.transaction():
                other.lock_agents({"c"})
            with pytest.raises(StoreError, match="another process"), other.transaction():
                other.lock_agents({"a"})
        with other.transaction():
            other.lock_agents({"a"})

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
    def test_a_fork(self, store):
        """
        Parent and child go on with connections of their own.
        """
        store.write([an_event(0)])
        store.list_runs()
        child = os.fork()
        if child == 0:
            try:
                store.write([an_event(1)])
                seen = store.find_run("run").events
            finally:
                os._exit(0 if seen == 2 else 1)
        _, status = os.waitpid(child, 0)
        store.write([an_event(2)])

        assert (0, 3) == (status, store.find_run("run").events)

    def test_reading_only(self, store, postgres_url):
        """
        A store that may only read raises for every write, also below its own checks.
        """
        store.write([an_event(0)])
        reader = PostgresStore(postgres_url, read_only=True)
        with pytest.raises(StoreError, match="reading only"):
            reader.write([an_event(1)])
        with pytest.raises(StoreError, match="only be read"), reader.reading() as connection:
            connection.execute("DELETE FROM runs")
        reader.close()
        with pytest.raises(StoreError, match="closed"):
            reader.list_runs()


@pytest.fixture(scope="module")
def own_server(postgres_server):
    """A server that a test may end, and that loses nothing that it acknowledged."""
    with run_server(settings={"synchronous_commit": "on"}) as server:
        yield server


class TestLostServer:
    def test_a_server_that_comes_back(self, own_server):
        """
        While the server is away every call says so; when it is back, writing and reading go on.
        """
        with own_server.new_database() as url:
            store = PostgresStore(url, timeout_s=0.1)
            store.write([an_event(0)])
            own_server.stop()
            with pytest.raises(StoreError, match="cannot be reached"):
                store.list_runs()
            with pytest.raises(StoreError, match="cannot be reached"):
                store.write([an_event(1)])
            own_server.launch()
            store.write([an_event(1)])

            assert 2 == store.find_run("run").events
            store.close()


class TestMessages:
    def test_no_password_is_shown(self):
        """
        Neither an error nor the description of a store shows the password.
        """
        with pytest.raises(StoreError, match="cannot be reached") as caught:
            PostgresStore("postgresql://me:s3cret%21@127.0.0.1:9/runs?sslpassword=also", timeout_s=0.1)

        shown = f"{caught.value} {caught.value.__cause__}"
        assert "postgresql://me@127.0.0.1:9/runs" in shown
        assert not re.search("s3cret|also", shown)

    def test_what_is_wrong(self, postgres_server):
        """
        The message says what is wrong and what to do: no such database, not an address.
        """
        with pytest.raises(StoreError, match="does not exist on that server"):
            PostgresStore(postgres_server.get_url("nowhere"))
        with pytest.raises(SettingsError, match="begins with postgresql://"):
            PostgresStore("mysql://db")

    def test_an_empty_database_is_not_read(self, postgres_url):
        """
        A store that may only read creates nothing: it says that there is nothing yet.
        """
        with pytest.raises(StoreError, match="nothing has been written"):
            PostgresStore(postgres_url, read_only=True)

    def test_a_newer_schema_is_left_alone(self, store, raw, postgres_url):
        """
        Tables that a newer version made are not touched.
        """
        raw.execute("INSERT INTO migrations (name, applied_at) VALUES ('9999-later', 0)")
        with pytest.raises(NewerStoreError, match="9999-later"):
            PostgresStore(postgres_url)

    def test_the_extra_is_named(self):
        """
        Without the driver the message says which extra has it, and nothing else of Steadyhelm needs it.
        """
        script = (
            "import sys; sys.modules['psycopg'] = None\n"
            "import steadyhelm, steadyhelm.stores.sqlite\n"
            "try:\n    import steadyhelm.stores.postgres\n"
            "except ImportError as exc:\n    print(exc)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

        assert "pip install 'steadyhelm[postgres]'" in done.stdout


class TestChanges:
    def test_none_is_skipped(self, store, other):
        """
        A change is not read while a transaction that may come before it is open.

            store  |-- agent a ------------------ end |
            other        | agent b, end |
            read   nothing              nothing        a, b
        """
        with store.reading() as connection:
            _, seen = read_bounds(connection)
        with store.transaction():
            store.write([an_event(0, agent_id="a")])
            other.write([an_event(0, agent_id="b")])
            with other.reading() as connection:
                assert [] == read_changes(connection, seen, 10)
        with other.reading() as connection:
            changes = read_changes(connection, seen, 10)
            names = dict(connection.execute("SELECT id, agent_id FROM agents").fetchall())

        assert ["a", "b"] == [names[change.agent] for change in changes]
        assert sorted(change.id for change in changes) == [change.id for change in changes]

    def test_old_ones_are_forgotten(self, store, raw):
        """
        Changes are kept for an hour. A reader that is behind is told so; one that is not goes on.
        """
        store.write([an_event(0)])
        store.write([an_event(1)])
        with store.reading() as connection:
            first, latest = read_bounds(connection)
        raw.execute("UPDATE changes SET at = 1")
        with store.transaction(), store._connections.transaction() as connection:
            connection.dialect.delete_changes(connection, 2.0)
        store.write([an_event(2)])
        with store.reading() as connection:
            assert read_changes(connection, first - 1, 10) is None
            assert 1 == len(read_changes(connection, latest, 10))

    def test_a_large_transaction(self, store):
        """
        A transaction that changes more runs than can be numbered says at its end that everything changed.
        """
        store.write([an_event(0, run_id=f"run-{n}") for n in range(4200)])
        with store.reading() as connection:
            changes = read_changes(connection, 0, 10_000)

        assert (4096, "settings") == (len(changes), changes[-1].what)


class TestPartitions:
    def move_back(self, store, raw, weeks, *run_ids):
        """Let these runs be inserted some weeks ago."""
        with store.reading() as connection:
            bucket = read_bucket(connection) - weeks
        for table in PARTITIONED:
            raw.execute(
                f"CREATE TABLE IF NOT EXISTS {table}_{bucket} PARTITION OF {table}"
                f" FOR VALUES FROM ({bucket << BUCKET_BITS}) TO ({bucket + 1 << BUCKET_BITS})"
            )
        for run_id in run_ids:
            (row_id,) = raw.execute("SELECT id FROM runs WHERE run_id = %s", (run_id,)).fetchone()
            earlier = row_id - (weeks << BUCKET_BITS)
            raw.execute("ALTER TABLE incidents DROP CONSTRAINT IF EXISTS incidents_run_fkey")
            raw.execute("UPDATE runs SET id = %s WHERE id = %s", (earlier, row_id))
            for table in (*PARTITIONED, "run_tools", "incidents", "run_marks"):
                raw.execute(f"UPDATE {table} SET run = %s WHERE run = %s", (earlier, row_id))
        store._row_ids.clear()
        return bucket

    def test_they_are_made_ahead(self, store):
        """
        Partitions of this week and the next four are there; a run is in that of its week.
        """
        store.write([an_event(0)])
        with store.reading() as connection:
            now = read_bucket(connection)
            (where,) = connection.execute("SELECT tableoid::regclass::text FROM events").fetchone()

            assert {*range(now, now + 5)} == list_buckets(connection, "events")
        assert f"events_{now}" == where

    def test_a_week_is_dropped(self, store, raw):
        """
        When every run of a week is old, its partitions are dropped with all that belongs to them.
        """
        for run_id in ("old-1", "old-2"):
            store.write([an_event(0, run_id=run_id), an_event(1, run_id=run_id), a_finding(1, run_id=run_id)])
            store.write([an_incident(run_id, run_id=run_id), a_summary(run_id)])
        store.write([an_event(0, run_id="new", timestamp=AT + 5000)])
        bucket = self.move_back(store, raw, 3, "old-1", "old-2")
        pruned = store.prune(runs_before=AT + 1000)

        assert (2, 4) == (pruned.runs, pruned.events)
        assert ["new"] == store.get_run_ids("agent")
        assert ([], []) == (store.list_incidents(), store.check())
        with store.reading() as connection:
            assert all(bucket not in list_buckets(connection, table) for table in PARTITIONED)
        assert 1 == store.list_agents()[0].runs

    def test_a_week_with_a_young_run_stays(self, store, raw):
        """
        Of a week in which one run goes on, only the old runs are deleted.
        """
        store.write([an_event(0, run_id="old"), an_event(0, run_id="young", timestamp=AT + 5000)])
        bucket = self.move_back(store, raw, 3, "old", "young")

        assert 1 == store.prune(runs_before=AT + 1000).runs
        assert (["young"], []) == (store.get_run_ids("agent"), store.check())
        with store.reading() as connection:
            assert bucket in list_buckets(connection, "events")

    def test_payloads_are_dropped_first(self, store, raw):
        """
        Payloads of an old week are dropped at once, and its events stay.
        """
        store.write([an_event(0, run_id="old"), an_event(1, run_id="old")])
        self.move_back(store, raw, 3, "old")
        pruned = store.prune(payloads_before=AT + 1000)

        assert (2, 0) == (pruned.payloads, pruned.runs)
        assert [None, None] == [event.output_data for event in store.get_run_traces("agent", "old")]
        assert [] == store.check()

    def test_one_process_deletes(self, store, raw):
        """
        While one process deletes what is old, others do nothing.
        """
        store.write([an_event(0)])
        raw.execute("SELECT pg_advisory_lock(%s)", (0x53544461,))
        assert 0 == store.prune(runs_before=AT + 1000).runs
        raw.execute("SELECT pg_advisory_unlock_all()")
        assert 1 == store.prune(runs_before=AT + 1000).runs


def read_schema(raw):
    """Every table with its columns, and every index."""
    columns = raw.execute(
        "SELECT c.table_name, c.column_name, c.data_type, c.collation_name, c.is_nullable, c.column_default"
        " FROM information_schema.columns c WHERE c.table_schema = 'steadyhelm'"
        " AND c.table_name !~ '_[0-9]+$' ORDER BY c.table_name, c.ordinal_position"
    ).fetchall()
    indexes = raw.execute(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'steadyhelm' AND tablename !~ '_[0-9]+$'"
    ).fetchall()
    return {"columns": [list(map(str, row)) for row in columns], "indexes": sorted(it for (it,) in indexes)}


def make_tables(url, steps):
    """Make the tables as they were after so many steps."""
    connections = PostgresConnections(url, read_only=False, timeout_s=5, on_rollback=list)
    prepare(connections, migrations=MIGRATIONS[:steps])
    connections.close()


class TestSchema:
    @pytest.mark.parametrize("place", range(len(MIGRATIONS)))
    def test_it_is_the_released_one(self, postgres_url, raw, place):
        """
        The tables are those that were released: a change needs a migration of its own, and a new file.
        """
        make_tables(postgres_url, place + 1)
        golden = GOLDEN / f"store-postgres-{MIGRATIONS[place].name[:4]}.json"

        assert json.loads(golden.read_text()) == read_schema(raw)

    def test_a_database_of_the_first_step_is_brought_up_to_date(self, raw, postgres_url):
        """
        Runs and spending that were stored before the days were counted are counted when it is opened.
        """
        make_tables(postgres_url, 1)
        raw.execute("INSERT INTO agents (agent_id, runs) VALUES ('agent', 2)")
        for run in ("a", "b"):
            raw.execute(
                "INSERT INTO runs (agent, run_id, started_at, last_at, top_score)"
                " VALUES (1, %s, %s, %s, 0.5)",
                (run, AT, AT),
            )
        raw.execute("INSERT INTO spending VALUES (1, %s, 1, 20, 0.5)", (int(AT // 900),))
        opened = PostgresStore(postgres_url)
        days = raw.execute("SELECT runs, scored, scores, tokens, cost_usd FROM agent_days").fetchall()

        assert [(2, 2, 1.0, 20, 0.5)] == days
        assert [] == opened.check()
        opened.close()

    def test_the_step_has_the_name_it_has_in_sqlite(self, store):
        """
        The latest step has the same name in both databases.
        """
        assert schema.MIGRATIONS[-1].name == store.describe()["schema"]
