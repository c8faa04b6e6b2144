"""Tell OpenTelemetry: findings as events of the agent's own spans, answers as spans, counts as metrics.

Only the API package is needed; without an SDK behind it everything here does nothing.

Two threads share the work. On the agent's thread, which alone knows its current span, an event is added to
that span and its context noted: neither waits for anything. Whatever ends a span or counts is done on the
writer's thread, since ending a span may send it, which takes as long as it takes.
"""

import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from steadyhelm.decisions import Intervention
from steadyhelm.engine.health import logger
from steadyhelm.errors import MissingExtraError
from steadyhelm.events import RunSummary
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.forks import ForkSafeLock
from steadyhelm.incidents import Incident
from steadyhelm.sink import Loss, Record, RecordedEvent, SavedState, Sink
from steadyhelm.sinks.otel_attributes import Attributes, about_answer, about_finding, in_ns, text_of

try:
    from opentelemetry import metrics, trace
except ImportError as exc:
    raise MissingExtraError("OpenTelemetry sink", extra="otel") from exc

if TYPE_CHECKING:
    from steadyhelm.engine.monitor import Monitor

SCOPE: Final = "steadyhelm"
"""The instrumentation scope of everything told here, by which Steadyhelm knows it again and leaves it out."""

EVALUATION: Final = "gen_ai.evaluation.result"
_WAITING: Final = 4096
_KEPT: Final = 4096

_Key = tuple[str, int]
K = TypeVar("K")
V = TypeVar("V")


class _Noticed(NamedTuple):
    """A finding as the agent's thread left it: where it happened, and how long after its step."""

    finding: DriftEvent
    context: trace.SpanContext
    latency_s: float


class _Tried(NamedTuple):
    """An answer that has not been judged yet, in the incident it was given in."""

    incident: Incident
    answer: Intervention


class OTel(Sink):
    """Sends findings, answers and counts to OpenTelemetry.

    A finding becomes an event `gen_ai.evaluation.result` on the current span of the code that records.
    That takes `attach`; a finding of a monitor that was not attached, or one outside any span, gets a span
    of its own. An answer becomes a span, a child of the span its finding was made in, from when it was
    given until it was judged.

    Args:
        min_severity: The lowest severity that is told; the counters count everything.
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
        self._answers = meter.create_counter(
            "steadyhelm.interventions", unit="{intervention}", description="Answers by action and verdict"
        )
        self._outcomes = meter.create_counter(
            "steadyhelm.intervention.outcomes", unit="{intervention}", description="Judged answers by outcome"
        )
        self._losses = meter.create_counter(
            "steadyhelm.losses", unit="{loss}", description="What Steadyhelm did not keep or could not do"
        )
        self._latency = meter.create_histogram(
            "steadyhelm.finding.latency",
            unit="s",
            description="From the end of a step to the finding about it",
        )
        self._clock = clock
        self._attached: weakref.WeakSet[Monitor] = weakref.WeakSet()
        self._agents: set[str] = set()
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = ForkSafeLock()
        # Appending to a deque needs no lock, so the agent's thread never waits, nor hangs after a fork.
        self._noticed: deque[_Noticed] = deque(maxlen=_WAITING)
        self._told: dict[tuple[int, str, str], int] = {}
        self._dropped = 0
        self._places: dict[str, trace.SpanContext] = {}
        self._last_at: dict[str, float] = {}
        self._tried: dict[_Key, _Tried] = {}
        self._counted: dict[str | _Key, None] = {}

    # --- on the agent's thread -------------------------------------------------------------------

    def attach(self, monitor: "Monitor") -> None:
        """Put the findings of this monitor on the span that is current where they are made."""
        if monitor not in self._attached:
            self._attached.add(monitor)
            self._agents.add(monitor.agent_id)
            monitor.on_drift(self._notice, min_severity=Severity.LOW.value)

    def _notice(self, finding: DriftEvent) -> None:
        span = trace.get_current_span()
        late = max(0.0, self._clock() - finding.timestamp)
        self._dropped += len(self._noticed) == _WAITING
        self._noticed.append(_Noticed(finding, span.get_span_context(), late))
        if not span.is_recording() or finding.severity.rank < self._least:
            return
        times = self._times_told(span.get_span_context().span_id, finding)
        # A span holds few events, and they are the host's: the 1st, 2nd, 4th, 8th and so on are told.
        if times & (times - 1) == 0:
            span.add_event(EVALUATION, {**about_finding(finding), "steadyhelm.times": times})

    def _times_told(self, span_id: int, finding: DriftEvent) -> int:
        key = (span_id, finding.detector, finding.severity.value)
        if len(self._told) > _KEPT:
            self._told.clear()
        self._told[key] = self._told.get(key, 0) + 1
        return self._told[key]

    # --- on the writer's thread ------------------------------------------------------------------

    def write(self, records: Sequence[Record]) -> None:
        """Tell one batch; what cannot be told is logged, and never tried again: it would be told twice."""
        if os.getpid() != self._pid:
            self._begin()
        with self._lock:
            self._guarded(self._take_noticed)
            for record in records:
                self._guarded(self._tell, record)

    def flush(self) -> None:
        """Tell what was noticed since the last batch."""
        with self._lock:
            self._guarded(self._take_noticed)

    def close(self) -> None:
        """Tell of the answers that nobody will judge any more."""
        self.flush()
        with self._lock:
            for key in list(self._tried):
                self._guarded(self._end_answer, key)

    def _guarded(self, tell: Callable[..., None], *told: Any) -> None:
        try:
            tell(*told)
        except Exception as exc:  # noqa: BLE001 - an SDK may fail in any way
            logger.debug("OpenTelemetry did not take what it was told", exc_info=exc)

    def _tell(self, record: Record) -> None:
        if isinstance(record, RecordedEvent):
            _keep(self._last_at, record.event.run_id, record.event.timestamp)
        elif isinstance(record, DriftEvent):
            self._count_finding(record)
            if record.agent_id not in self._agents and record.severity.rank >= self._least:
                self._tell_apart(record)
        elif isinstance(record, Incident):
            self._take_answers(record)
        elif isinstance(record, Loss):
            self._losses.add(max(0, record.count), {"reason": text_of(record.reason)})
        elif isinstance(record, RunSummary | SavedState):
            self._end_run(record.run_id)

    def _take_noticed(self) -> None:
        if self._dropped:
            self._losses.add(self._dropped, {"reason": "finding not told to OpenTelemetry"})
            self._dropped = 0
        while self._noticed:
            finding, context, late = self._noticed.popleft()
            self._latency.record(late, {"detector": finding.detector})
            if context.is_valid:
                _keep(self._places, finding.run_id, context)
            elif finding.severity.rank >= self._least:
                self._tell_apart(finding)

    def _count_finding(self, finding: DriftEvent) -> None:
        if _is_new(self._counted, f"{finding.run_id}\0{finding.event_id}"):
            told = {"detector": finding.detector, "kind": finding.kind, "severity": finding.severity.value}
            self._findings.add(1, {"agent": text_of(finding.agent_id), **told})

    def _tell_apart(self, finding: DriftEvent) -> None:
        """A finding that no span of the agent's can hold has one of its own."""
        if not _is_new(self._counted, f"apart\0{finding.run_id}\0{finding.event_id}"):
            return
        at = in_ns(finding.timestamp)
        span = self._tracer.start_span(f"steadyhelm.finding {finding.detector}", start_time=at)
        span.add_event(EVALUATION, about_finding(finding), timestamp=at)
        span.end(at)

    def _take_answers(self, incident: Incident) -> None:
        for answer in incident.interventions:
            key = (incident.incident_id, answer.seq)
            if _is_new(self._counted, key):
                told = {"action": answer.action.value, "verdict": answer.verdict}
                self._answers.add(1, {"agent": text_of(incident.agent_id), **told})
            elif key not in self._tried:
                continue
            _keep(self._tried, key, _Tried(incident, answer))
            if answer.outcome != "unknown" or answer.not_carried_out or incident.state == "closed":
                self._end_answer(key)

    def _end_run(self, run_id: str) -> None:
        for key in [key for key, tried in self._tried.items() if tried.incident.run_id == run_id]:
            self._end_answer(key)
        self._places.pop(run_id, None)
        self._last_at.pop(run_id, None)

    def _end_answer(self, key: _Key) -> None:
        incident, answer = self._tried.pop(key)
        told: Attributes = {"action": answer.action.value, "outcome": answer.outcome}
        self._outcomes.add(1, {"agent": text_of(incident.agent_id), **told})
        if not answer.said:
            return  # advice that nobody was given did not happen
        context = None
        if (place := self._places.get(incident.run_id)) is not None:
            context = trace.set_span_in_context(trace.NonRecordingSpan(place))
        span = self._tracer.start_span(
            f"steadyhelm.intervention {answer.action.value}",
            context=context,
            start_time=in_ns(answer.timestamp),
            attributes=about_answer(incident, answer),
        )
        if answer.not_carried_out:
            span.set_status(trace.StatusCode.ERROR, text_of(answer.not_carried_out))
        span.end(in_ns(max(answer.timestamp, incident.last_at, self._last_at.get(incident.run_id, 0.0))))


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    """Put it in, the oldest out when there are too many."""
    kept[key] = value
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]


def _is_new(seen: dict[K, None], key: K) -> bool:
    """Whether this comes for the first time: a batch may come again."""
    if key in seen:
        return False
    _keep(seen, key, None)
    return True
