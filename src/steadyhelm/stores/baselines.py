"""Baselines of agents and profiles of task types, with the runs they are learnt from."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import math
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from steadyhelm.baselines import BaselineStats
from steadyhelm.decisions import TaskProfile
from steadyhelm.events import RunSummary
from steadyhelm.sink import PinnedBaseline, to_unicode
from steadyhelm.store import BaselineStore
from steadyhelm.stores.database import (
    Connection,
    StorePart,
    note_changes,
    retry_if_rolled_back,
    retry_on_conflict,
)
from steadyhelm.stores.sql import AGENT_ROW_ID, Conditions

_ONE_BASELINE: Final = f"agent = {AGENT_ROW_ID} AND version = ? AND task_type = ?"
_baseline_decoder: Final = msgspec.msgpack.Decoder(BaselineStats, strict=False)
_summary_decoder: Final = msgspec.msgpack.Decoder(RunSummary, strict=False)

_PROFILE_FIELDS: Final = TaskProfile.__struct_fields__
_COUNTS: Final = ("tasks", "steps", "tokens")
_AMOUNTS: Final = ("cost_usd", "wall_s")
# Beyond it a sum is no longer exact, and would in the end exceed the integers of a column.
_MAX_SUM: Final = 2**53
_INSERT_PROFILE: Final = """
    INSERT INTO task_profiles (agent, task_type, tasks, steps, tokens, cost_usd, wall_s)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agent, task_type) DO UPDATE SET """
_OR_REPLACE: Final = ", ".join(f"{name} = excluded.{name}" for name in (*_COUNTS, *_AMOUNTS))
_OR_ADD: Final = ", ".join(
    (
        *(f"{name} = min(task_profiles.{name} + excluded.{name}, {_MAX_SUM})" for name in _COUNTS),
        *(f"{name} = task_profiles.{name} + excluded.{name}" for name in _AMOUNTS),
    )
)

_Decoded = TypeVar("_Decoded")


class SQLBaselines(StorePart, BaselineStore):
    """A baseline store in a database."""

    def get_baseline(self, agent_id: str, version: str = "", task_type: str = "") -> BaselineStats | None:
        """Return an agent's baseline, or None when nothing was learnt since the last reset."""
        query = f"SELECT stats FROM baselines WHERE {_ONE_BASELINE} AND stats IS NOT NULL"
        with self._connections.reading() as connection:
            row = connection.execute(query, _build_key(agent_id, version, task_type)).fetchone()
        return next(_decode_rows(_baseline_decoder, [row] if row else []), None)

    def list_baselines(self, agent_id: str | None = None) -> list[BaselineStats]:
        """Return every stored baseline, by agent, version and task type."""
        where = Conditions().require("b.stats IS NOT NULL").add("a.agent_id = ?", agent_id)
        query = (
            f"SELECT b.stats FROM baselines b JOIN agents a ON a.id = b.agent{where}"
            " ORDER BY a.agent_id, b.version, b.task_type"
        )
        with self._connections.reading() as connection:
            return list(_decode_rows(_baseline_decoder, connection.execute(query, where.values)))

    @retry_on_conflict
    def save_baseline(self, baseline: BaselineStats, *, updated_at: float = 0.0) -> None:
        """Store an agent's baseline for its version and task type, replacing the one before it."""
        with self._connections.transaction() as connection:
            row = (
                self._row_ids.get_agent(connection, to_unicode(baseline.agent_id)),
                to_unicode(baseline.version),
                to_unicode(baseline.task_type),
                msgspec.msgpack.encode(baseline),
                updated_at,
            )
            connection.execute(
                "INSERT INTO baselines (agent, version, task_type, stats, updated_at) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (agent, version, task_type) DO UPDATE SET stats = excluded.stats,"
                " updated_at = excluded.updated_at",
                row,
            )
            note_changes(connection, [("agent", None, row[0])])

    @retry_on_conflict
    def reset_baseline(self, agent_id: str, version: str = "", task_type: str = "") -> bool:
        """Delete a baseline and learn a new one from the next run on. Returns whether there was one."""
        with self._connections.transaction() as connection:
            existed = self.get_baseline(agent_id, version, task_type) is not None
            connection.execute(
                "INSERT INTO baselines (agent, version, task_type, updated_at, after_run)"
                " SELECT id, ?, ?, 0, (SELECT coalesce(max(id), 0) FROM runs) FROM agents WHERE agent_id = ?"
                " ON CONFLICT (agent, version, task_type)"
                " DO UPDATE SET stats = NULL, after_run = excluded.after_run",
                (*_build_key(agent_id, version, task_type)[1:], to_unicode(agent_id)),
            )
            row = connection.execute(f"SELECT {AGENT_ROW_ID}", (to_unicode(agent_id),)).fetchone()
            note_changes(connection, [("agent", None, row[0])])
            return existed

    def list_run_summaries(
        self, agent_id: str, *, version: str = "", task_type: str = "", limit: int = 50
    ) -> list[RunSummary]:
        """Return the newest ended, clean runs that a baseline may learn from, oldest first.

        Runs before the last reset of the baseline are left out. Row ids of runs are in the order of their
        start.
        """
        key = _build_key(agent_id, version, task_type)
        query = (
            f"SELECT summary FROM runs WHERE {_ONE_BASELINE} AND teaches = 1"
            f" AND id > coalesce((SELECT after_run FROM baselines WHERE {_ONE_BASELINE}), 0)"
            " ORDER BY id DESC LIMIT ?"
        )
        with self._connections.reading() as connection:
            rows = connection.execute(query, (*key, *key, limit)).fetchall()
        return list(_decode_rows(_summary_decoder, reversed(rows)))

    def get_pinned_baseline(self, agent_id: str, run_id: str) -> PinnedBaseline | None:
        """Return what a run is compared with, and from which event on; None when nothing was pinned."""
        query = (
            "SELECT r.pinned_seq, p.digest, p.content FROM runs r JOIN pinned_baselines p ON p.id = r.pinned"
            f" WHERE r.run_id = ? AND r.agent = {AGENT_ROW_ID}"
        )
        with self._connections.reading() as connection:
            row = connection.execute(query, (to_unicode(run_id), to_unicode(agent_id))).fetchone()
        if row is None:
            return None
        seq, digest, content = row
        return PinnedBaseline(agent_id, run_id, seq, digest, zlib.decompress(content))

    def list_profiles(self, agent_id: str | None = None) -> list[TaskProfile]:
        """Return the profile of each task type, by agent and type."""
        where = Conditions().add("a.agent_id = ?", agent_id)
        query = (
            "SELECT a.agent_id, p.task_type, p.tasks, p.steps, p.tokens, p.cost_usd, p.wall_s"
            f" FROM task_profiles p JOIN agents a ON a.id = p.agent{where} ORDER BY a.agent_id, p.task_type"
        )
        with self._connections.reading() as connection:
            rows = connection.execute(query, where.values)
            return [TaskProfile(**dict(zip(_PROFILE_FIELDS, row, strict=True))) for row in rows]

    @retry_on_conflict
    def save_profile(self, profile: TaskProfile) -> None:
        """Store the profile of a task type, replacing the one before it."""
        self._write_profile(_INSERT_PROFILE + _OR_REPLACE, profile)

    @retry_if_rolled_back
    def add_tasks(self, profile: TaskProfile) -> None:
        """Add the totals of these completed tasks to the profile of their type."""
        self._write_profile(_INSERT_PROFILE + _OR_ADD, profile)

    def _write_profile(self, statement: str, profile: TaskProfile) -> None:
        """Write a profile with every number in range: one odd run must not lose a batch."""
        with self._connections.transaction() as connection:
            row = (
                self._row_ids.get_agent(connection, to_unicode(profile.agent_id)),
                to_unicode(profile.task_type),
                *(int(_limit_sum(getattr(profile, name))) for name in _COUNTS),
                *(float(_limit_sum(getattr(profile, name))) for name in _AMOUNTS),
            )
            connection.execute(statement, row)


def count_unreadable(connection: Connection) -> int:
    """Return how many baselines and run summaries cannot be decoded, so that nothing is learnt from them."""
    baselines = connection.execute("SELECT stats FROM baselines WHERE stats IS NOT NULL").fetchall()
    summaries = connection.execute("SELECT summary FROM runs WHERE summary IS NOT NULL").fetchall()
    readable = len(list(_decode_rows(_baseline_decoder, baselines)))
    readable += len(list(_decode_rows(_summary_decoder, summaries)))
    return len(baselines) + len(summaries) - readable


def _build_key(agent_id: str, version: str, task_type: str) -> tuple[str, str, str]:
    return to_unicode(agent_id), to_unicode(version), to_unicode(task_type)


def _decode_rows(
    decoder: "msgspec.msgpack.Decoder[_Decoded]", rows: Iterable[tuple[Any, ...]]
) -> Iterator[_Decoded]:
    """Yield what can be decoded: one damaged summary must not keep an agent from learning."""
    for (encoded,) in rows:
        try:
            yield decoder.decode(encoded)
        except msgspec.MsgspecError:
            continue


def _limit_sum(value: float) -> float:
    return min(value, _MAX_SUM) if 0 <= value < math.inf else 0
