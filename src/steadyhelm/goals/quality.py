"""How good the ground still is that a run stands on: errors, hollow output, a full context, a goal long ago.

Every part is measured against the run's own beginning: an agent that always answers in three words, or whose
tests fail most of the time, is not getting worse.
"""

import math
import re
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.errors import SettingsError
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.fingerprints import LOOKED_AT

PARTS: Final = {
    "errors": 0.7,
    "hollow_results": 0.4,
    "shrinking_replies": 0.4,
    "style": 0.6,
    "context_fullness": 0.5,
    "goal_retention": 0.6,
}
"""The parts, each with the most it can make of the whole by itself."""

_SHARES: Final = tuple(PARTS.values())
_RECENT: Final = 0.15
_FIRST_FEW: Final = int(1 / _RECENT)
_LEAST_SEEN: Final = 8
_ORDINARY_RISE: Final = 0.2
_MOSTLY: Final = 0.6
_HOLLOW: Final = 4
_SLOWLY: Final = 0.25
_HALF: Final = math.log(2)
_TENTH: Final = math.log(10)
_FULL_FROM: Final = 0.6
_GOAL_WORDS: Final = 100
_ENOUGH_OF_THE_GOAL: Final = 0.5
_FAR_FROM: Final = 0.25
_WINDOW_TOKENS: Final = 200_000
_LETTERS_A_TOKEN: Final = 4
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_MOST_COUNTED: Final = 1 << 53


class _Rate(Struct, array_like=True):
    """How often something happens: lately, and in the run as a whole."""

    recent: float = 0.0
    seen: int = 0
    hits: int = 0

    def take(self, hit: bool) -> None:
        self.seen += 1
        if not hit and not self.recent:
            return
        self.hits += hit
        # The first few weigh alike, so that one early hit is not the whole picture.
        self.recent += (hit - self.recent) * (_RECENT if self.seen > _FIRST_FEW else 1.0 / self.seen)

    @property
    def usual(self) -> float:
        """The share in the whole run, beginning from one in ten."""
        return (self.hits + 1.0) / (self.seen + 10.0)


class _Length(Struct, array_like=True):
    """How long replies are, in logarithms: lately, and in the run as a whole."""

    recent: float = 0.0
    seen: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def take(self, characters: int) -> None:
        value = math.log1p(characters)
        self.seen += 1
        step = value - self.mean
        # What is usual follows a fall slowly: else the short replies would soon be the usual ones.
        self.mean += step / self.seen * (1.0 if step > -_HALF else _SLOWLY)
        self.squares += step * (value - self.mean)
        self.recent += (value - self.recent) * max(_RECENT, 1.0 / self.seen)

    @property
    def spread(self) -> float:
        """The standard deviation."""
        return math.sqrt(max(0.0, self.squares) / self.seen) if self.seen else 0.0


class ContextQuality(Struct):
    """How far a run's quality has fallen, and by what.

    It is its own state: msgspec encodes it whole. Each observation costs the same however long the run is.

    Args:
        goal: What the run is for; its words are looked for in what the context holds.

    >>> quality = ContextQuality("mend the parser")
    >>> quality.get_degradation() is None, quality.unknown()["style"]
    (True, 'nobody has judged the replies')
    >>> quality.note_context(tokens_in_context=200_000, window_tokens=200_000)
    >>> quality.get_degradation(), quality.parts()
    (0.5, {'context_fullness': 1.0})
    """

    goal: str = ""
    errors: _Rate = field(default_factory=_Rate)
    hollow: _Rate = field(default_factory=_Rate)
    replies: _Length = field(default_factory=_Length)
    style: float | None = None
    fullness: float | None = None
    window_tokens: int = _WINDOW_TOKENS
    retention: float | None = None
    letters_since_goal: int | None = None

    def __post_init__(self) -> None:
        self.goal = self.goal[:LOOKED_AT] if isinstance(self.goal, str) else ""
        if self.window_tokens < 1:
            raise SettingsError(f"window_tokens must be 1 or more, got {self.window_tokens!r}.")

    def observe(self, event: TraceEvent, *, failed: bool | None = None) -> None:
        """Take one event in; `failed` says what the caller knows better than the event's own `error`."""
        kind = event.action_type
        if kind == TOOL_CALL:
            size = _size(event.output_data)
            if self.goal or self.letters_since_goal is not None:
                self._passed(_size(event.input_data) + size)
            if failed is None:
                failed = event.error is not None
            self.errors.take(failed)
            if not failed and event.output_data is not None:
                self.hollow.take(size <= _HOLLOW)
        elif kind == LLM_REQUEST:
            self.note_reply(event.text)
        elif kind == USER_MESSAGE:
            # A user's words are the goal's latest wording.
            self.note_goal_stated()
        elif kind == STATE_TRANSITION and "compact" in event.action_name:
            self.note_compaction(event.text)

    def note_reply(self, text: str) -> None:
        """A reply of the model; one without words only calls tools, and says nothing about length."""
        if text:
            self.replies.take(len(text))
            self._passed(len(text))

    def note_style(self, score: float | None) -> None:
        """How far the replies' manner has left what it was, 0 to 1; None when nobody can tell."""
        self.style = _share(score)

    def note_context(self, tokens_in_context: int, window_tokens: int, text: str | None = None) -> None:
        """How much of the window is in use and, where it is at hand, the text that is in it."""
        if _is_count(tokens_in_context) and _is_count(window_tokens) and window_tokens:
            self.window_tokens = min(_MOST_COUNTED, window_tokens)
            self.fullness = min(1.0, tokens_in_context / window_tokens)
        if text is not None:
            self._look_for_goal(text)

    def note_goal_stated(self) -> None:
        """The goal was just put before the model: by a user, or by a reminder."""
        self.letters_since_goal = 0
        self.retention = None

    def note_compaction(self, text: str | None = None) -> None:
        """The context was compacted; `text` is what was left of it."""
        self.fullness = None
        if not self.goal:
            return
        if text:
            self._look_for_goal(text)
        else:
            self.retention = _ENOUGH_OF_THE_GOAL / 2

    def parts(self) -> dict[str, float]:
        """What is known, by name, each from 0 (as it was) to 1."""
        return {name: value for name, value in zip(PARTS, self._values(), strict=True) if value is not None}

    def unknown(self) -> dict[str, str]:
        """What is not known, and why."""
        reasons = {
            "errors": f"fewer than {_LEAST_SEEN} tool calls so far",
            "hollow_results": f"fewer than {_LEAST_SEEN} results so far",
            "shrinking_replies": f"fewer than {_LEAST_SEEN} replies so far",
            "style": "nobody has judged the replies",
            "context_fullness": "nobody has told how full the context is",
            "goal_retention": "no goal was stated so far",
        }
        known = self.parts()
        return {name: why for name, why in reasons.items() if name not in known}

    def get_degradation(self) -> float | None:
        """How far the quality has fallen, 0 to 1; None while nothing is known.

        Parts add up without ever passing 1, and no part counts for more than its own share in `PARTS`.
        """
        intact, is_known = 1.0, False
        for most, value in zip(_SHARES, self._values(), strict=True):
            if value is not None:
                is_known = True
                intact *= 1.0 - most * value
        return 1.0 - intact if is_known else None

    def _values(self) -> tuple[float | None, ...]:
        """The parts in the order of `PARTS`."""
        return (
            _risen(self.errors),
            _risen(self.hollow),
            self._shrunk(),
            self.style,
            None if self.fullness is None else _ramp(self.fullness, _FULL_FROM, 1.0),
            self._goal_lost(),
        )

    def _passed(self, letters: int) -> None:
        if self.goal or self.letters_since_goal is not None:
            self.letters_since_goal = min(_MOST_COUNTED, (self.letters_since_goal or 0) + letters)

    def _look_for_goal(self, text: str) -> None:
        wanted = set(_words(self.goal)[:_GOAL_WORDS])
        if wanted and isinstance(text, str):
            half = LOOKED_AT // 2
            held = _words(text if len(text) <= LOOKED_AT else f"{text[:half]} {text[-half:]}")
            self.retention = len(wanted.intersection(held)) / len(wanted)
            self.letters_since_goal = 0

    def _shrunk(self) -> float | None:
        if self.replies.seen < _LEAST_SEEN:
            return None
        # Half the usual length is ordinary, and so is what these replies vary by; a tenth counts in full.
        ordinary = max(_HALF, self.replies.spread / 2)
        return _ramp(self.replies.mean - self.replies.recent, ordinary, ordinary + _TENTH - _HALF)

    def _goal_lost(self) -> float | None:
        if self.letters_since_goal is None:
            return None
        away = self.letters_since_goal / _LETTERS_A_TOKEN / self.window_tokens
        far = _ramp(away, _FAR_FROM, 1.0)
        if self.retention is None:
            return far
        return max(far, 1.0 - min(1.0, self.retention / _ENOUGH_OF_THE_GOAL))


def _risen(rate: _Rate) -> float | None:
    """How far something happens more often than it did, or most of the time."""
    if rate.seen < _LEAST_SEEN:
        return None
    usual = min(_MOSTLY, rate.usual + _ORDINARY_RISE)
    return _ramp(rate.recent, usual, 1.0)


def _ramp(value: float, low: float, high: float) -> float:
    """Where a value stands between two others, 0 to 1."""
    if value <= low:
        return 0.0
    return 1.0 if value >= high else (value - low) / (high - low)


def _size(data: Any) -> int:
    """How many characters a result or an argument has, as far as that can be told at a glance."""
    if isinstance(data, str):
        return len(data)
    if isinstance(data, dict):
        size = 0
        for value in data.values():
            size += len(value) if isinstance(value, str) else _HOLLOW + 1
        return size
    if isinstance(data, (list, tuple)):
        return (_HOLLOW + 1) * len(data)
    return 0 if data is None else _HOLLOW + 1


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(text.lower())))


def _share(value: Any) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    return max(0.0, min(1.0, float(value))) if number else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
