"""The contract of an embedder: how near two texts are in meaning."""

from abc import ABC, abstractmethod
from typing import ClassVar

from steadyhelm.baselines import BaselineStats


class Embedder(ABC):
    """Says how near an output is to the goal, between 0 and 1.

    It may use what the agent's baseline has learnt about words.
    """

    name: ClassVar[str]

    @abstractmethod
    def similarity(self, goal: str, text: str, baseline: BaselineStats) -> float:
        """How near `text` is to `goal`."""
