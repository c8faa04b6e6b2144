"""Report findings to OpenTelemetry as span events, interventions as spans, and counts as metrics.

Only the API package is needed; without an SDK behind it everything here does nothing.

Two threads share the work. On the agent's thread, which alone knows its current span, an event is added to
that span and its context recorded: neither waits for anything. Spans are ended and counters increased on
the writer's thread, since ending a span may send it, which may take long.
"""

import math
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from steadyhelm.bounded import BoundedDict
from steadyhelm.decisions import Intervention
from steadyhelm.errors import MissingExtraError
from steadyhelm.events import RunSummary
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.forks import ForkSafeLock
from steadyhelm.incidents import Incident
from steadyhelm.logs import logger
from steadyhelm.sink import Loss, Record, RecordedEvent, SavedState, Sink

try:
    from opentelemetry import metrics, trace
except ImportError as exc:
    raise MissingExtraError("OpenTelemetry sink", extra="otel") from exc

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from steadyhelm.engine.monitor import Monitor

SCOPE: Final = "steadyhelm"
"""The instrumentation scope of everything reported here. Steadyhelm ignores spans of this scope."""

EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
_MAX_WAITING: Final = 4096
_MAX_REMEMBERED: Final = 4096

_MAX_TEXT: Final = 4096
_NS_PER_S: Final = 1_000_000_000

Attributes = dict[str, str | bool | int | float]
_Key = tuple[str, int]
K = TypeVar("K", bound=Hashable)


class _PendingFinding(NamedTuple):
    """A finding from the agent's thread, with its span context and the delay since its step."""

    finding: DriftEvent
    context: trace.SpanContext
    latency_s: float


class _OpenIntervention(NamedTuple):
    """An intervention whose outcome is not known yet, with its incident."""

    incident: Incident
    intervention: Intervention


class OTel(Sink):
    """Reports findings, interventions and counts to OpenTelemetry.

    A finding becomes an event `gen_ai.evaluation.result` on the current span of the code that records.
    This needs `attach`; a finding of a monitor that was not attached, or one outside any span, gets a span
    of its own. An intervention becomes a span, a child of the span of its finding, from its delivery until
    its outcome is known.

    Args:
        min_severity: The lowest severity that is reported; the counters count everything.
        tracer_provider: Where spans go; None for the global provider.
        meter_provider: Where counts go; None for the global provider.
        clock: The time, for the latency alone.
    """

    name = "otel"

    def __init__(
        self,
        *,
        min_severity: Severity = Severity.MED,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._least = min_severity.rank
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        self._findings = meter.create_counter(
            "steadyhelm.findings", unit="{finding}", description="Findings by detector, kind and severity"
        )
        self._interventions = meter.create_counter(
            "steadyhelm.interventions",
            unit="{intervention}",
            description="Interventions by action and verdict",
        )
        self._outcomes = meter.create_counter(
            "steadyhelm.intervention.outcomes", unit="{intervention}", description="Interventions by outcome"
        )
        self._losses = meter.create_counter(
            "steadyhelm.losses", unit="{loss}", description="What Steadyhelm lost, by reason"
        )
        self._latency = meter.create_histogram(
            "steadyhelm.finding.latency",
            unit="s",
            description="From the end of a step to the finding about it",
        )
        self._clock = clock
        self._attached: weakref.WeakSet[Monitor] = weakref.WeakSet()
        self._agents: set[str] = set()
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = ForkSafeLock()
        # Appending to a deque needs no lock, so the agent's thread never waits, nor hangs after a fork.
        self._pending: deque[_PendingFinding] = deque(maxlen=_MAX_WAITING)
        self._times_reported: dict[tuple[int, str, str], int] = {}
        self._reported_losses: dict[tuple[str, str], int] = {}
        self._dropped = 0
        self._span_contexts: BoundedDict[str, trace.SpanContext] = BoundedDict(_MAX_REMEMBERED)
        self._last_at: BoundedDict[str, float] = BoundedDict(_MAX_REMEMBERED)
        self._open: BoundedDict[_Key, _OpenIntervention] = BoundedDict(_MAX_REMEMBERED)
        self._counted: BoundedDict[str | _Key, None] = BoundedDict(_MAX_REMEMBERED)

    # --- on the agent's thread -------------------------------------------------------------------

    def attach(self, monitor: "Monitor") -> None:
        """Add the findings of this monitor to the span that is current when they are made."""
        if monitor not in self._attached:
            self._attached.add(monitor)
            self._agents.add(monitor.agent_id)
            monitor.on_drift(self._on_finding, min_severity=Severity.LOW.value)

    def _on_finding(self, finding: DriftEvent) -> None:
        span = trace.get_current_span()
        latency_s = max(0.0, self._clock() - finding.timestamp)
        self._dropped += len(self._pending) == _MAX_WAITING
        self._pending.append(_PendingFinding(finding, span.get_span_context(), latency_s))
        if not span.is_recording() or finding.severity.rank < self._least:
            return
        times = self._count_reports(span.get_span_context().span_id, finding)
        # A span holds few events, and they are the host's: the 1st, 2nd, 4th, 8th and so on are added.
        if times & (times - 1) == 0:
            span.add_event(
                EVALUATION_EVENT, {**_build_finding_attributes(finding), "steadyhelm.times": times}
            )

    def _count_reports(self, span_id: int, finding: DriftEvent) -> int:
        key = (span_id, finding.detector, finding.severity.value)
        if len(self._times_reported) > _MAX_REMEMBERED:
            self._times_reported.clear()
        self._times_reported[key] = self._times_reported.get(key, 0) + 1
        return self._times_reported[key]

    # --- on the writer's thread ------------------------------------------------------------------

    def write(self, records: Sequence[Record]) -> None:
        """Report one batch. What fails is logged and not tried again, so that nothing is reported twice."""
        if os.getpid() != self._pid:
            self._reset()
        with self._lock:
            self._call_safely(self._report_pending)
            for record in records:
                self._call_safely(self._report, record)

    def flush(self) -> None:
        """Report the findings since the last batch."""
        with self._lock:
            self._call_safely(self._report_pending)

    def close(self) -> None:
        """Report the interventions whose outcome will not be known any more."""
        self.flush()
        with self._lock:
            for key in list(self._open):
                self._call_safely(self._end_intervention, key)

    def _call_safely(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception as exc:  # noqa: BLE001 - an SDK may fail in any way
            logger.debug("Reporting to OpenTelemetry failed", exc_info=exc)

    def _report(self, record: Record) -> None:
        if isinstance(record, RecordedEvent):
            self._last_at[record.event.run_id] = record.event.timestamp
        elif isinstance(record, DriftEvent):
            self._count_finding(record)
            if record.agent_id not in self._agents and record.severity.rank >= self._least:
                self._report_in_own_span(record)
        elif isinstance(record, Incident):
            self._report_interventions(record)
        elif isinstance(record, Loss):
            self._report_loss(record)
        elif isinstance(record, RunSummary | SavedState):
            self._end_run(record.run_id)

    def _report_loss(self, loss: Loss) -> None:
        """Add what was lost since the last report: a loss carries the total so far."""
        key = (loss.token, loss.reason)
        before = self._reported_losses.get(key, 0)
        if loss.count > before:
            self._reported_losses[key] = loss.count
            self._losses.add(loss.count - before, {"reason": _to_text(loss.reason)})

    def _report_pending(self) -> None:
        if self._dropped:
            self._losses.add(self._dropped, {"reason": "finding not reported to OpenTelemetry"})
            self._dropped = 0
        while self._pending:
            finding, context, latency_s = self._pending.popleft()
            self._latency.record(latency_s, {"detector": finding.detector})
            if context.is_valid:
                self._span_contexts[finding.run_id] = context
            elif finding.severity.rank >= self._least:
                self._report_in_own_span(finding)

    def _count_finding(self, finding: DriftEvent) -> None:
        if _note_once(self._counted, f"{finding.run_id}\0{finding.event_id}"):
            attributes = {
                "detector": finding.detector,
                "kind": finding.kind,
                "severity": finding.severity.value,
            }
            self._findings.add(1, {"agent": _to_text(finding.agent_id), **attributes})

    def _report_in_own_span(self, finding: DriftEvent) -> None:
        """Report a finding that no span of the agent can hold."""
        if not _note_once(self._counted, f"apart\0{finding.run_id}\0{finding.event_id}"):
            return
        at = _to_ns(finding.timestamp)
        span = self._tracer.start_span(f"steadyhelm.finding {finding.detector}", start_time=at)
        span.add_event(EVALUATION_EVENT, _build_finding_attributes(finding), timestamp=at)
        span.end(at)

    def _report_interventions(self, incident: Incident) -> None:
        for intervention in incident.interventions:
            key = (incident.incident_id, intervention.seq)
            if _note_once(self._counted, key):
                attributes = {"action": intervention.action.value, "verdict": intervention.verdict}
                self._interventions.add(1, {"agent": _to_text(incident.agent_id), **attributes})
            elif key not in self._open:
                continue
            self._open[key] = _OpenIntervention(incident, intervention)
            if (
                intervention.outcome != "unknown"
                or intervention.not_carried_out
                or incident.state == "closed"
            ):
                self._end_intervention(key)

    def _end_run(self, run_id: str) -> None:
        for key in [key for key, item in self._open.items() if item.incident.run_id == run_id]:
            self._end_intervention(key)
        self._span_contexts.pop(run_id, None)
        self._last_at.pop(run_id, None)

    def _find_parent(self, run_id: str) -> "Context | None":
        parent = self._span_contexts.get(run_id)
        return None if parent is None else trace.set_span_in_context(trace.NonRecordingSpan(parent))

    def _end_intervention(self, key: _Key) -> None:
        incident, intervention = self._open.pop(key)
        attributes: Attributes = {"action": intervention.action.value, "outcome": intervention.outcome}
        self._outcomes.add(1, {"agent": _to_text(incident.agent_id), **attributes})
        if not intervention.said:
            return  # an intervention that was not delivered did not happen
        span = self._tracer.start_span(
            f"steadyhelm.intervention {intervention.action.value}",
            context=self._find_parent(incident.run_id),
            start_time=_to_ns(intervention.timestamp),
            attributes=_build_intervention_attributes(incident, intervention),
        )
        if intervention.not_carried_out:
            span.set_status(trace.StatusCode.ERROR, _to_text(intervention.not_carried_out))
        span.end(
            _to_ns(max(intervention.timestamp, incident.last_at, self._last_at.get(incident.run_id, 0.0)))
        )


def _note_once(seen: BoundedDict[K, None], key: K) -> bool:
    """Return whether a key comes for the first time, and remember it: a batch may come again."""
    if key in seen:
        return False
    seen[key] = None
    return True


def _build_finding_attributes(finding: DriftEvent) -> Attributes:
    """Return the standard names first, so that any back-end shows them, then our own."""
    return {
        "gen_ai.evaluation.name": f"steadyhelm.{finding.detector}",
        "gen_ai.evaluation.score.value": finding.score if math.isfinite(finding.score) else 0.0,
        "gen_ai.evaluation.score.label": finding.severity.value,
        "gen_ai.evaluation.explanation": _to_text(finding.message),
        "steadyhelm.agent_id": _to_text(finding.agent_id),
        "steadyhelm.run_id": _to_text(finding.run_id),
        "steadyhelm.finding_id": _to_text(finding.event_id),
        "steadyhelm.kind": finding.kind,
        "steadyhelm.suggested_action": _to_text(finding.suggested_action),
    }


def _build_intervention_attributes(incident: Incident, intervention: Intervention) -> Attributes:
    """Return what was done about an incident, and the outcome."""
    attributes: Attributes = {
        "steadyhelm.agent_id": _to_text(incident.agent_id),
        "steadyhelm.run_id": _to_text(incident.run_id),
        "steadyhelm.incident_id": incident.incident_id,
        "steadyhelm.kind": incident.kind,
        "steadyhelm.action": intervention.action.value,
        "steadyhelm.verdict": intervention.verdict,
        "steadyhelm.outcome": intervention.outcome,
        "steadyhelm.guidance": _to_text(intervention.guidance),
    }
    if intervention.tokens_saved is not None:
        attributes["steadyhelm.tokens_saved"] = intervention.tokens_saved
    return attributes


def _to_text(text: Any) -> str:
    """Return a text any exporter can encode: half a character would lose the host a whole batch."""
    return str(text)[:_MAX_TEXT].encode("utf-8", "replace").decode()


def _to_ns(at: float) -> int:
    """Return a time in nanoseconds, as OpenTelemetry expects it."""
    return int(at * _NS_PER_S) if math.isfinite(at) and at > 0 else 0
