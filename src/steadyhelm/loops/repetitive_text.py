"""Text that repeats itself: within one reply, or from reply to reply."""

import re
from typing import Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.events import LLM_REQUEST, TOOL_CALL, TraceEvent
from steadyhelm.loops.likeness import text_key
from steadyhelm.loops.sightings import IDS_KEPT, Sighting

SAME_REPLY: Final = 3
LONG_UNIT_REPEATS: Final = 4
SHORT_UNIT_REPEATS: Final = 6

_LONG_UNIT: Final = 20
_LEAST_TEXT: Final = 60
_LEAST_SPAN: Final = 100
_PROBE: Final = 14
_LOOKED_AT: Final = 8192
_LEAST_WORDS: Final = 10

# What a person writes on purpose may look alike line by line: code, tables, lists, headings, quotes.
_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKED_LINE: Final = re.compile(r"(?m)^\s*(?:[|>#].*|(?:[-*+]|\d+[.)])\s.*)$")


class RepeatedPassage(NamedTuple):
    """A piece of text said several times without a break."""

    unit: str
    repeats: int


class Replies(Struct):
    """The latest reply, and how often it was given with nothing done in between."""

    reply: int = 0
    count: int = 0
    ids: list[str] = field(default_factory=list)

    def take(self, event: TraceEvent) -> Sighting | None:
        """What this reply says again, if anything."""
        if event.action_type == TOOL_CALL:
            self.reply = 0
            return None
        if event.action_type != LLM_REQUEST:
            return None
        text = event.text
        if len(text) < _LEAST_WORDS:
            return None
        passage = find_repeated_passage(text)
        if passage is not None:
            unit = " ".join(passage.unit.split())[:60]
            return Sighting(
                pattern="repeated passage",
                count=passage.repeats,
                patience=LONG_UNIT_REPEATS,
                event_ids=(event.event_id,),
                message=f"one reply says {unit!r} {passage.repeats} times in a row",
            )
        return self._again(text, event.event_id)

    def foresee(self, call: TraceEvent) -> None:
        """Nothing: a call says no words."""

    def _again(self, text: str, event_id: str) -> Sighting | None:
        key = text_key(text.strip())
        if key != self.reply:
            self.reply, self.count, self.ids = key, 1, [event_id]
            return None
        self.count += 1
        self.ids = [*self.ids, event_id][-IDS_KEPT:]
        return Sighting(
            pattern="monologue",
            count=self.count,
            patience=SAME_REPLY,
            event_ids=tuple(self.ids),
            message=f"the same reply was given {self.count} times, with nothing done in between",
        )


def find_repeated_passage(text: str) -> RepeatedPassage | None:
    """The piece a text repeats without a break; None for code, tables, lists and dividers.

    >>> find_repeated_passage("I will now end the turn. " * 8).repeats
    8
    >>> find_repeated_passage("-" * 200) is None
    True
    """
    if len(text) < _LEAST_TEXT:
        return None
    text = text[-_LOOKED_AT:]
    # A few short probes are counted first: an ordinary text holds none of them four times.
    late, middle, early = _starts(text)
    if not (_repeats(text, late) or _repeats(text, middle) or _repeats(text, early)):
        return None
    prose = _MARKED_LINE.sub(" ", _CODE.sub(" ", text))
    for start in _starts(prose):
        passage = _measure_passage(prose, start) if _repeats(prose, start) else None
        if passage is not None:
            return passage
    return None


def _starts(text: str) -> tuple[int, int, int]:
    length = len(text)
    return (max(0, length - _LONG_UNIT), length // 2, length // 4)


def _repeats(text: str, start: int) -> bool:
    probe = text[start : start + _PROBE]
    return text.count(probe) >= LONG_UNIT_REPEATS and len(probe) == _PROBE and len(set(probe)) > 1


def _measure_passage(prose: str, start: int) -> RepeatedPassage | None:
    probe = prose[start : start + _PROBE]
    second = prose.find(probe, start + 1)
    if second < 0:
        start, second = prose.rfind(probe, 0, start + len(probe) - 1), start
    period = second - start
    if start < 0 or period <= 0:
        return None
    first, last = start, second
    while first > 0 and prose[first - 1] == prose[first - 1 + period]:
        first -= 1
    while last < len(prose) and prose[last] == prose[last - period]:
        last += 1
    unit, repeats = prose[first : first + period], (last - first) // period
    enough = LONG_UNIT_REPEATS if period >= _LONG_UNIT else SHORT_UNIT_REPEATS
    if last - first < _LEAST_SPAN or repeats < enough or sum(map(str.isalpha, unit)) < 2:  # noqa: PLR2004
        return None
    return RepeatedPassage(unit, repeats)
