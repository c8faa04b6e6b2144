"""One tool call as the loop detectors see it: what kind of step it is, its arguments and its outcome."""

import re
from typing import Final

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.fingerprints import encode_arguments
from steadyhelm.loops.call_arguments import (
    COMMAND_ARGUMENTS,
    MAX_PATH_CHARS,
    find_command,
    find_path,
    first_argument,
)
from steadyhelm.loops.call_keys import MAX_ARGUMENT_BYTES, read_call
from steadyhelm.loops.kinds import DECLARED_KINDS, StepKind, classify_call, reads_by_name
from steadyhelm.loops.outcomes import CallOutcome, read_outcome

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TAKES_NEXT: Final = re.compile(
    r"\s*(?:cd [^;&|]+ && )?(?:git bisect (?:good|bad|skip|old|new)"
    r"|git (?:checkout|switch)(?: -q| --quiet| -d| --detach)* (?:v?\d[\w.-]*|[0-9a-f]{7,40}|HEAD[~^]\d*)\s*\Z"
    r"|git (?:rebase|am|cherry-pick) --(?:continue|skip)"
    r"|alembic (?:upgrade|downgrade) [+-]\d)"
)


class ToolStep:
    """One tool call, read once however many detectors look at it.

    Args:
        event: The call.
        outcome: Its outcome; None reads it from the event.
    """

    __slots__ = ("_arguments", "call_key", "event", "is_work_done", "kind", "outcome")

    def __init__(self, event: TraceEvent, outcome: CallOutcome | None = None) -> None:
        self.event = event
        self.kind: StepKind = _find_kind(event)
        self.call_key, self._arguments = read_call(event, self.kind)
        self.outcome = read_outcome(event, self.kind) if outcome is None else outcome
        if self.kind == "look" and not event.tool_kind:
            outcome = self.outcome
            if outcome.says_wait or outcome.says_nothing_new:
                self.kind = "wait"
            elif outcome.says_changed and not reads_by_name(event.action_name):
                self.kind = "work"  # what its name does not tell, its answer does
        # Whether it changed something, as far as that is known.
        self.is_work_done = (
            self.kind == "work"
            and self.outcome.known
            and not self.outcome.failed
            and not self.outcome.says_unchanged
        )

    @property
    def arguments(self) -> bytes:
        """Its arguments as canonical text, cut to a length that still distinguishes calls."""
        if self._arguments is None:
            self._arguments = encode_arguments(self.event)[:MAX_ARGUMENT_BYTES]
        return self._arguments

    @property
    def is_real_failure(self) -> bool:
        """Whether the call itself failed: an outage does not count, and waiting is no attempt."""
        outcome = self.outcome
        return outcome.failed and outcome.known and not outcome.outage and self.kind != "wait"

    @property
    def takes_next(self) -> bool:
        """Whether it is a command that goes one step on each time: `git bisect good`."""
        command = find_command(self.event.input_data)
        return command is not None and _TAKES_NEXT.match(command[:MAX_PATH_CHARS]) is not None

    def as_call(self, call_key: int, outcome: CallOutcome) -> "ToolStep":
        """Return this step as a call with another number and outcome."""
        step = ToolStep(self.event, outcome)
        step.call_key = call_key
        return step

    def has_seen(self, seq: int) -> bool:
        """Return whether the agent had seen the event with this `seq` when it made this call."""
        started = self.event.started_seq
        return started is None or started > seq


_last_step: tuple[TraceEvent, ToolStep] | None = None


def read_step(event: TraceEvent) -> ToolStep:
    """Return the event as a step; the latest one is cached, since several detectors ask for it in turn."""
    global _last_step  # noqa: PLW0603 - a memo of a pure function: a race costs a second reading, nothing else
    cached = _last_step
    if cached is not None and cached[0] is event:
        return cached[1]
    step = ToolStep(event)
    _last_step = (event, step)
    return step


def identify_call(event: TraceEvent) -> int:
    """Return the number that identifies a call, without the arguments that only explain it."""
    return read_call(event, _find_kind(event))[0]


_STATUS_WORDS: Final = frozenset(
    {"status", "health", "healthcheck", "ping", "heartbeat", "list", "pwd", "whoami", "version", "uptime",
     "time", "date", "state", "info", "log", "alerts", "errors", "problems"}
)  # fmt: skip
_STATUS_COMMANDS: Final = re.compile(
    r"\s*(?:cd [^;&|]+ && )?(?:git (?:status|log|diff|branch|remote)|pwd|ls|dir|whoami|date|ps|df|free"
    r"|uptime|env|top|nvidia-smi|kubectl (?:get|describe)|docker (?:ps|images|stats|compose ps)"
    r"|\S+ --version)\b[^;&|]*(?:\| *(?:grep|egrep|wc|head|tail|sort|jq|cut|awk)\b[^;&|]*){0,3}\Z"
)


def is_status_look(event: TraceEvent) -> bool:
    """Return whether a call only asks how things stand, as agents do between steps.

    >>> is_status_look(TraceEvent(agent_id="a", run_id="r", action_type="tool_call", action_name="ping"))
    True
    """
    command = find_command(event.input_data)
    if command is not None:
        return _STATUS_COMMANDS.match(command[:MAX_PATH_CHARS]) is not None
    return any(word.lower() in _STATUS_WORDS for word in _WORD_IN_NAME.findall(event.action_name[:100]))


def works_on_files(event: TraceEvent) -> bool:
    """Return whether a call names a file or runs a command: a run with such a call is a coding session."""
    if event.action_type != TOOL_CALL:
        return False
    arguments = event.input_data
    return find_path(arguments) is not None or first_argument(arguments, COMMAND_ARGUMENTS) is not None


def _find_kind(event: TraceEvent) -> StepKind:
    return DECLARED_KINDS.get(event.tool_kind) or classify_call(event.action_name, event.input_data)
