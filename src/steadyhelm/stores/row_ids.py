"""Cache the row ids of agents, runs and names, which the large tables hold instead of texts."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import math
import sqlite3
from typing import Final

from steadyhelm.sink import RunKey, to_unicode
from steadyhelm.stores.last_calls import LastCalls

_MAX_CACHED: Final = 20_000


class CachedRun:
    """The row ids of a run and its agent, its start time if known, its highest stored seq, its last calls."""

    __slots__ = ("agent", "calls", "id", "last_seq", "started_at")

    def __init__(self, row_id: int, agent: int, started_at: float, last_seq: int) -> None:
        self.id = row_id
        self.agent = agent
        self.started_at = started_at
        self.last_seq = last_seq
        self.calls = LastCalls(is_complete=last_seq < 0)


class RowIds:
    """A cache of row ids that is kept between batches.

    Only the writing thread uses it, inside a transaction. Its content is out of date when another process
    deleted or added something: the writer notices, calls `clear`, and looks again.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._agents: dict[str, int] = {}
        self._runs: dict[tuple[str, str], CachedRun] = {}

    def clear(self) -> None:
        """Forget everything, so that it is read again."""
        self.names.clear()
        self._agents.clear()
        self._runs.clear()

    def get_name(self, connection: sqlite3.Connection, name: str) -> int:
        """Return the row id of a name. Inserts the name when it is new."""
        row_id = self.names.get(name)
        if row_id is None:
            if len(self.names) >= _MAX_CACHED:
                self.names.clear()
            row_id = self.names[name] = _find_or_insert(connection, "names", "name", name)
        return row_id

    def get_agent(self, connection: sqlite3.Connection, agent_id: str) -> int:
        """Return the row id of an agent. Inserts the agent when it is new."""
        row_id = self._agents.get(agent_id)
        if row_id is None:
            if len(self._agents) >= _MAX_CACHED:
                self._agents.clear()
            row_id = self._agents[agent_id] = _find_or_insert(connection, "agents", "agent_id", agent_id)
        return row_id

    def get_run(self, connection: sqlite3.Connection, agent_id: str, run_id: str, at: float) -> CachedRun:
        """Return a run's ids and last seq. Inserts a new run, started at this time."""
        run = self._runs.get((agent_id, run_id))
        if run is None:
            if len(self._runs) >= _MAX_CACHED:
                self._runs.clear()
            run = self._runs[agent_id, run_id] = self._find_or_insert_run(connection, agent_id, run_id, at)
        return run

    def _find_or_insert_run(
        self, connection: sqlite3.Connection, agent_id: str, run_id: str, at: float
    ) -> CachedRun:
        agent = self.get_agent(connection, agent_id)
        row = connection.execute(
            "SELECT id, started_at, start_known, (SELECT max(seq) FROM events WHERE run = runs.id)"
            " FROM runs WHERE run_id = ? AND agent = ?",
            (run_id, agent),
        ).fetchone()
        if row is not None:
            row_id, started_at, start_known, last_seq = row
            is_start_unknown = not started_at and not start_known
            return CachedRun(
                row_id,
                agent,
                math.inf if is_start_unknown else started_at,
                -1 if last_seq is None else last_seq,
            )
        return _insert_run(connection, agent, run_id, at)

    def reserve_run(self, connection: sqlite3.Connection, run: RunKey) -> str:
        """Insert a new run and return the id it has: its own, with a number where another run has it."""
        agent_id, given = to_unicode(run.agent_id), to_unicode(run.run_id)
        agent, run_id, n = self.get_agent(connection, agent_id), given, 1
        query = "SELECT 1 FROM runs WHERE run_id = ? AND agent = ?"
        while connection.execute(query, (run_id, agent)).fetchone() is not None:
            n += 1
            run_id = f"{given}~{n}"
        self._runs[agent_id, run_id] = _insert_run(connection, agent, run_id, run.at, run.epoch)
        return run_id


def _insert_run(
    connection: sqlite3.Connection, agent: int, run_id: str, at: float, epoch: str | None = None
) -> CachedRun:
    row_id = connection.execute(
        "INSERT INTO runs (agent, run_id, started_at, last_at, epoch) VALUES (?, ?, ?, ?, ?)",
        (agent, run_id, at, at, epoch),
    ).lastrowid
    assert row_id is not None
    connection.execute(
        "UPDATE agents SET runs = runs + 1, last_at = max(last_at, ?) WHERE id = ?", (at, agent)
    )
    return CachedRun(row_id, agent, at or math.inf, -1)


def _find_or_insert(connection: sqlite3.Connection, table: str, column: str, text: str) -> int:
    row = connection.execute(f"SELECT id FROM {table} WHERE {column} = ?", (text,)).fetchone()
    if row is not None:
        return int(row[0])
    row_id = connection.execute(f"INSERT INTO {table} ({column}) VALUES (?)", (text,)).lastrowid
    assert row_id is not None
    return row_id
