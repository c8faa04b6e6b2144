"""Who may do what: the token file, sessions of the page, one-time codes, and personal API keys."""

import hashlib
import hmac
import os
import secrets
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from steadyhelm.errors import SettingsError
from steadyhelm.people import AccessKey, PeopleStore
from steadyhelm.server.records.common import Scope

COOKIE: Final = "steadyhelm_session"
SECRET_HEADER: Final = "steadyhelm-secret"  # noqa: S105 - a name
SESSION_S: Final = 12 * 3600.0
CODE_S: Final = 120.0
KEY_PREFIX: Final = "sh_"
ALL_SCOPES: Final[tuple[Scope, ...]] = ("read", "operate", "admin")
_TOKEN_BYTES: Final = 32
_SHOWN_PREFIX: Final = 9
_USE_NOTED_EVERY_S: Final = 60.0
_MOST_REVOKED: Final = 10_000
_PRIVATE: Final = 0o600
_OTHERS: Final = 0o077


class Identity(Struct, frozen=True, kw_only=True):
    """Who sent a request: named in the audit log."""

    by: str
    scopes: tuple[Scope, ...]
    expires_at: float | None = None
    is_cookie: bool = False

    def may(self, scope: Scope) -> bool:
        """Return whether this scope, or one above it, was given."""
        wanted = ALL_SCOPES.index(scope)
        return any(ALL_SCOPES.index(it) >= wanted for it in self.scopes)


def read_token(home: Path) -> str:
    """Return the token of this user's servers; make it when there is none. Only its owner may read it."""
    path = home / "server.token"
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags, _PRIVATE)
    except FileExistsError:
        return _read_existing(path, flags)
    with os.fdopen(made, "w", encoding="ascii") as file:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        file.write(token + "\n")
    return token


def _read_existing(path: Path, flags: int) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | flags)
    except OSError as exc:
        raise SettingsError(
            f"The token file {path} cannot be opened: {exc}. Delete it to get a new one."
        ) from exc
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        if os.fstat(descriptor).st_mode & _OTHERS and os.name == "posix":
            raise SettingsError(f"Others can read the token file {path}. Delete it to get a new one.")
        token = file.read(1000).strip()
    if len(token) < _TOKEN_BYTES:
        raise SettingsError(f"The token file {path} holds no token. Delete it to get a new one.")
    return token


def hash_key(key: str) -> bytes:
    """Return what is kept of a key: it is random, so that a plain hash is enough."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


class Access:
    """Recognises who sends a request.

    Sessions are signed with the token, so that they outlive a restart of the server; a new token ends them.

    Args:
        token: The token of the server.
        store: Has the API keys.
    """

    def __init__(self, token: str, store: PeopleStore) -> None:
        self._token = token.encode()
        self._store = store
        self._codes: dict[bytes, float] = {}
        self._revoked: dict[str, float] = {}
        self._noted: dict[int, float] = {}

    def make_code(self) -> str:
        """Return a code that signs in once, within two minutes."""
        code = secrets.token_urlsafe(_TOKEN_BYTES)
        self._codes[hash_key(code)] = time.time() + CODE_S
        return code

    def sign_in(self, token: str, code: str) -> tuple[Identity, str, str] | None:
        """Return an identity with its cookie and its secret; None when neither token nor code is right."""
        is_known = bool(token) and hmac.compare_digest(token.encode("utf-8", "replace"), self._token)
        if code and not is_known:
            until = self._codes.pop(hash_key(code), 0.0)
            is_known = until > time.time()
        if not is_known:
            return None
        expires_at = time.time() + SESSION_S
        name = f"{secrets.token_urlsafe(16)}.{int(expires_at)}"
        cookie = f"{name}.{self._sign('cookie', name)}"
        return self._to_identity(expires_at), cookie, self._sign("secret", name)

    def recognise_session(self, cookie: str, secret: str) -> Identity | None:
        """Return who has this cookie and this secret; None unless both are right."""
        name, _, signature = cookie.rpartition(".")
        expected = self._sign("cookie", name), self._sign("secret", name)
        is_right = _is_equal(signature, expected[0]) & _is_equal(secret, expected[1])
        expires = name.rpartition(".")[2]
        if not is_right or not expires.isdecimal() or int(expires) <= time.time() or name in self._revoked:
            return None
        return self._to_identity(float(expires))

    def sign_out(self, cookie: str) -> None:
        """End the session of a cookie."""
        now = time.time()
        self._revoked = {it: until for it, until in self._revoked.items() if until > now}
        if len(self._revoked) < _MOST_REVOKED:
            self._revoked[cookie.rpartition(".")[0]] = now + SESSION_S

    def recognise_token(self, given: str) -> Identity | None:
        """Return who has the server's own token; None unless it is right."""
        is_right = _is_equal(given, self._token.decode())
        return Identity(by="token", scopes=ALL_SCOPES) if is_right else None

    def recognise_key(self, given: str) -> Identity | None:
        """Return whose API key this is; None where it is no key. Reads the store."""
        if not given.startswith(KEY_PREFIX):
            return None
        digest, now = hash_key(given), time.time()
        for key in self._store.list_keys():
            if hmac.compare_digest(key.digest, digest):
                if key.expires_at is not None and key.expires_at <= now:
                    return None
                self._note_use(key, now)
                scopes = tuple(it for it in ALL_SCOPES if it in key.scopes)
                return Identity(by=f"key {key.name}", scopes=scopes, expires_at=key.expires_at)
        return None

    def make_key(
        self, name: str, scopes: tuple[Scope, ...], expires_at: float | None
    ) -> tuple[AccessKey, str]:
        """Store a new key; return it, and the secret that is shown once."""
        secret = KEY_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        key = AccessKey(
            name=name,
            prefix=secret[:_SHOWN_PREFIX],
            digest=hash_key(secret),
            scopes=scopes,
            created_at=time.time(),
            expires_at=expires_at,
        )
        return self._store.add_key(key), secret

    def _note_use(self, key: AccessKey, now: float) -> None:
        if now - self._noted.get(key.key_id, 0.0) > _USE_NOTED_EVERY_S:
            self._noted[key.key_id] = now
            self._store.note_key_used(key.key_id, at=now)

    def _to_identity(self, expires_at: float) -> Identity:
        return Identity(by="page", scopes=ALL_SCOPES, expires_at=expires_at, is_cookie=True)

    def _sign(self, purpose: str, name: str) -> str:
        content = f"{purpose}\0{name}".encode("utf-8", "replace")
        return hmac.new(self._token, content, hashlib.sha256).hexdigest()


def _is_equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())
