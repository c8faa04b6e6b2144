"""Sinks of a stream's results. Each writes by key: a batch that is written twice changes nothing."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from steadyhelm.errors import MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
