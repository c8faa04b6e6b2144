"""The results of a stream, and the sinks that write them.

Each sink writes rows by key, so that a batch that is written twice changes nothing.
"""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from msgspec import Struct

from steadyhelm.engine.responses import Ending
from steadyhelm.engine.totals import Skipped
from steadyhelm.errors import MissingExtraError
from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.hostile_text import encode_safe_json
from steadyhelm.incidents import Incident

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ResultKind = Literal["finding", "incident", "run", "skipped", "unreadable"]
RESULT_COLUMNS: Final = (
    "agent_id string, run_id string, kind string, id string, version long, severity string, at double, "
    "body string"
)
"""What a result is in a frame. The first four columns are its key; of several versions the highest counts."""
_KEY: Final = ("agent_id", "run_id", "kind", "id")
_COLUMNS: Final = (*_KEY, "version", "severity", "at", "body")
# "C": keys are compared as bytes, whatever the language of the database.
_CREATE_TABLE: Final = """CREATE TABLE IF NOT EXISTS {table} (
    agent_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    severity text NOT NULL,
    at double precision NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (agent_id, run_id, kind, id)
)"""
_UPSERT: Final = """INSERT INTO {table} AS stored ({columns}) VALUES ({values})
ON CONFLICT (agent_id, run_id, kind, id) DO UPDATE SET
    version = excluded.version, severity = excluded.severity, at = excluded.at, body = excluded.body
WHERE excluded.version >= stored.version"""


class Result(Struct, frozen=True, kw_only=True, array_like=True):
    """One result; `body` is JSON."""

    agent_id: str
    run_id: str
    kind: ResultKind
    id: str
    version: int
    severity: str
    at: float
    body: str


def report_finding(run: RunInfo, event: TraceEvent, finding: DriftEvent, *, at_end: bool = False) -> Result:
    """Return a finding at an event; one about the run as a whole has an id of its own."""
    body = {
        "detector": finding.detector,
        "kind": finding.kind,
        "severity": finding.severity,
        "score": round(finding.score, 4),
        "message": finding.message,
        "suggested_action": finding.suggested_action,
        "event_id": event.event_id,
        "seq": event.seq,
        "evidence": [str(proof) for proof in finding.event_ids],
    }
    key = f"{event.event_id}/{finding.detector}" + ("/end" if at_end else "")
    return _make(run, "finding", key, event.seq, finding.severity, event.timestamp, body)


def report_incident(run: RunInfo, incident: Incident, seq: int) -> Result:
    """Return an incident as it is after the event at this place."""
    at, severity = incident.last_at, incident.severity
    return _make(run, "incident", incident.incident_id, seq, severity, at, incident.to_dict())


def report_end(
    run: RunInfo,
    ending: Ending,
    not_checked: dict[str, str],
    seq: int,
    *,
    action: str,
    tokens_saved: int | None,
) -> Result:
    """Return the summary of a run that has ended."""
    summary = ending.summary
    body = {
        "goal": run.goal,
        "version": run.version,
        "task_type": run.task_type,
        "started_at": summary.started_at,
        "ended_at": summary.ended_at,
        "events": summary.events,
        "tokens": summary.tokens,
        "tool_calls": summary.tool_calls,
        "errors": summary.errors,
        "had_incident": summary.had_incident,
        "action": action,
        "tokens_saved": tokens_saved,
        "not_checked": not_checked,
    }
    return _make(run, "run", run.run_id, seq, "", summary.ended_at, body)


def report_skipped(run: RunInfo, event: TraceEvent, skipped: Skipped) -> Result:
    """Return that an event was not judged, and why."""
    body = {"event_id": event.event_id, "seq": event.seq, "skipped": skipped}
    return _make(run, "skipped", f"{event.seq}/{skipped}", event.seq, "", event.timestamp, body)


def report_unreadable(agent_id: str, run_id: str, digest: str, reason: str) -> Result:
    """Return that a message could not be read, and why."""
    body = encode_safe_json({"reason": reason}).decode()
    return Result(
        agent_id=agent_id,
        run_id=run_id,
        kind="unreadable",
        id=digest,
        version=0,
        severity="",
        at=0.0,
        body=body,
    )


def _make(
    run: RunInfo, kind: ResultKind, key: str, version: int, severity: str, at: float, body: dict[str, Any]
) -> Result:
    return Result(
        agent_id=run.agent_id,
        run_id=run.run_id,
        kind=kind,
        id=key,
        version=version,
        severity=str(severity),
        at=at,
        body=encode_safe_json(body).decode(),
    )


class StreamSink(Protocol):
    """Where the results of a stream are written."""

    def write(self, results: "DataFrame", batch_id: int) -> None:
        """Write the results of a micro-batch; called again with the same batch after a crash."""
        ...


class ParquetSink:
    """Writes each micro-batch to a part of its own, which replaces what a crash left of it.

    Args:
        folder: A folder, or the address of an object store that Spark can write.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def write(self, results: "DataFrame", batch_id: int) -> None:
        """Write the part of this batch, in place of an earlier one."""
        results.write.mode("overwrite").parquet(f"{self._folder}/batch={batch_id:08d}")


def read_results(spark: "SparkSession", folder: str) -> "DataFrame":
    """Return the results that a `ParquetSink` wrote: the newest version of each."""
    newest = "max(struct(version, batch, severity, at, body)) AS newest"
    written = spark.read.option("basePath", folder).parquet(f"{folder}/batch=*")
    written.createOrReplaceTempView("steadyhelm_parts")
    keys = ", ".join(_KEY)
    query = f"SELECT {keys}, {newest} FROM steadyhelm_parts GROUP BY {keys}"  # noqa: S608 - constants
    return spark.sql(query).select(*_KEY, *(f"newest.{name}" for name in _COLUMNS[len(_KEY) :]))


class PostgresSink:
    """Writes results to a table by their key, each worker its own part.

    Args:
        dsn: The address of the database, as `postgresql://…`.
        table: The name of the table, which is made where it is missing.
    """

    def __init__(self, dsn: str, table: str = "steadyhelm_results") -> None:
        self._dsn = dsn
        self._table = table
        self._is_made = False

    def write(self, results: "DataFrame", batch_id: int) -> None:  # noqa: ARG002 - the key is enough
        """Insert what is new, and replace older versions."""
        if not self._is_made:
            _make_table(self._dsn, self._table)
            self._is_made = True
        results.foreachPartition(partial(_upsert, self._dsn, self._table))


def _make_table(dsn: str, table: str) -> None:
    psycopg = _import_psycopg()
    from psycopg import sql  # noqa: PLC0415 - an extra

    statement = sql.SQL(_CREATE_TABLE).format(table=sql.Identifier(table))
    with psycopg.connect(dsn) as connection:
        connection.execute(statement)


def _upsert(dsn: str, table: str, rows: Iterable[Any]) -> None:
    """Write the rows of one partition in one transaction, in the order of their keys."""
    psycopg = _import_psycopg()
    from psycopg import sql  # noqa: PLC0415 - an extra

    statement = sql.SQL(_UPSERT).format(
        table=sql.Identifier(table),
        columns=sql.SQL(", ").join(map(sql.Identifier, _COLUMNS)),
        values=sql.SQL(", ").join([sql.Placeholder()] * len(_COLUMNS)),
    )
    ordered = sorted(tuple(map(_make_storable, (row[name] for name in _COLUMNS))) for row in rows)
    if ordered:
        with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
            cursor.executemany(statement, ordered)


def _make_storable(value: Any) -> Any:
    """Return the value without NUL, which Postgres does not store: its visible sign instead."""
    return value.replace("\0", "\u2400") if isinstance(value, str) else value


def _import_psycopg() -> Any:
    try:
        import psycopg  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise MissingExtraError("Postgres sink", extra="postgres") from exc
    return psycopg
