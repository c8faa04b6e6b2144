"""Open a PostgreSQL database: recognise what is in it before touching it, create the tables, migrate them."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from steadyhelm.errors import NewerStoreError, StoreError
from steadyhelm.stores.postgres.errors import translate_errors
from steadyhelm.stores.postgres.partitions import make_partitions
from steadyhelm.stores.postgres.schema import MIGRATIONS, MIGRATIONS_TABLE
from steadyhelm.stores.schema import Migration

if TYPE_CHECKING:
    from steadyhelm.stores.postgres.connection import PostgresConnection
    from steadyhelm.stores.postgres.connections import PostgresConnections

_MIGRATION_LOCK: Final = 0x53544459
"""One process at a time creates and migrates tables."""
_OLDEST_SERVER: Final = 140_000


def prepare(connections: "PostgresConnections", *, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Create the tables where they are missing; migrate them where they are older."""
    with translate_errors(connections.url), connections.use_own_connection() as connection:
        _require_version(connections, connection)
        applied = read_applied_migrations(connections, connection, migrations)
        if any(migration.name not in applied for migration in migrations):
            _migrate(connections, connection, migrations)
        make_partitions(connection)


def require_current(connections: "PostgresConnections") -> None:
    """Raise StoreError unless the tables are there and have every migration."""
    with translate_errors(connections.url), connections.use_own_connection(read_only=True) as connection:
        _require_version(connections, connection)
        applied = read_applied_migrations(connections, connection, MIGRATIONS)
    missing = [migration.name for migration in MIGRATIONS if migration.name not in applied]
    if not applied:
        raise StoreError(
            f"The database {connections.name} is empty: nothing has been written to it yet. "
            "Run an agent with Steadyhelm first, or check the setting db."
        )
    if missing:
        raise StoreError(
            f"The database {connections.name} was written by an older Steadyhelm and lacks the step "
            f"{missing[0]!r}. `steadyhelm db migrate` brings it up to date; so does opening it for writing. "
            "Make a copy with pg_dump before."
        )


def read_applied_migrations(
    connections: "PostgresConnections", connection: "PostgresConnection", migrations: Sequence[Migration]
) -> list[str]:
    """Return the names of the migrations already applied. Raises when a newer Steadyhelm applied some."""
    if connection.execute("SELECT to_regclass('migrations')").fetchone()[0] is None:
        return []
    applied = [name for (name,) in connection.execute("SELECT name FROM migrations ORDER BY id")]
    known = {migration.name for migration in migrations}
    if unknown := [name for name in applied if name not in known]:
        raise NewerStoreError(
            f"The database {connections.name} was written by a newer Steadyhelm (step {unknown[0]!r} is not "
            "known here). It was left as it is. Upgrade steadyhelm, or choose another with the setting db."
        )
    return applied


def _require_version(connections: "PostgresConnections", connection: "PostgresConnection") -> None:
    version = connection.raw.info.server_version
    if version < _OLDEST_SERVER:
        raise StoreError(
            f"The server of {connections.name} is PostgreSQL {version // 10_000}; Steadyhelm needs "
            f"{_OLDEST_SERVER // 10_000} or newer."
        )


def _migrate(
    connections: "PostgresConnections", connection: "PostgresConnection", migrations: Sequence[Migration]
) -> None:
    """Apply each migration that is missing, all of them in one transaction."""
    with connection.raw.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(?)", (_MIGRATION_LOCK,))
        (schema,) = connection.execute("SELECT current_schema()").fetchone()
        if schema is None:
            (wanted,) = connection.execute("SHOW search_path").fetchone()
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {wanted}")
        connection.execute(MIGRATIONS_TABLE)
        # Another process may have done it while we waited for the lock.
        applied = read_applied_migrations(connections, connection, migrations)
        for migration in migrations:
            if migration.name not in applied:
                for statement in migration.statements:
                    connection.execute(statement)
                connection.execute(
                    "INSERT INTO migrations (name, applied_at) VALUES (?, ?)", (migration.name, time.time())
                )
