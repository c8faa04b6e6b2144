"""What a live run takes, and what ten thousand of them take."""

import tempfile
from pathlib import Path
from typing import Any

from benchmarks import real_runs
from benchmarks.measures import Measure, not_measured
from benchmarks.processes import measure_in_child

NAME = "memory"
RUN_BAR_KIB, RUN_AIM_KIB, PROCESS_BAR_MB = 32.0, 16.0, 400.0


def run(*, quick: bool) -> list[Measure]:
    """Measure runs of 20 events, all live at once, with results of 230 characters and of 64 KiB."""
    few, many, large = (50, 200, 50) if quick else (1000, 9900, 500)
    traced = _child("tracemalloc", few, 230)
    resident = _child("resident", many, 230)
    big = _child("tracemalloc", large, 65_536)
    return [
        _measure_recorded(50 if quick else 300),
        Measure(
            benchmark=NAME,
            what=f"a live run, Python's objects ({few:,} runs)",
            value=traced["bytes_a_run"] / 1024,
            unit="KiB",
            bar=RUN_BAR_KIB,
            details=traced,
        ),
        Measure(
            benchmark=NAME,
            what=f"a live run, resident ({many:,} runs)",
            value=resident["bytes_a_run"] / 1024,
            unit="KiB",
            bar=RUN_BAR_KIB,
            details=resident,
        ),
        Measure(
            benchmark=NAME,
            what=f"the whole process with {resident['live_runs']:,} live runs",
            value=resident["process"] / 1e6,
            unit="MB",
            bar=PROCESS_BAR_MB,
            details=resident,
        ),
        Measure(
            benchmark=NAME,
            what="a live run whose results have 64 KiB",
            value=big["bytes_a_run"] / 1024,
            unit="KiB",
            bar=RUN_BAR_KIB,
            details=big,
        ),
    ]


def _measure_recorded(runs: int) -> Measure:
    what = "a live run of 50 recorded events, Python's objects"
    path = real_runs.DATA / "claudecode_sessions.jsonl.gz"
    if not path.is_file():
        return not_measured(NAME, what, f"{path.name} is absent: set STEADYHELM_DATA")
    with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
        calls = Path(folder) / "calls.jsonl"
        real_runs.write_calls(real_runs.read_runs(path, 6000), calls, "steadyhelm")
        database = Path(folder) / "bench.db"
        found = measure_in_child("remembering", Path(folder), "tracemalloc", runs, 0, database, calls)
    return Measure(
        benchmark=NAME,
        what=what,
        value=found["bytes_a_run"] / 1024,
        unit="KiB",
        bar=RUN_BAR_KIB,
        aim=RUN_AIM_KIB,
        details=found,
    )


def _child(how: str, runs: int, characters: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
        return measure_in_child("remembering", Path(folder), how, runs, characters, Path(folder) / "bench.db")
