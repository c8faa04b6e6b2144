"""The end of a turn, as a recorded run shows it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class TurnEnd(NamedTuple):
    """What was asked, answered and done in between.

    `turn` is the number of the message that follows: those the user has sent so far, and one.
    `errors` counts the calls that failed, so it is never more than `calls`.
    """

    prompt: str = ""
    answer: str = ""
    calls: int = 0
    errors: int = 0
    turn: int = 1


def turn_end(run: object, event: object = None) -> TurnEnd:
    """The turn that ends before the given place of a run's events; None is the end of the run.

    A place that is no whole number is not known, and nothing before it is.

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
        errors=_failed_calls(since),
        turn=len(asked) + 1,
    )


def _events_before(run: object, event: object) -> Sequence[Mapping[str, Any]]:
    entries = run.get("events") if isinstance(run, Mapping) else None
    if not isinstance(entries, list | tuple):
        return []
    before = entries if event is None else entries[: _place(event)]
    return [entry for entry in before if isinstance(entry, Mapping)]


def _place(event: object) -> int:
    """How many events may be looked at; none when the place cannot be understood."""
    if isinstance(event, bool) or not isinstance(event, int | float):
        return 0
    if isinstance(event, float) and not event.is_integer():
        return 0
    return max(0, int(event))


def _text(entry: Mapping[str, Any]) -> str:
    text = entry.get("text")
    return text if isinstance(text, str) else ""


def _failed_calls(entries: Sequence[Mapping[str, Any]]) -> int:
    """How many calls failed, each once: the call, its result and an error after it may all say so."""
    calls = _Calls()
    for entry in entries:
        calls.take(entry)
    return len(calls.failed)


class _Calls:
    """Binds results and errors to their calls, as a run file does; a call is its number."""

    def __init__(self) -> None:
        self.failed: set[int] = set()
        self._open: list[tuple[int, object, object]] = []
        self._made = 0
        self._ended: tuple[int | None, object] = (None, None)
        """The call whose result has just come, and its name."""

    def take(self, entry: Mapping[str, Any]) -> None:
        kind, name = entry.get("type"), entry.get("name")
        call, ended = None, self._ended
        self._ended = (None, None)
        if kind == "tool_call":
            call = self._made
            self._made += 1
            self._open.append((call, name, entry.get("call_id")))
        elif kind == "tool_result":
            call = self._end(name, entry.get("call_id"))
            self._ended = (call, name)
        elif kind == "error":
            call = ended[0] if ended[0] is not None and ended[1] == name else self._end(name, None)
        if call is not None and (kind == "error" or entry.get("error")):
            self.failed.add(call)

    def _end(self, name: object, call_id: object) -> int | None:
        """Close the call with this id, else the oldest open one of this name, else the oldest."""
        if not self._open:
            return None
        by_id = (it for it in self._open if call_id is not None and it[2] == call_id)
        by_name = (it for it in self._open if it[1] == name)
        found = next(by_id, None) or next(by_name, self._open[0])
        self._open.remove(found)
        return found[0]
