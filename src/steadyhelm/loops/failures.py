"""Failing again: the same call, the same error, or one approach after another."""

from typing import Final

from msgspec import Struct, field

from steadyhelm.events import CALL_REFUSED, NOT_CARRIED_OUT, STATE_TRANSITION, TOOL_CALL, TraceEvent
from steadyhelm.loops.attempts import Attempt, Streak, Tally
from steadyhelm.loops.outcomes import SAMPLE, error_key
from steadyhelm.loops.scope import Scope
from steadyhelm.loops.sightings import Sighting, copied, is_told
from steadyhelm.loops.steps import Step, call_key, read_step

SAME_CALL: Final = 3
SAME_COMMAND_AFTER_WORK: Final = 4
SAME_ERROR: Final = 3
SAME_ERROR_ELSEWHERE: Final = 5
ANY_ERROR: Final = 6

_ALIKE: Final = 0.4
_STEPS_APART: Final = 8
# What a caller says about its own doing is no failure of the agent's.
_NOT_A_FAILURE: Final = frozenset({CALL_REFUSED, NOT_CARRIED_OUT})
_KEPT: Final = 32


class Failures(Struct):
    """What has failed lately.

    `calls` and `errors` are forgotten when new work is done, `commands` are not: a test that fails alike
    however much is edited goes in circles too. A user's new words hide none of them.
    `stretch` counts what opened a new one, `spoken_at` is the step at which the user last said something new.
    """

    scope: Scope = field(default_factory=Scope)
    calls: dict[int, Tally] = field(default_factory=dict)
    commands: dict[int, Tally] = field(default_factory=dict)
    errors: list[Streak] = field(default_factory=list)
    in_a_row: Streak | None = None
    steps: int = 0
    stretch: int = 0
    spoken_at: int = 0
    unanswered: Attempt | None = None

    def take(self, event: TraceEvent) -> Sighting | None:
        """What this event fails at again, if anything; the surest of several."""
        if event.action_type == TOOL_CALL:
            return self.add(read_step(event))
        if self.scope.takes_words(event):
            self.stretch += 1
            self.spoken_at = self.steps
            self.in_a_row = None
        elif (
            event.action_type == STATE_TRANSITION and event.error and event.action_name not in _NOT_A_FAILURE
        ):
            return self._told_apart(event.error)
        return None

    def foresee(self, call: TraceEvent) -> Sighting | None:
        """What a call not yet made would fail at again if it failed as before.

        After new work or a user's words nobody can say that it would.
        """
        tally = self.calls.get(call_key(call)) if self.calls else None
        if tally is None or tally.last_step <= self.spoken_at:
            return None
        return copied(self).add(Step(call, tally.outcome))

    def add(self, step: Step) -> Sighting | None:
        """What this step fails at again, if anything."""
        if step.is_work_done and self.scope.takes_work(step.call):
            self.stretch += 1
            self.calls.clear()
            self.errors.clear()
        self.steps += 1
        outcome = step.outcome
        self.unanswered = None if outcome.known else Attempt.of(step)
        if not outcome.failed:
            if outcome.known:
                self._succeeded(step.call)
            return None
        return self._failed(step) if step.is_real_failure else None

    def _succeeded(self, call: int) -> None:
        if self.calls or self.commands:
            self.calls.pop(call, None)
            self.commands.pop(call, None)
        self.in_a_row = None

    def _failed(self, step: Step) -> Sighting | None:
        attempt = Attempt.of(step)
        found = (
            self._same_call(step, attempt),
            self._same_command(step, attempt),
            self._failed_alike(attempt, step.outcome.sample),
        )
        return max((it for it in found if it is not None), key=lambda it: it.score, default=None)

    def _told_apart(self, error: str) -> Sighting | None:
        """The framework tells of the failure apart from the call."""
        attempt, self.unanswered = self.unanswered, None
        return None if attempt is None else self._failed_alike(attempt, error)

    def _same_call(self, step: Step, attempt: Attempt) -> Sighting | None:
        tally = self.calls.get(step.call)
        if tally is None:
            _keep(self.calls, step.call, self._first(step))
            return None
        if not step.had_seen(tally.last_seq):
            return None
        tally.is_repetition &= tally.outcome.equals(step.outcome)
        tally.outcome = step.outcome
        tally.add(attempt, self.steps)
        _keep(self.calls, step.call, tally)
        if self._is_told_elsewhere(tally):
            return None
        what = f"{attempt.name} failed {tally.count} times with the same arguments"
        return _sighting("failing call", tally, SAME_CALL, what)

    def _same_command(self, step: Step, attempt: Attempt) -> Sighting | None:
        tally = self.commands.get(step.call)
        if tally is None or not tally.outcome.equals(step.outcome):
            _keep(self.commands, step.call, self._first(step))
            return None
        if not step.had_seen(tally.last_seq):
            return None
        tally.add(attempt, self.steps)
        _keep(self.commands, step.call, tally)
        if tally.count < SAME_COMMAND_AFTER_WORK or self._is_told_elsewhere(tally):
            return None
        what = f"{attempt.name} failed {tally.count} times with the same error, whatever was changed"
        return _sighting("test-fail loop", tally, SAME_COMMAND_AFTER_WORK, what)

    def _failed_alike(self, attempt: Attempt, error: str) -> Sighting | None:
        said = f"{attempt.name} {error}"[:SAMPLE]
        self.errors = [it for it in self.errors if self.steps - it.last_step <= _STEPS_APART]
        streak = self._streak_of(said)
        if streak is None:
            self.errors.append(Streak.begun(attempt, self.steps, self.stretch, said))
            return self._dead_end(attempt)
        same_error = self._same_error(attempt, streak)
        if streak.is_told:
            return same_error  # one more of a loop that was told: it leads into no other
        return same_error or self._dead_end(attempt)

    def _same_error(self, attempt: Attempt, streak: Streak) -> Sighting | None:
        if not attempt.had_seen(streak.last_seq):
            return None
        streak.add(attempt, self.steps)
        # The attempts differ, the error does not: the first of them and the latest prove it.
        streak.ids = [streak.ids[0], attempt.event_id]
        enough = SAME_ERROR if streak.alike >= _ALIKE else SAME_ERROR_ELSEWHERE
        if streak.count < enough or self._is_told_elsewhere(streak) or not is_told(streak.count, enough):
            return None
        streak.is_told = True
        what = f"{attempt.name} failed {streak.count} times with the same error"
        return _sighting("same error", streak, enough, what)

    def _streak_of(self, error: str) -> Streak | None:
        if not self.errors:
            return None
        key = error_key(error)
        return next((it for it in self.errors if it.is_about(key)), None)

    def _dead_end(self, attempt: Attempt) -> Sighting | None:
        streak = self.in_a_row
        if streak is None:
            self.in_a_row = Streak.begun(attempt, self.steps, self.stretch)
            return None
        if not attempt.had_seen(streak.last_seq):
            return None
        streak.add(attempt, self.steps)
        if streak.count < ANY_ERROR or streak.is_repetition or not is_told(streak.count, ANY_ERROR):
            return None
        what = f"{streak.count} calls in a row have failed, {attempt.name} the last of them"
        return _sighting("dead end", streak, ANY_ERROR, what)

    def _is_told_elsewhere(self, failures: Tally | Streak) -> bool:
        """Whether all of them lie in this stretch and are the same: then they are told as repetition."""
        return failures.is_repetition and failures.stretch == self.stretch

    def _first(self, step: Step) -> Tally:
        event = step.event
        return Tally(step.outcome, self.stretch, event.seq, self.steps, [event.event_id])


def _keep(tallies: dict[int, Tally], key: int, tally: Tally) -> None:
    """Remember a failure; what was seen lately is forgotten last."""
    tallies.pop(key, None)
    tallies[key] = tally
    if len(tallies) > _KEPT:
        del tallies[next(iter(tallies))]


def _sighting(pattern: str, failures: Tally | Streak, enough: int, what: str) -> Sighting:
    return Sighting(
        pattern=pattern, count=failures.count, patience=enough, event_ids=tuple(failures.ids), message=what
    )
