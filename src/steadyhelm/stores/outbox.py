"""Alerts on their way: queued with what caused them, claimed by one sender at a time."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import sqlite3
from typing import Any, Final

from steadyhelm.store import Delivery, DeliveryState, LastAlert
from steadyhelm.stores.conditions import Conditions, unicode
from steadyhelm.stores.judgements import SEVERITIES

_FIELDS: Final = Delivery.__struct_fields__
_COLUMNS: Final = ", ".join(_FIELDS)
_PLACES: Final = ", ".join("?" * len(_FIELDS))


def enqueue(connection: sqlite3.Connection, delivery: Delivery) -> None:
    """Queue a delivery, unless one with the same id is there already."""
    values = (getattr(delivery, name) for name in _FIELDS)
    row = [unicode(value) if isinstance(value, str) else value for value in values]
    row[_FIELDS.index("severity")] = delivery.severity.rank
    connection.execute(
        f"INSERT INTO outbox ({_COLUMNS}) VALUES ({_PLACES}) ON CONFLICT (delivery_id) DO NOTHING", row
    )


def _delivery(row: tuple[Any, ...]) -> Delivery:
    fields = dict(zip(_FIELDS, row, strict=True))
    return Delivery(**fields | {"severity": SEVERITIES[fields["severity"]]})


def last_alert(connection: sqlite3.Connection, agent_id: str, detector: str) -> LastAlert | None:
    """The alert queued last for this agent and detector, whatever became of it."""
    row = connection.execute(
        "SELECT created_at, severity, incident_id FROM outbox WHERE agent_id = ? AND detector = ?"
        " ORDER BY id DESC LIMIT 1",
        (unicode(agent_id), unicode(detector)),
    ).fetchone()
    return None if row is None else LastAlert(at=row[0], severity=SEVERITIES[row[1]], incident_id=row[2])


def is_any_due(connection: sqlite3.Connection, now: float) -> bool:
    """Whether claiming would give anything: asked often, and without locking anybody out."""
    row = connection.execute("SELECT 1 FROM outbox WHERE state = 'pending' AND next_at <= ? LIMIT 1", (now,))
    return row.fetchone() is not None


def claim(connection: sqlite3.Connection, now: float, lease_s: float, limit: int) -> list[Delivery]:
    """Due deliveries, put off until the lease has run out; each claim counts as an attempt.

    Counting here and not when the result is noted: a delivery that kills its sender is counted too.
    """
    rows = connection.execute(
        "UPDATE outbox SET next_at = ?, attempts = attempts + 1 WHERE id IN (SELECT id FROM outbox"
        " WHERE state = 'pending' AND next_at <= ? ORDER BY next_at, id LIMIT ?)"
        f" RETURNING id, {_COLUMNS}",
        (now + lease_s, now, limit),
    ).fetchall()
    return [_delivery(row[1:]) for row in sorted(rows)]


def settle(
    connection: sqlite3.Connection, delivery_id: str, state: DeliveryState, next_at: float, error: str
) -> None:
    """Note how a delivery went."""
    connection.execute(
        "UPDATE outbox SET state = ?, next_at = ?, error = ? WHERE delivery_id = ?",
        (state, next_at, unicode(error), unicode(delivery_id)),
    )


def deliveries(connection: sqlite3.Connection, state: DeliveryState | None, limit: int) -> list[Delivery]:
    """Deliveries, newest first."""
    where = Conditions().add("state = ?", state)
    query = f"SELECT {_COLUMNS} FROM outbox{where} ORDER BY id DESC LIMIT ?"
    return [_delivery(row) for row in connection.execute(query, (*where.values, limit))]
