"""The same call with the same outcome, again and again: in a row, spread out, or in a cycle.

A repetition counts only where nothing else moved: new work or a user's new words open a new stretch,
a changed outcome is progress, and calls of one parallel batch do not repeat each other.
"""

from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.loops.neighbours import Neighbour
from steadyhelm.loops.outcomes import Outcome
from steadyhelm.loops.scope import Scope
from steadyhelm.loops.sightings import IDS_KEPT, Sighting, copied
from steadyhelm.loops.steps import Step, call_key, read_step
from steadyhelm.noise import volatile_parts

IN_A_ROW: Final = 3
SPREAD_OUT: Final = 4
WITHOUT_RESULTS: Final = 4
WAITING: Final = 10
OUTAGE: Final = 8
LONGEST_CYCLE: Final = 8

_CALLS_KEPT: Final = 40
_STEPS_KEPT: Final = 64


class Seen(Struct):
    """A call made before in this stretch, and what came of it."""

    outcome: Outcome
    last_seq: int
    last_step: int
    ids: list[str]
    count: int = 1
    in_a_row: int = 1


class Repetition(Struct):
    """What a run has done since something last moved.

    `runs[p - 1]` counts the steps in a row that equalled the step p places before; it is empty after a step
    that equalled none of them.
    """

    scope: Scope = field(default_factory=Scope)
    calls: dict[int, Seen] = field(default_factory=dict)
    keys: list[tuple[int, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    steps: int = 0
    waited_at: int = -1
    before: Neighbour | None = None

    def take(
        self, event: TraceEvent, patience: int | None = None, window: int | None = None
    ) -> Sighting | None:
        """What this event repeats, if anything.

        `patience` replaces the usual number of repetitions; only the last `window` steps count.
        """
        if event.action_type == TOOL_CALL:
            return self.add(read_step(event), patience, window)
        if self.scope.takes_words(event):
            self._open()
            self.before = None
        return None

    def foresee(
        self, call: TraceEvent, patience: int | None = None, window: int | None = None
    ) -> Sighting | None:
        """What a call not yet made would repeat if it came to the same as before."""
        seen = self.calls.get(call_key(call)) if self.calls else None
        return None if seen is None else copied(self).add(Step(call, seen.outcome), patience, window)

    def _open(self) -> None:
        self.calls.clear()
        self.keys.clear()
        self.names.clear()
        self.ids.clear()
        self.runs.clear()

    def add(self, step: Step, patience: int | None = None, window: int | None = None) -> Sighting | None:
        """What this step repeats, if anything."""
        if step.is_work_done and self.scope.takes_work(step.call):
            self._open()
        seen = self.calls.get(step.call)
        if seen is not None and step.outcome.known and not step.had_seen(seen.last_seq):
            return None  # issued together with an equal call: one decision, not two
        if step.kind == "plan":
            return self._again(step, seen, patience, window)  # written down between two steps, it is none
        self.steps += 1
        if step.kind == "wait":
            self.waited_at = self.steps
        again = None
        if seen is None:
            self._remember(step)
        else:
            again = self._again(step, seen, patience, window)
        # What is new in this stretch closes no cycle.
        is_moving = seen is None or not self._follow_runs(step)
        self._note(step, is_moving=is_moving)
        cycle = None if is_moving else self._cycle(step, patience, window)
        near = self._near(step)
        if again is None and cycle is None:
            return near
        return max((it for it in (again, cycle, near) if it is not None), key=_by_weight)

    def _again(
        self, step: Step, seen: Seen | None, patience: int | None, window: int | None
    ) -> Sighting | None:
        event, outcome = step.event, step.outcome
        if seen is None or (window is not None and self.steps - seen.last_step >= window):
            self._remember(step)
            return None
        if seen.outcome.known != outcome.known or not seen.outcome.equals(outcome):
            self._remember(step)
            return None
        # What was seen lately is forgotten last.
        self.calls[step.call] = self.calls.pop(step.call)
        ignored = () if seen.outcome.raw == outcome.raw else volatile_parts(outcome.sample)
        # Asked again after a wait: that is polling.
        polls = step.kind == "wait" or (self.waited_at > seen.last_step and not outcome.failed)
        seen.count += 1
        seen.in_a_row = seen.in_a_row + 1 if self.steps - seen.last_step == 1 else 1
        seen.last_seq, seen.last_step = event.seq, self.steps
        seen.ids = [*seen.ids, event.event_id][-IDS_KEPT:]
        sighting = _repeated(step, seen, patience, polls=polls)
        return structs.replace(sighting, ignored=ignored) if sighting is not None and ignored else sighting

    def _remember(self, step: Step) -> None:
        event, calls = step.event, self.calls
        calls.pop(step.call, None)
        calls[step.call] = Seen(step.outcome, event.seq, self.steps, [event.event_id])
        if len(calls) > _CALLS_KEPT:
            del calls[next(iter(calls))]

    def _follow_runs(self, step: Step) -> bool:
        """Count on the runs of steps that equal earlier ones; whether this step equals any."""
        key, keys = _key(step), self.keys
        if key not in keys[-LONGEST_CYCLE:]:
            return False
        runs = self.runs or [0] * LONGEST_CYCLE
        for period in range(1, min(LONGEST_CYCLE, len(keys)) + 1):
            runs[period - 1] = runs[period - 1] + 1 if keys[-period] == key else 0
        self.runs = runs
        return True

    def _note(self, step: Step, *, is_moving: bool) -> None:
        if is_moving:
            self.runs.clear()
        self.keys.append(_key(step))
        self.names.append(step.event.action_name)
        self.ids.append(step.event.event_id)
        if len(self.keys) > 2 * _STEPS_KEPT:
            del self.keys[:-_STEPS_KEPT], self.names[:-_STEPS_KEPT], self.ids[:-_STEPS_KEPT]

    def _cycle(self, step: Step, patience: int | None, window: int | None) -> Sighting | None:
        outcome, runs = step.outcome, self.runs
        if step.kind == "wait" or outcome.outage:
            return None
        usual = patience or (IN_A_ROW if outcome.known else WITHOUT_RESULTS)
        for period in range(2, LONGEST_CYCLE + 1):
            enough = WAITING if self.steps - self.waited_at < period and not outcome.failed else usual
            count = runs[period - 1] // period + 1
            if window is not None:
                count = min(count, window // period)
            # One call over and over is no cycle: it is told as what it is.
            if count >= enough and runs[period - 1] % period == 0 and runs[0] < period - 1:
                sequence = tuple(self.names[-period:])
                return Sighting(
                    pattern="cycle",
                    count=count,
                    patience=enough,
                    event_ids=self._laps(count, period),
                    sequence=sequence,
                    message=f"{' → '.join(sequence)} repeated {count} times, results and all",
                )
        return None

    def _laps(self, count: int, period: int) -> tuple[str, ...]:
        """The first lap of a cycle, and this step in each lap since: those it repeats, not its neighbour."""
        ids = self.ids[-count * period :]
        since = ids[period + (len(ids) - 1) % period :: period]
        return (*ids[:period], *since[period - IDS_KEPT :])

    def _near(self, step: Step) -> Sighting | None:
        before = self.before
        self.before = Neighbour.of(step, before)
        return None if before is None or before.name != step.event.action_name else before.again(step)


def _key(step: Step) -> tuple[int, int]:
    """What a step must have in common with another to be the same step of a cycle."""
    return step.call, step.outcome.raw if step.outcome.known else 0


def _repeated(step: Step, seen: Seen, patience: int | None, *, polls: bool) -> Sighting | None:
    outcome, name = step.outcome, step.event.action_name
    in_a_row = seen.in_a_row == seen.count
    if polls or outcome.outage:
        enough = WAITING if polls else OUTAGE
        if seen.count < enough:
            return None
    elif patience is not None:
        enough = patience if in_a_row else patience + 1
    elif not outcome.known:
        enough = WITHOUT_RESULTS
    else:
        enough = IN_A_ROW if in_a_row else SPREAD_OUT
    came_back = (
        "no result" if not outcome.known else "the same error" if outcome.failed else "the same result"
    )
    how = "in a row" if in_a_row else "without new work between"
    return Sighting(
        pattern="repetition" if in_a_row else "slow loop",
        count=seen.count,
        patience=enough,
        event_ids=tuple(seen.ids),
        sequence=(name,),
        message=f"{name} called {seen.count} times {how} with the same arguments and {came_back}",
    )


def _by_weight(sighting: Sighting) -> tuple[bool, bool, float]:
    """What is a loop counts most, and a cycle says more about it than one of its calls."""
    return sighting.count >= sighting.patience, sighting.pattern == "cycle", sighting.score
