"""Score the style of a reply from 0 to 100, with the markers that make up the score."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, to_builtins

from steadyhelm.lexicons import load_lexicon
from steadyhelm.style.markers import HEDGES, FoundMarkers, LexiconMarker
from steadyhelm.style.profile import (
    COMPLEXITY,
    LENGTH,
    STRUCTURAL_COMPONENTS,
    VERBOSITY,
    BrokenRule,
    Profile,
    find_broken_rules,
)
from steadyhelm.style.profile_files import find_profile
from steadyhelm.style.prose import Prose, detect_language, read_prose

Quadrant = Literal["on_course", "drifted", "inert", "lost"]

MIN_WORDS: Final = 12
"""A shorter reply is not called inert: `Done.` may be a complete answer."""

# Concrete content (code, a path, a figure, a cause, a change that was made, a recommendation, a next step, a
# request for what is needed) raises the engagement of a reply. Handing the work back without naming anything
# lowers it.
_CODE_POINTS: Final = 30
_OUTCOME_POINTS: Final = 30
_ADVICE_POINTS: Final = 20
_FIGURE_POINTS: Final = 15
_DIRECT_POINTS: Final = 20
_HANDED_BACK_PENALTY: Final = 25
_HEDGE_PENALTY: Final = 10
_MAX_HEDGES: Final = 4

_SUBSTANCE_POINTS: Final = 35
_MIN_LONG_WORDS: Final = 5
_LONG_WORD_CHARS: Final = 5
_DIGIT: Final = re.compile(r"\d")


def measure_engagement(prose: Prose, markers: Sequence[LexiconMarker], *, readable: bool) -> float | None:
    """Return the engagement, 0 to 100; None for a reply that is too short or in an unknown language."""
    figures = _DIGIT.search(prose.text) is not None
    concrete = _CODE_POINTS * prose.has_matter + _FIGURE_POINTS * figures
    if not readable:
        return float(concrete + _DIRECT_POINTS) if concrete else None
    if len(prose.words) < MIN_WORDS and not prose.has_matter:
        return None
    outcomes = _has_word("outcomes", prose)
    concrete += _OUTCOME_POINTS * outcomes + _ADVICE_POINTS * (_has_word("advice", prose))
    score = concrete + _DIRECT_POINTS * (not markers or any(map(str.isalpha, prose.text[: markers[0].start])))
    if prose.has_matter or outcomes:
        return float(min(100, score))
    hedges = sum(marker.component == HEDGES for marker in markers)
    score -= _HEDGE_PENALTY * min(hedges, _MAX_HEDGES)
    if _has_content_words(prose, markers):
        score += _SUBSTANCE_POINTS
    elif not figures and _is_handed_back(prose):
        score -= _HANDED_BACK_PENALTY
    return float(max(0, min(100, score)))


def _is_handed_back(prose: Prose) -> bool:
    return load_lexicon(__package__, "engagement")["hands back"].search(prose.text) is not None


def _has_word(name: str, prose: Prose) -> bool:
    return not load_lexicon(__package__, "engagement")[name].word_set.isdisjoint(prose.words)


def _has_content_words(prose: Prose, markers: Sequence[LexiconMarker]) -> bool:
    """Return whether a reply has enough longer words apart from markers and polite words."""
    padding = {word for marker in markers for word in marker.term.split()}
    polite = load_lexicon(__package__, "engagement")["politeness"].word_set
    things = {word for word in prose.words if len(word) >= _LONG_WORD_CHARS} - padding - polite
    return len(things) >= _MIN_LONG_WORDS


def find_quadrant(*, drifting: bool, engagement: float | None, floor: float) -> Quadrant:
    """Return the quadrant of a reply by drift and engagement. Unknown engagement does not count against it.

    >>> find_quadrant(drifting=False, engagement=0.0, floor=20.0)
    'inert'
    """
    inert = engagement is not None and engagement < floor
    if drifting:
        return "lost" if inert else "drifted"
    return "inert" if inert else "on_course"


_OFFENDER_POINTS: Final = 0.5
_TERMS_SHOWN: Final = 4
_MEASURE_FORMATS: Final = {
    VERBOSITY: "{:.0f} words a sentence",
    LENGTH: "{:.0f} words",
    COMPLEXITY: "{:.0%} long words",
}


class Component(Struct, frozen=True, kw_only=True):
    """One component of a score: its value before and its points after weighting, and its markers."""

    name: str
    value: float
    weight: float
    points: float
    measured: float = 0.0
    markers: tuple[LexiconMarker, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The terms found, each once, those found most often first."""
        counts: dict[str, int] = {}
        for marker in self.markers:
            counts[marker.term] = counts.get(marker.term, 0) + 1
        return tuple(sorted(counts, key=lambda term: -counts[term]))

    def __str__(self) -> str:
        if self.markers:
            return f"{self.name} ({', '.join(self.words[:_TERMS_SHOWN])})"
        return f"{self.name} ({_MEASURE_FORMATS[self.name].format(self.measured)})"


class ReplyScore(Struct, frozen=True, kw_only=True):
    """The style score of a reply by one profile.

    `components` are the parts of the score: their points sum to it.
    `not_checked` is the reason why something could not be checked, or None.
    """

    score: float
    threshold: float
    profile: str
    components: tuple[Component, ...]
    words: int
    sentences: int
    language: str | None = None
    engagement: float | None = None
    quadrant: Quadrant = "on_course"
    broken: tuple[BrokenRule, ...] = ()
    not_checked: str | None = None

    @property
    def drifting(self) -> bool:
        """Whether the score has reached the profile's threshold."""
        return self.score >= self.threshold

    @property
    def flagged(self) -> bool:
        """Whether the score has reached the threshold or a hard rule is broken."""
        return self.drifting or bool(self.broken)

    @property
    def offenders(self) -> tuple[Component, ...]:
        """The components with the most points, the largest first."""
        found = (component for component in self.components if component.points > _OFFENDER_POINTS)
        return tuple(sorted(found, key=lambda component: -component.points))

    def points(self) -> dict[str, float]:
        """Return the points of each component by name."""
        return {component.name: component.points for component in self.components}

    def to_dict(self) -> dict[str, Any]:
        """Return the score as plain data, with the result and the offenders."""
        plain: dict[str, Any] = to_builtins(self)
        offenders = [str(it) for it in self.offenders]
        return {**plain, "drifting": self.drifting, "flagged": self.flagged, "offenders": offenders}


MARKER_CURVE: Final = 18.0
MIN_WORDS_IN_SHARE: Final = 50
"""Shares are taken of at least this many words: one marker in three words is no third of a reply."""

FIRST_MARKER_COUNTS: Final = 0.5
"""A single marker is weak evidence: of all markers together, the first counts half."""

STRUCTURE_ALONE_FACTOR: Final = 0.8
AMBIGUOUS_COUNT_FROM_LENGTH: Final = 0.2
MIN_AMBIGUOUS_TERMS: Final = 3
"""Different ambiguous terms of one class from which they count: a robust, elegant, scalable solution."""

_MAX_CHANCE: Final = 0.999


def score_reply(
    text: str, profile: str | Profile = "standard", *, with_engagement: bool = True
) -> ReplyScore:
    """Score the style of a reply. Only its prose counts, never its code.

    Without engagement, which is no part of the score, no reply is called inert or lost.

    >>> score_reply("Fixed: the parser dropped the last line. All 40 tests pass.").score
    0.0
    >>> padded = score_reply("Great question! I'd be happy to help. Basically, let me explain: perhaps...")
    >>> [str(part) for part in padded.offenders]
    ["filler (great question, i'd be happy to, basically)", 'hedges (perhaps)', 'meta (let me explain)']
    """
    chosen = profile if isinstance(profile, Profile) else find_profile(profile)
    reply = text if isinstance(text, str) else ""
    return read_reply(reply, read_prose(reply), chosen).explain(with_engagement=with_engagement)


def read_reply(reply: str, prose: Prose, profile: Profile) -> "ReplyReading":
    """Return the score of a reply, which `explain` splits into its components."""
    language = detect_language(prose)
    foreign = language not in {None, profile.language}
    structure = _measure_structure(prose, profile, foreign=foreign)
    found = FoundMarkers() if foreign else profile.markers.find(prose)
    markers = _select_markers(found, structure[LENGTH][0])
    values = _measure_values(structure, _measure_markers(profile, markers, prose), has_markers=bool(markers))
    clean = math.prod([1 - chance for chance in _list_chances(values, profile).values()])
    broken, unsure = find_broken_rules(profile.rules, reply, prose, language)
    return ReplyReading(
        profile=profile,
        prose=prose,
        language=language,
        structure=structure,
        found=found,
        markers=markers,
        values=values,
        score=round(min(100.0, 100 * profile.sensitivity * (1 - clean)), 1),
        broken=broken,
        not_checked=_describe_not_checked(language, profile.language, unsure) if foreign else unsure,
    )


class ReplyReading(NamedTuple):
    """A reply with its score, and what the score was computed from."""

    profile: Profile
    prose: Prose
    language: str | None
    structure: dict[str, tuple[float, float]]
    found: FoundMarkers
    markers: tuple[LexiconMarker, ...]
    values: dict[str, float]
    score: float
    broken: tuple[BrokenRule, ...]
    not_checked: str | None

    def explain(self, *, with_engagement: bool = True) -> ReplyScore:
        """Return the score with its components and, if asked for, the engagement of the reply."""
        profile, prose = self.profile, self.prose
        readable = self.language in {None, profile.language}
        engagement = (
            measure_engagement(prose, self.found.plain, readable=readable) if with_engagement else None
        )
        return ReplyScore(
            score=self.score,
            threshold=profile.threshold,
            profile=profile.name,
            components=_build_components(self),
            words=prose.words_in_all,
            sentences=prose.sentences,
            language=self.language,
            engagement=engagement,
            quadrant=find_quadrant(
                drifting=self.score >= profile.threshold or bool(self.broken),
                engagement=engagement,
                floor=profile.engagement_floor,
            ),
            broken=self.broken,
            not_checked=self.not_checked,
        )


def _describe_not_checked(language: str | None, known: str, unsure: str | None) -> str:
    foreign = f"the reply is in {language!r} and the lexicons are in {known!r}: judged by structure only"
    return f"{foreign}; {unsure}" if unsure else foreign


def _select_markers(found: FoundMarkers, length: float) -> tuple[LexiconMarker, ...]:
    """Return the markers that count.

    An ambiguous one counts with a plain one, with enough others of its class, or in too long a reply.
    """
    if not found.ambiguous:
        return found.plain
    if length >= AMBIGUOUS_COUNT_FROM_LENGTH:
        counted = found.ambiguous
    else:
        piled = _find_repeated_classes(found.ambiguous)
        alone = [marker for marker in found.ambiguous if marker.component not in piled]
        heaped = [marker for marker in found.ambiguous if marker.component in piled]
        counted = (*heaped, *alone[: len(found.plain)])
    return tuple(sorted((*found.plain, *counted), key=lambda marker: marker.start))


def _find_repeated_classes(ambiguous: Sequence[LexiconMarker]) -> set[str]:
    """Return the classes of which a reply contains enough different terms to be no longer ambiguous."""
    terms: dict[str, set[str]] = {}
    for marker in ambiguous:
        terms.setdefault(marker.component, set()).add(marker.term)
    return {component for component, found in terms.items() if len(found) >= MIN_AMBIGUOUS_TERMS}


def _measure_markers(profile: Profile, markers: Sequence[LexiconMarker], prose: Prose) -> dict[str, float]:
    values = dict.fromkeys(profile.lexicons, 0.0)
    if not markers:
        return values
    scale = (len(markers) - FIRST_MARKER_COUNTS) / len(markers) / max(len(prose.words), MIN_WORDS_IN_SHARE)
    for marker in markers:
        values[marker.component] += 1
    return {name: 1 - math.exp(-count * scale * MARKER_CURVE) for name, count in values.items()}


def _measure_long_words(words: Sequence[str], shortest: int) -> float:
    """Return the share of words with at least so many characters."""
    return len([word for word in words if len(word) >= shortest]) / max(len(words), MIN_WORDS_IN_SHARE)


def _measure_structure(prose: Prose, profile: Profile, *, foreign: bool) -> dict[str, tuple[float, float]]:
    """Return the value and the measure of each structural component.

    The length of words differs by language, so complexity is 0 for a foreign reply.
    """
    wps = len(prose.words) / prose.sentences if prose.sentences else 0.0
    ratio = 0.0 if foreign else _measure_long_words(prose.words, profile.long_word_len)
    most = profile.max_long_ratio
    return {
        VERBOSITY: (_scale_between(wps, profile.target_wps, profile.max_wps), wps),
        LENGTH: (
            _scale_between(prose.words_in_all, profile.target_words, profile.max_words),
            prose.words_in_all,
        ),
        # Half of the maximum share is ordinary in technical prose.
        COMPLEXITY: (_scale_between(ratio, most / 2, most), ratio),
    }


def _scale_between(value: float, target: float, most: float) -> float:
    """Return 0 up to the target, 1 from the maximum on, and the share of the way between.

    Each step keeps its order in floating point: a higher target never leads to a higher value.
    """
    if value <= target:
        return 0.0
    if value >= most:
        return 1.0
    return 1 - 1 / (1 + (value - target) / (most - value))


def _measure_values(
    structure: Mapping[str, tuple[float, float]], lexical: Mapping[str, float], *, has_markers: bool
) -> dict[str, float]:
    damping = 1.0 if has_markers else STRUCTURE_ALONE_FACTOR
    return {**lexical, **{name: value * damping for name, (value, _) in structure.items()}}


def _list_chances(values: Mapping[str, float], profile: Profile) -> dict[str, float]:
    weights = profile.weights
    return {name: min(_MAX_CHANCE, value * weights.get(name, 0.0)) for name, value in values.items()}


def _group_by_component(markers: Iterable[LexiconMarker]) -> dict[str, list[LexiconMarker]]:
    found: dict[str, list[LexiconMarker]] = {}
    for marker in markers:
        found.setdefault(marker.component, []).append(marker)
    return found


def _build_components(reading: ReplyReading) -> tuple[Component, ...]:
    found = _group_by_component(reading.markers)
    chances = _list_chances(reading.values, reading.profile)
    shares = {name: -math.log1p(-chance) if chance else 0.0 for name, chance in chances.items()}
    points = _share_points(reading.score, shares)
    return tuple(
        Component(
            name=name,
            value=value,
            weight=reading.profile.weights.get(name, 0.0),
            points=points[name],
            measured=reading.structure[name][1] if name in STRUCTURAL_COMPONENTS else value,
            markers=tuple(found.get(name, ())),
        )
        for name, value in reading.values.items()
    )


def _share_points(score: float, shares: Mapping[str, float]) -> dict[str, float]:
    """Return the score's points by share, in tenths that sum to it. The largest remainders are rounded up."""
    whole, tenths = sum(shares.values()), round(score * 10)
    if whole <= 0 or not tenths:
        return dict.fromkeys(shares, 0.0)
    exact = {name: tenths * share / whole for name, share in shares.items()}
    given = {name: int(value) for name, value in exact.items()}
    left = tenths - sum(given.values())
    for name in sorted(exact, key=lambda name: given[name] - exact[name])[:left]:
        given[name] += 1
    return {name: value / 10 for name, value in given.items()}
