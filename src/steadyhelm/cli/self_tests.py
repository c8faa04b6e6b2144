"""What `steadyhelm doctor` tries: an example for each of our detectors, and a monitor that records a step.

An example is a run with a finding, and a healthy run without one. The detectors are created from the
settings, and see the examples through a real session.
"""

import itertools
import logging
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from steadyhelm.baselines import BaselineStats
from steadyhelm.calibration import calibrate
from steadyhelm.detector import Detector
from steadyhelm.detectors.stagnation import SAME_ANSWERS_OF_LOOP
from steadyhelm.engine.session import Session
from steadyhelm.errors import SteadyhelmError
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, RunInfo, RunSummary, TraceEvent
from steadyhelm.goals.departure import MIN_RUNS_LEARNT

MakeDetector = Callable[[], Detector]
"""Returns a new detector, created from the settings."""

_AGENT: Final = "doctor"
_CITIES: Final = ("Oslo", "Lisbon", "Cairo", "Quito", "Hanoi", "Perth", "Dakar", "Turin", "Sofia", "Lima")
_ON_GOAL: Final = "The flight to Oslo is found, seat {} is free"
_OFF_GOAL: Final = "Let the sourdough rest for {} hours, then bake it golden"
_CITIES_APART: Final = 3
_SAME_ANSWER: Final = (
    "The timetable lists the flights of each day in the order of their departure. It is printed twice "
    "a year, in spring and in autumn, and can be read at every counter. Ask at the counter for a copy of "
    "the whole of it, with the fares and the seats."
)
_USUAL_TOKENS: Final = 1000
_FAR_TOO_MANY: Final = 1_000_000


def check_action_loop(make: MakeDetector) -> str:
    """Check for a finding when the same call with the same result comes once more than is allowed."""
    most = getattr(make(), "max_repeats", None) or 4
    same = [_call(seq, {"path": "a.py"}, "return 42") for seq in range(most)]
    other = [_call(seq, {"path": f"{seq}.py"}, f"line {seq}") for seq in range(most)]
    return _compare([most - 1], _find_steps_with_findings(make, same), _find_steps_with_findings(make, other))


def check_repetitive_text(make: MakeDetector) -> str:
    """Check for a finding in one reply that says the same sentence ten times."""
    repetitive, speech = (
        [_make_reply(0, "I will end the turn now. " * 10, 10)],
        _make_replies([_ON_GOAL, _OFF_GOAL]),
    )
    return _compare([0], _find_steps_with_findings(make, repetitive), _find_steps_with_findings(make, speech))


def check_edit_revert(make: MakeDetector) -> str:
    """Check for a finding when a file is written as A, as B, and so on in turn."""
    swinging = [_write(seq, "AB"[seq % 2]) for seq in range(4)]
    growing = [_write(seq, f"version {seq}") for seq in range(4)]
    return _compare([3], _find_steps_with_findings(make, swinging), _find_steps_with_findings(make, growing))


def check_failing_loop(make: MakeDetector) -> str:
    """Check for a finding when one call fails three times, each time with another error."""
    failing = [
        _make_event(seq, TOOL_CALL, "deploy", error=word) for seq, word in enumerate(("no", "nope", "never"))
    ]
    passing = [_call(seq, {"path": f"{seq}.py"}, f"line {seq}") for seq in range(3)]
    return _compare([2], _find_steps_with_findings(make, failing), _find_steps_with_findings(make, passing))


def check_stagnation(make: MakeDetector) -> str:
    """Check for a finding when different questions get one long answer as often as makes a loop."""
    most = getattr(make(), "same_answers", None) or SAME_ANSWERS_OF_LOOP
    places = list(itertools.islice(itertools.cycle(_CITIES), most + 2 * _CITIES_APART))
    asked = [
        _call(seq, {"from": city, "over": over, "to": to}, _SAME_ANSWER)
        for seq, (city, over, to) in enumerate(
            zip(places, places[_CITIES_APART:], places[2 * _CITIES_APART :], strict=False)
        )
    ]
    told = [_call(seq, {"path": f"{city}.py"}, f"{city} it is") for seq, city in enumerate(_CITIES)]
    return _compare([most - 1], _find_steps_with_findings(make, asked), _find_steps_with_findings(make, told))


def check_unusual_order(make: MakeDetector) -> str:
    """Check for a finding at a tool that none of thirty runs used."""
    usual = BaselineStats(agent_id=_AGENT, required_runs=5)
    recent: list[RunSummary] = []
    for _ in range(30):
        session = _make_session(make, usual, goal="")
        for event in _make_steps("read edit test read edit test read edit"):
            session.observe(event)
        recent.append(session.end(at=0.0).summary)
        usual = calibrate(usual, recent[-1], recent)
    strange, ordinary = _make_steps("read edit launch"), _make_steps("read edit test")
    return _compare(
        [2], _find_steps_with_findings(make, strange, usual), _find_steps_with_findings(make, ordinary, usual)
    )


def check_goal_drift(make: MakeDetector) -> str:
    """Check for a finding in replies about bread from an agent whose runs are about flights."""
    usual = BaselineStats(agent_id=_AGENT, required_runs=MIN_RUNS_LEARNT)
    recent: list[RunSummary] = []
    for city in itertools.islice(itertools.cycle(_CITIES), MIN_RUNS_LEARNT):
        session = _make_session(make, usual, goal=f"book a flight to {city}")
        for event in _make_replies([_ON_GOAL.replace("Oslo", city)] * 3):
            session.observe(event)
        recent.append(session.end(at=0.0).summary)
        usual = calibrate(usual, recent[-1], recent)
    goal = "book a flight to Oslo"
    astray, ahead = _make_replies([_OFF_GOAL] * 8), _make_replies([_ON_GOAL] * 8)
    return _compare(
        [7],
        _find_steps_with_findings(make, astray, usual, goal),
        _find_steps_with_findings(make, ahead, usual, goal),
    )


def check_resource_spike(make: MakeDetector) -> str:
    """Check for a finding in a reply of a million tokens, from an agent whose runs take a thousand."""
    usual = BaselineStats(agent_id=_AGENT, required_runs=5)
    summary = RunSummary(
        agent_id=_AGENT, run_id="usual", tokens=_USUAL_TOKENS, tool_calls=3, duration_ms=1000
    )
    for _ in range(5):
        usual = calibrate(usual, summary, [summary])
    limit = getattr(make(), "absolute_token_limit", None) or 0
    spent = max(_FAR_TOO_MANY, int(limit) + 1) if limit < math.inf else _FAR_TOO_MANY
    return _compare(
        [0],
        _find_steps_with_findings(make, [_make_reply(0, "done", spent)], usual),
        _find_steps_with_findings(make, [_make_reply(0, "done", 10)], usual),
    )


def check_user_correction(make: MakeDetector) -> str:
    """Check for a finding at the second of two corrections."""
    corrected = _make_conversation(
        "fix the parser", "no, that is still broken", "it still crashes, that is the wrong file"
    )
    content = _make_conversation("fix the parser", "thanks, that works", "now add a test for the empty case")
    return _compare([3], _find_steps_with_findings(make, corrected), _find_steps_with_findings(make, content))


def check_reply_style(make: MakeDetector) -> str:
    """Check for a finding in replies that are padded and flattering."""
    padded = "Great question! I'd be happy to help. Basically, let me explain. Perhaps, in a sense, "
    padded += "it is worth noting that, I think, essentially, it seems amazing."
    plain = "The parser dropped the last line of each file; that is fixed, and all 40 tests pass."
    return _compare(
        [0],
        _find_steps_with_findings(make, _make_replies([padded] * 3)),
        _find_steps_with_findings(make, _make_replies([plain] * 3)),
    )


SELF_TESTS: Final[dict[str, Callable[[MakeDetector], str]]] = {
    "action_loop": check_action_loop,
    "edit_revert": check_edit_revert,
    "failing_loop": check_failing_loop,
    "goal_drift": check_goal_drift,
    "repetitive_text": check_repetitive_text,
    "reply_style": check_reply_style,
    "resource_spike": check_resource_spike,
    "stagnation": check_stagnation,
    "unusual_order": check_unusual_order,
    "user_correction": check_user_correction,
}
"""By detector: a test that returns what is wrong, or an empty text when it passed."""


def _compare(expected: list[int], drifting: list[int], healthy: list[int]) -> str:
    if healthy:
        return f"a finding at step {healthy[0] + 1} of a healthy run"
    if not set(expected) <= set(drifting):
        return f"no finding at step {expected[0] + 1} of a run that drifts"
    return ""


def _find_steps_with_findings(
    make: MakeDetector, events: Iterable[TraceEvent], usual: BaselineStats | None = None, goal: str = ""
) -> list[int]:
    session = _make_session(make, usual or BaselineStats(agent_id=_AGENT), goal)
    return [event.seq for event in events if session.observe(event).decision.findings]


def _make_session(make: MakeDetector, usual: BaselineStats, goal: str) -> Session:
    return Session(RunInfo(agent_id=_AGENT, run_id="self-test", goal=goal), [make()], usual)


def _call(seq: int, arguments: dict[str, str], result: str) -> TraceEvent:
    return _make_event(seq, TOOL_CALL, "read_file", input_data=arguments, output_data={"text": result})


def _write(seq: int, content: str) -> TraceEvent:
    arguments = {"path": "a.py", "content": content}
    return _make_event(seq, TOOL_CALL, "write_file", input_data=arguments, output_data={"text": "saved"})


def _make_steps(names: str) -> list[TraceEvent]:
    return [
        _make_event(seq, TOOL_CALL, name, input_data={"step": seq}, output_data={"text": f"{name} {seq}"})
        for seq, name in enumerate(names.split())
    ]


def _make_conversation(*messages: str) -> list[TraceEvent]:
    """Return messages of a user, each with a call and a reply after it."""
    said: list[TraceEvent] = []
    for text in messages:
        said.append(_make_event(len(said), USER_MESSAGE, "user", input_data={"text": text}))
        said.append(_call(len(said), {"path": "parser.py"}, f"edited {len(said)}"))
        said.append(_make_reply(len(said), "Done, all tests pass.", 10))
    return said


def _make_replies(texts: Iterable[str]) -> list[TraceEvent]:
    return [_make_reply(seq, text.format(seq), 10) for seq, text in enumerate(texts)]


def _make_reply(seq: int, text: str, tokens: int) -> TraceEvent:
    return _make_event(seq, LLM_REQUEST, "model", output_data={"text": text}, token_count=tokens)


def _make_event(seq: int, action_type: str, action_name: str, **fields: object) -> TraceEvent:
    return TraceEvent.from_dict(
        {
            "agent_id": _AGENT,
            "run_id": "self-test",
            "action_type": action_type,
            "action_name": action_name,
            "timestamp": float(seq),
            "event_id": str(seq),
            "seq": seq,
            **fields,
        }
    )


class _Collector(logging.Handler):
    """Keeps the messages of warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self.messages.append(record.getMessage())


def find_monitor_faults(config_file: Path | None) -> list[str]:
    """Return why a monitor does not start with the settings in force, or starts with less than they ask for.

    It records one step in a database of its own, which is deleted; nothing is sent anywhere.
    """
    from steadyhelm.assembly import DriftMonitor
    from steadyhelm.engine.health import COUNT_LINES

    with tempfile.TemporaryDirectory(prefix="steadyhelm-doctor-") as folder, _collect_warnings() as warnings:
        try:
            monitor = DriftMonitor(_AGENT, db_path=Path(folder) / "doctor.db", config=config_file)
        except SteadyhelmError as exc:
            return [str(exc)]
        except Exception as exc:  # noqa: BLE001 - somebody else's plug-in may fail in any way
            return [f"{type(exc).__name__}: {exc}"]
        with closing(monitor):
            with monitor.run(goal="check the installation"):
                monitor.record_event("tool_call", "check", output_data="it works")
            is_stored = monitor.flush().complete
    counted = monitor.health.totals()
    reasons = [line for line in warnings if not line.startswith(COUNT_LINES)]
    stored = [] if is_stored else ["a step that was recorded could not be stored"]
    return [*(reasons or counted), *stored]


@contextmanager
def _collect_warnings() -> Iterator[list[str]]:
    collector, log = _Collector(), logging.getLogger("steadyhelm")
    propagates, log.propagate = log.propagate, False
    log.addHandler(collector)
    try:
        yield collector.messages
    finally:
        log.removeHandler(collector)
        log.propagate = propagates
