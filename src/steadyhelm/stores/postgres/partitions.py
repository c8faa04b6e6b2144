"""Partitions by the week in which runs were inserted: made ahead, and dropped with all runs of a week."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from typing import TYPE_CHECKING, Final

from psycopg import errors

from steadyhelm.stores.postgres.schema import BUCKET_BITS, BUCKET_S, FIRST_BUCKET, PARTITIONED

if TYPE_CHECKING:
    from steadyhelm.stores.postgres.connection import PostgresConnection

_MADE_AHEAD: Final = 4
_LOCK: Final = 0x53544460
_NOW: Final = f"SELECT floor(extract(epoch FROM now()) / {BUCKET_S})::bigint - {FIRST_BUCKET}"
_LIST: Final = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass(?)"""


def read_bucket(connection: "PostgresConnection") -> int:
    """Return the bucket of runs that are inserted now."""
    return int(connection.execute(_NOW).fetchone()[0])


def list_buckets(connection: "PostgresConnection", table: str) -> set[int]:
    """Return the buckets for which a table has a partition."""
    names = [name for (name,) in connection.execute(_LIST, (table,))]
    return {int(name.rpartition("_")[2]) for name in names if name.rpartition("_")[2].isdigit()}


def find_range(bucket: int) -> tuple[int, int]:
    """Return the first row id of a bucket, and the first of the next one."""
    return bucket << BUCKET_BITS, bucket + 1 << BUCKET_BITS


def make_partitions(connection: "PostgresConnection") -> None:
    """Make the partitions of this week and the next ones where they are missing.

    Where rows of a week are in the partition for all others already, they stay there.
    """
    now = read_bucket(connection)
    wanted = set(range(now, now + _MADE_AHEAD + 1))
    if all(wanted <= list_buckets(connection, table) for table in PARTITIONED):
        return
    for table in PARTITIONED:
        for bucket in sorted(wanted - list_buckets(connection, table)):
            try:
                with connection.raw.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
                    make_partition(connection, table, bucket)
            except (errors.CheckViolation, errors.LockNotAvailable, errors.DuplicateTable):
                continue
            except errors.InsufficientPrivilege:
                # Another role owns the tables, and makes them; rows have a place until then.
                return


def make_partition(connection: "PostgresConnection", table: str, bucket: int) -> None:
    """Make the partition of a week where it is missing."""
    first, end = find_range(bucket)
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {table}_{bucket} PARTITION OF {table}"
        f" FOR VALUES FROM ({first}) TO ({end})"
    )


def format_bucket(started_at: str, latest: int) -> str:
    """Return SQL for the bucket of a run that began at a time, no later than the latest one.

    >>> format_bucket("r.started_at", 351)
    'max(0, min(351, CAST(r.started_at / 604800 AS INTEGER) - 2600))'
    """
    return f"max(0, min({latest}, CAST({started_at} / {BUCKET_S} AS INTEGER) - {FIRST_BUCKET}))"


def drop_partition(connection: "PostgresConnection", table: str, bucket: int) -> bool:
    """Drop the partition of a week. Returns False when it is in use or not ours: a later upkeep may."""
    try:
        connection.execute(f"DROP TABLE IF EXISTS {table}_{bucket}")
    except (errors.LockNotAvailable, errors.InsufficientPrivilege):
        return False
    return True
