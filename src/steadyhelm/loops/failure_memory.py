"""What has failed lately in a run: one call, one command, one error, or one attempt after another."""

from typing import Final

from msgspec import Struct, field

from steadyhelm.events import (
    CALL_REFUSED,
    GUIDANCE_DELIVERED,
    LLM_REQUEST,
    NOT_CARRIED_OUT,
    STATE_TRANSITION,
    TOOL_CALL,
    TraceEvent,
)
from steadyhelm.fingerprints import hash_call
from steadyhelm.loops.echoes import is_equal_but_echo
from steadyhelm.loops.failure_words import takes_item
from steadyhelm.loops.failures import MAX_STEPS_BETWEEN, Attempt, FailedCall, FailureRun, is_other_setting
from steadyhelm.loops.falling import FallingNumbers
from steadyhelm.loops.fresh_names import mask_made_up_names
from steadyhelm.loops.guessed_tools import GuessedTools
from steadyhelm.loops.loop_detector import (
    LoopMatch,
    SegmentTracker,
    copy_memory,
    is_report_due,
)
from steadyhelm.loops.outage_walls import OutageWall
from steadyhelm.loops.outcomes import MAX_SAMPLE_CHARS, hash_error
from steadyhelm.loops.patient_retries import RetryPauses
from steadyhelm.loops.rounds import RoundMemory
from steadyhelm.loops.steps import ToolStep, identify_call, read_step
from steadyhelm.loops.targets import relate_calls
from steadyhelm.loops.undoing import sets_up

SAME_CALL_FAILURES: Final = 3
SAME_COMMAND_FAILURES: Final = 4
SAME_ERROR_SIMILAR_CALLS: Final = 3
SAME_ERROR_OTHER_CALLS: Final = 5
FAILURES_IN_A_ROW: Final = 6
OUTAGES_OF_LOOP: Final = 8

_SIMILAR_CALL_OVERLAP: Final = 0.4
_MAX_STEPS_RENAMED: Final = 64
_MAX_CALLS: Final = 32
_DIGITS: Final = b"0123456789"
# What a caller reports about its own action is not a failure of the agent.
_CALLER_EVENTS: Final = frozenset({CALL_REFUSED, GUIDANCE_DELIVERED, NOT_CARRIED_OUT})


class FailureMemory(Struct):
    """What has failed lately.

    `calls` and `errors` are cleared when new work is done, `commands` are not: a test that fails in the same
    way however much is edited goes in circles too. `renamed` holds those with a made-up name in their
    arguments, by what is left without it. A new user message clears none of them.
    `segment_number` counts the segments so far, `message_step` is the step of the latest new user message.
    """

    segment: SegmentTracker = field(default_factory=SegmentTracker)
    calls: dict[int, FailedCall] = field(default_factory=dict)
    commands: dict[int, FailedCall] = field(default_factory=dict)
    errors: list[FailureRun] = field(default_factory=list)
    in_a_row: FailureRun | None = None
    steps: int = 0
    segment_number: int = 0
    message_step: int = 0
    outages: dict[int, FailedCall] = field(default_factory=dict)
    without_result: Attempt | None = None
    guesses: GuessedTools = field(default_factory=GuessedTools)
    rounds: RoundMemory = field(default_factory=RoundMemory)
    renamed: dict[int, FailedCall] = field(default_factory=dict)
    falling: FallingNumbers = field(default_factory=FallingNumbers)
    pauses: RetryPauses = field(default_factory=RetryPauses)
    wall: OutageWall = field(default_factory=OutageWall)

    def observe(self, event: TraceEvent) -> LoopMatch | None:
        """Record an event, and return what it fails at again, if anything; the surest of several."""
        if event.action_type == TOOL_CALL:
            return self.observe_step(read_step(event))
        if event.action_type == LLM_REQUEST:
            self.pauses.record_reply(event)
        elif self.segment.record_message(event):
            self.segment_number += 1
            self.message_step = self.steps
            self.in_a_row = None
            self.rounds.clear()
        elif (
            event.action_type == STATE_TRANSITION and event.error and event.action_name not in _CALLER_EVENTS
        ):
            return self._record_separate_error(event.error)
        return None

    def foresee(self, call: TraceEvent) -> LoopMatch | None:
        """Return what a call not yet made would fail at again if it failed as before. Changes no state.

        After new work or a new user message that cannot be assumed.
        """
        failed = self.calls.get(identify_call(call)) if self.calls else None
        if failed is None or failed.last_step <= self.message_step:
            return None
        return copy_memory(self).observe_step(ToolStep(call, failed.outcome))

    def observe_step(self, step: ToolStep) -> LoopMatch | None:
        """Record a step, and return what it fails at again, if anything."""
        around = self.rounds.observe(step)
        if around is not None and self.segment.is_asked(step.event, around.count):
            around = None
        failed = self._observe_outcome(step)
        return failed if around is None or (failed is not None and failed.score >= around.score) else around

    def _observe_outcome(self, step: ToolStep) -> LoopMatch | None:
        if step.is_work_done and self.segment.record_work(step):
            self.segment_number += 1
            self.calls.clear()
            self.errors.clear()
            self.outages.clear()
            if step.takes_next:
                self.commands.clear()  # what fails now fails at the next thing
                self.renamed.clear()
        self.steps += 1
        self.pauses.record_work(step)
        outcome = step.outcome
        self.without_result = None if outcome.known else Attempt.from_step(step)
        if not outcome.failed:
            if outcome.known:
                self._record_success(step)
            return None
        if outcome.known and step.kind != "wait" and self.falling.record(step):
            self._record_progress(step.call_key)
        is_patient = self.pauses.record_failure(step)
        if (outcome.outage or is_patient) and step.kind != "wait":
            wall = self.wall.record(step, self.pauses) if outcome.outage else None
            if wall is not None and self.segment.is_asked(step.event, wall.count):
                wall = None
            return self._match_outage(step) or wall
        return self._record_failure(step) if step.is_real_failure else None

    def _match_outage(self, step: ToolStep) -> LoopMatch | None:
        """Match a call that meets one outage after another: the same one again is a plain repetition."""
        failed = self.outages.get(step.call_key)
        if failed is None:
            _keep(self.outages, step.call_key, self._first_failure(step))
            return None
        if not step.has_seen(failed.last_seq):
            return None
        failed.is_repetition &= failed.outcome.equals(step.outcome)
        failed.outcome = step.outcome
        failed.add(Attempt.from_step(step), self.steps)
        is_asked = self.segment.is_asked(step.event, failed.count)
        if failed.count < OUTAGES_OF_LOOP or failed.is_repetition or is_asked:
            return None
        how = (
            f"met {failed.count} outages" if step.outcome.outage else f"failed {failed.count} times in pauses"
        )
        message = f"{step.event.action_name} {how} with the same arguments"
        return _match("failing call", failed, OUTAGES_OF_LOOP, message)

    def _record_success(self, step: ToolStep) -> None:
        call_key = step.call_key
        if self.falling.courses:
            self.falling.forget(call_key)
        if self.renamed:
            self._record_renamed_success(step)
        if self.outages:
            self.outages.pop(call_key, None)
        if self.wall.ids:
            self.wall.clear()
        if self.calls or self.commands:
            overcome = self.calls.pop(call_key, None)
            self.commands.pop(call_key, None)
            if overcome is not None:
                self.errors.clear()  # trying again helped: the errors so far are no dead end
        if self.errors:
            # Of a batch some things are refused, and others are not.
            self.errors = [it for it in self.errors if not _is_of_batch(it, step)]
        self.guesses.clear()
        self.in_a_row = None

    def _record_renamed_success(self, step: ToolStep) -> None:
        if all(self.steps - it.last_step > _MAX_STEPS_RENAMED for it in self.renamed.values()):
            self.renamed.clear()  # so long ago that it is another attempt
            return
        self.renamed.pop(_hash_without_made_up_names(step), None)

    def _record_failure(self, step: ToolStep) -> LoopMatch | None:
        attempt = Attempt.from_step(step)
        if self._is_other_item(step):
            _keep(self.calls, step.call_key, self._first_failure(step))
            return None
        if self._has_progressed(step):
            self._record_progress(step.call_key)
        found = (
            self._match_call(step, attempt),
            self._match_command(step, attempt) or self._match_renamed(step, attempt),
            self._match_error(attempt, step.outcome.sample),
            self.guesses.observe(step),
        )
        if any(it is not None and self.segment.is_asked(step.event, it.count) for it in found):
            return None
        return max((it for it in found if it is not None), key=lambda it: it.score, default=None)

    def _is_other_item(self, step: ToolStep) -> bool:
        """Return whether the next item of a queue came, whose words may tell of a failure of its own."""
        event = step.event
        if event.error is not None or not takes_item(event.action_name, event.input_data):
            return False
        before = self.calls.get(step.call_key)
        return before is None or not before.outcome.equals(step.outcome)

    def _record_progress(self, call_key: int) -> None:
        """Begin anew: the call failed in a way that is nearer to success, or another one."""
        self.calls.pop(call_key, None)
        self.commands.pop(call_key, None)
        self.outages.pop(call_key, None)
        self.errors.clear()
        self.in_a_row = None

    def _has_progressed(self, step: ToolStep) -> bool:
        """Return whether this call failed before with another number of failures, or before the user spoke.

        Fewer or other failures are progress whatever the exit status says; after a user's words another error
        is another matter.
        """
        failed = self.calls.get(step.call_key) or self.commands.get(step.call_key)
        if failed is None or failed.outcome.equals(step.outcome):
            return False
        if failed.last_step <= self.message_step:
            return True
        before, now = failed.outcome.count_failures(), step.outcome.count_failures()
        return bool(before and now) and before != now

    def _record_separate_error(self, error: str) -> LoopMatch | None:
        """Record an error that the framework reports in an event of its own, after the call."""
        attempt, self.without_result = self.without_result, None
        return None if attempt is None else self._match_error(attempt, error)

    def _match_call(self, step: ToolStep, attempt: Attempt) -> LoopMatch | None:
        failed = self.calls.get(step.call_key)
        if failed is None:
            _keep(self.calls, step.call_key, self._first_failure(step))
            return None
        if not step.has_seen(failed.last_seq):
            return None
        failed.is_repetition &= failed.outcome.equals(step.outcome)
        failed.outcome = step.outcome
        failed.add(attempt, self.steps)
        _keep(self.calls, step.call_key, failed)
        if self._is_plain_repetition(failed):
            return None
        message = f"{attempt.name} failed {failed.count} times with the same arguments"
        return _match("failing call", failed, SAME_CALL_FAILURES, message)

    def _match_command(self, step: ToolStep, attempt: Attempt) -> LoopMatch | None:
        if step.outcome.is_bare_status:
            return None  # after new work it may be another failure each time
        failed = self.commands.get(step.call_key)
        if failed is None or not failed.outcome.equals(step.outcome):
            _keep(self.commands, step.call_key, self._first_failure(step))
            return None
        if not step.has_seen(failed.last_seq):
            return None
        failed.add(attempt, self.steps)
        _keep(self.commands, step.call_key, failed)
        if failed.count < SAME_COMMAND_FAILURES or self._is_plain_repetition(failed):
            return None
        message = f"{attempt.name} failed {failed.count} times with the same error, whatever was changed"
        return _match("test-fail loop", failed, SAME_COMMAND_FAILURES, message)

    def _match_renamed(self, step: ToolStep, attempt: Attempt) -> LoopMatch | None:
        """Match a command that fails alike under another made-up name each time."""
        key = _hash_without_made_up_names(step)
        if not key or step.outcome.is_bare_status:
            return None
        failed = self.renamed.get(key)
        if failed is None or not failed.outcome.equals(step.outcome):
            _keep(self.renamed, key, self._first_failure(step))
            return None
        if not step.has_seen(failed.last_seq):
            return None
        failed.add(attempt, self.steps)
        _keep(self.renamed, key, failed)
        if failed.count < SAME_COMMAND_FAILURES:
            return None
        message = (
            f"{attempt.name} failed {failed.count} times with the same error, under another name each time"
        )
        return _match("test-fail loop", failed, SAME_COMMAND_FAILURES, message)

    def _match_error(self, attempt: Attempt, error: str) -> LoopMatch | None:
        named_error = f"{attempt.name} {error}"[:MAX_SAMPLE_CHARS]
        self.errors = [it for it in self.errors if self.steps - it.last_step <= MAX_STEPS_BETWEEN]
        run = self._find_run(named_error) or self._find_echo(attempt, named_error)
        if run is None or is_other_setting(run, attempt, error):
            self.errors.append(FailureRun.start(attempt, self.steps, self.segment_number, named_error))
            return self._match_any_failure(attempt)
        same_error = self._match_same_error(attempt, run)
        if run.is_reported:
            return same_error  # one more of a loop already reported: it counts for no other
        return same_error or self._match_any_failure(attempt)

    def _match_same_error(self, attempt: Attempt, run: FailureRun) -> LoopMatch | None:
        if not attempt.has_seen(run.last_seq):
            return None
        is_batch = attempt.only_said and relate_calls(run.arguments, attempt.arguments) in {"value", "number"}
        run.add(attempt, self.steps)
        # The attempts differ, the error does not: the first of them and the latest prove it.
        run.ids = [run.ids[0], attempt.event_id]
        is_similar = run.overlap >= _SIMILAR_CALL_OVERLAP
        enough = SAME_ERROR_SIMILAR_CALLS if is_similar else SAME_ERROR_OTHER_CALLS
        if is_batch:
            enough = FAILURES_IN_A_ROW  # one thing after another was refused
        if not is_report_due(run.count, enough) or run.halving.is_found or self._is_plain_repetition(run):
            return None
        run.is_reported = True
        message = f"{attempt.name} failed {run.count} times with the same error"
        return _match("same error", run, enough, message)

    def _find_run(self, error: str) -> FailureRun | None:
        if not self.errors:
            return None
        error_hash = hash_error(error)
        return next((it for it in self.errors if it.has_error(error_hash)), None)

    def _find_echo(self, attempt: Attempt, error: str) -> FailureRun | None:
        """Return the run of the same error about something else: each names only what its call named."""
        if not self.errors:
            return None
        for run in self.errors:
            if is_equal_but_echo(run.first_error, run.first_arguments, error, attempt.arguments):
                run.overlap = 0.0
                return run
        return None

    def _match_any_failure(self, attempt: Attempt) -> LoopMatch | None:
        run = self.in_a_row
        if run is None:
            self.in_a_row = FailureRun.start(attempt, self.steps, self.segment_number)
            return None
        if not attempt.has_seen(run.last_seq):
            return None
        run.add(attempt, self.steps)
        if not is_report_due(run.count, FAILURES_IN_A_ROW) or run.is_repetition or run.halving.is_found:
            return None
        message = f"{run.count} calls in a row have failed, {attempt.name} the last of them"
        return _match("dead end", run, FAILURES_IN_A_ROW, message)

    def _is_plain_repetition(self, failures: FailedCall | FailureRun) -> bool:
        """Return whether all of them are the same and in this segment: action_loop reports that."""
        return failures.is_repetition and failures.segment == self.segment_number

    def _first_failure(self, step: ToolStep) -> FailedCall:
        event = step.event
        return FailedCall(step.outcome, self.segment_number, event.seq, self.steps, [event.event_id])


def _hash_without_made_up_names(step: ToolStep) -> int:
    """Return a hash of a call without the made-up names in its arguments; 0 where they hold none.

    What is looked up under such a name is another thing each time.
    """
    arguments = step.arguments.decode("utf-8", "replace")
    if step.kind != "work" and "/tmp/" not in arguments and not sets_up(step):  # noqa: S108 - is only looked for
        return 0
    masked = mask_made_up_names(arguments)
    return 0 if masked == arguments else hash_call(step.event.action_name, masked.encode("utf-8", "replace"))


def _is_of_batch(run: FailureRun, step: ToolStep) -> bool:
    """Return whether a call that succeeded is one of the things that a tool failed with before."""
    if run.name != step.event.action_name:
        return False
    # The same request about another number.
    return run.only_said or run.arguments.translate(None, _DIGITS) == step.arguments.translate(None, _DIGITS)


def _keep(failures: dict[int, FailedCall], key: int, failed: FailedCall) -> None:
    """Remember a failed call; the one not seen for longest is dropped."""
    failures.pop(key, None)
    failures[key] = failed
    if len(failures) > _MAX_CALLS:
        del failures[next(iter(failures))]


def _match(pattern: str, failures: FailedCall | FailureRun, enough: int, message: str) -> LoopMatch:
    return LoopMatch(
        pattern=pattern,
        count=failures.count,
        patience=enough,
        event_ids=tuple(failures.ids),
        message=message,
    )
