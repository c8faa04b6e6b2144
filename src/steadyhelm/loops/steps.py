"""One tool call as the loop detectors see it: what kind of step it is, its arguments and its outcome."""

from typing import Any, Final

from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import encode_canonical, hash_call
from steadyhelm.loops.kinds import DECLARED_KINDS, StepKind, classify_call
from steadyhelm.loops.outcomes import CallOutcome, read_outcome

_MAX_ARGUMENT_BYTES: Final = 2048
_MAX_PATH_CHARS: Final = 300

# Arguments that only explain a call, or say how long to wait for it: they do not make it another call.
_IGNORED_ARGUMENTS: Final = frozenset(
    {"description", "reason", "explanation", "rationale", "justification", "purpose", "comment", "thought",
     "intent", "timeout", "request_id", "tool_call_id"}
)  # fmt: skip
_PATH_ARGUMENTS: Final = (
    "path", "file_path", "filePath", "filename", "file", "notebook_path", "target_file",
)  # fmt: skip


class ToolStep:
    """One tool call, read once however many detectors look at it.

    Args:
        event: The call.
        outcome: Its outcome; None reads it from the event.
    """

    __slots__ = ("_arguments", "call_key", "event", "is_work_done", "kind", "outcome")

    def __init__(self, event: TraceEvent, outcome: CallOutcome | None = None) -> None:
        self.event = event
        self.call_key, self._arguments = _read_call(event)
        self.outcome = read_outcome(event) if outcome is None else outcome
        self.kind: StepKind = DECLARED_KINDS.get(event.tool_kind) or classify_call(
            event.action_name, event.input_data
        )
        if self.kind == "look" and self.outcome.says_wait:
            self.kind = "wait"
        # Whether it changed something, as far as that is known.
        self.is_work_done = self.kind == "work" and self.outcome.known and not self.outcome.failed

    @property
    def arguments(self) -> bytes:
        """Its arguments as canonical text, cut to a length that still distinguishes calls."""
        if self._arguments is None:
            cached = _cached_arguments
            if cached is not None and cached[0] is self.event:
                self._arguments = cached[1][:_MAX_ARGUMENT_BYTES]
            else:
                self._arguments = encode_canonical(self.event.input_data)[:_MAX_ARGUMENT_BYTES]
        return self._arguments

    @property
    def is_real_failure(self) -> bool:
        """Whether the call itself failed: an outage does not count, and waiting is no attempt."""
        outcome = self.outcome
        return outcome.failed and outcome.known and not outcome.outage and self.kind != "wait"

    def has_seen(self, seq: int) -> bool:
        """Return whether the agent had seen the event with this `seq` when it made this call."""
        started = self.event.started_seq
        return started is None or started > seq


_last_step: tuple[TraceEvent, ToolStep] | None = None
_cached_arguments: tuple[TraceEvent, bytes] | None = None


def cache_arguments(event: TraceEvent, arguments: bytes) -> None:
    """Keep the canonical arguments of the latest event, so that they are not encoded again."""
    global _cached_arguments  # noqa: PLW0603 - as below: without it they are encoded again, to the same
    _cached_arguments = (event, arguments)


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
    return _read_call(event)[0]


def find_path(arguments: Any) -> str | None:
    """Return the path of the file a call is about, None when its arguments name none."""
    path = first_argument(arguments, _PATH_ARGUMENTS)
    return path[:_MAX_PATH_CHARS] if isinstance(path, str) and path else None


def first_argument(arguments: Any, names: tuple[str, ...]) -> Any:
    """Return the value of the first of these arguments that a call has, None when it has none of them."""
    if isinstance(arguments, dict):
        for name in names:
            if name in arguments:
                return arguments[name]
    return None


def _read_call(event: TraceEvent) -> tuple[int, bytes | None]:
    """Return the number of a call, and its canonical arguments if they had to be encoded for it."""
    args = event.input_data
    if isinstance(args, dict) and not _IGNORED_ARGUMENTS.isdisjoint(args):
        meant = {name: value for name, value in args.items() if name not in _IGNORED_ARGUMENTS}
        return hash_call(event.action_name, encode_canonical(meant)), None
    if event.call_hash:
        return event.call_hash, None
    encoded = encode_canonical(args)
    return hash_call(event.action_name, encoded), encoded[:_MAX_ARGUMENT_BYTES]
