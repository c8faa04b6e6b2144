"""`steadyhelm demo`: a scripted agent gets stuck in a loop, and is steered out of it."""

import logging
import os
import shlex
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from steadyhelm.cli.context import GlobalOptions
from steadyhelm.cli.output import print_table
from steadyhelm.environment import HOME, get_variables
from steadyhelm.events import TraceEvent
from steadyhelm.reports.formats import format_response_level, pluralize, step_number
from steadyhelm.reports.terminal import console, format_severity, print_wrapped, safe
from steadyhelm.stores.locations import DatabaseLocation

if TYPE_CHECKING:
    from rich.console import Console

    from steadyhelm.assembly import DriftMonitor
    from steadyhelm.cli.demo_agent import DemoStep
    from steadyhelm.decisions import Decision, Intervention
    from steadyhelm.incidents import Incident

AGENT: Final = "demo-agent"
_PAUSE_S: Final = 0.45
_READING_PAUSE_S: Final = 2.5
_STEP_WIDTH: Final = 88
_BAR_WIDTH: Final = 8
_WORDS_INDENT: Final = 12
"""Where a step that is too long for the screen goes on: under its words."""
_OUTCOME_LABELS: Final = {
    "worked": "✔ worked",
    "ignored": "○ ignored",
    "worse": "✖ worse",
    "unknown": "? unknown",
}


def demo(
    context: typer.Context,
    database: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="FILE|URL", help="Keep the demo in this database, beside what is in it."
        ),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="No pauses.")] = False,
) -> None:
    """Show a scripted agent being steered out of a loop.

    The monitor is the real one, in mode guide. It takes under 30 seconds and needs no key and no network.
    """
    from steadyhelm.cli.demo_past import record_past

    shared: GlobalOptions = context.obj
    where = prepare_database(database or shared.database)
    is_slow = not fast and sys.stdout.isatty()
    out = console()
    record_past(where)
    with open_monitor(AGENT, where) as monitor:
        _record_good_runs(monitor)
        _print_introduction(out, DatabaseLocation(where))
        run_id = _DemoRun(out, monitor, is_slow=is_slow).play()
        monitor.flush()
        _print_report(out, monitor, run_id)
    _print_next_commands(out, DatabaseLocation(where), run_id)


def prepare_database(given: str | Path | None) -> str:
    """Return the given database, or the path of a demo database, emptied each time."""
    from steadyhelm.settings import home

    if given is not None:
        return str(given)
    path = home() / "demo.db"
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    return str(path)


@contextmanager
def open_monitor(
    agent: str, where: str | Path, *, calibration_runs: int = 30, clock: Callable[[], float] = time.time
) -> Iterator["DriftMonitor"]:
    """Yield a monitor with default settings: the demo shows the same whatever the settings here are."""
    from steadyhelm.assembly import DriftMonitor
    from steadyhelm.components import open_store

    # The screen shows the incident: it need not be in the log as well.
    logging.getLogger("steadyhelm").addHandler(logging.NullHandler())
    with _without_settings() as empty:
        monitor = DriftMonitor(
            agent,
            alert_webhook="",
            db_path=where,
            mode="guide",
            config=empty,
            calibration_runs=calibration_runs,
            clock=clock,
        )
    try:
        if monitor.store is None:
            # The monitor also works without a store; this raises why it could not be opened.
            open_store(monitor.settings).close()
        yield monitor
    finally:
        monitor.close()


@contextmanager
def _without_settings() -> Iterator[Path]:
    removed = {name: os.environ.pop(name) for name in get_variables() if name != HOME}
    try:
        with tempfile.TemporaryDirectory(prefix="steadyhelm-") as folder:
            empty = Path(folder) / "steadyhelm.toml"
            empty.touch()
            yield empty
    finally:
        os.environ.update(removed)


def _record_good_runs(monitor: "DriftMonitor") -> None:
    """Record a dozen short runs that go well, for the baseline."""
    from steadyhelm.cli.demo_agent import GOOD_TASKS, iter_good_task

    for goal, file, edits in GOOD_TASKS:
        with monitor.run(goal=goal) as run:
            now = time.time()
            for step in iter_good_task(goal, file, edits):
                now += step.took_s
                kind, name, fields = describe_step(step, now)
                run.record(kind, name, **fields)


def _print_introduction(out: "Console", database: DatabaseLocation) -> None:
    from steadyhelm.cli.demo_agent import GOAL

    out.print(f"An agent works on a goal: {GOAL}.")
    print_wrapped(out, f"Steadyhelm watches every step (mode guide) and keeps it all in {safe(database)}.")
    out.print("")


class _DemoRun:
    """Lets the agent work step by step, hands it what Steadyhelm says, and draws both."""

    def __init__(self, out: "Console", monitor: "DriftMonitor", *, is_slow: bool) -> None:
        self._out = out
        self._monitor = monitor
        self._is_slow = is_slow

    def play(self) -> str:
        """Play one run from its first step to its last; return its id."""
        from steadyhelm.cli.demo_agent import GOAL, StubbornAgent

        agent = StubbornAgent()
        with self._monitor.run(goal=GOAL) as run:
            now = time.time()
            run.record("user_message", "user", input_data={"text": GOAL}, timestamp=now)
            self._draw(1, "user", GOAL)
            for number, step in enumerate(agent.steps(), start=2):
                now += step.took_s
                kind, name, fields = describe_step(step, now)
                decision = run.record(kind, name, **fields)
                self._draw_step(number, step)
                if decision.verdict != "proceed":
                    agent.receive(decision.guidance)
                    self._draw_decision(decision)
        return run.run_id

    def _draw_step(self, number: int, step: "DemoStep") -> None:
        if not step.tool:
            self._draw(number, "agent", f'"{step.words}"')
            return
        arguments = ", ".join((step.arguments or {}).values())
        self._draw(number, "tool", f"{step.tool}({arguments}) → {step.result}", "red" if step.failed else "")

    def _draw(self, number: int, who: str, words: str, style: str = "") -> None:
        from rich.text import Text

        line = Text.assemble((f"{number:>3}  {who:<5}  ", "dim"), (safe(words, most=_STEP_WIDTH), style))
        print_wrapped(self._out, line, indent=_WORDS_INDENT)
        self._wait(_PAUSE_S)

    def _draw_decision(self, decision: "Decision") -> None:
        from rich.text import Text

        for finding in decision.findings:
            found = Text.assemble("     ", format_severity(finding.severity), f"  {safe(finding.message)}")
            print_wrapped(self._out, found)
        level = format_response_level(decision.action, decision.verdict)
        self._out.print(Text(f"     Steadyhelm to the agent (response level: {level}):", "bold"))
        # On a screen long lines are broken here, so that the bar goes on beside them.
        width = self._out.width - _BAR_WIDTH if self._out.is_terminal else sys.maxsize
        for line in decision.guidance.splitlines():
            for part in textwrap.wrap(safe(line), width):
                self._out.print(Text(f"     │ {part}", "cyan"))
        self._wait(_READING_PAUSE_S)

    def _wait(self, seconds: float) -> None:
        if self._is_slow:
            time.sleep(seconds)


def describe_step(step: "DemoStep", now: float) -> tuple[str, str, dict[str, Any]]:
    """Return a step's kind, name and fields for the monitor; with a time of its own, pauses do not count."""
    kind, name = ("tool_call", step.tool) if step.tool else ("llm_request", "model")
    return (
        kind,
        name,
        {
            "timestamp": now,
            "duration_ms": step.took_s * 1000,
            "token_count": step.tokens,
            "input_data": step.arguments,
            "output_data": {"text": step.result or step.words},
            "error": step.result if step.failed else None,
        },
    )


def _print_report(out: "Console", monitor: "DriftMonitor", run_id: str) -> None:
    """Print what the database holds about the run just played."""
    store = monitor.store
    assert store is not None
    incidents = store.list_incidents(AGENT, run_id)
    out.print("")
    if not incidents:
        out.print("No incident was opened.")
        return
    events = store.get_run_traces(AGENT, run_id)
    for incident in reversed(incidents):
        _print_incident(out, incident)
        since = incident.interventions[0].seq if incident.interventions else incident.opened_seq
        spent = _sum_up([event for event in events if since < event.seq <= incident.last_seq])
        print_wrapped(out, f"The agent spent {spent} in the loop after the first intervention.", indent=0)
    out.print(f"The run took {_sum_up(events)}.")


def _sum_up(events: "Sequence[TraceEvent]") -> str:
    tokens = sum(event.token_count for event in events)
    return f"{pluralize(len(events), 'step')} and {tokens:,} tokens"


def _print_incident(out: "Console", incident: "Incident") -> None:
    opened = f"opened at step {step_number(incident.opened_seq)}"
    now = "the drift has ended" if incident.state == "closed" else "still drifting"
    out.print(f"One incident, {opened}, severity {incident.severity}; {now}:")
    print_wrapped(out, safe(incident.message), indent=0)
    titles = ("step", "response level", "outcome", "tokens saved")
    print_table(titles, map(_format_intervention, incident.interventions), empty="No intervention was made.")


def _format_intervention(made: "Intervention") -> tuple[str, ...]:
    saved = f"at most {made.tokens_saved:,}" if made.tokens_saved else "-"
    return (
        str(step_number(made.seq)),
        format_response_level(made.action, made.verdict),
        _OUTCOME_LABELS[made.outcome],
        saved,
    )


def _print_next_commands(out: "Console", database: DatabaseLocation, run_id: str) -> None:
    steadyhelm = f"steadyhelm --db {shlex.quote(str(database))}"
    out.print("")
    out.print("Commands to try next:")
    for command, why in (
        (f"{steadyhelm} show {run_id}", "the run step by step"),
        (f"{steadyhelm} interventions", "how often interventions worked, over all runs"),
        (f"{steadyhelm} runs", "all runs, with those of other agents before this one"),
        (f"{steadyhelm} baseline", "what is normal for the agent"),
        (f"steadyhelm serve --db {shlex.quote(str(database))} --open", "all of it as a page"),
        ("steadyhelm init", "watch an agent of your own"),
    ):
        line = f"  {safe(command)}    # {why}"
        # A command is never broken: it is there to be copied.
        fits = not out.is_terminal or len(line) <= out.width
        out.print(line if fits else f"  # {why}\n  {safe(command)}")
