"""How a step left its task: more than was asked, another topic, or the right work on another thing."""

import re
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from steadyhelm.goals.tokens import LOOKED_AT, RARITY, read_words, spelled, weight_of, work_words
from steadyhelm.goals.vocabulary import GoalDNA, ids_in

DivergenceKind = Literal["scope_creep", "topic_change", "wrong_target"]
TargetKind = Literal["file", "id", "name"]

_SHOWN: Final = 6
_NEW_TOPIC: Final = 2
_CREEP: Final = 3
_TIMES_THE_ASKED: Final = 2.0
_GOAL_LOOKED_AT: Final = 2000

_FILE: Final = re.compile(r"(?<![\w.-])[\w-]{2,60}\.[A-Za-z]\w{0,4}\b")
_NAME: Final = re.compile(
    r"(?<=[a-z,;:] )[A-Z]\w{2,40}\b|(?<!\w)[A-Za-z][a-z]+[A-Z]\w{1,40}|(?<!\w)[A-Za-z]+_\w{1,40}"
)

_WORDS: Final[dict[DivergenceKind, str]] = {
    "scope_creep": "much of it was not asked for",
    "topic_change": "nothing of the goal is left in it",
    "wrong_target": "the right kind of work on another thing",
}


class Divergence(Struct, frozen=True, kw_only=True):
    """How a step left its task, and the words that show it, as they were written.

    `foreign` are the step's words nobody asked for (for a wrong target, the things it names instead),
    `missing` the goal's words that the step does not hold, `shared` what was asked and is there.
    """

    kind: DivergenceKind
    foreign: tuple[str, ...]
    missing: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The same in plain words."""
        return f"{_WORDS[self.kind]} ({', '.join(self.foreign)})"


def divergence(dna: GoalDNA, text: str) -> Divergence | None:
    """How a step diverges from its task; None when it does not, or says too little to tell.

    >>> dna = GoalDNA("Fix the login bug in auth.py")
    >>> divergence(dna, "Fixing the login bug in payments.py").words
    'the right kind of work on another thing (payments.py)'
    >>> divergence(dna, "Researching quantum computing papers").kind
    'topic_change'
    >>> divergence(dna, "Login fixed; also adding a dashboard, themes, avatars and weekly newsletters").kind
    'scope_creep'
    >>> divergence(dna, "The login bug comes from the session cookie")
    """
    step = spelled(text)
    shared = [word for word in step if dna.is_asked(word)]
    foreign = [word for word in step if not dna.is_known(word)]
    if shared or work_words(text) & work_words(dna.goal):
        other = _other_targets(dna, text)
        if other:
            return _divergence("wrong_target", dna, step, other, shared)
    spellings = [step[word] for word in sorted(foreign, key=lambda word: -RARITY[len(word)])]
    touched = len(step) - len(shared) - len(foreign)
    if not shared and len(foreign) >= _NEW_TOPIC and len(foreign) > touched:
        return _divergence("topic_change", dna, step, spellings, shared)
    if shared and len(foreign) >= _CREEP and weight_of(foreign) >= _TIMES_THE_ASKED * weight_of(shared):
        return _divergence("scope_creep", dna, step, spellings, shared)
    return None


def targets_in(text: str, looked_at: int = LOOKED_AT) -> dict[TargetKind, list[str]]:
    """The things a text names, by kind: files, ids, and names (of people, places, code).

    >>> targets_in("Refund order #W9 to Mia Garcia as in refunds.py, see RefundPolicy")
    {'file': ['refunds.py'], 'name': ['Mia', 'Garcia', 'RefundPolicy']}
    """
    begin = text[:looked_at]
    files = list(dict.fromkeys(_FILE.findall(begin)))
    rest = _FILE.sub(" ", begin)
    ids = ids_in(rest)
    names = [name for name in dict.fromkeys(_NAME.findall(rest)) if name.lower() not in ids]
    found: dict[TargetKind, list[str]] = {"file": files, "id": ids, "name": names}
    return {kind: things for kind, things in found.items() if things}


def _other_targets(dna: GoalDNA, text: str) -> list[str]:
    """The goal names a file (an id, a name); the step names others of that kind, and none that was asked."""
    wanted = targets_in(dna.goal, _GOAL_LOOKED_AT)
    for kind, things in targets_in(text).items():
        if kind in wanted and not any(_is_asked(dna, kind, thing) for thing in things):
            return things
    return []


def _is_asked(dna: GoalDNA, kind: TargetKind, thing: str) -> bool:
    """Whether anybody named the thing; one whose name says nothing is given the benefit of the doubt."""
    if kind == "id":
        return dna.is_asked(thing)
    words = read_words(thing).content
    return not words or any(dna.is_asked(word) for word in words)


def _divergence(
    kind: DivergenceKind, dna: GoalDNA, step: dict[str, str], foreign: Sequence[str], shared: Sequence[str]
) -> Divergence:
    goal = spelled(dna.goal, _GOAL_LOOKED_AT)
    return Divergence(
        kind=kind,
        foreign=tuple(foreign[:_SHOWN]),
        missing=tuple(spelling for word, spelling in goal.items() if word not in step)[:_SHOWN],
        shared=tuple(step[word] for word in shared)[:_SHOWN],
    )
