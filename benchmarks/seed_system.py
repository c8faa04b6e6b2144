"""The seed system, in a throw-away environment: what we measure ourselves against.

Installed without its declared dependencies, which are gigabytes; at import it needs numpy alone.
Its goal detector, which needs the rest, is turned off.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "driftshield-mini==0.2.1"
NEEDED_AT_IMPORT = "numpy"
VARIABLE = "STEADYHELM_BENCH_SEED_PYTHON"


class SeedMissingError(Exception):
    """The seed system could not be installed."""


@functools.cache
def seed_python() -> str:
    """Return an interpreter that can import the seed system; VARIABLE names an existing one."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    folder = Path(tempfile.mkdtemp(prefix="steadyhelm-seed-"))
    python = folder / "bin" / "python"
    try:
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "--no-deps", PACKAGE)
        _run(str(python), "-m", "pip", "install", "--quiet", NEEDED_AT_IMPORT)
        _run(str(python), "-c", "import driftshield_mini")
    except (subprocess.SubprocessError, OSError) as exc:
        shutil.rmtree(folder, ignore_errors=True)
        words = getattr(exc, "stderr", "") or str(exc)
        raise SeedMissingError(f"{PACKAGE} could not be installed: {words.strip()[-300:]}") from exc
    return str(python)


def remove() -> None:
    """Throw the environment away, if one was made."""
    if seed_python.cache_info().currsize and VARIABLE not in os.environ:
        shutil.rmtree(Path(seed_python()).parent.parent, ignore_errors=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
