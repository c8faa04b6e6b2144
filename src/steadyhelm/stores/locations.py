"""Where a database is: a file, or a database of a PostgreSQL server."""

import os
import re
from pathlib import Path
from typing import Final

from msgspec import Struct

from steadyhelm.environment import get_home
from steadyhelm.errors import SettingsError

_SCHEME: Final = re.compile(r"postgres(?:ql)?:/", re.IGNORECASE)
_OTHER_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_SECRET_PARAMETER: Final = re.compile(
    r"(?<=[?&])(?:password|sslpassword|passfile|sslkey)=[^&]*&?", re.IGNORECASE
)
_DIGEST_CHARS: Final = 16


class DatabaseLocation(Struct, frozen=True):
    """The location of a database. As text, it is safe to print: an address has no password.

    >>> str(DatabaseLocation("postgresql://worker:secret@db.example/agents"))
    'postgresql://worker@db.example/agents'

    Args:
        where: The path of a SQLite file, or an address that begins with `postgresql://`.
    """

    where: str

    def __str__(self) -> str:
        return hide_password(self.where) if self.is_server else self.where

    @property
    def is_server(self) -> bool:
        """Whether it is the address of a server."""
        return is_address(self.where)

    @property
    def path(self) -> Path:
        """The path of the file. Raises SettingsError for the address of a server."""
        if self.is_server:
            raise SettingsError(f"This works with a SQLite file only, not with {self}.")
        return Path(self.where).expanduser()

    @property
    def journal_path(self) -> Path:
        """The path beside which records wait until they are stored.

        It is the file itself, or one in Steadyhelm's own folder, with a name derived from the address without
        its password.
        """
        if not self.is_server:
            return self.path.absolute()
        from hashlib import blake2b  # noqa: PLC0415 - a hook with a file does without

        digest = blake2b(str(self).encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_CHARS]
        return Path(get_home()).absolute() / "journals" / digest

    def may_exist(self) -> bool:
        """Return whether the file exists; a server is asked only when it is opened."""
        return self.is_server or self.path.exists()

    def to_absolute(self) -> "DatabaseLocation":
        """Return the location in a form that does not depend on the working directory."""
        return self if self.is_server else DatabaseLocation(str(self.path.absolute()))


def is_address(where: str | os.PathLike[str]) -> bool:
    """Return whether this is the address of a server.

    Raises SettingsError for one that went through Path, and for what is no path either.
    """
    text = os.fspath(where)
    found = _SCHEME.match(text)
    if not found and (_OTHER_SCHEME.match(text) or "\0" in text):
        raise SettingsError(
            "db must be the path of a SQLite file, or an address that begins with postgresql://, "
            f"got {hide_password(text)!r}."
        )
    if found and not text.startswith("/", found.end()):
        raise SettingsError(
            f"Give the address of a database as text, not as a path: {hide_password(text)!r}."
        )
    return found is not None


def hide_password(address: str) -> str:
    """Return the address of a database without the passwords in it.

    >>> hide_password("postgresql://worker@/agents?host=/run/db&password=x&sslmode=require")
    'postgresql://worker@/agents?host=/run/db&sslmode=require'
    """
    scheme, slashes, rest = address.partition("/")
    login, at, host = rest.rpartition("@")
    user = login.lstrip("/").partition(":")[0]
    shown = f"{scheme}{slashes}{'/' if login.startswith('/') else ''}{user}{at}{host}" if at else address
    return _SECRET_PARAMETER.sub("", shown).rstrip("?&")
