"""Read runs back: the list, one of them, and its totals."""

from typing import Any, Final

import msgspec

from steadyhelm.errors import NotFoundError
from steadyhelm.sink import to_unicode
from steadyhelm.store import JUDGE_ACCOUNT, RunStore
from steadyhelm.store_rows import StoredAgent, StoredRun, ToolRow
from steadyhelm.stores.database import Connection, StorePart, retry_if_rolled_back
from steadyhelm.stores.sql import AGENT_ROW_ID, Conditions, describe_ambiguous_id, find_by_prefix

# CROSS JOIN keeps the order of the two tables: the list is read along its index, and stops at the limit.
_SELECT_RUNS: Final = """
    SELECT a.agent_id, r.run_id, r.goal, r.version, r.task_type, r.parent_run_id, r.state, r.outcome,
        r.started_at, r.last_at, r.events, r.tokens, r.tool_calls, r.llm_calls, r.errors, r.duration_ms,
        r.cost_usd, r.findings, r.incidents, r.peak
    FROM runs r CROSS JOIN agents a ON a.id = r.agent"""
_FIELDS: Final = StoredRun.__struct_fields__
_BY_AGENT: Final = f"r.agent = {AGENT_ROW_ID}"
_SELECT_SUSPENDED: Final = (
    f"SELECT r.run_id FROM states s JOIN runs r ON r.id = s.run WHERE {_BY_AGENT}"  # noqa: S608 - our own text
    " ORDER BY s.saved_at DESC LIMIT ?"
)


class SQLRuns(StorePart, RunStore):
    """The part of a run store that reads runs."""

    def list_agents(self) -> list[StoredAgent]:
        """Return every agent, the most recently active first."""
        with self._connections.reading() as connection:
            open_incidents: dict[int, int] = dict(
                connection.execute(
                    "SELECT agent, count(*) FROM incidents INDEXED BY incidents_open WHERE state = 'open'"
                    " GROUP BY agent"
                ).fetchall()
            )
            rows = connection.execute(
                "SELECT id, agent_id, runs, last_at FROM agents WHERE agent_id != ?"
                " ORDER BY last_at DESC, id DESC",
                (JUDGE_ACCOUNT,),
            )
            return [
                StoredAgent(
                    agent_id=agent_id,
                    runs=runs,
                    last_at=last_at,
                    open_incidents=open_incidents.get(row_id, 0),
                )
                for row_id, agent_id, runs, last_at in rows
            ]

    def list_runs(
        self, agent_id: str | None = None, *, limit: int = 50, before: float | None = None
    ) -> list[StoredRun]:
        """Return runs, newest first. `before` is a start time: the last one of a page gets the next."""
        where = Conditions().add(_BY_AGENT, agent_id).add("r.started_at < ?", before)
        query = f"{_SELECT_RUNS}{where} ORDER BY r.started_at DESC, r.id DESC LIMIT ?"
        with self._connections.reading() as connection:
            return [_to_run_row(row) for row in connection.execute(query, (*where.values, limit))]

    def find_run(self, run_id: str, *, agent_id: str | None = None) -> StoredRun:
        """Return the run with this id, or whose id alone begins with it. Raises NotFoundError."""
        prefix = to_unicode(run_id)
        with self._connections.reading() as connection:
            found = _select_runs(connection, prefix, agent_id)
            if not found and prefix:
                count, first = _find_runs_by_prefix(connection, prefix, agent_id)
                if count != 1:
                    raise NotFoundError(describe_ambiguous_id("run", prefix, count, first))
                found = _select_runs(connection, first[0], agent_id)
        if not found:
            raise NotFoundError(describe_ambiguous_id("run", prefix, 0, []))
        if len(found) > 1:
            names = ", ".join(run.agent_id for run in found[:5])
            raise NotFoundError(
                f"{len(found)} agents have a run {found[0].run_id!r}: {names}. Name the agent too."
            )
        return found[0]

    def list_run_tools(self, agent_id: str, run_id: str) -> list[ToolRow]:
        """Return the tools a run called, most used first."""
        with self._connections.reading() as connection:
            rows = connection.execute(
                "SELECT n.name, t.calls, t.errors, t.tokens, t.duration_ms FROM run_tools t"
                " CROSS JOIN names n ON n.id = t.name WHERE t.run = ? ORDER BY t.calls DESC, n.name",
                (find_run_row_id(connection, agent_id, run_id),),
            )
            return [
                ToolRow(action_name=name, calls=calls, errors=errors, tokens=tokens, duration_ms=duration_ms)
                for name, calls, errors, tokens, duration_ms in rows
            ]

    def get_run_metadata(self, agent_id: str, run_id: str) -> dict[str, Any]:
        """Return the metadata a run was started with; empty when it had none."""
        with self._connections.reading() as connection:
            run = find_run_row_id(connection, agent_id, run_id)
            row = connection.execute("SELECT metadata_json FROM runs WHERE id = ?", (run,)).fetchone()
        if row is None or row[0] is None:
            return {}
        metadata: dict[str, Any] = msgspec.json.decode(row[0])
        return metadata

    def get_run_stats(self, agent_id: str, run_id: str) -> dict[str, Any]:
        """Return the totals of a run; all zero for a run that is not stored.

        The keys are event_count, total_tokens, tool_calls, llm_calls, start_time, end_time and
        total_duration_ms.
        """
        with self._connections.reading() as connection:
            found = _select_runs(connection, to_unicode(run_id), to_unicode(agent_id))
        run = found[0] if found else StoredRun(agent_id=agent_id, run_id=run_id)
        return {
            "event_count": run.events,
            "total_tokens": run.tokens,
            "tool_calls": run.tool_calls,
            "llm_calls": run.llm_calls,
            "start_time": run.started_at,
            "end_time": run.last_at,
            "total_duration_ms": run.duration_ms,
        }

    def list_suspended(self, agent_id: str, *, limit: int = 10_000) -> list[str]:
        """Return the ids of an agent's suspended runs, the most recently suspended first."""
        values = (to_unicode(agent_id), limit)
        with self._connections.reading() as connection:
            return [run_id for (run_id,) in connection.execute(_SELECT_SUSPENDED, values)]

    @retry_if_rolled_back
    def take_state(self, agent_id: str, run_id: str) -> bytes | None:
        """Remove and return the saved session of a run, or return None when there is none."""
        with self._connections.transaction() as connection:
            run = find_run_row_id(connection, agent_id, run_id)
            row = connection.execute("DELETE FROM states WHERE run = ? RETURNING state", (run,)).fetchone()
        return None if row is None else bytes(row[0])


def find_run_row_id(connection: Connection, agent_id: str, run_id: str) -> int | None:
    """Return the row id of a run, or None when there is no such run."""
    row = connection.execute(
        f"SELECT id FROM runs WHERE run_id = ? AND agent = {AGENT_ROW_ID}",  # noqa: S608 - our own text
        (to_unicode(run_id), to_unicode(agent_id)),
    ).fetchone()
    return None if row is None else int(row[0])


def _to_run_row(row: tuple[Any, ...]) -> StoredRun:
    return StoredRun(**dict(zip(_FIELDS, row, strict=True)))


def _select_runs(connection: Connection, run_id: str, agent_id: str | None) -> list[StoredRun]:
    where = Conditions().add("r.run_id = ?", run_id).add(_BY_AGENT, agent_id)
    return [_to_run_row(row) for row in connection.execute(f"{_SELECT_RUNS}{where}", where.values)]


def _find_runs_by_prefix(connection: Connection, prefix: str, agent_id: str | None) -> tuple[int, list[str]]:
    if agent_id is None:
        return find_by_prefix(connection, "runs", "run_id", prefix)
    agent = connection.execute("SELECT id FROM agents WHERE agent_id = ?", (to_unicode(agent_id),)).fetchone()
    if agent is None:
        return 0, []
    return find_by_prefix(connection, "runs", "run_id", prefix, also=f"agent = {int(agent[0])}")
