"""A task that a helper is given again, and that it answers with the same in other words."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from steadyhelm.loops.content_words import content_overlap, list_content_words
from steadyhelm.loops.notes import list_capitalised_names
from steadyhelm.loops.similarity import find_slot, name_different_things

SAME_HELP_OF_LOOP: Final = 5

_SIMILAR_ANSWER: Final = 0.4
_SIMILAR_TASK: Final = 0.2
_MIN_ANSWER_WORDS: Final = 4
_MAX_NEW_WORDS: Final = 2
_MIN_TASK_WORDS: Final = 3
_MAX_FIELDS: Final = 40
_MAX_DEPTH: Final = 4
_MAX_REFUSAL_CHARS: Final = 240
_MIN_COMMON_WORDS: Final = 2

_NUMBER: Final = re.compile(r"\d+")
_REFUSES: Final = re.compile(
    r"\b(?:can ?not|can't|could ?n[o']t|unable|do(?:es)?(?: not|n't) (?:know|have|speak|do|cover)|sorry"
    r"|not (?:able|among|possible|my|mine|in my|within|something)|no (?:access|tools?|way|permission|means)"
    r"|missing|lack(?:s|ing)?|without|refus(?:e|es|ed)|declin(?:e|es|ed)|nothing done|out of scope|beyond my"
    r"|outside my|back to you|have no|has no|there is no|(?:is|are) closed)\b"
    r"|\[\]|\{\}|\bnull\b",
    re.IGNORECASE,
)
_TASK_ARGUMENTS: Final = (
    "task", "prompt", "instructions", "instruction", "objective", "goal", "request", "message", "query",
    "question", "input", "description", "assignment", "brief", "text", "content",
)  # fmt: skip


def find_task(arguments: Any, *, anywhere: bool = True) -> str | None:
    """Return the task in the arguments of a call that delegates; None when there is none.

    `anywhere` takes the longest text where no argument is named as a task usually is.

    >>> find_task({"to": "ida", "payload": {"text": "count the rows"}}), find_task("count the rows")
    ('count the rows', 'count the rows')
    """
    if isinstance(arguments, str):
        return arguments if _is_task(arguments) else None
    if isinstance(arguments, dict):
        inside = (it for it in list(arguments.values())[:_MAX_FIELDS] if isinstance(it, dict))
        named = next((task for fields in (arguments, *inside) for task in _iterate_tasks(fields)), None)
        if named is not None:
            return named
    if not anywhere:
        return None
    return max(_iterate_texts(arguments, 0), key=len, default=None)


def _iterate_texts(arguments: Any, depth: int) -> Iterator[str]:
    """Yield the texts in arguments that may be a task, whatever their name."""
    if isinstance(arguments, str):
        if _is_task(arguments):
            yield arguments
    elif depth < _MAX_DEPTH and isinstance(arguments, dict | list):
        values = arguments.values() if isinstance(arguments, dict) else arguments
        for value in list(values)[:_MAX_FIELDS]:
            yield from _iterate_texts(value, depth + 1)


def _iterate_tasks(fields: dict[str, Any]) -> Iterator[str]:
    for name in _TASK_ARGUMENTS:
        value = fields.get(name)
        if isinstance(value, str) and _is_task(value):
            yield value


def _is_task(text: str) -> bool:
    return text.count(" ") + 1 >= _MIN_TASK_WORDS


def brings_the_same(task: str, answer: str, before: str, answer_before: str) -> bool:
    """Return whether two tasks, of which one has the answer before, are about one thing, answered alike."""
    if _is_other_value(task, before) or _name_others(task, before) or _name_others(answer, answer_before):
        return False
    if brings_nothing(answer) and brings_nothing(answer_before):
        return _is_same_subject(task, before)
    one, other = list_content_words(answer), list_content_words(answer_before)
    if min(len(one), len(other)) < _MIN_ANSWER_WORDS or content_overlap(one, other) < _SIMILAR_ANSWER:
        return False
    return content_overlap(list_content_words(task), list_content_words(before)) >= _SIMILAR_TASK


def brings_nothing(answer: str) -> bool:
    """Return whether a short answer refuses a task, or brings nothing.

    >>> brings_nothing("Estonian is not among my languages."), brings_nothing("Done: 4 rows")
    (True, False)
    """
    return len(answer) <= _MAX_REFUSAL_CHARS and _REFUSES.search(answer) is not None


def _is_same_subject(task: str, before: str) -> bool:
    one, other = list_content_words(task), list_content_words(before)
    return len(one & other) >= _MIN_COMMON_WORDS and content_overlap(one, other) >= _SIMILAR_TASK


def gets_further(answer: str, before: Sequence[str]) -> bool:
    """Return whether an answer says more than those before it did.

    >>> gets_further("the port is closed, as is the gate", ["the gate and the port are closed"])
    False
    """
    known = frozenset[str]().union(*map(list_content_words, before))
    return len(list_content_words(answer) - known) > _MAX_NEW_WORDS


def _is_other_value(task: str, before: str) -> bool:
    """Return whether one value replaces another; another verb at the beginning asks for the same."""
    slot = find_slot(before, task)
    return slot is not None and slot[0] > 0


def _name_others(one: str, other: str) -> bool:
    """Return whether two texts name other people, places or numbers."""
    return name_other_numbers(one, other) or name_different_things(
        list_capitalised_names(one), list_capitalised_names(other)
    )


def name_other_numbers(one: str, other: str) -> bool:
    """Return whether each of two texts has numbers that the other has not.

    >>> name_other_numbers("3 of 12 rows", "5 of 12 rows"), name_other_numbers("12 rows", "12 rows in 2 sets")
    (True, False)
    """
    return name_different_things(frozenset(_NUMBER.findall(one)), frozenset(_NUMBER.findall(other)))
