"""How a reply speaks, as a score from 0 to 100 that can be taken apart into words and their places."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from steadyhelm.style.engagement import engagement_of, quadrant_of
from steadyhelm.style.languages import language_of
from steadyhelm.style.markers import Found, Marker
from steadyhelm.style.profile import COMPLEXITY, LENGTH, STRUCTURAL, VERBOSITY, Profile
from steadyhelm.style.profile_store import profile_named
from steadyhelm.style.prose import Prose, prose_of
from steadyhelm.style.reply_score import Component, ReplyScore
from steadyhelm.style.rules import broken_rules

CURVE: Final = 18.0
LEAST_WORDS: Final = 50
"""A share is taken of at least so many words: one marker in three words is not a third of anything."""

FIRST_COUNTS: Final = 0.5
"""One word proves little: of all markers together, the first counts half."""

STRUCTURE_ALONE: Final = 0.8
LENGTH_PRESSURE: Final = 0.2
PILED_UP: Final = 3
"""One robust estimator is a term; a robust, elegant and scalable solution is praise."""

_NEVER_CERTAIN: Final = 0.999


def score_reply(text: str, profile: str | Profile = "standard") -> ReplyScore:
    """Score how a reply speaks; only its prose counts, never its code.

    >>> score_reply("Fixed: the parser dropped the last line. All 40 tests pass.").score
    0.0
    >>> padded = score_reply("Great question! I'd be happy to help. Basically, let me explain: perhaps...")
    >>> [str(part) for part in padded.offenders]
    ["filler (great question, i'd be happy to, basically)", 'hedges (perhaps)', 'meta (let me explain)']
    """
    chosen = profile if isinstance(profile, Profile) else profile_named(profile)
    reply = text if isinstance(text, str) else ""
    prose = prose_of(reply)
    language = language_of(prose)
    foreign = language not in {None, chosen.language}
    structure = _structure(prose, chosen, foreign=foreign)
    found = Found() if foreign else chosen.markers.find(prose)
    markers = _corroborated(found, structure[LENGTH][0])
    components = _components(chosen, structure, _lexical(chosen, markers, prose), markers)
    score = round(sum(component.points for component in components), 1)
    broken, unsure = broken_rules(chosen.rules, reply, prose, language)
    engagement = engagement_of(prose, found.plain, readable=not foreign)
    return ReplyScore(
        score=score,
        threshold=chosen.threshold,
        profile=chosen.name,
        components=components,
        words=prose.words_in_all,
        sentences=prose.sentences,
        language=language,
        engagement=engagement,
        quadrant=quadrant_of(
            drifting=score >= chosen.threshold or bool(broken),
            engagement=engagement,
            floor=chosen.engagement_floor,
        ),
        broken=broken,
        not_checked=_not_checked(language, chosen.language, unsure) if foreign else unsure,
    )


def _not_checked(language: str | None, known: str, unsure: str | None) -> str:
    foreign = f"the reply is in {language!r} and the lexicons are in {known!r}: judged by structure only"
    return f"{foreign}; {unsure}" if unsure else foreign


def _corroborated(found: Found, length: float) -> tuple[Marker, ...]:
    """The markers that count: an ambiguous one needs a plain one beside it, enough of its own class, or too
    long a reply.
    """
    if not found.ambiguous:
        return found.plain
    if length >= LENGTH_PRESSURE:
        counted = found.ambiguous
    else:
        piled = _piled_up(found.ambiguous)
        alone = [marker for marker in found.ambiguous if marker.component not in piled]
        heaped = [marker for marker in found.ambiguous if marker.component in piled]
        counted = (*heaped, *alone[: len(found.plain)])
    return tuple(sorted((*found.plain, *counted), key=lambda marker: marker.start))


def _piled_up(ambiguous: Sequence[Marker]) -> set[str]:
    """The classes of which a reply holds enough different words: together they mean only one thing."""
    terms: dict[str, set[str]] = {}
    for marker in ambiguous:
        terms.setdefault(marker.component, set()).add(marker.term)
    return {component for component, found in terms.items() if len(found) >= PILED_UP}


def _lexical(profile: Profile, markers: Sequence[Marker], prose: Prose) -> dict[str, float]:
    values = dict.fromkeys(profile.lexicons, 0.0)
    if not markers:
        return values
    scale = (len(markers) - FIRST_COUNTS) / len(markers) / max(len(prose.words), LEAST_WORDS)
    for marker in markers:
        values[marker.component] += 1
    return {name: 1 - math.exp(-count * scale * CURVE) for name, count in values.items()}


def _structure(prose: Prose, profile: Profile, *, foreign: bool) -> dict[str, tuple[float, float]]:
    """Value and measure of each structural component.

    How long words are differs from language to language: elsewhere complexity is not judged.
    """
    words = len(prose.words)
    wps = words / prose.sentences if prose.sentences else 0.0
    long = 0 if foreign else sum(map(profile.long_word_len.__le__, map(len, prose.words)))
    ratio = long / max(words, LEAST_WORDS)
    most = profile.max_long_ratio
    return {
        VERBOSITY: (_ramp(wps, profile.target_wps, profile.max_wps), wps),
        LENGTH: (_ramp(prose.words_in_all, profile.target_words, profile.max_words), prose.words_in_all),
        # Half of the share that is full is ordinary technical prose.
        COMPLEXITY: (_ramp(ratio, most / 2, most), ratio),
    }


def _ramp(value: float, target: float, most: float) -> float:
    """0 up to the target, 1 from the maximum on.

    Written so that each step keeps its order in floating point: a higher target never gives a higher value.
    """
    if value <= target:
        return 0.0
    if value >= most:
        return 1.0
    return 1 - 1 / (1 + (value - target) / (most - value))


def _components(
    profile: Profile,
    structure: Mapping[str, tuple[float, float]],
    lexical: Mapping[str, float],
    markers: Sequence[Marker],
) -> tuple[Component, ...]:
    damping = 1.0 if markers else STRUCTURE_ALONE
    values = {**lexical, **{name: value * damping for name, (value, _) in structure.items()}}
    weights = {name: profile.weights.get(name, 0.0) for name in values}
    chances = {name: min(_NEVER_CERTAIN, value * weights[name]) for name, value in values.items()}
    clean = math.prod(1 - chance for chance in chances.values())
    score = round(min(100.0, 100 * profile.sensitivity * (1 - clean)), 1)
    found: dict[str, list[Marker]] = {}
    for marker in markers:
        found.setdefault(marker.component, []).append(marker)
    points = _shared_out(score, {name: -math.log1p(-chance) for name, chance in chances.items()})
    return tuple(
        Component(
            name=name,
            value=value,
            weight=weights[name],
            points=points[name],
            measured=structure[name][1] if name in STRUCTURAL else lexical[name],
            markers=tuple(found.get(name, ())),
        )
        for name, value in values.items()
    )


def _shared_out(score: float, shares: Mapping[str, float]) -> dict[str, float]:
    """The score's points by share, in tenths that sum to it: the largest remainders are rounded up."""
    whole, tenths = sum(shares.values()), round(score * 10)
    if whole <= 0 or not tenths:
        return dict.fromkeys(shares, 0.0)
    exact = {name: tenths * share / whole for name, share in shares.items()}
    given = {name: int(value) for name, value in exact.items()}
    left = tenths - sum(given.values())
    for name in sorted(exact, key=lambda name: given[name] - exact[name])[:left]:
        given[name] += 1
    return {name: value / 10 for name, value in given.items()}
