"""Watch an agent through the spans that its instrumentation makes, in its own process, as they end.

Any framework that is instrumented for OpenTelemetry or OpenInference is watched: every model call, every tool
call and every error. A span reports what has happened, so nothing can be denied or stopped from here.
"""

import contextvars
from typing import Final, NamedTuple

from steadyhelm.bounded import BoundedDict
from steadyhelm.decisions import Verdict
from steadyhelm.engine.live_runs import find_outer_run_id
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.forks import ForkSafeLock
from steadyhelm.recordings.spans.conversations import Continued, FlatConversations
from steadyhelm.recordings.spans.layouts import Span
from steadyhelm.recordings.spans.live_run import LiveSpanRun
from steadyhelm.recordings.spans.steps import SpanStep, is_reported_by_parent, read_agent_name, read_step

try:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.sdk.trace import Span as LiveSpan

    from steadyhelm.recordings.spans.live_run import Key, SpanNode, is_ours, read_span
except ImportError as exc:
    raise MissingExtraError("OpenTelemetry span processor", extra="otel-sdk") from exc

_MAX_SPANS: Final = 10_000
_MAX_RUNS: Final = 10_000
_MAX_DEPTH: Final = 64
CAN: Final[tuple[Verdict, ...]] = ("proceed",)
"""A span reports what has happened: nothing can be done about it from here."""


class _SpanPlace(NamedTuple):
    """The place of a span: the spans around it, innermost first, and the run of its trace.

    `is_host_run` is whether the host started that run itself, `is_lasting` whether it outlives the trace.
    """

    around: list[SpanNode]
    agents: list[SpanNode]
    run_id: str
    is_host_run: bool
    is_lasting: bool


class SteadyhelmSpanProcessor(SpanProcessor):
    """Record the step that a span reports when the span ends.

    Steps inside a run of the host's own (`with monitor.run()`) belong to that run. Others belong to their
    conversation where spans name one, else to their trace, which is a run that ends when no span of it is
    open any more. A model call that no span encloses belongs to the run whose messages it continues.
    An agent within an agent is a run of its own.
    A step that two libraries report, one inside the other or under one call id, is counted once.

    Args:
        monitor: The monitor that watches.

    ```python
    provider.add_span_processor(SteadyhelmSpanProcessor(monitor))
    ```
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._nodes: BoundedDict[Key, SpanNode] = BoundedDict(_MAX_SPANS)
        self._trace_runs: BoundedDict[int, tuple[str, bool]] = BoundedDict(_MAX_RUNS)
        self._runs: BoundedDict[str, LiveSpanRun] = BoundedDict(_MAX_RUNS)
        self._open_spans: BoundedDict[int, int] = BoundedDict(_MAX_SPANS)
        self._conversations = FlatConversations()
        self._lock = ForkSafeLock()

    # --- what OpenTelemetry calls ----------------------------------------------------------------

    def on_start(self, span: LiveSpan, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Keep a span, for those that will be inside it."""
        if self._monitor.disabled or is_ours(span):
            return
        try:
            node = SpanNode(span)
            with self._lock:
                self._nodes[node.key] = node
                self._open_spans[node.key[0]] = self._open_spans.get(node.key[0], 0) + 1
            if node.kind in ("tool", "agent"):
                node.started_seq = self._count_steps(node)
        except Exception as exc:  # noqa: BLE001 - a failure of ours must not reach the agent
            self._monitor.health.swallow("span processor", exc)

    def on_end(self, span: ReadableSpan) -> None:
        """Record the step that the span reports."""
        if self._monitor.disabled or is_ours(span):
            return
        try:
            node = self._end_node(span)
            if node is not None and (node.kind != "other" or node.is_last):
                # In a context of its own: a run that begins here must not become the host's current one.
                contextvars.copy_context().run(self._record, span, node)
        except Exception as exc:  # noqa: BLE001 - a failure of ours must not reach the agent
            self._monitor.health.swallow("span processor", exc)

    def shutdown(self) -> None:
        """Write what is known so far; the monitor takes care of runs that are still open."""
        self.force_flush()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until everything is written; return False if the time was up before."""
        return self._monitor.flush(timeout_millis / 1000).complete

    # --- inside ----------------------------------------------------------------------------------

    def _end_node(self, span: ReadableSpan) -> SpanNode | None:
        """Return the span that ends; None if it ended before, as where two providers share this processor."""
        context = span.get_span_context()
        assert context is not None
        with self._lock:
            node = self._nodes.get((context.trace_id, context.span_id))
            if node is None:
                node = SpanNode(span)
                self._nodes[node.key] = node
            if node.is_over:
                return None
            node.live = span
            node.end()
            left = self._open_spans.pop(node.key[0], 0) - 1
            if left > 0:
                self._open_spans[node.key[0]] = left
            # Work may go on after a trace's first span: a request is answered, its agent is still at it.
            node.is_last = left == 0 or (left < 0 and node.parent is None)
        return node

    def _record(self, ended: ReadableSpan, node: SpanNode) -> None:
        span = self._read(ended)
        place = self._find_place(node)
        if node.kind == "agent":
            self._record_agent(span, node, place)
        elif node.kind != "other":
            place, continued = self._join_flat(span, node, place)
            self._record_step(span, node, place, continued)
        if node.is_last and not place.is_host_run:
            self._end_trace(node, span, place)

    def _join_flat(
        self, span: Span, node: SpanNode, place: _SpanPlace
    ) -> tuple[_SpanPlace, Continued | None]:
        """Return the place of a step that no span encloses: in the run whose conversation it continues."""
        is_stacked = bool(place.around) and all(it.kind == "llm" for it in place.around)
        is_flat = span.parent_id is None or is_stacked
        if not is_flat or place.is_host_run or place.is_lasting:
            return place, None
        step = read_step(span)
        with self._lock:
            if node.kind == "tool":
                run_id = self._conversations.find_call(step)
                return (place if run_id is None else place._replace(run_id=run_id, is_lasting=True)), None
            continued = self._conversations.find(step)
            run_id = place.run_id if continued is None else continued.run_id
            waits = self._conversations.note(step, run_id)
            self._trace_runs[node.key[0]] = run_id, waits
        return place._replace(run_id=run_id, is_lasting=waits), continued

    def _record_step(
        self, span: Span, node: SpanNode, place: _SpanPlace, continued: Continued | None = None
    ) -> None:
        above = place.around[0] if place.around else None
        if above is not None:
            if is_reported_by_parent(node.kind, node.name, above.kind, above.name):
                return
            above.inside = (node.kind, node.name)
        if node.inside is not None and is_reported_by_parent(*node.inside, node.kind, node.name):
            return  # the same step was recorded already, by a span inside this one
        if continued is not None and not continued.is_prompted and place.run_id in self._runs:
            self._runs[place.run_id].skip_prompt(span.trace_id)
        run = self._ensure_run(span, place)
        if node.kind == "tool":
            run.record_tool_call(read_step(span), span, node.started_seq)
            return
        step = read_step(span, with_inputs=run.needs_inputs(span.trace_id))
        if step.prompt is not None:
            run.record_prompt(step.prompt, span)
        run.record_model_call(step, span)

    def _record_agent(self, span: Span, node: SpanNode, place: _SpanPlace) -> None:
        step = read_step(span)
        if not place.agents:
            run = self._runs.get(place.run_id)
            if run is not None or span.error is not None or step.prompt is not None:
                run = self._ensure_run(span, place, step)
                run.record_failure("agent", span)
            return
        with self._lock:
            child = self._runs.pop(_make_child_id(place.run_id, node), None)
        if child is not None:
            child.record_failure("agent", span)
            child.end(_describe_outcome(span), span)
        # Where a tool stands for the agent, the tool is the step.
        if not place.around or place.around[0].kind != "tool":
            self._ensure_run(span, place).record_tool_call(step, span, node.started_seq)

    def _end_trace(self, node: SpanNode, span: Span, place: _SpanPlace) -> None:
        with self._lock:
            self._trace_runs.pop(node.key[0], None)
            run = None if place.is_lasting else self._runs.pop(place.run_id, None)
        if run is not None:
            run.end(_describe_outcome(span), span)

    def _ensure_run(self, span: Span, place: _SpanPlace, step: SpanStep | None = None) -> LiveSpanRun:
        """Return the run that a step belongs to, started now if it is new; its goal is what was asked."""
        run_id, parent_id = place.run_id, None
        if len(place.agents) > 1:
            run_id = _make_child_id(place.run_id, place.agents[0])
            around = place.agents[1:]
            parent_id = _make_child_id(place.run_id, around[0]) if around[1:] else place.run_id
        agent = place.agents[0 if parent_id else -1] if place.agents else None
        with self._lock:
            run = self._runs.get(run_id)
            if run is not None and run.note_trace(span.trace_id):
                self._runs.move_to_end(run_id)
                return run
        goal = self._read_goal(span, agent, step)
        with self._lock:
            run = self._runs.get(run_id) or self._start_run(run_id, parent_id, goal, place, span)
            run.note_trace(span.trace_id)
        if goal is not None:
            run.record_prompt(goal, span)
        return run

    def _start_run(
        self, run_id: str, parent_id: str | None, goal: str | None, place: _SpanPlace, span: Span
    ) -> LiveSpanRun:
        monitor_run_id = run_id
        is_ours = parent_id is not None or not place.is_host_run
        if is_ours:
            parent = self._runs.get(parent_id or "")
            monitor_run_id = self._monitor.start_run(
                run_id,
                goal,
                parent_run_id=parent.run_id if parent is not None else parent_id,
                metadata=_describe_run(place, span, is_child=parent_id is not None),
                can=CAN,
            )
        is_lasting = place.is_lasting and parent_id is None
        run = LiveSpanRun(self._monitor, monitor_run_id, is_ours=is_ours, lasts=is_lasting)
        self._runs[run_id] = run
        return run

    def _read_goal(self, span: Span, agent: SpanNode | None, step: SpanStep | None) -> str | None:
        """Return what the user asked for: the agent's input, else the model's."""
        if step is not None:
            return step.prompt
        live = agent.live if agent is not None else None
        found = read_step(self._read(live)).prompt if live is not None else None
        if found is not None:
            return found
        step = read_step(span)
        return step.prompt if step.kind == "llm" else None

    def _count_steps(self, node: SpanNode) -> int | None:
        """Return how many steps the agent had seen when this one began; None when that is not known."""
        place = self._find_place(node)
        run_id = _make_child_id(place.run_id, place.agents[0]) if len(place.agents) > 1 else place.run_id
        run = self._runs.get(run_id)
        return run.seen if run is not None else None if place.is_host_run else 0

    def _find_place(self, node: SpanNode) -> _SpanPlace:
        around: list[SpanNode] = []
        with self._lock:
            at = self._nodes.get(node.parent) if node.parent else None
            while at is not None and len(around) < _MAX_DEPTH:
                at.refresh()
                around.append(at)
                at = self._nodes.get(at.parent) if at.parent else None
            agents = [it for it in around if it.kind == "agent"]
            if (outer := find_outer_run_id()) is not None:
                return _SpanPlace(around, agents, outer, is_host_run=True, is_lasting=True)
            run_id, is_lasting = self._find_trace_run(node, around)
        return _SpanPlace(around, agents, run_id, is_host_run=False, is_lasting=is_lasting)

    def _find_trace_run(self, node: SpanNode, around: list[SpanNode]) -> tuple[str, bool]:
        """Return the run of a trace, and whether it outlives it; a trace stays in the run it began with."""
        trace_id = node.key[0]
        known = self._trace_runs.get(trace_id)
        if known is not None:
            return known
        session = next((it.session for it in (node, *around) if it.session), None)
        found = (session, True) if session is not None else (f"{trace_id:032x}", False)
        if node.is_over and node.kind != "other":
            self._trace_runs[trace_id] = found
        return found

    def _read(self, span: ReadableSpan) -> Span:
        return read_span(span, self._monitor.health)


def _describe_run(place: _SpanPlace, span: Span, *, is_child: bool) -> dict[str, str]:
    """Return the metadata of a run, with its agent: the innermost of a child, else the outermost."""
    agent = place.agents[0 if is_child else -1].name if place.agents else read_agent_name(span)
    about = {"source": "opentelemetry", "trace_id": span.trace_id}
    return {**about, "agent": agent} if agent else about


def _make_child_id(run_id: str, agent: SpanNode) -> str:
    return f"{run_id}/{agent.key[1]:016x}"


def _describe_outcome(span: Span) -> str:
    return "done" if span.error is None else f"error: {span.error[:80]}"
