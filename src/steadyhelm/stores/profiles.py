"""What completed tasks of one type have taken: sums per agent and type of task."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import math
import sqlite3
from typing import Final

from steadyhelm.decisions import TaskProfile
from steadyhelm.stores.conditions import Conditions, unicode
from steadyhelm.stores.keys import Keys

_FIELDS: Final = TaskProfile.__struct_fields__
_COUNTS: Final = ("tasks", "steps", "tokens")
_AMOUNTS: Final = ("cost_usd", "wall_s")
_MOST: Final = 2**53  # beyond it a sum is no longer exact, and would in the end leave SQLite's whole numbers
_ADDED: Final = ", ".join(
    (
        *(f"{name} = min({name} + excluded.{name}, {_MOST})" for name in _COUNTS),
        *(f"{name} = {name} + excluded.{name}" for name in _AMOUNTS),
    )
)
_REPLACED: Final = ", ".join(f"{name} = excluded.{name}" for name in (*_COUNTS, *_AMOUNTS))
_INSERTED: Final = """
    INSERT INTO task_profiles (agent, task_type, tasks, steps, tokens, cost_usd, wall_s)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agent, task_type) DO UPDATE SET """


def profiles(connection: sqlite3.Connection, agent_id: str | None) -> list[TaskProfile]:
    """Every profile, in the order of agent and type of task."""
    where = Conditions().add("a.agent_id = ?", agent_id)
    rows = connection.execute(
        "SELECT a.agent_id, p.task_type, p.tasks, p.steps, p.tokens, p.cost_usd, p.wall_s"
        f" FROM task_profiles p JOIN agents a ON a.id = p.agent{where} ORDER BY a.agent_id, p.task_type",
        where.values,
    )
    return [TaskProfile(**dict(zip(_FIELDS, row, strict=True))) for row in rows]


def save_profile(connection: sqlite3.Connection, keys: Keys, profile: TaskProfile) -> None:
    """Keep a profile in place of the one before it."""
    connection.execute(_INSERTED + _REPLACED, _row(connection, keys, profile))


def add_tasks(connection: sqlite3.Connection, keys: Keys, profile: TaskProfile) -> None:
    """Add what these tasks took to what is known."""
    connection.execute(_INSERTED + _ADDED, _row(connection, keys, profile))


def _row(connection: sqlite3.Connection, keys: Keys, profile: TaskProfile) -> tuple[object, ...]:
    """The profile with every number in range: one odd run must not cost a batch."""
    return (
        keys.agent(connection, unicode(profile.agent_id)),
        unicode(profile.task_type),
        *(int(_in_range(getattr(profile, name))) for name in _COUNTS),
        *(float(_in_range(getattr(profile, name))) for name in _AMOUNTS),
    )


def _in_range(value: float) -> float:
    return min(value, _MOST) if 0 <= value < math.inf else 0
