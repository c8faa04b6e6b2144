"""Failing again: the same call, the same error, or one approach after another."""

from typing import Final, Self

from msgspec import Struct, field

from holdfast.events import STATE_TRANSITION, TOOL_CALL, TraceEvent
from holdfast.loops.likeness import likeness, words_of
from holdfast.loops.scope import Scope
from holdfast.loops.sightings import IDS_KEPT, Sighting, is_told
from holdfast.loops.steps import Step, error_key, read_step, same_outcome

SAME_CALL: Final = 3
SAME_COMMAND_AFTER_WORK: Final = 4
SAME_ERROR: Final = 3
SAME_ERROR_ELSEWHERE: Final = 5
ANY_ERROR: Final = 6

_ALIKE: Final = 0.4
# Where so few words were asked, they tell nothing apart: the error alone counts.
_NEXT_TO_NOTHING: Final = 2
_STEPS_APART: Final = 8
_KEPT: Final = 32


class Tally(Struct):
    """A failure seen before."""

    count: int
    last_seq: int
    last_step: int
    ids: list[str]
    raw: int = 0
    sample: str = ""
    size: int = 0
    words: list[int] = field(default_factory=list)
    alike: float = 1.0
    # The same call failing alike in one stretch is plain repetition, and told as such.
    is_repetition: bool = True

    def add(self, attempt: "Attempt", at: int) -> None:
        """Once more."""
        self.count += 1
        self.last_seq, self.last_step = attempt.seq, at
        self.ids = [*self.ids, attempt.event_id][-IDS_KEPT:]

    def add_other(self, attempt: "Attempt", words: list[int], at: int) -> None:
        """Once more, perhaps with other words."""
        if max(len(words), len(self.words)) > _NEXT_TO_NOTHING:
            self.alike = min(self.alike, likeness(words, self.words))
        self.is_repetition &= words == self.words
        self.words = words
        self.add(attempt, at)


class Attempt(Struct):
    """A call as far as its failing matters."""

    name: str
    event_id: str
    seq: int
    started_seq: int | None
    asked: bytes
    is_answered: bool

    @classmethod
    def of(cls, step: Step) -> Self:
        """The attempt that a step is."""
        event = step.event
        return cls(event.action_name, event.event_id, event.seq, event.started_seq, step.asked, step.known)

    def had_seen(self, seq: int) -> bool:
        """Whether the agent had seen the event at that place when it made this call."""
        return self.started_seq is None or self.started_seq > seq


class Failures(Struct):
    """What has failed lately.

    `calls` and `errors` are forgotten when new work is done, `commands` are not: a test that fails alike
    however much is edited goes in circles too. A user's new words hide none of them.
    """

    scope: Scope = field(default_factory=Scope)
    calls: dict[int, Tally] = field(default_factory=dict)
    commands: dict[int, Tally] = field(default_factory=dict)
    errors: dict[int, Tally] = field(default_factory=dict)
    in_a_row: Tally | None = None
    steps: int = 0
    unanswered: Attempt | None = None

    def take(self, event: TraceEvent) -> Sighting | None:
        """What this event fails at again, if anything; the surest of several."""
        opening = self.scope.take(event)
        if opening == "work":
            self.calls.clear()
            self.errors.clear()
        elif opening == "words":
            self.in_a_row = None
        if opening:
            # Beyond this point nobody else counts the same call again.
            for tally in (*self.calls.values(), *self.commands.values(), *self.errors.values()):
                tally.is_repetition = False
        if event.action_type == STATE_TRANSITION and event.error and self.unanswered is not None:
            # The framework told of the failure apart from the call.
            attempt, self.unanswered = self.unanswered, None
            return self._failed_alike(attempt, event.error)
        if event.action_type != TOOL_CALL:
            return None
        step = read_step(event)
        self.steps += 1
        self.unanswered = None if step.known else Attempt.of(step)
        if not step.is_real_failure:
            self._succeeded(step)
            return None
        attempt = Attempt.of(step)
        found = [
            self._same_call(step, attempt),
            self._same_command(step, attempt),
            self._failed_alike(attempt, step.sample),
        ]
        return max((it for it in found if it is not None), key=lambda it: it.score, default=None)

    def _succeeded(self, step: Step) -> None:
        if step.known and not step.failed:
            self.calls.pop(step.call, None)
            self.commands.pop(step.call, None)
            self.in_a_row = None

    def _same_call(self, step: Step, attempt: Attempt) -> Sighting | None:
        tally = self.calls.get(step.call)
        if tally is None:
            _keep(self.calls, step.call, _first(step, self.steps))
            return None
        if not step.had_seen(tally.last_seq):
            return None
        tally.is_repetition &= same_outcome(tally.raw, tally.sample, tally.size, step)
        tally.raw, tally.sample, tally.size = step.raw, step.sample, step.size
        tally.add(attempt, self.steps)
        _keep(self.calls, step.call, tally)
        if tally.is_repetition:
            return None
        what = f"{attempt.name} failed {tally.count} times with the same arguments"
        return _sighting("failing call", tally, SAME_CALL, what)

    def _same_command(self, step: Step, attempt: Attempt) -> Sighting | None:
        tally = self.commands.get(step.call)
        if tally is None or not same_outcome(tally.raw, tally.sample, tally.size, step):
            _keep(self.commands, step.call, _first(step, self.steps))
            return None
        if not step.had_seen(tally.last_seq):
            return None
        tally.add(attempt, self.steps)
        _keep(self.commands, step.call, tally)
        if tally.count < SAME_COMMAND_AFTER_WORK or tally.is_repetition:
            return None
        what = (
            f"{step.event.action_name} failed {tally.count} times with the same error, whatever was changed"
        )
        return _sighting("test-fail loop", tally, SAME_COMMAND_AFTER_WORK, what)

    def _failed_alike(self, attempt: Attempt, error: str) -> Sighting | None:
        words = words_of(attempt.asked)
        dead_end = self._dead_end(attempt, words)
        return self._same_error(attempt, words, error) or dead_end

    def _same_error(self, attempt: Attempt, words: list[int], error: str) -> Sighting | None:
        key = error_key(f"{attempt.name} {error}")
        tally = self.errors.get(key)
        if tally is None or self.steps - tally.last_step > _STEPS_APART:
            _keep(self.errors, key, _begun(attempt, words, self.steps))
            return None
        if not attempt.had_seen(tally.last_seq):
            return None
        tally.add_other(attempt, words, self.steps)
        _keep(self.errors, key, tally)
        enough = SAME_ERROR if tally.alike >= _ALIKE else SAME_ERROR_ELSEWHERE
        if tally.count < enough or tally.is_repetition or not is_told(tally.count, enough):
            return None
        return _sighting(
            "same error", tally, enough, f"{attempt.name} failed {tally.count} times with the same error"
        )

    def _dead_end(self, attempt: Attempt, words: list[int]) -> Sighting | None:
        tally = self.in_a_row
        if tally is None:
            self.in_a_row = _begun(attempt, words, self.steps)
            return None
        if not attempt.had_seen(tally.last_seq):
            return None
        tally.add_other(attempt, words, self.steps)
        if tally.count < ANY_ERROR or tally.is_repetition or not is_told(tally.count, ANY_ERROR):
            return None
        what = f"{tally.count} calls in a row have failed, {attempt.name} the last of them"
        return _sighting("dead end", tally, ANY_ERROR, what)


def _begun(attempt: Attempt, words: list[int], at: int) -> Tally:
    return Tally(
        count=1,
        last_seq=attempt.seq,
        last_step=at,
        ids=[attempt.event_id],
        words=words,
        is_repetition=attempt.is_answered,
    )


def _first(step: Step, at: int) -> Tally:
    event = step.event
    return Tally(
        count=1,
        last_seq=event.seq,
        last_step=at,
        ids=[event.event_id],
        raw=step.raw,
        sample=step.sample,
        size=step.size,
    )


def _keep(tallies: dict[int, Tally], key: int, tally: Tally) -> None:
    """Remember a failure; what was seen lately is forgotten last."""
    tallies.pop(key, None)
    tallies[key] = tally
    if len(tallies) > _KEPT:
        del tallies[next(iter(tallies))]


def _sighting(pattern: str, tally: Tally, enough: int, what: str) -> Sighting:
    return Sighting(
        pattern=pattern, count=tally.count, patience=enough, event_ids=tuple(tally.ids), message=what
    )
