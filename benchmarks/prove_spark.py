"""Prove that Spark says of the open runs what one process says, also when it is killed.

Usage: .venv-spark/bin/python -m benchmarks.prove_spark [--runs-per-file N]

All open runs are scanned in one process and on Spark, with baselines learnt from these runs: the reports must
be equal to the byte. Then all runs are judged as a stream, which is killed after its sink wrote
a batch and again half way through a batch: findings, incidents and places must be those of the scan, and
nothing may be there twice. The exit status is 1 when anything differs.
"""

import argparse
import gzip
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.open_runs import learn_baselines, list_files, read_runs
from benchmarks.processes import ROOT

from steadyhelm.replay import Replayer
from steadyhelm.scale import open_spark
from steadyhelm.settings import Settings
from steadyhelm.stores import open_store

sys.path.insert(0, str(ROOT / "tests" / "spark"))

from killed_streams import (
    find_differences,
    judge_and_kill_twice,
    read_rows,
    write_messages,
)


def scan(files: Sequence[Path], database: Path, *more: str) -> bytes:
    """Return the report of a scan; the exit status 3 says that something was found."""
    command = [sys.executable, "-m", "steadyhelm", "scan", *map(str, files), "--format", "json"]
    done = subprocess.run([*command, "--baseline", str(database), *more], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"scan {' '.join(more)} ended with {done.returncode}.")
    return done.stdout


def cut_file(path: Path, folder: Path, most: int | None) -> Path:
    """Return a run file with at most so many of the runs."""
    cut = folder / path.name.removesuffix(".gz")
    with gzip.open(path, "rb") as source, cut.open("wb") as target:
        for _, line in zip(range(most or 1 << 40), source, strict=False):
            target.write(line)
    return cut


def prove_batch(files: Sequence[Path], database: Path) -> bool:
    """Compare the reports of all files; return whether they are equal."""
    here, there = (scan(files, database, *more) for more in ((), ("--engine", "spark")))
    words = "met" if here == there else "MISSED"
    print(f"{words}: {len(here):,} bytes of reports from one process, {len(there):,} from Spark", flush=True)
    return here == there


def prove_stream(files: Sequence[Path], folder: Path) -> bool:
    """Kill a stream of all runs twice; return whether it says what a scan says."""
    runs = list(read_runs(files, None))
    write_messages(runs, folder / "in", files=3)
    judge_and_kill_twice(folder)
    with closing(open_store(folder / "known.db", read_only=True)) as store:
        judged = list(Replayer(Settings(), store=store).judge_all(runs))
    with open_spark("local[2]") as spark:
        rows, twice = read_rows(spark, folder)
    different = find_differences(rows, judged)
    findings = sum(row.kind == "finding" for row, _ in rows)
    for words in different[:20]:
        print(f"differs: {words}", flush=True)
    print(
        f"{'MISSED' if different or twice else 'met'}: a stream of {len(runs):,} runs killed twice, "
        f"{findings:,} findings, {len(different)} differences, {twice} findings twice",
        flush=True,
    )
    return not different and not twice


def main() -> int:
    """Make both proofs, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs-per-file", type=int, default=None)
    most = parser.parse_args().runs_per_file
    folder = Path(tempfile.mkdtemp(prefix="steadyhelm-prove-"))
    try:
        files = [cut_file(path, folder, most) for path in list_files()]
        learnt = learn_baselines(read_runs(files, None), folder / "known.db")
        print(f"{learnt} baselines learnt", flush=True)
        is_met = prove_batch(files, folder / "known.db")
        return 0 if prove_stream(files, folder) and is_met else 1
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
