"""The call just made, made again at once, though not to the letter or not with the same result.

People who read a run call such a pair a repetition, so it is noticed from the second call on.
Nothing here goes beyond a notice: what makes a loop of it is counted elsewhere.
"""

from typing import Any, Final, Self

import msgspec
from msgspec import Struct

from steadyhelm.loops.outcomes import Outcome
from steadyhelm.loops.sightings import Sighting
from steadyhelm.loops.steps import Step

_IN_A_ROW: Final = 3
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
_SIGNS: Final = bytes(sign for sign in range(128) if not chr(sign).isalnum())


class Neighbour(Struct):
    """The call made just before: what was asked, what came back, and whether it was itself a second time."""

    name: str
    call: int
    asked: bytes
    outcome: Outcome
    event_id: str
    seq: int
    is_second: bool = False

    @classmethod
    def of(cls, step: Step, before: "Neighbour | None") -> Self:
        """What a step is to the one after it; `before` is what stood there until now."""
        event = step.event
        is_second = before is not None and before.call == step.call
        return cls(
            event.action_name, step.call, step.asked, step.outcome, event.event_id, event.seq, is_second
        )

    def again(self, step: Step) -> Sighting | None:
        """What the call after this one repeats of it; an equal call with an equal result is not for here.

        A call that failed and was changed until it works was corrected, waiting and retrying after an
        outage are patience, and calls of one batch were one decision.
        """
        if step.event.action_name != self.name or not step.had_seen(self.seq):
            return None
        now = step.outcome
        if step.kind == "wait" or now.outage:
            return None
        if self.outcome.failed and now.known and not now.failed:
            return None
        how = self._how_alike(step)
        return None if how is None else self._sighting(step, how)

    def _how_alike(self, step: Step) -> str | None:
        if step.call == self.call:
            # Told once: whoever asks on and gets ever other answers is reading on, or waiting.
            is_told = step.kind == "look" and not self.is_second and self._came_to(step) is False
            return "the same arguments and another result" if is_told else None
        try:
            one, other = msgspec.json.decode(self.asked), msgspec.json.decode(step.asked)
            if says_the_same(one, other):
                return "the same words in its arguments"
            if only_adds(one, other) and self._came_to(step):
                return "arguments only added or left out, and the same result"
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # nothing was asked, or more than is kept, or it is nested without end
        return None

    def _came_to(self, step: Step) -> bool | None:
        """Whether both calls came to the same; None where a result is not known."""
        if not self.outcome.known or not step.outcome.known:
            return None
        return self.outcome.equals(step.outcome)

    def _sighting(self, step: Step, how: str) -> Sighting:
        return Sighting(
            pattern="near repetition",
            count=2,
            patience=_IN_A_ROW,
            event_ids=(self.event_id, step.event.event_id),
            sequence=(self.name,),
            message=f"{self.name} called again at once with {how}",
            noticed_only=True,
        )


def only_adds(one: Any, other: Any) -> bool:
    """Whether one of two arguments is the other with fields added, at any depth.

    >>> only_adds({"path": "a.py"}, {"path": "a.py", "limit": 50})
    True
    >>> only_adds({"path": "a.py"}, {"path": "b.py", "limit": 50})
    False
    """
    if isinstance(one, dict) and isinstance(other, dict):
        shared = one.keys() & other.keys()
        return len(shared) == min(len(one), len(other)) and all(
            only_adds(one[it], other[it]) for it in shared
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(only_adds, one, other))
    return bool(one == other)


def says_the_same(one: Any, other: Any) -> bool:
    """Whether two arguments hold the same letters and digits in the same order, field by field.

    Spacing, signs and capitals say nothing here, and neither does an empty field.

    >>> says_the_same({"edit": "x  =  1", "note": ""}, {"edit": "x = 1;"})
    True
    >>> says_the_same({"edit": "x = 1"}, {"edit": "x = 2"})
    False
    """
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _letters(one) == _letters(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return all(says_the_same(one.get(it), other.get(it)) for it in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(says_the_same, one, other))
    return bool(one == other) or (one in _EMPTY and other in _EMPTY)


def _letters(text: str) -> bytes:
    return text.encode("utf-8", "replace").translate(None, _SIGNS).lower()
