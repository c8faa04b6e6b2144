"""How long one hook of a coding agent takes, from start to exit, against a bare Python."""

import json
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measures import Measure, from_repeats, not_measured
from benchmarks.processes import ROOT, environment

from steadyhelm.hooks.resident import stop_resident
from steadyhelm.hooks.settings_entries import build_hook_command, get_status_line_command

NAME = "hook"
BAR = 2.5
AIM = 1.5
_BARE = [sys.executable, "-I", "-c", "import sqlite3, json"]


def run(*, quick: bool) -> list[Measure]:
    """Each figure is the median of ratios, each taken side by side with the bare Python."""
    repeats = 3 if quick else 40
    with tempfile.TemporaryDirectory(prefix="sh-", dir="/tmp") as folder:
        home = environment(Path(folder))
        try:
            return _measure_all(home, repeats)
        finally:
            stop_resident(f"{folder}/hook.sock")


def _measure_all(home: dict[str, str], repeats: int) -> list[Measure]:
    hook, line = (
        shlex.split(build_hook_command("claude-code", "guide")),
        shlex.split(get_status_line_command()),
    )
    alone = {**home, "STEADYHELM_HOOK_HOST": "0"}
    if _once(hook, _event(0), home) is None:
        return [not_measured(NAME, "hook process", "it ended with an error")]
    _wait_for(Path(home["STEADYHELM_HOME"]) / "hook.sock")
    kinds = {
        "a finished tool call, times a bare Python": (hook, home, BAR, AIM),
        "the status line, times a bare Python": (line, home, BAR, AIM),
        "all of it in one process, times a bare Python": (hook, alone, None, None),
    }
    ratios: dict[str, list[float]] = {what: [] for what in kinds}
    bare: list[float] = []
    for n in range(1, repeats + 1):
        bare.append(_once(_BARE, b"", home) or 0.0)
        for what, (command, where, _, _) in kinds.items():
            taken = _once(command, _event(n), where)
            if taken is not None and bare[-1]:
                ratios[what].append(taken / bare[-1])
    first = [_first(hook, home) / (_once(_BARE, b"", home) or 1.0) for _ in range(max(3, repeats // 2))]
    measures = [
        from_repeats(NAME, what, ratios[what], "x", bar=bar, aim=aim)
        for what, (_, _, bar, aim) in kinds.items()
    ]
    what = "the first hook of all, times a bare Python"
    measures.append(from_repeats(NAME, what, first, "x", bar=BAR, aim=AIM))
    return [*measures, from_repeats(NAME, "the bare Python", [it * 1000 for it in bare], "ms")]


def _event(n: int) -> bytes:
    """Return a step of a long session that makes progress."""
    event = {
        "session_id": f"session-{n // 20}",
        "transcript_path": "",
        "cwd": "/project",
        "hook_event_name": "PostToolUse",
        "tool_name": "Read",
        "tool_input": {"file_path": f"/project/src/module_{n}.py"},
        "tool_response": {"type": "text", "file": {"content": f"value_{n} = {n}\n" * 100}},
        "tool_use_id": f"call-{n}",
        "duration_ms": 4,
    }
    return json.dumps(event).encode()


def _once(command: list[str], body: bytes, where: dict[str, str]) -> float | None:
    before = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=where, input=body, capture_output=True, check=False)
    elapsed = time.perf_counter() - before
    return elapsed if done.returncode == 0 else None


def _first(command: list[str], home: dict[str, str]) -> float:
    """Return the time of a hook without a resident helper; end the helper it starts."""
    with tempfile.TemporaryDirectory(prefix="sh-", dir="/tmp") as folder:
        taken = _once(command, _event(0), {**home, "STEADYHELM_HOME": folder})
        _wait_for(Path(folder) / "hook.sock")
        stop_resident(f"{folder}/hook.sock")
        time.sleep(0.05)
    return taken or 0.0


def _wait_for(path: Path) -> None:
    until = time.monotonic() + 10.0
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)
