"""The default embedder: words weighted by how rare they are in this agent's own outputs.

A word every output holds says nothing about the task; a rare one says a lot.
What is rare is learnt from the agent's clean runs: five are enough.
Words are kept as hashes only: a baseline never holds what an agent said.
"""

import math
import re
from collections import Counter
from typing import Final
from zlib import crc32

from steadyhelm.baselines import BaselineStats
from steadyhelm.embedder import Embedder

LOOKED_AT: Final = 512
BUCKETS: Final = 16_384
RUNS_NEEDED: Final = 5
_COUNTED_AS: Final = 20
_MOST: Final = 255
_GOALS_KEPT: Final = 8

_WORD: Final = re.compile(r"[^\W\d_]{3,}")
# Until idf is learnt, the words that carry no subject in any English text are left out by hand.
_CARRY_NOTHING: Final = frozenset(
    crc32(word.encode())
    for word in """
        the and for with that this from have has had are was were will would can could should into your
        you our their they them its not but all any out over then than when what which who how there here
        been being also just now let get got use used using one two some more most other such only about
        after before first next
    """.split()  # noqa: SIM905 - a list of seventy quoted words reads worse
)

Vector = dict[int, float]


def words(text: str) -> Counter[int]:
    """The hashed words of a text's beginning, with their counts."""
    return Counter(crc32(word.encode()) for word in _WORD.findall(text[:LOOKED_AT].lower()))


def mark(bitmap: bytearray, counts: Counter[int]) -> None:
    """Note in a run's bitmap that these words occurred."""
    for word in counts:
        bucket = word % BUCKETS
        bitmap[bucket >> 3] |= 1 << (bucket & 7)


def counted(counts: bytes, bitmap: bytes) -> bytes:
    """The counts of a baseline after one more run's bitmap."""
    total = bytearray(counts or bytes(BUCKETS))
    for place, byte in enumerate(bitmap):
        for bit in range(8) if byte else ():
            if byte >> bit & 1:
                total[place * 8 + bit] = min(_MOST, total[place * 8 + bit] + 1)
    return bytes(total)


def halved(counts: bytes) -> bytes:
    """The counts with the past counting half, so that they never overflow and old habits fade."""
    return bytes(count // 2 for count in counts)


class Idf(Embedder):
    """Cosine of two word vectors, log-frequency times rarity."""

    name = "idf"

    def __init__(self) -> None:
        self._goals: dict[tuple[str, int, bytes], Vector] = {}

    def similarity(self, goal: str, text: str, baseline: BaselineStats) -> float:
        """How near `text` is to `goal`.

        >>> baseline = BaselineStats(agent_id="a")
        >>> near = Idf().similarity("find cheap flights to Oslo", "cheap flights to Oslo found", baseline)
        >>> far = Idf().similarity("find cheap flights to Oslo", "a poem on the sea", baseline)
        >>> near > 0.7, far
        (True, 0.0)
        """
        return self.similarity_of(goal, words(text), baseline)

    def similarity_of(self, goal: str, counts: Counter[int], baseline: BaselineStats) -> float:
        """The same for words already counted."""
        key = (goal, baseline.word_runs, baseline.word_counts)
        wanted = self._goals.get(key)
        if wanted is None:
            if len(self._goals) >= _GOALS_KEPT:
                self._goals.clear()
            wanted = self._goals[key] = _vector(words(goal), baseline)
        vector = _vector(counts, baseline)
        return min(1.0, sum(weight * vector.get(word, 0.0) for word, weight in wanted.items()))


def _vector(counts: Counter[int], baseline: BaselineStats) -> Vector:
    """Weights of unit length; empty when no word counts."""
    runs, seen = baseline.word_runs, baseline.word_counts
    if runs >= RUNS_NEEDED and seen:
        # As if there had been twenty runs, however many there were: otherwise words never seen would weigh
        # more from run to run, and similarities learnt early could not be compared with later ones.
        scale = _COUNTED_AS / runs
        weights = {
            word: (1.0 + math.log(n))
            * math.log((_COUNTED_AS + 1) / (min(seen[word % BUCKETS], runs) * scale + 0.5))
            for word, n in counts.items()
        }
    else:
        weights = {word: 1.0 + math.log(n) for word, n in counts.items() if word not in _CARRY_NOTHING}
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {word: weight / length for word, weight in weights.items()} if length else {}
