"""Notice an agent that makes the same calls again and gets the same answers."""

from steadyhelm.baselines import BaselineStats
from steadyhelm.errors import SettingsError
from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.loops.loop_detector import LoopDetector
from steadyhelm.loops.repetition import Repetition
from steadyhelm.loops.sightings import Sighting


class ActionLoop(LoopDetector):
    """Signal when a call, or a sequence of up to eight calls, repeats with equal arguments and equal results.

    Three times in a row make a loop, four when other calls lie between or no results are known.
    New work, a user's new words and a changed result are progress; waiting needs ten.
    The call just made, made again at once, is noticed also where only empty fields, spacing and signs
    differ, where arguments were only added or left out with the same result, or, once, where a look brought
    another result.
    Calls of one parallel batch do not repeat each other: the agent had not seen the first answer yet.

    Args:
        max_repeats: Repetitions from which it is a loop; None for the usual numbers.
        window: Only this many recent calls count; None remembers the whole run.

    >>> fired_at(ActionLoop(max_repeats=3), "aaa.bbb")  # a letter is a call, a dot new work
    [1, 2, 5, 6]
    >>> fired_at(ActionLoop(), "aAaA")  # a capital is the same call with another result: noticed, no loop
    [1]
    """

    name = "action_loop"
    version = 3
    advice = "Change the approach: the same call has kept giving the same answer."

    _memory: Repetition

    def __init__(self, *, max_repeats: int | None = None, window: int | None = None) -> None:
        if max_repeats is not None and max_repeats < 2:  # noqa: PLR2004 - one call alone repeats nothing
            raise SettingsError(f"action_loop.max_repeats must be 2 or more, or None, got {max_repeats!r}.")
        if window is not None and window < (max_repeats or 1):
            raise SettingsError(
                f"action_loop.window must be None or at least max_repeats ({max_repeats}), got {window!r}."
            )
        self.max_repeats = max_repeats
        self.window = window
        self._memory = Repetition()

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Count how often the calls just made have come to the same before."""
        if event.action_type not in self.looks_at:
            return None
        sighting = self._memory.take(event, self.max_repeats, self.window)
        return None if sighting is None else self.sighted(event, sighting, **self._course(event, sighting))

    def foresee(self, call: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Count the call as if it had been made and had come to the same as before."""
        if call.action_type != TOOL_CALL:
            return None
        sighting = self._memory.foresee(call, self.max_repeats, self.window)
        return None if sighting is None else self.foreseen(call, sighting, **self._course(call, sighting))

    def _course(self, event: TraceEvent, sighting: Sighting) -> dict[str, object]:
        """What repeats, and the calls that led there."""
        names = self._memory.names
        if len(sighting.sequence) > 1:
            return {"sequence": list(sighting.sequence), "recent_actions": names[-15:]}
        return {"tool_name": event.action_name, "recent_actions": names[-10:]}
