"""What a text is about, by the stems of its words, and how far two texts are about the same."""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

_MAX_CONTENT_WORDS: Final = 64
_STEM_CHARS: Final = 6
_MIN_STEM_CHARS: Final = 4
_MIN_SHARED_SHARE: Final = 0.35

_MAX_OWN_WORDS: Final = 2
_MAX_PROMISE_CHARS: Final = 160

_ANY_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_CONTENT_WORD: Final = re.compile(r"[^\W\d_]{3,}|\d+")
_ENDINGS: Final = ("ing", "ed", "es", "s")


@functools.lru_cache(maxsize=2048)
def _stem(word: str) -> str:
    """Return the beginning of a word without its ending.

    >>> _stem("drops"), _stem("dropped"), _stem("charging"), _stem("charge"), _stem("pass")
    ('drop', 'drop', 'charg', 'charg', 'pass')
    """
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM_CHARS:
            word = word[: -len(ending)]
            break
    if len(word) > _MIN_STEM_CHARS and (word[-1] == word[-2] or word[-1] == "e"):
        word = word[:-1]
    return word[:_STEM_CHARS]


# Words that any order or report may use: they do not say what it is about.
_COMMON_WORDS: Final = frozenset(
    _stem(word)
    for word in """
    about again all also and any anywhere are ask back been before being but can check could did does done
    each ensure everything everywhere examine explain explore figure find finally first follow for found from
    get give going had has have help here how identify inspect into investigate its just know let like look
    locate made make may might more must need next not nothing now obtain one only other our out over perhaps
    please possible provide really report research retrieve return review search see shall should show since
    some sorry still study such sure task tell than that the their them then there these they thing this
    through too track try turn unable under until use using very want was way well were what when where
    whether which while who why will with without work would yet you your determine discover dig
    """.split()  # noqa: SIM905 - the same
)


def list_content_words(text: str) -> frozenset[str]:
    """Return the stems of the words that say what a text is about.

    >>> sorted(list_content_words("Please find the ledgers of Bergen"))
    ['bergen', 'ledger']
    """
    stems = map(_stem, _CONTENT_WORD.findall(text.lower()[:2000]))
    return frozenset([stem for stem in stems if stem not in _COMMON_WORDS][:_MAX_CONTENT_WORDS])


_PROMISE: Final = re.compile(
    r"\b(?:i(?:'ll| will| shall| am| should| need to)|i'm|let me|let us|let's|next|now)\b", re.IGNORECASE
)
_WORDS_OF_PROMISE: Final = frozenset(
    """
    a about ahead also am an and again at be begin by can do first for from go going have i in into is it its
    just let ll me must my need next next now of on once our should shall so start that the them then there
    these this those to try us want we will with you your
    """.split()  # noqa: SIM905 - the same
)


def list_promised(text: str) -> frozenset[str]:
    """Return the stems of the words that say what a short reply promises to do; none for another reply.

    >>> sorted(list_promised("Now let me search the flights."))
    ['flight', 'search']
    """
    if len(text) > _MAX_PROMISE_CHARS or _PROMISE.search(text) is None:
        return frozenset()
    words = _ANY_WORD.findall(text.lower())
    return frozenset(_stem(word) for word in words if _stem(word) not in _WORDS_OF_PROMISE)


def content_overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Return how far two texts are about the same, 0 to 1, whatever their wording; 0 for too few words.

    >>> content_overlap(list_content_words("the ledger of Bergen"), list_content_words("Bergen, its ledger"))
    1.0
    """
    common = len(one & other)
    if common < 2:  # noqa: PLR2004 - one word in common may be chance
        return 0.0
    return common / (len(one) + len(other) - common)


def thought_overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Return how much of the shorter of two thoughts the other contains; 0 for too few words in common.

    >>> thought_overlap(frozenset("abcd"), frozenset("abcxyz"))
    0.75
    """
    common = len(one & other)
    if common == 2 and one == other:  # noqa: PLR2004 - nothing else is said, so it is no chance
        return 1.0
    if common < 3 or common < _MIN_SHARED_SHARE * max(len(one), len(other)):  # noqa: PLR2004 - may be chance
        return 0.0
    return common / min(len(one), len(other))


def says_nothing_else(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether one of two texts is about what the other is about, and hardly more; False for one word.

    >>> says_nothing_else(frozenset(["order", "number"]), frozenset(["order", "number", "need"]))
    True
    >>> says_nothing_else(frozenset(["colour", "door"]), frozenset(["colour", "roof"]))
    False
    """
    common = len(one & other)
    return common >= 2 and common == min(len(one), len(other)) and len(one ^ other) <= 2  # noqa: PLR2004 - a word alone may be chance


def names_one_thing_each(texts: Sequence[frozenset[str]]) -> bool:
    """Return whether each of these texts names one thing that none of the others names: they are a batch.

    >>> names_one_thing_each([frozenset({"rain", it}) for it in ("bergen", "oslo", "graz")])
    True
    """
    named = Counter(word for it in texts for word in it)
    own = [sum(named[word] == 1 for word in it) for it in texts]
    return all(1 <= it <= _MAX_OWN_WORDS for it in own)
