import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    StatusCode,
    TraceFlags,
    set_span_in_context,
    use_span,
)

from steadyhelm.adapters.otel import SteadyhelmSpanProcessor
from steadyhelm.recordings.spans.steps import NO_TOOL_CONTENT, describe_missing_content
from steadyhelm.testing.watch import Watch

ASKED = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "find the bug"}]}])
LOOKED = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "I look."}]}])
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ls"}
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "fixer"}
LS = {**TOOL, "gen_ai.tool.call.arguments": '{"path": "."}', "gen_ai.tool.call.result": "a.py"}


@pytest.fixture
def watch():
    with Watch("watched") as watch:
        yield watch


@pytest.fixture
def tracer(watch):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SteadyhelmSpanProcessor(watch))
    return provider.get_tracer("agent")


def step(tracer, attributes, **more):
    with tracer.start_as_current_span("a step", attributes={**attributes, **more}) as span:
        return span


def told(watch):
    """Every event, by run, as type, name and words."""
    watch.flush()
    return {
        run_id: [(event.action_type, event.action_name, event.text) for event in events]
        for run_id, events in watch._memory.events.items()
    }


def events(watch):
    watch.flush()
    return [event for run in watch._memory.events.values() for event in run]


def run_of(watch):
    [run] = told(watch).values()
    return run


class TestSteps:
    def test_every_step_is_seen(self, watch, tracer):
        """
        The user's words, each model call and each tool call become events, with tokens, times and arguments.
        """
        with tracer.start_as_current_span("invoke_agent fixer", attributes=AGENT):
            prompt = {"gen_ai.input.messages": ASKED, "gen_ai.output.messages": LOOKED}
            usage = {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 4}
            step(tracer, CHAT, **prompt, **usage)
            step(tracer, LS)
            step(tracer, CHAT)
        assert [
            ("user_message", "user", "find the bug"),
            ("llm_request", "gpt", "I look."),
            ("tool_call", "ls", "a.py"),
            ("llm_request", "gpt", ""),
        ] == run_of(watch)
        _, model, tool, _ = events(watch)
        assert (34, 30) == (model.token_count, model.metadata["input_tokens"])
        assert {"path": "."} == tool.input_data
        assert 0 < tool.duration_ms < 60_000

    def test_they_are_told_before_the_agent_goes_on(self, watch, tracer):
        """
        A loop is noticed while the agent still runs, on its own thread.
        """
        found = []
        watch.on_drift(lambda finding: found.append((finding.detector, threading.current_thread())))
        with tracer.start_as_current_span("invoke_agent fixer", attributes=AGENT):
            for _ in range(4):
                step(tracer, LS)
            assert ("action_loop", threading.current_thread()) == found[0]

    def test_errors(self, watch, tracer):
        """
        A failing tool, a failing model and a failing agent are seen as failed, each error once.
        """

        def agent():
            with tracer.start_as_current_span("run", attributes=AGENT):
                with suppress(OSError), tracer.start_as_current_span("m", attributes=CHAT):
                    raise OSError("rate limited")
                with tracer.start_as_current_span("t", attributes=LS):
                    raise ValueError("no such file")

        with pytest.raises(ValueError, match="no such file"):
            agent()
        assert [("gpt", "OSError: rate limited"), ("ls", "ValueError: no such file")] == [
            (event.action_name, event.error) for event in events(watch)
        ]

    def test_an_agent_that_fails_by_itself(self, watch, tracer):
        """
        An error of the agent that no step had is an event of its own.
        """
        with tracer.start_as_current_span("run", attributes=AGENT) as span:
            step(tracer, LS)
            span.set_status(StatusCode.ERROR, "too many turns")
        assert ("agent_error", "too many turns") == (events(watch)[-1].action_name, events(watch)[-1].error)

    def test_the_older_convention(self, watch, tracer):
        """
        Messages as events, and tokens under their older names.
        """
        old = {"gen_ai.system": "openai", "gen_ai.request.model": "gpt", "gen_ai.usage.prompt_tokens": 7}
        with tracer.start_as_current_span("chat gpt", attributes=old) as span:
            span.add_event("gen_ai.user.message", {"content": "look"})
            span.add_event("gen_ai.choice", {"message": '{"content": "I look."}'})
        assert [("user_message", "user", "look"), ("llm_request", "gpt", "I look.")] == run_of(watch)

    def test_openinference(self, watch, tracer):
        """
        OpenInference has its own names for everything.
        """
        model = {"openinference.span.kind": "LLM", "llm.model_name": "gpt", "llm.token_count.total": 9}
        said = {
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "I look.",
        }
        tool = {"openinference.span.kind": "TOOL", "tool.name": "ls", "output.value": "a.py"}
        with tracer.start_as_current_span("run", attributes={"openinference.span.kind": "AGENT"}):
            step(tracer, model, **said)
            step(tracer, tool, **{"input.value": '{"path": "."}'})
        assert [("llm_request", "gpt", "I look."), ("tool_call", "ls", "a.py")] == run_of(watch)

    def test_tools_without_spans(self, watch, tracer):
        """
        Where tools have no spans, calls and results are taken from the models' messages.
        """
        call = {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "."}}],
        }
        result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "a.py"}]}
        with tracer.start_as_current_span("run", attributes=AGENT):
            step(tracer, CHAT, **{"gen_ai.output.messages": json.dumps([call])})
            step(tracer, CHAT, **{"gen_ai.input.messages": json.dumps([call, result])})
        assert ["gpt", "ls", "gpt"] == [event.action_name for event in events(watch)]
        assert ({"path": "."}, "a.py") == (events(watch)[1].input_data, events(watch)[1].text)

    def test_calls_side_by_side(self, watch, tracer):
        """
        Calls that were issued together share what the agent had seen, in whatever order they end.
        """
        with tracer.start_as_current_span("run", attributes=AGENT):
            step(tracer, CHAT)
            slow = tracer.start_span("slow", attributes={**LS, "gen_ai.tool.call.id": "1"})
            fast = tracer.start_span("fast", attributes={**LS, "gen_ai.tool.call.id": "2"})
            fast.end()
            slow.end()
        assert [("2", 1), ("1", 1)] == [(event.call_id, event.started_seq) for event in events(watch)[1:]]


class TestDuplicates:
    @pytest.mark.parametrize("late", [False, True])
    def test_one_step_told_by_two_libraries(self, watch, tracer, late):
        """
        A span within one of the same step counts once, also where the outer one says late what it is.
        """
        with tracer.start_as_current_span("outer", attributes={} if late else CHAT) as outer:
            step(tracer, CHAT)
            outer.set_attributes(CHAT)
        assert [("llm_request", "gpt", "")] == run_of(watch)

    def test_one_call_under_one_id(self, watch, tracer):
        """
        Two spans of one call at one time are one call; at another time it is another try.
        """
        known = {**LS, "gen_ai.tool.call.id": "c1"}
        with tracer.start_as_current_span("run", attributes=AGENT):
            one, two = tracer.start_span("one", attributes=known), tracer.start_span("two", attributes=known)
            one.end()
            two.end()
            step(tracer, known)
        assert 2 == len(events(watch))

    def test_two_providers(self, watch):
        """
        A processor that two providers share, or that is added twice, takes a span once.
        """
        processor, provider = SteadyhelmSpanProcessor(watch), TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(processor)
        provider.add_span_processor(processor)
        step(provider.get_tracer("agent"), LS)
        assert 1 == len(events(watch))

    def test_our_own_spans(self, watch, tracer):
        """
        What Steadyhelm itself tells is not watched.
        """
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SteadyhelmSpanProcessor(watch))
        step(provider.get_tracer("steadyhelm"), LS)
        assert {} == told(watch)


class TestRuns:
    def test_a_trace_is_a_run(self, watch, tracer):
        """
        Each trace is a run of its own, which ends with it, and its goal is what was asked.
        """
        ids = []
        for _ in range(2):
            with tracer.start_as_current_span("request") as root:
                step(tracer, CHAT, **{"gen_ai.input.messages": ASKED})
            ids.append(f"{root.get_span_context().trace_id:032x}")
        assert ids == list(told(watch))
        assert {"find the bug"} == {info.goal for info in watch._memory.infos.values()}
        assert 0 == watch.status()["live_runs"]

    def test_a_conversation_is_a_run(self, watch, tracer):
        """
        Traces of one conversation are one run, in which each begins with what the user said.
        """
        for words in ("one", "two"):
            prompt = {"gen_ai.input.messages": json.dumps([{"role": "user", "content": words}])}
            with tracer.start_as_current_span("run", attributes={**AGENT, "gen_ai.conversation.id": "talk"}):
                step(tracer, CHAT, **prompt)
        assert {"talk": ["one", "", "two", ""]} == {
            run_id: [words for _, _, words in steps] for run_id, steps in told(watch).items()
        }

    def test_inside_a_run_of_the_host(self, watch, tracer):
        """
        Steps inside a run that the host began belong to it, and leave it as it is.
        """
        with watch.run(goal="mine", run_id="host"):
            with tracer.start_as_current_span("run", attributes=AGENT):
                step(tracer, LS)
            watch.record_event("tool_call", "own")
        assert {"host": [("tool_call", "ls", "a.py"), ("tool_call", "own", "")]} == told(watch)

    def test_the_hosts_context_is_left_alone(self, watch, tracer):
        """
        A run that begins with a span does not become the current run of the code around it.
        """
        step(tracer, LS, **{"gen_ai.conversation.id": "talk"})
        watch.record_event("tool_call", "own")
        assert 2 == len(told(watch))

    def test_an_agent_within_an_agent(self, watch, tracer):
        """
        An agent within an agent is a call to its caller, and a run of its own that names its parent.
        """
        with tracer.start_as_current_span("run", attributes={**AGENT, "input.value": "win"}):
            scout = {**AGENT, "gen_ai.agent.name": "scout", "input.value": "look", "output.value": "seen"}
            with tracer.start_as_current_span("sub", attributes=scout):
                step(tracer, LS)
            step(tracer, LS)
        child, main = told(watch).values()
        assert [("user_message", "user", "look"), ("tool_call", "ls", "a.py")] == child
        assert [
            ("user_message", "user", "win"),
            ("tool_call", "scout", "seen"),
            ("tool_call", "ls", "a.py"),
        ] == main
        child_id, main_id = told(watch)
        assert (main_id, "look") == (
            watch._memory.infos[child_id].parent_run_id,
            watch._memory.infos[child_id].goal,
        )

    def test_a_parent_in_another_process(self, watch, tracer):
        """
        A trace that came from elsewhere is a run here, which ends with the spans made here.
        """
        away = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1))
        step_context = set_span_in_context(NonRecordingSpan(away))
        with tracer.start_as_current_span("request", context=step_context):
            step(tracer, LS)
        assert [f"{7:032x}"] == list(told(watch))
        assert 0 == watch.status()["live_runs"]

    def test_threads(self, watch, tracer):
        """
        Traces in many threads at once do not mix.
        """

        def agent(place):
            with tracer.start_as_current_span("run", attributes=AGENT):
                for _ in range(5):
                    step(tracer, {**LS, "gen_ai.tool.name": f"tool{place}"})

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(agent, range(20)))
        assert [1] * 20 == [len({name for _, name, _ in steps}) for steps in told(watch).values()]
        assert [5] * 20 == [len(steps) for steps in told(watch).values()]


def request(tracer, *turns, **more):
    """A model call that no span encloses, whose last turn is the reply."""
    *inputs, reply = [messages[turn] if isinstance(turn, str) else turn for turn in turns]
    content = {"gen_ai.input.messages": json.dumps(inputs), "gen_ai.output.messages": json.dumps([reply])}
    return step(tracer, CHAT, **content, **more)


def said(role, text):
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def asks(call_id):
    part = {"type": "tool_call", "id": call_id, "name": "ls", "arguments": {"path": "."}}
    return {"role": "assistant", "parts": [part]}


def answers(call_id, text="a.py"):
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": text}]}


messages = {"find": said("user", "find the bug"), "done": said("assistant", "done")}
CALLED = ("tool_call", "ls", "a.py")
ASKED_FIRST = [("user_message", "user", "find the bug"), ("llm_request", "gpt", "")]


class TestWithoutARoot:
    """A client in a loop, without a span around it: each request is a trace of its own."""

    def test_requests_that_continue_each_other_are_one_run(self, watch, tracer):
        """
        A request that begins with an earlier one and its reply belongs to that run; the loop is found.
        """
        talk = ["find"]
        for number in range(5):
            request(tracer, *talk, asks(f"c{number}"))
            talk += [asks(f"c{number}"), answers(f"c{number}")]
        request(tracer, *talk, "done")

        again = [CALLED, ("llm_request", "gpt", "")] * 4
        assert [*ASKED_FIRST, *again, CALLED, ("llm_request", "gpt", "done")] == run_of(watch)
        assert any(
            "same result" in it.message for judged in watch.judge_runs() for it in judged.report.findings
        )
        assert 0 == watch.status()["live_runs"]

    def test_conversations_at_the_same_time_do_not_mix(self, watch, tracer):
        """
        Two conversations with the same question are told apart by the ids of their calls.
        """
        for number in (1, 2):
            request(tracer, "find", asks(f"c{number}"))
        for number in (2, 1):
            request(tracer, "find", asks(f"c{number}"), answers(f"c{number}", f"{number}.py"), "done")

        ends = sorted(run[2][2] for run in told(watch).values())
        assert ["1.py", "2.py"] == ends

    def test_what_the_user_says_meanwhile_is_kept(self, watch, tracer):
        """
        A message of the user among the new ones is a user message of that run; the first is not repeated.
        """
        request(tracer, "find", asks("c1"))
        request(tracer, "find", asks("c1"), answers("c1"), said("user", "faster"), "done")

        last = [CALLED, ("user_message", "user", "faster"), ("llm_request", "gpt", "done")]
        assert sorted([*ASKED_FIRST, *last]) == sorted(run_of(watch))

    def test_a_tool_with_a_span_belongs_to_the_run_that_asked(self, watch, tracer):
        """
        A tool call in a trace of its own is found by its call id.
        """
        request(tracer, "find", asks("c1"))
        step(tracer, LS, **{"gen_ai.tool.call.id": "c1"})
        request(tracer, "find", asks("c1"), answers("c1"), "done")

        assert [*ASKED_FIRST, CALLED, ("llm_request", "gpt", "done")] == run_of(watch)

    def test_a_final_reply_ends_the_run(self, watch, tracer):
        """
        What the user asks after a final reply is another run, as with a client that is wrapped.
        """
        request(tracer, "find", "done")
        request(tracer, "find", "done", said("user", "and now?"), "done")

        assert 2 == len(told(watch))
        assert 0 == watch.status()["live_runs"]


class TestAgentName:
    @pytest.mark.parametrize("attributes", [AGENT, {"gen_ai.operation.name": "invoke_agent"}, {}])
    def test_a_root_agent_keeps_its_name(self, watch, tracer, attributes):
        """
        The name of the outermost agent is in its run's metadata, from its attribute or its span's name.
        """
        with tracer.start_as_current_span("invoke_agent fixer", attributes=attributes):
            step(tracer, LS)
        watch.flush()

        [run] = watch._memory.infos.values()
        assert "fixer" == run.metadata["agent"]


class TestWhatIsMissing:
    def test_model_calls_without_messages_say_what_to_change(self, watch, tracer):
        """
        Without any message nothing is known about tools: that is said, with the setting that changes it.
        """
        with tracer.start_as_current_span("task"):
            span = step(tracer, CHAT)
            run_id = f"{span.get_span_context().trace_id:032x}"
            reason = watch.not_checked(run_id)["tool calls"]

        assert reason.startswith(f"{NO_TOOL_CONTENT}: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
        assert 1 == watch.status()["losses"][reason]

    def test_content_that_was_not_recorded(self, watch, tracer):
        """
        Calls of which nothing but the name is known repeat nothing, and it is counted that nobody looked.
        """
        found = []
        watch.on_drift(found.append, min_severity="LOW")
        with tracer.start_as_current_span("run", attributes=AGENT):
            for _ in range(12):
                step(tracer, CHAT)
                step(tracer, TOOL)
        assert [] == found
        # The first model call too: no call of a tool was seen before it.
        assert 13 == watch.status()["losses"][describe_missing_content({})]

    def test_a_goal_that_was_not_recorded(self, watch, tracer):
        """
        Without a goal the goal is not checked, and that is said.
        """
        with tracer.start_as_current_span("run", attributes=AGENT):
            step(tracer, LS, **{"gen_ai.conversation.id": "talk"})
        [run_id] = told(watch)
        assert "no goal was given" == watch.not_checked(run_id)["goal_drift"]

    def test_messages_without_their_words(self, watch, tracer):
        """
        Messages that keep their shape and leave out their content tell of calls, not of a goal or arguments.
        """
        prompt = {"role": "user", "parts": [{"type": "text"}]}
        for place in range(6):
            call = {"role": "assistant", "parts": [{"type": "tool_call", "id": f"c{place}", "name": "ls"}]}
            answer = {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"c{place}"}]}
            said = {"gen_ai.conversation.id": "talk", "gen_ai.output.messages": json.dumps([call])}
            step(tracer, CHAT, **said, **{"gen_ai.input.messages": json.dumps([prompt])})
            given = {
                "gen_ai.conversation.id": "talk",
                "gen_ai.input.messages": json.dumps([prompt, call, answer]),
            }
            step(tracer, CHAT, **given)
        assert [""] == [info.goal for info in watch._memory.infos.values()]
        assert 6 == sum(event.action_name == "ls" for event in events(watch))
        assert 6 == watch.status()["losses"][describe_missing_content({})]

    def test_an_attribute_too_long_to_read(self, watch, tracer):
        """
        A text of a megabyte is not read on the agent's time; the step is seen, and the rest counted.
        """
        step(tracer, LS, **{"gen_ai.tool.call.result": "x" * 1_000_000})
        assert [("tool_call", "ls", "")] == run_of(watch)
        assert any("longer than" in reason for reason in watch.status()["losses"])


wild = st.dictionaries(
    st.sampled_from([*CHAT, *LS, "gen_ai.input.messages", "session.id", "error.type", "input.value"]),
    st.text()
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.lists(st.text())
    | st.sampled_from([ASKED, "chat"]),
)


class TestHostility:
    @given(st.lists(st.tuples(wild, st.integers(0, 3)), max_size=8), st.booleans())
    def test_no_span_raises(self, spans, backwards):
        """
        Whatever spans say, in whatever order they end, the host's code goes on.
        """
        with Watch("watched") as watch:
            provider = TracerProvider(shutdown_on_exit=False)
            provider.add_span_processor(SteadyhelmSpanProcessor(watch))
            tracer, made = provider.get_tracer("agent"), []
            for attributes, back in spans:
                context = set_span_in_context(made[-back]) if 0 < back <= len(made) else None
                made.append(tracer.start_span("x", context=context, attributes=attributes))
            for span in reversed(made) if backwards else made:
                span.end()
            assert watch.flush().complete

    def test_a_clock_that_goes_back(self, watch, tracer):
        """
        A span that ends before it began has taken no time.
        """
        span = tracer.start_span("ls", attributes=LS, start_time=2_000_000_000_000_000_000)
        span.end(1_900_000_000_000_000_000)
        assert [0.0] == [event.duration_ms for event in events(watch)]

    def test_a_child_that_ends_last(self, watch, tracer):
        """
        Work that goes on after a trace's first span has ended still belongs to its run.
        """
        with tracer.start_as_current_span("request"):
            late = tracer.start_span("run", attributes=AGENT)
        with use_span(late, end_on_exit=True):
            step(tracer, LS)
            step(tracer, LS)
        assert [2] == [len(steps) for steps in told(watch).values()]
        assert 0 == watch.status()["live_runs"]

    def test_a_monitor_that_is_switched_off(self, watch, tracer):
        """
        A disabled monitor is told nothing.
        """
        watch.disabled = True
        step(tracer, LS)
        assert {} == told(watch)

    def test_memory_is_bounded(self, watch):
        """
        Spans that never end are forgotten at some point.
        """
        processor, provider = SteadyhelmSpanProcessor(watch), TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(processor)
        tracer = provider.get_tracer("agent")
        for _ in range(10_100):
            tracer.start_span("never ends")
        assert 10_000 == len(processor._nodes)
