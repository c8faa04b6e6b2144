"""Notice an agent that keeps asking and learns nothing new."""

import functools
import re
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.loops.loop_detector import (
    MAX_EVIDENCE_IDS,
    LoopDetector,
    LoopMatch,
    SegmentTracker,
    copy_memory,
    is_report_due,
    split_words,
    word_overlap,
)
from steadyhelm.loops.outcomes import UNKNOWN, CallOutcome
from steadyhelm.loops.steps import ToolStep, read_step

SAME_ANSWERS_OF_LOOP: Final = 6
SAME_ANSWERS_REWORDED: Final = 3
EMPTY_ANSWERS_OF_LOOP: Final = 8
SIMILAR_SEARCHES_OF_LOOP: Final = 4

_REWORDED_OVERLAP: Final = 0.8
_SIMILAR_SEARCH_OVERLAP: Final = 0.5
_MAX_SEARCHES: Final = 12
_MIN_SEARCH_WORDS: Final = 3
_MAX_SEARCH_CHARS: Final = 2048

# An answer that says "nothing here" or "done" may rightly come many times.
_SAYS_LITTLE: Final = re.compile(
    r"\Z|\W{0,80}(?:no\b|none|not found|nothing|0 |\[\]|\{\}|empty|ok\b|success|done|true\b|null)",
    re.IGNORECASE,
)
_SAYS_NOTHING: Final = re.compile(
    r"\Z|\W{0,80}(?:no\b|none|not found|nothing|0 |\[\]|\{\}|empty|null)", re.IGNORECASE
)
# A word or two about another item each time ("valid", "200 OK") are a result for that item: no stagnation.
_ONE_TO_THREE_WORDS: Final = re.compile(r"\W{0,80}\w{1,100}(?:\W{1,80}\w{1,100}){0,2}\W{0,80}\Z")
_SEARCH_ARGUMENTS: Final = frozenset({"query", "q", "search_query", "question", "instruction", "keywords"})

# Each search is compared with several that follow it.
_split_search: Final = functools.lru_cache(maxsize=_MAX_SEARCHES)(split_words)


class RepeatedAnswer(Struct):
    """An answer that one tool has given, and how often in a row."""

    tool: str
    outcome: CallOutcome
    arguments: bytes
    last_seq: int
    last_step: int
    ids: list[str]
    count: int = 1
    overlap: float = 1.0


class SearchCall(Struct):
    """A call that asks a question in words."""

    name: str
    question: bytes
    seq: int
    event_id: str


class StagnationMemory(Struct):
    """The latest answer of the tool in use, and the searches of this segment."""

    segment: SegmentTracker = field(default_factory=SegmentTracker)
    answer: RepeatedAnswer | None = None
    searches: list[SearchCall] = field(default_factory=list)
    steps: int = 0

    def observe(self, event: TraceEvent) -> LoopMatch | None:
        """Record an event, and return what it asks again, if anything."""
        if event.action_type == TOOL_CALL:
            return self.observe_step(read_step(event))
        if self.segment.record_message(event):
            self._start_segment()
        return None

    def foresee(self, call: TraceEvent) -> LoopMatch | None:
        """Return what a call not yet made would ask again if the tool gave the same answer once more.

        That is assumed of the same question in other words, not of another question. Changes no state.
        """
        answer = self.answer if self.answer is not None and self.answer.tool == call.action_name else None
        may_stagnate = answer is not None and answer.count >= SAME_ANSWERS_REWORDED - 1
        may_reword = (
            len(self.searches) >= SIMILAR_SEARCHES_OF_LOOP - 1 and _find_question(call.input_data) is not None
        )
        if not may_stagnate and not may_reword:
            return None
        step = ToolStep(call, UNKNOWN)
        if answer is not None and _overlap(step.arguments, answer.arguments) >= _REWORDED_OVERLAP:
            step = ToolStep(call, answer.outcome)
        return copy_memory(self).observe_step(step)

    def observe_step(self, step: ToolStep) -> LoopMatch | None:
        """Record a step, and return what it asks again, if anything."""
        if step.is_work_done and self.segment.record_work(step.call_key):
            self._start_segment()
        self.steps += 1
        found = self._match_answer(step) if step.kind == "look" else None
        return found or self._match_search(step)

    def _start_segment(self) -> None:
        self.answer = None
        self.searches.clear()

    def _match_answer(self, step: ToolStep) -> LoopMatch | None:
        answer, event, outcome = self.answer, step.event, step.outcome
        if outcome.failed or not outcome.known:
            return None
        arguments = step.arguments
        if answer is None or answer.tool != event.action_name or not answer.outcome.equals(outcome):
            self.answer = RepeatedAnswer(
                event.action_name, outcome, arguments, event.seq, self.steps, [event.event_id]
            )
            return None
        if arguments == answer.arguments or not step.has_seen(answer.last_seq):
            return None  # the same question: action_loop counts it
        overlap = _overlap(arguments, answer.arguments)
        is_adjacent = self.steps - answer.last_step == 1
        answer.count += 1
        answer.overlap = min(answer.overlap, overlap)
        answer.arguments, answer.last_seq, answer.last_step = arguments, event.seq, self.steps
        answer.ids = [*answer.ids, event.event_id][-MAX_EVIDENCE_IDS:]
        return _judge_answer(step, answer, is_reworded=is_adjacent and overlap >= _REWORDED_OVERLAP)

    def _match_search(self, step: ToolStep) -> LoopMatch | None:
        question = _find_question(step.event.input_data)
        if question is None or step.outcome.outage:
            return None
        encoded = question[:_MAX_SEARCH_CHARS].encode("utf-8", "replace")
        for search in self.searches:
            if search.question == encoded:
                return None  # the very same question: action_loop counts it, or it asks for the next page
        words = _split_search(encoded)
        if len(words) < _MIN_SEARCH_WORDS:
            return None
        name = step.event.action_name
        similar = [
            search.event_id
            for search in self.searches
            if search.name == name
            and step.has_seen(search.seq)
            and word_overlap(words, _split_search(search.question)) >= _SIMILAR_SEARCH_OVERLAP
        ]
        self.searches.append(SearchCall(name, encoded, step.event.seq, step.event.event_id))
        if len(self.searches) > _MAX_SEARCHES:
            del self.searches[0]
        count = len(similar) + 1
        if count < SIMILAR_SEARCHES_OF_LOOP or not is_report_due(count, SIMILAR_SEARCHES_OF_LOOP):
            return None
        return LoopMatch(
            pattern="reworded search",
            count=count,
            patience=SIMILAR_SEARCHES_OF_LOOP,
            event_ids=(*similar, step.event.event_id),
            message=f"{name} was asked nearly the same {count} times",
        )


class Stagnation(LoopDetector):
    """Signal when different questions get the same answer, or one question is asked again in other words.

    An answer that says "nothing found" may rightly come many times, and needs eight.
    Waiting, planning and work done do not count.
    """

    name = "stagnation"
    version = 3
    advice = "Use what is known, or look somewhere else: asking again brings the same."

    def __init__(self) -> None:
        self._memory = StagnationMemory()


def _judge_answer(step: ToolStep, answer: RepeatedAnswer, *, is_reworded: bool) -> LoopMatch | None:
    says_little = _SAYS_LITTLE.match(step.outcome.sample) is not None
    if answer.overlap < _REWORDED_OVERLAP and _is_short_nonempty_result(step.outcome.sample):
        return None
    enough = EMPTY_ANSWERS_OF_LOOP if says_little else SAME_ANSWERS_OF_LOOP
    if answer.overlap >= _REWORDED_OVERLAP and not says_little:
        enough = SAME_ANSWERS_REWORDED
    name = step.event.action_name
    if answer.count >= enough and is_report_due(answer.count, enough):
        return LoopMatch(
            pattern="stagnation",
            count=answer.count,
            patience=enough,
            event_ids=tuple(answer.ids),
            message=f"{name} gave the same answer {answer.count} times, however it was asked",
        )
    if is_reworded and answer.count < enough:
        return LoopMatch(
            pattern="near repetition",
            count=answer.count,
            patience=enough,
            event_ids=tuple(answer.ids[-2:]),
            message=f"{name} was asked the same in other words, with the same answer",
            noticed_only=True,
        )
    return None


def _overlap(one: bytes, other: bytes) -> float:
    return word_overlap(split_words(one), split_words(other))


def _is_short_nonempty_result(text: str) -> bool:
    return _ONE_TO_THREE_WORDS.match(text) is not None and _SAYS_NOTHING.match(text) is None


def _find_question(arguments: Any) -> str | None:
    if not isinstance(arguments, dict) or _SEARCH_ARGUMENTS.isdisjoint(arguments):
        return None
    for name, value in arguments.items():
        if name in _SEARCH_ARGUMENTS and isinstance(value, str):
            return value
    return None
