"""Simple rules a detector has to beat, and one oracle, each a plain function over events.

They share nothing with the detectors: what they compare is the data itself, not a fingerprint.
"""

import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.replay import FindingReport

_WORD: Final = re.compile(r"\w+")
_NEAR: Final = 0.9

Rule = Callable[[Sequence[TraceEvent]], list[FindingReport]]
Same = Callable[[TraceEvent, TraceEvent], bool]


class Triple(NamedTuple):
    """Three equal calls in a row with equal results: the entries of the calls."""

    first: int
    second: int
    third: int


def calls_of(events: Sequence[TraceEvent]) -> list[TraceEvent]:
    """The tool calls of a run, in the order they were made."""
    return sorted((event for event in events if event.action_type == TOOL_CALL), key=_entry)


def in_a_row(events: Sequence[TraceEvent], same: Same, times: int, name: str) -> list[FindingReport]:
    """A finding at each call that, with those before it, makes at least `times` alike in a row."""
    calls = calls_of(events)
    found, streak = [], 1
    for before, call in itertools.pairwise(calls):
        streak = streak + 1 if same(before, call) else 1
        if streak >= times:
            found.append(_finding(name, call, [before, call], streak))
    return found


def same_call(one: TraceEvent, other: TraceEvent) -> bool:
    """The same tool with the same arguments."""
    return one.action_name == other.action_name and one.input_data == other.input_data


def near_call(one: TraceEvent, other: TraceEvent) -> bool:
    """The same tool with arguments that share nine words in ten."""
    if one.action_name != other.action_name:
        return False
    return one.input_data == other.input_data or jaccard(_words(one), _words(other)) >= _NEAR


def same_name(one: TraceEvent, other: TraceEvent) -> bool:
    """The same tool, whatever its arguments."""
    return one.action_name == other.action_name


def jaccard(one: set[str], other: set[str]) -> float:
    """The share of words that two sets have in common; two empty sets are alike.

    >>> jaccard({"a", "b", "c"}, {"b", "c", "d"})
    0.5
    """
    either = one | other
    return len(one & other) / len(either) if either else 1.0


RULES: Final[dict[str, Rule]] = {
    "exact repeat, 2 in a row": lambda events: in_a_row(events, same_call, 2, "exact repeat, 2 in a row"),
    "exact repeat, 3 in a row": lambda events: in_a_row(events, same_call, 3, "exact repeat, 3 in a row"),
    "near repeat, 2 in a row": lambda events: in_a_row(events, near_call, 2, "near repeat, 2 in a row"),
    "name only, 4 in a row": lambda events: in_a_row(events, same_name, 4, "name only, 4 in a row"),
}


def first_triple(events: Sequence[TraceEvent]) -> Triple | None:
    """The first three calls in a row that are equal and whose results are: nobody can doubt that loop.

    No other call stands between them, whatever the tool; replies and messages may.
    """
    calls = calls_of(events)
    for first, second, third in zip(calls, calls[1:], calls[2:], strict=False):
        if _same_outcome(first, second) and _same_outcome(second, third):
            return Triple(_entry(first), _entry(second), _entry(third))
    return None


def _same_outcome(one: TraceEvent, other: TraceEvent) -> bool:
    return same_call(one, other) and one.output_data == other.output_data and one.error == other.error


def _words(call: TraceEvent) -> set[str]:
    return set(_WORD.findall(json.dumps(call.input_data, default=str).lower()))


def _entry(event: TraceEvent) -> int:
    return int(event.event_id)


def _finding(name: str, call: TraceEvent, proof: list[TraceEvent], streak: int) -> FindingReport:
    return FindingReport(
        at=_entry(call),
        detector=name,
        kind="loop",
        severity=Severity.MED,
        score=0.5,
        message=f"{call.action_name} {streak} times in a row",
        evidence=[_entry(event) for event in proof],
    )
