"""One Spark session on two cores for all tests, and recorded runs to judge."""

import json
import sys
from pathlib import Path

import pytest
from msgspec import structs

from steadyhelm import DriftMonitor
from steadyhelm.recordings.run_file import RunFile
from steadyhelm.scale import open_spark

sys.path.insert(0, str(Path(__file__).parents[1]))  # the server of tests/postgres_server.py

from stream_driver import QUICK_START

from postgres_server import postgres_server, postgres_url  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Spark on two cores, started once."""
    folder = str(tmp_path_factory.mktemp("spark"))
    with open_spark(
        "local[2]", {**QUICK_START, "spark.local.dir": folder, "spark.sql.warehouse.dir": folder}
    ) as session:
        yield session


def call(name, args, result, **keys):
    return {"type": "tool_call", "name": name, "args": args, "result": result, "tokens": 400, **keys}


def run_line(number):
    """One of a few kinds of runs: a loop, errors, a correction, or work as it should be."""
    events = [{"type": "user_message", "content": f"mend part {number} of the parser, please"}]
    for step in range(8 + number % 5):
        kind = number % 3
        if kind == 0:
            events.append(call("search", {"q": "parser"}, "nothing found"))
        elif kind == 1:
            events.append(call("run_tests", {"part": step % 2}, "", error=f"part {step % 2} failed"))
        else:
            events.append(call(("read", "edit")[step % 2], {"path": f"src/{step}.py"}, f"line {step} of it"))
        if step % 4 == 3:
            events.append({"type": "llm_request", "content": f"Part {step} of the parser is next, I think."})
    return json.dumps({"run_id": f"run-{number}", "agent_id": "mender", "goal": "mend it", "events": events})


@pytest.fixture
def run_file(tmp_path):
    """Twelve runs in a run file, and a line that cannot be read."""
    path = tmp_path / "runs.jsonl"
    lines = [run_line(number) for number in range(12)]
    path.write_text("\n".join([*lines[:5], "{broken", *lines[5:]]) + "\n")
    return path


@pytest.fixture
def runs(run_file):
    return [run for run in RunFile(run_file) if hasattr(run, "events")]


@pytest.fixture
def known(tmp_path):
    """A database with a baseline of the agent, learnt from three runs."""
    path = tmp_path / "known.db"
    monitor = DriftMonitor("mender", db_path=path, calibration_runs=3)
    for number in range(3):
        with monitor.run(goal="mend it"):
            for step in range(4):
                monitor.record_event("tool_call", ("read", "edit")[step % 2], output_data=f"{number} {step}")
    monitor.close()
    return path


def in_order(runs):
    """The runs with times as live agents have them: one begins a minute after the other."""
    return [
        structs.replace(
            run,
            events=[
                structs.replace(event, timestamp=1_700_000_000.0 + 60 * number + event.seq)
                for event in run.events
            ],
        )
        for number, run in enumerate(runs)
    ]
