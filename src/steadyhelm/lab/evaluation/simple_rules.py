"""Simple rules that a detector has to beat, and one certain loop, each a plain function over events.

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
_NEAR_SHARE: Final = 0.9

Rule = Callable[[Sequence[TraceEvent]], list[FindingReport]]
CallComparison = Callable[[TraceEvent, TraceEvent], bool]


class ThreeEqualCalls(NamedTuple):
    """Three equal calls in a row with equal results: the entries of the calls."""

    first: int
    second: int
    third: int


def list_calls(events: Sequence[TraceEvent]) -> list[TraceEvent]:
    """Return the tool calls of a run, in the order they were made."""
    return sorted((event for event in events if event.action_type == TOOL_CALL), key=_get_entry)


def find_repeats(
    events: Sequence[TraceEvent], same: CallComparison, times: int, name: str
) -> list[FindingReport]:
    """Return a finding at each call that is at least the `times`-th alike in a row."""
    calls = list_calls(events)
    found, streak = [], 1
    for before, call in itertools.pairwise(calls):
        streak = streak + 1 if same(before, call) else 1
        if streak >= times:
            found.append(_make_finding(name, call, [before, call], streak))
    return found


def is_same_call(one: TraceEvent, other: TraceEvent) -> bool:
    """Return whether tool and arguments are the same."""
    return one.action_name == other.action_name and one.input_data == other.input_data


def is_near_call(one: TraceEvent, other: TraceEvent) -> bool:
    """Return whether the tool is the same and the arguments share nine words in ten."""
    if one.action_name != other.action_name:
        return False
    return (
        one.input_data == other.input_data
        or jaccard(_collect_words(one), _collect_words(other)) >= _NEAR_SHARE
    )


def is_same_tool(one: TraceEvent, other: TraceEvent) -> bool:
    """Return whether the tool is the same, whatever its arguments."""
    return one.action_name == other.action_name


def jaccard(one: set[str], other: set[str]) -> float:
    """Return the share of words that two sets have in common; two empty sets are alike.

    >>> jaccard({"a", "b", "c"}, {"b", "c", "d"})
    0.5
    """
    either = one | other
    return len(one & other) / len(either) if either else 1.0


RULES: Final[dict[str, Rule]] = {
    "exact repeat, 2 in a row": lambda events: find_repeats(
        events, is_same_call, 2, "exact repeat, 2 in a row"
    ),
    "exact repeat, 3 in a row": lambda events: find_repeats(
        events, is_same_call, 3, "exact repeat, 3 in a row"
    ),
    "near repeat, 2 in a row": lambda events: find_repeats(
        events, is_near_call, 2, "near repeat, 2 in a row"
    ),
    "name only, 4 in a row": lambda events: find_repeats(events, is_same_tool, 4, "name only, 4 in a row"),
}


def find_first_three_equal_calls(events: Sequence[TraceEvent]) -> ThreeEqualCalls | None:
    """Return the first three calls in a row with equal arguments and equal results: certainly a loop.

    No other call is between them, whatever the tool; replies and messages may be.
    """
    calls = list_calls(events)
    for first, second, third in zip(calls, calls[1:], calls[2:], strict=False):
        if _is_same_outcome(first, second) and _is_same_outcome(second, third):
            return ThreeEqualCalls(_get_entry(first), _get_entry(second), _get_entry(third))
    return None


def _is_same_outcome(one: TraceEvent, other: TraceEvent) -> bool:
    return is_same_call(one, other) and one.output_data == other.output_data and one.error == other.error


def _collect_words(call: TraceEvent) -> set[str]:
    return set(_WORD.findall(json.dumps(call.input_data, default=str).lower()))


def _get_entry(event: TraceEvent) -> int:
    return int(event.event_id)


def _make_finding(name: str, call: TraceEvent, proof: list[TraceEvent], streak: int) -> FindingReport:
    return FindingReport(
        at=_get_entry(call),
        detector=name,
        kind="loop",
        severity=Severity.MED,
        score=0.5,
        message=f"{call.action_name} {streak} times in a row",
        evidence=[_get_entry(event) for event in proof],
    )
