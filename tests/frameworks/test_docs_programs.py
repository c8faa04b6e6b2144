"""The programs of the integration pages run as they stand, each in its framework's environment."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import WANTED

PAGES = sorted((Path(__file__).parents[2] / "docs" / "integrations").glob("*.md"))
FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIRST_LINE = re.compile(r"# ([\w-]+): runs offline")
EXTRAS = [name.removesuffix("-client").removesuffix("-responses") for name in WANTED]


def programs():
    """Every program of these frameworks, with the page it stands on."""
    for page in PAGES:
        for number, block in enumerate(FENCE.findall(page.read_text(encoding="utf-8"))):
            found = FIRST_LINE.match(block)
            if found and found[1] in EXTRAS:
                yield pytest.param(block, id=f"{page.stem} {number}")


def test_every_framework_has_a_program():
    """
    No framework is without a complete program in the docs.
    """
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)

    assert set(EXTRAS) <= set(FIRST_LINE.findall(text))


@pytest.mark.parametrize("program", list(programs()))
def test_the_program_runs_as_it_stands(program, tmp_path):
    """
    A program of the docs runs alone, offline, to its end, and says what was noticed.
    """
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "STEADYHELM_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    assert done.stdout.strip()
