"""A session taken up for one step: the step is shown to it, and what it says is put into words."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from steadyhelm.decisions import PROCEED
from steadyhelm.engine.capture import Capture
from steadyhelm.events import CALL_REFUSED, LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE
from steadyhelm.findings import Severity
from steadyhelm.fingerprints import encode_canonical
from steadyhelm.hooks.memory import HookMemory, OpenCall
from steadyhelm.recordings.hook_events.hook_step import NOTHING, HookAnswer, HookStep, StepKind
from steadyhelm.recordings.hook_events.usage import Usage, count_tokens_since
from steadyhelm.sink import Record

if TYPE_CHECKING:
    from steadyhelm.decisions import Decision
    from steadyhelm.engine.session import Observation, Session

_ARGS_KEPT: Final = 2048
_HARNESS: Final = "harness"
_SESSION_END: Final = "session_end"
_LONGEST_NOTE: Final = 200


class Turn:
    """A session that was taken up for one step, and what the step led to."""

    def __init__(
        self,
        session: "Session",
        memory: HookMemory,
        capture: Capture,
        speaks: "Collection[StepKind]",
        clock: Callable[[], float],
        *,
        late: bool,
    ) -> None:
        self.session = session
        self.memory = memory
        self.records: list[Record] = []
        self.has_ended = False
        self._capture = capture
        self._speaks = speaks
        self._late = late
        self._clock = clock

    def take(self, step: HookStep) -> HookAnswer:
        """What the step calls for."""
        if step.kind == "before_tool":
            return self._before(step)
        if step.kind == "end":
            self._end(step)
            return NOTHING
        return self._said(step, self._seen(step))

    def _seen(self, step: HookStep) -> "Decision":
        if step.kind == "after_tool":
            return self._after(step)
        if step.kind == "after_batch":
            return self._never_run(step)
        if step.kind == "prompt":
            self._settle_open()
            return self._observe(USER_MESSAGE, "user", input_data=step.text)
        if step.kind == "notice":
            return self._observe(STATE_TRANSITION, _HARNESS, output_data=step.text)
        return self._reply(step)

    def _before(self, step: HookStep) -> HookAnswer:
        args = self._capture.plain(step.args) if len(encode_canonical(step.args)) <= _ARGS_KEPT else None
        if _done(step) in self.memory.seen:
            return NOTHING  # two hooks at once: what came of it was told first
        self.memory.announce(step.call_id or step.tool, OpenCall(step.tool, args, self.session.next_seq))
        if self.session.mode != "enforce" or self._late:
            # Words before the call and words after it reach the model together: they are said once, after.
            return NOTHING
        decision = self.session.before_tool(step.tool, step.args)
        if decision.verdict not in {"deny", "stop", "ask"}:
            return NOTHING
        self.memory.open.pop(step.call_id or step.tool, None)
        self.memory.is_new(_done(step))
        told = {"tool": step.tool, "reason": decision.guidance, "action": decision.action.value}
        self._observe(STATE_TRANSITION, CALL_REFUSED, metadata=told, call_id=step.call_id or None)
        return HookAnswer(verdict=decision.verdict, words=decision.guidance, note=_note(decision))

    def _after(self, step: HookStep) -> "Decision":
        call = self.memory.open.pop(step.call_id or step.tool, None)
        self.memory.is_new(_done(step))
        return self._observe(
            TOOL_CALL,
            step.tool or "tool",
            input_data=step.args,
            output_data=step.result,
            error=step.error,
            call_id=step.call_id or None,
            duration_ms=step.duration_ms,
            started_seq=call.started_seq if call is not None else None,
            token_count=self._tokens(step),
        )

    def _never_run(self, step: HookStep) -> "Decision":
        """The calls of a reply that nobody told of: an unknown tool, bad arguments, no permission."""
        decision = PROCEED
        for told in step.calls:
            if not told.call_id or not self.memory.is_new(f"done:{told.call_id}"):
                continue
            call = self.memory.open.pop(told.call_id, None)
            seen = self._observe(
                TOOL_CALL,
                told.tool or "tool",
                input_data=told.args,
                error=told.told or "refused",
                call_id=told.call_id,
                started_seq=call.started_seq if call is not None else None,
                token_count=self._tokens(step),
            )
            decision = seen if seen.verdict != "proceed" else decision
        return decision

    def _reply(self, step: HookStep) -> "Decision":
        if step.error is not None:
            self.memory.is_new(_failed(step))
        return self._observe(
            LLM_REQUEST,
            "reply",
            output_data=step.text or None,
            error=step.error,
            token_count=self._tokens(step),
        )

    def _tokens(self, step: HookStep) -> int:
        return self._usage(step).tokens

    def _usage(self, step: HookStep) -> Usage:
        """What the transcript names that was not counted yet."""
        if not step.transcript:
            return Usage(0, 0)
        memory = self.memory
        usage = count_tokens_since(
            step.transcript,
            memory.read_to,
            counted=memory.reply,
            since=memory.since,
            of_part=bool(step.part),
        )
        memory.read_to, memory.reply = usage.read_to, usage.reply
        return usage

    def _end(self, step: HookStep) -> None:
        if step.text:
            self._reply(step)
        else:
            self._read_to_the_end(step)
        self._settle_open()
        ending = self.session.end(at=self._clock(), outcome="")
        self.records += [*ending.findings, *ending.incidents, ending.summary]
        self.has_ended = True

    def _read_to_the_end(self, step: HookStep) -> None:
        """What only the transcript tells: a last reply is written late, and a stop leaves none at all."""
        usage = self._usage(step)
        if usage.failure and self.memory.is_new(_failed(step)):
            # The program may be gone before its hook about the failure is done.
            self._observe(LLM_REQUEST, "reply", error=usage.failure, token_count=usage.tokens)
        elif usage.tokens:
            self._observe(STATE_TRANSITION, _SESSION_END, token_count=usage.tokens)

    def _settle_open(self) -> None:
        """Calls whose result never came were made all the same; what came of them is unknown."""
        calls, self.memory.open = self.memory.open, {}
        for call_id, call in calls.items():
            if call.args is not None:
                self._observe(
                    TOOL_CALL,
                    call.tool or "tool",
                    input_data=call.args,
                    call_id=call_id,
                    started_seq=call.started_seq,
                )

    def _observe(self, action_type: str, action_name: str, **fields: Any) -> "Decision":
        session = self.session
        recorded = self._capture.build(
            self._capture.encode(
                fields.pop("input_data", None),
                fields.pop("output_data", None),
                fields.pop("metadata", None),
                fields.pop("error", None),
            ),
            agent_id=session.run.agent_id,
            run_id=session.run.run_id,
            action_type=action_type,
            action_name=action_name,
            timestamp=max(self._clock(), session.last_at),
            event_id=f"{session.run.run_id}.{session.next_seq}",
            seq=session.next_seq,
            parent_run_id=session.run.parent_run_id,
            **fields,
        )
        seen: Observation = session.observe(recorded.event)
        self.records += [self._capture.strip(recorded), *seen.decision.findings, *seen.incidents]
        return seen.decision

    def _said(self, step: HookStep, decision: "Decision") -> HookAnswer:
        """The answer, now or, where this event cannot carry words, with the next one that can."""
        memory = self.memory
        answer = NOTHING
        if decision.verdict != "proceed" and decision.guidance:
            answer = HookAnswer(verdict=decision.verdict, words=decision.guidance, note=_note(decision))
        if step.kind not in self._speaks:
            if answer.words:
                memory.words, memory.note = answer.words, answer.note
            return NOTHING
        if not answer.words and memory.words:
            answer = HookAnswer(verdict="guide", words=memory.words, note=memory.note)
        memory.words = memory.note = ""
        return answer


def _done(step: HookStep) -> str:
    """The mark of a call that is over; empty where the id is not the call's own."""
    own = step.call_id and step.once == f"{step.event}:{step.call_id}"
    return f"done:{step.call_id}" if own else ""


def _failed(step: HookStep) -> str:
    """The mark of a turn whose model failed."""
    return f"failed:{step.turn}"


def _note(decision: "Decision") -> str:
    """The one short line the user sees."""
    worst = max(
        (it for it in decision.findings if it.severity is not Severity.LOW),
        key=lambda finding: finding.score,
        default=None,
    )
    what = worst.message if worst is not None else "the session is off its course"
    # It is shown on a terminal, and the name of a tool may hold anything.
    line = f"Steadyhelm: {' '.join(''.join(it if it.isprintable() else ' ' for it in what).split())}"
    return line if len(line) <= _LONGEST_NOTE else line[: _LONGEST_NOTE - 1] + "…"
