"""Write a run as a picture: one character per step.

========  =======================================================================
`a`..`q`  a call of the tool of that name, with the same arguments and the same result
`A`..`Q`  the same call, with another result each time
`.`       a step of new work: other arguments, another result
`x`       a failed step: other arguments, an error of its own
`r`       a model's reply of 1,000 tokens
space     a user's turn, with new words
========  =======================================================================
"""

from collections.abc import Iterable, Iterator
from typing import Final

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, RunInfo, TraceEvent

AGENT: Final = "tested"
RUN: Final = "run"
REPLY_TOKENS: Final = 1000
_START: Final = 1_700_000_000.0


def events(picture: str) -> list[TraceEvent]:
    """Return the events of a picture, a tenth of a second apart.

    >>> [event.action_name for event in events("ab r")]
    ['a', 'b', 'user', 'model']
    """
    return [_draw_event(seq, step) for seq, step in enumerate(picture)]


def replies(*texts: str) -> list[TraceEvent]:
    """Return model replies with these texts."""
    return [
        _make_event(seq, LLM_REQUEST, "model", output_data={"text": text}, token_count=REPLY_TOKENS)
        for seq, text in enumerate(texts)
    ]


def healthy(steps: int) -> Iterator[TraceEvent]:
    """Yield a long run without drift: reading, editing, testing, never the same twice, with user messages."""
    for seq in range(steps):
        if seq % 50 == 49:  # noqa: PLR2004 - now and then
            yield _make_event(seq, USER_MESSAGE, "user", input_data={"text": f"and now part {seq}"})
        elif seq % 10 == 9:  # noqa: PLR2004 - after every few calls
            text = f"I have finished part {seq} of the plan."
            yield _make_event(seq, LLM_REQUEST, "model", output_data={"text": text})
        else:
            name = ("read_file", "edit_file", "run_tests")[seq % 3]
            yield _make_event(
                seq,
                TOOL_CALL,
                name,
                input_data={"path": f"src/part_{seq}.py"},
                output_data={"text": f"{name} part {seq}: ok"},
            )


def fired_at(
    detector: Detector, picture: str | Iterable[TraceEvent], baseline: BaselineStats | None = None
) -> list[int]:
    """Return the places at which the detector reported a finding."""
    trace = events(picture) if isinstance(picture, str) else picture
    usual = baseline or BaselineStats(agent_id=AGENT)
    detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
    return [event.seq for event in trace if detector.check(event, usual) is not None]


def said_at(detector: Detector, *texts: str, baseline: BaselineStats | None = None) -> list[int]:
    """Return the places at which the detector reported a finding, for model replies with these texts."""
    return fired_at(detector, replies(*texts), baseline)


def _draw_event(seq: int, step: str) -> TraceEvent:
    if step == " ":
        return _make_event(seq, USER_MESSAGE, "user", input_data={"text": f"please go on, {seq}"})
    if step == "r":
        text = f"This is reply number {seq} of the run."
        return _make_event(seq, LLM_REQUEST, "model", output_data={"text": text}, token_count=REPLY_TOKENS)
    if step == ".":
        done = {"text": f"done {seq}"}
        return _make_event(
            seq, TOOL_CALL, "work", input_data={"step": seq}, output_data=done, tool_kind="write"
        )
    if step == "x":
        return _make_event(seq, TOOL_CALL, "work", input_data={"step": seq}, error=f"no such thing {seq}")
    name = step.lower()
    result = f"result {seq}" if step.isupper() else f"result of {name}"
    return _make_event(seq, TOOL_CALL, name, input_data={"of": name}, output_data={"text": result})


def _make_event(seq: int, action_type: str, action_name: str, **fields: object) -> TraceEvent:
    return TraceEvent.from_dict(
        {
            "agent_id": AGENT,
            "run_id": RUN,
            "action_type": action_type,
            "action_name": action_name,
            "timestamp": _START + seq / 10,
            "event_id": f"{RUN}.{seq}",
            "seq": seq,
            **fields,
        }
    )
