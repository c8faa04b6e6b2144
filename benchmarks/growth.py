"""Whether an event costs more late in a run or with a large result, and what other kinds of event cost."""

import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measures import Measure, from_repeats
from benchmarks.processes import measure_in_child

NAME = "growth"
LENGTH_BAR = 1.2
# Eight times the text may cost at most eight times as much; past 8 KiB nothing more is looked at.
LINEAR_BAR, CAPPED_BAR = 8.0, 1.2


def run(*, quick: bool) -> list[Measure]:
    """Growth over a run's length and over the size of a result."""
    return [*_length(quick=quick), *_results(quick=quick), *_kinds(quick=quick)]


def _length(*, quick: bool) -> list[Measure]:
    events = 2000 if quick else 100_000
    rounds = [_child("length", events) for _ in range(1 if quick else 3)]
    return [
        from_repeats(
            NAME,
            f"event {events:,} of a run, times event 100",
            [one["ratio"] for one in rounds],
            "x",
            bar=LENGTH_BAR,
            details={"rounds": rounds},
        )
    ]


def _results(*, quick: bool) -> list[Measure]:
    rounds = [_child("results", 20 if quick else 300) for _ in range(1 if quick else 3)]
    measures = []
    for form in ("text", "lines"):
        sizes = {kib: [one[f"{form} {kib}"] for one in rounds] for kib in (1, 8, 64, 512)}
        pairs = [(8, 1, LINEAR_BAR), (512, 8, CAPPED_BAR)]
        for large, small, bar in pairs:
            ratios = [much / little for much, little in zip(sizes[large], sizes[small], strict=True)]
            what = f"result of {large} KiB ({form}), times {small} KiB"
            measures.append(from_repeats(NAME, what, ratios, "x", bar=bar))
        measures.extend(
            from_repeats(NAME, f"caller's side, result of {kib} KiB ({form})", values, "µs")
            for kib, values in sizes.items()
        )
    return measures


def _kinds(*, quick: bool) -> list[Measure]:
    rounds = [_child("kinds", 50 if quick else 1000) for _ in range(1 if quick else 3)]
    names = [name for name in rounds[0] if name not in {"reference", "losses"}]
    reference = statistics.median(one["reference"] for one in rounds)
    return [
        from_repeats(
            NAME,
            f"{name}, in a tight loop, times the reference",
            [one[name] / one["reference"] for one in rounds],
            "x",
            details={"reference_us": reference, "rounds": rounds},
        )
        for name in names
    ]


def _child(what: str, size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
        return measure_in_child("growing", Path(folder), what, Path(folder) / "bench.db", size)
