"""Notice an agent that makes the same calls again and gets the same results.

A repetition counts only where nothing else changed: new work or a new user message starts a new segment,
a changed outcome is progress, and calls of one parallel batch do not repeat each other.
"""

from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.errors import SettingsError
from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.loops.loop_detector import (
    MAX_EVIDENCE_IDS,
    LoopDetector,
    LoopMatch,
    SegmentTracker,
    copy_memory,
)
from steadyhelm.loops.near_repeats import PreviousCall
from steadyhelm.loops.outcomes import CallOutcome
from steadyhelm.loops.steps import ToolStep, identify_call, read_step
from steadyhelm.noise import find_volatile_parts

REPEATS_IN_A_ROW: Final = 3
REPEATS_SPREAD_OUT: Final = 4
REPEATS_WITHOUT_RESULTS: Final = 4
REPEATS_WHEN_WAITING: Final = 10
REPEATS_IN_OUTAGE: Final = 8
MAX_CYCLE_STEPS: Final = 8

_MAX_CALLS: Final = 40
_MAX_STEPS: Final = 64


class RepeatedCall(Struct):
    """A call made before in this segment, its outcome, and how often it was made."""

    outcome: CallOutcome
    last_seq: int
    last_step: int
    ids: list[str]
    count: int = 1
    in_a_row: int = 1


class RepetitionMemory(Struct):
    """What a run has done in this segment.

    `runs[p - 1]` counts the steps in a row that equalled the step p places before; it is empty after a step
    that equalled none of them. `last_wait` is the number of the latest step that waited.
    """

    segment: SegmentTracker = field(default_factory=SegmentTracker)
    calls: dict[int, RepeatedCall] = field(default_factory=dict)
    keys: list[tuple[int, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    steps: int = 0
    last_wait: int = -1
    previous: PreviousCall | None = None

    def observe(
        self, event: TraceEvent, patience: int | None = None, window: int | None = None
    ) -> LoopMatch | None:
        """Record an event, and return what it repeats, if anything.

        `patience` replaces the usual number of repetitions; only the last `window` steps count.
        """
        if event.action_type == TOOL_CALL:
            return self.observe_step(read_step(event), patience, window)
        if self.segment.record_message(event):
            self._start_segment()
            self.previous = None
        return None

    def foresee(
        self, call: TraceEvent, patience: int | None = None, window: int | None = None
    ) -> LoopMatch | None:
        """Return what a call not yet made would repeat if its result stayed the same. Changes no state."""
        seen = self.calls.get(identify_call(call)) if self.calls else None
        return (
            None
            if seen is None
            else copy_memory(self).observe_step(ToolStep(call, seen.outcome), patience, window)
        )

    def _start_segment(self) -> None:
        self.calls.clear()
        self.keys.clear()
        self.names.clear()
        self.ids.clear()
        self.runs.clear()

    def observe_step(
        self, step: ToolStep, patience: int | None = None, window: int | None = None
    ) -> LoopMatch | None:
        """Record a step, and return what it repeats, if anything."""
        if step.is_work_done and self.segment.record_work(step.call_key):
            self._start_segment()
        seen = self.calls.get(step.call_key)
        if seen is not None and step.outcome.known and not step.has_seen(seen.last_seq):
            return None  # issued together with an equal call: one decision, not two
        if step.kind == "plan":
            return self._match_call(step, seen, patience, window)  # a plan is not a step itself
        self.steps += 1
        if step.kind == "wait":
            self.last_wait = self.steps
        repeat = None
        if seen is None:
            self._remember(step)
        else:
            repeat = self._match_call(step, seen, patience, window)
        # A call that is new in this segment closes no cycle.
        is_new = seen is None or not self._count_runs(step)
        self._append_step(step, is_new=is_new)
        cycle = None if is_new else self._match_cycle(step, patience, window)
        near = self._match_previous(step)
        if repeat is None and cycle is None:
            return near
        return max((it for it in (repeat, cycle, near) if it is not None), key=_rank)

    def _match_call(
        self, step: ToolStep, seen: RepeatedCall | None, patience: int | None, window: int | None
    ) -> LoopMatch | None:
        event, outcome = step.event, step.outcome
        if seen is None or (window is not None and self.steps - seen.last_step >= window):
            self._remember(step)
            return None
        if seen.outcome.known != outcome.known or not seen.outcome.equals(outcome):
            self._remember(step)
            return None
        # Moved to the end: the call not seen for longest is dropped first.
        self.calls[step.call_key] = self.calls.pop(step.call_key)
        ignored = () if seen.outcome.raw == outcome.raw else find_volatile_parts(outcome.sample)
        # Asked again after a wait: that is polling.
        is_polling = step.kind == "wait" or (self.last_wait > seen.last_step and not outcome.failed)
        seen.count += 1
        seen.in_a_row = seen.in_a_row + 1 if self.steps - seen.last_step == 1 else 1
        seen.last_seq, seen.last_step = event.seq, self.steps
        seen.ids = [*seen.ids, event.event_id][-MAX_EVIDENCE_IDS:]
        match = _judge_repeat(step, seen, patience, is_polling=is_polling)
        return structs.replace(match, ignored=ignored) if match is not None and ignored else match

    def _remember(self, step: ToolStep) -> None:
        event, calls = step.event, self.calls
        calls.pop(step.call_key, None)
        calls[step.call_key] = RepeatedCall(step.outcome, event.seq, self.steps, [event.event_id])
        if len(calls) > _MAX_CALLS:
            del calls[next(iter(calls))]

    def _count_runs(self, step: ToolStep) -> bool:
        """Update the runs of steps that equal earlier ones, and return whether this step equals any."""
        key, keys = _step_key(step), self.keys
        if key not in keys[-MAX_CYCLE_STEPS:]:
            return False
        runs = self.runs or [0] * MAX_CYCLE_STEPS
        for period in range(1, min(MAX_CYCLE_STEPS, len(keys)) + 1):
            runs[period - 1] = runs[period - 1] + 1 if keys[-period] == key else 0
        self.runs = runs
        return True

    def _append_step(self, step: ToolStep, *, is_new: bool) -> None:
        if is_new:
            self.runs.clear()
        self.keys.append(_step_key(step))
        self.names.append(step.event.action_name)
        self.ids.append(step.event.event_id)
        if len(self.keys) > 2 * _MAX_STEPS:
            del self.keys[:-_MAX_STEPS], self.names[:-_MAX_STEPS], self.ids[:-_MAX_STEPS]

    def _match_cycle(self, step: ToolStep, patience: int | None, window: int | None) -> LoopMatch | None:
        outcome, runs = step.outcome, self.runs
        if step.kind == "wait" or outcome.outage:
            return None
        usual = patience or (REPEATS_IN_A_ROW if outcome.known else REPEATS_WITHOUT_RESULTS)
        for period in range(2, MAX_CYCLE_STEPS + 1):
            enough = (
                REPEATS_WHEN_WAITING if self.steps - self.last_wait < period and not outcome.failed else usual
            )
            count = runs[period - 1] // period + 1
            if window is not None:
                count = min(count, window // period)
            # One call over and over is no cycle: it is reported as a repetition.
            if count >= enough and runs[period - 1] % period == 0 and runs[0] < period - 1:
                sequence = tuple(self.names[-period:])
                return LoopMatch(
                    pattern="cycle",
                    count=count,
                    patience=enough,
                    event_ids=self._cycle_evidence(count, period),
                    sequence=sequence,
                    message=f"{' → '.join(sequence)} repeated {count} times, results and all",
                )
        return None

    def _cycle_evidence(self, count: int, period: int) -> tuple[str, ...]:
        """Return the events of the first lap of a cycle, and this step in each lap since."""
        ids = self.ids[-count * period :]
        since = ids[period + (len(ids) - 1) % period :: period]
        return (*ids[:period], *since[period - MAX_EVIDENCE_IDS :])

    def _match_previous(self, step: ToolStep) -> LoopMatch | None:
        before = self.previous
        self.previous = PreviousCall.from_step(step, before)
        return None if before is None or before.name != step.event.action_name else before.match_repeat(step)


class ActionLoop(LoopDetector):
    """Signal when a call, or a sequence of up to eight calls, repeats with equal arguments and equal results.

    Three times in a row make a loop, four when other calls lie between or no results are known.
    New work, a new user message and a changed result are progress; waiting needs ten.
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
    version = 4
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

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Record the call, and return a finding when it, or the sequence it ends, repeats."""
        if event.action_type not in self.observed_types:
            return None
        match = self._memory.observe(event, self.max_repeats, self.window)
        return None if match is None else self.report(event, match, **self._context(event, match))

    def foresee(self, call: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Return the finding that the call would lead to if its result stayed the same. Changes no state."""
        if call.action_type != TOOL_CALL:
            return None
        match = self._memory.foresee(call, self.max_repeats, self.window)
        return None if match is None else self.report_foreseen(call, match, **self._context(call, match))

    def _context(self, event: TraceEvent, match: LoopMatch) -> dict[str, object]:
        """Return what repeats, and the calls that led there."""
        names = self._memory.names
        if len(match.sequence) > 1:
            return {"sequence": list(match.sequence), "recent_actions": names[-15:]}
        return {"tool_name": event.action_name, "recent_actions": names[-10:]}


def _step_key(step: ToolStep) -> tuple[int, int]:
    """Return what a step must have in common with another to be the same step of a cycle."""
    return step.call_key, step.outcome.raw if step.outcome.known else 0


def _judge_repeat(
    step: ToolStep, seen: RepeatedCall, patience: int | None, *, is_polling: bool
) -> LoopMatch | None:
    outcome, name = step.outcome, step.event.action_name
    is_in_a_row = seen.in_a_row == seen.count
    if is_polling or outcome.outage:
        enough = REPEATS_WHEN_WAITING if is_polling else REPEATS_IN_OUTAGE
        if seen.count < enough:
            return None
    elif patience is not None:
        enough = patience if is_in_a_row else patience + 1
    elif not outcome.known:
        enough = REPEATS_WITHOUT_RESULTS
    else:
        enough = REPEATS_IN_A_ROW if is_in_a_row else REPEATS_SPREAD_OUT
    result = "no result" if not outcome.known else "the same error" if outcome.failed else "the same result"
    how = "in a row" if is_in_a_row else "without new work between"
    return LoopMatch(
        pattern="repetition" if is_in_a_row else "slow loop",
        count=seen.count,
        patience=enough,
        event_ids=tuple(seen.ids),
        sequence=(name,),
        message=f"{name} called {seen.count} times {how} with the same arguments and {result}",
    )


def _rank(match: LoopMatch) -> tuple[bool, bool, float]:
    """Return the sort key of a match: loops first, then cycles, which say more than one of their calls."""
    return match.count >= match.patience, match.pattern == "cycle", match.score
