"""Open a database file: recognise it before touching it, create it, migrate it."""

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from steadyhelm.errors import BrokenStoreError, NewerStoreError, SettingsError, StoreError
from steadyhelm.stores.schema import APPLICATION_ID, MIGRATIONS, MIGRATIONS_TABLE, Migration
from steadyhelm.stores.tracked_connections import TrackedConnection, connect

Synchronous = Literal["NORMAL", "FULL"]
SYNCHRONOUS: Final = ("NORMAL", "FULL")

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
_JOURNAL_LIMIT_BYTES: Final = 32 << 20
_CHECKPOINT_PAGES: Final = 4000
_CACHE_KIB: Final = 8192
_OLDEST_SQLITE: Final = (3, 35, 0)


def open_for_reading(path: Path, *, timeout_s: float) -> TrackedConnection:
    """Return a connection that cannot change anything."""
    # Where no log can be created, a file can only be read as one that no process writes.
    immutable = not os.access(path.parent, os.W_OK) and not _has_log(path)
    connection = connect(path, "immutable=1" if immutable else "mode=ro", timeout_s)
    connection.execute("PRAGMA query_only = 1")
    return connection


def open_for_writing(path: Path, *, synchronous: Synchronous, timeout_s: float) -> TrackedConnection:
    """Return a connection that can write. It does not wait for other processes: see `Connections`."""
    connection = connect(path, "mode=rw", timeout_s)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_LIMIT_BYTES}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        # Savepoints are kept in memory: in a file they make writing a fifth slower.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA busy_timeout = 0")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def read_applied_migrations(path: Path, *, migrations: Sequence[Migration] = MIGRATIONS) -> list[str]:
    """Return the names of the migrations already applied to an existing file. Raises unless it is ours.

    Writes nothing, not even next to the file.
    """
    if path.is_dir():
        raise StoreError(f"The database {path} is a folder. Name a file in it.")
    try:
        if path.stat().st_size == 0:
            return []
        applied = _select_migrations(path)
    except OSError as exc:
        raise StoreError(f"The database {path} cannot be read: {exc}. Check its permissions.") from exc
    except sqlite3.Error as exc:
        raise to_store_error(path, exc) from exc
    known = {migration.name for migration in migrations}
    if unknown := [name for name in applied if name not in known]:
        raise NewerStoreError(
            f"The database {path} was written by a newer Steadyhelm (step {unknown[0]!r} is not known here). "
            f"It was left as it is. Upgrade steadyhelm, or choose another file with the setting db."
        )
    return applied


def _select_migrations(path: Path) -> list[str]:
    try:
        return _select_migrations_once(path)
    except (sqlite3.Error, BrokenStoreError) as exc:
        if isinstance(exc, sqlite3.Error) and _get_primary_code(exc) not in _DAMAGED_CODES:
            raise
        # SQLite takes one read that fails for damage: only what is damaged twice is.
        return _select_migrations_once(path)


def _select_migrations_once(path: Path) -> list[str]:
    # Without a log next to it nothing is pending, and opening it as immutable leaves no files behind.
    reader = connect(path, "mode=ro" if _has_log(path) else "immutable=1", 1.0)
    with contextlib.closing(reader):
        if reader.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise build_broken_store_error(path, "is a database, but not one of Steadyhelm's")
        try:
            rows = reader.execute("SELECT name FROM migrations ORDER BY rowid").fetchall()
        except sqlite3.OperationalError as exc:
            if _get_primary_code(exc) != sqlite3.SQLITE_ERROR:
                raise
            raise build_broken_store_error(path, f"lacks the record of its own schema ({exc})") from exc
    return [name for (name,) in rows]


def _has_log(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def find_missing_migrations(path: Path) -> list[str]:
    """Return the migrations that an existing file lacks; raises StoreError when it is empty or not ours."""
    applied = read_applied_migrations(path)
    if not applied:
        raise StoreError(f"The database {path} is empty: nothing has been written to it yet.")
    return [migration.name for migration in MIGRATIONS if migration.name not in applied]


def require_current(path: Path) -> None:
    """Raise StoreError unless the file exists and has every migration."""
    if not path.exists():
        raise StoreError(
            f"There is no database at {path}. Run an agent with Steadyhelm first, or check the setting db."
        )
    missing = find_missing_migrations(path)
    if missing:
        raise StoreError(
            f"The database {path} was written by an older Steadyhelm and lacks the step {missing[0]!r}. "
            "`steadyhelm db migrate` makes a backup and brings it up to date; so does opening it for writing."
        )


def prepare(path: Path, *, migrations: Sequence[Migration] = MIGRATIONS, timeout_s: float = 5.0) -> None:
    """Create the file when it is missing; copy and migrate it when it is older."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreError(
            f"This Python comes with SQLite {sqlite3.sqlite_version}; Steadyhelm needs 3.35 or newer. "
            f"Use a newer build of Python."
        )
    with translate_errors(path):
        if not _exists(path):
            _create(path, migrations)
        applied = read_applied_migrations(path, migrations=migrations)
        missing = [migration for migration in migrations if migration.name not in applied]
        if not missing:
            return
        with contextlib.closing(connect(path, "mode=rw", timeout_s)) as connection:
            if applied:
                copy_database(connection, _choose_backup_path(path, missing[0].name))
            migrate(connection, missing)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as exc:  # the folder of another user
        raise StoreError(
            f"The database {path} cannot be reached: {exc}. Choose another place with the setting db."
        ) from exc


def _create(path: Path, migrations: Sequence[Migration]) -> None:
    """Create the file under another name and move it into place: no process ever opens half a database."""
    try:
        # `parents=True` would make the upper ones readable by everyone.
        for folder in reversed([it for it in path.parents if not it.exists()]):
            folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
    except (OSError, UnicodeError) as exc:  # no folder, no permission, or a name that the locale cannot write
        raise StoreError(
            f"The database {path} cannot be created: {exc}. Choose another place with the setting db."
        ) from exc
    try:
        with contextlib.closing(connect(fresh, "mode=rw", 1.0)) as connection:
            migrate(connection, migrations)
            connection.execute("PRAGMA journal_mode = WAL")
        with _lock_folder(path.parent):
            _move_into_place(fresh, path)
    except (OSError, sqlite3.Error) as exc:
        raise StoreError(f"The database {path} could not be created: {exc}. Check the disk.") from exc
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time create files there, where the system has such locks."""
    try:
        import fcntl  # noqa: PLC0415 - Windows has none
    except ImportError:  # pragma: no cover
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _move_into_place(fresh: Path, path: Path) -> None:
    if path.exists():
        return  # another process was faster, and its file is the same
    # The log of a database that was deleted would be taken for that of the new one.
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with contextlib.suppress(FileExistsError):  # another process was faster, and its file is the same
        _link_into_place(fresh, path)


def _link_into_place(fresh: Path, path: Path) -> None:
    """Give a file its name. Raises FileExistsError when another one has it."""
    try:
        path.hardlink_to(fresh)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no links.
        if path.exists():
            raise FileExistsError from None
        fresh.rename(path)


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Apply each migration that is missing, and record it in the same transaction."""
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


def _choose_backup_path(path: Path, step: str) -> Path:
    plain = path.with_name(f"{path.name}.before-{step}.bak")
    numbered = (plain.with_name(f"{plain.name}.{number}") for number in range(2, 1000))
    return next((name for name in (plain, *numbered) if not name.exists()), plain)


def copy_database(connection: sqlite3.Connection, path: Path) -> None:
    """Copy the whole database to a new file that only its owner can read.

    It gets its name when it is complete: an interrupted copy leaves no file of that name.
    """
    fresh = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    taken = StoreError(f"The backup {path} exists already. Choose another name, or remove it first.")
    if _exists(path):
        raise taken
    try:
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
        with contextlib.closing(connect(fresh, "mode=rw", 1.0)) as copy:
            connection.backup(copy)
        _link_into_place(fresh, path)
    except FileExistsError as exc:
        raise taken from exc
    except OSError as exc:
        raise StoreError(f"The backup {path} cannot be created: {exc.strerror or exc}.") from exc
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def validate_synchronous(value: str) -> Synchronous:
    """Return the setting. Raises SettingsError when it is not an allowed one."""
    if value == "NORMAL":
        return "NORMAL"
    if value == "FULL":
        return "FULL"
    raise SettingsError(f"synchronous must be one of {', '.join(SYNCHRONOUS)}, got {value!r}.")


def resolve_path(path: str | os.PathLike[str]) -> Path:
    """Return the file's absolute path.

    Raises SettingsError for a database in memory: each thread would have another one.
    Raises StoreError where the path leads from a folder that is gone, or from a home that nobody knows.
    """
    text = os.fspath(path)
    if text in ("", ":memory:"):
        raise SettingsError(f"db must name a file, got {text!r}.")
    try:
        return Path(text).expanduser().absolute()
    except (OSError, RuntimeError) as exc:
        raise StoreError(f"{text} has no place: {exc}. Set db to an absolute path.") from exc


# Translate SQLite's errors into ours.

_PRIMARY_CODE_MASK: Final = 0xFF
_DAMAGED_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PASSING_CODES: Final = (
    *_DAMAGED_CODES,  # of a file that is being created: a disk that reports errors
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
)
_PASSING_ERRNOS: Final = frozenset(
    getattr(errno, name)
    for name in (
        "EAGAIN",
        "EBUSY",
        "EDQUOT",
        "EINTR",
        "EIO",
        "EMFILE",
        "ENFILE",
        "ENOLCK",
        "ENOMEM",
        "ENOSPC",
        "ESTALE",
    )
    if hasattr(errno, name)
)
_MESSAGES: Final = {
    sqlite3.SQLITE_FULL: "could not be written: the disk is full. Make room, or move it (setting db)",
    sqlite3.SQLITE_BUSY: "is in use by another process that does not let go. Try again, or end that process",
    sqlite3.SQLITE_LOCKED: "is in use by another thread that does not let go. Try again",
    sqlite3.SQLITE_READONLY: "may only be read. Check the permissions of the file and of its folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened. Check that it exists, and the permissions of its folder",
    sqlite3.SQLITE_PERM: "cannot be opened. Check the permissions of the file",
    sqlite3.SQLITE_IOERR: "could not be read or written: the disk reports an error. Check the disk",
}


def may_pass(path: Path, error: StoreError) -> bool:
    """Return whether what keeps a file from being opened may be over soon: a full disk, too many open files.

    A folder in its place, missing permissions and a damaged file stay until a person changes something.
    """
    if isinstance(error, (BrokenStoreError, NewerStoreError)):
        return False
    cause = error.__cause__
    if isinstance(cause, OSError):
        return cause.errno in _PASSING_ERRNOS
    code = _get_primary_code(cause)
    if code == sqlite3.SQLITE_CANTOPEN:  # too many open files, or a file of somebody else
        return os.access(path, os.R_OK | os.W_OK) if path.is_file() else os.access(path.parent, os.W_OK)
    return code in _PASSING_CODES


def is_busy(exc: BaseException) -> bool:
    """Return whether another process has to let go of the database first."""
    return isinstance(exc, sqlite3.OperationalError) and _get_primary_code(exc) == sqlite3.SQLITE_BUSY


def _get_primary_code(exc: BaseException | None) -> int:
    code: int = getattr(exc, "sqlite_errorcode", 0)
    return code & _PRIMARY_CODE_MASK


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise a StoreError for every SQLite error about this file."""
    try:
        yield
    except sqlite3.Error as exc:
        raise to_store_error(path, exc) from exc


def to_store_error(path: Path, exc: sqlite3.Error) -> StoreError:
    """Return the error to raise for one of SQLite's."""
    code = _get_primary_code(exc)
    if code in _DAMAGED_CODES:
        return build_broken_store_error(path, f"is damaged or is not a database ({exc})")
    message = _MESSAGES.get(code)
    if message is None:
        return StoreError(f"The database {path} could not be used: {exc}.")
    return StoreError(f"The database {path} {message} ({exc}).")


def build_broken_store_error(path: Path, what: str) -> BrokenStoreError:
    """Return the error for a file that must not be written to."""
    return BrokenStoreError(
        f"The file {path} {what}. It was left as it is. Move it away to start anew, restore a backup, "
        f"or choose another file with the setting db."
    )
