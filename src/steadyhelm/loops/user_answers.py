"""What a user's answer says, whatever words are put around it, and which tools ask the user."""

import functools
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from steadyhelm.loops.content_words import list_content_words
from steadyhelm.loops.loop_detector import LoopMatch
from steadyhelm.loops.similarity import find_slot

SAME_USER_ANSWERS_OF_LOOP: Final = 4

_MAX_ANSWER_CHARS: Final = 48
_MAX_ANSWER_WORDS: Final = 6
_MAX_KEPT: Final = 8
_MIN_NUMBER_DIGITS: Final = 3

_WORD: Final = re.compile(r"\w[\w.@-]*")
_ORDINAL: Final = re.compile(r"(?<!\d)(\d{1,9})(?:st|nd|rd|th)\Z")
_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Words around an answer, and words that answer any question.
_FILLERS: Final = frozenset(
    """
    a about above again ahead already an and any are as at be before begin do does exactly fine first for from
    go good got great have he hello hey hi i in is it its just know like me mentioned my need next no none not
    of off ok okay on once one only or our please really right said same say she should so sorry start still
    sure take tell thank thanks that the then there they this to told true false twice use want was we well
    were what will with would yea yeah yep yes yet you your continue proceed done correct both neither never
    always often sometimes rarely agree disagree maybe perhaps
    """.split()  # noqa: SIM905 - so many quoted words read worse
)
_YES_WORDS: Final = frozenset(
    {"absolutely", "approved", "confirm", "confirmed", "correct", "go", "ok", "okay", "proceed", "right",
     "sure", "yea", "yeah", "yep", "yes"}
)  # fmt: skip
_NO_WORDS: Final = frozenset({"no", "nope", "not", "don't", "never"})
# A number of these fits many questions.
_UNITS: Final = frozenset(
    """
    c cm day days dollars euro euros f g gram grams h hour hours kg kilo kilos km l litre litres m mcg meters
    metres mg min minute minutes ml mm month months percent pill pills s sec seconds tablet tablets times week
    weeks year years
    """.split()  # noqa: SIM905 - the same
)
_ASKING_WORDS: Final = frozenset(
    {"ask", "clarify", "clarification", "confirm", "prompt", "question", "input"}
)
# A name of these words alone asks too, where it has one of the second list.
_WORDS_OF_ASKING: Final = _ASKING_WORDS | frozenset(
    {"approval", "choice", "confirmation", "feedback", "follow", "followup", "for", "get", "human", "need",
     "request", "tool", "up"}
)  # fmt: skip
_ASKING_ALONE: Final = frozenset({"ask", "clarify", "clarification", "confirm", "human", "question"})
_INPUT_WORDS: Final = frozenset({"request", "input"})
_PERSON_WORDS: Final = frozenset({"user", "human", "customer", "person", "caller", "client", "people"})


@functools.lru_cache(maxsize=16)
def read_answer(text: str) -> frozenset[str]:
    """Return what a short answer says without the words around it; nothing for a yes, a no and a long one.

    >>> sorted(read_answer("As I said, the 4th of May.")), sorted(read_answer("Yes, please."))
    (['4', 'may'], [])
    """
    if len(text) > _MAX_ANSWER_CHARS:
        return frozenset()
    words = list_answer_words(text)
    return words if len(words) <= _MAX_ANSWER_WORDS else frozenset()


def list_answer_words(text: str) -> frozenset[str]:
    """Return the words of an answer without those around it."""
    found = (_ORDINAL.sub(r"\1", word.strip(".-_")) for word in _WORD.findall(text.lower()))
    return frozenset(word for word in found if word and word not in _FILLERS)


def read_assent(text: str) -> str:
    """Return "yes" or "no" where an answer says so, else nothing.

    >>> read_assent("Yes, please cancel it."), read_assent("no"), read_assent("May 4")
    ('yes', 'no', '')
    """
    words = {word.strip(".-_") for word in _WORD.findall(text.lower()[:_MAX_ANSWER_CHARS])}
    if words & _NO_WORDS:
        return "no"
    return "yes" if words & _YES_WORDS else ""


def is_specific(answer: frozenset[str]) -> bool:
    """Return whether an answer fits one question and hardly another: it names a number of something.

    A number with a unit of measure fits many questions.

    >>> is_specific(frozenset({"4", "may"})), is_specific(frozenset({"w-7781"})), is_specific(frozenset("4"))
    (True, True, False)
    >>> is_specific(frozenset({"10", "mg"}))
    False
    """
    if not answer.isdisjoint(_UNITS) and all(word in _UNITS or word.isdigit() for word in answer):
        return False
    digits = sum(map(str.isdigit, "".join(answer)))
    return digits >= _MIN_NUMBER_DIGITS or (digits > 0 and any(map(str.isalpha, "".join(answer))))


@functools.lru_cache(maxsize=256)
def asks_user(tool: str) -> bool:
    """Return whether a tool puts a question to the user, by the words of its name.

    >>> asks_user("ask_user"), asks_user("ask_expert"), asks_user("get_user"), asks_user("ask_question")
    (True, False, False, True)
    """
    words = {word.lower() for word in _WORD_IN_NAME.findall(tool[:100])}
    if not words.isdisjoint(_ASKING_WORDS) and not words.isdisjoint(_PERSON_WORDS):
        return True
    if not words <= _WORDS_OF_ASKING:
        return False
    return not words.isdisjoint(_ASKING_ALONE) or words >= _INPUT_WORDS


class AnsweredQuestion(Struct):
    """A question to the user and what the user answered, with the events of both."""

    question: str
    answer: frozenset[str]
    event_ids: tuple[str, str]


class UserAnswers(Struct):
    """The latest questions to the user that were answered the same, one after another."""

    same: list[AnsweredQuestion] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything."""
        self.same.clear()

    def record(self, question: str, asked_id: str, text: str, answered_id: str) -> LoopMatch | None:
        """Record an answer, and return a match when it is the same as those before it."""
        answer = read_answer(text) if len(text) <= _MAX_ANSWER_CHARS else frozenset()
        if not answer:
            self.clear()
            return None
        core = answer.intersection(*(it.answer for it in self.same))
        if not core or any(len(core) < len(it.answer) and len(core) < len(answer) for it in self.same):
            self.clear()
            core = answer
        self.same = [*self.same, AnsweredQuestion(question, answer, (asked_id, answered_id))][-_MAX_KEPT:]
        count = len(self.same)
        if count < SAME_USER_ANSWERS_OF_LOOP or not _is_one_question([it.question for it in self.same], core):
            return None
        return LoopMatch(
            pattern="asked again",
            count=count,
            patience=SAME_USER_ANSWERS_OF_LOOP,
            event_ids=tuple(event_id for it in self.same for event_id in it.event_ids),
            message=f"the user was asked {count} times for what each time was answered the same",
        )


def _is_one_question(questions: Sequence[str], answer: frozenset[str]) -> bool:
    """Return whether questions with this answer are one: not the same about another thing each time."""
    latest = questions[-1]
    slots = [find_slot(it, latest) for it in questions[:-1]]
    known = [slot for slot in slots if slot is not None]
    if 2 * len(known) > len(slots):
        return False
    if is_specific(answer):
        return True
    words = list_content_words(latest)
    return all(words & list_content_words(it) for it in questions[:-1])
