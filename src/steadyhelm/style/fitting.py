"""Fit a profile to good replies: how long they may be, and which markers are usual for the agent."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from msgspec import Struct, structs

from steadyhelm.errors import SettingsError
from steadyhelm.style.markers import MarkerTerms
from steadyhelm.style.profile import COMPLEXITY, LENGTH, VERBOSITY, Profile
from steadyhelm.style.prose import fold_words
from steadyhelm.style.scoring import ReplyScore, score_reply
from steadyhelm.windows import quantile

MIN_REPLIES: Final = 10
MAX_REPLIES: Final = 100_000

_TARGET_QUANTILE: Final = 0.75
_MAX_QUANTILE: Final = 0.95
_MAX_FACTOR: Final = 1.5
_MIN_RANGE_FACTOR: Final = 1.5
_MIN_WORDS: Final = 5
_HOUSE_WORD_SHARE: Final = 0.2
_HOUSE_WORD_REPLIES: Final = 3


class FittedProfile(Struct, frozen=True, kw_only=True):
    """A profile fitted to good replies, its changes, and how many of those replies it flags."""

    profile: Profile
    changes: dict[str, Any]
    replies: int
    flagged_before: int
    flagged: int
    house_words: tuple[str, ...] = ()


def fit_profile(replies: Iterable[str], base: Profile, *, name: str = "calibrated") -> FittedProfile:
    """Return the base profile with targets from good replies: three in four stay below the target.

    The maximum leaves room above the longest replies. A marker that a fifth of the good replies use is usual
    for this agent and is removed from the lexicons. Raise SettingsError for too few replies.
    """
    good = list(islice(replies, MAX_REPLIES))
    scores = [score for score in (score_reply(reply, base) for reply in good) if score.words]
    if len(scores) < MIN_REPLIES:
        raise SettingsError(
            f"{len(scores)} replies with prose are too few to learn from; give at least {MIN_REPLIES}."
        )
    house = _find_house_words(scores)
    targets = _fit_targets(scores)
    profile = structs.replace(base, name=name, lexicons=_remove_house_words(base.lexicons, house), **targets)
    changes: dict[str, Any] = dict(targets)
    if house:
        changes["lexicons"] = {component: {"remove": sorted(terms)} for component, terms in house.items()}
    return FittedProfile(
        profile=profile,
        changes=changes,
        replies=len(scores),
        flagged_before=sum(score.drifting for score in scores),
        flagged=sum(score_reply(reply, profile).drifting for reply in good),
        house_words=tuple(sorted(term for terms in house.values() for term in terms)),
    )


def _fit_targets(scores: list[ReplyScore]) -> dict[str, float]:
    measured = [{it.name: it.measured for it in score.components} for score in scores]
    words = [one[LENGTH] for one in measured]
    # A reply of two words is no evidence about sentences.
    spoken = [
        one for one, score in zip(measured, scores, strict=True) if score.words >= _MIN_WORDS
    ] or measured
    target_wps, max_wps = _fit_range([one[VERBOSITY] for one in spoken], least=4, most=200)
    target_words, max_words = _fit_range(words, least=10, most=100_000)
    long = quantile(sorted(one[COMPLEXITY] for one in spoken), _MAX_QUANTILE)
    return {
        "target_wps": target_wps,
        "max_wps": max_wps,
        "target_words": target_words,
        "max_words": max_words,
        "max_long_ratio": round(min(1.0, max(0.2, long * _MAX_FACTOR)), 2),
    }


def _fit_range(values: list[float], *, least: float, most: float) -> tuple[float, float]:
    ordered = sorted(values)
    target = min(most, max(least, float(round(quantile(ordered, _TARGET_QUANTILE)))))
    longest = float(round(quantile(ordered, _MAX_QUANTILE) * _MAX_FACTOR))
    return target, min(most, max(target * _MIN_RANGE_FACTOR, longest))


def _find_house_words(scores: list[ReplyScore]) -> dict[str, set[str]]:
    used = Counter(
        pair
        for score in scores
        for pair in {(it.component, it.term) for part in score.components for it in part.markers}
    )
    enough = max(_HOUSE_WORD_REPLIES, _HOUSE_WORD_SHARE * len(scores))
    house: dict[str, set[str]] = {}
    for (component, term), count in used.items():
        if count >= enough:
            house.setdefault(component, set()).add(term)
    return house


def _remove_house_words(
    lexicons: dict[str, MarkerTerms], house: dict[str, set[str]]
) -> dict[str, MarkerTerms]:
    return {
        name: MarkerTerms(
            words=tuple(term for term in lexicon.words if _normalize_term(term) not in house.get(name, ())),
            ambiguous=tuple(
                term for term in lexicon.ambiguous if _normalize_term(term) not in house.get(name, ())
            ),
        )
        for name, lexicon in lexicons.items()
    }


def _normalize_term(term: str) -> str:
    return " ".join(fold_words(term))
