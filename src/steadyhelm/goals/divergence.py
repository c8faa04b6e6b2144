"""Find how a step diverges from its task: more than was asked, another topic, or the wrong target."""

import re
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from steadyhelm.goals.tokens import (
    CHARS_READ,
    WEIGHT_BY_LENGTH,
    find_work_words,
    map_spellings,
    sum_weights,
    tokenize,
)
from steadyhelm.goals.vocabulary import GoalDNA, find_ids

DivergenceKind = Literal["scope_creep", "topic_change", "wrong_target"]
TargetKind = Literal["file", "id", "name"]

_WORDS_SHOWN: Final = 6
_MIN_FOREIGN_WORDS: Final = 2
_MIN_EXTRA_WORDS: Final = 3
_EXTRA_WEIGHT_RATIO: Final = 2.0
_GOAL_CHARS_READ: Final = 2000

_FILE: Final = re.compile(r"(?<![\w.-])[\w-]{2,60}\.[A-Za-z]\w{0,4}\b")
_NAME: Final = re.compile(
    r"(?<=[a-z,;:] )[A-Z]\w{2,40}\b|(?<!\w)[A-Za-z][a-z]+[A-Z]\w{1,40}|(?<!\w)[A-Za-z]+_\w{1,40}"
)

_DESCRIPTIONS: Final[dict[DivergenceKind, str]] = {
    "scope_creep": "much of it was not asked for",
    "topic_change": "nothing of the goal is left in it",
    "wrong_target": "the right kind of work on another thing",
}


class Divergence(Struct, frozen=True, kw_only=True):
    """A kind of divergence and the words that show it, as they were written.

    `foreign` are the step's words that were not asked for (for a wrong target, the things it names instead),
    `missing` the goal's words that the step does not contain, `shared` those it does.
    """

    kind: DivergenceKind
    foreign: tuple[str, ...]
    missing: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The divergence in plain words."""
        return f"{_DESCRIPTIONS[self.kind]} ({', '.join(self.foreign)})"


def find_divergence(dna: GoalDNA, text: str) -> Divergence | None:
    """Return how a step diverges from its task; None when it does not, or says too little.

    >>> dna = GoalDNA("Fix the login bug in auth.py")
    >>> find_divergence(dna, "Fixing the login bug in payments.py").description
    'the right kind of work on another thing (payments.py)'
    >>> find_divergence(dna, "Researching quantum computing papers").kind
    'topic_change'
    >>> extra = "Login fixed; also adding a dashboard, themes, avatars and weekly newsletters"
    >>> find_divergence(dna, extra).kind
    'scope_creep'
    >>> find_divergence(dna, "The login bug comes from the session cookie")
    """
    step = map_spellings(text)
    shared = [word for word in step if dna.is_asked(word)]
    foreign = [word for word in step if not dna.is_known(word)]
    if shared or find_work_words(text) & find_work_words(dna.goal):
        other = _find_other_targets(dna, text)
        if other:
            return _build_divergence("wrong_target", dna, step, other, shared)
    spellings = [step[word] for word in sorted(foreign, key=lambda word: -WEIGHT_BY_LENGTH[len(word)])]
    touched = len(step) - len(shared) - len(foreign)
    if not shared and len(foreign) >= _MIN_FOREIGN_WORDS and len(foreign) > touched:
        return _build_divergence("topic_change", dna, step, spellings, shared)
    if (
        shared
        and len(foreign) >= _MIN_EXTRA_WORDS
        and sum_weights(foreign) >= _EXTRA_WEIGHT_RATIO * sum_weights(shared)
    ):
        return _build_divergence("scope_creep", dna, step, spellings, shared)
    return None


def find_targets(text: str, max_chars: int = CHARS_READ) -> dict[TargetKind, list[str]]:
    """Return the things a text names, by kind: files, ids, and names (of people, places, code).

    >>> find_targets("Refund order #W9 to Mia Garcia as in refunds.py, see RefundPolicy")
    {'file': ['refunds.py'], 'name': ['Mia', 'Garcia', 'RefundPolicy']}
    """
    begin = text[:max_chars]
    files = list(dict.fromkeys(_FILE.findall(begin)))
    rest = _FILE.sub(" ", begin)
    ids = find_ids(rest)
    names = [name for name in dict.fromkeys(_NAME.findall(rest)) if name.lower() not in ids]
    found: dict[TargetKind, list[str]] = {"file": files, "id": ids, "name": names}
    return {kind: things for kind, things in found.items() if things}


def _find_other_targets(dna: GoalDNA, text: str) -> list[str]:
    """Return the files, ids or names in a step when the goal names such things and the step none of them."""
    wanted = find_targets(dna.goal, _GOAL_CHARS_READ)
    for kind, things in find_targets(text).items():
        if kind in wanted and not any(_is_asked(dna, kind, thing) for thing in things):
            return things
    return []


def _is_asked(dna: GoalDNA, kind: TargetKind, thing: str) -> bool:
    """Return whether the goal or the user named the thing. True for a name without content words."""
    if kind == "id":
        return dna.is_asked(thing)
    words = tokenize(thing).content
    return not words or any(dna.is_asked(word) for word in words)


def _build_divergence(
    kind: DivergenceKind, dna: GoalDNA, step: dict[str, str], foreign: Sequence[str], shared: Sequence[str]
) -> Divergence:
    goal = map_spellings(dna.goal, _GOAL_CHARS_READ)
    return Divergence(
        kind=kind,
        foreign=tuple(foreign[:_WORDS_SHOWN]),
        missing=tuple(spelling for word, spelling in goal.items() if word not in step)[:_WORDS_SHOWN],
        shared=tuple(step[word] for word in shared)[:_WORDS_SHOWN],
    )
