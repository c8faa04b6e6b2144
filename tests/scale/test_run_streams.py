"""What a worker does with the messages of a run, without Spark."""

import json
import pickle
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from steadyhelm import BaselineStats, Callback, DriftMonitor, FormatError, RunInfo, Severity
from steadyhelm.errors import MissingExtraError
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import Replayer
from steadyhelm.scale import (
    KnowledgeSnapshot,
    MessageSink,
    Source,
    encode_end,
    encode_event,
    read_kafka,
    read_snapshot,
)
from steadyhelm.scale.messages import decode_message, encode_run, join_messages
from steadyhelm.scale.run_stream import Latest, RunStream
from steadyhelm.scale.spark import open_spark
from steadyhelm.settings import Settings
from steadyhelm.sink import RecordedEvent
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing import SINK_CHECKS
from steadyhelm.testing.traces import AGENT, RUN, events

INFO = RunInfo(agent_id=AGENT, run_id=RUN, goal="finish every part of the plan")
KEY = (AGENT, RUN)


def recorded(picture):
    found = [decode_message(encode_event(INFO, it)).event for it in events(picture)]
    return join_messages(
        encode_event(INFO, type(it)(**{**it.to_dict(), "event_id": str(it.seq)})) for it in found
    )


def judge_in_parts(stream, messages, cuts):
    """The results of messages that come in several batches."""
    state, latest, results = None, Latest(), []
    for first, last in zip([0, *cuts], [*cuts, len(messages)], strict=True):
        if first < last:
            state, latest, _, new = stream.judge(KEY, state, latest, messages[first:last])
            results += new
    return results


class TestRunStream:
    @effort(max_examples=30)
    @given(st.text(alphabet="aabbAr. x", min_size=1, max_size=40), st.lists(st.integers(0, 40), max_size=4))
    def test_cut_anywhere_it_says_what_a_scan_says(self, picture, cuts):
        """
        However the messages of a run are cut into batches, findings, places and responses are a scan's.
        """
        run = recorded(picture)
        messages = [*encode_run(run), encode_end(INFO, run.events[-1].timestamp)]
        cuts = sorted(min(cut, len(messages)) for cut in cuts)
        results = judge_in_parts(RunStream(Settings()), messages, cuts)
        judged = Replayer(Settings()).judge(run)

        assert Counter((it.at, it.detector, it.message) for it in judged.report.findings) == Counter(
            (int(body["event_id"]), body["detector"], body["message"])
            for body in (json.loads(it.body) for it in results if it.kind == "finding")
        )
        assert {it.incident_id for it in judged.incidents} == {
            it.id for it in results if it.kind == "incident"
        }
        (end,) = [json.loads(it.body) for it in results if it.kind == "run"]
        assert (judged.report.action, judged.report.tokens_saved) == (end["action"], end["tokens_saved"])

    def test_the_keys_are_unique(self):
        """
        No two findings of a run share a key, those at its end included.
        """
        messages = [*encode_run(recorded("aaaaaarrrr" * 6)), encode_end(INFO, 1_700_000_100.0)]
        found = [it.id for it in judge_in_parts(RunStream(Settings()), messages, []) if it.kind == "finding"]

        assert found
        assert len(found) == len(set(found))

    def test_a_batch_that_is_repeated_has_the_same_results(self):
        """
        From the same state, the same messages give the same results and the same state, to the byte.
        """
        messages = encode_run(recorded("aaaaaa"))
        state, latest, *_ = RunStream(Settings()).judge(KEY, None, Latest(), messages[:3])
        again = [RunStream(Settings()).judge(KEY, state, latest, messages[3:]) for _ in range(2)]

        assert again[0] == again[1]

    def test_a_run_keeps_the_baseline_it_began_with(self):
        """
        A stream that is started again with other baselines compares runs that go on with what they had.
        """
        known = BaselineStats(agent_id=AGENT, calibration_runs=40, is_calibrated=True)
        messages = [*encode_run(recorded("ab")), encode_end(INFO, 1_700_000_100.0)]
        first = RunStream(Settings(), KnowledgeSnapshot({(AGENT, "", ""): known}))
        state, latest, *_ = first.judge(KEY, None, Latest(), messages[:1])
        *_, results = RunStream(Settings(), KnowledgeSnapshot()).judge(KEY, state, latest, messages[1:])
        alone = judge_in_parts(RunStream(Settings(), KnowledgeSnapshot()), messages, [])

        assert "baseline" not in json.loads(results[-1].body)["not_checked"]
        assert "baseline" in json.loads(alone[-1].body)["not_checked"]

    def test_what_cannot_be_read_is_reported(self):
        """
        A message that is none is a result of its own, and the run goes on.
        """
        good = encode_run(recorded("ab"))
        state, _, _, results = RunStream(Settings()).judge(KEY, None, Latest(), [good[0], b"\xff{", good[1]])

        assert state
        assert ["unreadable"] == [it.kind for it in results]


class TestMessages:
    def test_a_run_comes_back(self):
        """
        A run that was cut into messages is joined again, in whichever order they come.
        """
        run = recorded("ab r")

        assert run == join_messages(reversed(encode_run(run)))
        assert isinstance(run, ReadRun)

    @pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"run": 1}', b"\xff"])
    def test_what_is_no_message(self, value):
        """
        Anything else is refused, and a run of nothing else is none.
        """
        with pytest.raises(FormatError, match="cannot be read"):
            decode_message(value)
        assert None is join_messages([value])


SECRET = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5qRs8t" * 2


class Broker:
    """Keeps messages as a broker does; it refuses some of them first."""

    def __init__(self, refused=()):
        self.messages = []
        self._refused = set(refused)
        self._attempts = 0

    def send(self, key, value):
        self._attempts += 1
        if self._attempts in self._refused:
            raise ConnectionError("the broker is away")
        self.messages.append((key, value))


def watch_agent(broker):
    """What a monitor finds in a run that it also sends to a broker: detectors and messages."""
    found = []
    sinks = [MessageSink(broker.send), Callback(found.append, min_severity=Severity.LOW)]
    monitor = DriftMonitor(AGENT, sinks=sinks)
    with monitor.run(run_id=RUN, goal=f"sign in with {SECRET}", version="2"):
        for _ in range(5):
            monitor.record_event("tool_call", "search", input_data={"key": SECRET}, output_data="none")
    monitor.close()
    return [(it.detector, it.message) for it in found]


class TestMessageSink:
    @pytest.mark.parametrize("check", SINK_CHECKS, ids=lambda check: check.__name__)
    def test_it_holds_to_the_contract(self, check):
        """
        It passes every check of the conformance suite.
        """
        check(lambda: MessageSink(Broker().send))

    def test_the_stream_finds_what_the_monitor_found(self):
        """
        What a monitor sends is judged elsewhere as it was judged here, to the run's end.
        """
        broker = Broker()
        found = watch_agent(broker)
        stream = RunStream(Settings()).judge(KEY, None, Latest(), [value for _, value in broker.messages])
        findings = [json.loads(it.body) for it in stream.results if it.kind == "finding"]

        assert {RUN} == {key for key, _ in broker.messages}
        assert stream.has_ended
        assert found
        assert found == [(it["detector"], it["message"]) for it in findings]

    def test_secrets_stay_in_the_agent(self):
        """
        A payload and a goal are sent redacted, and what is known about the run with each event.
        """
        broker = Broker()
        watch_agent(broker)
        messages = [decode_message(value) for _, value in broker.messages]

        assert SECRET.encode() not in b"".join(value for _, value in broker.messages)
        assert {"2"} == {it.run.version for it in messages}
        assert {"none"} == {it.event.output_data for it in messages if it.event}

    def test_a_broker_that_was_away(self):
        """
        A batch that could not be sent is sent again; what came twice is told apart.
        """
        broker = Broker(refused=[3])
        found = watch_agent(broker)
        values = [value for _, value in broker.messages]
        stream = RunStream(Settings()).judge(KEY, None, Latest(), values)
        findings = [json.loads(it.body) for it in stream.results if it.kind == "finding"]

        assert len(set(values)) < len(values)
        assert stream.has_ended
        assert found == [(it["detector"], it["message"]) for it in findings]

    def test_a_run_that_began_elsewhere(self):
        """
        Of a run whose beginning it has not seen it sends what is in each event.
        """
        broker = Broker()
        MessageSink(broker.send).write([RecordedEvent.of(events("a")[0])])
        [(_, value)] = broker.messages

        assert RunInfo(agent_id=AGENT, run_id=RUN) == decode_message(value).run


class TestSources:
    def test_a_broker_is_read_by_run_id(self):
        """
        A topic is a source like a folder: a format and options, to which others can be added.
        """
        source = read_kafka("one:9092,two:9092", "steps", {"kafka.security.protocol": "SSL"})

        assert Source("kafka", {**source.options}) == source
        assert {
            "kafka.bootstrap.servers": "one:9092,two:9092",
            "subscribe": "steps",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "50000",
            "kafka.security.protocol": "SSL",
        } == source.options


class TestSnapshot:
    def test_it_knows_what_the_store_knows(self, tmp_path):
        """
        What is sent to workers answers as the store does, also after the way there.
        """
        store = SQLiteStore(tmp_path / "known.db")
        baseline = BaselineStats(agent_id=AGENT, version="2", calibration_runs=3)
        store.save_baseline(baseline)
        snapshot = pickle.loads(pickle.dumps(read_snapshot(store)))

        assert baseline == snapshot.get_baseline(AGENT, "2")
        assert None is snapshot.get_baseline(AGENT)
        assert store.list_thresholds() == snapshot.list_thresholds()
        assert store.list_tool_marks(AGENT) == snapshot.list_tool_marks(AGENT)
        store.close()


def test_without_pyspark_the_extra_is_named(monkeypatch):
    """
    Where Spark is not installed, the message says how to install it.
    """
    monkeypatch.setitem(__import__("sys").modules, "pyspark.sql", None)

    with pytest.raises(MissingExtraError, match=r"steadyhelm\[spark\]"), open_spark():
        pass
