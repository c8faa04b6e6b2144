"""Notice an agent whose replies repeat themselves."""

import re
from typing import Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.loops.content_words import (
    list_content_words,
    list_promised,
    says_nothing_else,
    thought_overlap,
)
from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, LoopDetector, LoopMatch, hash_text
from steadyhelm.loops.similarity import list_identifiers, name_different_things
from steadyhelm.loops.user_answers import UserAnswers
from steadyhelm.loops.user_words import is_go_on

SAME_REPLIES_OF_LOOP: Final = 3
LONG_PASSAGE_REPEATS: Final = 4
SHORT_PASSAGE_REPEATS: Final = 6
SAME_THOUGHTS_OF_LOOP: Final = 4
SAME_TURNS_OF_LOOP: Final = 4

_LONG_PASSAGE_CHARS: Final = 20
_MIN_TEXT_CHARS: Final = 60
_MIN_SPAN_CHARS: Final = 100
_PROBE_CHARS: Final = 14
_MAX_TEXT_CHARS: Final = 8192
_MIN_REPLY_CHARS: Final = 10
_MIN_PASSAGE_LETTERS: Final = 2
_QUOTED_CHARS: Final = 60
_MAX_THOUGHT_CHARS: Final = 600
_MAX_EARLIER_REPLIES: Final = 16
_MAX_TURNS: Final = 8
_SIMILAR_THOUGHT: Final = 0.6

_ASKING_PARTS: Final = ("?", "lease", "ell me", "et me know")
# What a person writes on purpose may look alike line by line: code, tables, lists, headings, quotes.
_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKED_LINE: Final = re.compile(r"(?m)^[^\S\n]*(?:[|>#].*|(?:[-*+]|\d+[.)])\s.*)$")


class RepeatedPassage(NamedTuple):
    """A piece of text that comes several times without a break."""

    text: str
    repeats: int


class EarlierReply(Struct):
    """A short reply given since anything was done.

    `is_part` is whether another reply followed it before the user spoke, and said something else.
    """

    text: str
    event_id: str
    is_part: bool = False


class ReplyMemory(Struct):
    """The latest reply, how often it was given with no tool call in between, and the replies since then.

    `earlier` holds those since the user last spoke, `turns` those of all turns, `answers` the questions that
    the user keeps answering the same. `is_turn_open` says that the user has not spoken since the last reply.
    """

    reply: int = 0
    count: int = 0
    ids: list[str] = field(default_factory=list)
    earlier: list[EarlierReply] = field(default_factory=list)
    turns: list[EarlierReply] = field(default_factory=list)
    answers: UserAnswers = field(default_factory=UserAnswers)
    is_turn_open: bool = False

    def observe(self, event: TraceEvent) -> LoopMatch | None:
        """Record an event, and return what the reply repeats, if anything."""
        if event.action_type == TOOL_CALL:
            self.reply = 0
            self.earlier.clear()
            self.turns.clear()
            self.answers.clear()
            self.is_turn_open = False
            return None
        if event.action_type == USER_MESSAGE:
            return self._record_answer(event)
        if event.action_type != LLM_REQUEST:
            return None
        text = event.text
        if len(text) < _MIN_REPLY_CHARS:
            return None
        passage = find_repeated_passage(text)
        if passage is not None:
            quoted = " ".join(passage.text.split())[:_QUOTED_CHARS]
            return LoopMatch(
                pattern="repeated passage",
                count=passage.repeats,
                patience=LONG_PASSAGE_REPEATS,
                event_ids=(event.event_id,),
                message=f"one reply says {quoted!r} {passage.repeats} times in a row",
            )
        found = self._record_reply(text, event.event_id), self._match_turn(text, event.event_id)
        return max(filter(None, found), key=_get_score, default=None) or self._match_thought(
            text, event.event_id
        )

    def _record_answer(self, event: TraceEvent) -> LoopMatch | None:
        """Record what the user says, and return a match when it answers several questions in turn."""
        if event.is_answer or not is_go_on(event.text):
            self.earlier.clear()
        was_open, self.is_turn_open = self.is_turn_open, False
        if not was_open or not self.turns or not _asks(self.turns[-1].text):
            self.answers.clear()
            return None
        asked = self.turns[-1]
        return self.answers.record(asked.text, asked.event_id, event.text, event.event_id)

    def _match_turn(self, text: str, event_id: str) -> LoopMatch | None:
        """Match a reply that says nothing but what earlier ones said, whatever the user wrote in between."""
        was_open, self.is_turn_open = self.is_turn_open, True
        if len(text) > _MAX_THOUGHT_CHARS:
            return None
        if was_open and self.turns and not _says_same(self.turns[-1].text, text):
            self.turns[-1].is_part = True
        similar: list[EarlierReply] = []
        if len(self.turns) >= SAME_TURNS_OF_LOOP - 1:
            words, names = list_content_words(text), list_identifiers(text)
            similar = [
                it
                for it in self.turns
                if not it.is_part
                and says_nothing_else(list_content_words(it.text), words)
                and not name_different_things(list_identifiers(it.text), names)
            ]
        self.turns = [*self.turns, EarlierReply(text, event_id)][-_MAX_TURNS:]
        count = len(similar) + 1
        if count < SAME_TURNS_OF_LOOP:
            return None
        return LoopMatch(
            pattern="repeated reply",
            count=count,
            patience=SAME_TURNS_OF_LOOP,
            event_ids=(*(it.event_id for it in similar), event_id),
            message=f"{count} replies say the same, whatever the user answers, with nothing done in between",
        )

    def _match_thought(self, text: str, event_id: str) -> LoopMatch | None:
        """Match a reply that returns to the thoughts of earlier ones, in whatever words.

        A long reply is a report or a plan: it names everything the task is about, and so does the next.
        Replies that differ in their numbers, files or other identifiers report different things.
        """
        if len(text) > _MAX_THOUGHT_CHARS:
            return None
        similar: list[EarlierReply] = []
        if len(self.earlier) >= SAME_THOUGHTS_OF_LOOP - 1:
            words, names = list_content_words(text), list_identifiers(text)
            promise = list_promised(text)
            similar = [
                it
                for it in self.earlier
                if (
                    thought_overlap(list_content_words(it.text), words) >= _SIMILAR_THOUGHT
                    or says_nothing_else(list_promised(it.text), promise)
                )
                and not name_different_things(list_identifiers(it.text), names)
            ]
        self.earlier = [*self.earlier, EarlierReply(text, event_id)][-_MAX_EARLIER_REPLIES:]
        count = len(similar) + 1
        if count < SAME_THOUGHTS_OF_LOOP:
            return None
        return LoopMatch(
            pattern="repeated thought",
            count=count,
            patience=SAME_THOUGHTS_OF_LOOP,
            event_ids=(*(it.event_id for it in similar), event_id),
            message=f"{count} replies come back to the same thoughts, with nothing done in between",
        )

    def foresee(self, call: TraceEvent) -> None:
        """Return None: a call contains no reply."""

    def _record_reply(self, text: str, event_id: str) -> LoopMatch | None:
        key = hash_text(text.strip())
        if key != self.reply:
            self.reply, self.count, self.ids = key, 1, [event_id]
            return None
        self.count += 1
        self.ids = [*self.ids, event_id][-MAX_EVIDENCE_IDS:]
        return LoopMatch(
            pattern="repeated reply",
            count=self.count,
            patience=SAME_REPLIES_OF_LOOP,
            event_ids=tuple(self.ids),
            message=f"the same reply was given {self.count} times, with nothing done in between",
        )


class RepetitiveText(LoopDetector):
    """Signal when one reply says the same again and again, or the same reply comes three times in a row.

    Four replies that come back to the same thoughts in other words, with nothing done in between, count too,
    and four questions that the user answers the same.
    Lists, tables, code and dividers may repeat.

    >>> said_at(RepetitiveText(), "I will end the turn now. " * 8)
    [0]
    >>> said_at(RepetitiveText(), *["I am still working on it."] * 4)
    [1, 2, 3]
    """

    name = "repetitive_text"
    version = 3
    observed_types = frozenset({LLM_REQUEST, TOOL_CALL, USER_MESSAGE})
    advice = "Do not say it again: name the next step in one sentence, and take it."

    def __init__(self) -> None:
        self._memory = ReplyMemory()


def _asks(text: str) -> bool:
    for part in _ASKING_PARTS:  # noqa: SIM110 - every user's message goes through it, and a generator costs more
        if part in text:
            return True
    return False


def _says_same(one: str, other: str) -> bool:
    return one == other or says_nothing_else(list_content_words(one), list_content_words(other))


def _get_score(match: LoopMatch) -> float:
    return match.score


def find_repeated_passage(text: str) -> RepeatedPassage | None:
    """Return the passage a text repeats without a break; None for code, tables, lists and dividers.

    >>> find_repeated_passage("I will now end the turn. " * 8).repeats
    8
    >>> find_repeated_passage("-" * 200) is None
    True
    """
    if len(text) < _MIN_TEXT_CHARS:
        return None
    text = text[-_MAX_TEXT_CHARS:]
    # A few short probes are counted first: an ordinary text holds none of them four times.
    late, middle, early = _probe_starts(text)
    if not (_is_repeated(text, late) or _is_repeated(text, middle) or _is_repeated(text, early)):
        return None
    prose = _MARKED_LINE.sub(" ", _CODE.sub(" ", text))
    for start in _probe_starts(prose):
        passage = _measure_passage(prose, start) if _is_repeated(prose, start) else None
        if passage is not None:
            return passage
    return None


def _probe_starts(text: str) -> tuple[int, int, int]:
    length = len(text)
    return (max(0, length - _LONG_PASSAGE_CHARS), length // 2, length // 4)


def _is_repeated(text: str, start: int) -> bool:
    probe = text[start : start + _PROBE_CHARS]
    return text.count(probe) >= LONG_PASSAGE_REPEATS and len(probe) == _PROBE_CHARS and len(set(probe)) > 1


def _measure_passage(prose: str, start: int) -> RepeatedPassage | None:
    probe = prose[start : start + _PROBE_CHARS]
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
    text, repeats = prose[first : first + period], (last - first) // period
    enough = LONG_PASSAGE_REPEATS if period >= _LONG_PASSAGE_CHARS else SHORT_PASSAGE_REPEATS
    if (
        last - first < _MIN_SPAN_CHARS
        or repeats < enough
        or sum(map(str.isalpha, text)) < _MIN_PASSAGE_LETTERS
    ):
        return None
    return RepeatedPassage(text, repeats)
