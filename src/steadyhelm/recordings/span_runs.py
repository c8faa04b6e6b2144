"""One live run that spans tell of: each step goes to the monitor as soon as its span has ended."""

from collections import OrderedDict
from typing import Any, Final

from steadyhelm.engine.monitor import Monitor
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE
from steadyhelm.recordings.content import Part, as_text, calls_in, content_of, parts, words_of
from steadyhelm.recordings.span_layouts import Span
from steadyhelm.recordings.span_steps import SpanStep, known_args

BLIND: Final = (
    "tool call whose arguments and result its span does not tell: whether it repeats is not checked"
)

_OPEN_KEPT: Final = 256
_CALLS_KEPT: Final = 1024
_TRACES_KEPT: Final = 1024


class SpanRun:
    """What is known about one run beyond what the monitor keeps.

    Where tools have no spans of their own, their calls are taken from the models' messages: from the reply
    that asks for them and the next request, which brings their results.

    Args:
        monitor: Who watches the run.
        run_id: The run's name there.
        is_ours: Whether the spans began this run, and not the host.
        lasts: Whether it goes on after its trace, as a conversation does.
    """

    def __init__(self, monitor: Monitor, run_id: str, *, is_ours: bool, lasts: bool) -> None:
        self.run_id = run_id
        self.is_ours = is_ours
        self.lasts = lasts
        self.has_tools = False
        self._known: set[str] = set()
        self._asked_in: set[str] = set()
        self._monitor = monitor
        self._steps = 0
        self._last_error: str | None = None
        self._open: OrderedDict[str, Part] = OrderedDict()
        self._calls: OrderedDict[str, float] = OrderedDict()

    @property
    def seen(self) -> int | None:
        """How many steps the agent had seen by now; None where others record steps of this run too."""
        return self._steps if self.is_ours else None

    def needs_inputs(self, trace_id: str) -> bool:
        """Whether a model's inputs tell anything that is not known without them."""
        return not self.has_tools or trace_id not in self._asked_in

    def knows(self, trace_id: str) -> bool:
        """Whether a step of this trace came before; from now on one did."""
        return not _is_new(self._known, trace_id)

    def asked(self, text: str, span: Span) -> None:
        """The user speaks, once a trace."""
        if _is_new(self._asked_in, span.trace_id):
            self._record(USER_MESSAGE, "user", timestamp=span.start, input_data={"text": text})

    def model_called(self, step: SpanStep, span: Span) -> None:
        """A model has answered, or failed to."""
        self._take_answers(step, span)
        said = [part.words for message in step.outputs for part in parts(content_of(message))
                if part.kind == "text"]  # fmt: skip
        metadata = {
            "model": step.model,
            "input_tokens": step.input_tokens,
            "output_tokens": step.output_tokens,
        }
        self._record(
            LLM_REQUEST,
            step.model or "llm",
            timestamp=_end(span),
            token_count=step.tokens,
            output_data={"text": "\n".join(said)} if said else None,
            duration_ms=_took_ms(span),
            metadata={**{key: value for key, value in metadata.items() if value}, "span_id": span.span_id},
            error=span.error,
        )
        for message in step.outputs if not self.has_tools else ():
            for call in calls_in(message):
                self._open[call.call_id or f"{span.span_id}.{len(self._open)}"] = call
                if len(self._open) > _OPEN_KEPT:
                    self._open.popitem(last=False)

    def tool_called(self, step: SpanStep, span: Span, started_seq: int | None) -> None:
        """A tool has answered, or failed to."""
        self.has_tools = True
        self._open.clear()
        if step.call_id is not None and self._is_seen(step.call_id, span):
            return
        if not step.is_recorded:
            self._monitor.health.count(BLIND)
        self._record(
            TOOL_CALL,
            step.name,
            timestamp=_end(span),
            input_data=step.args,
            output_data=_data(step.result),
            duration_ms=_took_ms(span),
            metadata={"span_id": span.span_id},
            started_seq=started_seq,
            call_id=step.call_id or span.span_id,
            error=span.error,
        )

    def failed(self, name: str, span: Span) -> None:
        """The agent itself has failed; where that is only the error of its last step, it was told."""
        if span.error is not None and span.error != self._last_error:
            self._record(STATE_TRANSITION, f"{name}_error", timestamp=_end(span), error=span.error)

    def end(self, outcome: str) -> None:
        """Nothing more will come."""
        self._give_up(None)
        if self.is_ours:
            self._monitor.end_run(self.run_id, outcome=outcome)

    def _is_seen(self, call_id: str, span: Span) -> bool:
        """Whether another span told of this call: its id at the same time; later it is another try."""
        until = self._calls.get(call_id, -1.0)
        self._calls[call_id] = max(until, _end(span) or 0.0)
        if len(self._calls) > _CALLS_KEPT:
            self._calls.popitem(last=False)
        return (span.start or 0.0) < until

    def _take_answers(self, step: SpanStep, span: Span) -> None:
        """The results that came with a model's inputs; a model is not asked before they are all there."""
        if self.has_tools or not self._open:
            return
        for message in step.answers:
            results = [part for part in parts(content_of(message)) if part.kind == "result"]
            if (call_id := as_text(message.get("tool_call_id"))) is not None:
                results = [Part(kind="result", words=words_of(content_of(message)), call_id=call_id)]
            for result in results:
                call = self._open.pop(result.call_id or "", None)
                if call is not None:
                    self._record_call(call, span.start, result.words, is_error=result.is_error)
        self._give_up(span.start)

    def _give_up(self, at: float | None) -> None:
        """Calls whose results nobody brought have been made all the same."""
        while self._open:
            self._record_call(self._open.popitem(last=False)[1], at, None, is_error=False)

    def _record_call(self, call: Part, at: float | None, result: Any, *, is_error: bool) -> None:
        error = (as_text(result) or "error") if is_error else None
        if call.args is None:
            self._monitor.health.count(BLIND)
        args = known_args(call, str(self._steps))
        data = {"input_data": args, "output_data": _data(result), "error": error}
        self._record(TOOL_CALL, str(call.name or "tool"), timestamp=at, call_id=call.call_id, **data)

    def _record(self, action_type: str, name: str, **fields: Any) -> None:
        self._last_error = fields.get("error") or self._last_error
        self._steps += 1
        self._monitor.record_event(action_type, name, run_id=self.run_id, **fields)


def _is_new(known: set[str], trace_id: str) -> bool:
    """Whether this trace comes for the first time; a conversation may have traces without end."""
    if trace_id in known:
        return False
    if len(known) > _TRACES_KEPT:
        known.clear()
    known.add(trace_id)
    return True


def _data(words: Any) -> Any:
    return {"text": words} if isinstance(words, str) else words


def _end(span: Span) -> float | None:
    return span.end if span.start is None or span.end is None else max(span.start, span.end)


def _took_ms(span: Span) -> float:
    return max(0.0, span.end - span.start) * 1000 if span.end and span.start else 0.0
