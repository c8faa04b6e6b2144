"""Incidents, people's responses to them, and the alerts about them that wait to be sent."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import heapq
from typing import Any, Final

from msgspec import structs

from steadyhelm.errors import NotFoundError
from steadyhelm.findings import Severity
from steadyhelm.incidents import Incident, IncidentState, Mute, Review, Threshold
from steadyhelm.sink import to_unicode
from steadyhelm.store import IncidentStore, Outbox
from steadyhelm.store_rows import Delivery, DeliveryState, LastAlert, StoredIntervention
from steadyhelm.stores.database import (
    Connection,
    StorePart,
    note_changes,
    retry_if_rolled_back,
    retry_on_conflict,
)
from steadyhelm.stores.sql import (
    SEVERITIES,
    Conditions,
    decode_evidence,
    describe_ambiguous_id,
    find_by_prefix,
    select_agent_or_run,
)
from steadyhelm.stores.writing import UPDATE_INCIDENT_TOTALS

_SELECT_INCIDENTS: Final = """
    SELECT i.incident_id, a.agent_id, r.run_id, i.detector, i.kind, i.severity, i.peak, i.message,
        i.suggested_action, i.opened_at, i.opened_seq, i.last_at, i.last_seq, i.state, i.closed_at,
        i.findings, i.hard_limit, i.review, i.acknowledged_at, i.subject, i.repeats, i.evidence
    FROM incidents i {index} CROSS JOIN runs r ON r.id = i.run CROSS JOIN agents a ON a.id = i.agent"""
_INCIDENT_FIELDS: Final = (
    *("incident_id", "agent_id", "run_id", "detector", "kind", "severity", "peak", "message"),
    *("suggested_action", "opened_at", "opened_seq", "last_at", "last_seq", "state", "closed_at", "findings"),
    *("hard_limit", "review", "acknowledged_at", "subject", "repeats"),
)


class SQLIncidents(StorePart, IncidentStore):
    """An incident store in a database."""

    def list_incidents(
        self,
        agent_id: str | None = None,
        run_id: str | None = None,
        *,
        state: IncidentState | None = None,
        detector: str | None = None,
        severity: Severity | None = None,
        since: float | None = None,
        limit: int = 50,
    ) -> list[Incident]:
        """Return incidents, the one with the latest finding first.

        `severity` is the lowest one to return; incidents whose latest finding is before `since` are left out.
        """
        where = select_agent_or_run("i", agent_id, run_id)
        where.add("i.last_at >= ?", since).add("i.detector = ?", detector)
        where.add("i.severity >= ?", severity and severity.rank)
        index = ""
        if state == "open":
            # A literal, not a bound value: only then does SQLite know that the partial index is sufficient.
            where.require("i.state = 'open'")
            # However many incidents an agent has had, few are open.
            index = "" if run_id is not None else "INDEXED BY incidents_open"
        else:
            where.add("i.state = ?", state)
        query = f"{_SELECT_INCIDENTS.format(index=index)}{where} ORDER BY i.last_at DESC, i.id DESC LIMIT ?"
        with self._connections.reading() as connection:
            return [_to_incident(row) for row in connection.execute(query, (*where.values, limit))]

    def find_incident(self, incident_id: str) -> Incident:
        """Return the incident with this id, or whose id alone begins with it. Raises NotFoundError."""
        with self._connections.reading() as connection:
            return _find_incident(connection, incident_id)

    def list_interventions(
        self, agent_id: str | None = None, *, since: float | None = None, limit: int = 1000
    ) -> list[StoredIntervention]:
        """Return interventions, newest first.

        Incidents are read in the order of their latest finding, and no intervention is later than that:
        those whose latest finding is older than every intervention already found cannot add anything.
        """
        where = select_agent_or_run("i", agent_id, None).add("i.last_at >= ?", since)
        query = f"{_SELECT_INCIDENTS.format(index='')}{where} ORDER BY i.last_at DESC, i.id DESC"
        newest: list[tuple[float, int, StoredIntervention]] = []
        read = 0
        with self._connections.reading() as connection:
            rows = connection.dialect.iterate(connection, query, where.values)
            for incident in map(_to_incident, rows):
                if len(newest) >= limit and (not newest or incident.last_at < newest[0][0]):
                    break
                for stored in _list_interventions(incident):
                    read += 1
                    at = stored.intervention.timestamp
                    if since is None or at >= since:
                        heapq.heappush(newest, (at, -read, stored))
                while len(newest) > limit:
                    heapq.heappop(newest)
        return [stored for _, _, stored in sorted(newest, reverse=True)]

    @retry_on_conflict
    def acknowledge(self, incident_id: str, *, at: float | None, by: str = "") -> None:
        """Mark an incident as seen by a person; without a time, as not seen."""
        with self._connections.transaction() as connection:
            found = _find_incident(connection, incident_id)
            connection.execute(
                "UPDATE incidents SET acknowledged_at = ?, acknowledged_by = ? WHERE incident_id = ?",
                (at, to_unicode(by), found.incident_id),
            )
            _note_incident_change(connection, found.agent_id)

    @retry_on_conflict
    def review(self, incident_id: str, verdict: Review, *, at: float | None = None, by: str = "") -> None:
        """Store whether an incident was right or a false alarm. An empty verdict removes the review.

        It also decides whether a baseline may learn from the run of the incident.
        """
        with self._connections.transaction() as connection:
            found = _find_incident(connection, incident_id)
            connection.execute(
                "UPDATE incidents SET review = ?, reviewed_at = ?, reviewed_by = ? WHERE incident_id = ?",
                (verdict, at, to_unicode(by), found.incident_id),
            )
            _note_incident_change(connection, found.agent_id)
            (run,) = connection.execute(
                "SELECT run FROM incidents WHERE incident_id = ?", (found.incident_id,)
            ).fetchone()
            connection.execute(UPDATE_INCIDENT_TOTALS, (run,))

    @retry_on_conflict
    def mute(self, mute: Mute) -> None:
        """Send no alerts of a detector for an agent until a time, replacing an earlier mute."""
        with self._connections.transaction() as connection:
            connection.execute(
                "INSERT INTO mutes (agent_id, detector, until, set_at, up_to_severity, version)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (agent_id, detector) DO UPDATE SET"
                " until = excluded.until, set_at = excluded.set_at,"
                " up_to_severity = excluded.up_to_severity, version = excluded.version",
                (
                    *(mute.agent_id, mute.detector, mute.until, mute.set_at),
                    *(mute.up_to and mute.up_to.rank, mute.version),
                ),
            )
            _note_incident_change(connection, mute.agent_id)

    @retry_on_conflict
    def unmute(self, agent_id: str, detector: str) -> bool:
        """Send alerts again. Returns whether the detector was muted."""
        with self._connections.transaction() as connection:
            deleted = connection.execute(
                "DELETE FROM mutes WHERE agent_id = ? AND detector = ?", (agent_id, detector)
            )
            _note_incident_change(connection, agent_id)
            return deleted.rowcount > 0

    def list_mutes(self, *, at: float) -> list[Mute]:
        """Return the mutes in force at a time."""
        with self._connections.reading() as connection:
            return read_mutes(connection, at=at)

    def list_thresholds(self, agent_id: str | None = None) -> list[Threshold]:
        """Return the changed thresholds in force, newest last."""
        where = Conditions().add("agent_id = ?", agent_id)
        query = (
            "SELECT agent_id, detector, min_score, incident_id, set_at, kind, subject, max_repeats"
            f" FROM thresholds{where}"
            " ORDER BY set_at, agent_id, detector, incident_id"
        )
        with self._connections.reading() as connection:
            rows = connection.execute(query, where.values)
            return [Threshold(**dict(zip(Threshold.__struct_fields__, row, strict=True))) for row in rows]

    @retry_on_conflict
    def save_threshold(self, threshold: Threshold) -> None:
        """Store a changed threshold of a detector for an agent; one per incident."""
        row = (
            *(threshold.agent_id, threshold.detector, threshold.incident_id),
            *(threshold.min_score, threshold.set_at),
            *(to_unicode(threshold.kind), to_unicode(threshold.subject), threshold.max_repeats),
        )
        with self._connections.transaction() as connection:
            connection.execute(
                "INSERT INTO thresholds (agent_id, detector, incident_id, min_score, set_at, kind, subject,"
                " max_repeats) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (agent_id, detector, incident_id) DO UPDATE SET"
                " min_score = excluded.min_score, set_at = excluded.set_at, kind = excluded.kind,"
                " subject = excluded.subject, max_repeats = excluded.max_repeats",
                row,
            )

    @retry_on_conflict
    def drop_threshold(self, incident_id: str) -> bool:
        """Undo the change of threshold that an incident caused. Returns whether there was one."""
        with self._connections.transaction() as connection:
            deleted = connection.execute("DELETE FROM thresholds WHERE incident_id = ?", (incident_id,))
            return deleted.rowcount > 0


def read_mutes(connection: Connection, *, at: float) -> list[Mute]:
    """Return the mutes in force at a time, by agent and detector."""
    query = (
        "SELECT agent_id, detector, until, set_at, up_to_severity, version FROM mutes"
        " WHERE until > ? ORDER BY agent_id, detector"
    )
    return [
        Mute(
            agent_id=agent_id,
            detector=detector,
            until=until,
            set_at=set_at,
            up_to=None if up_to is None else SEVERITIES[up_to],
            version=version,
        )
        for agent_id, detector, until, set_at, up_to, version in connection.execute(query, (at,))
    ]


def _note_incident_change(connection: Connection, agent_id: str) -> None:
    row = connection.execute("SELECT id FROM agents WHERE agent_id = ?", (to_unicode(agent_id),)).fetchone()
    note_changes(connection, [("incidents", None, row and row[0])])


def _find_incident(connection: Connection, incident_id: str) -> Incident:
    prefix = to_unicode(incident_id)
    query = f"{_SELECT_INCIDENTS.format(index='')} WHERE i.incident_id = ?"
    row = connection.execute(query, (prefix,)).fetchone()
    if row is None:
        count, first = find_by_prefix(connection, "incidents", "incident_id", prefix) if prefix else (0, [])
        if count != 1:
            raise NotFoundError(describe_ambiguous_id("incident", prefix, count, first))
        row = connection.execute(query, (first[0],)).fetchone()
    return _to_incident(row)


def _to_incident(row: tuple[Any, ...]) -> Incident:
    fields = dict(zip(_INCIDENT_FIELDS, row[:-1], strict=True))
    evidence = decode_evidence(row[-1])
    fields |= {"severity": SEVERITIES[fields["severity"]], "hard_limit": bool(fields["hard_limit"])}
    return Incident(**fields, **structs.asdict(evidence))


def _list_interventions(incident: Incident) -> list[StoredIntervention]:
    return [
        StoredIntervention(
            incident_id=incident.incident_id,
            agent_id=incident.agent_id,
            run_id=incident.run_id,
            kind=incident.kind,
            detector=incident.detector,
            intervention=intervention,
            review=incident.review,
        )
        for intervention in reversed(incident.interventions)
    ]


# Alerts that wait to be sent: queued with their incident, leased by one sender at a time.

_FIELDS: Final = Delivery.__struct_fields__
_COLUMNS: Final = ", ".join(_FIELDS)
_ANY_DUE: Final = "SELECT 1 FROM outbox WHERE state = 'pending' AND next_at <= ? LIMIT 1"
_PLACEHOLDERS: Final = ", ".join("?" * len(_FIELDS))


class SQLOutbox(StorePart, Outbox):
    """An outbox in a database."""

    @retry_on_conflict
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

    @retry_if_rolled_back
    def claim_deliveries(
        self, *, lease_s: float, now: float | None = None, limit: int = 10
    ) -> list[Delivery]:
        """Return due alerts and lease them: no other process gets them until the lease has expired.

        Each claim counts as an attempt. Counting here and not when the result is recorded also counts a
        delivery that kills its sender.
        """
        # Called often, so it looks first, which takes no lock.
        with self._connections.reading() as connection:
            at: float = connection.dialect.read_clock(connection) if now is None else now
            if connection.execute(_ANY_DUE, (at,)).fetchone() is None:
                return []
        with self._connections.transaction() as connection:
            rows = connection.dialect.claim(connection, _COLUMNS, at, lease_s, limit)
        return [_to_delivery(row[1:]) for row in sorted(rows)]

    @retry_on_conflict
    def settle_delivery(
        self,
        delivery_id: str,
        state: DeliveryState,
        *,
        attempts: int | None = None,
        next_at: float = 0.0,
        error: str = "",
    ) -> bool:
        """Record the result of an attempt. `pending` with a later `next_at` schedules another one.

        Changes nothing and returns False when `attempts` is not the number of the latest attempt: the lease
        expired in the meantime, and another process has it.
        """
        where = Conditions().add("delivery_id = ?", delivery_id).add("attempts = ?", attempts)
        with self._connections.transaction() as connection:
            settled = connection.execute(
                f"UPDATE outbox SET state = ?, next_at = ?, error = ?{where}",
                (state, next_at, to_unicode(error), *where.values),
            )
            return bool(settled.rowcount)

    def list_deliveries(self, *, state: DeliveryState | None = None, limit: int = 50) -> list[Delivery]:
        """Return alerts with their state, newest first."""
        where = Conditions().add("state = ?", state)
        query = f"SELECT {_COLUMNS} FROM outbox{where} ORDER BY id DESC LIMIT ?"
        with self._connections.reading() as connection:
            return [_to_delivery(row) for row in connection.execute(query, (*where.values, limit))]


def _to_delivery(row: tuple[Any, ...]) -> Delivery:
    fields = dict(zip(_FIELDS, row, strict=True))
    return Delivery(**fields | {"severity": SEVERITIES[fields["severity"]]})
