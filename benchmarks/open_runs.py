"""The open runs that long proofs are made on, and baselines learnt from them.

The runs are read from the folder that STEADYHELM_DATA names, else `../shared/data`.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.real_runs import DATA

from steadyhelm.recordings.run_file import ReadRun, RunFile
from steadyhelm.replay import Replayer
from steadyhelm.settings import Settings
from steadyhelm.sinks.store import StoreSink
from steadyhelm.stores import open_store

LEARNT_FROM = 5
"""Clean runs until a baseline counts: some sources have few runs of an agent."""


def list_files() -> list[Path]:
    """Return the files of the open runs. Raises SystemExit when there are none."""
    if files := sorted(DATA.glob("*.jsonl.gz")):
        return files
    raise SystemExit(f"There are no runs in {DATA}: set STEADYHELM_DATA.")


def read_runs(files: Iterable[Path], most: int | None) -> Iterator[ReadRun]:
    """Yield the runs of these files, at most so many of each."""
    for path in files:
        runs = (run for run in RunFile(path) if isinstance(run, ReadRun) and run.events)
        yield from (run for _, run in zip(range(most or 1 << 40), runs, strict=False))


def learn_baselines(runs: Iterable[ReadRun], database: Path) -> int:
    """Store the baselines that these runs teach; return how many count."""
    replayer = Replayer(Settings())
    with closing(open_store(database)) as store:
        sink = StoreSink(store, calibration_runs=LEARNT_FROM)
        for run in runs:
            sink.write([run.info, replayer.judge(run).summary])
        return sum(baseline.is_calibrated for baseline in store.list_baselines())
