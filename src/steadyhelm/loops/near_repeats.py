"""Compare a call with the one just before: nearly the same arguments, or another result.

People who read a run call such a pair a repetition, so it is noticed from the second call on.
A match here is never more than noticed: the detector itself counts what makes it a loop.
"""

from typing import Any, Final, Self

import msgspec
from msgspec import Struct

from steadyhelm.loops.loop_detector import LoopMatch
from steadyhelm.loops.outcomes import CallOutcome
from steadyhelm.loops.steps import ToolStep

_REPEATS_OF_LOOP: Final = 3
_EMPTY_VALUES: Final[tuple[Any, ...]] = (None, "", [], {})
_NOT_ALPHANUMERIC: Final = bytes(code for code in range(128) if not chr(code).isalnum())


class PreviousCall(Struct):
    """The call made just before: its arguments, its outcome, and whether it repeated the call before it."""

    name: str
    call_key: int
    arguments: bytes
    outcome: CallOutcome
    event_id: str
    seq: int
    is_repeat: bool = False

    @classmethod
    def from_step(cls, step: ToolStep, before: "PreviousCall | None") -> Self:
        """Return the record of a step; `before` is the call before it."""
        event = step.event
        is_repeat = before is not None and before.call_key == step.call_key
        return cls(
            event.action_name,
            step.call_key,
            step.arguments,
            step.outcome,
            event.event_id,
            event.seq,
            is_repeat,
        )

    def match_repeat(self, step: ToolStep) -> LoopMatch | None:
        """Return what the next call nearly repeats; an equal call with an equal result is no match.

        A call that failed and was changed until it works was corrected. Waiting, retrying after an outage
        and calls of one batch are no repetition.
        """
        if step.event.action_name != self.name or not step.has_seen(self.seq):
            return None
        now = step.outcome
        if step.kind == "wait" or now.outage:
            return None
        if self.outcome.failed and now.known and not now.failed:
            return None
        likeness = self._describe_likeness(step)
        return None if likeness is None else self._build_match(step, likeness)

    def _describe_likeness(self, step: ToolStep) -> str | None:
        if step.call_key == self.call_key:
            # Noticed once: an agent that goes on and gets another result each time is reading on, or waiting.
            is_new = step.kind == "look" and not self.is_repeat and self._has_same_result(step) is False
            return "the same arguments and another result" if is_new else None
        try:
            one, other = msgspec.json.decode(self.arguments), msgspec.json.decode(step.arguments)
            if has_same_words(one, other):
                return "the same words in its arguments"
            if has_extra_fields_only(one, other) and self._has_same_result(step):
                return "arguments only added or left out, and the same result"
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # no arguments, or cut off, or nested too deeply
        return None

    def _has_same_result(self, step: ToolStep) -> bool | None:
        """Return whether both calls had the same result; None where a result is not known."""
        if not self.outcome.known or not step.outcome.known:
            return None
        return self.outcome.equals(step.outcome)

    def _build_match(self, step: ToolStep, likeness: str) -> LoopMatch:
        return LoopMatch(
            pattern="near repetition",
            count=2,
            patience=_REPEATS_OF_LOOP,
            event_ids=(self.event_id, step.event.event_id),
            sequence=(self.name,),
            message=f"{self.name} called again at once with {likeness}",
            noticed_only=True,
        )


def has_extra_fields_only(one: Any, other: Any) -> bool:
    """Return whether one of two arguments is the other with fields added, at any depth.

    >>> has_extra_fields_only({"path": "a.py"}, {"path": "a.py", "limit": 50})
    True
    >>> has_extra_fields_only({"path": "a.py"}, {"path": "b.py", "limit": 50})
    False
    """
    if isinstance(one, dict) and isinstance(other, dict):
        shared = one.keys() & other.keys()
        return len(shared) == min(len(one), len(other)) and all(
            has_extra_fields_only(one[it], other[it]) for it in shared
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(has_extra_fields_only, one, other))
    return bool(one == other)


def has_same_words(one: Any, other: Any) -> bool:
    """Return whether two arguments hold the same letters and digits in the same order, field by field.

    Spacing, signs, capitals and empty fields are ignored.

    >>> has_same_words({"edit": "x  =  1", "note": ""}, {"edit": "x = 1;"})
    True
    >>> has_same_words({"edit": "x = 1"}, {"edit": "x = 2"})
    False
    """
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _letters_and_digits(one) == _letters_and_digits(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return all(has_same_words(one.get(it), other.get(it)) for it in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(has_same_words, one, other))
    return bool(one == other) or (one in _EMPTY_VALUES and other in _EMPTY_VALUES)


def _letters_and_digits(text: str) -> bytes:
    return text.encode("utf-8", "replace").translate(None, _NOT_ALPHANUMERIC).lower()
