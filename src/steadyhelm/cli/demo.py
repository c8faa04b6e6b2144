"""`steadyhelm demo`: a scripted agent goes astray before your eyes, and is brought back."""

import os
import shlex
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from steadyhelm.cli.context import Shared
from steadyhelm.cli.output import print_rows
from steadyhelm.environment import HOME, get_variables
from steadyhelm.reports.formats import counted, number
from steadyhelm.reports.terminal import console, safe, severity

if TYPE_CHECKING:
    from rich.console import Console

    from steadyhelm.assembly import DriftMonitor
    from steadyhelm.cli.demo_agent import Step
    from steadyhelm.decisions import Decision, Intervention
    from steadyhelm.incidents import Incident

AGENT: Final = "demo-agent"
_PAUSE_S: Final = 0.45
_READING_S: Final = 2.5
_SHOWN: Final = 88
_BAR: Final = 8
_NAMES: Final = {
    "INJECT_REMINDER": "a reminder",
    "SUMMARIZE_REPLAN": "sum up and plan anew",
    "CHECKPOINT_RESET": "go back and take another way",
    "ASK_USER": "ask the user",
}
_OUTCOMES: Final = {"worked": "✔ worked", "ignored": "○ ignored", "worse": "✖ worse", "unknown": "? unknown"}


def demo(
    context: typer.Context,
    database: Annotated[
        Path | None, typer.Option("--db", help="Keep the demo in this database, beside what is in it.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="No pauses.")] = False,
) -> None:
    """Watch a scripted agent get stuck, be noticed, be spoken to, and find its way back.

    The monitor is the real one, in mode guide; it takes under 30 seconds and needs no key and no network.
    """
    shared: Shared = context.obj
    path = _database(database or shared.database)
    is_slow = not fast and sys.stdout.isatty()
    out = console()
    with _monitor(path) as monitor:
        _seed(monitor)
        _introduce(out, path)
        run_id = _Stage(out, monitor, is_slow=is_slow).play()
        monitor.flush()
        _report(out, monitor, run_id)
    _what_next(out, path, run_id)


def _database(given: Path | None) -> Path:
    """The file given, or a demo database of our own, begun anew each time."""
    from steadyhelm.settings import home

    if given is not None:
        return given
    path = home() / "demo.db"
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    return path


@contextmanager
def _monitor(path: Path) -> Iterator["DriftMonitor"]:
    """A monitor as it comes out of the box: whatever the settings here say, the demo shows the same."""
    from steadyhelm.assembly import DriftMonitor
    from steadyhelm.parts import open_store

    with _no_settings() as empty:
        monitor = DriftMonitor(AGENT, alert_webhook="", db_path=path, mode="guide", config=empty)
    try:
        if monitor.store is None:
            # The monitor watches on without a store; this raises what kept it from being opened.
            open_store(monitor.settings).close()
        yield monitor
    finally:
        monitor.close()


@contextmanager
def _no_settings() -> Iterator[Path]:
    put_aside = {name: os.environ.pop(name) for name in get_variables() if name != HOME}
    try:
        with tempfile.TemporaryDirectory(prefix="steadyhelm-") as folder:
            empty = Path(folder) / "steadyhelm.toml"
            empty.touch()
            yield empty
    finally:
        os.environ.update(put_aside)


def _seed(monitor: "DriftMonitor") -> None:
    """A dozen short runs that go well, so that there is something to compare with."""
    from steadyhelm.cli.demo_agent import GOOD_DAYS, good_day

    for goal, file, edits in GOOD_DAYS:
        with monitor.run(goal=goal) as run:
            now = time.time()
            for step in good_day(goal, file, edits):
                now += step.took_s
                run.record(*_kind(step), **_fields(step, now))


def _introduce(out: "Console", path: Path) -> None:
    from steadyhelm.cli.demo_agent import GOAL

    out.print(f"An agent works on a goal: {GOAL}.")
    out.print(f"Steadyhelm watches every step (mode guide) and keeps it all in {safe(path)}.")
    out.print("")


class _Stage:
    """Lets the agent work step by step, hands it what Steadyhelm says, and draws both."""

    def __init__(self, out: "Console", monitor: "DriftMonitor", *, is_slow: bool) -> None:
        self._out = out
        self._monitor = monitor
        self._is_slow = is_slow

    def play(self) -> str:
        """One run from its first step to its last; gives its id."""
        from steadyhelm.cli.demo_agent import GOAL, StubbornAgent

        agent = StubbornAgent()
        with self._monitor.run(goal=GOAL) as run:
            now = time.time()
            run.record("user_message", "user", input_data={"text": GOAL}, timestamp=now)
            self._draw(1, "user", GOAL)
            for number, step in enumerate(agent.steps(), start=2):
                now += step.took_s
                decision = run.record(*_kind(step), **_fields(step, now))
                self._draw_step(number, step)
                if decision.verdict != "proceed":
                    agent.hear(decision.guidance)
                    self._draw_decision(decision)
        return run.run_id

    def _draw_step(self, number: int, step: "Step") -> None:
        if not step.tool:
            self._draw(number, "agent", f'"{step.words}"')
            return
        arguments = ", ".join((step.arguments or {}).values())
        self._draw(number, "tool", f"{step.tool}({arguments}) → {step.result}", "red" if step.failed else "")

    def _draw(self, number: int, who: str, words: str, style: str = "") -> None:
        from rich.text import Text

        line = Text.assemble((f"{number:>3}  {who:<5}  ", "dim"), (safe(words, most=_SHOWN), style))
        self._out.print(line)
        self._wait(_PAUSE_S)

    def _draw_decision(self, decision: "Decision") -> None:
        from rich.text import Text

        for finding in decision.findings:
            self._out.print(Text.assemble("     ", severity(finding.severity), f"  {safe(finding.message)}"))
        self._out.print(Text(f"     Steadyhelm says to the agent ({_NAMES[decision.action]}):", "bold"))
        # On a screen long lines are broken here, so that the bar goes on beside them.
        width = self._out.width - _BAR if self._out.is_terminal else sys.maxsize
        for line in decision.guidance.splitlines():
            for part in textwrap.wrap(safe(line), width):
                self._out.print(Text(f"     │ {part}", "cyan"))
        self._wait(_READING_S)

    def _wait(self, seconds: float) -> None:
        if self._is_slow:
            time.sleep(seconds)


def _kind(step: "Step") -> tuple[str, str]:
    return ("tool_call", step.tool) if step.tool else ("llm_request", "model")


def _fields(step: "Step", now: float) -> dict[str, Any]:
    """The step as the monitor takes it; its time is the agent's own, so that pauses do not count."""
    return {
        "timestamp": now,
        "duration_ms": step.took_s * 1000,
        "token_count": step.tokens,
        "input_data": step.arguments,
        "output_data": {"text": step.result or step.words},
        "error": step.result if step.failed else None,
    }


def _report(out: "Console", monitor: "DriftMonitor", run_id: str) -> None:
    """What the database says about the run just played."""
    store = monitor.store
    assert store is not None
    incidents = store.list_incidents(AGENT, run_id)
    out.print("")
    if not incidents:
        out.print("Nothing was noticed.")
        return
    events = store.get_run_traces(AGENT, run_id)
    for incident in reversed(incidents):
        _report_incident(out, incident)
        since = incident.interventions[0].seq if incident.interventions else incident.opened_seq
        late = [event for event in events if since < event.seq <= incident.last_seq]
        tokens = sum(event.token_count for event in late)
        out.print(
            f"It cost {counted(len(late), 'step')} and {tokens:,} tokens not to listen to the first word."
        )
    total = sum(event.token_count for event in events)
    out.print(f"The run took {counted(len(events), 'step')} and {total:,} tokens.")


def _report_incident(out: "Console", incident: "Incident") -> None:
    noticed = f"noticed at step {number(incident.opened_seq)}"
    out.print(f"One incident, {noticed}, {incident.severity} at its worst, now {incident.state}:")
    out.print(safe(incident.message))
    titles = ("step", "what Steadyhelm said", "what came of it", "tokens saved")
    print_rows(titles, map(_answer, incident.interventions), empty="Nothing was said.")


def _answer(given: "Intervention") -> tuple[str, ...]:
    saved = f"about {given.tokens_saved:,}" if given.tokens_saved else "-"
    return str(number(given.seq)), _NAMES[given.action], _OUTCOMES[given.outcome], saved


def _what_next(out: "Console", path: Path, run_id: str) -> None:
    steadyhelm = f"steadyhelm --db {shlex.quote(str(path))}"
    out.print("")
    out.print("What to type next:")
    for command, why in (
        (f"{steadyhelm} show {run_id}", "the run step by step"),
        (f"{steadyhelm} interventions", "which words helped, over all runs"),
        (f"{steadyhelm} runs", "all runs, the dozen before it too"),
        (f"{steadyhelm} baseline", "what has been learnt about the agent"),
        ("steadyhelm init", "watch an agent of your own"),
    ):
        out.print(f"  {safe(command)}    # {why}")
