"""Guidance for the model that nobody has taken yet, of one run."""

from typing import Final, NamedTuple

from steadyhelm.decisions import PROCEED, Decision
from steadyhelm.engine.health import Health

NOBODY_RECEIVED: Final = (
    "guidance that nobody received: deliver it with run.guidance(), monitor.on_decision(), "
    "or @monitor.tool(append_guidance=True)"
)


class PlacedDecision(NamedTuple):
    """A decision with guidance, its place in the run, and whether a watched function's call led to it."""

    decision: Decision = PROCEED
    seq: int = 0
    is_by_function: bool = False

    @property
    def is_delivered(self) -> bool:
        """Whether it was delivered when it was decided: to the caller, or by an adapter."""
        return self.decision.verdict != "proceed"


NOTHING: Final = PlacedDecision()


class WaitingGuidance:
    """The latest decision with guidance. Two threads never take the same."""

    def __init__(self) -> None:
        # Taking the last item out of a list is one step.
        self._waiting: list[PlacedDecision] = []

    @property
    def is_by_function(self) -> bool:
        """Whether guidance about a watched function's call waits."""
        return any(it.is_by_function for it in self._waiting)

    @property
    def is_unheard(self) -> bool:
        """Whether guidance about a watched function's call waits that nobody has received."""
        return any(it.is_by_function and not it.is_delivered for it in self._waiting)

    def keep(self, placed: PlacedDecision) -> None:
        """Keep a decision in place of the one before; a mere reminder replaces no response to drift."""
        if placed.decision.drifting or not self._waiting:
            self._waiting = [placed]

    def take(self) -> PlacedDecision:
        """Return the decision, once; NOTHING when there is none."""
        try:
            return self._waiting.pop()
        except IndexError:
            return NOTHING

    def drop_unheard(self, health: Health) -> None:
        """Drop and count guidance that nobody has received, and will not any more."""
        if self.is_unheard:
            self.take()
            health.count(NOBODY_RECEIVED)
