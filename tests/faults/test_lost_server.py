"""A PostgreSQL server, or its database, that is away for a while: everything waits, and is stored once."""

import threading

import psycopg
import pytest
from fault_tools import Account, find_journals, make_monitor, record, record_run, refusing_server, wait_until

from postgres_server import run_server
from steadyhelm.journal.abandoned import list_pending

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("quiet")]


@pytest.fixture(scope="module")
def own_server():
    """A server that tests stop, and that loses nothing that it acknowledged."""
    with run_server(settings={"synchronous_commit": "on"}) as server:
        yield server


@pytest.fixture
def own_database(own_server):
    with own_server.new_database() as url:
        yield url


def end_sessions(server, url):
    """End every connection to a database, as an administrator does."""
    name = url.partition("?")[0].rpartition("/")[2]
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


class TestServer:
    def test_away_when_an_agent_starts(self, own_server, own_database):
        """
        An agent that starts while the server is away keeps its steps, and stores them when it is back.
        """
        own_server.stop()
        monitor = make_monitor(own_database)
        record_run(monitor, 10, "run")
        assert not monitor.flush(0.2).complete
        assert list_pending(find_journals(own_database))
        own_server.launch()
        assert monitor.flush(60).complete
        monitor.close()

        account = Account(own_database)
        assert ({"run": 10}, 0, []) == (account.runs, account.lost, account.faults)

    def test_away_until_the_next_agent(self, own_server, own_database):
        """
        What an agent could not store before it ended is stored by the next one.
        """
        own_server.stop()
        first = make_monitor(own_database)
        record_run(first, 10, "first")
        first.close(0.1)
        own_server.launch()
        second = make_monitor(own_database)
        record_run(second, 10, "second")
        wait_until(lambda: 1 == len(list_pending(find_journals(own_database))))
        second.close(60)

        assert {"first": 10, "second": 10} == Account(own_database).runs

    def test_restarted_again_and_again(self, own_server, own_database):
        """
        A run goes on through several restarts of the server, and is one run.
        """
        monitor = make_monitor(own_database)
        with monitor.run(run_id="run"):
            for _ in range(3):
                record(monitor, 100)
                own_server.stop()
                record(monitor, 100)
                own_server.launch()
        assert monitor.flush(60).complete
        monitor.close()

        account = Account(own_database)
        assert ({"run": 600}, 0, []) == (account.runs, account.lost, account.faults)

    def test_sessions_ended_in_the_middle(self, own_server, own_database):
        """
        Connections that end while batches are written lose nothing, and store nothing twice.
        """
        monitor = make_monitor(own_database)
        is_over = threading.Event()

        def keep_recording():
            with monitor.run(run_id="run"):
                for _ in range(20):
                    record(monitor, 100)
                    is_over.wait(0.05)

        recording = threading.Thread(target=keep_recording)
        recording.start()
        while recording.is_alive():
            end_sessions(own_server, own_database)
            recording.join(0.1)
        assert monitor.flush(60).complete
        monitor.close()

        account = Account(own_database)
        assert ({"run": 2000}, 0, []) == (account.runs, account.lost, account.faults)


def drop_schema(url):
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("DROP SCHEMA steadyhelm CASCADE")


def replace_database(url):
    """Drop the database, with everybody that is connected, and create an empty one of that name."""
    name = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(url.replace(f"/{name}?", "/postgres?"), autocommit=True) as other:
        other.execute(f"DROP DATABASE {name} WITH (FORCE)")
        other.execute(f"CREATE DATABASE {name} TEMPLATE template0")


class TestDatabase:
    @pytest.mark.parametrize("replace", [replace_database, drop_schema])
    def test_replaced(self, database, replace):
        """
        When the database or its tables are dropped they are created again, what follows is stored there, and
        that is counted.
        """
        monitor = make_monitor(database)
        record_run(monitor, 10, "before")
        assert monitor.flush(60).complete
        replace(database)
        record_run(monitor, 10, "after")
        result = monitor.flush(60)
        monitor.close()

        account = Account(database)
        assert (True, {"after": 10}, []) == (result.complete, account.runs, account.faults)
        assert 1 == account.losses["database was deleted or replaced"]

    def test_a_live_run_goes_on(self, database):
        """
        A run that was live when the database was replaced goes on in the new one under the same id.
        """
        monitor = make_monitor(database)
        with monitor.run(run_id="run"):
            record(monitor, 10)
            assert monitor.flush(60).complete
            replace_database(database)
            record(monitor, 10)
        monitor.close(60)

        assert {"run": 10} == Account(database).runs

    @pytest.mark.parametrize("condition", ["read_only_sql_transaction", "disk_full", "too_many_connections"])
    def test_it_takes_nothing_for_a_while(self, database, condition):
        """
        A database that may only be read, is full or has no connection left loses nothing.
        """
        monitor = make_monitor(database)
        monitor.start_run("run")
        assert monitor.flush(60).complete
        with refusing_server(database, condition):
            record(monitor, 3000)
            monitor.end_run()
            assert not monitor.flush(0.5).complete
        assert monitor.flush(60).complete
        monitor.close()

        account = Account(database)
        assert ({"run": 3000}, 0, []) == (account.runs, account.lost, account.faults)
