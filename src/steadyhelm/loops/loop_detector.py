"""What the loop detectors share: a memory that matches events, the finding a match becomes,
where a loop can begin and end, and how alike two texts are.
"""

import functools
import re
from typing import ClassVar, Final, Protocol, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct, field, structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.events import TOOL_CALL, USER_MESSAGE, RunInfo, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.loops.steps import ToolStep
from steadyhelm.loops.user_words import RepetitionRequest, asks_to_wait, is_go_on, read_request

MAX_EVIDENCE_IDS: Final = 24

SCORE_WITHOUT_RESULTS: Final = 0.69
"""The highest score of a repetition whose results are not known: MED."""

_SCORE_BEFORE_LOOP: Final = 0.3
_MAX_SUBJECT_CHARS: Final = 200

_Memory = TypeVar("_Memory", bound=Struct)


class LoopMatch(Struct, frozen=True, kw_only=True):
    """A repetition without progress: how often, from which count it is a loop, and its evidence.

    `ignored` names what differed in the latest result and was taken for noise.
    `most` is the highest score it may reach, `declare` the kind of tool that a user may declare against it.
    """

    pattern: str
    count: int
    patience: int
    event_ids: tuple[str, ...]
    message: str
    sequence: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    noticed_only: bool = False
    most: float = 1.0
    declare: str = ""

    @property
    def score(self) -> float:
        """The score: half at the repetition that makes it a loop, 1 at twice as many; low before that."""
        if self.noticed_only or self.count < self.patience:
            return _SCORE_BEFORE_LOOP
        return min(self.most, self.count / (2 * self.patience))


class LoopMemory(Protocol):
    """What a loop detector remembers of a run: a msgspec Struct that matches each event against it."""

    def observe(self, event: TraceEvent) -> LoopMatch | None:
        """Record an event, and return what it repeats, if anything."""

    def foresee(self, call: TraceEvent) -> LoopMatch | None:
        """Return what a call not yet made would repeat if its result stayed the same. Changes no state."""


class LoopDetector(Detector):
    """Base class of the loop detectors: turns the matches of its memory into findings."""

    kind = "loop"
    advice: ClassVar[str]
    observed_types: ClassVar[frozenset[str]] = frozenset({TOOL_CALL, USER_MESSAGE})

    def begin(self, run: RunInfo) -> None:
        """Read the goal of the run: what it asks to be repeated is no loop."""
        tracker = getattr(self._memory, "segment", None)
        if isinstance(tracker, SegmentTracker) and run.goal:
            tracker.request = read_request(run.goal)
            tracker.is_told_to_wait = asks_to_wait(run.goal)

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Record the event, and return a finding when it repeats something."""
        if event.action_type not in self.observed_types:
            return None
        memory: LoopMemory = self._memory  # type: ignore[assignment]
        match = memory.observe(event)
        return None if match is None else self.report(event, match)

    def foresee(self, call: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Return the finding that the call would lead to if its result stayed the same. Changes no state."""
        if call.action_type != TOOL_CALL:
            return None
        memory: LoopMemory = self._memory  # type: ignore[assignment]
        match = memory.foresee(call)
        return None if match is None else self.report_foreseen(call, match)

    def report(self, event: TraceEvent, match: LoopMatch, **context: object) -> DriftEvent:
        """Return the finding for a match at this event."""
        if match.ignored:
            context["ignored"] = list(match.ignored)
        suggestion = self.advice
        if match.declare:
            # An agent cannot declare its tools: that is for people.
            context |= {"declare": match.declare, "advice": self.advice}
            suggestion += f' If it is meant so, declare the tool: kind = "{match.declare}".'
        return self.finding(
            event,
            score=match.score,
            message=match.message,
            suggested_action=suggestion,
            event_ids=match.event_ids,
            pattern=match.pattern,
            subject=_name_subject(event, match),
            repeat_count=match.count,
            **context,
        )

    def report_foreseen(self, call: TraceEvent, match: LoopMatch, **context: object) -> DriftEvent:
        """Return the finding for a match of a call not yet made; only past events are its evidence."""
        evidence = tuple(event_id for event_id in match.event_ids if event_id != call.event_id)
        message = f"this call would make it: {match.message}"
        return self.report(call, structs.replace(match, event_ids=evidence, message=message), **context)


def _name_subject(event: TraceEvent, match: LoopMatch) -> str:
    """Return what is repeated, as it is called in every run: a tool, a cycle of tools, or the pattern."""
    if match.sequence:
        names = match.sequence
        turns = (names[place:] + names[:place] for place in range(len(names)))
        return " → ".join(min(turns))[:_MAX_SUBJECT_CHARS]
    return event.action_name if event.action_type == TOOL_CALL else match.pattern


def is_report_due(count: int, patience: int) -> bool:
    """Return whether a match with this count is reported: at the end of patience, then at each doubling.

    >>> [count for count in range(1, 40) if is_report_due(count, 4)]
    [4, 8, 16, 32]
    """
    due = patience
    while due < count:
        due *= 2
    return due == count


def copy_memory(memory: _Memory) -> _Memory:
    """Return a deep copy of a memory, to try a call on it that has not been made yet."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(memory), type=type(memory))


_MAX_WORK_CALLS: Final = 64


class SegmentTracker(Struct):
    """Recognise what starts a new segment of a run: work not done before, or a user message not sent before.

    Repetitions are counted within one segment.
    The same edit made again is not new work, a harness that sends the same text again is not a user, and
    "continue" asks for nothing new, unless it answers the question whether the agent should go on like this.
    Nothing else starts a segment: a refused call does not.
    `request` is what the user asked to be repeated, `is_told_to_wait` whether to wait for something.
    """

    work_calls: dict[int, int | None] = field(default_factory=dict)
    last_message: int = 0
    request: RepetitionRequest | None = None
    is_told_to_wait: bool = False

    def record_work(self, step: ToolStep) -> bool:
        """Record a call that changed something, and return whether it was not made before.

        One that takes the next thing each time, with another result, is new work.
        """
        key, result = step.call_key, step.outcome.raw if step.takes_next else None
        if key in self.work_calls and self.work_calls[key] == result:
            return False
        self.work_calls[key] = result
        if len(self.work_calls) > _MAX_WORK_CALLS:
            del self.work_calls[next(iter(self.work_calls))]
        return True

    def record_message(self, event: TraceEvent) -> bool:
        """Record a user message, and return whether it is a new one; False for any other event."""
        if event.action_type != USER_MESSAGE:
            return False
        says_go_on = is_go_on(text := event.text)
        if says_go_on and not event.is_answer:
            return False
        before, self.last_message = self.last_message, hash_text(text)
        if before == self.last_message:
            return False
        if not says_go_on:
            self.request = read_request(text)
            self.is_told_to_wait = asks_to_wait(text)
        return True

    def is_asked(self, event: TraceEvent, count: int) -> bool:
        """Return whether the user asked for this call to be made so often."""
        if self.request is None:
            return False
        return self.request.covers(f"{event.action_name} {event.input_data}"[:_MAX_CHARS], count)


_WORD: Final = re.compile(rb"[A-Za-z0-9_]+")
_MAX_WORDS: Final = 200
_WORD_SETS_KEPT: Final = 32
"""Several detectors compare the same few calls in turn."""
_MAX_CHARS: Final = 8192


@functools.lru_cache(maxsize=_WORD_SETS_KEPT)
def split_words(arguments: bytes) -> frozenset[bytes]:
    """Return the distinct words of canonical arguments, in lower case."""
    return frozenset(_WORD.findall(arguments.lower())[:_MAX_WORDS])


def word_overlap(one: frozenset[bytes], other: frozenset[bytes]) -> float:
    """Return the share of words that two sets have in common, of all words in either; 1.0 for two empty sets.

    >>> word_overlap(split_words(b"find|pan|scroll"), split_words(b"scroll|find|pan"))
    1.0
    """
    common = len(one & other)
    either = len(one) + len(other) - common
    return common / either if either else 1.0


def hash_text(text: str) -> int:
    """Return a checksum of a text; of a long one, of its beginning, its end and its length.

    >>> hash_text("north") == hash_text("north"), hash_text("north") == hash_text("south")
    (True, False)
    """
    if len(text) > _MAX_CHARS:
        half = _MAX_CHARS // 2
        text = f"{text[:half]}{len(text)}{text[-half:]}"
    return crc32(text.encode("utf-8", "replace"))
