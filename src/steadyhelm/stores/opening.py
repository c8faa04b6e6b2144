"""Recognise a file before touching it, create it, and bring it up to date."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from steadyhelm.errors import NewerStoreError, SettingsError, StoreError
from steadyhelm.stores.faults import broken, translated, translation
from steadyhelm.stores.schema import APPLICATION_ID, MIGRATIONS, MIGRATIONS_TABLE, Migration

Synchronous = Literal["NORMAL", "FULL"]
SYNCHRONOUS: Final = ("NORMAL", "FULL")

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
_JOURNAL_LIMIT: Final = 32 << 20
_CHECKPOINT_PAGES: Final = 4000
_CACHE_KIB: Final = 8192
_OLDEST_SQLITE: Final = (3, 35, 0)


def read_only_connection(path: Path, *, timeout_s: float) -> sqlite3.Connection:
    """A connection that cannot change anything."""
    # Beside a log nobody can create, only a file that nobody writes can be read.
    frozen = not os.access(path.parent, os.W_OK) and not _has_log(path)
    connection = _connection(path, "immutable=1" if frozen else "mode=ro", timeout_s)
    connection.execute("PRAGMA query_only = 1")
    return connection


def writing_connection(path: Path, *, synchronous: Synchronous, timeout_s: float) -> sqlite3.Connection:
    """A connection for the one who writes."""
    connection = _connection(path, "mode=rw", timeout_s)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_LIMIT}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        # What a savepoint puts aside stays in memory: in a file it costs a fifth of writing.
        connection.execute("PRAGMA temp_store = MEMORY")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _connection(path: Path, how: str, timeout_s: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.as_uri()}?{how}", uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False
    )


def require_ours(path: Path, *, migrations: Sequence[Migration] = MIGRATIONS) -> list[str]:
    """The names of the steps already applied to an existing file; raises unless it is one of ours.

    Nothing is written, not even beside the file.
    """
    if path.is_dir():
        raise StoreError(f"The database {path} is a folder. Name a file in it.")
    try:
        if path.stat().st_size == 0:
            return []
        applied = _applied_steps(path)
    except OSError as exc:
        raise StoreError(f"The database {path} cannot be looked at: {exc}. Check its permissions.") from exc
    except sqlite3.Error as exc:
        raise translation(path, exc) from exc
    known = {migration.name for migration in migrations}
    if unknown := [name for name in applied if name not in known]:
        raise NewerStoreError(
            f"The database {path} was written by a newer Steadyhelm (step {unknown[0]!r} is not known here). "
            f"It was left as it is. Upgrade steadyhelm, or choose another file with the setting db_path."
        )
    return applied


def _applied_steps(path: Path) -> list[str]:
    # Without a log beside it nothing is pending, and an immutable look leaves no files behind.
    look = _connection(path, "mode=ro" if _has_log(path) else "immutable=1", 1.0)
    with contextlib.closing(look):
        if look.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise broken(path, "is a database, but not one of Steadyhelm's")
        try:
            rows = look.execute("SELECT name FROM migrations ORDER BY rowid").fetchall()
        except sqlite3.OperationalError as exc:
            raise broken(path, f"lacks the record of its own schema ({exc})") from exc
    return [name for (name,) in rows]


def _has_log(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def prepare(path: Path, *, migrations: Sequence[Migration] = MIGRATIONS, timeout_s: float = 5.0) -> None:
    """Make sure that there is a file of ours, brought up to date, with a backup of what it was before."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreError(
            f"This Python comes with SQLite {sqlite3.sqlite_version}; Steadyhelm needs 3.35 or newer. "
            f"Use a newer build of Python."
        )
    with translated(path):
        if not path.exists():
            _create(path, migrations)
        applied = require_ours(path, migrations=migrations)
        missing = [migration for migration in migrations if migration.name not in applied]
        if not missing:
            return
        with contextlib.closing(_connection(path, "mode=rw", timeout_s)) as connection:
            if applied:
                copy_to(connection, _free_name(path, missing[0].name))
            migrate(connection, missing)


def _create(path: Path, migrations: Sequence[Migration]) -> None:
    """Make the file elsewhere and put it in place whole, so that nobody ever meets half a database."""
    try:
        # `parents=True` would leave the upper ones open to everybody.
        for folder in reversed([it for it in path.parents if not it.exists()]):
            folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
    except OSError as exc:
        raise StoreError(
            f"The database {path} cannot be created: {exc}. Choose another place with the setting db_path."
        ) from exc
    try:
        with contextlib.closing(_connection(fresh, "mode=rw", 1.0)) as connection:
            migrate(connection, migrations)
            connection.execute("PRAGMA journal_mode = WAL")
        _put_in_place(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _put_in_place(fresh: Path, path: Path) -> None:
    try:
        path.hardlink_to(fresh)
    except FileExistsError:
        return  # another process was faster, and its file is as good as ours
    except OSError:
        # Some file systems know no links.
        if not path.exists():
            fresh.rename(path)


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Apply each step that has not been applied, together with the record that it was."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    for migration in migrations:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(MIGRATIONS_TABLE)
            # Another process may have done it while we waited for the lock.
            if not connection.execute(
                "SELECT 1 FROM migrations WHERE name = ?", (migration.name,)
            ).fetchone():
                for statement in migration.statements:
                    connection.execute(statement)
                connection.execute("INSERT INTO migrations VALUES (?, ?)", (migration.name, time.time()))
                (count,) = connection.execute("SELECT count(*) FROM migrations").fetchone()
                connection.execute(f"PRAGMA user_version = {count}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _free_name(path: Path, step: str) -> Path:
    plain = path.with_name(f"{path.name}.before-{step}.bak")
    numbered = (plain.with_name(f"{plain.name}.{number}") for number in range(2, 1000))
    return next((name for name in (plain, *numbered) if not name.exists()), plain)


def copy_to(connection: sqlite3.Connection, path: Path) -> None:
    """Copy the whole database to a new file that only its owner can read."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
    except FileExistsError as exc:
        raise StoreError(
            f"The backup {path} exists already. Choose another name, or remove it first."
        ) from exc
    except OSError as exc:
        raise StoreError(f"The backup {path} cannot be created: {exc}.") from exc
    try:
        with contextlib.closing(_connection(path, "mode=rw", 1.0)) as copy:
            connection.backup(copy)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def checked_synchronous(value: str) -> Synchronous:
    """The setting, if it is one SQLite and we agree on."""
    if value == "NORMAL":
        return "NORMAL"
    if value == "FULL":
        return "FULL"
    raise SettingsError(f"synchronous must be one of {', '.join(SYNCHRONOUS)}, got {value!r}.")


def checked_path(path: str | os.PathLike[str]) -> Path:
    """The file's absolute path; a database in memory would not outlive the thread that reads it."""
    text = os.fspath(path)
    if text in ("", ":memory:"):
        raise SettingsError(f"db_path must name a file, got {text!r}.")
    return Path(text).expanduser().absolute()
