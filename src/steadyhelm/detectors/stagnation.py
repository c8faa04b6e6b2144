"""Notice an agent that keeps asking and learns nothing new."""

import re
from typing import Final

from msgspec import Struct, field

from steadyhelm.baselines import BaselineStats
from steadyhelm.errors import SettingsError
from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.loops.call_arguments import find_path
from steadyhelm.loops.echoes import remove_echo
from steadyhelm.loops.effects import is_screen_action
from steadyhelm.loops.lines_read import LinesRead
from steadyhelm.loops.lists_written import WrittenLists
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
from steadyhelm.loops.notes import NoteMemory
from steadyhelm.loops.outcomes import UNKNOWN, CallOutcome
from steadyhelm.loops.questions import says_not_done, says_nothing, says_refused
from steadyhelm.loops.rewordings import RewordingMemory
from steadyhelm.loops.same_code import ComputedResults
from steadyhelm.loops.same_document import FetchedDocuments
from steadyhelm.loops.searches import SIMILAR_SEARCHES_OF_LOOP, SearchMemory, find_query
from steadyhelm.loops.side_arguments import is_equal_but_tags, varies_phrase
from steadyhelm.loops.steps import ToolStep, read_step
from steadyhelm.loops.targets import TargetRelation, puts_many, relate_calls
from steadyhelm.loops.user_answers import asks_user, is_specific, read_answer
from steadyhelm.loops.user_questions import UserQuestions

SAME_ANSWERS_OF_LOOP: Final = 6
SAME_ANSWERS_REWORDED: Final = 3
SAME_NOTHING_REWORDED: Final = 4
SAME_ANSWERS_OF_BATCH: Final = 12
SAME_FILE_UNCHANGED: Final = 4
SAME_TARGET_OF_LOOP: Final = 4
SAME_PAGE_OF_LOOP: Final = 4
LONG_ANSWERS_OF_LOOP: Final = 8

_REWORDED_OVERLAP: Final = 0.8
_MIN_SHARE: Final = 0.6
_LONG_ANSWER_CHARS: Final = 600
"""An answer of more characters, equal for other targets, is no acknowledgement and no verdict on each."""
_MIN_PAGE_CHARS: Final = 60
_MIN_ANSWER_CHARS: Final = 16
_MAX_VARYING_SIZE: Final = 480
_MAX_ECHOED_TAG_CHARS: Final = 4

# An acknowledgement may rightly come many times.
_ACKNOWLEDGES: Final = re.compile(
    r"\Z|\W{0,80}(?:ok\b|success|done|true\b|saved|updated|200\b|204\b)", re.IGNORECASE
)
# A word or two about another item each time ("valid", "200 OK") are a result for that item: no stagnation.
_ONE_TO_THREE_WORDS: Final = re.compile(r"\W{0,80}\w{1,100}(?:\W{1,80}\w{1,100}){0,2}\W{0,80}\Z")


class RepeatedAnswer(Struct):
    """An answer that one tool has given, and how often in a row.

    `relations` counts how each question was related to the one before, `path` is the file of all of them,
    `is_reported` says that it was a loop before.
    """

    tool: str
    outcome: CallOutcome
    arguments: bytes
    last_seq: int
    last_step: int
    ids: list[str]
    count: int = 1
    overlap: float = 1.0
    relations: dict[str, int] = field(default_factory=dict)
    path: str = ""
    is_reported: bool = False

    def has_mostly(self, *relations: TargetRelation) -> bool:
        """Return whether most questions were related to the one before in one of these ways."""
        found = sum(self.relations.get(it, 0) for it in relations)
        return found >= _MIN_SHARE * (self.count - 1)


class StagnationMemory(Struct):
    """The latest answer of the tool in use, and the searches, delegations and plans of this segment.

    Notes and lists are new work themselves, and outlast the segment.
    """

    segment: SegmentTracker = field(default_factory=SegmentTracker)
    answer: RepeatedAnswer | None = None
    searches: SearchMemory = field(default_factory=SearchMemory)
    rewordings: RewordingMemory = field(default_factory=RewordingMemory)
    notes: NoteMemory = field(default_factory=NoteMemory)
    steps: int = 0
    lines: LinesRead = field(default_factory=LinesRead)
    questions: UserQuestions = field(default_factory=UserQuestions)
    documents: FetchedDocuments = field(default_factory=FetchedDocuments)
    lists: WrittenLists = field(default_factory=WrittenLists)
    computed: ComputedResults = field(default_factory=ComputedResults)

    def observe(
        self, event: TraceEvent, answers: int | None = None, searches: int | None = None
    ) -> LoopMatch | None:
        """Record an event, and return what it asks again, if anything.

        `answers` and `searches` replace the usual numbers of equal answers and of similar searches.
        """
        if event.action_type == TOOL_CALL:
            return self.observe_step(read_step(event), answers, searches)
        if self.segment.record_message(event):
            self._start_segment()
            self.notes.clear()
            self.lists.clear()
        return None

    def foresee(
        self, call: TraceEvent, answers: int | None = None, searches: int | None = None
    ) -> LoopMatch | None:
        """Return what a call not yet made would ask again if the tool gave the same answer once more.

        That is assumed of the same question in other words, not of another question. Changes no state.
        """
        answer = self.answer if self.answer is not None and self.answer.tool == call.action_name else None
        may_stagnate = answer is not None and answer.count >= SAME_ANSWERS_REWORDED - 1
        if not may_stagnate and not self.searches.may_match(call):
            return None
        step = ToolStep(call, UNKNOWN)
        if answer is not None and _overlap(step.arguments, answer.arguments) >= _REWORDED_OVERLAP:
            step = ToolStep(call, answer.outcome)
        return copy_memory(self).observe_step(step, answers, searches, is_foreseen=True)

    def observe_step(
        self,
        step: ToolStep,
        answers: int | None = None,
        searches: int | None = None,
        *,
        is_foreseen: bool = False,
    ) -> LoopMatch | None:
        """Record a step, and return what it asks again, if anything."""
        is_work_done = step.is_work_done and not (
            step.outcome.is_short and says_not_done(step.outcome.sample)
        )
        if is_work_done and self.segment.record_work(step):
            self._start_segment()
        self.steps += 1
        is_answer = step.kind == "look" or (step.kind == "work" and not is_work_done)
        found = self._match_answer(step, answers) if is_answer else None
        if (found is None or found.noticed_only) and not asks_user(step.event.action_name):
            enough = searches or SIMILAR_SEARCHES_OF_LOOP
            found = self.searches.observe(step, enough, is_foreseen=is_foreseen) or found
        rewritten, reworded = self.lists.observe(step), self.rewordings.observe(step)
        found = self.notes.observe(step) or reworded or found
        found = self._match_question(step) or rewritten or found
        lines = self.lines.observe(step)
        document, computed = self.documents.observe(step), self.computed.observe(step)
        if found is None or found.noticed_only:
            found = lines or document or computed or found
        if found is None or self.segment.is_asked(step.event, found.count) or step.event.tool_kind == "batch":
            return None
        return found

    def _match_question(self, step: ToolStep) -> LoopMatch | None:
        if asks_user(step.event.action_name):
            return self.questions.observe(step)
        if step.kind != "plan":
            self.questions.record_other()
        return None

    def _start_segment(self) -> None:
        self.answer = None
        self.questions.clear()
        self.searches.clear()
        self.rewordings.clear()
        self.lines.clear()
        self.documents.clear()
        self.computed.clear()

    def _match_answer(self, step: ToolStep, enough: int | None) -> LoopMatch | None:
        answer, event, outcome = self.answer, step.event, step.outcome
        if outcome.failed or not outcome.known:
            return None
        arguments = step.arguments
        if answer is None or answer.tool != event.action_name or not _is_same_answer(answer, step):
            path = find_path(event.input_data) or ""
            self.answer = RepeatedAnswer(
                event.action_name, outcome, arguments, event.seq, self.steps, [event.event_id], path=path
            )
            return None
        if arguments == answer.arguments or not step.has_seen(answer.last_seq):
            return None  # the same question: action_loop counts it
        overlap = _overlap(arguments, answer.arguments)
        relation = relate_calls(answer.arguments, arguments)
        if relation == "same" and puts_many(answer.tool):
            relation = "number"
        elif relation == "value" and step.kind == "work" and varies_phrase(answer.arguments, arguments):
            relation = "wording"
        answer.relations[relation] = answer.relations.get(relation, 0) + 1
        is_adjacent = self.steps - answer.last_step == 1
        answer.count += 1
        if answer.path and answer.path != find_path(event.input_data):
            answer.path = ""
        answer.overlap = min(answer.overlap, overlap)
        answer.arguments, answer.last_seq, answer.last_step = arguments, event.seq, self.steps
        # What is compared next is what was asked last: the echo of a question changes with it.
        answer.outcome = outcome
        answer.ids = [*answer.ids, event.event_id][-MAX_EVIDENCE_IDS:]
        return _judge_answer(step, answer, enough, is_reworded=is_adjacent and overlap >= _REWORDED_OVERLAP)


class Stagnation(LoopDetector):
    """Signal when different questions get the same answer, or one question is asked again in other words.

    Equal short answers about another thing each time are a batch, and no loop; one target in other spellings
    and one list under other page numbers are no other things, and lines of a file read before are not new.
    A task delegated, and a plan written, four times in other words to the same end count too, and so does a
    list whose items are written four times, whatever their order.
    Waiting does not count, and of work done only notes, messages and lists do.

    Args:
        same_answers: Equal answers to other questions from which it is a loop; None for the usual numbers.
        similar_searches: Similar searches without anything new from which it is a loop; None for four.
    """

    name = "stagnation"
    version = 6
    advice = "Use what is known, or look somewhere else: asking again brings the same."

    _memory: StagnationMemory

    def __init__(self, *, same_answers: int | None = None, similar_searches: int | None = None) -> None:
        for name, value in (("same_answers", same_answers), ("similar_searches", similar_searches)):
            if value is not None and value < 2:  # noqa: PLR2004 - one answer alone repeats nothing
                raise SettingsError(f"stagnation.{name} must be 2 or more, or None, got {value!r}.")
        self.same_answers = same_answers
        self.similar_searches = similar_searches
        self._memory = StagnationMemory()

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Record the event, and return a finding when it asks again what is known."""
        if event.action_type not in self.observed_types:
            return None
        match = self._memory.observe(event, self.same_answers, self.similar_searches)
        return None if match is None else self.report(event, match)

    def foresee(self, call: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Return the finding that the call would lead to if its answer stayed the same. Changes no state."""
        if call.action_type != TOOL_CALL:
            return None
        match = self._memory.foresee(call, self.same_answers, self.similar_searches)
        return None if match is None else self.report_foreseen(call, match)


def _is_same_answer(answer: RepeatedAnswer, step: ToolStep) -> bool:
    before, now = answer.outcome, step.outcome
    if before.equals_but_measures(now) or before.equals_but_echo(now, answer.arguments, step.arguments):
        return True
    if asks_user(answer.tool):
        one, other = read_answer(before.sample), read_answer(now.sample)
        return bool(one and other) and (one <= other or other <= one)
    if now.size > _MAX_VARYING_SIZE:
        return False
    if abs(now.size - before.size) <= _MAX_ECHOED_TAG_CHARS and is_equal_but_tags(
        before.sample, answer.arguments, now.sample, step.arguments
    ):
        return True
    if before.sample[:8] != now.sample[:8]:
        return False
    # One call in two spellings has one answer, but for what is made up for each request.
    varying = before.find_varying_words(now)
    return (
        varying is not None
        and not varying.numbers
        and relate_calls(answer.arguments, step.arguments) == "same"
    )


def _judge_answer(
    step: ToolStep, answer: RepeatedAnswer, enough: int | None, *, is_reworded: bool
) -> LoopMatch | None:
    patience, is_batch = _find_patience(step, answer)
    if enough is not None and not is_batch:
        patience = enough
    name = step.event.action_name
    # What the questions have in common may show later than the count at which it would have been due.
    is_due = is_report_due(answer.count, patience) or not (is_batch or answer.is_reported)
    if answer.count >= patience and is_due:
        answer.is_reported = answer.is_reported or not is_batch
        return LoopMatch(
            pattern="stagnation",
            count=answer.count,
            patience=patience,
            event_ids=tuple(answer.ids),
            message=f"{name} gave the same answer {answer.count} times, however it was asked",
            noticed_only=is_batch,
            declare="batch" if is_batch else "",
        )
    if is_reworded and answer.count < patience:
        return LoopMatch(
            pattern="near repetition",
            count=answer.count,
            patience=patience,
            event_ids=tuple(answer.ids[-2:]),
            message=f"{name} was asked the same in other words, with the same answer",
            noticed_only=True,
        )
    return None


def _find_patience(step: ToolStep, answer: RepeatedAnswer) -> tuple[int, bool]:
    """Return from how many equal answers it is a loop, and whether it may be a batch, which is none."""
    text = step.outcome.sample
    enough = _find_patience_for_target(step, answer, text)
    if enough is not None:
        return enough, False
    if answer.has_mostly("wording", "spelling", "same"):
        if _says_nothing_but_echo(text, step.arguments):
            return SAME_NOTHING_REWORDED, False
        if answer.has_mostly("wording") and _ACKNOWLEDGES.match(text) is None:
            return (
                SAME_ANSWERS_REWORDED if answer.overlap >= _REWORDED_OVERLAP else SAME_ANSWERS_OF_LOOP,
                False,
            )
    has_no_effect = step.outcome.says_unchanged and (answer.path or is_screen_action(answer.tool))
    if has_no_effect or _is_open_search(step, answer):
        return SAME_FILE_UNCHANGED if has_no_effect and answer.path else SAME_ANSWERS_OF_LOOP, False
    return _find_patience_for_targets(step, answer)


def _find_patience_for_target(step: ToolStep, answer: RepeatedAnswer, text: str) -> int | None:
    """Return from how many answers it is a loop where one target was asked for each time, else None."""
    if asks_user(answer.tool) and is_specific(read_answer(text)) and not answer.has_mostly("value", "number"):
        return SAME_TARGET_OF_LOOP
    if answer.has_mostly("same", "aside") and says_refused(text):
        return SAME_TARGET_OF_LOOP
    if _ACKNOWLEDGES.match(text) is not None:
        return None
    if step.outcome.size >= _MIN_ANSWER_CHARS and answer.has_mostly("same", "tag"):
        return _find_patience_for_tags(text, is_tagged=not answer.has_mostly("same"))
    is_page = step.outcome.size >= _MIN_PAGE_CHARS or "\n" in text.strip()
    is_page = is_page and answer.has_mostly("page", "same") and not says_nothing(text)
    return SAME_PAGE_OF_LOOP if is_page else None


def _find_patience_for_tags(text: str, *, is_tagged: bool) -> int | None:
    """Return from how many answers it is a loop where nothing but a tag beside the target differed."""
    if not is_tagged:
        return SAME_TARGET_OF_LOOP
    return None if says_nothing(text) else SAME_ANSWERS_OF_LOOP


def _says_nothing_but_echo(text: str, arguments: bytes) -> bool:
    """Return whether an answer says that there is nothing, or only repeats what was asked."""
    rest = remove_echo(text, arguments)
    return not any(map(str.isalnum, rest)) or says_nothing(rest)


def _find_patience_for_targets(step: ToolStep, answer: RepeatedAnswer) -> tuple[int, bool]:
    """Return from how many answers it is a loop where they may be about other targets, and be a batch."""
    if step.outcome.is_short:
        return SAME_ANSWERS_OF_BATCH, True
    if step.outcome.size > _LONG_ANSWER_CHARS and answer.has_mostly("value", "number", "page", "aside"):
        return LONG_ANSWERS_OF_LOOP, False
    if answer.has_mostly("value"):
        return SAME_ANSWERS_OF_BATCH, True
    if answer.has_mostly("number", "aside", "page"):
        return SAME_ANSWERS_OF_BATCH, False
    return SAME_ANSWERS_OF_LOOP, False


def _is_open_search(step: ToolStep, answer: RepeatedAnswer) -> bool:
    """Return whether questions in free words keep finding the same, which is more than a word or two."""
    text = step.outcome.sample
    return (
        find_query(step.event.action_name, step.event.input_data) is not None
        and not answer.has_mostly("value", "number", "page", "aside")
        and not says_nothing(text)
        and _ONE_TO_THREE_WORDS.match(text) is None
    )


def _overlap(one: bytes, other: bytes) -> float:
    return word_overlap(split_words(one), split_words(other))
