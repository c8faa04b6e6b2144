"""The contract of an embedder: the similarity of two texts."""

from abc import ABC, abstractmethod
from typing import ClassVar

from steadyhelm.baselines import BaselineStats


class Embedder(ABC):
    """Measures the similarity of an output and the goal, between 0 and 1.

    It may use the word counts of the agent's baseline.
    """

    name: ClassVar[str]

    @abstractmethod
    def similarity(self, goal: str, text: str, baseline: BaselineStats) -> float:
        """Return the similarity of `text` and `goal`."""
