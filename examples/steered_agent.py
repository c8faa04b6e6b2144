"""A small agent drifts in five ways, and is corrected at each response level.

    python examples/steered_agent.py              all five, one after the other
    python examples/steered_agent.py rollback     one of them
    python examples/steered_agent.py --fast       without pauses

Its model is scripted and stubborn; its tools, its files and everything Steadyhelm does are real.
It needs no key and no network, and leaves nothing behind.
"""

# ruff: noqa: INP001 - an example is a script, not a package
import argparse
import logging
import os
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from agent_loop import AgentLoop
from agent_moves import NOT_RECORDED, RunMoment, RunResult
from rich.console import Console
from rich.text import Text
from steered_scenarios import SCENARIOS, Scenario
from workshop_tools import Workshop

from steadyhelm import Decision, DriftMonitor, Incident, Intervention
from steadyhelm.cli.output import print_table
from steadyhelm.reports.formats import format_steps, pluralize, step_number
from steadyhelm.reports.terminal import console, format_severity, safe

AGENT: Final = "steered-agent"
LEVELS: Final = {
    "INJECT_REMINDER": "a reminder",
    "SUMMARIZE_REPLAN": "a new plan",
    "CHECKPOINT_RESET": "back to a checkpoint",
    "ASK_USER": "ask the user",
}
_PAUSE_S: Final = 0.25
_READING_S: Final = 1.5
_MAX_CHARACTERS: Final = 96
_BLOCK_MARGIN: Final = 9
_WHO: Final = {"said": "agent", "called": "tool", "failed": "tool", "user": "user", "refused": "tool"}
_BLOCKS: Final = {"planned": "The plan is now", "asked": "The user is asked"}
_COLOURS: Final = {"failed": "red", "refused": "yellow", "checkpoint": "dim"}
_OUTCOMES: Final = {
    "worked": "✔ worked",
    "ignored": "○ ignored",
    "worse": "✖ made it worse",
    "unknown": "? unknown",
}


class PlayedScenario(NamedTuple):
    """A scenario, its result, and what the database recorded about it."""

    scenario: Scenario
    landing: RunResult
    answers: list[Intervention]
    story: "RunPrinter"
    tokens: int


class RunPrinter:
    """Prints a run as it happens; the numbers are those of its events, as in `steadyhelm show`."""

    def __init__(self, out: Console, *, is_slow: bool) -> None:
        self._out = out
        self._is_slow = is_slow
        self._number = 0
        self._progress = self._last_words = ""
        self.seen: Counter[str] = Counter()

    def print_moment(self, moment: RunMoment) -> None:
        """Print one moment."""
        self._number += moment.what not in NOT_RECORDED
        self.seen[moment.what] += 1
        if moment.what == "progress":
            # It is recorded before its step, and reads better after it.
            self._progress = f"  ({moment.words} done)"
        elif moment.what in _BLOCKS:
            self._print_block(_BLOCKS[moment.what], moment.words)
        elif moment.what != "answered":
            self._print_line(moment)
        if moment.decision is not None:
            self._print_response(moment.decision, is_refusal=moment.what == "refused")

    def _print_line(self, moment: RunMoment) -> None:
        place = "" if moment.what in NOT_RECORDED else str(self._number)
        who = _WHO.get(moment.what, "loop")
        words = safe(f'"{moment.words}"' if moment.what == "said" else moment.words, most=_MAX_CHARACTERS)
        if moment.what in {
            "refused",
            "went back",
            "checkpoint",
            "not carried out",
            "asked for more",
            "switched",
        }:
            words = f"{moment.what}: {words}"
        shown = (words, _COLOURS.get(moment.what, ""))
        self._out.print(Text.assemble((f"{place:>4}  {who:<5}  ", "dim"), shown, (self._progress, "dim")))
        self._progress = ""
        self._wait(_PAUSE_S)

    def _print_response(self, decision: Decision, *, is_refusal: bool) -> None:
        told = "Steadyhelm blocks the call" if is_refusal else "Steadyhelm says"
        if decision.guidance == self._last_words:
            self._out.print(Text(f"      {told}, as before.", "bold"))
            return
        self._last_words = decision.guidance
        for finding in decision.findings:
            proof = format_steps(_list_places(finding.event_ids))
            words = f"  {safe(finding.message)}  [steps {proof}]"
            self._out.print(Text.assemble("      ", format_severity(finding.severity), words))
        self._print_block(f"{told} ({LEVELS[decision.action]})", decision.guidance)
        self._wait(_READING_S)

    def _print_block(self, title: str, words: str) -> None:
        self._out.print(Text(f"      {title}:", "bold"))
        # On a screen long lines are broken here, so that the margin continues beside them.
        width = self._out.width - _BLOCK_MARGIN if self._out.is_terminal else sys.maxsize
        for line in words.splitlines():
            for part in textwrap.wrap(safe(line), width):
                self._out.print(Text(f"      │ {part}", "cyan"))

    def _wait(self, seconds: float) -> None:
        if self._is_slow:
            time.sleep(seconds)


def play(scenario: Scenario, out: Console, *, is_slow: bool = False) -> PlayedScenario:
    """Run one scenario in a folder of its own, and return its result."""
    with (
        tempfile.TemporaryDirectory(prefix="steadyhelm-") as place,
        _open_monitor(scenario, Path(place)) as monitor,
    ):
        folder = Path(place) / "shop"
        folder.mkdir()
        for name, content in scenario.files.items():
            (folder / name).write_text(content, encoding="utf-8")
        story = RunPrinter(out, is_slow=is_slow)
        loop = AgentLoop(
            monitor,
            scenario.model,
            Workshop(folder).tools,
            folder=folder,
            ask=(lambda _: scenario.answer) if scenario.answer else None,
            on_moment=story.print_moment,
        )
        landing = loop.run(scenario.goal, plan=scenario.plan, run_id=scenario.name)
        monitor.flush()
        assert monitor.store is not None
        incidents: list[Incident] = monitor.store.list_incidents(AGENT, landing.run_id)
        answers = sorted(
            (it for incident in incidents for it in incident.interventions), key=lambda it: it.seq
        )
        tokens = sum(event.token_count for event in monitor.store.get_run_traces(AGENT, landing.run_id))
    return PlayedScenario(scenario, landing, answers, story, tokens)


@contextmanager
def _open_monitor(scenario: Scenario, place: Path) -> Iterator[DriftMonitor]:
    """Open a monitor in mode enforce, with the scenario's settings."""
    settings = place / "steadyhelm.toml"
    settings.write_text(scenario.settings, encoding="utf-8")
    monitor = DriftMonitor(AGENT, db_path=place / "steadyhelm.db", mode="enforce", config=settings)
    try:
        yield monitor
    finally:
        monitor.close()


def _print_outcome(out: Console, played: PlayedScenario) -> None:
    out.print(Text("      Outcome:", "bold"))
    for answer in played.answers:
        saved = f", about {answer.tokens_saved:,} tokens saved" if answer.tokens_saved else ""
        missed = f" (not carried out: {safe(answer.not_carried_out)})" if answer.not_carried_out else ""
        step = f"step {step_number(answer.seq)}"
        out.print(f"      {step:<8} {LEVELS[answer.action]:<21} {_OUTCOMES[answer.outcome]}{saved}{missed}")
    for words in _list_other_responses(played):
        out.print(f"      {words}")
    out.print(f"      {played.landing.ended:<8} {safe(played.landing.words)}")
    out.print("")


def _list_other_responses(played: PlayedScenario) -> list[str]:
    """Return the responses before a call was made, which belong to no step."""
    seen = played.story.seen
    words = [f"{pluralize(seen['refused'], 'call')} refused"] if seen["refused"] else []
    return [*words, "the user asked"] if seen["asked"] else words


def _print_table(all_played: list[PlayedScenario]) -> None:
    rows = []
    for played in all_played:
        answers = ", ".join(
            [*(f"{LEVELS[it.action]}: {it.outcome}" for it in played.answers), *_list_other_responses(played)]
        )
        saved = sum(it.tokens_saved or 0 for it in played.answers)
        landing = played.landing
        cells = (landing.ended, landing.turns, f"{played.tokens:,}", f"{saved:,}" if saved else "-")
        rows.append((played.scenario.name, answers, *cells))
    print_table(
        ("scenario", "responses and their outcomes", "ended", "turns", "tokens", "saved"),
        rows,
        empty="",
    )


def _list_places(event_ids: tuple[str, ...] | list[str]) -> list[int]:
    """Return the places of events in their run, which are the ends of their ids."""
    ends = (event_id.rpartition(".")[2] for event_id in event_ids)
    return [int(end) for end in ends if end.isdigit()]


def main() -> None:
    """Run the chosen scenarios, then print a summary."""
    # The screen shows each incident: it need not be in the log as well.
    logging.getLogger("steadyhelm").addHandler(logging.NullHandler())
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scenario", nargs="?", choices=SCENARIOS, help="one of them; all without it")
    parser.add_argument("--fast", action="store_true", help="no pauses")
    asked = parser.parse_args()
    # Ignore settings of the environment, so that the output is the same everywhere.
    for name in [name for name in os.environ if name.startswith("STEADYHELM_")]:
        del os.environ[name]
    out = console()
    all_played = []
    for scenario in [SCENARIOS[asked.scenario]] if asked.scenario else SCENARIOS.values():
        out.print(Text(f"{scenario.title}  ({scenario.name})", "bold underline"))
        out.print(f"{scenario.stubborn}\n")
        played = play(scenario, out, is_slow=not asked.fast and sys.stdout.isatty())
        _print_outcome(out, played)
        all_played.append(played)
    _print_table(all_played)


if __name__ == "__main__":
    main()
