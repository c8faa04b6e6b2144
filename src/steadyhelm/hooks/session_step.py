"""Record one step of a coding agent's session, and return the answer to it; keep what a hook remembers."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, field

from steadyhelm.decisions import PROCEED
from steadyhelm.engine.capture import Capture
from steadyhelm.engine.run_recorder import RunRecorder
from steadyhelm.events import (
    CALL_REFUSED,
    LLM_REQUEST,
    NOT_CARRIED_OUT,
    STATE_TRANSITION,
    TOOL_CALL,
    USER_MESSAGE,
)
from steadyhelm.findings import Severity
from steadyhelm.fingerprints import encode_canonical
from steadyhelm.recordings.hook_events.hook_step import (
    NOTHING,
    HookAnswer,
    HookStep,
    StepKind,
    format_exit,
)
from steadyhelm.recordings.hook_events.transcript_usage import TranscriptPart, Usage, count_tokens

if TYPE_CHECKING:
    from steadyhelm.decisions import Decision


_MEMORY_KEY: Final = "hook"
_MSGPACK_FIXMAP: Final = 0x80
_MAP16: Final = 0xDE
_FIXMAP_KEYS: Final = 15
_NOTICES_KEPT: Final = 256
_OPEN_KEPT: Final = 64
_EXITS_KEPT: Final = 64


class OpenCall(Struct):
    """A call that was announced and whose result has not come."""

    tool: str
    args: Any
    started_seq: int


class HookMemory(Struct):
    """Which notices were taken in, which calls are open, what is still to be said.

    `read_to` is how far the session's transcript has been read for the tokens it names, `reply` the last
    reply whose tokens were counted; replies from before `since` are of an earlier run. `exits` are the exit
    codes in what was read, by call: those of calls at the same time are read before their results come.
    """

    seen: list[str] = field(default_factory=list)
    open: dict[str, OpenCall] = field(default_factory=dict)
    words: str = ""
    note: str = ""
    read_to: int = 0
    reply: str = ""
    since: float = 0.0
    exits: dict[str, int] = field(default_factory=dict)

    def note_once(self, once: str) -> bool:
        """Remember a notice; return whether it is new."""
        if not once:
            return True
        if once in self.seen:
            return False
        self.seen.append(once)
        del self.seen[:-_NOTICES_KEPT]
        return True

    def announce(self, call_id: str, call: OpenCall) -> None:
        """Record a call that is about to be made."""
        self.open[call_id] = call
        while len(self.open) > _OPEN_KEPT:
            del self.open[next(iter(self.open))]

    def add_exits(self, exits: Iterable[tuple[str, int]]) -> None:
        """Remember exit codes until the results of their calls come."""
        self.exits.update(exits)
        while len(self.exits) > _EXITS_KEPT:
            del self.exits[next(iter(self.exits))]


class _Kept(Struct):
    hook: HookMemory = field(default_factory=HookMemory)


def append_memory(state: bytes, memory: HookMemory) -> bytes:
    """Return the saved session with our memory as one more key, which other readers ignore."""
    if state[0] == _MAP16:
        keys, fields = int.from_bytes(state[1:3]), state[3:]
    elif _MSGPACK_FIXMAP <= state[0] <= _MSGPACK_FIXMAP + _FIXMAP_KEYS:
        keys, fields = state[0] - _MSGPACK_FIXMAP, state[1:]
    else:
        return state
    encode = msgspec.msgpack.encode
    return bytes([_MAP16]) + (keys + 1).to_bytes(2) + fields + encode(_MEMORY_KEY) + encode(memory)


def read_memory(state: bytes) -> HookMemory:
    """Return our memory in a saved session; a new one when there is none that can be read."""
    try:
        return msgspec.msgpack.decode(state, type=_Kept).hook
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return HookMemory()


_ARGS_KEPT_BYTES: Final = 2048
_HARNESS: Final = "harness"
_SESSION_END: Final = "session_end"
_NOTE_CHARS: Final = 200
_NOT_DELIVERED: Final = "the session ended before the guidance could be delivered"


class SessionStep:
    """A coding agent's session, resumed for one step: records the step and returns the answer to it.

    Args:
        recorder: The run of the session.
        memory: What hooks remember of it beside its session.
        capture: Reduces and redacts the arguments of calls.
        speaks: The kinds of step whose answer can carry text.
        transcript: What is new in the session's transcript.
        late: Whether the step is over already: then its answer waits for the next step.
    """

    def __init__(
        self,
        recorder: RunRecorder,
        memory: HookMemory,
        capture: Capture,
        speaks: Collection[StepKind],
        *,
        transcript: TranscriptPart | None,
        late: bool,
    ) -> None:
        self.memory = memory
        self.has_ended = False
        self._recorder = recorder
        self._session = recorder.session
        self._capture = capture
        self._speaks = speaks
        self._transcript = transcript
        self._late = late

    def save(self) -> bytes:
        """Return the state of the session with the memory of its hooks."""
        return append_memory(self._session.state(), self.memory)

    def handle(self, step: HookStep) -> HookAnswer:
        """Record the step and return the answer to it."""
        if step.kind == "before_tool":
            return self._check_call(step)
        if step.kind == "end":
            self._end(step)
            return NOTHING
        return self._answer(step, self._record(step))

    def _record(self, step: HookStep) -> "Decision":
        if step.kind == "after_tool":
            return self._record_call(step)
        if step.kind == "after_batch":
            return self._record_calls_not_made(step)
        if step.kind == "prompt":
            self._close_calls()
            return self._recorder.record(USER_MESSAGE, "user", input_data=step.text)
        if step.kind == "notice":
            return self._recorder.record(STATE_TRANSITION, _HARNESS, output_data=step.text)
        return self._record_reply(step)

    def _check_call(self, step: HookStep) -> HookAnswer:
        args = (
            self._capture.plain(step.args) if len(encode_canonical(step.args)) <= _ARGS_KEPT_BYTES else None
        )
        if _end_mark(step) in self.memory.seen:
            return NOTHING  # two hooks at once: the call's result was recorded first
        self.memory.announce(step.call_id or step.tool, OpenCall(step.tool, args, self._session.next_seq))
        if self._session.mode != "enforce" or self._late:
            # Guidance before the call and after it reach the model together: it is given once, after.
            return NOTHING
        decision = self._recorder.foresee(step.tool, step.args)
        return self._refuse(step, decision) if decision.verdict in {"deny", "stop", "ask"} else NOTHING

    def _refuse(self, step: HookStep, decision: "Decision") -> HookAnswer:
        """Record that the call is not made, and return the answer that prevents it."""
        self.memory.open.pop(step.call_id or step.tool, None)
        self.memory.note_once(_end_mark(step))
        refusal = {"tool": step.tool, "reason": decision.guidance, "action": decision.action.value}
        self._recorder.record(STATE_TRANSITION, CALL_REFUSED, metadata=refusal, call_id=step.call_id or None)
        note = _format_note(decision, "Steadyhelm blocked a call")
        return HookAnswer(verdict=decision.verdict, words=decision.guidance, note=note)

    def _record_call(self, step: HookStep) -> "Decision":
        call = self.memory.open.pop(step.call_id or step.tool, None)
        self.memory.note_once(_end_mark(step))
        tokens = self._count_tokens(step)
        code = self.memory.exits.pop(step.call_id, 0)
        return self._recorder.record(
            TOOL_CALL,
            step.tool or "tool",
            input_data=step.args,
            output_data=step.result,
            error=step.error or (format_exit(code, step.result) if code else None),
            call_id=step.call_id or None,
            duration_ms=step.duration_ms,
            started_seq=call.started_seq if call is not None else None,
            token_count=tokens,
        )

    def _record_calls_not_made(self, step: HookStep) -> "Decision":
        """Record the calls of a reply that were never made: an unknown tool, bad arguments, no permission."""
        decision = PROCEED
        for call in step.calls:
            if not call.call_id or not self.memory.note_once(f"done:{call.call_id}"):
                continue
            announced = self.memory.open.pop(call.call_id, None)
            seen = self._recorder.record(
                TOOL_CALL,
                call.tool or "tool",
                input_data=call.args,
                error=call.told or "refused",
                call_id=call.call_id,
                started_seq=announced.started_seq if announced is not None else None,
                token_count=self._count_tokens(step),
            )
            decision = seen if seen.verdict != "proceed" else decision
        return decision

    def _record_reply(self, step: HookStep) -> "Decision":
        if step.error is not None:
            self.memory.note_once(_compute_failure_mark(step))
        return self._recorder.record(
            LLM_REQUEST,
            "reply",
            output_data=step.text or None,
            error=step.error,
            token_count=self._count_tokens(step),
        )

    def _count_tokens(self, step: HookStep) -> int:
        return self._read_usage(step).tokens

    def _read_usage(self, step: HookStep) -> Usage:
        """Return the tokens in the transcript that were not counted yet; remember exit codes in it."""
        memory = self.memory
        memory.add_exits(self._transcript.exits if self._transcript is not None else ())
        usage = count_tokens(
            self._transcript,
            memory.read_to,
            counted=memory.reply,
            since=memory.since,
            of_part=bool(step.part),
        )
        memory.read_to, memory.reply = usage.read_to, usage.reply
        return usage

    def _end(self, step: HookStep) -> None:
        if self.memory.words:
            self._recorder.report(NOT_CARRIED_OUT, {"reason": _NOT_DELIVERED})
        if step.text:
            self._record_reply(step)
        else:
            self._read_transcript_end(step)
        self._close_calls()
        self._recorder.end()
        self.has_ended = True

    def _read_transcript_end(self, step: HookStep) -> None:
        """Record what only the transcript has: a reply written late, or none after a stop."""
        usage = self._read_usage(step)
        if usage.failure and self.memory.note_once(_compute_failure_mark(step)):
            # The program may be gone before its hook about the failure is done.
            self._recorder.record(LLM_REQUEST, "reply", error=usage.failure, token_count=usage.tokens)
        elif usage.tokens:
            self._recorder.record(STATE_TRANSITION, _SESSION_END, token_count=usage.tokens)

    def _close_calls(self) -> None:
        """Record the calls whose result never came as made, with unknown results."""
        calls, self.memory.open = self.memory.open, {}
        for call_id, call in calls.items():
            if call.args is not None:
                self._recorder.record(
                    TOOL_CALL,
                    call.tool or "tool",
                    input_data=call.args,
                    call_id=call_id,
                    started_seq=call.started_seq,
                )

    def _answer(self, step: HookStep, decision: "Decision") -> HookAnswer:
        """Return the answer now or, where this step cannot carry text, with the next step that can."""
        memory = self.memory
        answer = NOTHING
        if decision.verdict != "proceed" and decision.guidance:
            answer = HookAnswer(
                verdict=decision.verdict, words=decision.guidance, note=_format_note(decision)
            )
        if step.kind not in self._speaks:
            if answer.words:
                memory.words, memory.note = answer.words, answer.note
            return NOTHING
        if not answer.words and memory.words:
            answer = HookAnswer(verdict="guide", words=memory.words, note=memory.note)
        memory.words = memory.note = ""
        return answer


def _end_mark(step: HookStep) -> str:
    """Return the mark of a call that is over; empty where the id is not the call's own."""
    own = step.call_id and step.once == f"{step.event}:{step.call_id}"
    return f"done:{step.call_id}" if own else ""


def _compute_failure_mark(step: HookStep) -> str:
    """Return the mark of a turn whose model failed."""
    return f"failed:{step.turn}"


def _format_note(decision: "Decision", prefix: str = "Steadyhelm") -> str:
    """Return the short line the user sees."""
    worst = max(
        (it for it in decision.findings if it.severity is not Severity.LOW),
        key=lambda finding: finding.score,
        default=None,
    )
    otherwise = "the session is drifting" if decision.drifting else "the agent is reminded of its goal"
    what = worst.message if worst is not None else otherwise
    # It is shown on a terminal, and the name of a tool may hold anything.
    line = f"{prefix}: {' '.join(''.join(it if it.isprintable() else ' ' for it in what).split())}"
    return line if len(line) <= _NOTE_CHARS else line[: _NOTE_CHARS - 1] + "…"
