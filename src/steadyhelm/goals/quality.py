"""Measure the context quality of a run: errors, hollow results, a full context, a goal stated long ago.

Every part is compared with the run's own beginning: an agent that always answers in three words, or whose
tests fail most of the time, is not getting worse.
"""

import math
import re
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.errors import SettingsError
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.fingerprints import MAX_CHARS

PARTS: Final = {
    "errors": 0.7,
    "hollow_results": 0.4,
    "shrinking_replies": 0.4,
    "style": 0.6,
    "context_fullness": 0.5,
    "goal_retention": 0.6,
}
"""The parts, each with the largest degradation it can cause by itself."""

_SHARES: Final = tuple(PARTS.values())
_RECENT_WEIGHT: Final = 0.15
_FIRST_FEW_SEEN: Final = int(1 / _RECENT_WEIGHT)
_MIN_SEEN: Final = 8
_ORDINARY_RISE_SHARE: Final = 0.2
_MOST_OF_THE_TIME_SHARE: Final = 0.6
_HOLLOW_CHARS: Final = 4
_FALL_WEIGHT: Final = 0.25
_LOG_HALF: Final = math.log(2)
_LOG_TENTH: Final = math.log(10)
_FULLNESS_COUNTS_FROM: Final = 0.6
_GOAL_WORDS_READ: Final = 100
_ENOUGH_RETENTION: Final = 0.5
_GOAL_FAR_FROM: Final = 0.25
_WINDOW_TOKENS: Final = 200_000
_CHARS_PER_TOKEN: Final = 4
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_MAX_COUNT: Final = 1 << 53


class _EventRate(Struct, array_like=True):
    """The rate of an event, recently and in the run as a whole."""

    recent: float = 0.0
    seen: int = 0
    hits: int = 0

    def record(self, hit: bool) -> None:
        self.seen += 1
        if not hit and not self.recent:
            return
        self.hits += hit
        # The first few have equal weights, so that one early hit does not dominate.
        self.recent += (hit - self.recent) * (
            _RECENT_WEIGHT if self.seen > _FIRST_FEW_SEEN else 1.0 / self.seen
        )

    @property
    def usual(self) -> float:
        """The share in the whole run, starting from one in ten."""
        return (self.hits + 1.0) / (self.seen + 10.0)


class _ReplyLength(Struct, array_like=True):
    """The logarithm of the reply length, recently and in the run as a whole."""

    recent: float = 0.0
    seen: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def record(self, characters: int) -> None:
        value = math.log1p(characters)
        self.seen += 1
        step = value - self.mean
        # The mean follows a fall slowly, else short replies would soon count as usual.
        self.mean += step / self.seen * (1.0 if step > -_LOG_HALF else _FALL_WEIGHT)
        self.squares += step * (value - self.mean)
        self.recent += (value - self.recent) * max(_RECENT_WEIGHT, 1.0 / self.seen)

    @property
    def spread(self) -> float:
        """The standard deviation."""
        return math.sqrt(max(0.0, self.squares) / self.seen) if self.seen else 0.0


class ContextQuality(Struct):
    """How far the context quality of a run has fallen, and why.

    It is its own state: msgspec encodes it whole. Each observation costs the same however long the run is.

    Args:
        goal: The goal of the run; its words are searched for in the context.

    >>> quality = ContextQuality("mend the parser")
    >>> quality.get_degradation() is None, quality.unknown()["style"]
    (True, 'the style of the replies was not scored')
    >>> quality.note_context(tokens_in_context=200_000, window_tokens=200_000)
    >>> quality.get_degradation(), quality.parts()
    (0.5, {'context_fullness': 1.0})
    """

    goal: str = ""
    errors: _EventRate = field(default_factory=_EventRate)
    hollow: _EventRate = field(default_factory=_EventRate)
    replies: _ReplyLength = field(default_factory=_ReplyLength)
    style: float | None = None
    fullness: float | None = None
    window_tokens: int = _WINDOW_TOKENS
    retention: float | None = None
    letters_since_goal: int | None = None

    def __post_init__(self) -> None:
        self.goal = self.goal[:MAX_CHARS] if isinstance(self.goal, str) else ""
        if self.window_tokens < 1:
            raise SettingsError(f"window_tokens must be 1 or more, got {self.window_tokens!r}.")

    def observe(self, event: TraceEvent, *, failed: bool | None = None) -> None:
        """Record one event; `failed` overrides the event's own `error`."""
        kind = event.action_type
        if kind == TOOL_CALL:
            size = _measure_size(event.output_data)
            if self.goal or self.letters_since_goal is not None:
                self._count_letters(_measure_size(event.input_data) + size)
            if failed is None:
                failed = event.error is not None
            self.errors.record(failed)
            if not failed and event.output_data is not None:
                self.hollow.record(size <= _HOLLOW_CHARS)
        elif kind == LLM_REQUEST:
            self.note_reply(event.text)
        elif kind == USER_MESSAGE:
            # A user message states the goal again.
            self.note_goal_stated()
        elif kind == STATE_TRANSITION and "compact" in event.action_name:
            self.note_compaction(event.text)

    def note_reply(self, text: str) -> None:
        """Record a reply of the model. One without text only calls tools, and has no length."""
        if text:
            self.replies.record(len(text))
            self._count_letters(len(text))

    def note_style(self, score: float | None) -> None:
        """Record how far the style of the replies has drifted, 0 to 1; None when it is not known."""
        self.style = _to_share(score)

    def note_context(self, tokens_in_context: int, window_tokens: int, text: str | None = None) -> None:
        """Record how much of the context window is in use and, if available, the text in it."""
        if _is_count(tokens_in_context) and _is_count(window_tokens) and window_tokens:
            self.window_tokens = min(_MAX_COUNT, window_tokens)
            self.fullness = min(1.0, tokens_in_context / window_tokens)
        if text is not None:
            self._look_for_goal(text)

    def note_goal_stated(self) -> None:
        """Record that a user or a reminder has just stated the goal to the model."""
        self.letters_since_goal = 0
        self.retention = None

    def note_compaction(self, text: str | None = None) -> None:
        """Record that the context was compacted; `text` is what remains of it."""
        self.fullness = None
        if not self.goal:
            return
        if text:
            self._look_for_goal(text)
        else:
            self.retention = _ENOUGH_RETENTION / 2

    def parts(self) -> dict[str, float]:
        """Return the known parts by name, each from 0 (as at the beginning) to 1."""
        return {
            name: value for name, value in zip(PARTS, self._measure_parts(), strict=True) if value is not None
        }

    def unknown(self) -> dict[str, str]:
        """Return the parts that are not known, each with the reason."""
        reasons = {
            "errors": f"fewer than {_MIN_SEEN} tool calls so far",
            "hollow_results": f"fewer than {_MIN_SEEN} results so far",
            "shrinking_replies": f"fewer than {_MIN_SEEN} replies so far",
            "style": "the style of the replies was not scored",
            "context_fullness": "the size of the context was not reported",
            "goal_retention": "no goal was stated so far",
        }
        known = self.parts()
        return {name: why for name, why in reasons.items() if name not in known}

    def get_degradation(self) -> float | None:
        """Return how far the quality has fallen, 0 to 1; None while nothing is known.

        Parts add up without ever passing 1, and no part counts for more than its own share in `PARTS`.
        """
        intact, is_known = 1.0, False
        for most, value in zip(_SHARES, self._measure_parts(), strict=True):
            if value is not None:
                is_known = True
                intact *= 1.0 - most * value
        return 1.0 - intact if is_known else None

    def _measure_parts(self) -> tuple[float | None, ...]:
        """Return the parts in the order of `PARTS`."""
        return (
            _measure_rise(self.errors),
            _measure_rise(self.hollow),
            self._measure_shrinking(),
            self.style,
            None if self.fullness is None else _scale_between(self.fullness, _FULLNESS_COUNTS_FROM, 1.0),
            self._measure_goal_loss(),
        )

    def _count_letters(self, letters: int) -> None:
        if self.goal or self.letters_since_goal is not None:
            self.letters_since_goal = min(_MAX_COUNT, (self.letters_since_goal or 0) + letters)

    def _look_for_goal(self, text: str) -> None:
        wanted = set(_list_distinct_words(self.goal)[:_GOAL_WORDS_READ])
        if wanted and isinstance(text, str):
            half = MAX_CHARS // 2
            held = _list_distinct_words(text if len(text) <= MAX_CHARS else f"{text[:half]} {text[-half:]}")
            self.retention = len(wanted.intersection(held)) / len(wanted)
            self.letters_since_goal = 0

    def _measure_shrinking(self) -> float | None:
        if self.replies.seen < _MIN_SEEN:
            return None
        # Half the usual length is ordinary, and so is half their spread; a tenth counts in full.
        ordinary = max(_LOG_HALF, self.replies.spread / 2)
        return _scale_between(
            self.replies.mean - self.replies.recent, ordinary, ordinary + _LOG_TENTH - _LOG_HALF
        )

    def _measure_goal_loss(self) -> float | None:
        if self.letters_since_goal is None:
            return None
        away = self.letters_since_goal / _CHARS_PER_TOKEN / self.window_tokens
        far = _scale_between(away, _GOAL_FAR_FROM, 1.0)
        if self.retention is None:
            return far
        return max(far, 1.0 - min(1.0, self.retention / _ENOUGH_RETENTION))


def _measure_rise(rate: _EventRate) -> float | None:
    """Return how much the recent rate exceeds the usual one; None while too little was seen."""
    if rate.seen < _MIN_SEEN:
        return None
    usual = min(_MOST_OF_THE_TIME_SHARE, rate.usual + _ORDINARY_RISE_SHARE)
    return _scale_between(rate.recent, usual, 1.0)


def _scale_between(value: float, low: float, high: float) -> float:
    """Return the position of a value between two others, 0 to 1."""
    if value <= low:
        return 0.0
    return 1.0 if value >= high else (value - low) / (high - low)


def _measure_size(data: Any) -> int:
    """Return the approximate number of characters in a result or argument."""
    if isinstance(data, str):
        return len(data)
    if isinstance(data, dict):
        size = 0
        for value in data.values():
            size += len(value) if isinstance(value, str) else _HOLLOW_CHARS + 1
        return size
    if isinstance(data, (list, tuple)):
        return (_HOLLOW_CHARS + 1) * len(data)
    return 0 if data is None else _HOLLOW_CHARS + 1


def _list_distinct_words(text: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(text.lower())))


def _to_share(value: Any) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    return max(0.0, min(1.0, float(value))) if number else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
