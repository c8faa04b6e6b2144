"""Remember the calls of a run, and match what is repeated: a call, a cycle of calls, or looks made before.

A repetition counts only where nothing else changed: new work or a new user message starts a new segment,
a changed outcome is progress, and calls of one parallel batch do not repeat each other.
"""

from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.events import LLM_REQUEST, TOOL_CALL, TraceEvent
from steadyhelm.loops.asides import VariedArguments
from steadyhelm.loops.call_memory import CallMemory, RepeatedCall
from steadyhelm.loops.effects import ActionEffects
from steadyhelm.loops.handles import drop_from_outcome, hash_without_handles, shows_target
from steadyhelm.loops.index_pages import hash_item_words, is_acknowledgement, is_verdict, reads_content
from steadyhelm.loops.loop_detector import (
    MAX_EVIDENCE_IDS,
    SCORE_WITHOUT_RESULTS,
    LoopMatch,
    SegmentTracker,
    copy_memory,
)
from steadyhelm.loops.near_repeats import PreviousCall
from steadyhelm.loops.patient_retries import is_patient_retry
from steadyhelm.loops.repeat_limits import (
    REPEATS_IN_A_ROW,
    REPEATS_WITHOUT_RESULTS,
    is_on_schedule,
    judge_repeat,
)
from steadyhelm.loops.steps import ToolStep, identify_call, is_status_look, read_step
from steadyhelm.loops.waiting import LONG_CALL_MS, POLLS_OF_LOOP, POLLS_WITHOUT_TIMES, UsualWaits

REDONE_OF_LOOP: Final = 6
MAX_CYCLE_STEPS: Final = 12

_MAX_STEPS: Final = 64
_MAX_REDONE_SCORE: Final = 0.8
_MAX_SLEEP_RESULT_CHARS: Final = 24
_MAX_HANDLES: Final = 32
_MAX_ITEM_BYTES: Final = 240
_MAX_STEPS_TO_ITEM: Final = 8


class RepetitionMemory(Struct):
    """What a run has done in this segment.

    `runs[p - 1]` counts the steps in a row that equalled the step p places before; it is empty after a step
    that equalled none of them. `last_wait` is the number of the latest step that waited, `news` the number of
    results that were new, `busy_s` the time that calls and replies took. `redone` names, for
    the latest looks in a row that were all made before, the event of the first time. `latest_item` is the
    latest call with a new result, and that; `handles` are the calls that name their target by a handle.
    `thinks` says that replies tell how long they took.
    """

    segment: SegmentTracker = field(default_factory=SegmentTracker)
    calls: CallMemory = field(default_factory=CallMemory)
    effects: ActionEffects = field(default_factory=ActionEffects)
    waits: UsualWaits = field(default_factory=UsualWaits)
    varied: VariedArguments = field(default_factory=VariedArguments)
    keys: list[tuple[int, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    redone: dict[int, str] = field(default_factory=dict)
    steps: int = 0
    news: int = 0
    last_wait: int = -1
    busy_s: float = 0.0
    previous: PreviousCall | None = None
    thinks: bool = False
    handles: dict[int, int] = field(default_factory=dict)
    latest_item: tuple[str, bytes, str] = ("", b"", "")

    def observe(
        self, event: TraceEvent, patience: int | None = None, window: int | None = None
    ) -> LoopMatch | None:
        """Record an event, and return what it repeats, if anything.

        `patience` replaces the usual number of repetitions; only the last `window` steps count.
        """
        if event.action_type == TOOL_CALL:
            return self.observe_step(read_step(event), patience, window)
        if event.action_type == LLM_REQUEST:
            self.busy_s += event.duration_ms / 1000
            self.thinks = self.thinks or event.duration_ms > 0
        elif self.segment.record_message(event):
            self._start_segment()
            self.effects.clear()
            self.handles.clear()
            self.previous = None
        return None

    def foresee(
        self, call: TraceEvent, patience: int | None = None, window: int | None = None
    ) -> LoopMatch | None:
        """Return what a call not yet made would repeat if its result stayed the same. Changes no state."""
        key = identify_call(call)
        seen = self.calls.peek(key)
        if seen is None:
            return None
        reduced = structs.replace(self, calls=self.calls.reduce_to(key))
        return copy_memory(reduced).observe_step(ToolStep(call, seen.outcome), patience, window)

    def _start_segment(self) -> None:
        self.calls.clear()
        self.keys.clear()
        self.names.clear()
        self.ids.clear()
        self.runs.clear()
        self.redone.clear()

    def observe_step(
        self, step: ToolStep, patience: int | None = None, window: int | None = None
    ) -> LoopMatch | None:
        """Record a step, and return what it repeats, if anything."""
        step = self._find_same_target(step)
        if step.is_work_done and self.segment.record_work(step):
            self._start_segment()
        seen = self.calls.get(step.call_key)
        if seen is not None and step.outcome.known and not step.has_seen(seen.last_seq):
            return None  # issued together with an equal call: one decision, not two
        if step.kind == "plan":
            return self._match_call(step, seen, patience, window)  # a plan is not a step itself
        self.steps += 1
        if step.kind == "wait":
            self.last_wait = self.steps
        elif step.event.duration_ms < LONG_CALL_MS:
            self.busy_s += step.event.duration_ms / 1000
        repeat = self._match_call(step, seen, patience, window)
        if seen is not None and seen.last_step != self.steps:
            seen = self._find_returned(step)  # the same call with another result
        redone = self._match_redone(step, seen)
        cycle = self._match_cycle(step, seen, patience, window)
        effect, near = self.effects.observe(step), self._match_previous(step)
        if repeat is None and cycle is None and redone is None and effect is None:
            return near
        found = (repeat, cycle, redone, effect, near)
        return max((it for it in found if it is not None), key=_rank)

    def _match_call(
        self, step: ToolStep, seen: RepeatedCall | None, patience: int | None, window: int | None
    ) -> LoopMatch | None:
        if seen is None or (window is not None and self.steps - seen.last_step >= window):
            self._remember(step)
            return None
        ignored = seen.find_difference(step)
        if ignored is None:
            self.waits.record(step.event.action_name, seen.times.waited_s)
            again = seen.find_return(step, self.steps, self.news, self.busy_s)
            if again is None:
                self._note_news(step, "")
                again = seen.start_again(step, self.steps, self.news, self.busy_s)
            self.calls.keep(step.call_key, again)
            return None
        # Asked again after a wait: that is polling.
        is_polling = (step.kind == "wait" and not (ignored and not seen.outcome.equals(step.outcome))) or (
            self.last_wait > seen.last_step and not step.outcome.failed and step.kind != "wait"
        )
        had_news = self.news > seen.news
        is_between_items = had_news and self._is_between_items(step, seen)
        seen.add(step, self.steps, self.news, self.busy_s)
        self.calls.keep(step.call_key, seen)
        is_polling = is_polling or self._is_paced(step, seen)
        if (seen.has_course and not seen.is_deed) or self.segment.is_asked(step.event, seen.count):
            return None
        match = (
            self._judge_wait(step, seen)
            if is_polling
            else judge_repeat(
                step,
                seen,
                patience,
                had_news=had_news,
                is_between_items=is_between_items,
                is_patient=self._is_patient(step, seen),
            )
        )
        return structs.replace(match, ignored=ignored) if match is not None and ignored else match

    def _find_same_target(self, step: ToolStep) -> ToolStep:
        """Return a step that names its target by a handle as the first call of this target."""
        found = hash_without_handles(step)
        if found is None or not shows_target(step.outcome):
            return step
        key, handles = found
        first = self.handles.pop(key, step.call_key)
        self.handles[key] = first  # the latest is kept for longest
        same = step.as_call(first, drop_from_outcome(step.outcome, handles))
        if len(self.handles) > _MAX_HANDLES:
            del self.handles[next(iter(self.handles))]
        return same

    def _is_between_items(self, step: ToolStep, seen: RepeatedCall) -> bool:
        """Return whether a call comes between items: what leads back to their list, or is done with each."""
        if step.outcome.failed or self.steps - seen.last_step > _MAX_STEPS_TO_ITEM:
            return False
        answer, (tool, arguments, item) = step.outcome.sample, self.latest_item
        opened_before, seen.opened_by = seen.opened_by, tool
        before, seen.item_words = seen.item_words, hash_item_words(answer, arguments, item)
        if is_acknowledgement(answer) or seen.item_words not in {0, before}:
            return True
        # The same again for each of several things: a check behind each step of a rollout.
        is_other_thing = tool != "" and tool == opened_before
        event = step.event
        return (
            is_other_thing and is_verdict(answer) and not reads_content(event.action_name, event.input_data)
        )

    def _is_patient(self, step: ToolStep, seen: RepeatedCall) -> bool:
        """Return whether a call failed again after pauses made on purpose, at what may pass by itself."""
        if not step.outcome.failed:
            return False
        times, paused_s = seen.times, seen.times.paused_s
        return is_patient_retry(
            step.outcome,
            max(times.shortest_s, paused_s),
            has_times=times.waited_s > 0,
            is_pause=self.thinks or paused_s > 0,
        )

    def _is_paced(self, step: ToolStep, seen: RepeatedCall) -> bool:
        """Return whether a state that can change is looked at in even pauses, and nothing else is done."""
        if step.kind != "look" or step.outcome.failed or seen.in_a_row < seen.count:
            return False
        is_told = self.segment.is_told_to_wait or step.outcome.is_short_of_target
        if step.outcome.says_final:
            return False
        if is_told or is_status_look(step.event):
            return seen.times.is_paced(is_told=is_told)
        return step.outcome.is_short and seen.times.is_even(thinks=self.thinks)

    def _find_returned(self, step: ToolStep) -> RepeatedCall | None:
        """Return the record of a call whose result is one that it had before; None where it is new."""
        seen = self.calls.peek(step.call_key)
        return seen if seen is not None and seen.count > 1 and seen.last_step == self.steps else None

    def _note_news(self, step: ToolStep, tool: str) -> None:
        """Count a new result, and keep what may tell an item from the list that it was opened from.

        `tool` is the tool of a call that was not made before.
        """
        self.news += 1
        self.latest_item = (tool, step.arguments[:_MAX_ITEM_BYTES], step.outcome.sample)

    def _remember(self, step: ToolStep) -> None:
        self._note_news(step, step.event.action_name)
        self.calls.keep(step.call_key, RepeatedCall.start(step, self.steps, self.news, self.busy_s))

    def _judge_wait(self, step: ToolStep, seen: RepeatedCall) -> LoopMatch | None:
        """Judge equal answers of a tool that is waited for: by time and number, and not on a schedule."""
        outcome, name = step.outcome, step.event.action_name
        is_only_waiting = step.kind == "wait" and seen.in_a_row == seen.count
        is_sleep = step.kind == "wait" and outcome.size < _MAX_SLEEP_RESULT_CHARS
        if is_sleep and not (is_only_waiting or outcome.says_wait or outcome.says_nothing_new):
            return None  # what is done after the sleep is judged, not the sleep
        has_slept = seen.in_a_row < seen.count
        is_on_schedule = seen.times.is_schedule(slept=has_slept)
        if step.event.tool_kind == "schedule" or (
            is_on_schedule and not outcome.says_wait and not outcome.failed
        ):
            return None
        waited_s = seen.times.waited_s
        if not self.waits.is_too_long(name, seen.count, waited_s):
            return None
        return LoopMatch(
            pattern="waiting",
            count=seen.count,
            patience=POLLS_OF_LOOP if waited_s > 0 else POLLS_WITHOUT_TIMES,
            event_ids=tuple(seen.ids),
            sequence=(name,),
            message=f"{name} asked {seen.count} times in {waited_s / 60:.0f} minutes, and nothing changed",
            declare="schedule",
        )

    def _match_redone(self, step: ToolStep, seen: RepeatedCall | None) -> LoopMatch | None:
        """Match many looks in a row that were all made before, with the same results, in whatever order."""
        if step.kind == "wait" or (step.kind == "work" and seen is not None):
            return None
        if seen is None or step.kind != "look" or not step.outcome.known or step.outcome.outage:
            self.redone.clear()
            return None
        if step.call_key in self.redone:
            return None
        self.redone[step.call_key] = seen.ids[0]
        count = len(self.redone)
        if count < REDONE_OF_LOOP or not self._may_be_cycle(step, seen):
            return None
        before = tuple(self.redone.values())[1 - MAX_EVIDENCE_IDS :]
        return LoopMatch(
            pattern="redone",
            count=count,
            patience=REDONE_OF_LOOP,
            event_ids=(*before, step.event.event_id),
            sequence=(step.event.action_name,),
            message=f"the last {count} calls only repeat earlier ones, with the same results",
            most=_MAX_REDONE_SCORE,
        )

    def _count_runs(self, key: tuple[int, int]) -> bool:
        """Update the runs of steps that equal earlier ones, and return whether this step equals any."""
        keys = self.keys
        if key not in keys[-MAX_CYCLE_STEPS:]:
            return False
        runs = self.runs or [0] * MAX_CYCLE_STEPS
        for period in range(1, min(MAX_CYCLE_STEPS, len(keys)) + 1):
            runs[period - 1] = runs[period - 1] + 1 if keys[-period] == key else 0
        self.runs = runs
        return True

    def _append_step(self, step: ToolStep, key: tuple[int, int], *, is_new: bool) -> None:
        if is_new:
            self.runs.clear()
        self.keys.append(key)
        self.names.append(step.event.action_name)
        self.ids.append(step.event.event_id)
        if len(self.keys) > 2 * _MAX_STEPS:
            del self.keys[:-_MAX_STEPS], self.names[:-_MAX_STEPS], self.ids[:-_MAX_STEPS]

    def _match_cycle(
        self, step: ToolStep, seen: RepeatedCall | None, patience: int | None, window: int | None
    ) -> LoopMatch | None:
        # A result that differs in nothing but noise is the result it was compared with.
        outcome = step.outcome if seen is None else seen.outcome
        key = (step.call_key, outcome.raw if outcome.known else 0)
        # A call that is new in this segment closes no cycle.
        is_new = seen is None or not self._count_runs(key)
        self._append_step(step, key, is_new=is_new)
        if is_new or seen is None or not self._may_be_cycle(step, seen):
            return None
        # One look with two results in turn may be at something that goes on and off by itself.
        is_one_look = step.kind == "look" and self.keys[-2][0] == step.call_key
        is_sure = outcome.known and not is_one_look
        enough = patience or (REPEATS_IN_A_ROW if is_sure else REPEATS_WITHOUT_RESULTS)
        runs = self.runs
        for period in range(2, MAX_CYCLE_STEPS + 1):
            count = runs[period - 1] // period + 1
            if window is not None:
                count = min(count, window // period)
            # One call over and over is no cycle: it is reported as a repetition.
            if count < enough or runs[period - 1] % period or runs[0] >= period - 1:
                continue
            if self.steps - self.last_wait < period and not outcome.failed:
                return None  # it waits in between: its calls are judged by time
            sequence = tuple(self.names[-period:])
            return LoopMatch(
                pattern="cycle",
                count=count,
                patience=enough,
                event_ids=self._cycle_evidence(count, period),
                sequence=sequence,
                message=f"{' → '.join(sequence)} repeated {count} times, "
                f"{'results and all' if outcome.known else 'results not seen'}",
                most=1.0 if outcome.known else SCORE_WITHOUT_RESULTS,
                noticed_only=step.event.tool_kind == "idempotent",
            )
        return None

    def _may_be_cycle(self, step: ToolStep, seen: RepeatedCall) -> bool:
        return not (
            step.kind == "wait"
            or step.outcome.outage
            or self._is_patient(step, seen)
            or step.event.tool_kind == "schedule"
            or seen.has_course
            or is_on_schedule(step, seen)
            or self.segment.is_asked(step.event, seen.count)
        )

    def _cycle_evidence(self, count: int, period: int) -> tuple[str, ...]:
        """Return the events of the first lap of a cycle, and this step in each lap since."""
        ids = self.ids[-count * period :]
        since = ids[period + (len(ids) - 1) % period :: period]
        return (*ids[:period], *since[period - MAX_EVIDENCE_IDS :])

    def _match_previous(self, step: ToolStep) -> LoopMatch | None:
        before = self.previous
        self.previous = PreviousCall.from_step(step, before)
        if before is None or before.name != step.event.action_name:
            return None
        self.varied.record(before, step)
        return before.match_repeat(step)


def _rank(match: LoopMatch) -> tuple[bool, bool, float]:
    """Return the sort key of a match: loops first, then cycles, which say more than one of their calls."""
    return match.count >= match.patience, match.pattern == "cycle", match.score
