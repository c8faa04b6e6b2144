"""Score the style of a reply from 0 to 100, with the markers that make up the score."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from steadyhelm.style.engagement import find_quadrant, measure_engagement
from steadyhelm.style.languages import detect_language
from steadyhelm.style.markers import FoundMarkers, Marker
from steadyhelm.style.profile import COMPLEXITY, LENGTH, STRUCTURAL_COMPONENTS, VERBOSITY, Profile
from steadyhelm.style.profile_store import find_profile
from steadyhelm.style.prose import Prose, read_prose
from steadyhelm.style.reply_score import Component, ReplyScore
from steadyhelm.style.rules import find_broken_rules

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


def score_reply(text: str, profile: str | Profile = "standard") -> ReplyScore:
    """Score the style of a reply. Only its prose counts, never its code.

    >>> score_reply("Fixed: the parser dropped the last line. All 40 tests pass.").score
    0.0
    >>> padded = score_reply("Great question! I'd be happy to help. Basically, let me explain: perhaps...")
    >>> [str(part) for part in padded.offenders]
    ["filler (great question, i'd be happy to, basically)", 'hedges (perhaps)', 'meta (let me explain)']
    """
    chosen = profile if isinstance(profile, Profile) else find_profile(profile)
    reply = text if isinstance(text, str) else ""
    prose = read_prose(reply)
    language = detect_language(prose)
    foreign = language not in {None, chosen.language}
    structure = _measure_structure(prose, chosen, foreign=foreign)
    found = FoundMarkers() if foreign else chosen.markers.find(prose)
    markers = _select_markers(found, structure[LENGTH][0])
    components = _build_components(chosen, structure, _measure_markers(chosen, markers, prose), markers)
    score = round(sum(component.points for component in components), 1)
    broken, unsure = find_broken_rules(chosen.rules, reply, prose, language)
    engagement = measure_engagement(prose, found.plain, readable=not foreign)
    return ReplyScore(
        score=score,
        threshold=chosen.threshold,
        profile=chosen.name,
        components=components,
        words=prose.words_in_all,
        sentences=prose.sentences,
        language=language,
        engagement=engagement,
        quadrant=find_quadrant(
            drifting=score >= chosen.threshold or bool(broken),
            engagement=engagement,
            floor=chosen.engagement_floor,
        ),
        broken=broken,
        not_checked=_describe_not_checked(language, chosen.language, unsure) if foreign else unsure,
    )


def _describe_not_checked(language: str | None, known: str, unsure: str | None) -> str:
    foreign = f"the reply is in {language!r} and the lexicons are in {known!r}: judged by structure only"
    return f"{foreign}; {unsure}" if unsure else foreign


def _select_markers(found: FoundMarkers, length: float) -> tuple[Marker, ...]:
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


def _find_repeated_classes(ambiguous: Sequence[Marker]) -> set[str]:
    """Return the classes of which a reply contains enough different terms to be no longer ambiguous."""
    terms: dict[str, set[str]] = {}
    for marker in ambiguous:
        terms.setdefault(marker.component, set()).add(marker.term)
    return {component for component, found in terms.items() if len(found) >= MIN_AMBIGUOUS_TERMS}


def _measure_markers(profile: Profile, markers: Sequence[Marker], prose: Prose) -> dict[str, float]:
    values = dict.fromkeys(profile.lexicons, 0.0)
    if not markers:
        return values
    scale = (len(markers) - FIRST_MARKER_COUNTS) / len(markers) / max(len(prose.words), MIN_WORDS_IN_SHARE)
    for marker in markers:
        values[marker.component] += 1
    return {name: 1 - math.exp(-count * scale * MARKER_CURVE) for name, count in values.items()}


def _measure_structure(prose: Prose, profile: Profile, *, foreign: bool) -> dict[str, tuple[float, float]]:
    """Return the value and the measure of each structural component.

    The length of words differs by language, so complexity is 0 for a foreign reply.
    """
    words = len(prose.words)
    wps = words / prose.sentences if prose.sentences else 0.0
    long = 0 if foreign else sum(map(profile.long_word_len.__le__, map(len, prose.words)))
    ratio = long / max(words, MIN_WORDS_IN_SHARE)
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


def _build_components(
    profile: Profile,
    structure: Mapping[str, tuple[float, float]],
    lexical: Mapping[str, float],
    markers: Sequence[Marker],
) -> tuple[Component, ...]:
    damping = 1.0 if markers else STRUCTURE_ALONE_FACTOR
    values = {**lexical, **{name: value * damping for name, (value, _) in structure.items()}}
    weights = {name: profile.weights.get(name, 0.0) for name in values}
    chances = {name: min(_MAX_CHANCE, value * weights[name]) for name, value in values.items()}
    clean = math.prod(1 - chance for chance in chances.values())
    score = round(min(100.0, 100 * profile.sensitivity * (1 - clean)), 1)
    found: dict[str, list[Marker]] = {}
    for marker in markers:
        found.setdefault(marker.component, []).append(marker)
    points = _share_points(score, {name: -math.log1p(-chance) for name, chance in chances.items()})
    return tuple(
        Component(
            name=name,
            value=value,
            weight=weights[name],
            points=points[name],
            measured=structure[name][1] if name in STRUCTURAL_COMPONENTS else lexical[name],
            markers=tuple(found.get(name, ())),
        )
        for name, value in values.items()
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
