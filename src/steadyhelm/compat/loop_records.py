"""What the four-strategy face reports: the kinds of loop, what each strategy saw, and the verdict."""

import enum

from msgspec import Struct


class LoopType(enum.StrEnum):
    """What kind of loop it is."""

    EXACT_HASH = "EXACT_HASH"
    SEMANTIC = "SEMANTIC"
    OSCILLATION = "OSCILLATION"
    DEAD_END = "DEAD_END"

    @property
    def strategy(self) -> str:
        """The name of the strategy that looks for it."""
        return self.value.lower()


class LoopDetection(Struct, frozen=True, kw_only=True):
    """A loop as one strategy sees it: how sure it is, the turns that prove it, what is seen, what to do."""

    confidence: float
    type: LoopType
    loop_sequence: list[int]
    evidence: str
    suggestion: str


class LoopSignal(Struct, frozen=True, kw_only=True):
    """What one strategy said: a detection, nothing, or why it could not look."""

    strategy: str
    detection: LoopDetection | None = None
    not_checked: str | None = None


class LoopEvent(Struct, frozen=True, kw_only=True):
    """The verdict of all strategies together; the surest detection speaks for it.

    `turn` is the latest step's, `tried_approaches` the different actions of the loop in their order.
    """

    detected: bool = False
    type: LoopType | None = None
    confidence: float = 0.0
    detection_strategy: str | None = None
    loop_sequence: list[int]
    suggestion: str = ""
    evidence: str = ""
    turn: int | None = None
    tried_approaches: list[str]
    signals: tuple[LoopSignal, ...] = ()

    @property
    def all_detections(self) -> dict[str, LoopDetection | None]:
        """Every strategy's detection, None for those that did not fire."""
        return {signal.strategy: signal.detection for signal in self.signals}
