"""The end of a turn, as a recorded run shows it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class TurnEnd(NamedTuple):
    """What was asked, answered and done in between; `turn` is the number of the message that follows."""

    prompt: str = ""
    answer: str = ""
    calls: int = 0
    errors: int = 0
    turn: int = 1


def turn_end(run: object, event: object = None) -> TurnEnd:
    """The turn that ends before the given place of a run's events.

    >>> turn_end({"events": [{"type": "user_message", "text": "go"}, {"type": "tool_call", "name": "ls"}]})
    TurnEnd(prompt='go', answer='', calls=1, errors=0, turn=2)
    """
    events = _events_before(run, event)
    asked = [place for place, entry in enumerate(events) if entry.get("type") == "user_message"]
    since = events[asked[-1] + 1 :] if asked else events
    answers = [entry for entry in since if entry.get("type") == "llm_output" and _text(entry)]
    return TurnEnd(
        prompt=_text(events[asked[-1]]) if asked else "",
        answer=_text(answers[-1]) if answers else "",
        calls=sum(entry.get("type") == "tool_call" for entry in since),
        errors=sum(_failed(entry) for entry in since),
        turn=len(asked) + 1,
    )


def _events_before(run: object, event: object) -> Sequence[Mapping[str, Any]]:
    entries = run.get("events") if isinstance(run, Mapping) else None
    if not isinstance(entries, list | tuple):
        return []
    if isinstance(event, int) and not isinstance(event, bool):
        entries = entries[: max(0, event)]
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _text(entry: Mapping[str, Any]) -> str:
    text = entry.get("text")
    return text if isinstance(text, str) else ""


def _failed(entry: Mapping[str, Any]) -> bool:
    """An error of its own, or a call or result marked as failed."""
    kind = entry.get("type")
    return kind == "error" or (kind in ("tool_call", "tool_result") and bool(entry.get("error")))
