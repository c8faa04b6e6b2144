"""A task that a helper is given again, and that it answers with the same in other words."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from steadyhelm.loops.content_words import content_overlap, list_content_words
from steadyhelm.loops.notes import list_names
from steadyhelm.loops.similarity import find_slot, name_different_things

SAME_HELP_OF_LOOP: Final = 5

_SIMILAR_ANSWER: Final = 0.4
_SIMILAR_TASK: Final = 0.2
_MIN_ANSWER_WORDS: Final = 4
_MAX_NEW_WORDS: Final = 2
_MIN_TASK_WORDS: Final = 3
_MAX_FIELDS: Final = 40

_NUMBER: Final = re.compile(r"\d+")
_TASK_ARGUMENTS: Final = (
    "task", "prompt", "instructions", "instruction", "objective", "goal", "request", "message", "query",
    "question", "input", "description", "assignment", "brief", "text", "content",
)  # fmt: skip


def find_task(arguments: Any) -> str | None:
    """Return the task in the arguments of a call that delegates; None when there is none.

    >>> find_task({"to": "ida", "payload": {"text": "count the rows"}}), find_task("count the rows")
    ('count the rows', 'count the rows')
    """
    if isinstance(arguments, str):
        return arguments if _is_task(arguments) else None
    if not isinstance(arguments, dict):
        return None
    inside = (it for it in list(arguments.values())[:_MAX_FIELDS] if isinstance(it, dict))
    return next((task for fields in (arguments, *inside) for task in _iterate_tasks(fields)), None)


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
    one, other = list_content_words(answer), list_content_words(answer_before)
    if min(len(one), len(other)) < _MIN_ANSWER_WORDS or content_overlap(one, other) < _SIMILAR_ANSWER:
        return False
    return content_overlap(list_content_words(task), list_content_words(before)) >= _SIMILAR_TASK


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
    return name_other_numbers(one, other) or name_different_things(list_names(one), list_names(other))


def name_other_numbers(one: str, other: str) -> bool:
    """Return whether each of two texts has numbers that the other has not.

    >>> name_other_numbers("3 of 12 rows", "5 of 12 rows"), name_other_numbers("12 rows", "12 rows in 2 sets")
    (True, False)
    """
    return name_different_things(frozenset(_NUMBER.findall(one)), frozenset(_NUMBER.findall(other)))
