"""Learn from good replies how long an agent's replies may be, and which words are its own."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from msgspec import Struct, structs

from steadyhelm.errors import SettingsError
from steadyhelm.style.lexicons import Lexicon
from steadyhelm.style.profile import COMPLEXITY, LENGTH, VERBOSITY, Profile
from steadyhelm.style.prose import folded
from steadyhelm.style.reply_score import ReplyScore
from steadyhelm.style.scoring import score_reply
from steadyhelm.windows import quantile

LEAST_REPLIES: Final = 10
MOST_REPLIES: Final = 100_000

_USUAL: Final = 0.75
_LONGEST: Final = 0.95
_ROOM: Final = 1.5
_LEAST_SPAN: Final = 1.5
_SAYS_IT: Final = 5
_HOUSE_SHARE: Final = 0.2
_HOUSE_REPLIES: Final = 3


class Fitted(Struct, frozen=True, kw_only=True):
    """A profile learnt from good replies, what it changes, and how many of those replies it flags."""

    profile: Profile
    changes: dict[str, Any]
    replies: int
    flagged_before: int
    flagged: int
    house_words: tuple[str, ...] = ()


def fitted(replies: Iterable[str], base: Profile, *, name: str = "calibrated") -> Fitted:
    """The base with targets learnt from good replies: what three in four keep to, and room above the longest.

    A marker that a fifth of the good replies use is this agent's way of speaking and leaves the lexicons.
    """
    good = list(islice(replies, MOST_REPLIES))
    scores = [score for score in (score_reply(reply, base) for reply in good) if score.words]
    if len(scores) < LEAST_REPLIES:
        raise SettingsError(
            f"{len(scores)} replies with prose are too few to learn from; give at least {LEAST_REPLIES}."
        )
    house = _house_words(scores)
    targets = _targets(scores)
    profile = structs.replace(base, name=name, lexicons=_without(base.lexicons, house), **targets)
    changes: dict[str, Any] = dict(targets)
    if house:
        changes["lexicons"] = {component: {"remove": sorted(terms)} for component, terms in house.items()}
    return Fitted(
        profile=profile,
        changes=changes,
        replies=len(scores),
        flagged_before=sum(score.drifting for score in scores),
        flagged=sum(score_reply(reply, profile).drifting for reply in good),
        house_words=tuple(sorted(term for terms in house.values() for term in terms)),
    )


def _targets(scores: list[ReplyScore]) -> dict[str, float]:
    measured = [{it.name: it.measured for it in score.components} for score in scores]
    words = [one[LENGTH] for one in measured]
    # A reply of two words says nothing about sentences.
    spoken = [one for one, score in zip(measured, scores, strict=True) if score.words >= _SAYS_IT] or measured
    target_wps, max_wps = _span([one[VERBOSITY] for one in spoken], least=4, most=200)
    target_words, max_words = _span(words, least=10, most=100_000)
    long = quantile(sorted(one[COMPLEXITY] for one in spoken), _LONGEST)
    return {
        "target_wps": target_wps,
        "max_wps": max_wps,
        "target_words": target_words,
        "max_words": max_words,
        "max_long_ratio": round(min(1.0, max(0.2, long * _ROOM)), 2),
    }


def _span(values: list[float], *, least: float, most: float) -> tuple[float, float]:
    ordered = sorted(values)
    target = min(most, max(least, float(round(quantile(ordered, _USUAL)))))
    longest = float(round(quantile(ordered, _LONGEST) * _ROOM))
    return target, min(most, max(target * _LEAST_SPAN, longest))


def _house_words(scores: list[ReplyScore]) -> dict[str, set[str]]:
    used = Counter(
        pair
        for score in scores
        for pair in {(it.component, it.term) for part in score.components for it in part.markers}
    )
    enough = max(_HOUSE_REPLIES, _HOUSE_SHARE * len(scores))
    house: dict[str, set[str]] = {}
    for (component, term), count in used.items():
        if count >= enough:
            house.setdefault(component, set()).add(term)
    return house


def _without(lexicons: dict[str, Lexicon], house: dict[str, set[str]]) -> dict[str, Lexicon]:
    return {
        name: Lexicon(
            words=tuple(term for term in lexicon.words if _plain(term) not in house.get(name, ())),
            ambiguous=tuple(term for term in lexicon.ambiguous if _plain(term) not in house.get(name, ())),
        )
        for name, lexicon in lexicons.items()
    }


def _plain(term: str) -> str:
    return " ".join(folded(term))
