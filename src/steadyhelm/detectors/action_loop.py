"""Notice an agent that makes the same calls again and gets the same results."""

from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.errors import SettingsError
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.loops.loop_detector import LoopDetector, LoopMatch
from steadyhelm.loops.repetitions import RepetitionMemory


class ActionLoop(LoopDetector):
    """Signal when a call, or a sequence of up to twelve, repeats with equal arguments and equal results.

    Three times in a row make a loop, four when other calls lie between or no results are known; six looks in
    a row that were all made before, and four actions after which the same is seen; and four deeds
    that differ in nothing but the number they are given.
    New work, a new user message and a changed result are progress; a result that differs in identifiers alone
    has not changed. Waiting needs 25 looks and ten minutes.
    The call just made, made again at once, is noticed also where only empty fields, spacing and signs
    differ, where arguments were only added or left out with the same result, or, once, where a look brought
    another result.
    Calls of one parallel batch do not repeat each other: the agent had not seen the first result yet.

    Args:
        max_repeats: Repetitions from which it is a loop; None for the usual numbers.
        window: Only this many recent calls count; None remembers the whole run.

    >>> fired_at(ActionLoop(max_repeats=3), "aaa.bbb")  # a letter is a call, a dot new work
    [1, 2, 5, 6]
    >>> fired_at(ActionLoop(), "aAaA")  # a capital is the same call with another result: noticed, no loop
    [1]
    """

    name = "action_loop"
    version = 8
    observed_types = frozenset({TOOL_CALL, USER_MESSAGE, LLM_REQUEST})
    advice = "Change the approach: the same call has kept giving the same answer."

    _memory: RepetitionMemory

    def __init__(self, *, max_repeats: int | None = None, window: int | None = None) -> None:
        if max_repeats is not None and max_repeats < 2:  # noqa: PLR2004 - one call alone repeats nothing
            raise SettingsError(f"action_loop.max_repeats must be 2 or more, or None, got {max_repeats!r}.")
        if window is not None and window < (max_repeats or 1):
            raise SettingsError(
                f"action_loop.window must be None or at least max_repeats ({max_repeats}), got {window!r}."
            )
        self.max_repeats = max_repeats
        self.window = window
        self._memory = RepetitionMemory()

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Record the call, and return a finding when it, or the sequence it ends, repeats."""
        if event.action_type not in self.observed_types:
            return None
        if self._memory.waits.usual_s is not baseline.usual_waits:
            self._memory.waits.usual_s = baseline.usual_waits
        match = self._memory.observe(event, self.max_repeats, self.window)
        return None if match is None else self.report(event, match, **self._context(event, match))

    def foresee(self, call: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Return the finding that the call would lead to if its result stayed the same. Changes no state."""
        if call.action_type != TOOL_CALL:
            return None
        match = self._memory.foresee(call, self.max_repeats, self.window)
        return None if match is None else self.report_foreseen(call, match, **self._context(call, match))

    def teach(self, summary: RunSummary) -> RunSummary:
        """Return the summary with how long tools were waited for, and which arguments only varied."""
        memory = self._memory
        waits = {tool: waited_s for tool, waited_s in memory.waits.longest_s.items() if waited_s > 0}
        return structs.replace(summary, waits=waits, asides=memory.varied.list_asides())

    def _context(self, event: TraceEvent, match: LoopMatch) -> dict[str, object]:
        """Return what repeats, and the calls that led there."""
        names = self._memory.names
        if len(match.sequence) > 1:
            return {"sequence": list(match.sequence), "recent_actions": names[-15:]}
        return {"tool_name": event.action_name, "recent_actions": names[-10:]}
