"""Describe a task by a vocabulary that grows with the work, and find how far and how a step diverges from it.

A short goal and a concrete step share few words even when the agent is on course, so the two word sets are
not compared directly.
Measured is how much of the step is known: from the goal, the user's messages, the plan, the files touched,
and earlier steps that named words of the goal.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field

from steadyhelm.errors import SettingsError
from steadyhelm.goals.tokens import (
    CHARS_READ,
    MAX_CHARS_READ,
    WEIGHT_BY_LENGTH,
    Tokens,
    find_work_words,
    map_spellings,
    sum_weights,
    to_text,
    tokenize,
)
from steadyhelm.lexicons import load_lexicon

StemWeight = Callable[[str], float]
"""Returns how much a stem counts, 0 to 1."""

StemTest = Callable[[str], bool]
"""Returns whether a stem has a property."""

Source = Literal["user", "plan", "accepted", "file", "work", "past"]

UNKNOWN_DRIFT: Final = 0.1
_ASKED_CHARS_READ: Final = 2048
_WORDS_KEPT: Final = 96
GOAL_CHARS_KEPT: Final = 2000

# In tenths, how much of a word counts as known by its source; the rest of it counts as foreign.
_FULL_TENTHS: Final = 10
_TENTHS_BY_SOURCE: Final[dict[Source, int]] = {
    "user": 9,
    "plan": 8,
    "accepted": 7,
    "file": 6,
    "work": 5,
    "past": 3,
}
_ASKED_SOURCES: Final = frozenset({"user", "plan", "accepted"})
_USED_SHARE: Final = 0.5
"""How much of a word counts as known that only earlier steps of the run have used."""

_MIN_EVIDENCE: Final = 1.5
# Healthy steps are about half new words, so a known word counts more than a foreign one.
_KNOWN_WEIGHT: Final = 2.0
_STEP_PRIOR: Final = 1.0
_GOAL_PRIOR: Final = 3.0
_MIN_TASK_WORDS_NAMED: Final = 2
_MIN_RARITY_TO_NAME: Final = 0.3
"""A word of the task that most runs of the agent contain does not name the task."""
_MIN_WORDS_FOR_LANGUAGE: Final = 8
_ENGLISH_SHARE, _OTHER_LANGUAGE_SHARE = 0.25, 0.1

# Every mark of cut text has one of these in it; searching for them costs a tenth of the pattern.
_CUT_HINTS: Final = ("cut", "truncated", "omitted", "elided", "clipped")

_ID: Final = re.compile(
    r"#\d+|(?<![\w-])(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[A-Za-z\d][\w-]{2,40}|(?<![\w.-])\d{5,20}\b"
)


_ID_CHARACTERS: Final = bytes(
    code if chr(code).isalnum() or chr(code) in "_.#-" else 32 for code in range(128)
) + bytes(128)
"""All characters that an id has in it or beside it; the others are blanked."""


class StepComparison(NamedTuple):
    """A step compared with a task: its drift, the words of the task it names, its new words, and all.

    `change` is the drift when a word that earlier steps of the run have used counts as half known.
    """

    drift: float | None
    change: float | None
    named: list[str]
    unknown: list[str]
    words: list[str]

    @property
    def is_on_task(self) -> bool:
        """Whether it names enough words of the task for its new words to belong to the task as well."""
        return len(self.named) >= _MIN_TASK_WORDS_NAMED


class GoalDNA(Struct):
    """The vocabulary of one task: the goal's own words, what was asked since, and what was touched.

    It is its own state: encode it with msgspec and decode it to continue.
    Each part is bounded: the words named longest ago are dropped first, the goal's words never.
    `is_cut` says that part of the goal's text is missing.

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
    is_cut: bool = False

    def __post_init__(self) -> None:
        if self.core or not self.goal:
            return
        goal = to_text(self.goal)
        words = tokenize(goal, MAX_CHARS_READ)
        self.plain = words.plain
        stems = list(dict.fromkeys([*words.content, *find_ids(goal)]))
        self.is_cut = len(stems) > _WORDS_KEPT or _says_it_is_cut(goal)
        self.core = dict.fromkeys(stems[:_WORDS_KEPT], _FULL_TENTHS)
        self.goal = goal[:GOAL_CHARS_KEPT]

    def calculate_drift(self, current_action: Any) -> float:
        """Return how far a step is from the task: 0 is on it, 1 has nothing to do with it.

        A step that says too little gets a neutral low number, 0.1; `estimate_drift` returns None then.
        """
        drift = self.estimate_drift(current_action)
        return UNKNOWN_DRIFT if drift is None else drift

    def estimate_drift(self, action: Any) -> float | None:
        """Return the drift of a step; None when step or task says too little, or they differ in language."""
        return self.compare(tokenize(to_text(action))).drift

    def compare(
        self, words: Tokens, weigh: StemWeight | None = None, is_used: StemTest | None = None
    ) -> StepComparison:
        """Return the drift of a tokenized step, with the words it is based on.

        `weigh` says how much a stem counts, by how rare it is for the agent; None counts all of them.
        `is_used` says whether earlier steps of the run have used a stem.
        """
        core, asked, touched = self.core, self.asked, self.touched
        known = foreign = used = 0.0
        named: list[str] = []
        unknown = []
        for word in words.content:
            rarity = 1.0 if weigh is None else weigh(word)
            weight = WEIGHT_BY_LENGTH[len(word)] * rarity
            tenths = core.get(word) or asked.get(word)
            if tenths:
                if rarity >= _MIN_RARITY_TO_NAME:
                    named.append(word)
            else:
                tenths = touched.get(word)
                if not tenths:
                    unknown.append(word)
                    tenths = 0
                    if is_used is not None and is_used(word):
                        used += weight
            known += weight * tenths
            foreign += weight * (_FULL_TENTHS - tenths)
        known, foreign = known / _FULL_TENTHS, foreign / _FULL_TENTHS
        change = drift = self._calculate_drift(words, known, foreign)
        if used:
            used *= _USED_SHARE
            change = self._calculate_drift(words, known + used, foreign - used)
        return StepComparison(drift, change, named, unknown, words.content)

    def grow(self, text: Any, source: Source) -> None:
        """Add the words of a plan, a user's message, a file's path or accepted work to the vocabulary."""
        if source not in _TENTHS_BY_SOURCE:
            raise SettingsError(
                f"A vocabulary grows by one of {', '.join(_TENTHS_BY_SOURCE)}, got {source!r}."
            )
        asked = source in _ASKED_SOURCES
        text = to_text(text)
        words = tokenize(text, _ASKED_CHARS_READ if asked else CHARS_READ).content
        self.learn([*words, *find_ids(text)] if asked else words, source)

    def learn(self, words: Iterable[str], source: Source) -> None:
        """Add stems to the vocabulary."""
        tenths = _TENTHS_BY_SOURCE[source]
        kept = self.asked if source in _ASKED_SOURCES else self.touched
        for word in words:
            if word not in self.core:
                kept[word] = max(kept.pop(word, 0), tenths)
        while len(kept) > _WORDS_KEPT:
            del kept[next(iter(kept))]

    def is_asked(self, word: str) -> bool:
        """Return whether a stem comes from the goal, the user or the plan."""
        return word in self.core or word in self.asked

    def is_known(self, word: str) -> bool:
        """Return whether a stem is known from any source."""
        return word in self.core or word in self.asked or word in self.touched

    def start_new_goal(self, goal: str) -> "GoalDNA":
        """Return the vocabulary of another goal; the words of this one stay known with a low weight."""
        dna = GoalDNA(goal)
        dna.learn([*self.touched, *self.asked, *self.core], "past")
        return dna

    def _calculate_drift(self, words: Tokens, known: float, foreign: float) -> float | None:
        evidence = known + foreign
        vocabulary = len(self.core) + len(self.asked) + len(self.touched) / 2
        if evidence < _MIN_EVIDENCE or not vocabulary or self._is_in_another_language(words):
            return None
        # The fewer words the step or the task has, the less a foreign one counts.
        confidence = evidence / (evidence + _STEP_PRIOR) * vocabulary / (vocabulary + _GOAL_PRIOR)
        return confidence * foreign / (foreign + _KNOWN_WEIGHT * known)

    def _is_in_another_language(self, words: Tokens) -> bool:
        """Return whether only one of goal and step contains plain English words. Code has few."""
        goal_words = self.plain + len(self.core)
        step_words = words.plain + len(words.content)
        if min(goal_words, step_words) < _MIN_WORDS_FOR_LANGUAGE:
            return False
        shares = sorted((self.plain / goal_words, words.plain / step_words))
        return shares[0] < _OTHER_LANGUAGE_SHARE and shares[1] >= _ENGLISH_SHARE


def _says_it_is_cut(text: str) -> bool:
    lowered = text.lower()
    return any(map(lowered.__contains__, _CUT_HINTS)) and _has_cut_mark(text)


def _has_cut_mark(text: str) -> bool:
    return load_lexicon(__package__, "messages")["cut text"].search(text) is not None


def find_ids(text: str) -> list[str]:
    """Return the order numbers, tickets and other ids in a text, in lower case.

    >>> find_ids("Cancel order #W2378156 for user_77, not ENT-259")
    ['w2378156', 'user_77', 'ent-259']
    """
    text = text[:_ASKED_CHARS_READ]
    if not text.isascii():
        found = _ID.findall(text)
    else:
        # Every id has a digit in it: most runs of characters have none, and need not be searched.
        runs = text.encode().translate(_ID_CHARACTERS).decode().split()
        found = [name for run in runs if not run.isalpha() for name in _ID.findall(run)]
    return list(dict.fromkeys(name.lstrip("#").lower() for name in found))


# Find how a step diverges from its task: more than was asked, another topic, or the wrong target.

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
