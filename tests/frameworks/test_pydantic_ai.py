"""What is special about agents of Pydantic AI: streams, structured answers, deferred calls, capabilities."""

import asyncio
import copy

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ToolOutput
from pydantic_ai.capabilities import AbstractCapability, HandleDeferredToolCalls
from pydantic_ai.exceptions import (
    ApprovalRequired,
    ModelRetry,
    SkipModelRequest,
    SkipToolExecution,
    ToolFailed,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import (
    ImageUrl,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolDefinition,
    ToolDenied,
)
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset
from script import GOAL, Ask, ModelBroke, Played, Scene, Turn
from stages.pydantic_ai import ScriptedModel, loop_of_its_own, the_agent
from versions import needs
from watched import events_of, guidance_of, not_run_of, runs_of, story

from steadyhelm import DriftMonitor, RunStopped
from steadyhelm.adapters.pydantic_ai import PydanticAIAdapter, SteadyhelmCapability


def turn(*asks, says=""):
    """A turn of the model; calls are (tool, arguments)."""
    return Turn(says=says, calls=tuple(Ask(tool, args, f"c{n}") for n, (tool, args) in enumerate(asks, 1)))


def lookups(times):
    """The same look-up, turn after turn, under the same id: some models number the calls of each reply."""
    return [turn(("lookup", {"key": "a"}))] * times


def scripted(*turns, requests=None, **options):
    """An agent with `lookup` and a scripted model."""
    agent = Agent(ScriptedModel(turns, [] if requests is None else requests), **options)

    @agent.tool_plain
    def lookup(key: str) -> str:
        """Look a key up."""
        return f"no entry for {key}"

    return agent


def run(agent, prompt=GOAL, **options):
    """What an awaited run gives."""
    return asyncio.run(agent.run(prompt, **options))


async def read_all(_ctx, events):
    """Read the events of a run, which makes its requests streamed ones."""
    async for _ in events:
        pass


LOOKED_UP = [f"user: {GOAL}", "model: ", "lookup(key=x) -> no entry for x", "model: done"]
ONE_CALL = Scene(turns=[turn(("add", {"a": 1, "b": 2}), says="let me see")])
ITS_STORY = [f"user: {GOAL}", "model: let me see", "add(a=1, b=2) -> 3", "model: done"]


class TestTheCapability:
    def test_an_agent_is_watched_by_the_capability_it_is_given(self, monitors):
        """
        A capability in `Agent(capabilities=[...])` sees what `monitor.wrap` sees.
        """
        monitor = monitors()
        agent = scripted(turn(("lookup", {"key": "x"})), capabilities=[SteadyhelmCapability(monitor)])
        run(agent)

        assert [f"user: {GOAL}", "model: ", "lookup(key=x) -> no entry for x", "model: done"] == story(
            monitor
        )

    def test_both_ways_at_once_tell_everything_once(self, monitors):
        """
        An agent that has the capability and is wrapped as well is still watched once.
        """
        monitor = monitors()
        agent = scripted(turn(("lookup", {"key": "x"})), capabilities=[SteadyhelmCapability(monitor)])
        run(monitor.wrap(monitor.wrap(agent)))

        assert 1 == len(runs_of(monitor))
        assert [f"user: {GOAL}", "model: ", "lookup(key=x) -> no entry for x", "model: done"] == story(
            monitor
        )

    def test_two_monitors_can_watch_one_agent(self, monitors, tmp_path):
        """
        Each monitor that an agent is given sees all of it, whatever its agent is called.
        """
        monitor, other = monitors(), DriftMonitor("a: b/ü", db_path=tmp_path / "other.db")
        run(scripted(capabilities=[SteadyhelmCapability(monitor), SteadyhelmCapability(other)]))
        other.flush()

        assert [f"user: {GOAL}", "model: done"] == story(monitor)
        assert 1 == len(other.store.get_run_ids("a: b/ü"))
        other.close()

    @pytest.mark.parametrize("way", ["capabilities", "wrapped"])
    def test_two_monitors_of_one_name_can_watch_one_agent(self, monitors, way):
        """
        Two monitors that know the agent by the same name each see all of it.
        """
        monitor, other = monitors(), monitors()
        script = turn(("lookup", {"key": "x"}))
        if way == "wrapped":
            run(other.wrap(monitor.wrap(scripted(script))))
        else:
            run(scripted(script, capabilities=[SteadyhelmCapability(monitor), SteadyhelmCapability(other)]))

        assert LOOKED_UP == story(monitor)
        assert LOOKED_UP == story(other)

    def test_a_wrapped_agent_is_left_as_it_was(self, monitors):
        """
        The agent itself is not watched, and everything else about it is reached through the wrapped one.
        """
        monitor = monitors()
        agent = scripted(name="clerk")
        watched = monitor.wrap(agent)
        run(agent)

        assert [] == runs_of(monitor)
        assert ("clerk", agent.tool_plain, agent.toolsets) == (
            watched.name,
            watched.tool_plain,
            watched.toolsets,
        )
        assert repr(watched).startswith("<watched Agent(")
        assert isinstance(watched, type(agent).__mro__[1])
        assert copy.copy(watched).wrapped is agent

    @pytest.mark.parametrize("thing", [None, 3, "agent", object(), Agent, TestModel()])
    def test_only_agents_are_recognised(self, thing):
        """
        Anything that is not an agent of this framework is somebody else's.
        """
        assert not PydanticAIAdapter.can_wrap(thing)

    def test_many_runs_of_one_agent_at_once_do_not_mix(self, monitors):
        """
        One wrapped agent may work on many tasks at the same time.
        """
        monitor = monitors()
        agent = monitor.wrap(Agent(TestModel(custom_output_text="done")))

        async def all_of_them():
            await asyncio.gather(*(agent.run(f"task {n}") for n in range(20)))

        asyncio.run(all_of_them())

        assert {f"task {n}" for n in range(20)} == {it.goal for it in runs_of(monitor)}
        assert {2} == {len(events_of(monitor, it.run_id)) for it in runs_of(monitor)}

    def test_a_monitor_that_is_turned_off_changes_nothing(self, monitors, monkeypatch):
        """
        With STEADYHELM_DISABLED an agent works as if it were not watched.
        """
        monkeypatch.setenv("STEADYHELM_DISABLED", "1")
        monitor = monitors("enforce")

        assert "done" == run(monitor.wrap(scripted(*lookups(9)))).output


class TestStreams:
    def test_run_stream_is_seen(self, monitors):
        """
        `run_stream` takes the first words for the answer: calls beside them are made, and that is all.
        """
        monitor, played = monitors(), Played()

        async def heard():
            async with the_agent(ONE_CALL, monitor, played).run_stream(GOAL) as streamed:
                return [text async for text in streamed.stream_text(delta=True, debounce_by=None)]

        assert ["let", " me", " see"] == asyncio.run(heard())
        assert ITS_STORY[:3] == story(monitor)
        assert "done" == runs_of(monitor)[0].outcome

    def test_run_stream_goes_through_calls_to_the_answer(self, monitors):
        """
        Turns without words are made before `run_stream` begins to stream.
        """
        monitor, played = monitors(), Played()
        scene = Scene(turns=[turn(("add", {"a": 1, "b": 2})), Turn(says="It is 3.")])

        async def heard():
            async with the_agent(scene, monitor, played).run_stream(GOAL) as streamed:
                return await streamed.get_output()

        assert "It is 3." == asyncio.run(heard())
        assert [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model: It is 3."] == story(monitor)

    def test_run_stream_sync_is_seen(self, monitors):
        """
        The blocking form of `run_stream` is seen the same way.
        """
        monitor, played = monitors(), Played()
        scene = Scene(turns=[turn(("add", {"a": 1, "b": 2})), Turn(says="It is 3.")])
        with loop_of_its_own(), the_agent(scene, monitor, played).run_stream_sync(GOAL) as streamed:
            assert ["It", "It is", "It is 3."] == list(streamed.stream_text(debounce_by=None))

        assert [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model: It is 3."] == story(monitor)

    def test_iter_is_seen(self, monitors):
        """
        An agent that is driven step by step is seen step by step.
        """
        monitor, played = monitors(), Played()

        async def driven():
            async with the_agent(ONE_CALL, monitor, played).iter(GOAL) as steps:
                return [type(node).__name__ async for node in steps]

        assert 6 == len(asyncio.run(driven()))
        assert ITS_STORY == story(monitor)

    def test_a_stop_ends_run_stream(self, monitors):
        """
        Who opens a stream receives the stop from it.
        """
        monitor = monitors("enforce")
        agent = monitor.wrap(scripted(*lookups(30)))

        async def heard():
            async with agent.run_stream(GOAL) as streamed:
                await streamed.get_output()

        with pytest.raises(RunStopped):
            asyncio.run(heard())
        assert "stopped" == runs_of(monitor)[0].outcome

    @needs("pydantic-ai-slim", "2.66", "an interrupted stream recurses without end")
    def test_a_reply_nobody_reads_to_the_end_is_no_failure(self, monitors):
        """
        Who leaves a stream early ends the run early; the reply is kept as far as it came.
        """
        monitor = monitors()
        agent = monitor.wrap(scripted(Turn(says="a long way to go")))

        async def left():
            async with agent.iter(GOAL) as steps:
                async for node in steps:
                    if Agent.is_model_request_node(node):
                        async with node.stream(steps.ctx) as stream:
                            async for _ in stream:
                                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            asyncio.run(left())

        assert [f"user: {GOAL}", "model: a"] == story(monitor)
        assert "left early" == runs_of(monitor)[0].outcome

    def test_a_stream_that_breaks_is_a_failed_model_call(self, monitors):
        """
        A model that fails in the middle of a streamed reply has failed, and its own exception passes.
        """
        monitor = monitors()

        async def breaks(_messages, _info):
            yield "so far"
            raise ModelBroke("no model")

        agent = monitor.wrap(Agent(FunctionModel(stream_function=breaks)))

        async def heard():
            async with agent.run_stream_events(GOAL) as events:
                async for _ in events:
                    pass

        with pytest.raises(ModelBroke, match="no model"):
            asyncio.run(heard())
        assert [f"user: {GOAL}", "model failed"] == story(monitor)
        assert "so far" == events_of(monitor, runs_of(monitor)[0].run_id)[-1].text


class Total(BaseModel):
    """A structured answer."""

    total: int


class TestAnswers:
    def test_a_structured_answer_is_a_reply_and_no_call(self, monitors):
        """
        An answer that has the form of a call for the sake of its structure is what the agent said.
        """
        monitor = monitors()
        agent = monitor.wrap(scripted(turn(("final_result", {"total": 3})), output_type=Total))

        assert Total(total=3) == run(agent).output
        assert [f"user: {GOAL}", 'model: {"total":3}'] == story(monitor)

    def test_a_structured_answer_that_does_not_fit_is_no_failed_call(self, monitors):
        """
        An answer that the model has to give again is given again; no tool has failed.
        """
        monitor = monitors()
        turns = [turn(("final_result", {"total": "many"}))] * 4 + [turn(("final_result", {"total": 3}))]
        output = ToolOutput(Total, max_retries=5)
        run(monitor.wrap(scripted(*turns, output_type=output)))

        said = ['model: {"total":"many"}'] * 4 + ['model: {"total":3}']
        assert [f"user: {GOAL}", *said] == story(monitor)

    def test_an_output_function_is_no_tool(self, monitors):
        """
        A function that makes the final answer is not a step of the agent.
        """
        monitor = monitors()

        def hand_over(total: int) -> str:
            """Give the total to the user."""
            return f"it is {total}"

        agent = monitor.wrap(scripted(turn(("final_result", {"total": 3})), output_type=hand_over))

        assert "it is 3" == run(agent).output
        assert [f"user: {GOAL}", 'model: {"total":3}'] == story(monitor)

    def test_calls_beside_a_structured_answer_are_seen(self, monitors):
        """
        A reply may hold both calls and the final answer: the calls are calls.
        """
        monitor = monitors()
        both = turn(("lookup", {"key": "x"}), ("final_result", {"total": 3}))
        run(monitor.wrap(scripted(both, output_type=Total)))

        assert [
            f"user: {GOAL}",
            'model: {"total":3}',
            "lookup(key=x) -> no entry for x",
        ] == story(monitor)


class TestFailures:
    @pytest.mark.parametrize("kind", [ModelRetry, ToolFailed])
    def test_a_tool_that_reports_a_failure_has_failed_in_its_own_words(self, kind, monitors):
        """
        `ModelRetry` and `ToolFailed` are errors of the call, and the agent goes on as it would.
        """
        monitor = monitors()
        agent = Agent(ScriptedModel([turn(("press", {}))], []))

        @agent.tool_plain
        def press() -> str:
            """Press."""
            raise kind("not so hard")

        assert "done" == run(monitor.wrap(agent)).output
        assert [f"user: {GOAL}", "model: ", "press() failed", "model: done"] == story(monitor)
        (call,) = [it for it in events_of(monitor, runs_of(monitor)[0].run_id) if it.call_id]
        assert f"{kind.__name__}: not so hard" == call.error

    def test_a_tools_error_is_its_own_and_not_its_cause(self, monitors):
        """
        An exception that a tool raised from another is told, not the other.
        """
        monitor = monitors()
        agent = Agent(ScriptedModel([turn(("press", {}))], []))

        @agent.tool_plain
        def press() -> str:
            """Press."""
            raise ModelBroke("stuck") from KeyError("spring")

        with pytest.raises(ModelBroke):
            run(monitor.wrap(agent))
        assert "ModelBroke: stuck" == events_of(monitor, runs_of(monitor)[0].run_id)[-1].error

    def test_a_tool_that_is_added_during_the_run_is_known(self, monitors):
        """
        Its first call is recorded once, with its result, and not as that of an unknown tool.
        """
        monitor = monitors()
        agent = scripted(turn(("add_tool", {})), turn(("added", {})))
        added = FunctionToolset()
        added.add_function(lambda: "here", name="added")

        @agent.toolset
        def more(ctx: RunContext[None]):
            return added if len(ctx.messages) > 1 else None

        @agent.tool_plain
        def add_tool() -> str:
            """Make another tool known."""
            return "added"

        run(monitor.wrap(agent))

        made = [it for it in story(monitor) if it.startswith("add")]
        assert ["add_tool() -> added", "added() -> here"] == made

    def test_an_unknown_tool_asked_for_too_often_is_still_seen(self, monitors):
        """
        The call that ends the run is told before the framework's own exception passes.
        """
        monitor = monitors()
        agent = monitor.wrap(scripted(turn(("nowhere", {})), turn(("nowhere", {}))))

        with pytest.raises(UnexpectedModelBehavior, match="exceeded max retries"):
            run(agent)
        steps = ["model: ", "nowhere() failed"]
        assert [f"user: {GOAL}", *steps, *steps] == story(monitor)[:5]
        assert ["nowhere: no such tool"] * 2 == not_run_of(monitor)

    def test_arguments_that_are_no_json_are_told_as_they_are(self, monitors):
        """
        A model may send half a JSON text for arguments.
        """
        monitor = monitors()
        replies = iter([[ToolCallPart("lookup", '{"key": "x', "c1")], [TextPart("done")]])
        agent = Agent(FunctionModel(lambda _messages, _info: ModelResponse(parts=next(replies))))

        @agent.tool_plain
        def lookup(key: str) -> str:
            """Look a key up."""
            return key

        run(monitor.wrap(agent))
        assert 'lookup(INVALID_JSON={"key": "x) failed' == story(monitor)[2]
        assert ["lookup: invalid arguments"] == not_run_of(monitor)

    def test_a_call_that_is_given_up_beside_a_failed_one_is_seen(self, monitors):
        """
        When one call fails and ends the run, those beside it that were cancelled were made too.
        """
        monitor = monitors()
        agent = Agent(ScriptedModel([turn(("wait", {}), ("press", {}))], []))

        @agent.tool_plain
        async def wait() -> str:
            """Wait."""
            await asyncio.sleep(60)
            return "late"

        @agent.tool_plain
        async def press() -> str:
            """Press."""
            raise ModelBroke("stuck")

        with pytest.raises(ModelBroke):
            run(monitor.wrap(agent))
        assert [f"user: {GOAL}", "model: ", "press() failed", "wait() failed"] == story(monitor)

    @needs("pydantic-ai-slim", "2.66", "failed attempts are not reported")
    def test_models_that_were_asked_in_vain_are_seen(self, monitors):
        """
        A model that failed before another answered was a model call too.
        """
        monitor = monitors()

        def fails(_messages, _info):
            raise ModelBroke("no model")

        model = FallbackModel(
            FunctionModel(fails), TestModel(custom_output_text="done"), fallback_on=(ModelBroke,)
        )
        run(monitor.wrap(Agent(model)))

        assert [f"user: {GOAL}", "model failed", "model: done"] == story(monitor)


class TestWhatPassesByTheHooks:
    def test_tools_of_the_models_provider_are_seen(self, monitors):
        """
        A search that the provider made by itself stands in the reply, and is a call.
        """
        monitor = monitors()
        parts = [
            NativeToolCallPart("web_search", {"query": "ledger"}, "w1"),
            NativeToolReturnPart("web_search", "nothing", "w1"),
            TextPart("done"),
        ]
        run(monitor.wrap(Agent(FunctionModel(lambda _messages, _info: ModelResponse(parts=parts)))))

        assert [f"user: {GOAL}", "model: done", "web_search(query=ledger) -> nothing"] == story(monitor)

    def test_a_message_that_comes_in_between_is_a_turn_of_the_user(self, monitors):
        """
        What is put into a run while it goes on is told when the model gets it, but for system messages.
        """
        monitor, requests = monitors(), []
        agent = monitor.wrap(scripted(turn(("lookup", {"key": "x"})), requests=requests))

        async def driven():
            async with agent.iter(GOAL) as steps:
                async for node in steps:
                    if Agent.is_call_tools_node(node) and len(requests) == 1:
                        steps.enqueue("and look under y")
                        steps.enqueue(SystemPromptPart("Be brief."))

        asyncio.run(driven())

        assert "and look under y" in requests[1]
        assert [
            f"user: {GOAL}",
            "model: ",
            "lookup(key=x) -> no entry for x",
            "user: and look under y",
            "model: done",
        ] == story(monitor)

    @pytest.mark.parametrize(
        ("result", "came"), [("sent", "-> sent"), (ModelRetry("no such address"), "failed")]
    )
    def test_calls_that_are_made_elsewhere_are_seen_when_their_results_come(self, result, came, monitors):
        """
        A run that waits for results from outside is one run, before and after; a result may be a failure.
        """
        monitor = monitors()
        schema = {"type": "object", "properties": {"to": {"type": "string"}}}
        toolset = ExternalToolset([ToolDefinition(name="send", parameters_json_schema=schema)])
        agent = monitor.wrap(
            Agent(
                ScriptedModel([turn(("send", {"to": "Ada"}))], []),
                toolsets=[toolset],
                output_type=[str, DeferredToolRequests],
            )
        )

        first = run(agent)
        assert 1 == monitor.status()["live_runs"]
        results = DeferredToolResults(calls={"c1": result})
        run(agent, None, message_history=first.all_messages(), deferred_tool_results=results)

        assert [f"user: {GOAL}", "model: ", f"send(to=Ada) {came}", "model: done"] == story(monitor)
        assert [] == not_run_of(monitor)
        assert 0 == monitor.status()["live_runs"]

    @pytest.mark.parametrize(
        ("prompt", "goal"),
        [
            (["look at this", ImageUrl("https://example.org/a.png")], "look at this\n[image-url]"),
            ("half a \ud83d character", "half a ? character"),
            ("", ""),
            (None, ""),
        ],
    )
    def test_a_prompt_may_be_anything(self, prompt, goal, monitors):
        """
        A prompt of several parts is told in words, one that is broken is mended, and there may be none.
        """
        monitor = monitors()
        run(monitor.wrap(scripted(instructions="Do your best.")), prompt)

        assert goal == runs_of(monitor)[0].goal
        assert {} == monitor.status()["losses"]

    @pytest.mark.parametrize("declared", [True, False])
    @pytest.mark.parametrize(
        ("decision", "came"), [(True, "-> sent"), (ToolDenied("not to her"), "failed"), (False, "failed")]
    )
    def test_calls_that_the_host_itself_has_approved_are_seen(self, declared, decision, came, monitors):
        """
        A tool that needs approval is called once it is there; without it the call has failed.
        """
        monitor = monitors()
        agent = Agent(
            ScriptedModel([turn(("send", {"to": "Ada"}))], []), output_type=[str, DeferredToolRequests]
        )

        @agent.tool(requires_approval=declared)
        def send(ctx: RunContext, to: str) -> str:
            """Send a letter."""
            if not ctx.tool_call_approved:
                raise ApprovalRequired
            return "sent"

        agent = monitor.wrap(agent)
        first = run(agent)
        decided = DeferredToolResults(approvals={"c1": decision})
        run(agent, "go on", message_history=first.all_messages(), deferred_tool_results=decided)

        assert [f"user: {GOAL}", "model: ", "user: go on", f"send(to=Ada) {came}", "model: done"] == story(
            monitor
        )
        assert (["send: refused"] if came == "failed" else []) == not_run_of(monitor)

    def test_a_conversation_goes_on_in_a_run_of_its_own(self, monitors):
        """
        Another prompt with the history of a run that has ended begins a run with that prompt as its goal.
        """
        monitor = monitors()
        agent = monitor.wrap(scripted())
        first = run(agent)
        run(agent, "and now the other one", message_history=first.all_messages())

        assert [GOAL, "and now the other one"] == [it.goal for it in runs_of(monitor)]
        assert ["user: and now the other one", "model: done"] == story(monitor, runs_of(monitor)[1].run_id)


class Recovers(AbstractCapability):
    """A host's own capability that makes a success of every failure."""

    async def on_run_error(self, ctx, *, error):
        """Whatever it was."""
        return AgentRunResult(output=f"never mind: {type(error).__name__}")


class Skips(AbstractCapability):
    """A host's own capability that answers from memory."""

    async def before_tool_execute(self, ctx, *, call, tool_def, args):
        """No tool is called."""
        raise SkipToolExecution("from memory")

    async def before_model_request(self, ctx, request_context):
        """The second time the model is not asked either."""
        if ctx.run_step == 2:
            raise SkipModelRequest(ModelResponse(parts=[TextPart("as before")]))
        return request_context


class Refuses(AbstractCapability):
    """A host's own capability that refuses calls."""

    async def wrap_tool_execute(self, ctx, *, call, tool_def, args, handler):
        """Never."""
        return ToolDenied("not on a Sunday")


class Holds(AbstractCapability):
    """A host's own capability that never lets a request go."""

    def __init__(self):
        self.is_holding = asyncio.Event()

    async def wrap_model_request(self, ctx, *, request_context, handler):
        """Wait for ever."""
        self.is_holding.set()
        await asyncio.Event().wait()


class TestBesideOtherCapabilities:
    def test_what_another_capability_refuses_has_failed(self, monitors):
        """
        A call that somebody else refuses is a call that brought nothing, and says why.
        """
        monitor = monitors()
        run(monitor.wrap(scripted(turn(("lookup", {"key": "x"})), capabilities=[Refuses()])))

        (call,) = [it for it in events_of(monitor, runs_of(monitor)[0].run_id) if it.call_id]
        assert ("not on a Sunday", "refused") == (call.error, call.not_run)

    @needs("pydantic-ai-slim", "2.66", "others answer before we are called")
    def test_what_another_capability_answers_is_seen_as_an_answer(self, monitors):
        """
        A call or a request that is answered without being made is answered, and has not failed.
        """
        monitor = monitors()
        agent = scripted(turn(("lookup", {"key": "x"})), capabilities=[Skips()])

        assert "as before" == run(monitor.wrap(agent)).output
        assert ["lookup: answered"] == not_run_of(monitor)
        assert [f"user: {GOAL}", "model: ", "lookup(key=x) -> from memory", "model: as before"] == story(
            monitor
        )

    @needs("pydantic-ai-slim", "2.54", "no hook is called behind those of other capabilities")
    @pytest.mark.parametrize("is_streamed", [False, True])
    def test_a_request_that_never_left_another_capability_is_no_model_call(self, monitors, is_streamed):
        """
        A request that another capability holds back and that is cancelled there did not reach the model.
        """
        monitor = monitors()

        async def cancelled():
            holds = Holds()
            agent = monitor.wrap(scripted(capabilities=[holds]))
            handler = {"event_stream_handler": read_all} if is_streamed else {}
            running = asyncio.create_task(agent.run(GOAL, **handler))
            await holds.is_holding.wait()
            running.cancel()
            await asyncio.wait([running])

        asyncio.run(cancelled())
        assert [f"user: {GOAL}"] == story(monitor)
        assert "left early" == runs_of(monitor)[0].outcome

    @pytest.mark.parametrize("is_streamed", [False, True])
    def test_a_request_that_is_cancelled_at_the_model_is_a_model_call(self, monitors, is_streamed):
        """
        A model that was asked may have cost something, although nobody waited for its reply.
        """
        monitor, is_asked = monitors(), asyncio.Event()

        async def answer(_messages, _info):
            is_asked.set()
            await asyncio.Event().wait()

        async def stream(_messages, _info):
            is_asked.set()
            await asyncio.Event().wait()
            yield "never"

        async def cancelled():
            agent = monitor.wrap(Agent(FunctionModel(answer, stream_function=stream)))
            handler = {"event_stream_handler": read_all} if is_streamed else {}
            running = asyncio.create_task(agent.run(GOAL, **handler))
            await is_asked.wait()
            running.cancel()
            await asyncio.wait([running])

        asyncio.run(cancelled())
        assert [f"user: {GOAL}", "model: "] == story(monitor)
        assert "left early" == runs_of(monitor)[0].outcome

    @needs("pydantic-ai-slim", "2.66", "others have the last word about an error")
    def test_a_stop_reaches_the_caller_although_another_capability_forgives_it(self, monitors):
        """
        A capability that turns every failure into a result cannot hide that the run was stopped.
        """
        monitor = monitors("enforce")
        agent = monitor.wrap(scripted(*lookups(30), capabilities=[Recovers()]))

        with pytest.raises(RunStopped):
            run(agent)
        assert "stopped" == runs_of(monitor)[0].outcome

    def test_words_are_put_into_requests_and_not_into_the_history(self, monitors):
        """
        What is said stays said in every later request, while the conversation that the host keeps is its own.
        """
        monitor, requests = monitors("guide"), []
        result = run(monitor.wrap(scripted(*lookups(5), requests=requests)))

        said = guidance_of(monitor)[0]
        assert [False, False, False, True, True, True] == [said in request for request in requests]
        assert said not in str(result.all_messages())


class TestAsking:
    def paused(self, monitor, **options):
        """An agent that has been asked about, and what came of it."""
        options.setdefault("output_type", [str, DeferredToolRequests])
        agent = monitor.wrap(scripted(*lookups(10), **options))
        return agent, run(agent)

    def test_a_question_comes_back_as_a_call_that_waits(self, monitors):
        """
        An agent that may end with `DeferredToolRequests` ends with the call, and the question beside it.
        """
        _, result = self.paused(monitors("enforce"))

        (call,) = result.output.approvals
        assert "lookup" == call.tool_name
        assert "The agent does not make progress" in result.output.metadata[call.tool_call_id]["steadyhelm"]

    def test_a_call_that_the_user_allows_is_made(self, monitors):
        """
        Approved, the run goes on where it stood: the answer is a turn of the user, and the call is made.
        """
        monitor = monitors("enforce")
        agent, first = self.paused(monitor)
        before = story(monitor)
        decided = first.output.build_results(approve_all=True)
        run(agent, None, message_history=first.all_messages(), deferred_tool_results=decided)

        assert 1 == len(runs_of(monitor))
        went_on = story(monitor)[len(before) :]
        assert ["user: Go on.", "lookup(key=a) -> no entry for a"] == went_on[:2]

    def test_a_no_ends_the_run(self, monitors):
        """
        A call that is refused without words is a no: the run stops, and its caller receives the stop.
        """
        monitor = monitors("enforce")
        agent, first = self.paused(monitor)
        (call,) = first.output.approvals
        decided = DeferredToolResults(approvals={call.tool_call_id: False})
        with pytest.raises(RunStopped):
            run(agent, None, message_history=first.all_messages(), deferred_tool_results=decided)

        assert ["stopped"] == [it.outcome for it in runs_of(monitor)]

    def test_a_call_that_the_user_refuses_is_not_made(self, monitors):
        """
        Refused with words, the call is not made and the model hears the user's answer.
        """
        monitor = monitors("enforce")
        agent, first = self.paused(monitor)
        before = story(monitor)
        (call,) = first.output.approvals
        denied = ToolDenied("look in the archive")
        decided = DeferredToolResults(approvals={call.tool_call_id: denied})
        run(agent, None, message_history=first.all_messages(), deferred_tool_results=decided)

        assert "user: look in the archive" == story(monitor)[len(before)]

    def test_an_output_type_of_one_run_counts(self, monitors):
        """
        The user can be asked in a run whose own output type allows for it.
        """
        monitor = monitors("enforce")
        agent = monitor.wrap(scripted(*lookups(10)))

        assert isinstance(run(agent, output_type=[str, DeferredToolRequests]).output, DeferredToolRequests)

    @needs("pydantic-ai-slim", "2.66", "the framework's own error ends the run first")
    def test_a_question_that_nobody_takes_stops_the_run(self, monitors):
        """
        Where whoever decides about calls does not decide, the caller receives the stop, with the question.
        """
        monitor = monitors("enforce")
        nobody = HandleDeferredToolCalls(handler=lambda _ctx, _requests: None)

        with pytest.raises(RunStopped, match="The agent does not make progress"):
            self.paused(monitor, capabilities=[nobody], output_type=str)
        assert "stopped" == runs_of(monitor)[0].outcome

    def test_calls_that_are_allowed_together_are_both_seen(self, monitors):
        """
        Two calls of one reply that were asked about and are made at the same time both bring their results.
        """
        monitor = monitors("enforce")
        both = turn(("lookup", {"key": "a"}), ("lookup", {"key": "b"}))
        allow = HandleDeferredToolCalls(
            handler=lambda _ctx, requests: requests.build_results(approve_all=True)
        )
        # Which of the two returns first decides whether the user is asked in the tenth turn or the eleventh.
        agent = monitor.wrap(scripted(*[both] * 13, capabilities=[allow]))
        run(agent)

        told = story(monitor)
        asked = told.index("user: Go on.")
        made = [line for line in told[asked:] if line.startswith("lookup")]
        assert {"lookup(key=a) -> no entry for a", "lookup(key=b) -> no entry for b"} == set(made[:2])

    def test_the_user_can_be_asked_by_a_function(self, monitors):
        """
        With `ask` the question is put by the host's own function, whatever the agent's output is.
        """
        monitor, questions = monitors("enforce"), []

        def ask(question):
            questions.append(question)
            return "look in the archive"

        requests = []
        agent = monitor.wrap(scripted(*lookups(10), requests=requests), ask=ask)
        run(agent)

        assert "The agent does not make progress" in questions[0]
        assert any("look in the archive" in request for request in requests)
