"""Agents that the real SDK records: clean runs, loops, a poll, and text that tries to break the page."""

from contextlib import closing
from pathlib import Path
from typing import Any

from steadyhelm import DriftMonitor

FIXER = "bug-fixer"
POLLER = "data-cleaner"
HOSTILE = '<img src=x onerror="alert(1)">'
HOSTILE_GOAL = "<script>alert(2)</script> \u202eelgnadnu javascript:alert(3) {{7*7}}"
LOOP_GOAL = "Message.locations are duplicated when running make gettext"
CALIBRATION_RUNS = 5


def watch(agent: str, database: Path, **settings: Any) -> DriftMonitor:
    """Return a monitor of this agent that records into the given file and sends nothing."""
    settings.setdefault("mode", "guide")
    return DriftMonitor(
        agent,
        "",
        db_path=database,
        calibration_runs=CALIBRATION_RUNS,
        version=settings.pop("version", "v14"),
        **settings,
    )


def record_clean_run(monitor: DriftMonitor, number: int) -> str:
    """Record a short run that reads, edits and tests."""
    with monitor.run(goal=f"Fix the title of page {number}") as run:
        run.record(
            "llm_request",
            "model",
            output_data={"text": f"I open page {number}."},
            token_count=900 + number,
            cost_usd=0.01,
        )
        run.record(
            "tool_call",
            "read_file",
            input_data={"path": f"p{number}.py"},
            output_data={"text": f"page {number}"},
        )
        run.record(
            "llm_request",
            "model",
            output_data={"text": f"I change line {number}."},
            token_count=700,
            cost_usd=0.01,
        )
        run.record(
            "tool_call",
            "edit_file",
            input_data={"path": f"p{number}.py", "line": number},
            output_data={"ok": True},
        )
        run.record("tool_call", "run_tests", input_data={}, output_data={"text": f"{number} passed"})
        return run.run_id


def start_loop(monitor: DriftMonitor, *, repeats: int = 9, goal: str = LOOP_GOAL) -> str:
    """Record the same failing edit again and again; the run goes on, so that its incidents stay open."""
    run = monitor.start_run(goal=goal)
    monitor.record_event(
        "tool_call",
        "read_file",
        run_id=run,
        input_data={"path": "builders.py"},
        output_data={"text": "def build"},
    )
    for _ in range(repeats):
        monitor.record_event(
            "llm_request",
            "model",
            run_id=run,
            output_data={"text": "I replace the line."},
            token_count=1_200,
            cost_usd=0.02,
        )
        monitor.record_event(
            "tool_call",
            "str_replace_editor",
            run_id=run,
            input_data={"command": "str_replace", "path": "builders.py", "old_str": "os.chdir(here)"},
            error="No replacement was performed, old_str did not appear verbatim",
        )
    monitor.flush()
    return run


def start_poll(monitor: DriftMonitor, *, repeats: int = 8) -> str:
    """Record a run that asks for an export until it is ready, with a tool that is not declared as a poll."""
    run = monitor.start_run(goal="Fetch the export of warehouse 3 when it is ready")
    for _ in range(repeats):
        monitor.record_event(
            "tool_call", "get_export", run_id=run, input_data={"job": 7}, output_data={"rows": 0}
        )
    monitor.flush()
    return run


def record_hostile_run(monitor: DriftMonitor) -> str:
    """Record a run whose names, arguments and results are markup, control characters and links."""
    with monitor.run(goal=HOSTILE_GOAL) as run:
        for _ in range(6):
            run.record(
                "tool_call",
                "<b onmouseover=alert(4)>tool</b>",
                input_data={
                    "<svg/onload=alert(5)>": "https://evil.example/\u0000\u001b[31m",
                    "__proto__": {"x": 1},
                },
                output_data={"text": "\u202e<iframe srcdoc='<script>alert(6)</script>'>\u2066"},
            )
        return run.run_id


def record_fixer(monitor: DriftMonitor) -> dict[str, str]:
    """Record clean runs until the agent is calibrated, then a loop; return the ids of the last of each."""
    for number in range(CALIBRATION_RUNS + 3):
        clean = record_clean_run(monitor, number)
    loop = start_loop(monitor)
    monitor.end_run(loop)
    return {"clean": clean, "loop": loop}


def record_past(database: Path) -> dict[str, str]:
    """Record runs that are over; return the ids of those that tests look at."""
    with closing(watch(FIXER, database)) as monitor:
        runs = record_fixer(monitor)
    with closing(watch("observed", database, mode="observe")) as monitor:
        runs["recording"] = start_loop(monitor, repeats=16, goal="Replace a line")
        monitor.end_run(runs["recording"])
    with closing(watch(POLLER, database, version="v9")) as monitor:
        for number in range(3):
            record_clean_run(monitor, number)
        # Closing the monitor suspends the run: it waits, and its incident stays open.
        runs["poll"] = start_poll(monitor)
    with closing(watch(HOSTILE, database, version="<i>1</i>")) as monitor:
        runs["hostile"] = record_hostile_run(monitor)
    return runs
