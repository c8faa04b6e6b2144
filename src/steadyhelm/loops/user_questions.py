"""Questions put to the user through a tool, again and again, although the user has answered them.

The wording of the question may change, and so may what is put around the answer: a time, a polite word. A
question about another thing each time is another question, whatever is answered.
"""

import re
from collections import Counter
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.loops.content_words import content_overlap, list_content_words
from steadyhelm.loops.fresh_names import is_made_up
from steadyhelm.loops.loop_detector import LoopMatch
from steadyhelm.loops.side_arguments import read_fields
from steadyhelm.loops.similarity import find_slot, list_identifiers, name_different_things
from steadyhelm.loops.steps import ToolStep
from steadyhelm.loops.user_answers import list_answer_words, read_assent

SAME_QUESTION_OF_LOOP: Final = 4
SAME_ASSENT_OF_LOOP: Final = 5

_MAX_KEPT: Final = 8
_MAX_QUESTION_CHARS: Final = 500
_MAX_ANSWER_CHARS: Final = 300
_SIMILAR_QUESTION: Final = 0.5
_SIMILAR_ANSWER: Final = 0.6
_MAX_EXTRA_WORDS: Final = 2
_MAX_OWN_SHARE: Final = 0.6
_MAX_DEPTH: Final = 4

_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*|\b\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?\b", re.IGNORECASE
)
_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]{0,30}>")
_NAME: Final = re.compile(r"[^\W\d_]\Z|\w*\d")
_FIELDS_BESIDE_ANSWER: Final = frozenset(
    """
    answered_at at by channel code created_at date duration from id kind message_id ok question received
    received_at request_id role sender sent_at seq session status success time timestamp ts turn type user
    user_id
    """.split()  # noqa: SIM905 - so many quoted words read worse
)


class AskedQuestion(Struct):
    """A question, whom or where it was asked, and what the answer says."""

    question: str
    beside: str
    answer: frozenset[str]
    assent: str
    seq: int
    event_id: str


class UserQuestions(Struct):
    """The latest questions to the user in this segment that were answered."""

    asked: list[AskedQuestion] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything: something was done, or the user spoke."""
        if self.asked:
            self.asked = []

    def record_other(self) -> None:
        """Record that something else was looked at: a yes after it may be to another matter."""
        if self.asked:
            self.asked = [it for it in self.asked if not it.assent]

    def observe(self, step: ToolStep) -> LoopMatch | None:
        """Record a question and its answer, and return a match when it was answered before."""
        read = _read_asked(step)
        if read is None:
            return None
        similar = [it for it in self.asked if step.has_seen(it.seq) and _is_same(it, read)]
        self.asked = [*self.asked, read][-_MAX_KEPT:]
        count = len(similar) + 1
        questions = [*(it.question for it in similar), read.question]
        enough = SAME_ASSENT_OF_LOOP if read.assent else SAME_QUESTION_OF_LOOP
        if count < enough or len(set(questions)) == 1 or _is_batch(questions):
            return None  # the same words each time are a plain repetition
        return LoopMatch(
            pattern="asked again",
            count=count,
            patience=enough,
            event_ids=(*(it.event_id for it in similar), read.event_id),
            message=f"the user was asked {count} times for what each time was answered the same",
        )


def _read_asked(step: ToolStep) -> AskedQuestion | None:
    outcome, event = step.outcome, step.event
    if outcome.failed or not outcome.known:
        return None
    texts = _list_texts(event.input_data)
    question = max(texts, key=len, default="")[:_MAX_QUESTION_CHARS]
    answer = _read_answer_text(event.output_data)
    if not question or not answer:
        return None
    beside = " ".join(it for it in texts if not question.startswith(it))
    assent = read_assent(answer)
    words = list_answer_words(answer)
    if assent:
        words -= list_answer_words(question)
    if not (words or assent):
        return None
    return AskedQuestion(question, beside, words, assent, event.seq, event.event_id)


def _list_texts(args: Any, depth: int = 0) -> list[str]:
    """Return the texts of arguments, at any depth, without lists: those offer what to choose from."""
    if isinstance(args, str):
        return [args]
    if isinstance(args, dict) and depth < _MAX_DEPTH:
        return [text for value in args.values() for text in _list_texts(value, depth + 1)]
    return []


def _read_answer_text(output: Any) -> str:
    """Return what an answer says, without times, tags and the fields that stand beside it."""
    if isinstance(output, str) and output[:1] == "{":
        output = read_fields(output.encode("utf-8", "replace")) or output
    said = " ".join(_list_answers(output))[:_MAX_ANSWER_CHARS]
    return _TAG.sub(" ", _TIME.sub(" ", said)).strip()


def _list_answers(output: Any, depth: int = 0) -> list[str]:
    if isinstance(output, dict) and depth < _MAX_DEPTH:
        fields = (value for name, value in output.items() if str(name).lower() not in _FIELDS_BESIDE_ANSWER)
        return [text for value in fields for text in _list_answers(value, depth + 1)]
    if isinstance(output, list) and depth < _MAX_DEPTH:
        return [text for value in output for text in _list_answers(value, depth + 1)]
    if isinstance(output, bool):
        return ["yes" if output else "no"]
    return (
        [] if output is None or isinstance(output, dict | list) or is_made_up(str(output)) else [str(output)]
    )


def _is_same(before: AskedQuestion, now: AskedQuestion) -> bool:
    return (
        before.assent == now.assent
        and before.beside == now.beside
        and _is_same_answer(before.answer, now.answer)
        and _is_same_question(before.question, now.question)
    )


def _is_same_answer(one: frozenset[str], other: frozenset[str]) -> bool:
    if one <= other or other <= one:
        return bool(one and other) or one == other or max(len(one), len(other)) <= _MAX_EXTRA_WORDS
    return len(one & other) >= _SIMILAR_ANSWER * len(one | other)


def _is_same_question(one: str, other: str) -> bool:
    """Return whether two questions ask for one thing in whatever words.

    >>> _is_same_question("Which size shall I order?", "Please tell me the size to order.")
    True
    >>> _is_same_question("Which size shall I order?", "Which colour shall I order?")
    False
    """
    if one == other:
        return True
    if name_different_things(list_identifiers(one), list_identifiers(other)):
        return False
    first, second = list_content_words(one), list_content_words(other)
    slot = find_slot(one, other)
    if slot is not None and (_names_something(one, slot, second) or _names_something(other, slot, first)):
        return False
    if content_overlap(first, second) >= _SIMILAR_QUESTION:
        return True
    is_within = bool(first and second) and (first <= second or second <= first)
    return is_within and len(first ^ second) <= _MAX_EXTRA_WORDS


def _names_something(text: str, slot: tuple[int, int], others: frozenset[str]) -> bool:
    """Return whether the words at a place of a text name something that the other text does not name."""
    words = [word.strip(".,?!:;\"'") for word in text.split()[slot[0] : len(text.split()) - slot[1]]]
    if any(_NAME.match(word) for word in words if word.lower() not in {"a", "i"}):
        return True
    return bool(list_content_words(" ".join(words)) - others)


def _is_batch(questions: list[str]) -> bool:
    """Return whether most questions name something that no other names."""
    different = list(dict.fromkeys(questions))
    words = [list_content_words(it) for it in different]
    named = Counter(word for it in words for word in it)
    own = sum(any(named[word] == 1 for word in it) for it in words)
    return own > _MAX_OWN_SHARE * len(different)
