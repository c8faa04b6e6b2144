"""Run a load in several processes, and sum up what they measured."""

import multiprocessing
import secrets
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import closing
from typing import Final

from msgspec import Struct

from steadyhelm.lab.load.mix import LoadMix
from steadyhelm.lab.load.worker import WorkerFigures, WorkerPlan, list_agent_names, run_worker
from steadyhelm.stores import open_store
from steadyhelm.stores.locations import DatabaseLocation

_MEGABYTE: Final = 1e6
_PERCENT: Final = 100
WARM_UP_SHARE: Final = 0.25
"""The part of the time in which memory may grow: caches fill, baselines are learnt."""


class LoadReport(Struct, frozen=True, kw_only=True):
    """The figures of a load.

    `past` are the steps of the runs that were under way when the time began, which no other figure counts.
    `lost` counts steps that were recorded and are not stored, `late_s` by how much a simulated step came too
    late because the machine was busy. `cpu_us_per_step` is the CPU time of the agents' processes, which judge
    and write; a database server's own is not in it. Memory is that of all processes together: the median of
    the first and of the second half of the time after warming up, and the highest.
    """

    database: str
    agents: int
    processes: int
    rate: float
    seconds: float
    runs: int
    past: int
    recorded: int
    stored: int
    lost: int
    steps_per_s: float
    lag_median_s: float
    lag_p99_s: float
    lag_max_s: float
    late_s: float
    cpu_us_per_step: float
    cpu_cores: float
    memory_before_mb: float
    memory_after_mb: float
    memory_peak_mb: float
    troubles: dict[str, int]


def simulate_load(
    database: DatabaseLocation,
    mix: LoadMix,
    *,
    agents: int,
    rate: float,
    seconds: float,
    processes: int,
    seed: int = 0,
    config_file: str | None = None,
    on_second: Callable[[], None] = lambda: None,
) -> LoadReport:
    """Let so many agents record so many steps a second each, and return what it took."""
    token = secrets.token_hex(4)
    shares = [agents // processes + (number < agents % processes) for number in range(processes)]
    plans = [
        WorkerPlan(
            database=database.to_absolute().where,
            config_file=config_file,
            token=token,
            number=number,
            agents=share,
            rate=rate,
            seconds=seconds,
            seed=seed,
            mix=mix,
        )
        for number, share in enumerate(shares)
        if share
    ]
    # Created once, before all processes open it at the same time.
    open_store(database).close()
    started = time.monotonic()
    figures = list(_run(plans, on_second))
    took_s = time.monotonic() - started
    stored = _count_stored(database, token, sum(one.runs for one in figures))
    return _sum_up(figures, str(database), agents, rate, seconds, stored, took_s)


def _run(plans: Sequence[WorkerPlan], on_second: Callable[[], None]) -> Iterator[WorkerFigures]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(plans), mp_context=context) as pool:
        waiting = {pool.submit(run_worker, plan) for plan in plans}
        while waiting:
            done, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
            on_second()
            yield from (future.result() for future in done)


def _count_stored(database: DatabaseLocation, token: str, runs: int) -> int:
    """Return how many steps of a load are in the store."""
    with closing(open_store(database, read_only=True)) as store:
        return sum(
            row.events for agent in list_agent_names(token) for row in store.list_runs(agent, limit=runs + 1)
        )


def _sum_up(
    figures: Sequence[WorkerFigures],
    database: str,
    agents: int,
    rate: float,
    seconds: float,
    stored: int,
    took_s: float,
) -> LoadReport:
    lags: Counter[int] = Counter()
    for one in figures:
        lags.update(one.lags_ms)
    past = sum(one.past for one in figures)
    recorded = sum(one.recorded for one in figures)
    cpu_s = sum(one.cpu_s for one in figures)
    troubles: Counter[str] = Counter()
    for one in figures:
        troubles.update(one.troubles)
    memory = [sum(together) / _MEGABYTE for together in zip(*(one.memory for one in figures), strict=False)]
    warm = memory[int(len(memory) * WARM_UP_SHARE) :] or [0.0]
    middle = max(1, len(warm) // 2)
    return LoadReport(
        database=database,
        agents=agents,
        processes=len(figures),
        rate=rate,
        seconds=seconds,
        runs=sum(one.runs for one in figures),
        past=past,
        recorded=recorded,
        stored=stored - past,
        lost=past + recorded - stored,
        steps_per_s=recorded / seconds,
        lag_median_s=_find_percentile(lags, 50),
        lag_p99_s=_find_percentile(lags, 99),
        lag_max_s=_find_percentile(lags, _PERCENT),
        late_s=max((one.late_s for one in figures), default=0.0),
        cpu_us_per_step=cpu_s * 1e6 / max(1, recorded),
        cpu_cores=cpu_s / took_s,
        memory_before_mb=statistics.median(warm[:middle]),
        memory_after_mb=statistics.median(warm[-middle:]),
        memory_peak_mb=max(memory, default=0.0),
        troubles=dict(troubles),
    )


def _find_percentile(lags_ms: Mapping[int, int], percent: int) -> float:
    """Return the seconds within which this share of the steps was stored."""
    wanted = sum(lags_ms.values()) * percent / _PERCENT
    counted = 0
    for lag_ms in sorted(lags_ms):
        counted += lags_ms[lag_ms]
        if counted >= wanted:
            return lag_ms / 1000
    return 0.0


def format_load(report: LoadReport) -> str:
    """Return the figures as text."""
    lag = (
        f"median {report.lag_median_s:.3f} s, p99 {report.lag_p99_s:.3f} s, at most {report.lag_max_s:.3f} s"
    )
    memory = f"{report.memory_before_mb:,.0f} MB, later {report.memory_after_mb:,.0f} MB"
    steps = f"{report.recorded:,} recorded ({report.steps_per_s:,.0f} a second), {report.stored:,} stored"
    cpu = f"{report.cpu_us_per_step:,.0f} us a step, {report.cpu_cores:.2f} cores"
    lines = [
        f"{report.agents:,} agents, {report.processes} processes, {report.seconds:g} s, on {report.database}",
        f"steps    {steps}, {report.lost:,} lost",
        f"runs     {report.runs:,}",
        f"lag      {lag} from recorded to stored",
        f"late     at most {report.late_s:.3f} s: steps that began late because the machine was busy",
        f"CPU      {cpu}, without a database server's own",
        f"memory   {memory}, at most {report.memory_peak_mb:,.0f} MB",
    ]
    return "\n".join(
        lines + [f"trouble  {count:,} times: {reason}" for reason, count in report.troubles.items()]
    )
