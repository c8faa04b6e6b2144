"""Forecast at the end of a turn whether the user will have to correct it. Nothing after the turn is read."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.corrections.features import clean_count, find_cues, log_count, score_cues, select_first_cues
from steadyhelm.corrections.messages import (
    MAX_AGENT_CHARS,
    MAX_PROMPT_CHARS,
    PACKAGE,
    compute_share,
    find_topics,
    find_words,
    normalize_text,
    parse_message,
    take_end,
    take_start,
)
from steadyhelm.corrections.model import load_weights
from steadyhelm.lexicons import LexiconEntry, load_lexicon

_TAIL_CHARS: Final = 300
_BOLD: Final = re.compile(r"\*\*[^*\n]+\*\*")
_PEAK_TURN, _TURN_SPREAD = 6.5, 0.8
"""The turn at which corrections are most frequent, and the spread around it, of its logarithm."""

FEATURE_GROUPS: Final = (
    ("agent ends with a question mark", "agent asks at the end"),
    ("length of the answer", "bold words", "ticked words"),
    ("tool calls", "no tool calls", "tool errors"),
)
"""Numbers about one subject: together they count as much as any other number alone."""


def foresee_correction(
    *,
    prompt_before: str = "",
    assistant_before: str = "",
    tool_calls: int = 0,
    tool_errors: int = 0,
    turn: int = 0,
    run: Mapping[str, Any] | None = None,
    event: int | None = None,
) -> float:
    """Return the probability that the user's next message corrects this turn.

    Args:
        prompt_before: What the user had asked; its beginning is read.
        assistant_before: What the agent said last; its end is read.
        tool_calls: How many tools it called since the prompt.
        tool_errors: How many of those calls failed.
        turn: The number of the message that follows: those the user has sent so far, and one.
        run: The run as a run file has it; fills in whatever was not passed.
        event: The place of the user's next message in the run's events; nothing from there on is read. None
            means after the last event; what is no whole number, that nothing is known.

    >>> asking = foresee_correction(assistant_before="Option A is simpler. Or would you prefer B?")
    >>> asking < foresee_correction(assistant_before="Done. It should now work.", tool_calls=9, tool_errors=2)
    True
    """
    known = summarize_turn(run, event) if run is not None else TurnSummary()
    numbers = extract_forecast_features(
        prompt_before=prompt_before or known.prompt,
        assistant_before=assistant_before or known.answer,
        tool_calls=tool_calls or known.calls,
        tool_errors=tool_errors or known.errors,
        turn=turn or known.turn,
    )
    return load_weights().forecast.predict(numbers)["correction"]


def extract_forecast_features(
    *,
    prompt_before: object = "",
    assistant_before: object = "",
    tool_calls: object = 0,
    tool_errors: object = 0,
    turn: object = 0,
) -> dict[str, float]:
    """Return the end of a turn as named numbers; an argument of the wrong type counts as absent."""
    prompt = parse_message(take_start(prompt_before, MAX_PROMPT_CHARS))
    answer = take_end(assistant_before, MAX_AGENT_CHARS)
    text = normalize_text(answer).rstrip()
    patterns = load_lexicon(PACKAGE, "forecast")
    cues = find_cues(prompt.head)
    cue_scores = score_cues(cues, select_first_cues(cues, prompt), len(prompt.words))
    return {
        "agent ends with a question mark": float(text.endswith("?")),
        "agent asks at the end": float("?" in text[-_TAIL_CHARS:]),
        "length of the answer": math.log1p(len(answer)),
        "bold words": min(4.0, len(_BOLD.findall(answer))),
        "ticked words": min(10.0, load_lexicon(PACKAGE, "message_shape")["ticked"].count(answer)),
        "agent deliberates": _measure_frequency(patterns["deliberates"], text),
        "agent is at work": _measure_frequency(patterns["is at work"], text),
        "request demands": _measure_frequency(patterns["demands"], prompt.text),
        "request inquires": _measure_frequency(patterns["inquires"], prompt.text),
        "request for a visible result": float(patterns["visible result"].search(prompt.text) is not None),
        "request reads as a correction": cue_scores["cue score of the first sentence"],
        "answer takes up the request": compute_share(
            find_topics(find_words(text)), find_topics(prompt.words)
        ),
        "tool calls": log_count(tool_calls),
        "no tool calls": float(log_count(tool_calls) == 0),
        "tool errors": log_count(tool_errors),
        "middle of the session": _measure_middle(clean_count(turn)),
    }


def _measure_frequency(pattern: LexiconEntry, text: str) -> float:
    return min(3.0, math.log1p(pattern.count(text)))


def _measure_middle(turn: float) -> float:
    """Return how near a turn is to where corrections are most frequent.

    Before it little is done, after it much is settled.
    """
    return math.exp(-((math.log(max(turn, 1.0) / _PEAK_TURN)) ** 2) / (2 * _TURN_SPREAD**2))


class TurnSummary(NamedTuple):
    """What was asked, answered and done in a turn.

    `turn` is the number of the message that follows: those the user has sent so far, and one.
    `errors` counts the calls that failed, so it is never more than `calls`.
    """

    prompt: str = ""
    answer: str = ""
    calls: int = 0
    errors: int = 0
    turn: int = 1


def summarize_turn(run: object, event: object = None) -> TurnSummary:
    """Return the turn that ends before this place of a run's events; None is the end of the run.

    A place that is no whole number is not known, so nothing before it is read.

    >>> events = [{"type": "user_message", "text": "go"}, {"type": "tool_call", "name": "ls"}]
    >>> summarize_turn({"events": events})
    TurnSummary(prompt='go', answer='', calls=1, errors=0, turn=2)
    """
    events = _take_events(run, event)
    messages = [place for place, entry in enumerate(events) if entry.get("type") == "user_message"]
    since = events[messages[-1] + 1 :] if messages else events
    answers = [entry for entry in since if entry.get("type") == "llm_output" and _get_text(entry)]
    return TurnSummary(
        prompt=_get_text(events[messages[-1]]) if messages else "",
        answer=_get_text(answers[-1]) if answers else "",
        calls=sum(entry.get("type") == "tool_call" for entry in since),
        errors=_count_failed_calls(since),
        turn=len(messages) + 1,
    )


def _take_events(run: object, event: object) -> Sequence[Mapping[str, Any]]:
    """Return the events before a place."""
    entries = run.get("events") if isinstance(run, Mapping) else None
    if not isinstance(entries, list | tuple):
        return []
    before = entries if event is None else entries[: _clean_place(event)]
    return [entry for entry in before if isinstance(entry, Mapping)]


def _clean_place(event: object) -> int:
    """Return how many events may be read; none when the place is no whole number."""
    if isinstance(event, bool) or not isinstance(event, int | float):
        return 0
    if isinstance(event, float) and not event.is_integer():
        return 0
    return max(0, int(event))


def _get_text(entry: Mapping[str, Any]) -> str:
    text = entry.get("text")
    return text if isinstance(text, str) else ""


def _count_failed_calls(entries: Sequence[Mapping[str, Any]]) -> int:
    """Return how many calls failed, each once: the call, its result and an error after it may all say so."""
    calls = _CallOutcomes()
    for entry in entries:
        calls.record(entry)
    return len(calls.failed)


class _CallOutcomes:
    """Matches results and errors with their calls, as a run file does; a call is its number."""

    def __init__(self) -> None:
        self.failed: set[int] = set()
        self._open: list[tuple[int, object, object]] = []
        self._call_count = 0
        self._last_ended: tuple[int | None, object] = (None, None)
        """The call whose result was the entry before, and its name."""

    def record(self, entry: Mapping[str, Any]) -> None:
        kind, name = entry.get("type"), entry.get("name")
        call, ended = None, self._last_ended
        self._last_ended = (None, None)
        if kind == "tool_call":
            call = self._call_count
            self._call_count += 1
            self._open.append((call, name, entry.get("call_id")))
        elif kind == "tool_result":
            call = self._end_call(name, entry.get("call_id"))
            self._last_ended = (call, name)
        elif kind == "error":
            call = ended[0] if ended[0] is not None and ended[1] == name else self._end_call(name, None)
        if call is not None and (kind == "error" or entry.get("error")):
            self.failed.add(call)

    def _end_call(self, name: object, call_id: object) -> int | None:
        """Close the call with this id, else the oldest open one of this name, else the oldest."""
        if not self._open:
            return None
        by_id = (it for it in self._open if call_id is not None and it[2] == call_id)
        by_name = (it for it in self._open if it[1] == name)
        found = next(by_id, None) or next(by_name, self._open[0])
        self._open.remove(found)
        return found[0]
