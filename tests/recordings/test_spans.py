import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import SAMPLES, encoded, fed, read, run_of, told, wild_objects

from steadyhelm.recordings.run_file import BrokenLine, ReadRun
from steadyhelm.recordings.spans.reader import Spans
from steadyhelm.recordings.transcript_reader import read_runs

AT = 1_770_000_000


def span(span_id: str, start: float = 0, end: float | None = None, parent: str = "", **attributes) -> dict:
    """A plain span; an attribute's dots are written as double underscores."""
    return {
        "trace_id": "t",
        "span_id": span_id,
        "parent_id": parent,
        "name": span_id,
        "start_time": AT + start,
        "end_time": None if end is None else AT + end,
        "attributes": {key.replace("__", "."): value for key, value in attributes.items()},
    }


def chat(span_id: str, start: float, end: float, **attributes) -> dict:
    return span(
        span_id, start, end, gen_ai__operation__name="chat", gen_ai__request__model="gpt", **attributes
    )


def tool(span_id: str, start: float, end: float | None, name: str = "ls", **attributes) -> dict:
    return span(
        span_id, start, end, gen_ai__operation__name="execute_tool", gen_ai__tool__name=name, **attributes
    )


def agent(span_id: str, start: float, end: float, **attributes) -> dict:
    return span(span_id, start, end, gen_ai__operation__name="invoke_agent", **attributes)


def otlp(spans: list[dict]) -> dict:
    """The same spans as OTLP/JSON has them."""

    def value(plain) -> dict:
        if isinstance(plain, int):
            return {"intValue": str(plain)}
        if isinstance(plain, list):
            return {"arrayValue": {"values": [value(inner) for inner in plain]}}
        if isinstance(plain, dict):
            pairs = [{"key": key, "value": value(inner)} for key, inner in plain.items()]
            return {"kvlistValue": {"values": pairs}}
        return {"stringValue": plain}

    written = [
        {
            "traceId": plain["trace_id"],
            "spanId": plain["span_id"],
            "parentSpanId": plain["parent_id"],
            "name": plain["name"],
            "startTimeUnixNano": str(int(plain["start_time"]) * 10**9),
            "endTimeUnixNano": str(int(plain["end_time"]) * 10**9),
            "attributes": [{"key": key, "value": value(v)} for key, v in plain["attributes"].items()],
        }
        for plain in spans
    ]
    service = [{"key": "service.name", "value": {"stringValue": "desk"}}]
    return {"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": written}]}]}


NEW = [
    chat(
        "a",
        0,
        2,
        gen_ai__input__messages=[{"role": "user", "parts": [{"type": "text", "content": "look"}]}],
        gen_ai__output__messages=[{"role": "assistant", "parts": [{"type": "text", "content": "I look."}]}],
        gen_ai__usage__input_tokens=30,
        gen_ai__usage__output_tokens=4,
    ),
    tool("b", 3, 5, gen_ai__tool__call__arguments='{"path": "."}', gen_ai__tool__call__result="a.py"),
]
MORE = [*NEW, agent("c", 0.5, 9), tool("d", 3.5, 4, parent="c")]
STORY = [
    ("user_message", "user", "look"),
    ("llm_request", "gpt", "I look."),
    ("tool_call", "ls", "a.py"),
]


class TestLayouts:
    @pytest.mark.parametrize("value", [NEW, {"spans": NEW}, otlp(NEW), [otlp(NEW)]])
    def test_one_story(self, value):
        """
        OTLP/JSON, a list and an object with spans tell the same story.
        """
        run = run_of(Spans(), value)
        assert STORY == told(run)
        assert ({"path": "."}, 2000.0, 34) == (
            run.events[2].input_data,
            run.events[2].duration_ms,
            run.events[1].token_count,
        )
        assert ("t", "look", float(AT)) == (run.info.run_id, run.info.goal, run.info.started_at)

    def test_any_order_and_any_lines(self):
        """
        Spans stand in any order, one a line or many, children before their parents.
        """
        assert STORY == told(run_of(Spans(), *reversed(NEW)))

    def test_spans_within_spans(self):
        """
        Spans that stand in their parents are found, and durations may be written as ISO 8601 has them.
        """
        inner = {**tool("b", 3, 4), "end_time": None, "duration": "PT1M1.5S"}
        run = run_of(Spans(), {"trace_id": "t", "spans": [{**span("a"), "child_spans": [inner]}]})
        assert [("ls", 61_500.0)] == [(event.action_name, event.duration_ms) for event in run.events]

    @pytest.mark.parametrize("written", [int, str])
    def test_nanoseconds_by_name(self, written):
        """
        A time whose name says nanoseconds is one, however small, as number and as text.
        """
        times = {"start_time_unix_nano": written(1000 * 10**9), "end_time_unix_nano": written(1002 * 10**9)}
        (event,) = run_of(Spans(), {**tool("b", 0, None), **times}).events

        assert 2000.0 == event.duration_ms

    def test_the_service_is_the_agent(self):
        """
        Where no agent is named, the run is the service's.
        """
        assert "desk" == run_of(Spans(), otlp(NEW)).info.agent_id


class TestConventions:
    def test_the_older_one(self):
        """
        Messages as events and tokens under their older names are read.
        """
        old = span(
            "a", 0, 1, gen_ai__system="openai", gen_ai__request__model="gpt", gen_ai__usage__prompt_tokens=7
        )
        old["events"] = [
            {"name": "gen_ai.user.message", "attributes": {"content": "look"}},
            {"name": "gen_ai.choice", "attributes": {"message": '{"content": "I look."}'}},
        ]
        run = run_of(Spans(), [old])
        assert STORY[:2] == told(run)
        assert 7 == run.events[1].token_count

    def test_openinference(self):
        """
        OpenInference spreads its messages over keys, and has its own names for everything.
        """
        run = run_of(
            Spans(),
            [
                span(
                    "a",
                    0,
                    1,
                    openinference__span__kind="LLM",
                    llm__model_name="gpt",
                    llm__token_count__total=9,
                    **{
                        "llm.input_messages.0.message.role": "user",
                        "llm.input_messages.0.message.content": "look",
                        "llm.output_messages.0.message.role": "assistant",
                        "llm.output_messages.0.message.content": "I look.",
                    },
                ),
                span(
                    "b",
                    2,
                    3,
                    openinference__span__kind="TOOL",
                    tool__name="ls",
                    input__value='{"path": "."}',
                    output__value="a.py",
                ),
                span("c", 0, 3, openinference__span__kind="CHAIN"),
            ],
        )
        assert STORY == told(run)
        assert (9, {"path": "."}) == (run.events[1].token_count, run.events[2].input_data)

    def test_nothing_recorded(self):
        """
        Where content was not recorded, calls, times, tokens and errors remain.
        """
        failed = {**tool("b", 1, 2), "status": {"code": 2}, "events": []}
        failed["events"] = [{"name": "exception", "attributes": {"exception.message": "no such file"}}]
        run = run_of(Spans(), [chat("a", 0, 1, gen_ai__usage__output_tokens=3), failed])
        assert [("gpt", 3, None), ("ls", 0, "no such file")] == [
            (event.action_name, event.token_count, event.error) for event in run.events
        ]

    def test_calls_without_spans(self):
        """
        Where tools have no spans, their calls and results are taken from the models' messages.
        """
        asked = {"role": "user", "content": "look"}
        call = {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}],
        }
        answer = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}
        run = run_of(
            Spans(),
            [
                chat("a", 0, 1, gen_ai__input__messages=[asked], gen_ai__output__messages=[call]),
                chat("b", 3, 4, gen_ai__input__messages=json.dumps([asked, call, answer])),
            ],
        )
        assert ["user", "gpt", "ls", "gpt"] == [event.action_name for event in run.events]
        assert ("a.py", 2000.0) == (run.events[2].text, run.events[2].duration_ms)

    def test_one_step_told_twice(self):
        """
        A span directly within one of the same step, as of a library under another, does not count again.
        """
        twice = [chat("a", 0, 1), chat("b", 0, 1, parent="a"), tool("c", 2, 3), tool("d", 2, 3, parent="c")]
        assert 2 == len(run_of(Spans(), twice).events)


class TestRuns:
    def test_calls_side_by_side(self):
        """
        Calls that overlap share their start, and stand in the order in which they ended.
        """
        run = run_of(Spans(), [tool("a", 0, 5, "slow"), tool("b", 1, 2, "fast"), tool("c", 6, 7, "last")])
        assert [("fast", 0), ("slow", 0), ("last", 2)] == [(e.action_name, e.started_seq) for e in run.events]

    def test_an_agent_within_an_agent(self):
        """
        An agent within an agent is a call to its caller, and a run of its own that names its parent.
        """
        main, child = read(
            Spans(),
            [
                agent("top", 0, 9, gen_ai__agent__name="boss", input__value='{"task": "win"}'),
                agent(
                    "sub",
                    2,
                    6,
                    parent="top",
                    gen_ai__agent__name="scout",
                    input__value="look",
                    output__value="seen",
                ),
                tool("x", 3, 4, parent="sub"),
                tool("y", 7, 8, parent="top"),
            ],
        )
        assert [("user", "win"), ("scout", "seen"), ("ls", "")] == [
            (e.action_name, e.text) for e in main.events
        ]
        assert ("t/sub", "t", "scout", "look") == (
            child.info.run_id,
            child.info.parent_run_id,
            child.info.agent_id,
            child.info.goal,
        )
        assert ["user", "ls"] == [event.action_name for event in child.events]

    def test_traces_of_one_conversation(self):
        """
        The traces of one conversation are one run, in which every trace begins with what the user said.
        """
        asked = [[{"role": "user", "content": words}] for words in ("one", "two")]
        first = chat("a", 0, 1, gen_ai__conversation__id="talk", gen_ai__input__messages=asked[0])
        second = chat("a", 5, 6, session__id="talk", gen_ai__input__messages=asked[1])
        run = run_of(Spans(), [first, {**second, "trace_id": "t2"}])
        assert ("talk", ["one", "", "two", ""]) == (run.info.run_id, [event.text for event in run.events])

    def test_traces_apart(self):
        """
        Other traces are other runs.
        """
        runs = read(Spans(), [tool("a", 0, 1), {**tool("a", 0, 1), "trace_id": "t2"}])
        assert ["t", "t2"] == [run.info.run_id for run in runs]

    def test_a_call_that_has_not_ended(self):
        """
        A span without an end is a call whose result is unknown.
        """
        run = run_of(Spans(), [tool("a", 0, None)])
        assert [(None, 0.0)] == [(event.output_data, event.duration_ms) for event in run.events]

    def test_spans_that_stand_in_each_other(self):
        """
        Spans that claim to be each other's parents are read.
        """
        assert 1 == len(run_of(Spans(), [span("a", parent="b"), tool("b", 0, 1, parent="a")]).events)


kinds = ["chat", "execute_tool", "invoke_agent", "LLM", "TOOL", "AGENT", "ERROR", "PT5S", "user"]
keys = [
    *(
        "attributes",
        "events",
        "status",
        "name",
        "start_time",
        "end_time",
        "duration",
        "parent_id",
        "key",
        "value",
    ),
    *("gen_ai.operation.name", "openinference.span.kind", "gen_ai.input.messages", "gen_ai.output.messages"),
    *(
        "llm.output_messages.0.message",
        "llm.output_messages.0.message.content",
        "child_spans",
        "code",
        "role",
    ),
    *(
        "stringValue",
        "arrayValue",
        "values",
        "kvlistValue",
        "intValue",
        "content",
        "tool_calls",
        "input.value",
    ),
]
wild_span = st.builds(
    lambda span_id, parent, rest, told: {
        **rest,
        "trace_id": "t",
        "span_id": span_id,
        "parent_id": parent,
        "attributes": told,
    },
    st.sampled_from("abcd"),
    st.sampled_from("abcd"),
    wild_objects(kinds, keys),
    wild_objects(kinds, keys),
)


class TestProperties:
    @given(st.permutations(MORE), st.integers(0, 4))
    def test_reading_in_two_parts(self, spans, cut):
        """
        Spans in any order, read in one go or in two, give the same events.
        """
        written = encoded(*spans)
        reader = Spans()
        first = [event for line in written[:cut] for event in reader.feed(line)]
        assert fed(Spans(), encoded(*MORE)) == first + fed(reader, written[cut:])

    @given(st.lists(wild_span, max_size=6))
    def test_no_content_raises(self, spans):
        """
        Whatever stands in the spans, reading them gives records and no error.
        """
        assert all(isinstance(item, (ReadRun, BrokenLine)) for item in read(Spans(), *spans, spans))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no recorded traces at {SAMPLES}")
class TestRecordedTrace:
    def test_everything_is_counted(self):
        """
        A real trace has every model's call, every tool's and every token of its spans.
        """
        [trace] = [path for path in (SAMPLES / "trail").iterdir() if "annotation" not in path.name]
        [run] = read_runs(Spans(), [(1, trace.read_bytes())])
        kinds = [event.action_type for event in run.events]
        assert ["user_message", *["llm_request"] * 3, "tool_call", "llm_request"] == kinds
        assert (10_958, []) == (sum(event.token_count for event in run.events), run.problems)
