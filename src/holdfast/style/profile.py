"""A profile: how an agent is meant to speak, and from where on it does not."""

import math
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from msgspec import Struct, field

from holdfast.errors import SettingsError
from holdfast.style.languages import ENGLISH as ENGLISH_CODE
from holdfast.style.languages import LANGUAGES
from holdfast.style.lexicons import ENGLISH, FILLER, HEDGES, HYPE, META, Lexicon
from holdfast.style.markers import MarkerIndex

VERBOSITY: Final = "verbosity"
LENGTH: Final = "length"
COMPLEXITY: Final = "complexity"
STRUCTURAL: Final = (VERBOSITY, LENGTH, COMPLEXITY)

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_CLASS: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_LONGEST_TERM: Final = 100
_MOST_TERMS: Final = 5000

# What each number may be: from, to, and whether only whole numbers make sense.
RANGES: Final[dict[str, tuple[float, float, bool]]] = {
    "threshold": (1, 100, False),
    "sensitivity": (0.1, 3, False),
    "target_wps": (1, 200, False),
    "max_wps": (1, 200, False),
    "target_words": (1, 100_000, False),
    "max_words": (1, 100_000, False),
    "long_word_len": (4, 40, True),
    "max_long_ratio": (0.01, 1, False),
    "velocity_threshold": (1, 100, False),
    "engagement_floor": (0, 100, False),
}
SWITCHES: Final = ("no_emoji", "valid_json", "no_questions")


def _usual_weights() -> dict[str, float]:
    return {HEDGES: 0.7, FILLER: 0.7, HYPE: 0.7, META: 0.65, VERBOSITY: 0.35, LENGTH: 0.5, COMPLEXITY: 0.2}


class HardRules(Struct, frozen=True, kw_only=True):
    """What is checked exactly instead of scored; a rule that is not set is not checked."""

    max_lines: int | None = None
    no_emoji: bool = False
    valid_json: bool = False
    no_questions: bool = False
    language: str | None = None


class Profile(Struct, frozen=True, kw_only=True, dict=True):
    """How an agent is meant to speak.

    Args:
        threshold: The score, 0 to 100, from which a reply counts as drift.
        sensitivity: Multiplies every score.
        weights: How much each component can count at most, 0 to 1, by its name.
        lexicons: Markers by class; a class of your own needs a weight of its own.
        language: The language the lexicons are in; a reply in another is judged by its structure only.
        target_wps: Words per sentence up to which nothing counts; `max_wps` is where all of it does.
        target_words: The same for the words of the whole reply, with `max_words`.
        long_word_len: Letters from which a word is long; `max_long_ratio` is the share of them that is full.
        velocity_threshold: Points per reply by which scores may rise before that is an alarm.
        engagement_floor: Engagement, 0 to 100, below which a reply is inert.
        rules: What is checked exactly.
    """

    name: str = "standard"
    description: str = ""
    threshold: float = 60.0
    sensitivity: float = 1.0
    weights: dict[str, float] = field(default_factory=_usual_weights)
    lexicons: dict[str, Lexicon] = field(default_factory=lambda: dict(ENGLISH))
    language: str = ENGLISH_CODE
    target_wps: float = 20.0
    max_wps: float = 45.0
    target_words: float = 180.0
    max_words: float = 800.0
    long_word_len: int = 10
    max_long_ratio: float = 0.4
    velocity_threshold: float = 8.0
    engagement_floor: float = 20.0
    rules: HardRules = HardRules()

    def __post_init__(self) -> None:
        for fault in profile_faults(self):
            raise SettingsError(f"Profile {self.name!r}: {fault}")

    @cached_property
    def markers(self) -> MarkerIndex:
        """Its lexicons, made ready for searching."""
        return MarkerIndex(self.lexicons)


def profile_faults(profile: Profile) -> Iterator[str]:
    """What is wrong with a profile, one sentence a fault."""
    if not isinstance(profile.name, str) or not NAME.fullmatch(profile.name):
        yield f"name must be small letters, digits, - and _, at most 64 of them, got {shown(profile.name)}."
    for name, (low, high, whole) in RANGES.items():
        if not _is_number(getattr(profile, name), low, high, whole=whole):
            kind = "a whole number" if whole else "a number"
            yield f"{name} must be {kind} from {low:g} to {high:g}, got {shown(getattr(profile, name))}."
            return
    for low_name, high_name in (("target_wps", "max_wps"), ("target_words", "max_words")):
        low, high = getattr(profile, low_name), getattr(profile, high_name)
        if low > high:
            yield f"{low_name} must not be above {high_name}, got {low:g} and {high:g}."
    if profile.language not in LANGUAGES:
        yield f"language must be one of {', '.join(LANGUAGES)}, got {shown(profile.language)}."
    yield from _lexicon_faults(profile)
    yield from _weight_faults(profile)
    yield from _rule_faults(profile.rules)


def _lexicon_faults(profile: Profile) -> Iterator[str]:
    for name, lexicon in profile.lexicons.items():
        if not isinstance(name, str) or not _CLASS.fullmatch(name) or name in STRUCTURAL:
            yield f"lexicons.{name} must be named in small letters, and not {', '.join(STRUCTURAL)}."
        terms = (*lexicon.words, *lexicon.ambiguous)
        if len(terms) > _MOST_TERMS:
            yield f"lexicons.{name} must hold at most {_MOST_TERMS} terms, got {len(terms)}."
        odd = [it for it in terms if not isinstance(it, str) or not 0 < len(it.strip()) <= _LONGEST_TERM]
        if odd:
            yield f"lexicons.{name} must hold texts of 1 to {_LONGEST_TERM} characters, got {shown(odd[0])}."
        if name not in profile.weights:
            yield f"lexicons.{name} needs a weight: add weights.{name}, a number from 0 to 1."


def _weight_faults(profile: Profile) -> Iterator[str]:
    known = (*profile.lexicons, *STRUCTURAL)
    for name, weight in profile.weights.items():
        if name not in known:
            yield f"weights.{name} belongs to no component; there are {', '.join(known)}."
        elif not _is_number(weight, 0, 1):
            yield f"weights.{name} must be a number from 0 to 1, got {shown(weight)}."


def _rule_faults(rules: HardRules) -> Iterator[str]:
    if rules.max_lines is not None and not _is_number(rules.max_lines, 1, 100_000, whole=True):
        yield f"rules.max_lines must be a whole number from 1 to 100000, got {shown(rules.max_lines)}."
    for name in SWITCHES:
        if not isinstance(getattr(rules, name), bool):
            yield f"rules.{name} must be true or false, got {shown(getattr(rules, name))}."
    if rules.language is not None and rules.language not in LANGUAGES:
        yield f"rules.language must be one of {', '.join(LANGUAGES)}, got {shown(rules.language)}."


def _is_number(value: Any, low: float, high: float, *, whole: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if not low <= value <= high or not math.isfinite(value):
        return False
    return not whole or float(value).is_integer()


def shown(value: Any) -> str:
    """A value for an error message, however large it is."""
    try:
        return repr(value)[:80]
    except ValueError:
        return "a number of thousands of digits"
