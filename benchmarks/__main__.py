"""Run the benchmarks: one table on the screen, one JSON file beside this one.

Usage: python -m benchmarks [--quick] [--results FOLDER] [NAME ...]
"""

import argparse
import importlib
import json
import os
import platform
import sqlite3
import sys
import time
from pathlib import Path

from benchmarks import seed_system
from benchmarks.measures import Measure

_HEADINGS = ("benchmark", "what", "bar", "aim", "measured", "lowest .. highest", "verdict")
BENCHMARKS = ("reference", "caller", "cpu", "real_runs", "growth", "ingest", "queries", "memory")
BENCHMARKS += (
    "starting",
    "kill",
    "style",
    "patterns",
    "guest",
    "hook",
    "adapters",
    "page",
    "postgres",
    "jobs",
)


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 1 when a bar was missed, but never in a quick run: its figures mean nothing."""
    asked = _parse_arguments(arguments)
    started = time.time()
    measures: list[Measure] = []
    try:
        for name in asked.names or BENCHMARKS:
            print(f"{name} ...", file=sys.stderr, flush=True)
            measures.extend(importlib.import_module(f"benchmarks.{name}").run(quick=asked.quick))
    finally:
        seed_system.remove()
    print(_format_table(measures))
    print(_write_report(measures, asked.results, started, quick=asked.quick), file=sys.stderr)
    missed = any(measure.verdict == "MISSED" for measure in measures)
    return 1 if missed and not asked.quick else 0


def _parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="a smoke run: its figures mean nothing")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    return asked


def _format_table(measures: list[Measure]) -> str:
    rows: list[tuple[str, ...]] = [
        ("benchmark", "what", "bar", "aim", "measured", "lowest .. highest", "verdict")
    ]
    rows.extend(_format_row(measure) for measure in measures)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _format_row(measure: Measure) -> tuple[str, ...]:
    least = "≥ " if measure.at_least else "≤ "
    return (
        measure.benchmark,
        measure.what,
        least + _format_figure(measure.bar, measure.unit) if measure.bar is not None else "",
        least + _format_figure(measure.aim, measure.unit) if measure.aim is not None else "",
        _format_figure(measure.value, measure.unit) if measure.value is not None else "-",
        " .. ".join(_format_figure(value, "") for value in measure.spread) if measure.spread else "",
        f"{measure.verdict} ({measure.note})" if measure.note else measure.verdict,
    )


def _format_figure(value: float, unit: str) -> str:
    words = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{words}{unit}" if unit in {"", "x"} else f"{words} {unit}"


def _write_report(measures: list[Measure], folder: Path, started: float, *, quick: bool) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y-%m-%d-%H%M%S', time.localtime(started))}.json"
    content = {
        "quick": quick,
        "seconds": round(time.time() - started, 1),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "measures": [measure.to_dict() for measure in measures],
    }
    path.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")
    return f"written to {path}"


if __name__ == "__main__":
    sys.exit(main())
