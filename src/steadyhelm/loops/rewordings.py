"""Tasks delegated and plans written again in other words."""

import functools
import re
from itertools import pairwise
from typing import Final

from msgspec import Struct, field

from steadyhelm.loops.content_words import (
    content_overlap,
    list_content_words,
    names_one_thing_each,
    thought_overlap,
)
from steadyhelm.loops.kinds import asks_for_state
from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, LoopMatch
from steadyhelm.loops.questions import read_question, says_nothing
from steadyhelm.loops.same_help import (
    SAME_HELP_OF_LOOP,
    brings_the_same,
    find_task,
    gets_further,
    name_other_numbers,
)
from steadyhelm.loops.similarity import find_slot
from steadyhelm.loops.steps import ToolStep
from steadyhelm.loops.user_answers import asks_user
from steadyhelm.noise import mask_noise

SAME_TASKS_OF_LOOP: Final = 4
OTHER_PLANS_OF_LOOP: Final = 6
SAME_PLANS_OF_LOOP: Final = 4

_MAX_KEPT: Final = 8
_MAX_TEXT_CHARS: Final = 1000
_SIMILAR_TASK: Final = 0.5
_LOOSELY_SIMILAR_TASK: Final = 0.2
_MIN_SUBJECT_WORDS: Final = 2
_SIMILAR_ANSWER: Final = 0.4
_SIMILAR_PLAN: Final = 0.6

_MIN_ITEMS_OF_OUTLINE: Final = 3
_ITEM_END: Final = re.compile(r"[\n,;]+|\[ ?\]")

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_DELEGATION_WORDS: Final = frozenset(
    {"agent", "agents", "assign", "assistant", "ask", "consult", "delegate", "dispatch", "expert", "hand",
     "handoff", "researcher", "spawn", "subagent", "task", "transfer", "worker"}
)  # fmt: skip
_STATUS: Final = re.compile(r"\b(?:completed?|done|in[_ -]progress|finished|pending|cancelled)\b|\[[xX~/]\]")


class Delegation(Struct):
    """A task that was delegated, and the answer."""

    task: str
    answer: str
    seq: int
    event_id: str


class WrittenPlan(Struct):
    """A plan or a thought that was written down."""

    text: str
    event_id: str


class RewordingMemory(Struct):
    """The latest delegations of this segment, and the plans written since anything was done."""

    delegations: list[Delegation] = field(default_factory=list)
    plans: list[WrittenPlan] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything."""
        self.delegations.clear()
        self.plans.clear()

    def observe(self, step: ToolStep) -> LoopMatch | None:
        """Record a step, and return a match when a task or a plan comes again in other words."""
        if _is_delegation(step.event.action_name):
            anywhere = step.kind != "plan" and not asks_user(step.event.action_name)
            task = find_task(step.event.input_data, anywhere=anywhere)
            if task is not None and step.outcome.size > 0:
                self.plans.clear()
                return self._match_task(step, task[:_MAX_TEXT_CHARS])
        if step.kind == "plan":
            return self._match_plan(step)
        if self.plans:
            self.plans.clear()
        return None

    def _match_task(self, step: ToolStep, task: str) -> LoopMatch | None:
        answer = mask_noise(step.outcome.sample[:_MAX_TEXT_CHARS])
        similar = [
            it
            for it in self.delegations
            if step.has_seen(it.seq)
            and _is_same_answer(it.answer, answer)
            and _is_same_task(it, task, answer)
        ]
        event = step.event
        helped = self._match_help(step, task, answer)
        self.delegations = [*self.delegations, Delegation(task, answer, event.seq, event.event_id)][
            -_MAX_KEPT:
        ]
        slots = [find_slot(it.task, task) for it in similar]
        known = [slot for slot in slots if slot is not None]
        if known and 2 * max(map(known.count, known)) > len(slots):
            return helped  # one task about another thing each time
        count = len(similar) + 1
        if gets_further(answer, [it.answer for it in similar]):
            return helped
        if count < SAME_TASKS_OF_LOOP or names_one_thing_each(
            [list_content_words(it) for it in (*(it.task for it in similar), task)]
        ):
            return helped
        return LoopMatch(
            pattern="reworded task",
            count=count,
            patience=SAME_TASKS_OF_LOOP,
            event_ids=(*(it.event_id for it in similar), event.event_id),
            message=f"{event.action_name} was given one task {count} times in other words, to the same end",
        )

    def _match_help(self, step: ToolStep, task: str, answer: str) -> LoopMatch | None:
        """Match a helper that is asked for one thing and says the same each time, in whatever words."""
        same = [
            it
            for it in self.delegations
            if step.has_seen(it.seq) and brings_the_same(task, answer, it.task, it.answer)
        ]
        count = len(same) + 1
        if count < SAME_HELP_OF_LOOP or gets_further(answer, [it.answer for it in same]):
            return None
        if names_one_thing_each([list_content_words(it) for it in (*(it.task for it in same), task)]):
            return None  # one task about another thing each time
        return LoopMatch(
            pattern="same help",
            count=count,
            patience=SAME_HELP_OF_LOOP,
            event_ids=(*(it.event_id for it in same), step.event.event_id),
            message=f"{step.event.action_name} was asked {count} times for one thing, and answered the same",
        )

    def _match_plan(self, step: ToolStep) -> LoopMatch | None:
        text = read_question(step.arguments, between="\n")[:_MAX_TEXT_CHARS]
        if self.plans and _STATUS.findall(self.plans[-1].text) != _STATUS.findall(text):
            self.plans.clear()  # something was ticked off
        similar: list[WrittenPlan] = []
        if len(self.plans) >= SAME_PLANS_OF_LOOP - 1:
            words = list_content_words(text)
            similar = [it for it in self.plans if _is_same_plan(list_content_words(it.text), words)]
        if len(self.plans) >= OTHER_PLANS_OF_LOOP - 1 and (
            _STATUS.search(text) or are_same_outlines([*(it.text for it in self.plans), text])
        ):
            similar = self.plans  # as many items, none of them begun or done: whatever they are called by now
        event = step.event
        self.plans = [*self.plans, WrittenPlan(text, event.event_id)][-_MAX_KEPT:]
        count = len(similar) + 1
        if count < SAME_PLANS_OF_LOOP:
            return None
        return LoopMatch(
            pattern="reworded plan",
            count=count,
            patience=SAME_PLANS_OF_LOOP,
            event_ids=(*(it.event_id for it in similar), event.event_id)[-MAX_EVIDENCE_IDS:],
            message=f"{event.action_name} wrote nearly the same {count} times, with nothing done in between",
        )


def are_same_outlines(texts: list[str]) -> bool:
    """Return whether plans have as many items each, of which some are called as before.

    >>> are_same_outlines(["count the stock, match orders, report", "list the stock, check orders, report"])
    True
    >>> are_same_outlines(["count the stock, match orders, report", "call the mill, ask for flour, pay"])
    False
    """
    counts = {sum(bool(it.strip()) for it in _ITEM_END.split(text)) for text in texts}
    if len(counts) > 1 or min(counts) < _MIN_ITEMS_OF_OUTLINE:
        return False
    words = [list_content_words(text) for text in texts]
    return all(one & other for one, other in pairwise(words))


def _is_same_task(before: Delegation, task: str, answer: str) -> bool:
    """Return whether a task is an earlier one in other words, or has an answer about the same subject."""
    one, other = list_content_words(before.task), list_content_words(task)
    overlap = content_overlap(one, other)
    # What a task and its answer both name is what it is about.
    about, about_before = other & list_content_words(answer), one & list_content_words(before.answer)
    if not (about <= about_before or about_before <= about):
        return False
    if overlap >= _SIMILAR_TASK:
        return True
    # A verdict in fixed words says nothing of what it is about.
    is_one_subject = answer != before.answer and len(about & about_before) >= _MIN_SUBJECT_WORDS
    return overlap >= _LOOSELY_SIMILAR_TASK and is_one_subject


def _is_same_plan(one: frozenset[str], other: frozenset[str]) -> bool:
    return content_overlap(one, other) >= _SIMILAR_TASK or thought_overlap(one, other) >= _SIMILAR_PLAN


def _is_same_answer(one: str, other: str) -> bool:
    if one == other or (says_nothing(one) and says_nothing(other)):
        return True
    if name_other_numbers(one, other):
        return False
    return content_overlap(list_content_words(one), list_content_words(other)) >= _SIMILAR_ANSWER


@functools.lru_cache(maxsize=256)
def _is_delegation(name: str) -> bool:
    """Return whether a tool hands over a task; one that only asks how a task stands does not."""
    found = _DELEGATION_WORDS.intersection(word.lower() for word in _WORD_IN_NAME.findall(name[:100]))
    return bool(found) and not (found == {"task"} and asks_for_state(name))
