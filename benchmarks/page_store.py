"""A store as the page of a busy team sees it: many agents, recent runs, incidents of which many are open."""

import random
import time

from benchmarks.filling import list_run_records

from steadyhelm import BaselineStats, SQLiteStore
from steadyhelm.sink import Record

AGENTS = 200
_RUNS_A_BATCH = 25
_OPEN_EVERY = 5
_DAY_S = 86_400.0
_DAYS = 30


def get_run_id(run: int) -> str:
    """Return the id of a run."""
    return f"run{run:09d}"


def fill_page_store(store: SQLiteStore, runs: int, *, events: int, agents: int = AGENTS) -> None:
    """Write runs of that many events each, over the last 30 days; every fifth has an open incident."""
    random.seed(1)
    start = time.time() - _DAYS * _DAY_S
    for first in range(0, runs, _RUNS_A_BATCH):
        records: list[Record] = []
        for run in range(first, min(first + _RUNS_A_BATCH, runs)):
            at = start + (run + 1) / runs * (_DAYS * _DAY_S - 120)
            records += list_run_records(
                f"agent-{run % agents}",
                get_run_id(run),
                at,
                events=events,
                flagged=run % _OPEN_EVERY == 0,
                critical=run % (10 * _OPEN_EVERY) == 0,
                incident_state="open",
                subject=f"tool-{run % 7}",
            )
        store.write(records)
    for number in range(agents):
        store.save_baseline(
            BaselineStats(agent_id=f"agent-{number}", calibration_runs=50, word_counts=bytes(16_384))
        )
