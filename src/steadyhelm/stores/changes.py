"""Number every change inside the transaction that makes it: live updates are read from there.

SQLite lets one transaction write at a time, so the numbers become visible in their order, without gaps that
are filled later.
"""

import sqlite3
import time
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

What = Literal["run", "incidents", "agent", "settings"]

KEPT_S: Final = 3600.0
_DELETED_EVERY: Final = 512
_INSERT: Final = "INSERT INTO changes (at, what, run, agent) VALUES (?, ?, ?, ?)"


class StoredChange(Struct, frozen=True):
    """One change: of a run, of an agent's incidents or baselines, or of settings and keys."""

    id: int
    at: float
    what: What
    run: int | None
    agent: int | None


def note_changes(
    connection: sqlite3.Connection, changes: Sequence[tuple[What, int | None, int | None]]
) -> None:
    """Note what the transaction changes: of which run and agent, by row id. Old ones are deleted."""
    if not changes:
        return
    now = time.time()
    connection.executemany(_INSERT, [(now, *change) for change in changes])
    (latest,) = connection.execute("SELECT max(id) FROM changes").fetchone()
    if latest % _DELETED_EVERY < len(changes):
        connection.execute("DELETE FROM changes WHERE at < ?", (now - KEPT_S,))


def read_changes(connection: sqlite3.Connection, after: int, limit: int) -> list[StoredChange] | None:
    """Return the changes behind a number, oldest first; None when some of them are not known any more."""
    oldest, latest = read_bounds(connection)
    if after > latest or after < oldest - 1:
        return None
    rows = connection.execute(
        "SELECT id, at, what, run, agent FROM changes WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
    )
    return [StoredChange(*row) for row in rows]


def read_bounds(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the numbers of the oldest change that is kept, and of the latest ever."""
    (latest,) = connection.execute(
        "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0)"
    ).fetchone()
    (oldest,) = connection.execute("SELECT min(id) FROM changes").fetchone()
    return latest + 1 if oldest is None else oldest, latest
