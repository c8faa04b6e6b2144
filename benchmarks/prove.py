"""Prove that a PostgreSQL server on this machine takes the load of many agents.

Usage: python -m benchmarks.prove [--agents 2000] [--seconds 600] [--only-loss]

A server is started in a temporary folder, with its own durability (fsync on), and `lab simulate-load` runs
against it. Bars: the highest lag under 5 s, no step lost, memory flat. With `--only-loss`, for machines with
other work, only loss decides. The exit status is 1 when a bar is missed.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.handles import GROWTH_MB, GROWTH_SHARE

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from postgres_server import run_server  # noqa: E402 - it is beside the tests

MOST_LAG_S = 5.0
RATE = 0.44
DURABLE = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
}


def measure_cpu_s(postmaster: int) -> float:
    """Return the CPU time of a server: its first process, its children now, and those that have ended."""
    ticks = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(status.parent.name) == postmaster:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == postmaster:
            ticks += sum(map(int, fields[11:13]))
    return ticks / 100


def main() -> int:
    """Run the load, print its figures, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=2000)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--only-loss", action="store_true")
    given = parser.parse_args()
    with run_server(settings=DURABLE) as server, server.new_database() as url:
        before_s = measure_cpu_s(server.process.pid)
        command = [sys.executable, "-m", "steadyhelm", "--db", url, "lab", "simulate-load", "--json"]
        command += ["--agents", str(given.agents), "--rate", str(RATE), "--seconds", str(given.seconds)]
        done = subprocess.run([*command, "--processes", "2"], stdout=subprocess.PIPE, text=True, check=False)
        if not done.stdout:
            return 1
        report = json.loads(done.stdout)
        report["server_cpu_us_per_step"] = (measure_cpu_s(server.process.pid) - before_s) * 1e6
        report["server_cpu_us_per_step"] /= max(1, report["recorded"])
    print(json.dumps(report, indent=2))
    grown = report["memory_after_mb"] - report["memory_before_mb"]
    bars = {f"{report['lost']} steps lost": report["lost"] == 0 and report["recorded"] > 0}
    if not given.only_loss:
        bars[f"a lag of {report['lag_max_s']:.2f} s"] = report["lag_max_s"] < MOST_LAG_S
        flat = max(GROWTH_MB, GROWTH_SHARE * report["memory_before_mb"])
        bars[f"memory grew by {grown:.0f} MB"] = grown <= flat
    for words, is_met in bars.items():
        print(f"{'met' if is_met else 'MISSED'}: {words}")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
