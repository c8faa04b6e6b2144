"""Connect to a PostgreSQL server, directly or through a pooler such as PgBouncer.

Directly, what the store relies on is set once for a connection. A pooler refuses or drops these settings,
and may hand each transaction to another of its connections, so that none keeps settings, plans or locks:
behind it every transaction sets them for itself.
"""

from collections.abc import Mapping
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from steadyhelm.stores.postgres.schema import SCHEMA

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
