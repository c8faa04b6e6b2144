"""The `steadyhelm` program as a whole: in this process for speed, in one of its own where streams matter."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from steadyhelm.cli.main import app

SOURCE = Path(__file__).parents[2] / "src"


class Answer(NamedTuple):
    """How the program ended, and what it said where."""

    status: int
    out: str
    err: str

    @property
    def documents(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self):
        return json.loads(self.out)


def steadyhelm(*arguments, stdin=None):
    """Run a command here; what it raises is raised."""
    result = CliRunner().invoke(app, [str(part) for part in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def process(*arguments, stdin=b"", environment=None):
    """Run a command in a process of its own, which inherits this one's environment."""
    ended = subprocess.run(
        [sys.executable, "-m", "steadyhelm", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **(environment or {})},
    )
    return Answer(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def run_line(*events, **keys):
    """A recorded run as a line of a run file."""
    return json.dumps({"run_id": "r1", "events": list(events), **keys}) + "\n"


def call(name="search", result="nothing", **keys):
    return {"type": "tool_call", "name": name, "args": {"q": "x"}, "result": result, "tokens": 100, **keys}


def healthy_line(run_id="fine", steps=5):
    return run_line(*(call(result=f"found {n}") for n in range(steps)), run_id=run_id)


def looping_line(run_id="stuck", times=6, **keys):
    return run_line(*[call()] * times, run_id=run_id, goal="find x", **keys)


def scanned(file, *options):
    """The JSON report on a file."""
    return steadyhelm("scan", file, "--json", *options).document["runs"]


def written(folder, *lines):
    """A run file with these lines."""
    file = folder / "written.jsonl"
    file.write_text("".join(lines))
    return file
