"""Say in plain words what is wrong with a PostgreSQL database, never with its password."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import psycopg
from psycopg import errors

from steadyhelm.errors import SettingsError, StoreError
from steadyhelm.stores.locations import hide_password

_CONFLICTS: Final = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)
_LOST: Final = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)

UNSTORABLE_ERRORS: Final = (
    *(OverflowError, TypeError, ValueError),
    *(psycopg.DataError, psycopg.IntegrityError, psycopg.InterfaceError, psycopg.ProgrammingError),
    errors.ProgramLimitExceeded,  # a text that is too long for an index
)

_SECRET_OPTIONS: Final = ("password", "sslpassword", "passfile", "sslkey")


class ConflictError(StoreError):
    """Another process was in the way, or the connection was lost: the transaction may be tried again."""


class ConnectionLostError(ConflictError):
    """The connection was lost: whether the transaction was committed is not known."""


def find_secrets(url: str) -> list[str]:
    """Return what must not be shown: the password, as written and as meant."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return [url]
    found = [parts.password or "", unquote(parts.password or "")]
    found += [value for name, value in parse_qsl(parts.query) if name in _SECRET_OPTIONS]
    return sorted({it for it in found if it}, key=len, reverse=True)


def validate_url(url: str) -> str:
    """Return the address. Raises SettingsError when it is not one of PostgreSQL."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise SettingsError(f"db must be a file or an address that begins with postgresql://, got {url!r}.")
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error as exc:
        raise SettingsError(f"db is not an address of PostgreSQL: {_hide_secrets(url, exc)}.") from None
    return url


def _hide_secrets(url: str, exc: BaseException) -> str:
    text = " ".join(str(exc).split()).rstrip(".")
    for secret in find_secrets(url):
        text = text.replace(secret, "…")
    return text


def is_lost(exc: BaseException) -> bool:
    """Return whether the connection is gone, not the statement at fault."""
    if isinstance(exc, _LOST):
        return True
    return isinstance(exc, (psycopg.OperationalError, psycopg.InterfaceError)) and not getattr(
        exc, "sqlstate", None
    )


@contextmanager
def translate_errors(url: str) -> Iterator[None]:
    """Raise a StoreError for every error of PostgreSQL, without its parameters or passwords."""
    try:
        yield
    except psycopg.Error as exc:
        raise to_store_error(url, exc) from exc


def to_store_error(url: str, exc: psycopg.Error) -> StoreError:
    """Return the error to raise for one of PostgreSQL's."""
    name, words = f"The database {hide_password(url)}", _hide_secrets(url, exc)
    if isinstance(exc, _CONFLICTS):
        return ConflictError(f"{name} is in use by another process that was in the way. Try again ({words}).")
    what = _describe(exc, words)
    if what is not None:
        return StoreError(f"{name} {what} ({words}).")
    if is_lost(exc):
        return ConnectionLostError(f"{name} cannot be reached. Check that the server runs ({words}).")
    return StoreError(f"{name} could not be used: {words}.")


_BY_CLASS: Final[tuple[tuple[tuple[type[psycopg.Error], ...], str], ...]] = (
    (
        (errors.InvalidPassword, errors.InvalidAuthorizationSpecification),
        "refused the user or the password. Check both in the setting db",
    ),
    ((errors.InvalidCatalogName,), "does not exist on that server. Create it with createdb"),
    ((errors.TooManyConnections,), "has no connection left. Raise max_connections, or run fewer processes"),
    ((errors.DiskFull,), "could not be written: the disk of the server is full"),
    ((errors.InsufficientPrivilege,), "does not let this user do that. Ask its owner for the right"),
    ((errors.ReadOnlySqlTransaction,), "may only be read"),
    ((errors.UndefinedTable, errors.UndefinedColumn), "lacks a table or column of Steadyhelm"),
)
# Before a session exists there is only a text, and the server writes it in its own language.
_BY_WORDS: Final = (
    (
        ("no pg_hba.conf entry",),
        "does not let this user in from here, or not without encryption. Check sslmode and pg_hba.conf",
    ),
    (("password authentication failed", "no password supplied", "role"), _BY_CLASS[0][1]),
    (("does not exist",), _BY_CLASS[1][1]),
    (("too many clients", "remaining connection slots"), _BY_CLASS[2][1]),
)


# Said by the driver, before the server is asked anything.
_BY_WORDS_OF_DRIVER: Final = (
    (
        "server does not support SSL",
        "offers no encrypted connection. Turn on ssl in the server, or change sslmode in the setting db",
    ),
    ("certificate", "has a certificate that cannot be verified. Check sslrootcert in the setting db"),
)


def _describe(exc: psycopg.Error, words: str) -> str | None:
    for classes, what in _BY_CLASS:
        if isinstance(exc, classes):
            return what
    if not exc.sqlstate:
        for needles, what in _BY_WORDS:
            if "FATAL" in words and any(needle in words for needle in needles):
                return what
        return next((what for needle, what in _BY_WORDS_OF_DRIVER if needle in words), None)
    return None
