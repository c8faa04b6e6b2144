import base64
import gzip
import json
import sys
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

pytest.importorskip("opentelemetry.proto")

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from steadyhelm.errors import FormatError, MissingExtraError
from steadyhelm.recordings.otlp import build_runs, decode_otlp
from steadyhelm.recordings.spans.steps import NOT_RECORDED, describe_missing_content

AT = 1_770_000_000
JSON, PROTOBUF = "application/json", "application/x-protobuf"
TRACE = bytes(range(16))
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt"}
LS = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ls"}
KNOWN = {"gen_ai.tool.call.arguments": {"path": "."}, "gen_ai.tool.call.result": "a.py"}
NOT_RECORDED_CALLS = (
    "arguments and result of {} calls were not recorded: whether they repeat is not checked; "
    + describe_missing_content({})
)
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "find the bug"}]}]


def any_value(value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, bytes):
        return AnyValue(bytes_value=value)
    written = AnyValue()
    if isinstance(value, list):
        written.array_value.values.extend(any_value(inner) for inner in value)
    elif isinstance(value, dict):
        written.kvlist_value.values.extend(pairs(value))
    else:
        written.string_value = value
    return written


def pairs(attributes: dict) -> Iterable[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def request(*spans: dict, scope: str = "agent") -> ExportTraceServiceRequest:
    """A request with spans, each by id, start, end and attributes, and perhaps a parent and an error."""
    message = ExportTraceServiceRequest()
    batch = message.resource_spans.add()
    batch.resource.attributes.extend(pairs({"service.name": "desk"}))
    within = batch.scope_spans.add()
    within.scope.name = scope
    for told in spans:
        span = within.spans.add(
            trace_id=told.get("trace", TRACE),
            span_id=bytes([told["id"]] * 8),
            parent_span_id=bytes([told["parent"]] * 8) if "parent" in told else b"",
            name=told.get("name", "a span"),
            start_time_unix_nano=int((AT + told["start"]) * 10**9),
            end_time_unix_nano=int((AT + told["end"]) * 10**9),
        )
        span.attributes.extend(pairs(told["attributes"]))
        if "error" in told:
            span.status.code, span.status.message = 2, told["error"]
    return message


def as_json(message: ExportTraceServiceRequest) -> bytes:
    """The same as OTLP/JSON, which has ids in hexadecimal."""
    written = MessageToDict(message)
    for batch in written.get("resourceSpans", []):
        for within in batch["scopeSpans"]:
            for span in within.get("spans", []):
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in span:
                        span[key] = base64.b64decode(span[key]).hex().upper()
    return json.dumps(written).encode()


def both(message: ExportTraceServiceRequest) -> list[tuple[bytes, str]]:
    return [(message.SerializeToString(), PROTOBUF), (as_json(message), JSON)]


def told(runs) -> list[list[tuple[str, str]]]:
    return [[(event.action_name, event.text) for event in run.events] for run in runs]


NEW = request(
    {"id": 3, "parent": 1, "start": 3, "end": 4, "attributes": LS | KNOWN},
    {
        "id": 2,
        "parent": 1,
        "start": 1,
        "end": 2,
        "attributes": CHAT | {"gen_ai.input.messages": ASKED, "gen_ai.usage.input_tokens": 30},
    },
    {"id": 1, "start": 0, "end": 5, "attributes": {"gen_ai.operation.name": "invoke_agent"}},
)


class TestForms:
    @pytest.mark.parametrize(("body", "kind"), both(NEW))
    def test_both_tell_the_same(self, body, kind):
        """
        JSON and protobuf tell the same story, children before parents, structured values and all.
        """
        [run] = decode_otlp(body, kind).build_runs()
        assert [[("user", "find the bug"), ("gpt", ""), ("ls", "a.py")]] == told([run])
        assert (TRACE.hex(), "desk", "find the bug") == (run.info.run_id, run.info.agent_id, run.info.goal)
        assert ({"path": "."}, 1000.0, 30) == (
            run.events[2].input_data,
            run.events[2].duration_ms,
            run.events[1].token_count,
        )

    @pytest.mark.parametrize(("body", "kind"), both(NEW))
    def test_gzip(self, body, kind):
        """
        A body may be compressed.
        """
        assert decode_otlp(body, kind) == decode_otlp(
            gzip.compress(body, mtime=0), kind, content_encoding="GZIP"
        )

    def test_the_type_may_say_more(self):
        """
        A content type's parameters and capitals do not matter.
        """
        assert 3 == len(decode_otlp(as_json(NEW), "Application/JSON; charset=utf-8").spans)

    @pytest.mark.parametrize(("body", "kind"), [(b"", PROTOBUF), (b"", JSON), (b"{}", JSON)])
    def test_nothing(self, body, kind):
        """
        An empty request is a request.
        """
        assert ([], 0) == (decode_otlp(body, kind).spans, decode_otlp(body, kind).rejected)

    def test_a_trace_in_pieces(self):
        """
        Spans that came with several requests, some of them twice, are put together.
        """
        pieces = [NEW]
        for span in NEW.resource_spans[0].scope_spans[0].spans:
            piece = request()
            piece.resource_spans[0].scope_spans[0].spans.append(span)
            pieces.append(piece)
        spans = [span for piece in pieces for span in decode_otlp(piece.SerializeToString(), PROTOBUF).spans]
        assert told(decode_otlp(as_json(NEW)).build_runs()) == told(build_runs(spans))


class TestConventions:
    @pytest.mark.parametrize("place", [0, 1])
    def test_the_older_one(self, place):
        """
        Messages as events, and tokens under their older names.
        """
        old = {"gen_ai.system": "openai", "gen_ai.request.model": "gpt", "gen_ai.usage.completion_tokens": 7}
        message = request({"id": 1, "start": 0, "end": 1, "attributes": old})
        span = message.resource_spans[0].scope_spans[0].spans[0]
        span.events.add(name="gen_ai.user.message").attributes.extend(pairs({"content": "look"}))
        span.events.add(name="gen_ai.choice").attributes.extend(pairs({"message": '{"content": "I look."}'}))
        [run] = decode_otlp(*both(message)[place]).build_runs()
        assert ([[("user", "look"), ("gpt", "I look.")]], 7) == (told([run]), run.events[1].token_count)

    @pytest.mark.parametrize("place", [0, 1])
    def test_openinference(self, place):
        """
        OpenInference spreads its messages over keys.
        """
        model = {
            "openinference.span.kind": "LLM",
            "llm.model_name": "gpt",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "I look.",
        }
        tool = {"openinference.span.kind": "TOOL", "tool.name": "ls", "output.value": "a.py"}
        message = request(
            {"id": 1, "start": 0, "end": 1, "attributes": model},
            {"id": 2, "start": 2, "end": 3, "attributes": tool},
        )
        assert [[("gpt", "I look."), ("ls", "a.py")]] == told(decode_otlp(*both(message)[place]).build_runs())

    def test_messages_on_the_details_event(self):
        """
        Newer emitters put a model's messages on one event of its span.
        """
        message = request({"id": 1, "start": 0, "end": 1, "attributes": CHAT})
        details = message.resource_spans[0].scope_spans[0].spans[0].events.add()
        details.name = "gen_ai.client.inference.operation.details"
        details.attributes.extend(pairs({"gen_ai.input.messages": ASKED}))
        assert [[("user", "find the bug"), ("gpt", "")]] == told(decode_otlp(as_json(message)).build_runs())

    def test_a_tool_that_tells_by_events(self):
        """
        Arguments and result of a tool may stand on events of its span.
        """
        message = request({"id": 1, "start": 0, "end": 1, "attributes": LS})
        span = message.resource_spans[0].scope_spans[0].spans[0]
        span.events.add(name="gen_ai.tool.message").attributes.extend(pairs({"content": '{"path": "."}'}))
        span.events.add(name="gen_ai.choice").attributes.extend(pairs({"message": "a.py"}))
        [run] = decode_otlp(as_json(message)).build_runs()
        assert ({"path": "."}, "a.py") == (run.events[0].input_data, run.events[0].text)

    def test_parts_in_a_text(self):
        """
        Contents on events may be parts, written as JSON: their words are what was said.
        """
        message = request({"id": 1, "start": 0, "end": 1, "attributes": CHAT})
        span = message.resource_spans[0].scope_spans[0].spans[0]
        span.events.add(name="gen_ai.user.message").attributes.extend(
            pairs({"content": '[{"text": "look"}]'})
        )
        span.events.add(name="gen_ai.choice").attributes.extend(pairs({"message": '[{"text": "I look."}]'}))
        assert [[("user", "look"), ("gpt", "I look.")]] == told(decode_otlp(as_json(message)).build_runs())


class TestWithoutARoot:
    def test_traces_of_single_requests_are_joined(self):
        """
        Requests that continue each other are one run, each in a trace of its own; the user speaks once.
        """
        spans, talk = [], list(ASKED)
        for n in range(1, 4):
            part = {"type": "tool_call", "id": f"c{n}", "name": "ls", "arguments": {"path": "."}}
            reply = {"role": "assistant", "parts": [part]}
            content = {
                "gen_ai.input.messages": json.dumps(talk),
                "gen_ai.output.messages": json.dumps([reply]),
            }
            result = {"type": "tool_call_response", "id": f"c{n}", "response": "a.py"}
            talk += [reply, {"role": "tool", "parts": [result]}]
            one = request({"id": n, "start": n, "end": n + 0.5, "attributes": CHAT | content})
            spans += decode_otlp(as_json(one)).spans
        spans = [structs.replace(span, trace_id=f"trace {n}") for n, span in enumerate(spans)]
        [run] = build_runs(spans)

        model = ["llm_request", "tool_call"] * 3
        assert ["user_message", *model] == [event.action_type for event in run.events]
        assert "find the bug" == run.info.goal

    def test_a_root_agent_keeps_its_name(self):
        """
        A run has the name of the agent at its root, also where only the name of its span says it.
        """
        agent = {"id": 1, "name": "invoke_agent fixer", "start": 1, "end": 9, "attributes": {}}
        call = {"id": 2, "parent": 1, "start": 2, "end": 3, "attributes": LS | KNOWN}
        [run] = decode_otlp(as_json(request(agent, call))).build_runs()

        assert "fixer" == run.info.agent_id


class TestWhatIsMissing:
    def test_model_calls_without_messages(self):
        """
        Model calls without a message say nothing about tools: the run says so, with the setting to change.
        """
        [run] = decode_otlp(
            as_json(request({"id": 1, "start": 1, "end": 2, "attributes": CHAT}))
        ).build_runs()

        assert describe_missing_content({}) in run.problems[0]

    def test_arguments_that_were_not_recorded(self):
        """
        Calls of which only names are known are no repetition of each other, and the run says so.
        """
        calls = [{"id": i, "start": i, "end": i + 0.5, "attributes": LS} for i in range(1, 9)]
        [run] = decode_otlp(as_json(request(*calls))).build_runs()
        assert 8 == len({event.input_data[NOT_RECORDED] for event in run.events})
        assert [NOT_RECORDED_CALLS.format(8)] == run.problems

    def test_messages_without_their_words(self):
        """
        Messages that keep their shape and leave out their content are neither a goal nor a repetition.
        """
        asked = {"role": "user", "parts": [{"type": "text"}]}
        call = {"role": "assistant", "parts": [{"type": "tool_call", "name": "ls"}]}
        told = CHAT | {"gen_ai.input.messages": [asked], "gen_ai.output.messages": [call]}
        chats = [{"id": i, "start": i, "end": i + 0.5, "attributes": told} for i in range(1, 6)]
        [run] = decode_otlp(as_json(request(*chats))).build_runs()
        assert "" == run.info.goal
        calls = [event for event in run.events if event.action_name == "ls"]
        assert 5 == len({event.input_data[NOT_RECORDED] for event in calls})
        assert [NOT_RECORDED_CALLS.format(5)] == run.problems

    def test_errors_of_the_agent(self):
        """
        An agent's own error is seen; one that only passes on the error of a step is not told twice.
        """
        agent = {"gen_ai.operation.name": "invoke_agent"}
        tool = {"id": 2, "parent": 1, "start": 1, "end": 2, "attributes": LS, "error": "lost"}
        for words, seen in (("lost", ["ls"]), ("too many turns", ["ls", "agent_error"])):
            top = {"id": 1, "start": 0, "end": 5, "attributes": agent, "error": words}
            [run] = decode_otlp(as_json(request(tool, top))).build_runs()
            assert seen == [event.action_name for event in run.events]

    def test_an_agent_that_fails_at_once(self):
        """
        An agent that fails before its first step is a run all the same.
        """
        agent = {"gen_ai.operation.name": "invoke_agent"}
        top = {"id": 1, "start": 0, "end": 5, "attributes": agent, "error": "no key"}
        [run] = decode_otlp(as_json(request(top))).build_runs()
        assert [("agent_error", "no key")] == [(event.action_name, event.error) for event in run.events]

    def test_one_call_told_twice(self):
        """
        Two spans of one call id at one time are one call; at another time it is another try.
        """
        known = LS | KNOWN | {"gen_ai.tool.call.id": "c1"}
        times = {1: (0, 2), 2: (1, 2), 3: (5, 6)}
        spans = [{"id": i, "start": a, "end": b, "attributes": known} for i, (a, b) in times.items()]
        [run] = decode_otlp(as_json(request(*spans))).build_runs()
        assert 2 == len(run.events)

    def test_our_own_spans(self):
        """
        What Steadyhelm told itself is left out without a word.
        """
        found = decode_otlp(
            as_json(request({"id": 1, "start": 0, "end": 1, "attributes": LS}, scope="steadyhelm"))
        )
        assert ([], 0, []) == (found.spans, found.rejected, found.problems)


class TestClocks:
    def test_a_parent_whose_clock_is_late(self):
        """
        Nobody works before being asked, whatever the clocks of several machines say.
        """
        agent = {"gen_ai.operation.name": "invoke_agent", "input.value": "find the bug"}
        [run] = decode_otlp(
            as_json(
                request(
                    {"id": 1, "start": 50, "end": 60, "attributes": agent},
                    {"id": 2, "parent": 1, "start": 1, "end": 2, "attributes": LS | KNOWN},
                )
            )
        ).build_runs()
        assert [[("user", "find the bug"), ("ls", "a.py")]] == told([run])

    def test_an_end_before_the_start(self):
        """
        A span that ends before it began has taken no time.
        """
        body = as_json(request({"id": 1, "start": 9, "end": 1, "attributes": LS | KNOWN}))
        assert [0.0] == [event.duration_ms for run in decode_otlp(body).build_runs() for event in run.events]


class TestHostility:
    @pytest.mark.parametrize(
        ("body", "kind", "encoding", "words"),
        [
            (b"{}", "text/plain", "", "application/json or application/x-protobuf, got 'text/plain'"),
            (b"{}", JSON, "br", "plain or as gzip, got content-encoding 'br'"),
            (b"{", JSON, "", "cannot be read"),
            (b"[]", JSON, "", "an object with resourceSpans, got a list"),
            (b"[" * 100_000, JSON, "", "cannot be read"),
            (b"\xff\xfe\x00", PROTOBUF, "", "no ExportTraceServiceRequest"),
            (NEW.SerializeToString()[:-5], PROTOBUF, "", "no ExportTraceServiceRequest"),
            (b"no gzip", JSON, "gzip", "not gzip, or damaged"),
            (gzip.compress(b"{}" * 99, mtime=0)[:-12], JSON, "gzip", "ends too early"),
        ],
    )
    def test_what_cannot_be_read(self, body, kind, encoding, words):
        """
        A body that is not what it says gives one error with the reason.
        """
        with pytest.raises(FormatError, match=words):
            decode_otlp(body, kind, content_encoding=encoding)

    @pytest.mark.parametrize("encoding", ["", "gzip"])
    def test_a_body_that_is_too_large(self, encoding):
        """
        A large body is refused, one that is only large when unpacked too.
        """
        body = b" " * 1_000_000
        with pytest.raises(FormatError, match="larger than 1,000 bytes"):
            decode_otlp(gzip.compress(body) if encoding else body, content_encoding=encoding, limit=1000)

    def test_spans_that_are_none(self):
        """
        What stands among the spans and is none is counted and told, the others are taken.
        """
        value = json.loads(as_json(NEW))
        value["resourceSpans"][0]["scopeSpans"][0]["spans"] += [
            {"name": "lost"},
            7,
            {"traceId": 1, "spanId": "a"},
        ]
        found = decode_otlp(json.dumps(value).encode())
        assert (3, 3) == (len(found.spans), found.rejected)
        assert ["3 spans have no trace id or no span id and were left out"] == found.problems

    def test_a_huge_attribute(self):
        """
        A result of several megabytes is cut, and the cut is noted.
        """
        huge = LS | {"gen_ai.tool.call.result": "x" * 3_000_000}
        [run] = decode_otlp(
            request({"id": 1, "start": 0, "end": 1, "attributes": huge}).SerializeToString(), PROTOBUF
        ).build_runs()
        assert len(run.events[0].text) < 1_100_000
        assert 1 == run.unread

    def test_deep_values(self):
        """
        Values within values without end give no error.
        """
        value = "x"
        for _ in range(40):
            value = [value]
        message = request({"id": 1, "start": 0, "end": 1, "attributes": LS | {"input.value": value}})
        assert [1, 1] == [len(decode_otlp(*form).build_runs()) for form in both(message)]

    @given(st.integers(0, 400), st.binary(max_size=6))
    def test_damaged_protobuf(self, place, junk):
        """
        Whatever is cut out of a request or written into it, there are spans or a FormatError.
        """
        body = NEW.SerializeToString()
        for damaged in (body[:place], body[:place] + junk + body[place + len(junk) :], junk + body):
            try:
                runs = decode_otlp(damaged, PROTOBUF).build_runs()
            except FormatError:
                continue
            assert all(run.events for run in runs)

    def test_without_the_package(self, monkeypatch):
        """
        Protobuf without its package names the extra; JSON needs none.
        """
        monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1.trace_service_pb2", None)
        assert 3 == len(decode_otlp(as_json(NEW)).spans)
        with pytest.raises(MissingExtraError, match=r"steadyhelm\[otlp\]"):
            decode_otlp(NEW.SerializeToString(), PROTOBUF)
