"""Alerts that wait to be sent: queued with their incident, leased by one sender at a time."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from typing import Any, Final

from steadyhelm.store import Delivery, DeliveryState, LastAlert, Outbox
from steadyhelm.stores.connections import StorePart
from steadyhelm.stores.sql import Conditions
from steadyhelm.stores.values import SEVERITIES, to_unicode

_FIELDS: Final = Delivery.__struct_fields__
_COLUMNS: Final = ", ".join(_FIELDS)
_PLACEHOLDERS: Final = ", ".join("?" * len(_FIELDS))


class SQLOutbox(StorePart, Outbox):
    """An outbox in a database."""

    def enqueue(self, delivery: Delivery) -> None:
        """Queue an alert. One with the same id is left unchanged."""
        values = (getattr(delivery, name) for name in _FIELDS)
        row = [to_unicode(value) if isinstance(value, str) else value for value in values]
        row[_FIELDS.index("severity")] = delivery.severity.rank
        with self._connections.transaction() as connection:
            connection.execute(
                f"INSERT INTO outbox ({_COLUMNS}) VALUES ({_PLACEHOLDERS})"
                " ON CONFLICT (delivery_id) DO NOTHING",
                row,
            )

    def get_last_alert(self, agent_id: str, detector: str) -> LastAlert | None:
        """Return the latest alert queued for an agent and detector, whatever its state."""
        with self._connections.reading() as connection:
            row = connection.execute(
                "SELECT created_at, severity, incident_id FROM outbox WHERE agent_id = ? AND detector = ?"
                " ORDER BY id DESC LIMIT 1",
                (to_unicode(agent_id), to_unicode(detector)),
            ).fetchone()
        return None if row is None else LastAlert(at=row[0], severity=SEVERITIES[row[1]], incident_id=row[2])

    def claim_deliveries(self, *, now: float, lease_s: float, limit: int = 10) -> list[Delivery]:
        """Return due alerts and lease them: no other process gets them until the lease has expired.

        Each claim counts as an attempt. Counting here and not when the result is recorded also counts a
        delivery that kills its sender.
        """
        if not self._is_any_due(now):
            return []
        with self._connections.transaction() as connection:
            rows = connection.execute(
                "UPDATE outbox SET next_at = ?, attempts = attempts + 1 WHERE id IN (SELECT id FROM outbox"
                " WHERE state = 'pending' AND next_at <= ? ORDER BY next_at, id LIMIT ?)"
                f" RETURNING id, {_COLUMNS}",
                (now + lease_s, now, limit),
            ).fetchall()
        return [_to_delivery(row[1:]) for row in sorted(rows)]

    def _is_any_due(self, now: float) -> bool:
        """Return whether a claim would return anything. Called often, so it takes no write lock."""
        query = "SELECT 1 FROM outbox WHERE state = 'pending' AND next_at <= ? LIMIT 1"
        with self._connections.reading() as connection:
            return connection.execute(query, (now,)).fetchone() is not None

    def settle_delivery(
        self, delivery_id: str, state: DeliveryState, *, next_at: float = 0.0, error: str = ""
    ) -> None:
        """Record the result of an attempt. `pending` with a later `next_at` schedules another one."""
        with self._connections.transaction() as connection:
            connection.execute(
                "UPDATE outbox SET state = ?, next_at = ?, error = ? WHERE delivery_id = ?",
                (state, next_at, to_unicode(error), to_unicode(delivery_id)),
            )

    def list_deliveries(self, *, state: DeliveryState | None = None, limit: int = 50) -> list[Delivery]:
        """Return alerts with their state, newest first."""
        where = Conditions().add("state = ?", state)
        query = f"SELECT {_COLUMNS} FROM outbox{where} ORDER BY id DESC LIMIT ?"
        with self._connections.reading() as connection:
            return [_to_delivery(row) for row in connection.execute(query, (*where.values, limit))]


def _to_delivery(row: tuple[Any, ...]) -> Delivery:
    fields = dict(zip(_FIELDS, row, strict=True))
    return Delivery(**fields | {"severity": SEVERITIES[fields["severity"]]})
