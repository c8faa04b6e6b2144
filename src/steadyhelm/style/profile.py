"""Define a style profile: the expected style of an agent's replies, and the threshold for drift."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct, field, structs

from steadyhelm.errors import SettingsError
from steadyhelm.lazy_properties import lazy_property
from steadyhelm.style.markers import (
    FILLER,
    HEDGES,
    HYPE,
    META,
    MarkerIndex,
    MarkerTerms,
    load_english_terms,
)
from steadyhelm.style.prose import CHARS_READ, ENGLISH, LANGUAGES, Prose

VERBOSITY: Final = "verbosity"
LENGTH: Final = "length"
COMPLEXITY: Final = "complexity"
STRUCTURAL_COMPONENTS: Final = (VERBOSITY, LENGTH, COMPLEXITY)

PROFILE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_CLASS_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_MAX_TERM_CHARS: Final = 100
_MAX_TERMS: Final = 5000

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
RULE_SWITCHES: Final = ("no_emoji", "valid_json", "no_questions")


def _make_default_weights() -> dict[str, float]:
    return {HEDGES: 0.7, FILLER: 0.7, HYPE: 0.7, META: 0.65, VERBOSITY: 0.35, LENGTH: 0.5, COMPLEXITY: 0.2}


class HardRules(Struct, frozen=True, kw_only=True):
    """Rules that are checked exactly instead of scored. A rule that is not set is not checked."""

    max_lines: int | None = None
    no_emoji: bool = False
    valid_json: bool = False
    no_questions: bool = False
    language: str | None = None


class Profile(Struct, frozen=True, kw_only=True, dict=True):
    """The expected style of an agent's replies.

    Args:
        threshold: The score, 0 to 100, from which a reply counts as drift.
        sensitivity: Multiplies every score.
        weights: The largest value of each component, 0 to 1, by its name.
        lexicons: Markers by class; an added class needs a weight.
        language: The language of the lexicons; a reply in another is scored by its structure only.
        target_wps: Words per sentence up to which verbosity is 0; from `max_wps` on it is 1.
        target_words: The same for the words of the whole reply, with `max_words`.
        long_word_len: Letters from which a word is long; complexity is 1 at the share `max_long_ratio`.
        velocity_threshold: Points per reply by which scores may rise before that is an alarm.
        engagement_floor: Engagement, 0 to 100, below which a reply is inert.
        rules: Rules that are checked exactly.
    """

    name: str = "standard"
    description: str = ""
    threshold: float = 60.0
    sensitivity: float = 1.0
    weights: dict[str, float] = field(default_factory=_make_default_weights)
    lexicons: dict[str, MarkerTerms] = field(default_factory=load_english_terms)
    language: str = ENGLISH
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
        faults = list(find_profile_faults(structs.asdict(self)))
        if faults:
            raise SettingsError("\n".join(f"Profile {format_value(self.name)}: {fault}" for fault in faults))

    @lazy_property
    def markers(self) -> MarkerIndex:
        """An index of its lexicons."""
        return MarkerIndex(self.lexicons)


def find_profile_faults(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each fault in the fields of a profile."""
    yield from find_value_faults(fields)
    for low_name, high_name in (("target_wps", "max_wps"), ("target_words", "max_words")):
        low, high = fields[low_name], fields[high_name]
        if (
            not _describe_range_fault(low_name, low)
            and not _describe_range_fault(high_name, high)
            and low > high
        ):
            yield f"{low_name} must not be above {high_name}, got {low:g} and {high:g}."
    lexicons, weights = fields["lexicons"], fields["weights"]
    odd = [name for name in ("lexicons", "weights") if not isinstance(fields[name], Mapping)]
    yield from (f"{name} must be a table, got {format_value(fields[name])}." for name in odd)
    if not odd:
        yield from _find_lexicon_faults(lexicons, weights)
        yield from _find_weight_faults(lexicons, weights)


def find_value_faults(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each fault in the fields that do not depend on others."""
    if not isinstance(fields["name"], str) or not PROFILE_NAME.fullmatch(fields["name"]):
        # In a file the name is not written: it is that of the file.
        got = f"got {format_value(fields['name'])}; a file is called like its profile"
        yield f"name must be small letters, digits, - and _, at most 64 of them, {got}."
    yield from filter(None, (_describe_range_fault(name, fields[name]) for name in RANGES))
    if fields["language"] not in LANGUAGES:
        yield f"language must be one of {', '.join(LANGUAGES)}, got {format_value(fields['language'])}."
    if isinstance(fields["rules"], HardRules):
        yield from _find_rule_faults(fields["rules"])
    else:
        yield f"rules must be hard rules, got {format_value(fields['rules'])}."


def _describe_range_fault(name: str, value: Any) -> str:
    low, high, whole = RANGES[name]
    if _is_number(value, low, high, whole=whole):
        return ""
    kind = "a whole number" if whole else "a number"
    return f"{name} must be {kind} from {low:g} to {high:g}, got {format_value(value)}."


def _find_lexicon_faults(lexicons: Mapping[str, Any], weights: Mapping[str, Any]) -> Iterator[str]:
    for name, lexicon in lexicons.items():
        if not isinstance(lexicon, MarkerTerms):
            yield f"lexicons.{name} must be a lexicon, got {format_value(lexicon)}."
            continue
        if not isinstance(name, str) or not _CLASS_NAME.fullmatch(name) or name in STRUCTURAL_COMPONENTS:
            taken = ", ".join(STRUCTURAL_COMPONENTS)
            yield f"lexicons.{name} must be named in small letters, and not {taken}."
        terms = (*lexicon.words, *lexicon.ambiguous)
        if len(terms) > _MAX_TERMS:
            yield f"lexicons.{name} must hold at most {_MAX_TERMS} terms, got {len(terms)}."
        odd = [it for it in terms if not isinstance(it, str) or not 0 < len(it.strip()) <= _MAX_TERM_CHARS]
        if odd:
            allowed = f"texts of 1 to {_MAX_TERM_CHARS} characters"
            yield f"lexicons.{name} must hold {allowed}, got {format_value(odd[0])}."
        if name not in weights:
            yield f"lexicons.{name} needs a weight: add weights.{name}, a number from 0 to 1."


def _find_weight_faults(lexicons: Mapping[str, Any], weights: Mapping[str, Any]) -> Iterator[str]:
    known = (*lexicons, *STRUCTURAL_COMPONENTS)
    for name, weight in weights.items():
        if name not in known:
            yield f"weights.{name} belongs to no component; there are {', '.join(map(str, known))}."
        elif not _is_number(weight, 0, 1):
            yield f"weights.{name} must be a number from 0 to 1, got {format_value(weight)}."


def _find_rule_faults(rules: HardRules) -> Iterator[str]:
    if rules.max_lines is not None and not _is_number(rules.max_lines, 1, 100_000, whole=True):
        yield f"rules.max_lines must be a whole number from 1 to 100000, got {format_value(rules.max_lines)}."
    for name in RULE_SWITCHES:
        if not isinstance(getattr(rules, name), bool):
            yield f"rules.{name} must be true or false, got {format_value(getattr(rules, name))}."
    if rules.language is not None and rules.language not in LANGUAGES:
        yield f"rules.language must be one of {', '.join(LANGUAGES)}, got {format_value(rules.language)}."


def _is_number(value: Any, low: float, high: float, *, whole: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if not low <= value <= high or not math.isfinite(value):
        return False
    return not whole or float(value).is_integer()


def format_value(value: Any) -> str:
    """Return a value as short text for an error message, however large it is."""
    try:
        return repr(value)[:80]
    except ValueError:
        return "a number of thousands of digits"


# Check the hard rules of a profile: exact rules that are not part of the score.

NO_RULES: Final = HardRules()

_QUESTION: Final = re.compile(r"[?\uff1f\u061f](?=[\s\"'\u2019\u201d\u00bb)\]*_!?\uff1f]|$)")


class BrokenRule(Struct, frozen=True, kw_only=True):
    """A hard rule that a reply breaks: its name, a message, and a position (None: the whole reply)."""

    rule: str
    message: str
    position: int | None = None


def find_broken_rules(
    rules: HardRules, reply: str, prose: Prose, language: str | None
) -> tuple[tuple[BrokenRule, ...], str | None]:
    """Return the rules that a reply breaks, and why one could not be checked.

    Emoji and questions are searched for in the prose only, not in code.
    """
    if rules == NO_RULES:
        return (), None
    broken = tuple(_iter_broken(rules, reply, prose.text, language))
    return broken, "; ".join(_iter_unchecked(rules, reply, prose, language, broken)) or None


@cache
def _get_emoji_pattern() -> re.Pattern[str]:
    # Characters that are displayed as emoji by default, and any other followed by U+FE0F.
    return re.compile(
        "[\u231a\u231b\u23e9-\u23ec\u23f0\u23f3\u25fd\u25fe\u2614\u2615\u2648-\u2653\u267f\u2693\u26a1\u26aa\u26ab"
        "\u26bd\u26be\u26c4\u26c5\u26ce\u26d4\u26ea\u26f2\u26f3\u26f5\u26fa\u26fd\u2705\u270a\u270b\u2728\u274c"
        "\u274e\u2753-\u2755\u2757\u2795-\u2797\u27b0\u27bf\u2b1b\u2b1c\u2b50\u2b55"
        "\U0001f004\U0001f0cf\U0001f18e\U0001f191-\U0001f19a\U0001f1e6-\U0001f1ff\U0001f300-\U0001f64f"
        "\U0001f680-\U0001f6ff\U0001f7e0-\U0001f7eb\U0001f90c-\U0001f9ff\U0001fa70-\U0001faff]"
        "|[^\\s]\ufe0f"
    )


def _iter_unchecked(
    rules: HardRules, reply: str, prose: Prose, language: str | None, broken: Sequence[BrokenRule]
) -> Iterator[str]:
    if rules.language is not None and language is None and prose.words:
        yield f"too few words to tell whether the reply is in {rules.language!r}"
    found = {it.rule for it in broken}
    in_part = [name for name in ("no_emoji", "no_questions") if getattr(rules, name) and name not in found]
    if in_part and len(reply) > CHARS_READ:
        yield f"{' and '.join(in_part)} beyond the first {CHARS_READ >> 10} KiB of the reply"


def _iter_broken(rules: HardRules, reply: str, prose: str, language: str | None) -> Iterator[BrokenRule]:
    if rules.max_lines is not None:
        lines = reply.strip().count("\n") + 1 if reply.strip() else 0
        if lines > rules.max_lines:
            yield BrokenRule(
                rule="max_lines", message=f"{lines} lines, at most {rules.max_lines} are allowed"
            )
    if rules.no_emoji and (found := _get_emoji_pattern().search(prose)):
        yield BrokenRule(rule="no_emoji", message=f"emoji {found[0]}", position=found.start())
    if rules.valid_json and (fault := _describe_json_fault(reply)):
        yield BrokenRule(rule="valid_json", message=f"not JSON: {fault}")
    if rules.no_questions and (found := _QUESTION.search(prose)):
        yield BrokenRule(rule="no_questions", message="a question is asked", position=found.start())
    if rules.language is not None and language not in {None, rules.language}:
        yield BrokenRule(rule="language", message=f"written in {language!r} instead of {rules.language!r}")


def _describe_json_fault(reply: str) -> str:
    try:
        msgspec.json.decode(reply.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeError) as exc:
        return str(exc)
    except RecursionError:
        return "nested too deeply"
    return ""
