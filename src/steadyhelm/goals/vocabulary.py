"""What a task is about, as a vocabulary that grows with the work, and how far a step is from it.

A short goal and a concrete step share few words even when all is well, so they are not compared word
set with word set.
The question is how much of the step is known: from the goal, from what the user said, from the plan,
from the files touched, from earlier steps that named the goal's own things.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field

from steadyhelm.errors import SettingsError
from steadyhelm.goals.tokens import LOOKED_AT, MOST_LOOKED_AT, RARITY, Words, read_words, text_of

Source = Literal["user", "plan", "accepted", "file", "work", "past"]

UNKNOWN_DRIFT: Final = 0.1
_SAID_LOOKED_AT: Final = 2048
_KEPT: Final = 96
GOAL_KEPT: Final = 2000

# In tenths, how much of a word counts as known by where it comes from; the rest of it counts as foreign.
_GOAL: Final = 10
_TENTHS: Final[dict[Source, int]] = {
    "user": 9,
    "plan": 8,
    "accepted": 7,
    "file": 6,
    "work": 5,
    "past": 3,
}
_ASKED: Final = frozenset({"user", "plan", "accepted"})

_EVIDENCE_NEEDED: Final = 1.5
# Healthy steps are about half new words, so a known word says more than a foreign one.
_KNOWN_COUNTS: Final = 2.0
_STEP_PRIOR: Final = 1.0
_GOAL_PRIOR: Final = 3.0
_NAMED_NEEDED: Final = 2
_WORDS_TO_TELL_A_LANGUAGE: Final = 8
_SPEECH, _NO_SPEECH = 0.25, 0.1

_ID: Final = re.compile(
    r"#\d+|(?<![\w-])(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[A-Za-z\d][\w-]{2,40}|(?<![\w.-])\d{5,20}\b"
)


class Reading(NamedTuple):
    """A step against a task: how far it is, how many words of the task it names, and which words are new."""

    drift: float | None
    named: int
    unknown: list[str]

    @property
    def names_the_task(self) -> bool:
        """Whether it names things of the task, so that its new words are how the task becomes concrete."""
        return self.named >= _NAMED_NEEDED


class GoalDNA(Struct):
    """The vocabulary of one task: the goal's own words, what was asked since, and what was touched.

    It is its own state: encode it with msgspec and take it up again.
    Each part is bounded; what was not named for longest is forgotten first, the goal's words never.

    Args:
        goal: What the agent was asked to do.

    >>> dna = GoalDNA("Build a REST API for user management")
    >>> dna.grow("1. database migration for users 2. auth module 3. endpoints", "plan")
    >>> dna.calculate_drift("Creating database migration for users") < 0.1
    True
    >>> dna.calculate_drift("Researching quantum computing papers") > 0.5
    True
    """

    goal: str
    core: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    touched: dict[str, int] = field(default_factory=dict)
    plain: int = 0

    def __post_init__(self) -> None:
        if self.core or not self.goal:
            return
        goal = text_of(self.goal)
        words = read_words(goal, MOST_LOOKED_AT)
        self.plain = words.plain
        self.core = dict.fromkeys([*words.content, *ids_in(goal)][:_KEPT], _GOAL)
        self.goal = goal[:GOAL_KEPT]

    def calculate_drift(self, current_action: Any) -> float:
        """How far a step is from the task: 0 is on it, 1 has nothing to do with it.

        A step that says too little to be judged gets a neutral low number, 0.1; `drift_of` says None then.
        """
        drift = self.drift_of(current_action)
        return UNKNOWN_DRIFT if drift is None else drift

    def drift_of(self, action: Any) -> float | None:
        """The same, or None when the step or the task says too little, or they are in two languages."""
        return self.reading_of(read_words(text_of(action))).drift

    def reading_of(self, words: Words) -> Reading:
        """The same for words already read, with what it rests on."""
        core, asked, touched = self.core, self.asked, self.touched
        known = foreign = 0.0
        named, unknown = 0, []
        for word in words.content:
            tenths = core.get(word) or asked.get(word)
            if tenths:
                named += 1
            else:
                tenths = touched.get(word)
                if not tenths:
                    unknown.append(word)
                    tenths = 0
            weight = RARITY[len(word)]
            known += weight * tenths
            foreign += weight * (_GOAL - tenths)
        return Reading(self._drift(words, known / _GOAL, foreign / _GOAL), named, unknown)

    def grow(self, text: Any, source: Source) -> None:
        """Take the words of a plan, a user's message, a file's path or accepted work into the vocabulary."""
        if source not in _TENTHS:
            raise SettingsError(f"A vocabulary grows by one of {', '.join(_TENTHS)}, got {source!r}.")
        asked = source in _ASKED
        text = text_of(text)
        words = read_words(text, _SAID_LOOKED_AT if asked else LOOKED_AT).content
        self.learn([*words, *ids_in(text)] if asked else words, source)

    def learn(self, words: Iterable[str], source: Source) -> None:
        """The same for words already read."""
        tenths = _TENTHS[source]
        kept = self.asked if source in _ASKED else self.touched
        for word in words:
            if word not in self.core:
                kept[word] = max(kept.pop(word, 0), tenths)
        while len(kept) > _KEPT:
            del kept[next(iter(kept))]

    def is_asked(self, word: str) -> bool:
        """Whether a folded word is the goal's, the user's or the plan's."""
        return word in self.core or word in self.asked

    def is_known(self, word: str) -> bool:
        """Whether a folded word is known from anywhere."""
        return word in self.core or word in self.asked or word in self.touched

    def anew(self, goal: str) -> "GoalDNA":
        """The vocabulary of another task; the words of this one stay known a little."""
        dna = GoalDNA(goal)
        dna.learn([*self.touched, *self.asked, *self.core], "past")
        return dna

    def _drift(self, words: Words, known: float, foreign: float) -> float | None:
        evidence = known + foreign
        vocabulary = len(self.core) + len(self.asked) + len(self.touched) / 2
        if evidence < _EVIDENCE_NEEDED or not vocabulary or self._is_in_another_language(words):
            return None
        # The fewer words there are, of the step or of the task, the less a foreign one says.
        sure = evidence / (evidence + _STEP_PRIOR) * vocabulary / (vocabulary + _GOAL_PRIOR)
        return sure * foreign / (foreign + _KNOWN_COUNTS * known)

    def _is_in_another_language(self, words: Words) -> bool:
        """Whether only one of goal and step holds the plain words of English; code and data hold few too."""
        goal_words = self.plain + len(self.core)
        step_words = words.plain + len(words.content)
        if min(goal_words, step_words) < _WORDS_TO_TELL_A_LANGUAGE:
            return False
        shares = sorted((self.plain / goal_words, words.plain / step_words))
        return shares[0] < _NO_SPEECH and shares[1] >= _SPEECH


def ids_in(text: str) -> list[str]:
    """Order numbers, tickets and the like: never words, but they tell one thing from another.

    >>> ids_in("Cancel order #W2378156 for user_77, not ENT-259")
    ['w2378156', 'user_77', 'ent-259']
    """
    found = _ID.findall(text[:_SAID_LOOKED_AT])
    return list(dict.fromkeys(name.lstrip("#").lower() for name in found))
