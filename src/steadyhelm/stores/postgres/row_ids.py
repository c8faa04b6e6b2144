"""Read and insert the agents, runs and names of a batch: sorted, and in few statements."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from steadyhelm.events import RunInfo, RunSummary
from steadyhelm.incidents import Incident
from steadyhelm.sink import DailyGrant, Loss, PinnedBaseline, Record, RecordedEvent
from steadyhelm.stores.batch import TYPE_CODES
from steadyhelm.stores.postgres.translation import Array
from steadyhelm.stores.row_ids import RowIds

if TYPE_CHECKING:
    from steadyhelm.stores.postgres.connection import PostgresConnection

RunTimes = dict[tuple[str, str], float]
"""When runs that may be new began, by agent and id."""

_FIND: Final = "SELECT {column}, id FROM {table} WHERE {column} = ANY (?)"
_ADD: Final = """
    INSERT INTO {table} ({column}) SELECT t FROM unnest(?::text[]) t ORDER BY t COLLATE "C"
    ON CONFLICT DO NOTHING"""
_FIND_RUNS: Final = """
    SELECT r.agent, r.run_id, r.id, r.started_at, r.start_known,
        (SELECT max(e.seq) FROM events e WHERE e.run = r.id)
    FROM unnest(?::bigint[], ?::text[]) w (agent, run_id)
        JOIN runs r ON r.run_id = w.run_id AND r.agent = w.agent"""
_ADD_RUNS: Final = """
    INSERT INTO runs (agent, run_id, started_at, last_at)
    SELECT w.agent, w.run_id, w.at, w.at
    FROM unnest(?::bigint[], ?::text[], ?::float8[]) w (agent, run_id, at)
    ORDER BY w.agent, w.run_id COLLATE "C" ON CONFLICT DO NOTHING RETURNING agent, run_id, id, started_at"""


def find_unknown(row_ids: RowIds, records: Iterable[Record]) -> tuple[set[str], RunTimes]:
    """Return the names, and the runs with a time, that are not cached."""
    known_names, known_runs = row_ids.names, row_ids.runs
    names: set[str] = set()
    runs: RunTimes = {}
    for record in records:
        if type(record) is RecordedEvent:
            event = record.event
            key = (event.agent_id, event.run_id)
            if key not in known_runs and key not in runs:
                runs[key] = event.timestamp
            if event.action_name not in known_names:
                names.add(event.action_name)
            if event.action_type not in TYPE_CODES and event.action_type not in known_names:
                names.add(event.action_type)
            if event.parent_run_id is not None and event.parent_run_id not in known_names:
                names.add(event.parent_run_id)
        elif not isinstance(record, (Loss, DailyGrant, RecordedEvent)):
            key = (record.agent_id, record.run_id)
            if key not in known_runs and key not in runs:
                runs[key] = _find_time(record)
    return names, runs


def _find_time(record: Record) -> float:
    if isinstance(record, (RunInfo, RunSummary)):
        return record.started_at
    if isinstance(record, Incident):
        return record.opened_at
    return 0.0 if isinstance(record, (PinnedBaseline, RecordedEvent)) else record.timestamp


def look_up_names(connection: "PostgresConnection", row_ids: RowIds, names: Sequence[str]) -> None:
    """Cache the row ids of names, after inserting the new ones in a transaction of their own.

    Names are never deleted; other processes need not wait until this batch is written.
    """
    row_ids.make_room()
    found = _look_up(connection, "names", "name", names)
    new = [name for name in names if name not in found]
    if new:
        with connection.connections.writing_separately() as other:
            other.execute(_ADD.format(table="names", column="name"), (Array(new),))
        found |= _look_up(connection, "names", "name", new)
    row_ids.names |= found


def look_up_agents(connection: "PostgresConnection", row_ids: RowIds, agent_ids: Sequence[str]) -> None:
    """Cache the row ids of agents, after inserting the new ones."""
    wanted = [agent_id for agent_id in agent_ids if agent_id not in row_ids.agents]
    if not wanted:
        return
    found = _look_up(connection, "agents", "agent_id", wanted)
    new = [agent_id for agent_id in wanted if agent_id not in found]
    if new:
        connection.execute(_ADD.format(table="agents", column="agent_id"), (Array(new),))
        found |= _look_up(connection, "agents", "agent_id", new)
    row_ids.agents |= found


def look_up_runs(connection: "PostgresConnection", row_ids: RowIds, runs: RunTimes) -> None:
    """Cache the row ids of runs, whose agents are cached, after inserting the new ones."""
    wanted = {(row_ids.agents[agent_id], run_id): agent_id for agent_id, run_id in runs}
    _find_runs(connection, row_ids, wanted)
    new = [
        (agent, run_id)
        for (agent, run_id), agent_id in wanted.items()
        if (agent_id, run_id) not in row_ids.runs
    ]
    if not new:
        return
    times = [runs[wanted[key], key[1]] for key in new]
    rows = connection.execute(
        _ADD_RUNS, (Array(it[0] for it in new), Array(it[1] for it in new), Array(times))
    )
    for agent, run_id, row_id, started_at in rows:
        row_ids.add_run(wanted[agent, run_id], run_id, row_id, agent, started_at or math.inf)
        row_ids.new_runs[agent] = row_ids.new_runs.get(agent, 0) + 1
    # Another process was faster with some of them.
    late = {key: wanted[key] for key in new if (wanted[key], key[1]) not in row_ids.runs}
    if late:
        _find_runs(connection, row_ids, late)


def _find_runs(connection: "PostgresConnection", row_ids: RowIds, wanted: dict[tuple[int, str], str]) -> None:
    keys = (Array(agent for agent, _ in wanted), Array(run_id for _, run_id in wanted))
    rows = connection.execute(_FIND_RUNS, keys)
    for agent, run_id, row_id, started_at, start_known, last_seq in rows:
        known = started_at if started_at or start_known else math.inf
        row_ids.add_run(wanted[agent, run_id], run_id, row_id, agent, known, last_seq)


def _look_up(
    connection: "PostgresConnection", table: str, column: str, texts: Sequence[str]
) -> dict[str, int]:
    return dict(connection.execute(_FIND.format(table=table, column=column), (Array(texts),)).fetchall())
