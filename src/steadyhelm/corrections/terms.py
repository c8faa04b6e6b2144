"""The words of a text and their neighbours, weighed as learnt weights expect them."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

_TERM: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|[?!]")


def terms_of(text: str) -> Counter[str]:
    """Words, pairs of neighbours, and the word that opens; in lower case already.

    >>> sorted(terms_of("not this one"))
    ['^ not', 'not', 'not this', 'one', 'this', 'this one']
    """
    words = _TERM.findall(text)
    pairs = (f"{one} {two}" for one, two in pairwise(words))
    return Counter([*words, *pairs, *(f"^ {word}" for word in words[:1])])


def weighed(terms: Mapping[str, int], rarity: Mapping[str, float]) -> dict[str, float]:
    """The known terms, weighed by how rare they are and scaled to length one.

    >>> weighed({"still": 1, "unheard": 1}, {"still": 2.0})
    {'still': 1.0}
    """
    raw = {term: (1 + math.log(count)) * rarity[term] for term, count in terms.items() if term in rarity}
    length = math.sqrt(sum(value * value for value in raw.values()))
    return {term: value / length for term, value in raw.items()} if length else {}


def rarities(texts: Iterable[Mapping[str, int]], known: Iterable[str]) -> dict[str, float]:
    """How rare each known term is in these texts."""
    documents = list(texts)
    counts = Counter(term for terms in documents for term in terms)
    return {term: math.log(len(documents) / counts[term]) + 1 for term in known if counts[term]}
