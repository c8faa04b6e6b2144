"""How many events a second one core takes, from `record_event` to the disk, detectors off."""

import tempfile
from pathlib import Path

from benchmarks.measures import Measure, from_repeats
from benchmarks.processes import measure_in_child

NAME = "ingest"
BAR, AIM = 25_000.0, 50_000.0


def run(*, quick: bool) -> list[Measure]:
    """Events a second by CPU and by the clock; every one of them is on disk."""
    events, repeats = (2000, 1) if quick else (50_000, 5)
    rounds = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
            rounds.append(measure_in_child("ingesting", Path(folder), Path(folder) / "bench.db", events))
    lost = [events - one["kept"] for one in rounds]
    return [
        from_repeats(
            NAME,
            "events a CPU second, all on disk",
            [one["kept"] / one["cpu_s"] for one in rounds],
            "/s",
            bar=BAR,
            aim=AIM,
            at_least=True,
            details={"rounds": rounds},
            note=f"{max(lost)} not kept" if any(lost) else "",
        ),
        from_repeats(
            NAME,
            "events a second by the clock, on one core",
            [one["kept"] / one["wall_s"] for one in rounds],
            "/s",
        ),
    ]
