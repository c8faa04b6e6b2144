"""The whole numbers that stand for agents, runs and names, looked up once and remembered."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import math
import sqlite3
from typing import Final

_REMEMBERED: Final = 20_000


class RunKey:
    """One run's number, its agent's, its start as far as known, and the highest place kept."""

    __slots__ = ("agent", "id", "last_seq", "started_at")

    def __init__(self, number: int, agent: int, started_at: float, last_seq: int) -> None:
        self.id = number
        self.agent = agent
        self.started_at = started_at
        self.last_seq = last_seq


class Keys:
    """Remembers numbers between batches.

    Only the one who writes uses it, inside a transaction. What it remembers may be out of date when another
    process deleted or added something: the writer notices, calls `forget`, and looks again.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._agents: dict[str, int] = {}
        self._runs: dict[tuple[str, str], RunKey] = {}

    def forget(self) -> None:
        """Look everything up anew."""
        self.names.clear()
        self._agents.clear()
        self._runs.clear()

    def name(self, connection: sqlite3.Connection, name: str) -> int:
        """The number of a name, given now if it has none."""
        number = self.names.get(name)
        if number is None:
            if len(self.names) >= _REMEMBERED:
                self.names.clear()
            number = self.names[name] = _number(connection, "names", "name", name)
        return number

    def agent(self, connection: sqlite3.Connection, agent_id: str) -> int:
        """The number of an agent, given now if it has none."""
        number = self._agents.get(agent_id)
        if number is None:
            if len(self._agents) >= _REMEMBERED:
                self._agents.clear()
            number = self._agents[agent_id] = _number(connection, "agents", "agent_id", agent_id)
        return number

    def run(self, connection: sqlite3.Connection, agent_id: str, run_id: str, at: float) -> RunKey:
        """A run's key; a run not seen before is opened at that time."""
        key = self._runs.get((agent_id, run_id))
        if key is None:
            if len(self._runs) >= _REMEMBERED:
                self._runs.clear()
            key = self._runs[agent_id, run_id] = self._looked_up(connection, agent_id, run_id, at)
        return key

    def _looked_up(self, connection: sqlite3.Connection, agent_id: str, run_id: str, at: float) -> RunKey:
        agent = self.agent(connection, agent_id)
        row = connection.execute(
            "SELECT id, started_at, start_known, (SELECT max(seq) FROM events WHERE run = runs.id)"
            " FROM runs WHERE run_id = ? AND agent = ?",
            (run_id, agent),
        ).fetchone()
        if row is not None:
            number, started_at, start_known, last_seq = row
            is_open = not started_at and not start_known
            return RunKey(
                number, agent, math.inf if is_open else started_at, -1 if last_seq is None else last_seq
            )
        number = connection.execute(
            "INSERT INTO runs (agent, run_id, started_at, last_at) VALUES (?, ?, ?, ?)",
            (agent, run_id, at, at),
        ).lastrowid
        assert number is not None
        connection.execute(
            "UPDATE agents SET runs = runs + 1, last_at = max(last_at, ?) WHERE id = ?", (at, agent)
        )
        return RunKey(number, agent, at or math.inf, -1)


def _number(connection: sqlite3.Connection, table: str, column: str, text: str) -> int:
    row = connection.execute(f"SELECT id FROM {table} WHERE {column} = ?", (text,)).fetchone()
    if row is not None:
        return int(row[0])
    number = connection.execute(f"INSERT INTO {table} ({column}) VALUES (?)", (text,)).lastrowid
    assert number is not None
    return number
