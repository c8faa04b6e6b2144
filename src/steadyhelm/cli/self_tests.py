"""A small trace for each of our detectors on which it must speak, and one on which it must be silent.

The detectors come as the settings make them, and are shown the traces through a real session.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final

from steadyhelm.baselines import BaselineStats
from steadyhelm.calibration import calibrate
from steadyhelm.detector import Detector
from steadyhelm.engine.session import Session
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, RunInfo, RunSummary, TraceEvent

Make = Callable[[], Detector]
"""Gives a fresh detector, as the settings make it."""

_AGENT: Final = "doctor"
_CITIES: Final = ("Oslo", "Lisbon", "Cairo", "Quito", "Hanoi", "Perth", "Dakar", "Turin", "Sofia", "Lima")
_AHEAD: Final = "The flight to Oslo is found, seat {} is free"
_ASTRAY: Final = "Let the sourdough rest for {} hours, then bake it golden"
_USUAL_TOKENS: Final = 1000
_FAR_TOO_MANY: Final = 1_000_000


def action_loop(make: Make) -> str:
    """The same call with the same answer, as often as is still allowed, and once more."""
    most = getattr(make(), "max_repeats", None) or 4
    same = [_call(seq, {"path": "a.py"}, "nothing new") for seq in range(most)]
    other = [_call(seq, {"path": f"{seq}.py"}, f"line {seq}") for seq in range(most)]
    return _verdict([most - 1], _fired(make, same), _fired(make, other))


def repetitive_text(make: Make) -> str:
    """One reply that says the same sentence ten times."""
    repetitive, speech = [_reply(0, "I will end the turn now. " * 10, 10)], _replies([_AHEAD, _ASTRAY])
    return _verdict([0], _fired(make, repetitive), _fired(make, speech))


def edit_revert(make: Make) -> str:
    """A file written as A, as B, and so on in turn."""
    swinging = [_write(seq, "AB"[seq % 2]) for seq in range(4)]
    growing = [_write(seq, f"version {seq}") for seq in range(4)]
    return _verdict([3], _fired(make, swinging), _fired(make, growing))


def failing_loop(make: Make) -> str:
    """One call that fails three times, each time with another error."""
    failing = [
        _event(seq, TOOL_CALL, "deploy", error=word) for seq, word in enumerate(("no", "nope", "never"))
    ]
    passing = [_call(seq, {"path": f"{seq}.py"}, f"line {seq}") for seq in range(3)]
    return _verdict([2], _fired(make, failing), _fired(make, passing))


def stagnation(make: Make) -> str:
    """Ten questions, one answer."""
    asked = [_call(seq, {"path": f"{city}.py"}, "see the manual, page 7") for seq, city in enumerate(_CITIES)]
    told = [_call(seq, {"path": f"{city}.py"}, f"{city} it is") for seq, city in enumerate(_CITIES)]
    return _verdict([5], _fired(make, asked), _fired(make, told))


def unusual_order(make: Make) -> str:
    """A tool that none of thirty runs used."""
    usual = BaselineStats(agent_id=_AGENT, required_runs=5)
    recent: list[RunSummary] = []
    for _ in range(30):
        session = _session(make, usual, goal="")
        for event in _steps("read edit test read edit test read edit"):
            session.observe(event)
        recent.append(session.end(at=0.0).summary)
        usual = calibrate(usual, recent[-1], recent)
    strange, ordinary = _steps("read edit launch"), _steps("read edit test")
    return _verdict([2], _fired(make, strange, usual), _fired(make, ordinary, usual))


def goal_drift(make: Make) -> str:
    """Three replies about bread from an agent that has learnt to speak of flights."""
    usual = BaselineStats(agent_id=_AGENT, required_runs=len(_CITIES))
    recent: list[RunSummary] = []
    for city in _CITIES:
        session = _session(make, usual, goal=f"book a flight to {city}")
        for event in _replies([_AHEAD.replace("Oslo", city), "Seat number {} looks better, one moment"] * 3):
            session.observe(event)
        recent.append(session.end(at=0.0).summary)
        usual = calibrate(usual, recent[-1], recent)
    goal = "book a flight to Oslo"
    astray, ahead = _replies([_ASTRAY] * 3), _replies([_AHEAD] * 3)
    return _verdict([2], _fired(make, astray, usual, goal), _fired(make, ahead, usual, goal))


def resource_spike(make: Make) -> str:
    """One reply that costs more than any limit, from an agent whose runs cost a thousand tokens."""
    usual = BaselineStats(agent_id=_AGENT, required_runs=5)
    summary = RunSummary(
        agent_id=_AGENT, run_id="usual", tokens=_USUAL_TOKENS, tool_calls=3, duration_ms=1000
    )
    for _ in range(5):
        usual = calibrate(usual, summary, [summary])
    limit = getattr(make(), "absolute_token_limit", None) or 0
    spent = max(_FAR_TOO_MANY, int(limit) + 1) if limit < math.inf else _FAR_TOO_MANY
    return _verdict(
        [0], _fired(make, [_reply(0, "done", spent)], usual), _fired(make, [_reply(0, "done", 10)], usual)
    )


def user_correction(make: Make) -> str:
    """Two corrections, one after the other."""
    corrected = _talk(
        "fix the parser", "no, that is still broken", "it still crashes, that is the wrong file"
    )
    content = _talk("fix the parser", "thanks, that works", "now add a test for the empty case")
    return _verdict([3], _fired(make, corrected), _fired(make, content))


def reply_style(make: Make) -> str:
    """Replies that are padded and flattering, one after the other."""
    padded = "Great question! I'd be happy to help. Basically, let me explain. Perhaps, in a sense, "
    padded += "it is worth noting that, I think, essentially, it seems amazing."
    plain = "The parser dropped the last line of each file; that is fixed, and all 40 tests pass."
    return _verdict([0], _fired(make, _replies([padded] * 3)), _fired(make, _replies([plain] * 3)))


SELF_TESTS: Final[dict[str, Callable[[Make], str]]] = {
    "action_loop": action_loop,
    "edit_revert": edit_revert,
    "failing_loop": failing_loop,
    "goal_drift": goal_drift,
    "repetitive_text": repetitive_text,
    "reply_style": reply_style,
    "resource_spike": resource_spike,
    "stagnation": stagnation,
    "unusual_order": unusual_order,
    "user_correction": user_correction,
}
"""By detector: gives what is wrong, or nothing when it spoke where it must and only there."""


def _verdict(expected: list[int], drifting: list[int], healthy: list[int]) -> str:
    if healthy:
        return f"it spoke at step {healthy[0] + 1} of a healthy run"
    if not set(expected) <= set(drifting):
        return f"it said nothing at step {expected[0] + 1} of a run that drifts"
    return ""


def _fired(
    make: Make, events: Iterable[TraceEvent], usual: BaselineStats | None = None, goal: str = ""
) -> list[int]:
    session = _session(make, usual or BaselineStats(agent_id=_AGENT), goal)
    return [event.seq for event in events if session.observe(event).decision.findings]


def _session(make: Make, usual: BaselineStats, goal: str) -> Session:
    return Session(RunInfo(agent_id=_AGENT, run_id="self-test", goal=goal), [make()], usual)


def _call(seq: int, arguments: dict[str, str], result: str) -> TraceEvent:
    return _event(seq, TOOL_CALL, "read_file", input_data=arguments, output_data={"text": result})


def _write(seq: int, content: str) -> TraceEvent:
    arguments = {"path": "a.py", "content": content}
    return _event(seq, TOOL_CALL, "write_file", input_data=arguments, output_data={"text": "saved"})


def _steps(names: str) -> list[TraceEvent]:
    return [
        _event(seq, TOOL_CALL, name, input_data={"step": seq}, output_data={"text": f"{name} {seq}"})
        for seq, name in enumerate(names.split())
    ]


def _talk(*messages: str) -> list[TraceEvent]:
    """Messages of a user, each answered."""
    said: list[TraceEvent] = []
    for text in messages:
        said.append(_event(len(said), USER_MESSAGE, "user", input_data={"text": text}))
        said.append(_call(len(said), {"path": "parser.py"}, f"edited {len(said)}"))
        said.append(_reply(len(said), "Done, all tests pass.", 10))
    return said


def _replies(texts: Iterable[str]) -> list[TraceEvent]:
    return [_reply(seq, text.format(seq), 10) for seq, text in enumerate(texts)]


def _reply(seq: int, text: str, tokens: int) -> TraceEvent:
    return _event(seq, LLM_REQUEST, "model", output_data={"text": text}, token_count=tokens)


def _event(seq: int, action_type: str, action_name: str, **fields: object) -> TraceEvent:
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
