"""Watch an agent through the spans its instrumentation makes, in its own process, as they end.

Any framework that is instrumented for OpenTelemetry or OpenInference is seen: every model call, every tool
call and every error. Spans tell what has happened, so nothing can be refused or stopped from here.
"""

import contextvars
from collections import OrderedDict
from typing import Any, Final, NamedTuple

from steadyhelm.decisions import Verdict
from steadyhelm.engine.monitor import Monitor
from steadyhelm.engine.runs import outer_run_id
from steadyhelm.errors import MissingExtraError
from steadyhelm.forks import ForkSafeLock
from steadyhelm.recordings.span_layouts import Span
from steadyhelm.recordings.span_runs import SpanRun
from steadyhelm.recordings.span_steps import SpanStep, is_told_above, step_of

try:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.sdk.trace import Span as LiveSpan

    from steadyhelm.recordings.span_nodes import Key, Node, is_ours, read_span
except ImportError as exc:
    raise MissingExtraError("OpenTelemetry span processor", extra="otel-sdk") from exc

_SPANS_KEPT: Final = 10_000
_RUNS_KEPT: Final = 10_000
_DEEPEST: Final = 64
_CAN: Final[tuple[Verdict, ...]] = ("proceed",)
"""A span tells what has happened: nothing can be done about it from here."""


class _Place(NamedTuple):
    """Where a span stands: the spans around it, innermost first, and the run of its trace."""

    around: list[Node]
    agents: list[Node]
    home: str
    is_joined: bool
    lasts: bool


class SteadyhelmSpanProcessor(SpanProcessor):
    """Hands every step that a span tells of to a monitor, when the span ends.

    Steps inside a run of the host's own (`with monitor.run()`) belong to that run. Others belong to their
    conversation where spans name one, else to their trace, which is a run that ends when no span of it is
    open any more.
    An agent within an agent is a run of its own.
    A step that two libraries tell of, one inside the other or under one call id, is counted once.

    Args:
        monitor: Who watches.

    ```python
    provider.add_span_processor(SteadyhelmSpanProcessor(monitor))
    ```
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._nodes: OrderedDict[Key, Node] = OrderedDict()
        self._homes: OrderedDict[int, tuple[str, bool]] = OrderedDict()
        self._runs: OrderedDict[str, SpanRun] = OrderedDict()
        self._open: OrderedDict[int, int] = OrderedDict()
        self._lock = ForkSafeLock()

    # --- what OpenTelemetry calls ----------------------------------------------------------------

    def on_start(self, span: LiveSpan, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Remember a span, for those that will stand in it."""
        if self._monitor.disabled or is_ours(span):
            return
        try:
            node = Node(span)
            with self._lock:
                _keep(self._nodes, node.key, node, _SPANS_KEPT)
                _keep(self._open, node.key[0], self._open.get(node.key[0], 0) + 1, _SPANS_KEPT)
            if node.kind in ("tool", "agent"):
                node.started_seq = self._seen(node)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._monitor.health.swallowed("span processor", exc)

    def on_end(self, span: ReadableSpan) -> None:
        """Take in the step that the span tells of."""
        if self._monitor.disabled or is_ours(span):
            return
        try:
            node = self._ended(span)
            if node is not None and (node.kind != "other" or node.is_last):
                # In a context of its own: a run that begins here must not become the host's current one.
                contextvars.copy_context().run(self._take, span, node)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._monitor.health.swallowed("span processor", exc)

    def shutdown(self) -> None:
        """Write what is known so far; runs that are still open are the monitor's to put aside."""
        self.force_flush()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until everything is written, or the time is up; says which."""
        return self._monitor.flush(timeout_millis / 1000).complete

    # --- inside ----------------------------------------------------------------------------------

    def _ended(self, span: ReadableSpan) -> Node | None:
        """The span, over; None when it was over before, as where two providers share this processor."""
        context = span.get_span_context()
        assert context is not None
        with self._lock:
            node = self._nodes.get((context.trace_id, context.span_id))
            if node is None:
                node = Node(span)
                _keep(self._nodes, node.key, node, _SPANS_KEPT)
            if node.is_over:
                return None
            node.live = span
            node.end()
            left = self._open.pop(node.key[0], 0) - 1
            if left > 0:
                self._open[node.key[0]] = left
            # Work may go on after a trace's first span: a request is answered, its agent is still at it.
            node.is_last = left == 0 or (left < 0 and node.parent is None)
        return node

    def _take(self, ended: ReadableSpan, node: Node) -> None:
        place = self._place(node)
        span = self._read(ended)
        if node.kind == "agent":
            self._take_agent(span, node, place)
        elif node.kind != "other":
            self._take_step(span, node, place)
        if node.is_last and not place.is_joined:
            self._end_trace(node, span, place)

    def _take_step(self, span: Span, node: Node, place: _Place) -> None:
        above = place.around[0] if place.around else None
        if above is not None:
            if is_told_above(node.kind, node.name, above.kind, above.name):
                return
            above.inside = (node.kind, node.name)
        if node.inside is not None and is_told_above(*node.inside, node.kind, node.name):
            return  # what stood in it was told, before this one said that it is the same step
        run = self._run(span, place)
        if node.kind == "tool":
            run.tool_called(step_of(span), span, node.started_seq)
            return
        step = step_of(span, with_inputs=run.needs_inputs(span.trace_id))
        if step.asked is not None:
            run.asked(step.asked, span)
        run.model_called(step, span)

    def _take_agent(self, span: Span, node: Node, place: _Place) -> None:
        step = step_of(span)
        if not place.agents:
            run = self._runs.get(place.home)
            if run is not None or span.error is not None or step.asked is not None:
                run = self._run(span, place, step)
                run.failed("agent", span)
            return
        with self._lock:
            child = self._runs.pop(_own_run(place.home, node), None)
        if child is not None:
            child.failed("agent", span)
            child.end(_outcome(span))
        # Where a tool stands for the agent, the tool is the step.
        if not place.around or place.around[0].kind != "tool":
            self._run(span, place).tool_called(step, span, node.started_seq)

    def _end_trace(self, node: Node, span: Span, place: _Place) -> None:
        with self._lock:
            self._homes.pop(node.key[0], None)
            run = None if place.lasts else self._runs.pop(place.home, None)
        if run is not None:
            run.end(_outcome(span))

    def _run(self, span: Span, place: _Place, told: SpanStep | None = None) -> SpanRun:
        """The run that a step belongs to, begun here when it is new; its goal is what was asked."""
        run_id, parent_id = place.home, None
        if len(place.agents) > 1:
            run_id = _own_run(place.home, place.agents[0])
            parent_id = _own_run(place.home, place.agents[1]) if len(place.agents) > 2 else place.home  # noqa: PLR2004
        agent = place.agents[0 if parent_id else -1] if place.agents else None
        with self._lock:
            run = self._runs.get(run_id)
            if run is not None and run.knows(span.trace_id):
                self._runs.move_to_end(run_id)
                return run
        asked = self._asked(span, agent, told)
        with self._lock:
            run = self._runs.get(run_id) or self._begin(run_id, parent_id, asked, place, span)
            run.knows(span.trace_id)
        if asked is not None:
            run.asked(asked, span)
        return run

    def _begin(
        self, run_id: str, parent_id: str | None, asked: str | None, place: _Place, span: Span
    ) -> SpanRun:
        known_as = run_id
        is_ours = parent_id is not None or not place.is_joined
        if is_ours:
            parent = self._runs.get(parent_id or "")
            known_as = self._monitor.start_run(
                run_id,
                asked,
                parent_run_id=parent.run_id if parent is not None else parent_id,
                metadata={"source": "opentelemetry", "trace_id": span.trace_id},
                can=_CAN,
            )
        lasts = place.lasts and parent_id is None
        run = SpanRun(self._monitor, known_as, is_ours=is_ours, lasts=lasts)
        _keep(self._runs, run_id, run, _RUNS_KEPT)
        return run

    def _asked(self, span: Span, agent: Node | None, told: SpanStep | None) -> str | None:
        """What the user asked for: what the agent was given, else what the model was."""
        if told is not None:
            return told.asked
        live = agent.live if agent is not None else None
        found = step_of(self._read(live)).asked if live is not None else None
        if found is not None:
            return found
        step = step_of(span)
        return step.asked if step.kind == "llm" else None

    def _seen(self, node: Node) -> int | None:
        """How many steps the agent had seen when this one began."""
        place = self._place(node)
        run_id = _own_run(place.home, place.agents[0]) if len(place.agents) > 1 else place.home
        run = self._runs.get(run_id)
        return run.seen if run is not None else None if place.is_joined else 0

    def _place(self, node: Node) -> _Place:
        around: list[Node] = []
        with self._lock:
            at = self._nodes.get(node.parent) if node.parent else None
            while at is not None and len(around) < _DEEPEST:
                at.look()
                around.append(at)
                at = self._nodes.get(at.parent) if at.parent else None
            agents = [it for it in around if it.kind == "agent"]
            if (outer := outer_run_id()) is not None:
                return _Place(around, agents, outer, is_joined=True, lasts=True)
            home, lasts = self._home(node, around)
        return _Place(around, agents, home, is_joined=False, lasts=lasts)

    def _home(self, node: Node, around: list[Node]) -> tuple[str, bool]:
        """The run of a trace, and whether it lasts; a trace stays in the run it began with."""
        trace_id = node.key[0]
        known = self._homes.get(trace_id)
        if known is not None:
            return known
        session = next((it.session for it in (node, *around) if it.session), None)
        home = (session, True) if session is not None else (f"{trace_id:032x}", False)
        if node.is_over and node.kind != "other":
            _keep(self._homes, trace_id, home, _RUNS_KEPT)
        return home

    def _read(self, span: ReadableSpan) -> Span:
        return read_span(span, self._monitor.health)


def _own_run(home: str, agent: Node) -> str:
    return f"{home}/{agent.key[1]:016x}"


def _outcome(span: Span) -> str:
    return "done" if span.error is None else f"error: {span.error[:80]}"


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    kept[key] = value
    if len(kept) > most:
        kept.popitem(last=False)
