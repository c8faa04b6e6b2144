"""What storing in PostgreSQL costs the process and the server, against a SQLite file in the same run."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.measures import Measure, from_repeats, not_measured
from benchmarks.workload import tool_event
from tests.postgres_server import describe_missing, run_server

from steadyhelm.events import RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.sink import DriftPoint, Record, RecordedEvent
from steadyhelm.sinks.store import StoreSink
from steadyhelm.store import Store
from steadyhelm.stores.sqlite import SQLiteStore

NAME = "postgres"
CLIENT_BAR, ALL_BAR = 2.0, 5.0
BATCH = 500
RUNS = 100
RUN_LENGTH = 200
AT = 1_800_000_000.0


def run(*, quick: bool) -> list[Measure]:
    """Store the same batches in both, in turn; compare CPU seconds."""
    if missing := describe_missing():
        return [not_measured(NAME, "CPU of storing, times SQLite", missing)]
    from steadyhelm.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra

    rounds, repeats = (1, 1) if quick else (2, 3)
    client, everything, figures = [], [], []
    with run_server(settings={"fsync": "on", "synchronous_commit": "on", "autovacuum": "on"}) as server:
        for _ in range(repeats):
            with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
                file = _measure(SQLiteStore(Path(folder) / "bench.db"), rounds, server.process.pid)
            with server.new_database() as url:
                database = _measure(PostgresStore(url), rounds, server.process.pid)
            figures.append({"sqlite": file, "postgres": database})
            client.append(database["cpu_s"] / file["cpu_s"])
            everything.append((database["cpu_s"] + database["server_s"]) / file["cpu_s"])
    per_event = [f"{1e6 * it['sqlite']['cpu_s'] / it['sqlite']['events']:.0f}" for it in figures]
    return [
        from_repeats(
            NAME,
            "CPU of the writing process, times SQLite",
            client,
            "x",
            bar=CLIENT_BAR,
            details={"rounds": figures},
            note=f"SQLite {', '.join(per_event)} µs/event",
        ),
        from_repeats(NAME, "CPU of process and server, times SQLite", everything, "x", bar=ALL_BAR),
    ]


def _measure(store: Store, rounds: int, server: int) -> dict[str, Any]:
    sink = StoreSink(store)
    # Connections, statements and names are there before it counts.
    for batch in _build_batches(-1, RUN_LENGTH // 20):
        sink.write(batch)
    batches = [batch for number in range(rounds) for batch in _build_batches(number, RUN_LENGTH)]
    before = _read_cpu_s(server)
    wall, cpu = time.perf_counter(), time.process_time()
    for batch in batches:
        sink.write(batch)
    cpu_s, wall_s = time.process_time() - cpu, time.perf_counter() - wall
    server_s = _read_cpu_s(server) - before
    events = sum(isinstance(record, RecordedEvent) for batch in batches for record in batch)
    faults = store.check()
    sink.close()
    assert not faults, faults
    return {"cpu_s": cpu_s, "wall_s": wall_s, "server_s": server_s, "events": events}


def _build_batches(number: int, length: int) -> list[list[Record]]:
    """Return what a hundred runs at once record, from their start to their end, in the order of time."""
    records = list(_iter_records(number, length))
    return [records[start : start + BATCH] for start in range(0, len(records), BATCH)]


def _iter_records(number: int, length: int) -> Iterator[Record]:
    runs = [(f"agent-{run % 10}", f"run-{number}-{run}") for run in range(RUNS)]
    for agent_id, run_id in runs:
        yield RunInfo(agent_id=agent_id, run_id=run_id, goal="find out why", started_at=AT)
    for seq in range(length):
        for place, (agent_id, run_id) in enumerate(runs):
            yield _build_event(agent_id, run_id, seq, place)
            if (seq + place) % 50 == 0:
                yield _build_finding(agent_id, run_id, seq)
    for agent_id, run_id in runs:
        yield RunSummary(
            agent_id=agent_id,
            run_id=run_id,
            started_at=AT,
            ended_at=AT + length,
            events=length,
            outcome="done",
        )


def _build_event(agent_id: str, run_id: str, seq: int, place: int) -> RecordedEvent:
    tool = tool_event(seq * RUNS + place)
    event = TraceEvent(
        agent_id=agent_id,
        run_id=run_id,
        action_type="tool_call",
        action_name=tool.name,
        timestamp=AT + seq,
        seq=seq,
        event_id=f"{run_id}.{seq}",
        token_count=20,
        duration_ms=12.5,
        input_data=tool.arguments,
        output_data={"text": tool.result},
        call_hash=hash((run_id, seq)),
        result_hash=hash((seq, place)),
    )
    drift = DriftPoint(0.25) if seq % 4 == 0 else None
    return msgspec.structs.replace(RecordedEvent.of(event), drift=drift)


def _build_finding(agent_id: str, run_id: str, seq: int) -> DriftEvent:
    return DriftEvent(
        agent_id=agent_id,
        run_id=run_id,
        detector="action_loop",
        kind="loop",
        severity=Severity.LOW,
        score=0.3,
        message="the same call again",
        suggested_action="stop and think",
        timestamp=AT + seq,
        event_id=f"{run_id}.{seq}/action_loop",
        context={"event_ids": [f"{run_id}.{seq}"], "repeats": 4},
    )


def _read_cpu_s(postmaster: int) -> float:
    """Return the CPU seconds of a server so far: its own, those of its processes and of those that ended."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(folder.name) == postmaster:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == postmaster:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
