"""Baselines, and the runs they may be learnt from."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from steadyhelm.baselines import BaselineStats
from steadyhelm.events import RunSummary
from steadyhelm.stores.conditions import Conditions, unicode
from steadyhelm.stores.keys import Keys

_AGENT: Final = "(SELECT id FROM agents WHERE agent_id = ?)"
_KEY: Final = f"agent = {_AGENT} AND version = ? AND task_type = ?"
_stats: Final = msgspec.msgpack.Decoder(BaselineStats, strict=False)
_summary: Final = msgspec.msgpack.Decoder(RunSummary, strict=False)

_Learnt = TypeVar("_Learnt")


def _key(agent_id: str, version: str, task_type: str) -> tuple[str, str, str]:
    return unicode(agent_id), unicode(version), unicode(task_type)


def save_baseline(
    connection: sqlite3.Connection, keys: Keys, baseline: BaselineStats, updated_at: float
) -> None:
    """Keep a baseline in place of the one before it."""
    agent = keys.agent(connection, unicode(baseline.agent_id))
    row = (
        agent,
        unicode(baseline.version),
        unicode(baseline.task_type),
        msgspec.msgpack.encode(baseline),
        updated_at,
    )
    connection.execute(
        "INSERT INTO baselines (agent, version, task_type, stats, updated_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (agent, version, task_type) DO UPDATE SET stats = excluded.stats,"
        " updated_at = excluded.updated_at",
        row,
    )


def get_baseline(
    connection: sqlite3.Connection, agent_id: str, version: str, task_type: str
) -> BaselineStats | None:
    """One baseline, or None when nothing was learnt since the last reset."""
    query = f"SELECT stats FROM baselines WHERE {_KEY} AND stats IS NOT NULL"
    row = connection.execute(query, _key(agent_id, version, task_type)).fetchone()
    return next(_readable(_stats, [row] if row else []), None)


def baselines(connection: sqlite3.Connection, agent_id: str | None) -> list[BaselineStats]:
    """Every baseline, in the order of agent, version and task type."""
    where = Conditions().require("b.stats IS NOT NULL").add("a.agent_id = ?", agent_id)
    rows = connection.execute(
        f"SELECT b.stats FROM baselines b JOIN agents a ON a.id = b.agent{where}"
        " ORDER BY a.agent_id, b.version, b.task_type",
        where.values,
    )
    return list(_readable(_stats, rows))


def reset_baseline(connection: sqlite3.Connection, agent_id: str, version: str, task_type: str) -> bool:
    """Forget a baseline, and mark the last run that may no longer teach it; whether there was one."""
    existed = get_baseline(connection, agent_id, version, task_type) is not None
    connection.execute(
        "INSERT INTO baselines (agent, version, task_type, updated_at, after_run)"
        " SELECT id, ?, ?, 0, (SELECT coalesce(max(id), 0) FROM runs) FROM agents WHERE agent_id = ?"
        " ON CONFLICT (agent, version, task_type) DO UPDATE SET stats = NULL, after_run = excluded.after_run",
        (*_key(agent_id, version, task_type)[1:], unicode(agent_id)),
    )
    return existed


def run_summaries(
    connection: sqlite3.Connection, agent_id: str, version: str, task_type: str, limit: int
) -> list[RunSummary]:
    """The newest runs that may teach, oldest first. Runs are numbered in the order they began."""
    key = _key(agent_id, version, task_type)
    query = (
        f"SELECT summary FROM runs WHERE {_KEY} AND teaches = 1"
        f" AND id > coalesce((SELECT after_run FROM baselines WHERE {_KEY}), 0) ORDER BY id DESC LIMIT ?"
    )
    rows = connection.execute(query, (*key, *key, limit)).fetchall()
    return list(_readable(_summary, reversed(rows)))


def unreadable(connection: sqlite3.Connection) -> int:
    """How many baselines and run summaries cannot be read back, and so teach nobody."""
    stored = connection.execute("SELECT stats FROM baselines WHERE stats IS NOT NULL").fetchall()
    taught = connection.execute("SELECT summary FROM runs WHERE summary IS NOT NULL").fetchall()
    readable = len(list(_readable(_stats, stored))) + len(list(_readable(_summary, taught)))
    return len(stored) + len(taught) - readable


def _readable(
    decoder: "msgspec.msgpack.Decoder[_Learnt]", rows: Iterable[tuple[Any, ...]]
) -> Iterator[_Learnt]:
    """What can be read of these; one damaged summary must not keep an agent from learning."""
    for (encoded,) in rows:
        try:
            yield decoder.decode(encoded)
        except msgspec.MsgspecError:
            continue
