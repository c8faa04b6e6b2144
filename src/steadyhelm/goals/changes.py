"""What a user's new message does to the goal: nothing, a detail more, or another task.

A message that cannot be told apart refines: its words are known from then on, so work on a task nobody
recognised as new is not taken for drift either.
"""

import re
from typing import Final, Literal

from msgspec import Struct

from steadyhelm.goals.tokens import read_words, weight_of
from steadyhelm.goals.vocabulary import GoalDNA

ChangeKind = Literal["same", "refines", "new_goal"]
_Stems = tuple[str, ...]

LOOKED_AT: Final = 2048
_OPENING: Final = 200
_FIRST_WORDS: Final = 40
_A_DETAIL: Final = 1.5
_A_TASK: Final = 2.8
_WORDS_IN_A_TASK: Final = 4
_WORDS_TO_TELL_BY: Final = 3

_YES: Final = r"ok(?:ay)?|yes|yeah|yep|sure|great|good|perfect|thank(?:s| you)|cool|nice"
_GO_ON: Final = re.compile(
    rf"\W*(?:(?:{_YES}|please|and|then|now)\W+)*(?:{_YES}|lgtm|approved?|agreed|done|continue|go on|go ahead"
    r"|go for it|proceed|keep going|carry on|do it|do so|sounds good|looks good|next)\b",
    re.IGNORECASE,
)
_REFUSAL: Final = re.compile(
    r"\W*(?:no|nope|not|stop|wait|wrong|undo|revert|don'?t|do not|that'?s (?:not|wrong)|actually|but)\b",
    re.IGNORECASE,
)
_ANNOUNCED: Final = re.compile(
    r"\b(?:new|next|another|different|separate|unrelated) (?:task|topic|job|project|subject)\b"
    r"|^\W*(?:\w+\W+){0,2}(?:new|next) (?:one|change|thing|feature|issue|request|question)\b(?! in)",
    re.IGNORECASE,
)
_QUESTION: Final = re.compile(
    r"\W*(?:why|what|whats|how|when|where|who|which|is|are|was|were|do|does|did|have|has|should|would)\b",
    re.IGNORECASE,
)
# Words that point at what was said before: nobody begins a new task with them.
_POINTING_BACK: Final = re.compile(
    r"\b(?:it|its|this|that|thats|these|those|them|they|both|same|above|there|again|still|also|too|one|ones"
    r"|as well|what you|you (?:did|said|made|wrote))\b",
    re.IGNORECASE,
)


class GoalChange(Struct, frozen=True, kw_only=True):
    """What a message does to the goal, why, and which of its content words were known and which were not.

    `accepts` says that the user lets the agent go on, so what it said last is part of the task.
    """

    kind: ChangeKind
    reason: str
    accepts: bool = False
    known: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


def goal_change(dna: GoalDNA, message: str, *, answering: bool = False) -> GoalChange:
    """Tell what a user's message does to the goal; `answering` says that the agent had just asked.

    >>> dna = GoalDNA("Build a REST API for user management")
    >>> for message in (
    ...     "yes, go on",
    ...     "the API must use OAuth tokens",
    ...     "Translate the Norwegian brochure into Finnish",
    ... ):
    ...     print(goal_change(dna, message).kind)
    same
    refines
    new_goal
    """
    words = read_words(message, LOOKED_AT).content
    known = tuple(word for word in words if dna.is_known(word))
    new = tuple(word for word in words if not dna.is_known(word))
    opening = message[:_OPENING]
    accepts = _GO_ON.match(opening) is not None
    kind, reason = _judged(dna, opening, known, new, accepts=accepts, answering=answering)
    return GoalChange(kind=kind, reason=reason, accepts=accepts, known=known, new=new)


def followed(dna: GoalDNA, message: str, change: GoalChange) -> GoalDNA:
    """The vocabulary after the message: grown by it, or begun anew."""
    if change.kind == "new_goal":
        return dna.anew(message)
    dna.grow(message, "user")
    return dna


def _judged(
    dna: GoalDNA, opening: str, known: _Stems, new: _Stems, *, accepts: bool, answering: bool
) -> tuple[ChangeKind, str]:
    weight = weight_of(new)
    if _REFUSAL.match(opening):
        return "refines", "it takes something back"
    if not new or (accepts and weight < _A_DETAIL):
        return "same", "it adds hardly anything"
    if weight >= _A_DETAIL and _ANNOUNCED.search(opening):
        return "new_goal", "it announces another task"
    if answering and not known:
        return "same", "it answers the agent's question"
    why = _why_no_task(dna, opening, known, accepts)
    if not why and (len(new) < _WORDS_IN_A_TASK or weight < _A_TASK):
        why = "it says too little to be another task"
    return ("refines", why) if why else ("new_goal", "it shares nothing with the task so far")


def _why_no_task(dna: GoalDNA, opening: str, known: _Stems, accepts: bool) -> str:
    if known:
        return "it speaks of the task's own things"
    if len(dna.core) + len(dna.asked) < _WORDS_TO_TELL_BY:
        return "too little is known of the task to tell another one apart"
    if accepts:
        return "it says go on, and adds to the task"
    if _POINTING_BACK.search(opening[:_FIRST_WORDS]):
        return "it points back at what was said"
    return "it asks a question" if _QUESTION.match(opening) else ""
