"""Read agents' spans as JSON: OTLP/JSON, or plain spans as exporters and databases write them.

Both generations of the OpenTelemetry GenAI conventions are read, and OpenInference.
A trace is one run, and so are the traces of one conversation; a nested agent is a run of its own.
Spans come in any order, children before their parents: events are known only at the end.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, Literal, NamedTuple

from steadyhelm.events import TraceEvent
from steadyhelm.recordings.content import add_tool_message, get_content, iter_calls, iter_parts
from steadyhelm.recordings.run_builder import RunBuilder
from steadyhelm.recordings.spans.conversations import FlatConversations
from steadyhelm.recordings.spans.layouts import Span, iter_spans
from steadyhelm.recordings.spans.steps import (
    SpanStep,
    describe_missing_content,
    get_arguments,
    get_session,
    is_reported_by_parent,
    read_agent_name,
    read_step,
)
from steadyhelm.recordings.transcript_reader import TranscriptReader

_UNKNOWN_AGENT: Final = "scan"
_Key = tuple[str, str]


class _PlacedSpan(NamedTuple):
    """A span, its step, and its line."""

    span: Span
    step: SpanStep
    line: int

    @property
    def key(self) -> _Key:
        return self.span.trace_id, self.span.span_id


class _Moment(NamedTuple):
    """Something that happened; at the same time, ends come before beginnings."""

    t: float
    rank: int
    place: int
    what: Literal["prompted", "answered", "replied", "called", "returned", "failed"]


class Spans(TranscriptReader):
    """A reader of traces.

    >>> spans = Spans()
    >>> spans.feed(b'[{"trace_id": "t", "span_id": "a", "attributes": {"gen_ai.tool.name": "ls"}}]')
    []
    >>> [event.action_name for event in spans.end()]
    ['ls']
    """

    title: ClassVar[str] = "OpenTelemetry GenAI spans"

    def __init__(self, *, name: str = "") -> None:
        super().__init__(name=name)
        self._spans: dict[_Key, _PlacedSpan] = {}
        self._outer_agents: dict[_Key, _PlacedSpan | None] = {}
        self._sessions: dict[str, str] = {}
        self._unprompted: set[str] = set()

    @staticmethod
    def can_read(value: Any) -> bool:
        """Return whether this value contains spans."""
        return next(iter_spans(value), None) is not None

    def add_line(self, value: Any) -> None:
        """Keep the spans in a value until all have been read."""
        for span in iter_spans(value):
            self.add(span)

    def add(self, span: Span) -> None:
        """Keep one span; a span that comes again is ignored."""
        placed = _PlacedSpan(span, read_step(span), self.line)
        self._spans.setdefault(placed.key, placed)
        session = get_session(span.attributes)
        if session is not None:
            self._sessions.setdefault(span.trace_id, session)

    def end(self) -> list[TraceEvent]:
        """Order the spans by time, add them to their runs, and return the events."""
        steps: dict[str, list[_PlacedSpan]] = {}
        prompts: dict[str, dict[str, _PlacedSpan]] = {}
        failed: dict[str, list[_PlacedSpan]] = {}
        seen: dict[tuple[str, str], float] = {}
        in_order = sorted(self._spans.values(), key=lambda placed: placed.span.start or 0.0)
        self._join_flat(in_order)
        for placed in in_order:
            run_id = self._find_run_id(placed)
            if self._is_step(placed) and not _is_repeated(run_id, placed, seen):
                self._begin_run(run_id, placed)
                steps.setdefault(run_id, []).append(placed)
            if placed.step.kind == "agent" and self._find_outer_agent(placed) is not None:
                run_id = self._build_child_run_id(placed)
                self._begin_run(run_id, placed)
            if placed.step.kind == "agent" and placed.span.error is not None:
                self._begin_run(run_id, placed)
                failed.setdefault(run_id, []).append(placed)
            if placed.step.prompt is not None and placed.span.trace_id not in self._unprompted:
                # The first prompt of a trace is its user's; the framework wrote the others.
                prompts.setdefault(run_id, {}).setdefault(placed.span.trace_id, placed)
        for run_id, run in self._runs.items():
            _replay_spans(
                run, [*prompts.get(run_id, {}).values()], steps.get(run_id, []), failed.get(run_id, [])
            )
        self._spans.clear()
        self._outer_agents.clear()
        return super().end()

    def _join_flat(self, in_order: list[_PlacedSpan]) -> None:
        """Find the traces of single steps that belong to one run, by their messages and call ids."""
        conversations = FlatConversations()
        for span, step, _ in in_order:
            if span.parent_id is not None or span.trace_id in self._sessions:
                continue
            if step.kind == "tool" and (run_id := conversations.find_call(step)) is not None:
                self._sessions[span.trace_id] = run_id
            elif step.kind == "llm":
                continued = conversations.find(step)
                run_id = span.trace_id if continued is None else continued.run_id
                conversations.note(step, run_id)
                if run_id != span.trace_id and continued is not None:
                    self._sessions[span.trace_id] = run_id
                    if not continued.is_prompted:
                        self._unprompted.add(span.trace_id)

    def _begin_run(self, run_id: str, placed: _PlacedSpan) -> None:
        """Begin the run that a span's steps belong to."""
        around = self._find_outer_agent(placed) if placed.step.kind != "agent" else placed
        is_nested = around is not None and self._find_outer_agent(around) is not None
        parent = (
            self._find_run_id(around) if around is not None and run_id != self._find_run_id(around) else None
        )
        name = (
            around.step.name
            if around is not None and is_nested
            else read_agent_name(placed.span) or self._find_root_name(placed)
        )
        run = self._get_run(
            run_id, agent_id=name or placed.span.service or _UNKNOWN_AGENT, parent_run_id=parent
        )
        run.line = min(run.line, placed.line)

    def _find_root_name(self, placed: _PlacedSpan) -> str | None:
        """Return the name of the outermost agent around a span."""
        root, around = None, self._find_outer_agent(placed)
        while around is not None and around is not root:
            root, around = around, self._find_outer_agent(around)
        return None if root is None else read_agent_name(root.span)

    def _find_run_id(self, placed: _PlacedSpan) -> str:
        """Return the run of a span: that of its trace, or of the nested agent it is part of."""
        around = self._find_outer_agent(placed)
        if around is None or self._find_outer_agent(around) is None:
            return self._sessions.get(placed.span.trace_id, placed.span.trace_id)
        return self._build_child_run_id(around)

    def _build_child_run_id(self, agent: _PlacedSpan) -> str:
        trace_id = agent.span.trace_id
        return f"{self._sessions.get(trace_id, trace_id)}/{agent.span.span_id}"

    def _find_outer_agent(self, placed: _PlacedSpan) -> _PlacedSpan | None:
        """Return the nearest agent span around a span, itself not counted."""
        path: dict[_Key, None] = {}
        at, found = placed, None
        while at.key not in path:
            if at.key in self._outer_agents:
                found = self._outer_agents[at.key]
                break
            path[at.key] = None
            above = self._find_parent(at)
            if above is None or above.step.kind == "agent":
                found = above
                break
            at = above
        self._outer_agents.update(dict.fromkeys(path, found))
        return found

    def _find_parent(self, placed: _PlacedSpan) -> _PlacedSpan | None:
        return self._spans.get((placed.span.trace_id, placed.span.parent_id or ""))

    def _is_step(self, placed: _PlacedSpan) -> bool:
        """Return whether a span is a step of its own."""
        above = self._find_parent(placed)
        kind = placed.step.kind
        if kind == "agent":
            return self._find_outer_agent(placed) is not None and (above is None or above.step.kind != "tool")
        if above is None or kind == "other":
            return kind != "other"
        return not is_reported_by_parent(kind, placed.step.name, above.step.kind, above.step.name)


def _is_repeated(run_id: str, placed: _PlacedSpan, seen: dict[tuple[str, str], float]) -> bool:
    """Return whether a span of the same call was open when this began; later it is another attempt."""
    call_id, start = placed.step.call_id, placed.span.start or 0.0
    if call_id is None:
        return False
    until = seen.get((run_id, call_id), -1.0)
    seen[run_id, call_id] = max(until, placed.span.end or start)
    return start < until


def _replay_spans(
    run: RunBuilder, prompts: list[_PlacedSpan], spans: list[_PlacedSpan], failed: list[_PlacedSpan]
) -> None:
    """Add everything to the run that its spans began and ended, in order of time."""
    has_tools = any(placed.step.kind != "llm" for placed in spans)
    _note_not_checked(run, spans, has_tools=has_tools)
    # An agent's error is mostly that of its last step.
    known = {placed.span.error for placed in spans}
    both = [*prompts, *spans, *(placed for placed in failed if placed.span.error not in known)]
    began = _make_prompt_time(spans)
    moments = [_Moment(began(placed), -1, i, "prompted") for i, placed in enumerate(prompts)]
    for i, placed in enumerate(spans, len(prompts)):
        moments += _list_moments(placed, i, has_tools=has_tools)
    for i in range(len(prompts) + len(spans), len(both)):
        moments.append(_Moment(both[i].span.end or both[i].span.start or 0.0, 4, i, "failed"))
    for moment in sorted(moments):
        _add_moment(run, both[moment.place], moment, has_tools=has_tools)


def _add_moment(run: RunBuilder, placed: _PlacedSpan, moment: _Moment, *, has_tools: bool) -> None:
    """Add what a span began or ended at this moment to the run."""
    span, step, t = placed.span, placed.step, moment.t or None
    if moment.what == "prompted":
        run.add_user_message(step.prompt or "", t)
    elif moment.what == "answered":
        for message in step.tool_messages:
            add_tool_message(run, message, t)
    elif moment.what == "replied":
        _add_reply(run, placed, t, has_tools=has_tools)
    elif moment.what == "called":
        run.add_call(step.name, step.args, call_id=step.call_id or span.span_id, t=t, span_id=span.span_id)
    elif moment.what == "failed":
        run.add_state("agent_error", None, t, error=span.error, span_id=span.span_id)
    else:
        run.add_result(step.call_id or span.span_id, step.result, t=t, error=span.error)


def _make_prompt_time(spans: list[_PlacedSpan]) -> Callable[[_PlacedSpan], float]:
    """Return a function for the time of a prompt: no later than the first span of its trace."""
    first: dict[str, float] = {}
    for placed in spans:
        start, trace_id = placed.span.start, placed.span.trace_id
        if start is not None:
            first[trace_id] = min(start, first.get(trace_id, start))
    return lambda prompt: min(
        prompt.span.start or 0.0, first.get(prompt.span.trace_id, prompt.span.start or 0.0)
    )


def _note_not_checked(run: RunBuilder, spans: list[_PlacedSpan], *, has_tools: bool) -> None:
    """Note what could not be checked."""
    replies = [message for placed in spans for message in placed.step.outputs] if not has_tools else []
    blind = sum(call.args is None for message in replies for call in iter_calls(message))
    blind += sum(not placed.step.is_recorded for placed in spans)
    silent = [] if has_tools else [it for it in spans if not (it.step.inputs or it.step.outputs)]
    if blind:
        reason = describe_missing_content(spans[0].span.attributes)
        run.notes.remark(
            f"arguments and result of {blind} calls were not recorded: whether they repeat is not checked; "
            f"{reason}"
        )
    elif silent:
        reason = describe_missing_content(silent[0].span.attributes)
        run.notes.remark(f"messages of {len(silent)} model calls were not recorded: not checked; {reason}")


def _list_moments(placed: _PlacedSpan, place: int, *, has_tools: bool) -> Iterator[_Moment]:
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


def _add_reply(run: RunBuilder, placed: _PlacedSpan, t: float | None, *, has_tools: bool) -> None:
    """Add a model call as a step, also when its text was not recorded."""
    span, step = placed.span, placed.step
    calls = [call for message in step.outputs for call in iter_calls(message)]
    said = [part for message in step.outputs for part in iter_parts(get_content(message))]
    texts = [part.words for part in said if part.kind == "text"]
    key = span.span_id if calls else None
    run.begin_reply(key, model=step.model, tokens=step.tokens, is_alone=not has_tools)
    if any(part.kind == "thought" for part in said):
        run.add_flags(thinking=True)
    took = max(0.0, (span.end or 0.0) - (span.start or 0.0)) * 1000 if span.end and span.start else 0.0
    run.add_text("\n".join(texts) or None, t, error=span.error, duration_ms=took, span_id=span.span_id)
    for place, call in enumerate(calls if not has_tools else ()):
        args = get_arguments(call, f"{span.span_id}.{place}")
        run.add_call(call.name, args, call_id=call.call_id, t=t)
