"""Events shown shortly, for people who want to see where a detector was wrong."""

from collections.abc import Collection
from typing import Any, Final

from msgspec import Struct

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.lab.evaluation.scoring import RunScore

_BEFORE: Final = 4
_AFTER: Final = 2
_CHARACTERS: Final = 140


class ShownEvent(Struct, frozen=True, kw_only=True):
    """One event in a few words; `labelled` and `found` say whether people or we pointed at it."""

    at: int
    what: str
    said: str
    labelled: bool = False
    found: bool = False


def around(score: RunScore) -> list[ShownEvent]:
    """The events around the first finding, or, when there is none, around what people pointed at."""
    places = [score.first, score.expected.first, score.expected.at_most]
    middle = next((place for place in places if place is not None), None)
    events = sorted(score.run.events, key=lambda event: int(event.event_id))
    if middle is None:
        return _shown(score, events[-_BEFORE - _AFTER :])
    here = next((i for i, event in enumerate(events) if int(event.event_id) >= middle), len(events) - 1)
    return _shown(score, events[max(0, here - _BEFORE) : here + _AFTER + 1])


def _shown(score: RunScore, events: list[TraceEvent]) -> list[ShownEvent]:
    labelled = _labelled(score)
    found = {finding.at for finding in score.found}
    return [
        ShownEvent(
            at=(at := int(event.event_id)),
            what=event.action_name,
            said=_said(event),
            labelled=at in labelled,
            found=at in found,
        )
        for event in events
    ]


def _labelled(score: RunScore) -> Collection[int | None]:
    expected = score.expected
    return expected.steps if expected.steps is not None else {expected.first, expected.at_most}


def _said(event: TraceEvent) -> str:
    if event.action_type != TOOL_CALL:
        return _short(event.error or event.text)
    outcome = f"failed: {event.error}" if event.error else _plain(event.output_data)
    half = _CHARACTERS // 2
    return f"{_short(_plain(event.input_data), half)} → {_short(outcome, half)}"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        if value.keys() == {"text"}:
            return str(value["text"])
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return "nothing" if value is None else str(value)


def _short(text: str, most: int = _CHARACTERS) -> str:
    text = " ".join(text[: 4 * most].split())
    return text if len(text) <= most else text[: most - 1] + "…"
