"""What is counted per agent and day, in both databases: nothing twice, nothing left behind."""

import sqlite3
from contextlib import closing

import msgspec
import pytest

from steadyhelm.sink import DriftPoint
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import AT, a_summary, an_event

DAY_S = 86_400
TODAY = int(AT // DAY_S)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "postgres":
        from steadyhelm.stores.postgres import PostgresStore

        opened = PostgresStore(request.getfixturevalue("postgres_url"))
    else:
        opened = SQLiteStore(tmp_path / "runs.db")
    yield opened
    assert [] == opened.check()
    opened.close()


def list_days(store):
    """Agent, day counted from the first event's, runs, runs with a score, its sum, tokens and dollars."""
    with store.reading() as connection:
        rows = connection.execute(
            "SELECT a.agent_id, day, d.runs, scored, scores, tokens, cost_usd FROM agent_days d"
            " JOIN agents a ON a.id = d.agent WHERE d.runs > 0 ORDER BY 1, 2"
        ).fetchall()
    return [(agent, day - TODAY, *rest) for agent, day, *rest in rows]


def a_batch(run_id="run", day=0, **fields):
    """Two steps of a run on a day, the second with a score, and its end."""
    at = AT + day * DAY_S
    steps = [
        an_event(
            seq,
            run_id=run_id,
            event_id=f"{run_id}.{seq}",
            timestamp=at + seq,
            token_count=10,
            cost_usd=0.5,
            **fields,
        )
        for seq in range(2)
    ]
    steps[1] = msgspec.structs.replace(steps[1], drift=DriftPoint(0.25))
    return [*steps, a_summary(run_id, started_at=at, ended_at=at + 2, **fields)]


class TestCounting:
    def test_runs_scores_and_spending_are_counted_by_day(self, store):
        """
        A day has the runs that began on it, the sum of their top scores, and what was spent.
        """
        store.write([*a_batch("a"), *a_batch("b"), *a_batch("c", day=1)])

        assert [("agent", 0, 2, 2, 0.5, 40, 2.0), ("agent", 1, 1, 1, 0.25, 20, 1.0)] == list_days(store)

    def test_a_batch_that_comes_again_is_counted_once(self, store):
        """
        A batch that is delivered three times counts as one.
        """
        for _ in range(3):
            store.write(a_batch())

        assert [("agent", 0, 1, 1, 0.25, 20, 1.0)] == list_days(store)

    def test_a_run_that_began_earlier_moves(self, store):
        """
        An event from the day before moves its run to that day.
        """
        store.write([an_event(1, timestamp=AT + DAY_S)])
        store.write([an_event(0, timestamp=AT)])

        assert [("agent", 0, 1)] == [row[:3] for row in list_days(store)]

    def test_a_time_that_is_none_is_day_0(self, store):
        """
        Times that no calendar has are counted together, and no batch is refused for them.
        """
        store.write([an_event(0, run_id="a", timestamp=-5.0), an_event(0, run_id="b", timestamp=1e300)])

        assert [("agent", -TODAY, 2)] == [row[:3] for row in list_days(store)]


class TestDeleting:
    def test_a_deleted_run_is_not_counted(self, store):
        """
        What a deleted run spent was spent; the run itself is counted no more.
        """
        store.write([*a_batch("a"), *a_batch("b")])
        store.delete_run("agent", "a")

        assert [("agent", 0, 1, 1, 0.25, 40, 2.0)] == list_days(store)

    def test_retention_takes_runs_and_spending(self, store):
        """
        Days before the limit are forgotten with their runs.
        """
        store.write([*a_batch("a"), *a_batch("b", day=9)])
        store.prune(runs_before=AT + 8 * DAY_S)

        assert [("agent", 9, 1, 1, 0.25, 20, 1.0)] == list_days(store)
        with store.reading() as connection:
            assert (1,) == connection.execute("SELECT count(*) FROM agent_days").fetchone()

    def test_nothing_stays_of_an_agent(self, store):
        """
        Deleting an agent deletes its days.
        """
        store.write([*a_batch("a"), *a_batch("b", agent_id="other")])
        store.delete_agent("agent")

        assert [("other", 0, 1, 1, 0.25, 20, 1.0)] == list_days(store)

    def test_wrong_sums_are_reported(self, tmp_path):
        """
        A check of the store notices days that are not the sums of their runs.
        """
        broken = SQLiteStore(tmp_path / "broken.db")
        broken.write(a_batch())
        with closing(sqlite3.connect(tmp_path / "broken.db")) as connection, connection:
            connection.execute("UPDATE agent_days SET runs = 7")

        (fault,) = broken.check()
        assert "are not those of its runs and spending" in fault
        broken.close()
