"""The default embedder: words weighted by how rare they are in this agent's own outputs.

A word that every output contains is no evidence about the task; a rare one is strong evidence.
Which words are rare is learnt from the agent's clean runs: five are enough.
Words are stored as hashes only: a baseline never contains what an agent said.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final
from zlib import crc32

from steadyhelm.baselines import BaselineStats
from steadyhelm.embedder import Embedder
from steadyhelm.lexicons import load_lexicon

CHARS_READ: Final = 512
BUCKETS: Final = 16_384
MIN_RUNS: Final = 5
_SCALED_RUNS: Final = 20
_MAX_COUNT: Final = 255
_GOALS_KEPT: Final = 8
_WORDS_CACHED: Final = 4096
_MIN_RARITY: Final = 0.02

_WORD: Final = re.compile(r"[^\W\d_]{3,}")
Vector = dict[int, float]


def count_words(text: str) -> Counter[int]:
    """Return the hashed words of a text's first characters, with their counts."""
    return Counter(map(_hash_word, _WORD.findall(text[:CHARS_READ].lower())))


@lru_cache(maxsize=_WORDS_CACHED)
def _hash_word(word: str) -> int:
    return crc32(word.encode())


def mark_stems(bitmap: bytearray, stems: Iterable[str]) -> None:
    """Set the bits of these stems in a run's bitmap."""
    mark_words(bitmap, map(_hash_word, stems))


def has_stem(bitmap: bytes | bytearray, stem: str) -> bool:
    """Return whether the bit of this stem is set in a run's bitmap."""
    bucket = _hash_word(stem) % BUCKETS
    return bool(bitmap[bucket >> 3] >> (bucket & 7) & 1)


def mark_words(bitmap: bytearray, words: Iterable[int]) -> None:
    """Set the bits of these hashed words in a run's bitmap."""
    for word in words:
        bucket = word % BUCKETS
        bitmap[bucket >> 3] |= 1 << (bucket & 7)


def add_run_words(counts: bytes, bitmap: bytes) -> bytes:
    """Return the counts of a baseline after one more run's bitmap."""
    total = bytearray(counts or bytes(BUCKETS))
    for place, byte in enumerate(bitmap):
        for bit in range(8) if byte else ():
            if byte >> bit & 1:
                total[place * 8 + bit] = min(_MAX_COUNT, total[place * 8 + bit] + 1)
    return bytes(total)


def halve_counts(counts: bytes) -> bytes:
    """Return the counts divided by two, so that they never overflow and old runs count less."""
    return bytes(count // 2 for count in counts)


class StemRarity:
    """How rare a stem is in the runs of one agent, by the stems that `mark_stems` marked in them.

    What every run says is no evidence about the task of one: a template's wording, an agent's own phrases.
    """

    def __init__(self, baseline: BaselineStats) -> None:
        self.counts = baseline.word_counts
        self._runs = baseline.word_runs
        self._known: dict[str, float] = {}

    @classmethod
    def from_baseline(cls, baseline: BaselineStats) -> "StemRarity | None":
        """Return the rarity as this baseline knows it; None while it knows too few runs."""
        return cls(baseline) if baseline.word_counts and baseline.word_runs >= MIN_RUNS else None

    def weigh(self, stem: str) -> float:
        """Return 1 for a stem that no run has, less the more runs have it."""
        weight = self._known.get(stem)
        if weight is None:
            if len(self._known) >= _WORDS_CACHED:
                self._known.clear()
            share = min(1.0, self.counts[_hash_word(stem) % BUCKETS] / self._runs)
            weight = self._known[stem] = max(_MIN_RARITY, (1.0 - share) ** 2)
        return weight


class Idf(Embedder):
    """Cosine of two word vectors, log-frequency times rarity."""

    name = "idf"

    def __init__(self) -> None:
        self._goals: dict[tuple[str, int, bytes], Vector] = {}

    def similarity(self, goal: str, text: str, baseline: BaselineStats) -> float:
        """Return the similarity of `text` and `goal`.

        >>> baseline = BaselineStats(agent_id="a")
        >>> near = Idf().similarity("find cheap flights to Oslo", "cheap flights to Oslo found", baseline)
        >>> far = Idf().similarity("find cheap flights to Oslo", "a poem on the sea", baseline)
        >>> near > 0.7, far
        (True, 0.0)
        """
        return self.compare_counts(goal, count_words(text), baseline)

    def compare_counts(self, goal: str, counts: Counter[int], baseline: BaselineStats) -> float:
        """Return the similarity of counted words and the goal."""
        key = (goal, baseline.word_runs, baseline.word_counts)
        wanted = self._goals.get(key)
        if wanted is None:
            if len(self._goals) >= _GOALS_KEPT:
                self._goals.clear()
            weights, length = _weigh_words(count_words(goal), baseline)
            wanted = self._goals[key] = {word: weight / length for word, weight in weights.items()}
        weights, length = _weigh_words(counts, baseline)
        # Only words of both count: the others need not be scaled.
        shared = [weight * (weights[word] / length) for word, weight in wanted.items() if word in weights]
        return min(1.0, sum(shared, 0.0))


def _weigh_by_rarity(counts: Counter[int], runs: int, seen: bytes) -> Vector:
    # Counts are scaled to twenty runs: otherwise the weight of unseen words would grow with every run,
    # and similarities learnt early could not be compared with later ones.
    scale = _SCALED_RUNS / runs
    return {
        word: (1.0 + math.log(n))
        * math.log((_SCALED_RUNS + 1) / (min(seen[word % BUCKETS], runs) * scale + 0.5))
        for word, n in counts.items()
    }


def _weigh_words(counts: Counter[int], baseline: BaselineStats) -> tuple[Vector, float]:
    """Return the weights of words and their length as a vector; without weights when none counts."""
    runs, seen = baseline.word_runs, baseline.word_counts
    if runs >= MIN_RUNS and seen:
        weights = _weigh_by_rarity(counts, runs, seen)
    else:
        # Until rarity is learnt, words without a subject in any English text are left out.
        stop_words = _load_stop_words()
        weights = {
            word: 1.0 + math.log(n) if n > 1 else 1.0 for word, n in counts.items() if word not in stop_words
        }
    length = math.sqrt(sum([weight * weight for weight in weights.values()]))
    return (weights, length) if length else ({}, 1.0)


@cache
def _load_stop_words() -> frozenset[int]:
    words = load_lexicon(__package__, "stop_words")["stop words"].words
    return frozenset(crc32(word.encode()) for word in words)
