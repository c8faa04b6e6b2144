"""The same call with the same outcome, again and again: in a row, spread out, or in a cycle.

A repetition counts only where nothing else moved: new work or a user's new words open a new stretch,
a changed outcome is progress, and calls of one parallel batch do not repeat each other.
"""

from typing import Final

from msgspec import Struct, field, structs

from holdfast.events import TOOL_CALL, TraceEvent
from holdfast.loops.likeness import likeness, words_of
from holdfast.loops.scope import Scope
from holdfast.loops.sightings import IDS_KEPT, Sighting
from holdfast.loops.steps import Step, read_step, same_outcome
from holdfast.noise import volatile_parts

IN_A_ROW: Final = 3
SPREAD_OUT: Final = 4
WITHOUT_RESULTS: Final = 4
WAITING: Final = 10
OUTAGE: Final = 8
LONGEST_CYCLE: Final = 8

_CALLS_KEPT: Final = 40
_STEPS_KEPT: Final = 64
_NEARLY_THE_SAME: Final = 0.98
_PIECES_APART: Final = 8


class Seen(Struct):
    """A call made before in this stretch, and what came of it."""

    raw: int
    sample: str
    size: int
    known: bool
    last_seq: int
    last_step: int
    count: int = 1
    in_a_row: int = 1
    ids: list[str] = field(default_factory=list)


class Before(Struct):
    """The call made just before."""

    name: str
    asked: bytes
    event_id: str
    words: list[int] | None = None


class Repetition(Struct):
    """What a run has done since something last moved.

    `runs[p - 1]` counts the steps in a row that equalled the step p places before.
    """

    scope: Scope = field(default_factory=Scope)
    calls: dict[int, Seen] = field(default_factory=dict)
    keys: list[tuple[int, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    runs: list[int] = field(default_factory=lambda: [0] * LONGEST_CYCLE)
    steps: int = 0
    waited_at: int = -1
    before: Before | None = None

    def take(
        self, event: TraceEvent, patience: int | None = None, window: int | None = None
    ) -> Sighting | None:
        """What this event repeats, if anything.

        `patience` replaces the usual number of repetitions; only the last `window` steps count.
        """
        opening = self.scope.take(event)
        if opening:
            self._open()
        if opening == "words":
            self.before = None
        if event.action_type != TOOL_CALL:
            return None
        step = read_step(event)
        if self._is_of_one_batch(step):
            return None
        if step.kind == "plan":
            return self._again(step, patience, window)  # written down between two steps, it is no step itself
        self.steps += 1
        if step.kind == "wait":
            self.waited_at = self.steps
        again = self._again(step, patience, window)
        cycle = self._cycle(step, patience, window)
        near = self._near(step)
        return max((it for it in (again, cycle, near) if it is not None), key=_by_weight, default=None)

    def _open(self) -> None:
        self.calls.clear()
        self.keys.clear()
        self.names.clear()
        self.ids.clear()
        self.runs = [0] * LONGEST_CYCLE

    def _is_of_one_batch(self, step: Step) -> bool:
        """Whether it was issued together with an equal call: one decision, not two."""
        seen = self.calls.get(step.call)
        return seen is not None and step.known and not step.had_seen(seen.last_seq)

    def _again(self, step: Step, patience: int | None, window: int | None) -> Sighting | None:
        event = step.event
        seen = self.calls.get(step.call)
        forgotten = window is not None and seen is not None and self.steps - seen.last_step >= window
        if seen is None or forgotten or seen.known != step.known:
            self._remember(step)
            return None
        if not same_outcome(seen.raw, seen.sample, seen.size, step):
            self._remember(step)
            return None
        # What was seen lately is forgotten last.
        self.calls[step.call] = self.calls.pop(step.call)
        ignored = () if seen.raw == step.raw else volatile_parts(step.sample)
        # Asked again after a wait: that is polling.
        polls = step.kind == "wait" or (self.waited_at > seen.last_step and not step.failed)
        seen.count += 1
        seen.in_a_row = seen.in_a_row + 1 if self.steps - seen.last_step == 1 else 1
        seen.last_seq, seen.last_step = event.seq, self.steps
        seen.ids = [*seen.ids, event.event_id][-IDS_KEPT:]
        sighting = self._sighting(step, seen, patience, polls=polls)
        return structs.replace(sighting, ignored=ignored) if sighting is not None and ignored else sighting

    def _sighting(self, step: Step, seen: Seen, patience: int | None, *, polls: bool) -> Sighting | None:
        in_a_row, name = seen.in_a_row == seen.count, step.event.action_name
        if polls or step.outage:
            enough = WAITING if polls else OUTAGE
            if seen.count < enough:
                return None
        elif patience is not None:
            enough = patience if in_a_row else patience + 1
        elif not step.known:
            enough = WITHOUT_RESULTS
        else:
            enough = IN_A_ROW if in_a_row else SPREAD_OUT
        outcome = "no result" if not step.known else "the same error" if step.failed else "the same result"
        how = "in a row" if in_a_row else "without new work between"
        return Sighting(
            pattern="repetition" if in_a_row else "slow loop",
            count=seen.count,
            patience=enough,
            event_ids=tuple(seen.ids),
            sequence=(name,),
            message=f"{name} called {seen.count} times {how} with the same arguments and {outcome}",
        )

    def _remember(self, step: Step) -> None:
        event = step.event
        self.calls.pop(step.call, None)
        self.calls[step.call] = Seen(
            raw=step.raw,
            sample=step.sample,
            size=step.size,
            known=step.known,
            last_seq=event.seq,
            last_step=self.steps,
            ids=[event.event_id],
        )
        if len(self.calls) > _CALLS_KEPT:
            del self.calls[next(iter(self.calls))]

    def _cycle(self, step: Step, patience: int | None, window: int | None) -> Sighting | None:
        key = (step.call, step.raw if step.known else 0)
        keys, runs = self.keys, self.runs
        if key in keys[-LONGEST_CYCLE:]:
            for period in range(1, min(LONGEST_CYCLE, len(keys)) + 1):
                runs[period - 1] = runs[period - 1] + 1 if keys[-period] == key else 0
            is_moving = False
        else:
            self.runs = runs = [0] * LONGEST_CYCLE
            is_moving = True
        keys.append(key)
        self.names.append(step.event.action_name)
        self.ids.append(step.event.event_id)
        if len(keys) > 2 * _STEPS_KEPT:
            del keys[:-_STEPS_KEPT], self.names[:-_STEPS_KEPT], self.ids[:-_STEPS_KEPT]
        if is_moving or step.kind == "wait" or step.outage:
            return None
        usual = patience or (IN_A_ROW if step.known else WITHOUT_RESULTS)
        for period in range(2, LONGEST_CYCLE + 1):
            enough = WAITING if self.steps - self.waited_at < period and not step.failed else usual
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
                    event_ids=tuple(self.ids[-count * period :][-IDS_KEPT:]),
                    sequence=sequence,
                    message=f"{' → '.join(sequence)} repeated {count} times, results and all",
                )
        return None

    def _near(self, step: Step) -> Sighting | None:
        """The call just made, with its words in another order or a word apart: noticed, not reported."""
        name, asked = step.event.action_name, step.asked
        before, now = self.before, Before(name, asked, step.event.event_id)
        self.before = now
        if before is None or before.name != name or before.asked == asked or not asked:
            return None
        if abs(len(asked) - len(before.asked)) > len(asked) // 8 or step.kind == "wait":
            return None
        # Words are costly to take apart: texts that share few pieces between spaces share few words.
        if len(set(asked.split()) ^ set(before.asked.split())) > _PIECES_APART:
            return None
        now.words = words_of(asked)
        if likeness(now.words, before.words or words_of(before.asked)) < _NEARLY_THE_SAME:
            return None
        return Sighting(
            pattern="near repetition",
            count=2,
            patience=IN_A_ROW,
            event_ids=(before.event_id, step.event.event_id),
            sequence=(name,),
            message=f"{name} called again with nearly the same arguments",
            noticed_only=True,
        )


def _by_weight(sighting: Sighting) -> tuple[bool, bool, float]:
    """What is a loop counts most, and a cycle says more about it than one of its calls."""
    return sighting.count >= sighting.patience, sighting.pattern == "cycle", sighting.score
