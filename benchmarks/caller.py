"""What the agent's own thread pays for one event, at 2,000 events a second, beside the seed system."""

import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import seed_system
from benchmarks.measures import Measure, from_repeats, not_measured
from benchmarks.processes import measure_in_child

NAME = "caller"
# Five times with the first three detectors, eight with all of them.
BAR, AIM = 8.0, 4.0


def run(*, quick: bool) -> list[Measure]:
    """Full monitor, fast mode, storing on, against the reference timed in the same paced loop."""
    rounds, seconds = (1, 1.0) if quick else (5, 4.0)
    ours: list[dict[str, Any]] = []
    seeds: list[dict[str, Any]] = []
    missing = ""
    for _ in range(rounds):
        ours.append(_once("steadyhelm", seconds))
        if quick or missing:
            continue
        try:
            seeds.append(_once("seed", seconds, python=seed_system.seed_python()))
        except seed_system.SeedMissingError as exc:
            missing = str(exc)
    measures = [
        from_repeats(
            NAME,
            "caller's side, p50, times the reference",
            [one["p50_us"] / one["reference_p50_us"] for one in ours],
            "x",
            bar=BAR,
            aim=AIM,
            details={"rounds": ours},
        ),
        *(_microseconds(ours, key, f"caller's side, {words}") for key, words in _SHOWN),
        *(_microseconds(ours, f"reference_{key}", f"reference, {words}") for key, words in _SHOWN[:2]),
    ]
    measures.extend(_busy(seconds, rounds))
    if not seeds:
        return [*measures, not_measured(NAME, "seed system", missing or "left out of a quick run")]
    return [
        *measures,
        *(_microseconds(seeds, key, f"seed system, {words}") for key, words in _SHOWN),
        _against_seed(ours, seeds, "p50_us", "caller's side, p50, of the seed system's"),
        _against_seed(ours, seeds, "p99_us", "caller's side, p99, of the seed system's"),
    ]


_SHOWN = (("p50_us", "p50"), ("p99_us", "p99"), ("max_us", "worst"))


def _once(system: str, seconds: float, *more: str, **options: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
        return measure_in_child(
            "pacing", Path(folder), system, seconds, 1, Path(folder) / "bench.db", *more, **options
        )


def _busy(seconds: float, rounds: int) -> list[Measure]:
    """Measure the same while the agent computes: the writer must take the interpreter from it."""
    busy = [_once("steadyhelm", seconds, "busy") for _ in range(rounds)]
    dropped = [100 * sum(one["losses"].values()) / one["events"] for one in busy]
    return [
        _microseconds(busy, "p50_us", "busy agent: caller's side, p50"),
        _microseconds(busy, "p99_us", "busy agent: caller's side, p99"),
        # It happens in some rounds and not in others: the median would hide it.
        Measure(
            benchmark=NAME,
            what="busy agent: events dropped and counted, worst round",
            value=max(dropped),
            unit="%",
            spread=(min(dropped), max(dropped)),
        ),
    ]


def _microseconds(rounds: list[dict[str, Any]], key: str, what: str) -> Measure:
    return from_repeats(NAME, what, [one[key] for one in rounds], "µs", details={"rounds": rounds})


def _against_seed(ours: list[dict[str, Any]], seeds: list[dict[str, Any]], key: str, what: str) -> Measure:
    theirs = statistics.median(one[key] for one in seeds)
    return from_repeats(NAME, what, [one[key] / theirs for one in ours], "x")
