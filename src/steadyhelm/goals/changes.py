"""Classify what a user's new message does to the goal: nothing, a refinement, or another task.

A message that cannot be classified counts as a refinement: its words are known from then on, so work on a
new task that was not recognised is not reported as drift either.
"""

from typing import Final, Literal

from msgspec import Struct

from steadyhelm.goals.tokens import sum_weights, tokenize
from steadyhelm.goals.vocabulary import GoalDNA
from steadyhelm.lexicons import load_lexicon

ChangeKind = Literal["same", "refines", "new_goal"]
_Stems = tuple[str, ...]

MESSAGE_CHARS_READ: Final = 2048
_OPENING_CHARS: Final = 200
_FIRST_WORDS_CHARS: Final = 40
_MIN_DETAIL_WEIGHT: Final = 1.5
_MIN_TASK_WEIGHT: Final = 2.8
_MIN_TASK_WORDS: Final = 4
_MIN_KNOWN_WORDS: Final = 3


class GoalChange(Struct, frozen=True, kw_only=True):
    """The effect of a message on the goal, its reason, and the known and new content words.

    `accepts` is True when the user lets the agent go on, so that its last reply becomes part of the task.
    """

    kind: ChangeKind
    reason: str
    accepts: bool = False
    known: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


def classify_message(dna: GoalDNA, message: str, *, answering: bool = False) -> GoalChange:
    """Return what a user's message does to the goal; `answering` means that the agent had just asked.

    >>> dna = GoalDNA("Build a REST API for user management")
    >>> for message in (
    ...     "yes, go on",
    ...     "the API must use OAuth tokens",
    ...     "Translate the Norwegian brochure into Finnish",
    ... ):
    ...     print(classify_message(dna, message).kind)
    same
    refines
    new_goal
    """
    words = tokenize(message, MESSAGE_CHARS_READ).content
    known = tuple(word for word in words if dna.is_known(word))
    new = tuple(word for word in words if not dna.is_known(word))
    opening = message[:_OPENING_CHARS]
    accepts = _matches("go on", opening)
    kind, reason = _classify(dna, opening, known, new, accepts=accepts, answering=answering)
    return GoalChange(kind=kind, reason=reason, accepts=accepts, known=known, new=new)


def apply_change(dna: GoalDNA, message: str, change: GoalChange) -> GoalDNA:
    """Return the vocabulary after the message: the same with its words added, or that of a new goal."""
    if change.kind == "new_goal":
        return dna.start_new_goal(message)
    dna.grow(message, "user")
    return dna


def _classify(
    dna: GoalDNA, opening: str, known: _Stems, new: _Stems, *, accepts: bool, answering: bool
) -> tuple[ChangeKind, str]:
    weight = sum_weights(new)
    if _matches("takes back", opening):
        return "refines", "it takes something back"
    if not new or (accepts and weight < _MIN_DETAIL_WEIGHT):
        return "same", "it adds hardly anything"
    if weight >= _MIN_DETAIL_WEIGHT and _matches("announces a task", opening):
        return "new_goal", "it announces another task"
    if answering and not known:
        return "same", "it answers the agent's question"
    why = _find_reason_to_refine(dna, opening, known, accepts)
    if not why and (len(new) < _MIN_TASK_WORDS or weight < _MIN_TASK_WEIGHT):
        why = "it says too little to be another task"
    return ("refines", why) if why else ("new_goal", "it shares nothing with the task so far")


def _find_reason_to_refine(dna: GoalDNA, opening: str, known: _Stems, accepts: bool) -> str:
    if known:
        return "it uses words of the task"
    if len(dna.core) + len(dna.asked) < _MIN_KNOWN_WORDS:
        return "too little is known about the task to recognise another one"
    if accepts:
        return "it says go on, and adds to the task"
    if _matches("refers back", opening[:_FIRST_WORDS_CHARS]):
        return "it refers to what was said before"
    return "it asks a question" if _matches("question", opening) else ""


def _matches(name: str, text: str) -> bool:
    return load_lexicon(__package__, "messages")[name].search(text) is not None
