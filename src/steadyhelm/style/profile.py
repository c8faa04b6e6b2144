"""A profile: how an agent is meant to speak, and from where on it does not."""

import math
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from msgspec import Struct, field, structs

from steadyhelm.errors import SettingsError
from steadyhelm.style.languages import ENGLISH as ENGLISH_CODE
from steadyhelm.style.languages import LANGUAGES
from steadyhelm.style.lexicons import ENGLISH, FILLER, HEDGES, HYPE, META, Lexicon
from steadyhelm.style.markers import MarkerIndex

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
        faults = list(profile_faults(structs.asdict(self)))
        if faults:
            raise SettingsError("\n".join(f"Profile {shown(self.name)}: {fault}" for fault in faults))

    @cached_property
    def markers(self) -> MarkerIndex:
        """Its lexicons, made ready for searching."""
        return MarkerIndex(self.lexicons)


def profile_faults(fields: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the fields of a profile, one sentence a fault, all of them."""
    yield from value_faults(fields)
    for low_name, high_name in (("target_wps", "max_wps"), ("target_words", "max_words")):
        low, high = fields[low_name], fields[high_name]
        if not _range_fault(low_name, low) and not _range_fault(high_name, high) and low > high:
            yield f"{low_name} must not be above {high_name}, got {low:g} and {high:g}."
    lexicons, weights = fields["lexicons"], fields["weights"]
    odd = [name for name in ("lexicons", "weights") if not isinstance(fields[name], Mapping)]
    yield from (f"{name} must be a table, got {shown(fields[name])}." for name in odd)
    if not odd:
        yield from _lexicon_faults(lexicons, weights)
        yield from _weight_faults(lexicons, weights)


def value_faults(fields: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with those fields that can be judged each by itself."""
    if not isinstance(fields["name"], str) or not NAME.fullmatch(fields["name"]):
        # In a file nobody wrote it: it is the name of the file.
        got = f"got {shown(fields['name'])}; a file is called like its profile"
        yield f"name must be small letters, digits, - and _, at most 64 of them, {got}."
    yield from filter(None, (_range_fault(name, fields[name]) for name in RANGES))
    if fields["language"] not in LANGUAGES:
        yield f"language must be one of {', '.join(LANGUAGES)}, got {shown(fields['language'])}."
    if isinstance(fields["rules"], HardRules):
        yield from _rule_faults(fields["rules"])
    else:
        yield f"rules must be hard rules, got {shown(fields['rules'])}."


def _range_fault(name: str, value: Any) -> str:
    low, high, whole = RANGES[name]
    if _is_number(value, low, high, whole=whole):
        return ""
    kind = "a whole number" if whole else "a number"
    return f"{name} must be {kind} from {low:g} to {high:g}, got {shown(value)}."


def _lexicon_faults(lexicons: Mapping[str, Any], weights: Mapping[str, Any]) -> Iterator[str]:
    for name, lexicon in lexicons.items():
        if not isinstance(lexicon, Lexicon):
            yield f"lexicons.{name} must be a lexicon, got {shown(lexicon)}."
            continue
        if not isinstance(name, str) or not _CLASS.fullmatch(name) or name in STRUCTURAL:
            yield f"lexicons.{name} must be named in small letters, and not {', '.join(STRUCTURAL)}."
        terms = (*lexicon.words, *lexicon.ambiguous)
        if len(terms) > _MOST_TERMS:
            yield f"lexicons.{name} must hold at most {_MOST_TERMS} terms, got {len(terms)}."
        odd = [it for it in terms if not isinstance(it, str) or not 0 < len(it.strip()) <= _LONGEST_TERM]
        if odd:
            yield f"lexicons.{name} must hold texts of 1 to {_LONGEST_TERM} characters, got {shown(odd[0])}."
        if name not in weights:
            yield f"lexicons.{name} needs a weight: add weights.{name}, a number from 0 to 1."


def _weight_faults(lexicons: Mapping[str, Any], weights: Mapping[str, Any]) -> Iterator[str]:
    known = (*lexicons, *STRUCTURAL)
    for name, weight in weights.items():
        if name not in known:
            yield f"weights.{name} belongs to no component; there are {', '.join(map(str, known))}."
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
