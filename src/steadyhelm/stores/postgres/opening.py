"""Connect to a PostgreSQL server, directly or through a pooler such as PgBouncer, and open its database.

Directly, what the store relies on is set once for a connection. A pooler refuses or drops these settings,
and may hand each transaction to another of its connections, so that none keeps settings, plans or locks:
behind it every transaction sets them for itself.

Opening recognises what is in a database before touching it, creates the tables and migrates them.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from steadyhelm.errors import NewerStoreError, StoreError
from steadyhelm.stores.postgres.errors import translate_errors
from steadyhelm.stores.postgres.partitions import make_partitions
from steadyhelm.stores.postgres.schema import MIGRATIONS, MIGRATIONS_TABLE, SCHEMA
from steadyhelm.stores.schema import Migration

if TYPE_CHECKING:
    from steadyhelm.stores.postgres.connection import PostgresConnection
    from steadyhelm.stores.postgres.connections import PostgresConnections


_SILENCE_S: Final = 30
"""How long a network may be silent, or a frozen client hold its locks, until the connection is lost."""
_REFUSED_BY_POOLER: Final = "unsupported startup parameter"
_READ_ONLY: Final = "default_transaction_read_only"


def build_session_settings(timeout_s: float, *, read_only: bool) -> dict[str, str]:
    """Return the settings that statements of the store rely on."""
    return {
        "search_path": SCHEMA,
        "lock_timeout": str(max(1, int(timeout_s * 1000))),
        "idle_in_transaction_session_timeout": str(_SILENCE_S * 1000),
        _READ_ONLY: "on" if read_only else "off",
        # Statements are short and come often: planning them for every core costs more than it gains.
        "jit": "off",
    }


def format_transaction_settings(session: Mapping[str, str]) -> str:
    """Return statements that set this for one transaction, which says itself whether it only reads.

    >>> format_transaction_settings({"search_path": "helm", "jit": "off"})
    'SET LOCAL search_path = helm; SET LOCAL jit = off'
    """
    return "; ".join(f"SET LOCAL {name} = {value}" for name, value in session.items() if name != _READ_ONLY)


def connect_directly(
    url: str, session: Mapping[str, str], timeout_s: float
) -> "psycopg.Connection[Any] | None":
    """Return a connection with these settings for all that it does; None where a pooler drops them."""
    chosen = str(conninfo_to_dict(url).get("options") or "")
    options = " ".join(f"-c {name}={value}" for name, value in session.items() if name not in chosen)
    network = _choose_network(url, timeout_s)
    try:
        raw = psycopg.connect(url, autocommit=True, options=f"{options} {chosen}".strip(), **network)
    except psycopg.OperationalError as exc:
        if _REFUSED_BY_POOLER in str(exc):
            return None
        raise
    found = raw.execute("SHOW search_path").fetchone()
    if found == (SCHEMA,) or "search_path" in chosen:
        return raw
    raw.close()
    return None


def connect_pooled(url: str, timeout_s: float) -> "psycopg.Connection[Any]":
    """Return a connection to a pooler, on which nothing is set and no plan is kept."""
    return psycopg.connect(url, autocommit=True, prepare_threshold=None, **_choose_network(url, timeout_s))


def _choose_network(url: str, timeout_s: float) -> dict[str, Any]:
    """Return what the address leaves open."""
    given = conninfo_to_dict(url)
    network = {
        "connect_timeout": max(2, round(timeout_s)),
        "keepalives_idle": _SILENCE_S,
        "tcp_user_timeout": _SILENCE_S * 1000,
        "application_name": "steadyhelm",
        "client_encoding": "UTF8",
    }
    return {name: value for name, value in network.items() if name not in given}


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
