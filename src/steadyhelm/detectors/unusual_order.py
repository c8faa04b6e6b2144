"""Notice an agent that acts in an order its earlier runs do not show."""

from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.baselines import OUTDATED_ADVICE, BaselineStats
from steadyhelm.calibration import RUN_START, compute_surprise
from steadyhelm.detector import Detector
from steadyhelm.events import TOOL_CALL, RunSummary, TraceEvent
from steadyhelm.findings import MED_FROM, DriftEvent
from steadyhelm.windows import measure_rarity, quantile

REQUIRED_RUNS: Final = 20
_USUAL_QUANTILE: Final = 0.95
_MIN_STEPS: Final = 6
_SCORE_AT_USUAL, _SCORE_PER_TENTH = 0.3, 0.2
"""The score at what one run in twenty passes, and its rise each time such a run is ten times rarer."""
_MIN_TAIL_BITS: Final = 0.43
"""So a mean must be a bit above the usual to be MED: in very regular runs one swapped pair means little."""
_MAX_ACTIONS: Final = 400
_UNKNOWN_TOOL_SCORE: Final = 0.4
_LISTED_RISE: Final = 0.1
"""So much must the score rise above what was listed before to be listed again."""
_MAX_EVIDENCE: Final = 8


class _Memory(Struct):
    before: str = RUN_START
    steps: int = 0
    bits: float = 0.0
    peak: float = 0.0
    peak_id: str = ""
    peak_pair: tuple[str, str] = ("", "")
    peak_mean: float = 0.0
    ids: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    listed: float = -1.0


class UnusualOrder(Detector):
    """Signal a tool this agent never used, and a run whose actions come in an unusual order.

    Which action follows which is learnt from the agent's clean runs.
    A run's mean surprise so far, in bits a step, is compared with the highest that it reached in the agent's
    other runs: the score follows from how rare such a run is, MED where about one in two hundred is like it.
    An order that stays unusual is listed again when it has become clearly more so.
    A loop of likely steps is not surprising: the loop detectors report it.
    """

    name = "unusual_order"
    kind = "transition"
    version = 2

    _memory: _Memory

    def __init__(self) -> None:
        self._memory = _Memory()
        self.not_checked = "no tool call seen yet"
        self._learnt_runs = -1

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Record the action, and return a finding when the tool is unknown or the order unusual."""
        if event.action_type != TOOL_CALL:
            return None
        memory, action = self._memory, event.action_name
        before, memory.before = memory.before, action
        if len(memory.actions) < _MAX_ACTIONS:
            memory.actions.append(action)
        memory.steps += 1
        if baseline.transitions:
            bits = compute_surprise(baseline.transitions, before, action)
            memory.bits += bits
            if memory.steps >= _MIN_STEPS:
                memory.peak_mean = max(memory.peak_mean, memory.bits / memory.steps)
            memory.ids.append(event.event_id)
            if len(memory.ids) > _MAX_EVIDENCE:
                del memory.ids[0]
            if bits > memory.peak:
                memory.peak, memory.peak_id, memory.peak_pair = bits, event.event_id, (before, action)
        learnt_runs = len(baseline.surprises)
        if not baseline.is_calibrated or learnt_runs < REQUIRED_RUNS:
            if learnt_runs != self._learnt_runs:
                self._learnt_runs = learnt_runs
                self.not_checked = f"learning the order of actions, {learnt_runs}/{REQUIRED_RUNS} runs"
            return None
        self.not_checked = None
        return self._check_tool(event, baseline) or self._check_order(event, baseline)

    def teach(self, summary: RunSummary) -> RunSummary:
        """Return the summary with the actions of this run, and how unusual their order was at most."""
        memory = self._memory
        return structs.replace(summary, actions=memory.actions, surprise=memory.peak_mean or None)

    def _check_tool(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        action, memory = event.action_name, self._memory
        known = action in baseline.transitions or any(action in it for it in baseline.transitions.values())
        if known or action in memory.unknown:
            return None
        memory.unknown = [*memory.unknown, action][-_MAX_EVIDENCE:]
        return self.finding(
            event,
            score=_UNKNOWN_TOOL_SCORE,
            message=f"{action} was used, which this agent's runs never use",
            suggested_action="Check that the agent is meant to have this tool.",
            advice="Use this tool only where the goal needs it.",
            action_name=action,
            subject=action,
        )

    def _check_order(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        memory = self._memory
        if memory.steps < _MIN_STEPS:
            return None
        mean, usual = memory.bits / memory.steps, quantile(baseline.surprises, _USUAL_QUANTILE)
        if usual <= 0 or mean <= usual:
            return None
        rarity = measure_rarity(baseline.surprises, mean, usual, min_scale=_MIN_TAIL_BITS)
        score = min(1.0, _SCORE_AT_USUAL + _SCORE_PER_TENTH * rarity)
        is_listed = score < memory.listed + _LISTED_RISE and not memory.listed < MED_FROM <= score
        if is_listed and score < MED_FROM:
            return None
        memory.listed = memory.listed if is_listed else score
        return self.finding(
            event,
            score=score,
            message=f"actions in an unusual order, above all {_describe_pair(*memory.peak_pair)}: "
            f"{mean:.1f} bits of surprise a step, usually below {usual:.1f}",
            suggested_action=OUTDATED_ADVICE
            if baseline.may_be_outdated
            else "Compare with its usual order: a step may have been skipped.",
            advice="Check whether a step of your usual way was skipped, and do it before you go on.",
            event_ids=dict.fromkeys([memory.peak_id, *memory.ids]),
            mean_surprise=round(mean, 2),
            max_surprise=round(memory.peak, 2),
            usual=round(usual, 2),
            **({"ongoing": True} if is_listed else {}),
        )


def _describe_pair(before: str, action: str) -> str:
    """Return the action with the one before it."""
    return f"{action} after {before}" if before != RUN_START else f"{action} as the first"
