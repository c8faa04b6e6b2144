"""Read agents' spans as JSON: OTLP/JSON, or plain spans as exporters and databases write them.

Both generations of the OpenTelemetry GenAI conventions are read, and OpenInference.
A trace is one run, the traces of one conversation too; an agent within an agent is a run of its own.
Spans come in any order, children before their parents: events are known only at the end.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, Literal, NamedTuple

from steadyhelm.events import TraceEvent
from steadyhelm.recordings.content import calls_in, content_of, parts, take_tool_message
from steadyhelm.recordings.span_layouts import Span, spans_in
from steadyhelm.recordings.span_steps import SpanStep, is_told_above, known_args, session_of, step_of
from steadyhelm.recordings.transcript import Transcript
from steadyhelm.recordings.transcript_reader import TranscriptReader

_NOBODY: Final = "scan"
_NAMES: Final = ("gen_ai.agent.name", "agent.name")
_Key = tuple[str, str]


class _Placed(NamedTuple):
    """A span, what it tells, and the line it stood in."""

    span: Span
    step: SpanStep
    line: int

    @property
    def key(self) -> _Key:
        return self.span.trace_id, self.span.span_id


class _Moment(NamedTuple):
    """Something that happened; at one time, ends come before beginnings."""

    t: float
    rank: int
    place: int
    what: Literal["asked", "answered", "replied", "called", "returned", "failed"]


class Spans(TranscriptReader):
    """Reads traces.

    >>> spans = Spans()
    >>> spans.feed(b'[{"trace_id": "t", "span_id": "a", "attributes": {"gen_ai.tool.name": "ls"}}]')
    []
    >>> [event.action_name for event in spans.end()]
    ['ls']
    """

    title: ClassVar[str] = "OpenTelemetry GenAI spans"

    def __init__(self, *, name: str = "") -> None:
        super().__init__(name=name)
        self._spans: dict[_Key, _Placed] = {}
        self._around: dict[_Key, _Placed | None] = {}
        self._sessions: dict[str, str] = {}

    @staticmethod
    def recognises(value: Any) -> bool:
        """Whether spans stand in this value."""
        return next(spans_in(value), None) is not None

    def take(self, value: Any) -> None:
        """Keep what the spans say until all have come."""
        for span in spans_in(value):
            self.add(span)

    def add(self, span: Span) -> None:
        """Keep what one span says; a span that comes again is left out."""
        placed = _Placed(span, step_of(span), self.line)
        self._spans.setdefault(placed.key, placed)
        session = session_of(span.attributes)
        if session is not None:
            self._sessions.setdefault(span.trace_id, session)

    def end(self) -> list[TraceEvent]:
        """Put the spans in order of time, and hand them to their runs."""
        steps: dict[str, list[_Placed]] = {}
        asked: dict[str, dict[str, _Placed]] = {}
        failed: dict[str, list[_Placed]] = {}
        seen: dict[tuple[str, str], float] = {}
        for placed in sorted(self._spans.values(), key=lambda placed: placed.span.start or 0.0):
            home = self._home(placed)
            if self._is_step(placed) and not _is_seen(home, placed, seen):
                self._begin(home, placed)
                steps.setdefault(home, []).append(placed)
            if placed.step.kind == "agent" and self._agent_around(placed) is not None:
                home = self._own_run(placed)
                self._begin(home, placed)
            if placed.step.kind == "agent" and placed.span.error is not None:
                self._begin(home, placed)
                failed.setdefault(home, []).append(placed)
            if placed.step.asked is not None:
                # The first word of a trace is its user's; the framework says the others.
                asked.setdefault(home, {}).setdefault(placed.span.trace_id, placed)
        for home, run in self._runs.items():
            _replay(run, [*asked.get(home, {}).values()], steps.get(home, []), failed.get(home, []))
        self._spans.clear()
        self._around.clear()
        return super().end()

    def _begin(self, home: str, placed: _Placed) -> None:
        """The run that a span's steps belong to."""
        around = self._agent_around(placed) if placed.step.kind != "agent" else placed
        is_nested = around is not None and self._agent_around(around) is not None
        parent = self._home(around) if around is not None and home != self._home(around) else None
        name = around.step.name if around is not None and is_nested else placed.span.first(*_NAMES)
        run = self._run(home, agent_id=name or placed.span.service or _NOBODY, parent_run_id=parent)
        run.line = min(run.line, placed.line)

    def _home(self, placed: _Placed) -> str:
        """The run that a span belongs to: its trace's, or that of the agent within an agent it is part of."""
        around = self._agent_around(placed)
        if around is None or self._agent_around(around) is None:
            return self._sessions.get(placed.span.trace_id, placed.span.trace_id)
        return self._own_run(around)

    def _own_run(self, agent: _Placed) -> str:
        trace_id = agent.span.trace_id
        return f"{self._sessions.get(trace_id, trace_id)}/{agent.span.span_id}"

    def _agent_around(self, placed: _Placed) -> _Placed | None:
        """The nearest agent's span that a span stands in, itself not counted."""
        path: dict[_Key, None] = {}
        at, found = placed, None
        while at.key not in path:
            if at.key in self._around:
                found = self._around[at.key]
                break
            path[at.key] = None
            above = self._parent(at)
            if above is None or above.step.kind == "agent":
                found = above
                break
            at = above
        self._around.update(dict.fromkeys(path, found))
        return found

    def _parent(self, placed: _Placed) -> _Placed | None:
        return self._spans.get((placed.span.trace_id, placed.span.parent_id or ""))

    def _is_step(self, placed: _Placed) -> bool:
        """Whether a span is a step of its own."""
        above = self._parent(placed)
        kind = placed.step.kind
        if kind == "agent":
            return self._agent_around(placed) is not None and (above is None or above.step.kind != "tool")
        if above is None or kind == "other":
            return kind != "other"
        return not is_told_above(kind, placed.step.name, above.step.kind, above.step.name)


def _is_seen(home: str, placed: _Placed, seen: dict[tuple[str, str], float]) -> bool:
    """Whether another span told of this call: with its id, and at the same time, else it is another try."""
    call_id, start = placed.step.call_id, placed.span.start or 0.0
    if call_id is None:
        return False
    until = seen.get((home, call_id), -1.0)
    seen[home, call_id] = max(until, placed.span.end or start)
    return start < until


def _replay(run: Transcript, asked: list[_Placed], spans: list[_Placed], failed: list[_Placed]) -> None:
    """Let the run happen again, from what each span says began and ended."""
    has_tools = any(placed.step.kind != "llm" for placed in spans)
    _remark_on(run, spans, has_tools=has_tools)
    # An agent's error is mostly that of its last step.
    known = {placed.span.error for placed in spans}
    both = [*asked, *spans, *(placed for placed in failed if placed.span.error not in known)]
    began = _beginnings(spans)
    moments = [_Moment(began(placed), -1, i, "asked") for i, placed in enumerate(asked)]
    for i, placed in enumerate(spans, len(asked)):
        moments += _moments(placed, i, has_tools=has_tools)
    for i in range(len(asked) + len(spans), len(both)):
        moments.append(_Moment(both[i].span.end or both[i].span.start or 0.0, 4, i, "failed"))
    for moment in sorted(moments):
        placed = both[moment.place]
        span, step = placed.span, placed.step
        t = moment.t or None
        if moment.what == "asked":
            run.user(step.asked or "", t)
        elif moment.what == "answered":
            for message in step.answers:
                take_tool_message(run, message, t)
        elif moment.what == "replied":
            _reply(run, placed, t, has_tools=has_tools)
        elif moment.what == "called":
            run.call(step.name, step.args, call_id=step.call_id or span.span_id, t=t, span_id=span.span_id)
        elif moment.what == "failed":
            run.state("agent_error", None, t, error=span.error, span_id=span.span_id)
        else:
            run.result(step.call_id or span.span_id, step.result, t=t, error=span.error)


def _beginnings(spans: list[_Placed]) -> Callable[[_Placed], float]:
    """When a trace began: clocks of several machines differ, but nobody works before being asked."""
    first: dict[str, float] = {}
    for placed in spans:
        start, trace_id = placed.span.start, placed.span.trace_id
        if start is not None:
            first[trace_id] = min(start, first.get(trace_id, start))
    return lambda asked: min(asked.span.start or 0.0, first.get(asked.span.trace_id, asked.span.start or 0.0))


def _remark_on(run: Transcript, spans: list[_Placed], *, has_tools: bool) -> None:
    """Say what could not be looked at."""
    replies = [message for placed in spans for message in placed.step.outputs] if not has_tools else []
    blind = sum(call.args is None for message in replies for call in calls_in(message))
    blind += sum(not placed.step.is_recorded for placed in spans)
    if blind:
        run.notes.remark(
            f"arguments and result of {blind} calls were not recorded: whether they repeat is not checked"
        )


def _moments(placed: _Placed, place: int, *, has_tools: bool) -> Iterator[_Moment]:
    start = placed.span.start or 0.0
    end = max(start, placed.span.end or start)
    if placed.step.kind == "llm":
        if not has_tools:
            yield _Moment(start, 0, place, "answered")
        yield _Moment(end, 1, place, "replied")
        return
    yield _Moment(start, 2, place, "called")
    if placed.span.end is not None or placed.step.result is not None or placed.span.error:
        yield _Moment(end, 0 if end > start else 3, place, "returned")


def _reply(run: Transcript, placed: _Placed, t: float | None, *, has_tools: bool) -> None:
    """A model's call is always a step, also when its words were not recorded."""
    span, step = placed.span, placed.step
    calls = [call for message in step.outputs for call in calls_in(message)]
    said = [part for message in step.outputs for part in parts(content_of(message))]
    texts = [part.words for part in said if part.kind == "text"]
    key = span.span_id if calls else None
    run.reply(key, model=step.model, tokens=step.tokens, is_alone=not has_tools)
    if any(part.kind == "thought" for part in said):
        run.flag(thinking=True)
    took = max(0.0, (span.end or 0.0) - (span.start or 0.0)) * 1000 if span.end and span.start else 0.0
    run.said("\n".join(texts) or None, t, error=span.error, duration_ms=took, span_id=span.span_id)
    for place, call in enumerate(calls if not has_tools else ()):
        args = known_args(call, f"{span.span_id}.{place}")
        run.call(call.name, args, call_id=call.call_id, t=t)
