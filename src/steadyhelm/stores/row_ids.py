"""Cache the row ids of agents, runs and names, which large tables hold instead of texts, and last calls."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import math
from typing import Final

from steadyhelm.events import TraceEvent
from steadyhelm.sink import RunKey, to_unicode
from steadyhelm.stores.database import Connection

_MOST_CALLS: Final = 20_000
_LOOKED_BACK: Final = 5000
_HASH_BITS: Final = 64
_HASH_MASK: Final = (1 << _HASH_BITS) - 1
_LAST_SAME: Final = f"""
    SELECT seq, result_hash FROM events
    WHERE run = ? AND seq < ? AND seq >= ? - {_LOOKED_BACK} AND call_hash = ? ORDER BY seq DESC LIMIT 1"""

LastSame = tuple[int, int | None]
"""The place of the last identical call, and whether its result was the same; None where one is not known."""


class LastCalls:
    """The place and result of the latest call of each kind in one run, while this process writes it.

    `is_complete` says that it has seen the run from its beginning: else a call may be stored already.
    """

    __slots__ = ("_latest", "is_complete")

    def __init__(self, *, is_complete: bool) -> None:
        self.is_complete = is_complete
        # One number a call, its place above its result: a pair would take twice the memory.
        self._latest: dict[int, int] = {}

    def add(self, call_hash: int, result_hash: int, seq: int) -> LastSame | None:
        """Note a call; return the last identical one, None for none."""
        latest = self._latest
        before = latest.get(call_hash)
        result = result_hash & _HASH_MASK
        latest[call_hash] = seq << _HASH_BITS | result
        if before is None:
            if len(latest) > _MOST_CALLS:
                self.forget(_MOST_CALLS // 2)
            return None
        return before >> _HASH_BITS, _compare(before & _HASH_MASK, result)

    def forget(self, count: int | None = None) -> None:
        """Forget the calls that were noted first; all of them unless a number is given."""
        self.is_complete = False
        for oldest in list(self._latest)[:count]:
            del self._latest[oldest]


def find_last_same(connection: Connection, run: int, event: TraceEvent) -> LastSame | None:
    """Return the last identical call among the latest stored steps, None for none."""
    seq = event.seq
    row = connection.execute(_LAST_SAME, (run, seq, seq, event.call_hash)).fetchone()
    return None if row is None else (row[0], _compare(row[1] & _HASH_MASK, event.result_hash & _HASH_MASK))


def _compare(before: int, now: int) -> int | None:
    return int(before == now) if before and now else None


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
        self.agents: dict[str, int] = {}
        self.runs: dict[tuple[str, str], CachedRun] = {}
        self.new_runs: dict[int, int] = {}
        """How many runs of each agent were inserted and are not in the agent's total yet."""

    def clear(self) -> None:
        """Forget everything, so that it is read again."""
        self.names.clear()
        self.agents.clear()
        self.runs.clear()
        self.new_runs.clear()

    def make_room(self) -> None:
        """Empty each cache that is full."""
        for cache in (self.names, self.agents, self.runs):
            if len(cache) >= _MAX_CACHED:
                cache.clear()

    def add_run(
        self,
        agent_id: str,
        run_id: str,
        row_id: int,
        agent: int,
        started_at: float,
        last_seq: int | None = None,
    ) -> CachedRun:
        """Cache a run that began at this time, infinity if it is not known."""
        run = CachedRun(row_id, agent, started_at, -1 if last_seq is None else last_seq)
        self.runs[agent_id, run_id] = run
        return run

    def forget_run(self, agent_id: str, run_id: str) -> None:
        """Forget a run that is over: a record that comes after all looks for it again."""
        self.runs.pop((agent_id, run_id), None)

    def get_name(self, connection: Connection, name: str) -> int:
        """Return the row id of a name. Inserts the name when it is new."""
        row_id = self.names.get(name)
        if row_id is None:
            if len(self.names) >= _MAX_CACHED:
                self.names.clear()
            row_id = self.names[name] = _find_or_insert(connection, "names", "name", name)
        return row_id

    def get_agent(self, connection: Connection, agent_id: str) -> int:
        """Return the row id of an agent. Inserts the agent when it is new."""
        row_id = self.agents.get(agent_id)
        if row_id is None:
            if len(self.agents) >= _MAX_CACHED:
                self.agents.clear()
            row_id = self.agents[agent_id] = _find_or_insert(connection, "agents", "agent_id", agent_id)
        return row_id

    def get_run(self, connection: Connection, agent_id: str, run_id: str, at: float) -> CachedRun:
        """Return a run's ids and last seq. Inserts a new run, started at this time."""
        run = self.runs.get((agent_id, run_id))
        if run is None:
            if len(self.runs) >= _MAX_CACHED:
                self.runs.clear()
            run = self._find_or_insert_run(connection, agent_id, run_id, at)
        return run

    def _find_or_insert_run(self, connection: Connection, agent_id: str, run_id: str, at: float) -> CachedRun:
        agent = self.get_agent(connection, agent_id)
        row = connection.execute(
            "SELECT id, started_at, start_known, (SELECT max(seq) FROM events WHERE run = runs.id)"
            " FROM runs WHERE run_id = ? AND agent = ?",
            (run_id, agent),
        ).fetchone()
        if row is not None:
            row_id, started_at, start_known, last_seq = row
            known = started_at if started_at or start_known else math.inf
            return self.add_run(agent_id, run_id, row_id, agent, known, last_seq)
        row_id = _insert_run(connection, agent, run_id, at)
        if row_id is None:  # another process was faster
            return self._find_or_insert_run(connection, agent_id, run_id, at)
        return self.add_run(agent_id, run_id, row_id, agent, at or math.inf)

    def reserve_run(self, connection: Connection, run: RunKey) -> str:
        """Insert a new run and return the id it has: its own, with a number where another run has it."""
        agent_id, given = to_unicode(run.agent_id), to_unicode(run.run_id)
        agent, run_id, n = self.get_agent(connection, agent_id), given, 1
        query = "SELECT 1 FROM runs WHERE run_id = ? AND agent = ?"
        while True:
            if connection.execute(query, (run_id, agent)).fetchone() is None:
                row_id = _insert_run(connection, agent, run_id, run.at, run.epoch)
                if row_id is not None:
                    self.add_run(agent_id, run_id, row_id, agent, run.at or math.inf)
                    return run_id
                # Another process was faster, with this run or with one of the same id.
                same = connection.execute("SELECT run_id FROM runs WHERE epoch = ?", (run.epoch,)).fetchone()
                if same is not None:
                    return str(same[0])
            n += 1
            run_id = f"{given}~{n}"


def _insert_run(
    connection: Connection, agent: int, run_id: str, at: float, epoch: str | None = None
) -> int | None:
    row = connection.execute(
        "INSERT INTO runs (agent, run_id, started_at, last_at, epoch) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING RETURNING id",
        (agent, run_id, at, at, epoch),
    ).fetchone()
    if row is None:
        return None
    connection.execute(
        "UPDATE agents SET runs = runs + 1, last_at = max(last_at, ?) WHERE id = ?", (at, agent)
    )
    return int(row[0])


def _find_or_insert(connection: Connection, table: str, column: str, text: str) -> int:
    row = connection.execute(f"SELECT id FROM {table} WHERE {column} = ?", (text,)).fetchone()
    if row is not None:
        return int(row[0])
    insert = f"INSERT INTO {table} ({column}) VALUES (?) ON CONFLICT DO NOTHING RETURNING id"
    row = connection.execute(insert, (text,)).fetchone()
    # Where another process was faster, the row is there now.
    return int(row[0]) if row is not None else _find_or_insert(connection, table, column, text)
