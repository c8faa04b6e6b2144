"""Fresh processes: each measurement starts from nothing, and one cannot disturb the next."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 900.0


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a child: our sources, and a home folder of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STEADYHELM_")}
    paths = [str(ROOT / "src"), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "STEADYHELM_HOME": str(home)}


def measure_in_child(
    module: str, home: Path, *arguments: object, python: str = sys.executable
) -> dict[str, Any]:
    """Run `benchmarks.<module>` in a process of its own; the last line it prints is its result as JSON."""
    done = subprocess.run(
        [python, "-m", f"benchmarks.{module}", *map(str, arguments)],
        cwd=ROOT,
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"benchmarks.{module} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result
