"""How long imports and the command's help take, in fresh interpreters."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measures import Measure, not_measured
from benchmarks.processes import ROOT, environment

NAME = "starting"
IMPORT_BAR = 2.0

_TIMED = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
_PLAIN = "json, sqlite3, dataclasses"
_HELP = "import sys; sys.argv = ['steadyhelm', '--help']; from steadyhelm.cli.main import run; run()"
_IMPORTS = {
    "import steadyhelm": "steadyhelm",
    "import json, sqlite3, dataclasses": _PLAIN,
    "from steadyhelm import DriftMonitor": "steadyhelm; steadyhelm.DriftMonitor",
}
_PROCESSES = {
    "python -c pass": "pass",
    "python -c 'import json, sqlite3, dataclasses'": f"import {_PLAIN}",
    "python -c 'import steadyhelm'": "import steadyhelm",
    "python -c 'import typer'": "import typer",
    "steadyhelm --help": _HELP,
}


def run(*, quick: bool) -> list[Measure]:
    """Best of several, in turn, so that a busy moment hits all alike."""
    repeats = 2 if quick else 15
    with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
        home = environment(Path(folder))
        imports = _best(
            {name: _TIMED.format(what) for name, what in _IMPORTS.items()}, repeats, home, inside=True
        )
        whole = _best(_PROCESSES, repeats, home, inside=False)
    return [*_imports(imports), *_processes(whole)]


def _imports(best: dict[str, float | None]) -> list[Measure]:
    ours, plain = best["import steadyhelm"], best["import json, sqlite3, dataclasses"]
    if ours is None or plain is None:
        return [not_measured(NAME, "import steadyhelm", "it cannot be imported")]
    measures = [
        Measure(
            benchmark=NAME,
            what="import steadyhelm, times import json, sqlite3, dataclasses",
            value=ours / plain,
            unit="x",
            bar=IMPORT_BAR,
        )
    ]
    return [*measures, *(_milliseconds(name, seconds) for name, seconds in best.items())]


def _processes(best: dict[str, float | None]) -> list[Measure]:
    measures = [_milliseconds(f"whole process: {name}", seconds) for name, seconds in best.items()]
    ours, typer = best["steadyhelm --help"], best["python -c 'import typer'"]
    if ours is None or typer is None:
        return [
            *measures,
            not_measured(NAME, "steadyhelm --help, times import typer", "it cannot be started"),
        ]
    help_ratio = Measure(
        benchmark=NAME, what="steadyhelm --help, times python -c 'import typer'", value=ours / typer, unit="x"
    )
    return [*measures, help_ratio]


def _milliseconds(what: str, seconds: float | None) -> Measure:
    if seconds is None:
        return not_measured(NAME, what, "it ended with an error")
    return Measure(benchmark=NAME, what=what, value=seconds * 1000, unit="ms")


def _best(
    code: dict[str, str], repeats: int, home: dict[str, str], *, inside: bool
) -> dict[str, float | None]:
    """Return the shortest time of each; None for what ended with an error."""
    times: dict[str, list[float | None]] = {name: [] for name in code}
    for _ in range(repeats):
        for name, lines in code.items():
            times[name].append(_once(lines, home, inside=inside))
    return {
        name: None if None in values else min(value for value in values if value is not None)
        for name, values in times.items()
    }


def _once(lines: str, home: dict[str, str], *, inside: bool) -> float | None:
    before = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", lines], cwd=ROOT, env=home, capture_output=True, text=True, check=False
    )
    elapsed = time.perf_counter() - before
    if done.returncode != 0:
        return None
    return float(done.stdout) if inside else elapsed
