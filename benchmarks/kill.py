"""What `kill -9` in mid-stream loses, in each mode, and whether the database is sound afterwards."""

import os
import random
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.dying import ANSWERED
from benchmarks.measures import Measure
from benchmarks.processes import ROOT, environment

from steadyhelm import SQLiteStore
from steadyhelm.components import store_pending
from steadyhelm.settings import Settings

NAME = "kill"
KILLS = 20


class Death(NamedTuple):
    """A killed process: what it had answered, what its database and journal hold and what is wrong there."""

    answered: int
    kept: int
    faults: list[str]

    @property
    def lost(self) -> int:
        """Answered, and not there."""
        return max(0, self.answered - self.kept)


def run(*, quick: bool) -> list[Measure]:
    """Kill a process again and again at moments drawn at random, and look at what it left."""
    random.seed(9)
    kills = 2 if quick else KILLS
    durable = [_measure_death("durable") for _ in range(kills)]
    fast = [_measure_death("fast") for _ in range(kills)]
    return [
        *_measures("durable", durable, 0),
        *_measures("fast", fast, 0),
    ]


def _measures(mode: str, deaths: list[Death], allowed: int) -> list[Measure]:
    lost = [death.lost for death in deaths]
    details = {"deaths": [death._asdict() for death in deaths]}
    return [
        Measure(
            benchmark=NAME,
            what=f"{mode}: most events lost in one of {len(deaths)} kills",
            value=max(lost),
            unit="",
            bar=allowed,
            spread=(min(lost), max(lost)),
            details=details,
        ),
        Measure(
            benchmark=NAME,
            what=f"{mode}: databases with a fault, of {len(deaths)}",
            value=sum(bool(death.faults) for death in deaths),
            unit="",
            bar=0,
            details=details,
        ),
        Measure(
            benchmark=NAME,
            what=f"{mode}: events answered before the kill, in all",
            value=sum(death.answered for death in deaths),
            unit="",
        ),
    ]


def _measure_death(mode: str) -> Death:
    with tempfile.TemporaryDirectory(prefix="steadyhelm-bench-") as folder:
        database = Path(folder) / "bench.db"
        said = _kill_agent(mode, database, Path(folder), after_s=random.uniform(0.05, 0.8))
        whole = len(said) - len(said) % ANSWERED.size
        (answered,) = ANSWERED.unpack(said[whole - ANSWERED.size : whole])
        return Death(answered, *_read_survivors(database))


def _kill_agent(mode: str, database: Path, home: Path, *, after_s: float) -> bytes:
    """Kill the agent that long after its first answer; return what it had printed."""
    command = [sys.executable, "-m", "benchmarks.dying", mode, str(database)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None
        said = bytearray(os.read(child.stdout.fileno(), 65_536))
        deadline = time.monotonic() + after_s
        while (left := deadline - time.monotonic()) > 0:
            if select.select([child.stdout], [], [], left)[0]:
                said += os.read(child.stdout.fileno(), 65_536)
        child.kill()
        return bytes(said + child.stdout.read())


def _read_survivors(database: Path) -> tuple[int, list[str]]:
    """Return the number of stored events, and the faults found by the store and by counting again."""
    store_pending(Settings(db=str(database)))
    store = SQLiteStore(database)
    try:
        faults = store.check()
        kept = 0
        for row in store.list_runs(limit=100_000):
            seqs = [recorded.event.seq for recorded in store.iter_run_events(row.agent_id, row.run_id)]
            if len(seqs) != row.events:
                faults.append(f"run {row.run_id} says {row.events} events and has {len(seqs)}")
            kept += len(seqs)
        return kept, faults
    finally:
        store.close()
