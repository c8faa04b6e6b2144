import json
import math
import os
import sys
import threading

import pytest

pytest.importorskip("opentelemetry.sdk")

from msgspec import structs
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from steadyhelm.adapters.otel import SteadyhelmSpanProcessor
from steadyhelm.assembly import DriftMonitor
from steadyhelm.decisions import DriftAction, Intervention
from steadyhelm.events import RunSummary
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident
from steadyhelm.recordings.spans import layouts as span_layouts
from steadyhelm.sink import Loss
from steadyhelm.sinks import otel
from steadyhelm.sinks.otel import EVALUATION_EVENT, OTel
from steadyhelm.testing import SINK_CHECKS

AT = 1_770_000_000.0


class Told:
    """A tracer and a meter that keep what they are told, and the sink that tells them."""

    def __init__(self, **options) -> None:
        self.exporter = InMemorySpanExporter()
        self.traces = TracerProvider(shutdown_on_exit=False, **options)
        self.traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.sink = OTel(tracer_provider=self.traces, meter_provider=self.meters)
        self.tracer = self.traces.get_tracer("agent")

    @property
    def spans(self):
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def findings(self, name):
        """The scores on a span, by what was evaluated."""
        return [
            (event.attributes["gen_ai.evaluation.name"], event.attributes["gen_ai.evaluation.score.label"])
            for event in self.spans[name].events
            if event.name == EVALUATION_EVENT
        ]

    def counts(self, name, *keys):
        """A metric's numbers, by these of its attributes."""
        data = self.reader.get_metrics_data()
        metrics = [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        ]
        return {
            tuple(point.attributes[key] for key in keys): getattr(point, "value", None) or point.count
            for metric in metrics
            for point in metric.data.data_points
        }


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def monitor(told):
    monitor = DriftMonitor("fixer", sinks=[told.sink], mode="guide")
    told.sink.attach(monitor)
    yield monitor
    monitor.close()


def loop(monitor, times=5):
    for _ in range(times):
        monitor.record_event("tool_call", "search", input_data={"query": "x"}, output_data="none")


def finding(**changes):
    known = {
        "agent_id": "fixer",
        "run_id": "r",
        "detector": "action_loop",
        "kind": "loop",
        "severity": Severity.MED,
        "score": 0.5,
        "message": "again",
        "suggested_action": "stop",
        "timestamp": AT,
        "event_id": "r.1/action_loop",
    }
    return DriftEvent(**known | changes)


def answer(**changes):
    known = {"action": DriftAction.INJECT_REMINDER, "verdict": "guide", "seq": 3, "timestamp": AT + 1}
    return Intervention(**known | changes)


def incident(*answers, **changes):
    known = {
        "incident_id": "i1",
        "agent_id": "fixer",
        "run_id": "r",
        "detector": "action_loop",
        "kind": "loop",
        "severity": Severity.MED,
        "peak": 0.5,
        "message": "again",
        "suggested_action": "stop",
        "opened_at": AT,
        "opened_seq": 1,
        "last_at": AT + 4,
        "last_seq": 5,
        "interventions": answers,
    }
    return Incident(**known | changes)


@pytest.mark.parametrize("check", SINK_CHECKS, ids=lambda check: check.__name__)
def test_it_holds_to_the_contract(check):
    """
    It passes every check of the suite for sinks.
    """
    check(lambda: Told().sink)


class TestFindings:
    def test_they_stand_on_the_current_span(self, told, monitor):
        """
        A finding is an evaluation of the span in which it was made, under the standard names.
        """
        with monitor.run(), told.tracer.start_as_current_span("invoke_agent fixer"):
            loop(monitor, 3)
        [event] = told.spans["invoke_agent fixer"].events
        assert ("gen_ai.evaluation.result", "steadyhelm.action_loop", 0.5, "MED") == (
            event.name,
            *(event.attributes[f"gen_ai.evaluation.{key}"] for key in ("name", "score.value", "score.label")),
        )
        assert "3 times in a row" in event.attributes["gen_ai.evaluation.explanation"]
        assert ("fixer", "loop") == tuple(
            event.attributes[f"steadyhelm.{key}"] for key in ("agent_id", "kind")
        )

    def test_a_long_loop_does_not_fill_the_span(self, told, monitor):
        """
        Of findings that say the same, the 1st, 2nd, 4th, 8th and so on are told; all are counted.
        """
        with monitor.run(), told.tracer.start_as_current_span("run"):
            loop(monitor, 200)
        monitor.flush()
        assert len(told.findings("run")) < 16
        assert 199 == sum(told.counts("steadyhelm.findings", "severity").values())

    def test_outside_any_span(self, told, monitor):
        """
        A finding outside any span has a span of its own, at its own time.
        """
        with monitor.run():
            loop(monitor, 3)
        monitor.flush()
        assert [("steadyhelm.action_loop", "MED")] == told.findings("steadyhelm.finding action_loop")

    def test_in_a_trace_that_is_not_sampled(self):
        """
        In a trace that the host does not sample nothing is told, but everything is counted.
        """
        told = Told(sampler=ALWAYS_OFF)
        monitor = DriftMonitor("fixer", sinks=[told.sink])
        told.sink.attach(monitor)
        with monitor.run(), told.tracer.start_as_current_span("run"):
            loop(monitor, 3)
        monitor.close()
        assert {} == told.spans
        assert {("LOW",): 1, ("MED",): 1} == told.counts("steadyhelm.findings", "severity")

    def test_without_attach(self, told):
        """
        A sink that was not attached knows no current span: its findings have spans of their own.
        """
        with told.tracer.start_as_current_span("run"):
            told.sink.write([finding()])
        assert ([], 1) == (told.findings("run"), len(told.findings("steadyhelm.finding action_loop")))

    def test_attached_twice(self, told, monitor):
        """
        Attaching again changes nothing.
        """
        told.sink.attach(monitor)
        with monitor.run(), told.tracer.start_as_current_span("run"):
            loop(monitor, 3)
        assert 1 == len(told.findings("run"))

    def test_a_durable_monitor(self, told):
        """
        Where the writer is faster than the agent's thread, each finding is still told once.
        """
        monitor = DriftMonitor("fixer", sinks=[told.sink], durability="durable")
        told.sink.attach(monitor)
        with monitor.run(), told.tracer.start_as_current_span("run"):
            loop(monitor, 3)
        monitor.close()
        assert ["run"] == list(told.spans)
        assert 1 == len(told.findings("run"))


class TestAnswers:
    def test_they_are_spans(self, told, monitor):
        """
        An answer is a span within the one its finding was made in, and says what came of it.
        """
        with monitor.run(), told.tracer.start_as_current_span("run") as root:
            loop(monitor, 30)
        monitor.flush()
        span = told.spans["steadyhelm.intervention INJECT_REMINDER"]
        assert root.get_span_context().span_id == span.parent.span_id
        assert ("guide", "ignored", "loop") == tuple(
            span.attributes[f"steadyhelm.{key}"] for key in ("verdict", "outcome", "kind")
        )
        assert span.start_time < span.end_time

    def test_one_span_however_often_it_is_written(self, told):
        """
        An incident is written again whenever it grows: its answer is one span, ended when it is judged.
        """
        told.sink.write([incident(answer())])
        told.sink.write([incident(answer())])
        assert {} == told.spans
        for _ in range(2):
            told.sink.write([incident(answer(outcome="worked", tokens_saved=40))])
        [span] = told.exporter.get_finished_spans()
        assert ("worked", 40) == (
            span.attributes["steadyhelm.outcome"],
            span.attributes["steadyhelm.tokens_saved"],
        )
        assert {("worked",): 1} == told.counts("steadyhelm.intervention.outcomes", "outcome")

    @pytest.mark.parametrize("last", [RunSummary(agent_id="fixer", run_id="r"), None])
    def test_one_that_is_never_judged(self, told, last):
        """
        An answer that nobody judges is told when its run ends, or the sink is closed.
        """
        told.sink.write([incident(answer())])
        told.sink.write([last]) if last is not None else told.sink.close()
        assert ["steadyhelm.intervention INJECT_REMINDER"] == list(told.spans)

    def test_advice_that_nobody_was_given(self, told):
        """
        In observe mode nothing was done: that is counted, and is no span.
        """
        told.sink.write([incident(answer(verdict="proceed"), state="closed")])
        assert {} == told.spans
        assert {("proceed",): 1} == told.counts("steadyhelm.interventions", "verdict")

    def test_one_that_was_not_carried_out(self, told):
        """
        What a caller could not do is a span with an error.
        """
        told.sink.write([incident(answer(not_carried_out="no way to ask"))])
        [span] = told.exporter.get_finished_spans()
        assert (StatusCode.ERROR, "no way to ask") == (span.status.status_code, span.status.description)


class TestCounts:
    def test_the_latency(self, told, monitor):
        """
        How long after a step its finding was made is a histogram.
        """
        with monitor.run():
            loop(monitor, 4)
        monitor.flush()
        assert {("action_loop",): 3} == told.counts("steadyhelm.finding.latency", "detector")

    def test_losses(self, told):
        """
        What Steadyhelm lost is counted by reason: each loss carries the total so far of its process.
        """
        told.sink.write([Loss("queue full", 2, AT, "one"), Loss("queue full", 3, AT, "one")])
        told.sink.write([Loss("queue full", 3, AT, "one"), Loss("queue full", 2, AT, "two")])
        assert {("queue full",): 5} == told.counts("steadyhelm.losses", "reason")

    def test_a_finding_that_comes_twice(self, told):
        """
        A batch that is handed over again is not counted again.
        """
        told.sink.write([finding()])
        told.sink.write([finding()])
        assert ({("MED",): 1}, 1) == (told.counts("steadyhelm.findings", "severity"), len(told.spans))


class _Stuck(SpanExporter):
    """A back-end that takes its time, or fails."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.threads = []

    def export(self, spans):
        self.threads.append(threading.current_thread().name)
        self.go.wait(60)
        return SpanExportResult.SUCCESS


class TestAGuest:
    def test_a_slow_back_end_does_not_hold_the_agent_up(self, tmp_path):
        """
        Spans of ours are ended, and so perhaps sent, on the writer's thread alone.
        """
        stuck, traces = _Stuck(), TracerProvider(shutdown_on_exit=False)
        traces.add_span_processor(SimpleSpanProcessor(stuck))
        monitor = DriftMonitor("fixer", sinks=[sink := OTel(tracer_provider=traces)], mode="guide")
        sink.attach(monitor)
        with monitor.run():
            loop(monitor, 30)
        assert not monitor.flush(0.5).complete
        assert ["steadyhelm-writer"] == stuck.threads
        stuck.go.set()
        monitor.close()

    def test_a_back_end_that_fails(self, quiet):
        """
        An SDK that raises costs neither the agent nor the other sinks anything.
        """

        class Broken(TracerProvider):
            def get_tracer(self, *args, **options):
                return None

        sink = OTel(tracer_provider=Broken(shutdown_on_exit=False))
        sink.write([finding(), incident(answer(outcome="worked"))])
        sink.close()

    def test_half_a_character(self, told):
        """
        No text of ours keeps an exporter from encoding the batch it is in.
        """
        told.sink.write([finding(message="\ud800" * 10_000, score=math.nan)])
        [event] = told.spans["steadyhelm.finding action_loop"].events
        assert 4096 == len(event.attributes["gen_ai.evaluation.explanation"].encode())
        assert 0.0 == event.attributes["gen_ai.evaluation.score.value"]

    def test_a_fork(self, told):
        """
        What waits in a parent process is not told again by its child.
        """
        told.sink.write([incident(answer())])
        told.sink._pid = os.getpid() + 1
        told.sink.write([])
        told.sink.close()
        assert {} == told.spans

    def test_without_an_sdk(self):
        """
        With the API alone everything does nothing, and nothing is left open.
        """
        sink = OTel()
        sink.write([finding(), incident(answer(outcome="worked"))])
        sink.close()

        assert not trace.get_current_span().is_recording()

    def test_without_the_package(self, monkeypatch):
        """
        Without the API the message names the extra.
        """
        from steadyhelm.errors import MissingExtraError

        monkeypatch.setitem(sys.modules, "opentelemetry", None)
        monkeypatch.delitem(sys.modules, "steadyhelm.sinks.otel")
        with pytest.raises(MissingExtraError, match=r"steadyhelm\[otel\]"):
            __import__("steadyhelm.sinks.otel")

    def test_memory_is_bounded(self, told):
        """
        However many answers nobody judges, what is remembered of them has an end.
        """
        for place in range(5000):
            told.sink.write([incident(answer(seq=place), incident_id=f"i{place}")])
        assert 4096 == len(told.sink._open) == len(told.sink._counted)


class TestThereAndBack:
    def test_what_we_tell_is_not_watched(self, told):
        """
        With the processor before it and the sink behind it, a monitor never sees its own spans.
        """
        monitor = DriftMonitor("fixer", sinks=[told.sink], mode="guide")
        told.sink.attach(monitor)
        told.traces.add_span_processor(SteadyhelmSpanProcessor(monitor))
        call = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": json.dumps({"query": "x"}),
            "gen_ai.tool.call.result": "none",
        }
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "fixer"}
        with told.tracer.start_as_current_span("invoke_agent fixer", attributes=agent):
            for _ in range(5):
                told.tracer.start_span("execute_tool search", attributes=call).end()
        monitor.flush()
        assert ("steadyhelm.action_loop", "MED") == told.findings("invoke_agent fixer")[0]
        assert [5] == [run.events for run in monitor.store.list_runs("fixer")]
        monitor.close()

    def test_both_sides_know_the_scope_by_one_name(self):
        """
        The name we tell under is the name that readers leave out.
        """
        assert otel.SCOPE == span_layouts.OWN_SCOPE

    def test_records_are_not_changed(self, told):
        """
        Records are the same after they were told.
        """
        record = incident(answer(outcome="worked"))
        copy = structs.replace(record)
        told.sink.write([record])
        assert copy == record
