"""All CPU of an event of recorded runs, against the seed system in the same run; the caller's part by kind.

The runs are read from the folder that STEADYHELM_DATA names, else `../shared/data`.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import seed_system
from benchmarks.measures import Measure, from_repeats, not_measured
from benchmarks.processes import ROOT, measure_in_child

from steadyhelm.events import TraceEvent
from steadyhelm.recordings.run_file import ReadRun, RunFile

NAME = "real_runs"
DATA = Path(os.environ.get("STEADYHELM_DATA", ROOT.parent / "shared" / "data")) / "runs"
WARM_UP_RUNS = 5
"""Patterns are compiled when a text may first match them: that happens once in a process."""

_KINDS = {"tool_call": "tool call", "llm_request": "model reply", "user_message": "user message"}
_BARS_US = {"llm_request": (200.0, 100.0), "user_message": (400.0, 200.0)}


class _Source(NamedTuple):
    file: str
    what: str
    bar: float
    aim: float = 1.0


SOURCES = (
    _Source("claudecode_sessions", "coding sessions", 1.3),
    _Source("openhands_swebench", "OpenHands", 1.3),
    _Source("tau", "tau", 2.0),
)


def run(*, quick: bool) -> list[Measure]:
    """Play the same runs through both systems, in turn."""
    rounds, events = (1, 200) if quick else (5, 3000)
    measures: list[Measure] = []
    for source in SOURCES:
        path = DATA / f"{source.file}.jsonl.gz"
        if path.is_file():
            measures.extend(_measure(source, path, rounds, events, with_seed=not quick))
        else:
            measures.append(not_measured(NAME, source.what, f"{path.name} is absent: set STEADYHELM_DATA"))
    return measures


def read_runs(path: Path, events: int) -> Iterator[ReadRun]:
    """Yield the runs to warm up with, then runs with about as many events as asked for."""
    runs = (run for run in RunFile(path) if isinstance(run, ReadRun) and run.events)
    counted = 0
    for number, run in enumerate(runs):
        yield run
        counted += len(run.events) if number >= WARM_UP_RUNS else 0
        if counted >= events:
            return


def write_calls(runs: Iterator[ReadRun], path: Path, system: str) -> None:
    """Write the calls of `record_event` that play these runs, one run a line."""
    with path.open("w", encoding="utf-8") as file:
        for run in runs:
            calls = [[it.action_type, it.action_name, _list_fields(it, system)] for it in run.events]
            file.write(json.dumps({"goal": run.info.goal, "calls": calls}, default=str) + "\n")


def _list_fields(event: TraceEvent, system: str) -> dict[str, Any]:
    shared = {
        "token_count": event.token_count,
        "input_data": event.input_data,
        "output_data": event.output_data,
        "duration_ms": event.duration_ms,
        "metadata": event.metadata or {},
    }
    if system == "seed":  # it has no names for the rest
        return shared
    return shared | {"call_id": event.call_id, "error": event.error, "cost_usd": event.cost_usd}


def _measure(source: _Source, path: Path, rounds: int, events: int, *, with_seed: bool) -> list[Measure]:
    ours: list[dict[str, Any]] = []
    seeds: list[dict[str, Any]] = []
    missing = "" if with_seed else "left out of a quick run"
    with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
        for system in ("steadyhelm", "seed"):
            write_calls(read_runs(path, events), Path(folder) / f"{system}.jsonl", system)
        for number in range(rounds):
            ours.append(_play("steadyhelm", Path(folder), number))
            if missing:
                continue
            try:
                seeds.append(_play("seed", Path(folder), number, python=seed_system.seed_python()))
            except seed_system.SeedMissingError as exc:
                missing = str(exc)
    all_cpu = f"{source.what}: all CPU an event"
    measures = [
        from_repeats(NAME, all_cpu, [it["cpu_us"] for it in ours], "µs", details={"rounds": ours}),
        *(_measure_kind(source, ours, kind) for kind in _KINDS),
    ]
    if missing:
        return [not_measured(NAME, f"{all_cpu}, of the seed system's", missing), *measures]
    theirs = [it["cpu_us"] for it in seeds]
    ratios = [mine["cpu_us"] / seed for mine, seed in zip(ours, theirs, strict=True)]
    return [
        from_repeats(NAME, f"{all_cpu}, of the seed system's", ratios, "x", bar=source.bar, aim=source.aim),
        *measures,
        from_repeats(NAME, f"{source.what}: seed system, all CPU an event", theirs, "µs"),
    ]


def _measure_kind(source: _Source, rounds: list[dict[str, Any]], kind: str) -> Measure:
    bar, aim = _BARS_US.get(kind, (None, None))
    figures = [it["caller_us"].get(kind, 0.0) for it in rounds]
    return from_repeats(NAME, f"{source.what}: caller, a {_KINDS[kind]}", figures, "µs", bar=bar, aim=aim)


def _play(system: str, folder: Path, number: int, **options: str) -> dict[str, Any]:
    database = folder / f"{system}-{number}.db"
    calls = folder / f"{system}.jsonl"
    played = measure_in_child("playing", folder, system, calls, WARM_UP_RUNS, database, **options)
    if lost := sum(played["losses"].values()):
        raise RuntimeError(f"{lost} events were lost: the figures are not those of the whole work.")
    return played
