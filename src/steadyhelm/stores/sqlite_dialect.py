"""What SQLite does in a way of its own: many rows in a statement, and numbers in the order of commits."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import functools
import itertools
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from steadyhelm.sink import Record

if TYPE_CHECKING:
    from steadyhelm.stores.batch import Batch
    from steadyhelm.stores.database import What
    from steadyhelm.stores.row_ids import RowIds

_MARKS: Final = """
    WITH RECURSIVE marks (before, step, last) AS (
        SELECT 0, 1, max(seq) FROM events WHERE run = :run
        UNION ALL SELECT step, step * 2, last FROM marks WHERE step * 2 <= last + 1)
    SELECT step,
        (SELECT score FROM scores WHERE run = :run AND seq < step ORDER BY seq DESC LIMIT 1),
        (SELECT total(tokens) FROM events WHERE run = :run AND seq >= before AND seq < step),
        (SELECT total(cost_usd) FROM events WHERE run = :run AND seq >= before AND seq < step)
    FROM marks WHERE last IS NOT NULL ORDER BY step"""
"""The steps 1, 2, 4, 8 and so on of a run, with its score there and what was spent since the one before."""
_INSERT_MARK: Final = """
    INSERT INTO run_marks VALUES (?, ?, ?, ?, ?) ON CONFLICT (run, step) DO UPDATE SET
        score = excluded.score, tokens = excluded.tokens, cost_usd = excluded.cost_usd"""
# SQLite releases the interpreter lock after every statement, and a busy agent then holds it for a while:
# writing a batch in a few statements avoids hundreds of waits for the lock.
_ROWS_PER_STATEMENT: Final = (256, 64, 16, 4, 1)
_INSERT: Final = "INSERT INTO {table} VALUES {{rows}} ON CONFLICT (run, seq) DO NOTHING"
_INSERT_EVENTS: Final = _INSERT.format(table="events")
_INSERT_PAYLOADS: Final = "INSERT INTO payloads VALUES {rows}"
_OLD_PAYLOADS: Final = """
    SELECT payload, run, seq FROM events
    WHERE run = ? AND seq > ? AND payload IS NOT NULL AND ts < ? ORDER BY seq LIMIT ?"""
_ADD_TOTALS: Final = """
    UPDATE runs SET events = events + ?, tokens = tokens + ?, tool_calls = tool_calls + ?,
        llm_calls = llm_calls + ?, errors = errors + ?, duration_ms = duration_ms + ?,
        cost_usd = cost_usd + ?, payloads = payloads + ?, repeated = repeated + ?,
        reply_bytes = reply_bytes + ?, last_at = max(last_at, ?),
        state = CASE WHEN ? = 1 AND state = 'suspended' THEN 'running' ELSE state END
    WHERE id = ?"""
_ADD_TOOL_TOTALS: Final = """
    INSERT INTO run_tools VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run, name) DO UPDATE SET
        calls = run_tools.calls + excluded.calls, errors = run_tools.errors + excluded.errors,
        tokens = run_tools.tokens + excluded.tokens,
        duration_ms = run_tools.duration_ms + excluded.duration_ms"""
_SET_SCORES: Final = """
    UPDATE runs SET top_score = max(coalesce(top_score, ?1), ?1), last_score = ?2 WHERE id = ?3"""
_INSERT_FINDING: Final = """
    INSERT INTO findings (agent, run, ts, severity, score, detector, kind, event_id, message,
        suggested_action, context_json)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, ts, event_id) DO NOTHING"""
_INSERT_CHANGE: Final = "INSERT INTO changes (at, what, run, agent) VALUES (?, ?, ?, ?)"
_CHANGES_DELETED_EVERY: Final = 512


class SQLiteDialect:
    """What SQLite does in a way of its own. One process writes at a time."""

    unstorable_errors: tuple[type[BaseException], ...] = (
        *(OverflowError, TypeError, ValueError),
        *(sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError, sqlite3.DataError),
    )

    def look_up(self, connection: sqlite3.Connection, row_ids: "RowIds", records: Sequence[Record]) -> None:
        """Do nothing: nobody else writes, and reading one by one is as quick."""

    def get_next_payload_id(self, connection: sqlite3.Connection) -> int:
        """Return the number of the first payload of a batch."""
        return (connection.execute("SELECT max(id) FROM payloads").fetchone()[0] or 0) + 1

    def insert_events(self, connection: sqlite3.Connection, batch: "Batch") -> bool:
        """Insert the events and payloads of a batch. Returns False when an event was there already."""
        if _insert(connection, _INSERT_EVENTS, batch.events) != len(batch.events):
            return False
        _insert(connection, _INSERT_PAYLOADS, batch.payloads)
        return True

    def insert_rows(
        self, connection: sqlite3.Connection, table: str, rows: Sequence[tuple[object, ...]]
    ) -> None:
        """Insert rows of a run by seq; those that are there already are left unchanged."""
        _insert(connection, _INSERT.format(table=table), rows)

    def add_tool_totals(self, connection: sqlite3.Connection, rows: Sequence[tuple[object, ...]]) -> None:
        """Add to the totals of tools of runs: run, name, calls, errors, tokens, duration."""
        connection.executemany(_ADD_TOOL_TOTALS, rows)

    def add_run_totals(self, connection: sqlite3.Connection, rows: Sequence[tuple[object, ...]]) -> int:
        """Add to the totals of runs, the run last. Returns how many of the runs are there."""
        return connection.executemany(_ADD_TOTALS, rows).rowcount

    def set_scores(self, connection: sqlite3.Connection, rows: Sequence[tuple[object, ...]]) -> None:
        """Set the top score, if it is one, and the last score of runs, the run last."""
        connection.executemany(_SET_SCORES, rows)

    def insert_findings(self, connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert findings, the run second, and add to the totals of their runs how many were new."""
        for run, of_run in itertools.groupby(rows, key=lambda row: row[1]):
            added = connection.executemany(_INSERT_FINDING, list(of_run)).rowcount
            connection.execute("UPDATE runs SET findings = findings + ? WHERE id = ?", (added, run))

    def write_marks(self, connection: sqlite3.Connection, run: int) -> None:
        """Store what an ended run had reached at steps 1, 2, 4, 8 and so on: clean runs make bands of it."""
        rows: list[tuple[int, int, float | None, int, float]] = []
        tokens, cost_usd = 0, 0.0
        for step, score, more_tokens, more_cost in connection.execute(_MARKS, {"run": run}):
            tokens, cost_usd = tokens + int(more_tokens), cost_usd + more_cost
            rows.append((run, step, score, tokens, cost_usd))
        connection.executemany(_INSERT_MARK, rows)

    def delete_first_payloads(self, connection: sqlite3.Connection, run: int, last: int) -> int:
        """Delete the payloads of a run's events up to one; the events follow. Returns how many."""
        return connection.execute(
            "DELETE FROM payloads WHERE id IN"
            " (SELECT payload FROM events WHERE run = ? AND seq <= ? AND payload IS NOT NULL)",
            (run, last),
        ).rowcount

    def delete_old_payloads(
        self, connection: sqlite3.Connection, run: int, after: int, before: float, limit: int
    ) -> list[int]:
        """Delete the next payloads of a run's events from before a time. Returns the seqs, in order."""
        rows = connection.execute(_OLD_PAYLOADS, (run, after, before, limit)).fetchall()
        connection.executemany("DELETE FROM payloads WHERE id = ?", [row[:1] for row in rows])
        connection.executemany(
            "UPDATE events SET payload = NULL WHERE run = ? AND seq = ?", [row[1:] for row in rows]
        )
        return [seq for _, _, seq in rows]

    def iterate(self, connection: sqlite3.Connection, sql: str, values: Sequence[Any]) -> Iterator[Any]:
        """Yield the rows of a query, which SQLite finds one by one."""
        return connection.execute(sql, values)

    def read_clock(self, connection: sqlite3.Connection) -> float:  # noqa: ARG002 - the contract
        """Return the time of this machine: the processes that share a file are on it."""
        return time.time()

    def insert_changes(
        self,
        connection: sqlite3.Connection,
        at: float,
        changes: "Sequence[tuple[What, int | None, int | None]]",
    ) -> bool:
        """Insert numbered changes. Returns whether it is time to delete old ones.

        One transaction writes at a time, so the numbers become visible in their order, without gaps that
        are filled later.
        """
        connection.executemany(_INSERT_CHANGE, [(at, *change) for change in changes])
        (latest,) = connection.execute("SELECT max(id) FROM changes").fetchone()
        return bool(latest % _CHANGES_DELETED_EVERY < len(changes))

    def delete_changes(self, connection: sqlite3.Connection, before: float) -> None:
        """Delete the changes from before a time."""
        connection.execute("DELETE FROM changes WHERE at < ?", (before,))

    def read_bounds(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """Return the numbers of the oldest change that is kept, and of the latest ever."""
        (latest,) = connection.execute(
            "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0)"
        ).fetchone()
        (oldest,) = connection.execute("SELECT min(id) FROM changes").fetchone()
        return latest + 1 if oldest is None else oldest, latest

    def claim(
        self, connection: sqlite3.Connection, columns: str, now: float, lease_s: float, limit: int
    ) -> list[Any]:
        """Lease alerts that are due and return their rows, the id first."""
        return connection.execute(
            "UPDATE outbox SET next_at = ?, attempts = attempts + 1 WHERE id IN (SELECT id FROM outbox"
            " WHERE state = 'pending' AND next_at <= ? ORDER BY next_at, id LIMIT ?)"
            f" RETURNING id, {columns}",
            (now + lease_s, now, limit),
        ).fetchall()


def _insert(connection: sqlite3.Connection, sql: str, rows: Sequence[tuple[object, ...]]) -> int:
    """Insert rows in as few statements as possible. Returns how many were new."""
    added = start = 0
    for block in _ROWS_PER_STATEMENT:
        while len(rows) - start >= block:
            piece = rows[start : start + block]
            flat = list(itertools.chain.from_iterable(piece))
            added += connection.execute(_repeat_for_rows(sql, len(piece[0]), block), flat).rowcount
            start += block
    return added


@functools.cache
def _repeat_for_rows(sql: str, columns: int, rows: int) -> str:
    """Return the statement for this many rows. There are only a few, so that SQLite can cache them."""
    row = f"({', '.join('?' * columns)})"
    return sql.format(rows=", ".join([row] * rows))


DIALECT: Final = SQLiteDialect()
