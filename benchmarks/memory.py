"""What a live run takes, and what ten thousand of them take."""

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measures import Measure
from benchmarks.processes import measure_in_child

NAME = "memory"
RUN_BAR_KIB, PROCESS_BAR_MB = 32.0, 400.0


def run(*, quick: bool) -> list[Measure]:
    """Measure runs of 20 events, all live at once, with results of 230 characters and of 64 KiB."""
    few, many, large = (50, 200, 50) if quick else (1000, 9900, 500)
    traced = _child("tracemalloc", few, 230)
    resident = _child("resident", many, 230)
    big = _child("tracemalloc", large, 65_536)
    return [
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


def _child(how: str, runs: int, characters: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
        return measure_in_child("remembering", Path(folder), how, runs, characters, Path(folder) / "bench.db")
