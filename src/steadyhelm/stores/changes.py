"""Number every change inside the transaction that makes it: live updates are read from there.

The numbers become readable in their order, without gaps that are filled later.
"""

import time
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from steadyhelm.stores.database import Connection

What = Literal["run", "incidents", "agent", "settings"]

KEPT_S: Final = 3600.0


class StoredChange(Struct, frozen=True):
    """One change: of a run, of an agent's incidents or baselines, or of settings and keys."""

    id: int
    at: float
    what: What
    run: int | None
    agent: int | None


def note_changes(connection: Connection, changes: Sequence[tuple[What, int | None, int | None]]) -> None:
    """Note what the transaction changes: of which run and agent, by row id. Old ones are deleted."""
    if not changes:
        return
    now = time.time()
    if connection.dialect.insert_changes(connection, now, changes):
        connection.dialect.delete_changes(connection, now - KEPT_S)


def read_changes(connection: Connection, after: int, limit: int) -> list[StoredChange] | None:
    """Return the changes behind a number, oldest first; None when some of them are not known any more."""
    oldest, latest = read_bounds(connection)
    if after > latest or after < oldest - 1:
        return None
    rows = connection.execute(
        "SELECT id, at, what, run, agent FROM changes WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
        (after, latest, limit),
    )
    return [StoredChange(*row) for row in rows]


def read_bounds(connection: Connection) -> tuple[int, int]:
    """Return the numbers of the oldest change that is kept, and of the latest that may be read."""
    return connection.dialect.read_bounds(connection)
