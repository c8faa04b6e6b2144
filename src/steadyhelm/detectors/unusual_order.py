"""Notice an agent that does things in an order it never does."""

from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.events import TOOL_CALL, RunSummary, TraceEvent
from steadyhelm.findings import MED_FROM, DriftEvent
from steadyhelm.loops.surprise import START, surprise
from steadyhelm.windows import quantile

RUNS_NEEDED: Final = 20
_UNUSUAL: Final = 0.95
_LEAST_STEPS: Final = 6
_LEAST_BITS: Final = 2.0
_ACTIONS_TAUGHT: Final = 400
_UNKNOWN_TOOL: Final = 0.4
_IDS_KEPT: Final = 8


class _Memory(Struct):
    before: str = START
    steps: int = 0
    bits: float = 0.0
    peak: float = 0.0
    peak_id: str = ""
    ids: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    told: bool = False


class UnusualOrder(Detector):
    """Signal a tool this agent never used, and a run that does things in an order its runs do not.

    What follows what is learnt from the agent's clean runs; a run's mean surprise, in bits a step, is
    compared with what nineteen runs in twenty stay below.
    A loop of likely steps is not surprising: that is what the loop detectors are for.
    """

    name = "unusual_order"
    kind = "transition"

    _memory: _Memory

    def __init__(self) -> None:
        self._memory = _Memory()
        self.not_checked = "no tool call seen yet"
        self._learnt = -1

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Ask how unusual this action is after the one before."""
        if event.action_type != TOOL_CALL:
            return None
        memory, action = self._memory, event.action_name
        before, memory.before = memory.before, action
        if len(memory.actions) < _ACTIONS_TAUGHT:
            memory.actions.append(action)
        memory.steps += 1
        if baseline.transitions:
            bits = surprise(baseline.transitions, before, action)
            memory.bits += bits
            memory.ids.append(event.event_id)
            if len(memory.ids) > _IDS_KEPT:
                del memory.ids[0]
            if bits > memory.peak:
                memory.peak, memory.peak_id = bits, event.event_id
        known = len(baseline.surprises)
        if not baseline.is_calibrated or known < RUNS_NEEDED:
            if known != self._learnt:
                self._learnt = known
                self.not_checked = f"learning the order of actions, {known}/{RUNS_NEEDED} runs"
            return None
        self.not_checked = None
        return self._unknown(event, baseline) or self._unusual(event, baseline)

    def teach(self, summary: RunSummary) -> RunSummary:
        """The order of this run's actions, and how unusual it was."""
        memory = self._memory
        mean = memory.bits / memory.steps if memory.bits and memory.steps >= _LEAST_STEPS else None
        return structs.replace(summary, actions=memory.actions, surprise=mean)

    def _unknown(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        action, memory = event.action_name, self._memory
        known = action in baseline.transitions or any(action in it for it in baseline.transitions.values())
        if known or action in memory.unknown:
            return None
        memory.unknown = [*memory.unknown, action][-_IDS_KEPT:]
        return self.finding(
            event,
            score=_UNKNOWN_TOOL,
            message=f"{action} was used, which this agent's runs never use",
            suggested_action="Check that the agent is meant to have this tool.",
            action_name=action,
        )

    def _unusual(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        memory = self._memory
        if memory.steps < _LEAST_STEPS:
            return None
        mean, usual = memory.bits / memory.steps, quantile(baseline.surprises, _UNUSUAL)
        excess = mean - usual
        if usual <= 0 or excess <= 0:
            return None
        return self.finding(
            event,
            # Half as much again as usual is worth a word, twice as much is certain; below two bits a step
            # everything is so regular that one swapped pair would count for too much.
            score=MED_FROM * 2 * excess / max(usual, _LEAST_BITS),
            message=f"actions in an unusual order: {mean:.1f} bits a step, usually below {usual:.1f}",
            suggested_action="Compare with its usual order: a step may have been skipped.",
            event_ids=dict.fromkeys([memory.peak_id, *memory.ids]),
            mean_surprise=round(mean, 2),
            max_surprise=round(memory.peak, 2),
            usual=round(usual, 2),
        )
