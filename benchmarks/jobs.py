"""What a second process gains `scan` and the lab on one machine: one process against `--jobs 2`, in turn.

The runs are read from the folder that STEADYHELM_DATA names, else `../shared/data`.
"""

import ctypes
import hashlib
import os
import resource
import subprocess
import sys
import time
from typing import Any

from benchmarks.measures import Measure, from_repeats, not_measured
from benchmarks.open_runs import DATA

NAME = "jobs"
BAR, AIM = 1.5, 1.7
PAIRS = 5
_BECOME_SUBREAPER = 36
_COMMANDS = {"scan": ("scan", "--format", "json"), "lab simulate": ("lab", "simulate", "--json")}


def run(*, quick: bool) -> list[Measure]:
    """Run each command in one process and in two, several times in turn."""
    files = sorted(map(str, DATA.glob("*.jsonl.gz")))[: 1 if quick else None]
    if not files:
        return [not_measured(NAME, "one process, times --jobs 2", f"there are no runs in {DATA}")]
    # The processes that judge belong to a server of theirs: when it ends, its CPU time is to be ours.
    ctypes.CDLL(None).prctl(_BECOME_SUBREAPER, 1, 0, 0, 0)
    pairs = 1 if quick else PAIRS
    return [it for what, words in _COMMANDS.items() for it in _measure_pairs(what, [*words, *files], pairs)]


def _measure_pairs(what: str, command: list[str], pairs: int) -> list[Measure]:
    rounds = [[_measure_once(command, jobs) for jobs in (1, 2)] for _ in range(pairs)]
    assert len({it["output"] for pair in rounds for it in pair}) == 1, "the output differs"
    gains = [one["wall_s"] / two["wall_s"] for one, two in rounds]
    costs = [two["cpu_s"] / one["cpu_s"] for one, two in rounds]
    load = f"load {min(it['load'] for pair in rounds for it in pair):.1f}"
    return [
        from_repeats(
            NAME,
            f"{what}: wall time of one process, times --jobs 2",
            gains,
            "x",
            bar=BAR,
            aim=AIM,
            at_least=True,
            details={"rounds": rounds},
            note=f"at a {load} or more; needs two cores of its own",
        ),
        from_repeats(NAME, f"{what}: CPU of --jobs 2, times one process", costs, "x"),
    ]


def _measure_once(command: list[str], jobs: int) -> dict[str, Any]:
    load = os.getloadavg()[0]
    before, began = _read_cpu_s(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "steadyhelm", *command, "--jobs", str(jobs)],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    wall_s = time.perf_counter() - began
    _wait_for_all()
    digest = hashlib.blake2b(done.stdout).hexdigest()
    return {"wall_s": wall_s, "cpu_s": _read_cpu_s() - before, "output": digest, "load": load}


def _wait_for_all() -> None:
    """Wait for the processes that the command left to us."""
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return


def _read_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
