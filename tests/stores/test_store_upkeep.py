import sqlite3
import stat
from contextlib import closing

import pytest

from steadyhelm.errors import StoreError
from steadyhelm.stores import upkeep
from steadyhelm.stores.schema import MIGRATIONS
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import AT, a_delivery, a_finding, an_event, an_incident


def tamper(path, statement):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


class TestBackup:
    def test_it_is_the_same_store(self, store, tmp_path):
        """
        A backup is a store with the same content, for its owner alone, made while the store is in use.
        """
        store.write([an_event(seq) for seq in range(300)] + [an_incident()])
        copy = tmp_path / "copy.db"
        store.backup(copy)
        store.write([an_event(300)])
        opened = SQLiteStore(copy, read_only=True)

        assert 0o600 == stat.S_IMODE(copy.stat().st_mode)
        assert (300, []) == (opened.find_run("run").events, opened.check())
        opened.close()

    def test_it_overwrites_nothing(self, store, tmp_path):
        """
        A file that exists is refused and kept.
        """
        (tmp_path / "copy.db").write_text("precious")

        with pytest.raises(StoreError, match="exists already"):
            store.backup(tmp_path / "copy.db")
        assert "precious" == (tmp_path / "copy.db").read_text()

    def test_an_impossible_place(self, store, tmp_path):
        """
        A folder that is not there is named.
        """
        with pytest.raises(StoreError, match="cannot be created"):
            store.backup(tmp_path / "nowhere" / "copy.db")


class TestInfo:
    def test_it_says_what_there_is(self, store, path):
        """
        Path, size, schema, journal and the number of rows, without counting the large tables.
        """
        store.write([an_event(seq, run_id=f"run-{seq % 3}") for seq in range(9)])
        store.write([a_finding(), an_incident()])
        info = store.describe()

        assert (str(path), MIGRATIONS[-1].name, "wal") == (info["path"], info["schema"], info["journal_mode"])
        assert info["bytes"] > 0
        expected = {
            "runs": 4,
            "events": 9,
            "payloads": 9,
            "findings": 1,
            "incidents": 1,
            "agents": 1,
            "names": 1,
        }
        assert expected.items() <= info["rows"].items()


class TestCheck:
    @pytest.mark.parametrize(
        ("statement", "fault"),
        [
            (
                "UPDATE runs SET events = 7",
                "the sums of run 'run' are not those of its events (7 said, 2 there)",
            ),
            (
                "UPDATE runs SET tokens = 1",
                "the sums of run 'run' are not those of its events (2 said, 2 there)",
            ),
            (
                "UPDATE runs SET findings = 3",
                "the sums of run 'run' are not those of its findings (3 said, 1 there)",
            ),
            ("DELETE FROM payloads WHERE id = 1", "1 events name a payload that is not there"),
            ("INSERT INTO payloads (error) VALUES ('x')", "1 payloads belong to no event"),
            ("UPDATE findings SET run = 99", "1 rows of findings name a row of runs that is not there"),
        ],
    )
    def test_it_finds_what_does_not_add_up(self, store, path, statement, fault):
        """
        Sums that disagree with the rows, and rows that lead nowhere, are named.
        """
        store.write([an_event(0), an_event(1), a_finding()])
        assert [] == store.check()

        tamper(path, statement)
        assert fault in store.check()


class TestRemoval:
    def test_large_runs_go_in_slices(self, store, monkeypatch):
        """
        Between two slices of a deletion the store is sound and its sums agree.
        """
        monkeypatch.setattr(upkeep, "EVENTS_PER_TRANSACTION", 10)
        store.write([an_event(seq, cost_usd=0.5, error="e" if seq % 3 else None) for seq in range(35)])
        with store._connections.transaction() as connection:
            upkeep._delete_first_events(connection, 1)
        run = store.find_run("run")

        assert (25, 250, 12.5, []) == (run.events, run.tokens, run.cost_usd, store.check())
        assert 25 == store.delete_run("agent", "run")
        assert (0, []) == (store.describe()["rows"]["payloads"], store.check())

    def test_a_deleted_run_takes_its_alerts_along(self, store):
        """
        Alerts of a deleted run are gone, those of a run of the same name and another agent stay.
        """
        store.write([an_event(0), an_event(0, agent_id="other")])
        store.enqueue(a_delivery("1"))
        store.enqueue(a_delivery("2", agent_id="other"))
        store.delete_run("agent", "run")

        assert ["2"] == [delivery.delivery_id for delivery in store.list_deliveries()]


class TestPrune:
    def test_payloads_of_a_run_that_never_ends(self, store, monkeypatch):
        """
        A run that goes on for months loses its old payloads and keeps its new ones.
        """
        monkeypatch.setattr(upkeep, "EVENTS_PER_TRANSACTION", 7)
        store.write([an_event(seq) for seq in range(100)])
        pruned = store.prune(payloads_before=AT + 60, runs_before=AT + 60)

        assert (60, 0, 0) == (pruned.payloads, pruned.runs, pruned.events)
        kept = [event.output_data is not None for event in store.get_run_traces("agent", "run")]
        assert ([False] * 60 + [True] * 40, []) == (kept, store.check())

    def test_many_runs_of_one_moment(self, store):
        """
        Runs that began at the same moment are all found, however many pages they take.
        """
        store.write([an_event(0, run_id=f"run-{n}") for n in range(350)])
        pruned = store.prune(runs_before=AT + 1)

        assert (350, 350) == (pruned.runs, pruned.events)
        assert (0, []) == (store.list_agents()[0].runs, store.check())

    def test_the_file_shrinks(self, store, path):
        """
        The room that was freed goes back to the disk.
        """
        store.write([an_event(seq, output_data={"text": "x" * 4000}) for seq in range(800)])
        store.write([an_event(0, run_id="new", timestamp=AT + 10_000)])
        store.prune(runs_before=AT + 5000)
        info = store.describe()
        store.close()

        assert 0 == info["free_bytes"]
        assert path.stat().st_size < 400_000

    def test_nothing_asked_nothing_gone(self, store):
        """
        Without a time nothing is removed.
        """
        store.write([an_event(0)])

        assert (0, 0, 0) == tuple(getattr(store.prune(), name) for name in ("payloads", "runs", "events"))
        assert 1 == store.find_run("run").events

    def test_not_inside_a_transaction(self, store):
        """
        Retention gives up the file's free room, which cannot be part of a transaction.
        """
        with pytest.raises(StoreError, match="in the middle of a transaction"), store.transaction():
            store.prune()
