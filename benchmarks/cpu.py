"""All CPU of the process until an event is on disk, against the seed system in the same run."""

import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import seed_system
from benchmarks.measures import Measure, from_repeats, not_measured
from benchmarks.processes import measure_in_child

NAME = "cpu"
BAR, AIM = 0.5, 0.2


def run(*, quick: bool) -> list[Measure]:
    """CPU an event at 2,000 events a second, the loop's own cost taken off both."""
    rounds, seconds = (1, 1.0) if quick else (11, 2.0)
    results: dict[str, list[dict[str, Any]]] = {"none": [], "steadyhelm": [], "seed": []}
    missing = "left out of a quick run" if quick else ""
    for _ in range(rounds):
        for system in ("none", "steadyhelm"):
            results[system].append(_once(system, seconds))
        if missing:
            continue
        try:
            results["seed"].append(_once("seed", seconds, python=seed_system.seed_python()))
        except seed_system.SeedMissingError as exc:
            missing = str(exc)
    empty = [one["cpu_us"] for one in results["none"]]
    idle = statistics.median(empty)
    ours = [one["cpu_us"] - idle for one in results["steadyhelm"]]
    measures = [
        from_repeats(NAME, "CPU an event, everything on disk", ours, "µs", details=results),
        from_repeats(NAME, "the paced loop alone (taken off)", empty, "µs"),
    ]
    if missing:
        return [*measures, not_measured(NAME, "CPU an event, of the seed system's", missing)]
    whole = [one["cpu_us"] - idle for one in results["seed"]]
    # Its run ends, which read every run again, are left out; ours are in.
    events_only = [
        all_of_it - one["run_ends_cpu_us"] for all_of_it, one in zip(whole, results["seed"], strict=True)
    ]
    return [
        from_repeats(
            NAME,
            "CPU an event, of the seed system's",
            [mine / theirs for mine, theirs in zip(ours, events_only, strict=True)],
            "x",
            bar=BAR,
            aim=AIM,
            note="the seed's run ends left out, ours in",
        ),
        from_repeats(
            NAME,
            "the same with the seed's run ends",
            [mine / theirs for mine, theirs in zip(ours, whole, strict=True)],
            "x",
        ),
        *measures,
        from_repeats(NAME, "seed system, CPU an event", events_only, "µs"),
    ]


def _once(system: str, seconds: float, **options: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
        return measure_in_child(
            "pacing", Path(folder), system, seconds, 0, Path(folder) / "bench.db", **options
        )
