"""What is special to Strands: its hooks and their order, interrupts, agents as tools, graphs and swarms."""

import asyncio
import subprocess
import sys

import pytest
from script import Ask, Scene, Turn
from stages.strands import ScriptedModel, TheStage
from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.hooks import AfterModelCallEvent, AfterToolCallEvent, BeforeToolCallEvent
from strands.multiagent import GraphBuilder, Swarm
from strands.tools import PythonAgentTool
from strands.types.exceptions import ContextWindowOverflowException
from watched import events_of, guidance_of, line, not_run_of, runs_of, story

from steadyhelm import RunStopped
from steadyhelm.adapters.strands import SteadyhelmHooks, StrandsAdapter
from steadyhelm.errors import SettingsError
from steadyhelm.testing.doubles import Alarm

WAYS = TheStage.ways


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@tool
def lookup(key: str) -> str:
    """Look an entry up."""
    return f"no entry for {key}"


class RolesKept(ScriptedModel):
    """Also keeps the roles of the messages of each request."""

    def __init__(self, turns, requests):
        super().__init__(turns, requests)
        self.roles = []

    async def stream(self, messages, *args, **kwargs):
        self.roles.append([message["role"] for message in messages])
        async for event in super().stream(messages, *args, **kwargs):
            yield event


class Overflowing(ScriptedModel):
    """Its context is too long once."""

    async def stream(self, messages, *args, **kwargs):
        async for event in super().stream(messages, *args, **kwargs):
            if len(self._requests) == 1:
                raise ContextWindowOverflowException("too long")
            yield event


class Endless(ScriptedModel):
    """Never replies."""

    def __init__(self, turns, requests):
        super().__init__(turns, requests)
        self.is_called = asyncio.Event()

    async def stream(self, messages, *args, **kwargs):
        async for event in super().stream(messages, *args, **kwargs):
            self.is_called.set()
            await asyncio.Event().wait()
            yield event


class Cached(ScriptedModel):
    """Counts what came from a cache apart."""

    async def stream(self, messages, *args, **kwargs):
        usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 115, "cacheReadInputTokens": 100}
        async for event in super().stream(messages, *args, **kwargs):
            yield (
                {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}} if "metadata" in event else event
            )


def turn(*calls):
    return Turn(calls=calls)


def look(call_id, key="a"):
    return Ask("lookup", {"key": key}, call_id)


def looks(times, key="a"):
    return [turn(look(f"c{n}", key)) for n in range(times)]


def agent_of(turns, *, requests=None, tools=(add, lookup), model=ScriptedModel, **options):
    requests = [] if requests is None else requests
    options = {"name": "outer", "callback_handler": None, **options}
    return Agent(model(turns, requests), tools=list(tools), **options)


def outcome_of(agent, monitor):
    try:
        return str((agent if monitor is None else monitor.wrap(agent))("go"))
    except Exception as exc:  # noqa: BLE001 - whatever the framework makes of it
        return f"{type(exc).__name__}: {exc}"


def answer(result, *answers):
    said = zip(result.interrupts, answers, strict=True)
    return [{"interruptResponse": {"interruptId": it.id, "response": words}} for it, words in said]


class TestHooks:
    def test_hooks_alone_see_what_wrap_sees(self, monitors):
        """
        An agent made with our hooks is watched as one that was wrapped.
        """
        monitor = monitors()
        agent_of(looks(1), hooks=[SteadyhelmHooks(monitor)])("find a")

        told = ["user: find a", "model: ", "lookup(key=a) -> no entry for a", "model: done"]
        assert told == story(monitor)

    def test_hooks_alone_stop_with_run_stopped(self, monitors):
        """
        RunStopped reaches the caller unchanged though Strands wraps what hooks raise.
        """
        agent = agent_of(looks(30), hooks=[SteadyhelmHooks(monitors("enforce"))])

        with pytest.raises(RunStopped):
            agent("find a")

    def test_watched_twice_is_watched_once(self, monitors):
        """
        Hooks given to the agent and wrapping it again tell no step twice.
        """
        monitor = monitors()
        agent = agent_of(looks(1), hooks=[SteadyhelmHooks(monitor)])
        monitor.wrap(monitor.wrap(agent))("find a")

        assert 1 == len(runs_of(monitor))
        assert 4 == len(story(monitor))

    def test_two_monitors_watch_the_same_agent(self, monitors):
        """
        Each monitor has its own run of the same steps.
        """
        one, other = monitors(), monitors()
        other.wrap(one.wrap(agent_of(looks(1))))("find a")

        assert story(one) == story(other)
        assert 4 == len(story(one))

    def test_wrap_gives_the_agent_itself(self, monitors):
        """
        A wrapped agent can stand wherever Strands wants an agent.
        """
        agent = agent_of([])

        assert agent is monitors().wrap(agent)

    def test_a_disabled_monitor_leaves_the_agent_alone(self, monitors, monkeypatch):
        """
        With STEADYHELM_DISABLED nothing is registered.
        """
        monkeypatch.setenv("STEADYHELM_DISABLED", "1")
        monitor = monitors()
        agent = agent_of([])
        before = sum(len(list(it)) for it in agent.hooks._registered_callbacks.values())
        monitor.wrap(agent)

        assert before == sum(len(list(it)) for it in agent.hooks._registered_callbacks.values())

    def test_what_other_hooks_changed_is_what_is_seen(self, monitors):
        """
        Our hooks come last: a call that another hook rewrote is told as it is made.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of(looks(1)))

        def rewrite(event: BeforeToolCallEvent) -> None:
            event.tool_use = {**event.tool_use, "input": {"key": "b"}}

        agent.add_hook(rewrite, BeforeToolCallEvent)
        agent("find a")

        assert "lookup(key=b) -> no entry for b" == story(monitor)[2]

    @pytest.mark.parametrize("thing", [None, 1, "agent", object(), Agent, [], type])
    def test_other_objects_are_not_recognised(self, thing):
        """
        Whatever is no agent, graph or swarm is left to others.
        """
        assert not StrandsAdapter.can_wrap(thing)

    @pytest.mark.parametrize("ask", ["yes", 1, ()])
    def test_a_bad_way_of_asking_is_refused(self, monitors, ask):
        """
        `ask` is a function or "interrupt".
        """
        with pytest.raises(SettingsError, match="ask must be"):
            monitors().wrap(agent_of([]), ask=ask)

    def test_what_is_no_monitor_is_refused(self):
        """
        A monitor's name is no monitor.
        """
        with pytest.raises(SettingsError, match="watched by a monitor"):
            SteadyhelmHooks("traveller")

    def test_options_that_come_too_late_are_refused(self, monitors):
        """
        An agent that is watched already keeps its way of asking: another one would be silently ignored.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of([]))

        with pytest.raises(SettingsError, match="watches already"):
            monitor.wrap(agent, ask=input)

    def test_a_missing_package_is_named(self):
        """
        Without Strands the adapter says what to install.
        """
        code = "import sys; sys.modules['strands'] = None; import steadyhelm.adapters.strands.hooks"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

        assert "pip install 'steadyhelm[strands]'" in done.stderr


class TestSteps:
    def test_a_model_call_that_is_cancelled_is_recorded(self, monitors):
        """
        No hook of Strands reports the end of a model call whose task is cancelled: the run's end does.
        """

        async def leave(agent):
            task = asyncio.create_task(agent.invoke_async("go"))
            await agent.model.is_called.wait()
            task.cancel()
            await task

        monitor = monitors()
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(leave(monitor.wrap(agent_of([], model=Endless))))

        assert ["user: go", "model failed"] == story(monitor)

    def test_a_name_no_tool_can_have_is_seen(self, monitors):
        """
        Strands answers such a call without any hook for it; it is a failed call all the same.
        """
        monitor = monitors()
        turns = [turn(Ask("look up!", {"key": "a"}, "c1"), look("c2"))]
        monitor.wrap(agent_of(turns))("find a")

        assert 1 == sum(it.endswith("failed") for it in story(monitor))
        assert 5 == len(story(monitor))
        assert ["look up!: no such tool"] == not_run_of(monitor)

    def test_a_call_that_is_cancelled_before_it_is_made_is_not_run(self, monitors):
        """
        Strands answers each call of a cancelled batch with an error, and calls no tool.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of(looks(1)))
        agent.add_hook(lambda _: agent.cancel(), AfterModelCallEvent)
        agent("find a")

        assert ["lookup: refused"] == not_run_of(monitor)

    def test_each_attempt_at_a_call_is_seen(self, monitors):
        """
        A hook of the host's that has a tool called again makes two calls.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of(looks(1)))
        attempts = []

        def again(event: AfterToolCallEvent) -> None:
            attempts.append(event)
            event.retry = len(attempts) == 1

        agent.add_hook(again, AfterToolCallEvent)
        agent("find a")

        assert 2 == sum("lookup" in it for it in story(monitor))

    def test_each_attempt_at_a_model_call_is_seen(self, monitors):
        """
        A reply that a hook of the host's throws away was asked for and paid for.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of([Turn("no"), Turn("yes")]))

        def again(event: AfterModelCallEvent) -> None:
            event.retry = event.stop_response.message["content"][0]["text"] == "no"

        agent.add_hook(again, AfterModelCallEvent)
        agent("well?")

        assert ["user: well?", "model: no", "model: yes"] == story(monitor)

    def test_a_context_that_is_too_long_is_a_failed_model_call(self, monitors):
        """
        Strands shortens the conversation and asks again: both requests are seen.
        """
        monitor = monitors()
        history = [{"role": role, "content": [{"text": "x"}]} for role in ("user", "assistant") * 3]
        agent = monitor.wrap(agent_of([], model=Overflowing, messages=history))
        agent("go on")

        assert ["user: go on", "model failed", "model: done"] == story(monitor)

    def test_tokens_from_a_cache_count(self, monitors):
        """
        What a provider counts apart from the input was read all the same.
        """
        monitor = monitors()
        monitor.wrap(agent_of([], model=Cached))("well?")

        (reply,) = [
            it for it in events_of(monitor, runs_of(monitor)[0].run_id) if it.action_type == "llm_request"
        ]
        assert 115 == reply.token_count

    def test_a_call_that_another_hook_refuses_is_a_failed_call(self, monitors):
        """
        What the host's own hook cancels is told with its reason, and not as a refusal of ours.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of(looks(1)))

        def cancel(event: BeforeToolCallEvent) -> None:
            event.cancel_tool = "not on Sundays"

        agent.add_hook(cancel, BeforeToolCallEvent)
        agent("find a")

        (call,) = [
            it for it in events_of(monitor, runs_of(monitor)[0].run_id) if it.action_type == "tool_call"
        ]
        assert "not on Sundays" == call.error
        assert ["lookup: refused"] == not_run_of(monitor)

    def test_a_tool_that_interrupts_and_is_never_called_again_is_not_run(self, monitors):
        """
        It was left by an interrupt, and what came next was no answer to it.
        """

        @tool(context=True)
        def approve(tool_context) -> str:
            """Asks first."""
            return tool_context.interrupt("sure", reason="Really?")

        monitor = monitors()
        agent = monitor.wrap(agent_of([turn(Ask("approve", {}, "c1"))], tools=[approve]))
        result = agent("go")
        agent.cancel()
        agent(answer(result, "yes"))

        assert ["approve: refused"] == not_run_of(monitor)

    @pytest.mark.parametrize("given", ["just text", {"status": "success"}, {"content": [1]}, None])
    def test_a_result_of_no_known_form_does_no_harm(self, monitors, quiet, given):
        """
        What a tool gives may be anything; the call is seen, and nothing of ours reaches the agent.
        """

        class Odd(PythonAgentTool):
            async def stream(self, tool_use, invocation_state, **kwargs):
                yield given

        spec = {"name": "odd", "description": "Odd.", "inputSchema": {"json": {"type": "object"}}}
        odd = Odd("odd", spec, lambda *_args, **_kwargs: None)
        calls = [turn(Ask("odd", {}, "c1"))]
        bare, watched = (outcome_of(agent_of(calls, tools=[odd]), it) for it in (None, monitors()))

        assert bare == watched

    def test_a_tool_called_by_the_host_itself_is_not_the_agents(self, monitors):
        """
        `agent.tool.lookup()` outside an invocation works as ever, and is no run.
        """
        monitor = monitors("enforce")
        agent = monitor.wrap(agent_of([]))
        result = agent.tool.lookup(key="a")

        assert "success" == result["status"]
        assert [] == runs_of(monitor)

    def test_a_stream_that_is_left_ends_the_run(self, monitors):
        """
        Whoever stops reading and closes the stream has left the run early.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of(looks(3)))

        async def leave():
            stream = agent.stream_async("find a")
            async for event in stream:
                if "message" in event:
                    break
            await stream.aclose()

        asyncio.run(leave())

        assert ["left early"] == [run.outcome for run in runs_of(monitor)]
        assert 0 == monitor.status()["live_runs"]

    def test_an_agent_may_be_asked_again(self, monitors):
        """
        Each invocation of an agent is a run of its own, with its own goal.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of(looks(1)))
        agent("find a")
        agent("and now?")

        assert ["find a", "and now?"] == [run.goal for run in runs_of(monitor)]
        assert ["user: and now?", "model: done"] == story(monitor, runs_of(monitor)[1].run_id)

    def test_invocations_at_the_same_time_do_not_mix(self, monitors):
        """
        An agent that may be invoked twice at once has a run for each.
        """
        monitor = monitors()
        agent = monitor.wrap(
            agent_of([Turn("one"), Turn("two")], concurrent_invocation_mode="unsafe_reentrant")
        )

        async def both():
            await asyncio.gather(agent.invoke_async("first"), agent.invoke_async("second"))

        asyncio.run(both())

        assert {"first", "second"} == {run.goal for run in runs_of(monitor)}
        assert [2, 2] == [len(story(monitor, run.run_id)) for run in runs_of(monitor)]


class TestWords:
    def test_words_stand_in_the_request_and_not_in_the_conversation(self, monitors):
        """
        What is said to the model does not change `agent.messages`, and stays in the requests that follow.
        """
        monitor, requests = monitors("guide"), []
        agent = monitor.wrap(agent_of(looks(4), requests=requests))
        agent("find a")
        agent("and now?")

        said = guidance_of(monitor, runs_of(monitor)[0].run_id)[0]
        assert [False] * 3 == [said in request for request in requests[:3]]
        assert [True] * (len(requests) - 3) == [said in request for request in requests[3:]]
        assert said not in str(agent.messages)

    def test_roles_take_turns(self, monitors):
        """
        Words go with the last message of the user or a tool: some providers want roles to alternate.
        """
        agent = monitors("guide").wrap(agent_of(looks(5), model=RolesKept))
        agent("find a")

        for roles in agent.model.roles:
            assert ["user", "assistant"] * (len(roles) // 2) + ["user"] == roles

    def test_a_return_cuts_the_conversation(self, monitors):
        """
        After a rollback `agent.messages` is what the model sees, and the next invocation builds on that.
        """
        monitor, requests = monitors("enforce", make_detectors=lambda: [Alarm(at=3)]), []
        turns = [turn(Ask("add", {"a": 1, "b": 2}, "c1")), turn(look("c2")), turn(look("c3", "b"))]
        agent = monitor.wrap(agent_of(turns, requests=requests, model=RolesKept))
        agent("find a")
        agent("and now?")

        assert ["user", "assistant", "user", "assistant"] == [it["role"] for it in agent.messages]
        assert "no entry" not in requests[-1]
        assert ["user", "assistant", "user"] == agent.model.roles[-1]

    def test_a_return_to_what_is_gone_is_reported(self, monitors):
        """
        Where the conversation was cut short meanwhile there is nothing to return to: the words are said.
        """
        monitor, requests = monitors("enforce", make_detectors=lambda: [Alarm(at=3)]), []
        turns = [turn(Ask("add", {"a": 1, "b": 2}, "c1")), turn(look("c2")), turn(look("c3", "b"))]
        window = SlidingWindowConversationManager(window_size=2, per_turn=True)
        agent_ = monitor.wrap(agent_of(turns, requests=requests, conversation_manager=window))
        agent_("find a")

        told = events_of(monitor, runs_of(monitor)[0].run_id, told=True)
        assert "not_carried_out" in [it.action_name for it in told]
        assert guidance_of(monitor)[0] in requests[3]


class TestStopped:
    def test_a_hook_that_retries_everything_keeps_nothing_alive(self, monitors):
        """
        A stopped run asks its model no more, however often the host's hooks would try again.
        """
        requests = []
        agent = monitors("enforce").wrap(agent_of(looks(30), requests=requests))

        def again(event: AfterModelCallEvent) -> None:
            event.retry = event.exception is not None

        agent.add_hook(again, AfterModelCallEvent)
        with pytest.raises(RunStopped):
            agent("find a")

        assert len(requests) <= 10

    def test_a_stopped_agent_can_be_asked_again(self, monitors):
        """
        The conversation is left in order: the next invocation is a run like any other.
        """
        monitor = monitors("enforce")
        agent = monitor.wrap(agent_of(looks(30), model=RolesKept))
        with pytest.raises(RunStopped):
            agent("find a")
        agent.model._turns = iter(())
        result = agent("something else")

        assert "done" == str(result).strip()
        roles = agent.model.roles[-1]
        assert ["user", "assistant"] * (len(roles) // 2) + ["user"] == roles


class TestInterrupts:
    @pytest.mark.parametrize("how", WAYS)
    def test_an_interrupted_run_goes_on_as_one_run(self, monitors, how):
        """
        The question is an interrupt of Strands; called with the answer, the agent goes on in the same run.
        """
        monitor = monitors("enforce")
        scene = Scene(turns=looks(9), answers=["look in the archive", "and then stop"])
        played = TheStage().play(scene, monitor, how)

        assert (None, "done") == (played.error, played.result)
        assert 1 == len(runs_of(monitor))
        assert "done" == runs_of(monitor)[0].outcome

    def test_every_call_of_a_batch_waits_for_its_answer(self, monitors):
        """
        Of two calls that are asked about at once, the one the user allows is made and the other is not.
        """
        monitor = monitors("enforce")
        batches = [turn(look(f"c{n}x"), look(f"c{n}y")) for n in range(12)]
        agent = monitor.wrap(agent_of(batches), ask="interrupt")
        result = agent("find a")
        agent.model._turns = iter(())
        agent(answer(result, "yes", "later"))

        told = [line(it) for it in events_of(monitor, runs_of(monitor)[0].run_id)]
        after = told[told.index("user: Go on.") :]
        assert 1 == sum("lookup" in it for it in after)
        assert "user: later" in after

    @pytest.mark.parametrize(("said", "calls"), [("yes", 1), (True, 1), ("later", 0)])
    def test_an_answer_says_what_becomes_of_the_call(self, monitors, said, calls):
        """
        Yes has it made; words that are no yes have it refused.
        """
        monitor, requests = monitors("enforce"), []
        agent = monitor.wrap(agent_of(looks(30), requests=requests), ask="interrupt")
        result = agent("find a")
        assert "interrupt" == result.stop_reason
        before = len([it for it in story(monitor) if "lookup" in it])
        agent(answer(result, said))

        after = [line(it) for it in events_of(monitor, runs_of(monitor)[0].run_id)]
        spoken = {"yes": "Go on.", True: "Go on."}.get(said, said)
        where = after.index(f"user: {spoken}")
        assert calls == ("lookup" in after[where + 1])
        assert before == len([it for it in after[:where] if "lookup" in it])

    @pytest.mark.parametrize("said", ["no", False])
    def test_a_no_ends_the_run(self, monitors, said):
        """
        The user says no: the call is not made, and the caller of the agent receives the stop.
        """
        monitor = monitors("enforce")
        agent = monitor.wrap(agent_of(looks(30)), ask="interrupt")
        result = agent("find a")
        with pytest.raises(RunStopped):
            agent(answer(result, said))

        assert ["stopped"] == [run.outcome for run in runs_of(monitor)]

    def test_a_question_of_the_hosts_own_does_not_end_the_run(self, monitors):
        """
        A hook of the host's may interrupt too: what comes after the answer belongs to the same run.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of(looks(1)))

        def sure(event: BeforeToolCallEvent) -> None:
            event.interrupt("sure", reason="Really?")

        agent.add_hook(sure, BeforeToolCallEvent)
        result = agent("find a")
        agent(answer(result, "yes"))

        assert ["user: find a", "model: ", "lookup(key=a) -> no entry for a", "model: done"] == story(monitor)
        assert 1 == len(runs_of(monitor))

    def test_a_function_may_ask_instead(self, monitors):
        """
        With a function as `ask` the agent never returns with a question.
        """
        asked = []
        monitor, requests = monitors("enforce"), []

        def ask(question):
            asked.append(question)
            return "look in the archive"

        result = monitor.wrap(agent_of(looks(10), requests=requests), ask=ask)("find a")

        assert "end_turn" == result.stop_reason
        assert "The agent does not make progress with: find a." in asked[0]
        assert any("look in the archive" in request for request in requests)


class TestAgentsAsTools:
    def test_an_agent_as_a_tool_is_a_child_run(self, monitors):
        """
        `agent.as_tool()` is one call of the outer run, and a run of its own.
        """
        monitor = monitors()
        hooks = SteadyhelmHooks(monitor)
        inner = agent_of(looks(1), name="inner", hooks=[hooks])
        calls = [turn(Ask("inner", {"input": "find a"}, "c1"))]
        agent_of(calls, tools=[inner.as_tool()], hooks=[hooks])("delegate it")

        outer, child = runs_of(monitor)
        assert outer.run_id == child.parent_run_id
        assert ["user: delegate it", "model: ", "inner(input=find a) -> done", "model: done"] == [
            it.replace("\n", "") for it in story(monitor, outer.run_id)
        ]
        assert 4 == len(story(monitor, child.run_id))

    def test_a_question_of_an_inner_agent_comes_up_and_goes_down(self, monitors):
        """
        Strands hands the interrupt of an agent that is a tool to its caller; both runs go on with the answer.
        """
        monitor = monitors("enforce")
        hooks = SteadyhelmHooks(monitor, ask="interrupt")
        inner = agent_of(looks(30), name="inner", hooks=[hooks])
        calls = [turn(Ask("inner", {"input": "find a"}, "c1"))]
        outer = agent_of(calls, tools=[inner.as_tool()], hooks=[hooks])
        result = outer("delegate it")
        assert "interrupt" == result.stop_reason
        inner.model._turns = iter(())
        result = outer(answer(result, "look in the archive"))

        assert "end_turn" == result.stop_reason
        assert ["done", "done"] == [run.outcome for run in runs_of(monitor)]
        assert "user: look in the archive" in story(monitor, runs_of(monitor)[1].run_id)
        assert 1 == sum("inner(" in it for it in story(monitor))

    def test_a_stopped_inner_agent_is_a_failed_call(self, monitors):
        """
        The stop of an agent that is a tool reaches whoever called it: the outer agent hears of it.
        """
        monitor, requests = monitors("enforce"), []
        hooks = SteadyhelmHooks(monitor)
        inner = agent_of(looks(30), name="inner", hooks=[hooks])
        calls = [turn(Ask("inner", {"input": "find a"}, "c1"))]
        result = agent_of(calls, tools=[inner.as_tool()], hooks=[hooks], requests=requests)("delegate it")

        assert "done" == str(result).strip()
        assert "Run stopped." in requests[1]
        assert {"done", "stopped"} == {run.outcome for run in runs_of(monitor)}


def read(graph):
    async def to_the_end(task):
        async for _ in graph.stream_async(task):
            pass

    return to_the_end


class TestGraphs:
    def graph(self, first, second):
        builder = GraphBuilder()
        builder.add_node(first, "first")
        builder.add_node(second, "second")
        builder.add_edge("first", "second")
        return builder.set_execution_timeout(60).build()

    @pytest.mark.parametrize("how", ["sync", "async", "async stream"])
    def test_a_graph_is_a_run_whose_nodes_are_its_steps(self, monitors, how):
        """
        The graph's run has a step for each node, and a child run for each node's agent.
        """
        monitor = monitors()
        graph = self.graph(agent_of(looks(1), name="one"), agent_of([Turn("two")], name="two"))
        watched = monitor.wrap(graph)
        assert graph is watched
        start = {"sync": watched, "async": watched.invoke_async, "async stream": read(watched)}[how]
        coming = start("find a")
        if how != "sync":
            asyncio.run(coming)

        outer, *children = runs_of(monitor)
        assert ["user: find a", "first() -> done", "second() -> two"] == story(monitor)
        assert [outer.run_id] * 2 == [run.parent_run_id for run in children]
        assert "find a" == children[0].goal
        assert 4 == len(story(monitor, children[0].run_id))

    def test_nodes_at_the_same_time_do_not_mix(self, monitors):
        """
        Nodes that work at once share one state in Strands, and have runs of their own.
        """
        monitor = monitors()
        builder = GraphBuilder()
        for name in "xy":
            builder.add_node(agent_of(looks(3, name), name=name), name)
            builder.set_entry_point(name)
        monitor.wrap(builder.set_execution_timeout(60).build())("find both")

        children = runs_of(monitor)[1:]
        told = {story(monitor, run.run_id)[2] for run in children}
        assert {f"lookup(key={name}) -> no entry for {name}" for name in "xy"} == told
        assert [8, 8] == [len(story(monitor, run.run_id)) for run in children]

    def test_a_failing_node_is_a_failed_step(self, monitors):
        """
        The host's own exception passes unchanged, and both runs say how they ended.
        """
        monitor = monitors()
        graph = monitor.wrap(self.graph(agent_of([Turn(breaks=True)], name="one"), agent_of([], name="two")))
        with pytest.raises(Exception, match="no model"):
            graph("find a")

        assert ["user: find a", "first() failed"] == story(monitor)
        assert ["error: ModelBroke"] * 2 == [run.outcome for run in runs_of(monitor)]

    @pytest.mark.parametrize("kind", ["graph", "swarm"])
    def test_a_stopped_node_stops_the_whole(self, monitors, kind):
        """
        RunStopped reaches the caller of a graph, and of a swarm, which would swallow it.
        """
        monitor = monitors("enforce")
        one, two = agent_of(looks(30), name="one"), agent_of([], name="two")
        watched = monitor.wrap(self.graph(one, two) if kind == "graph" else Swarm([one, two]))
        with pytest.raises(RunStopped):
            watched("find a")

        assert ["stopped", "stopped"] == [run.outcome for run in runs_of(monitor)]
        assert 0 == monitor.status()["live_runs"]

    def test_a_swarm_hands_over(self, monitors):
        """
        A hand-over is a call of the agent that hands over; each agent's turn is a step of the swarm.
        """
        monitor = monitors()
        over = Ask("handoff_to_agent", {"agent_name": "two", "message": "yours"}, "c1")
        swarm = Swarm([agent_of([turn(over)], name="one"), agent_of([Turn("found")], name="two")])
        monitor.wrap(swarm)("find a")

        assert ["user: find a", "one() -> done", "two() -> found"] == story(monitor)
        assert 3 == len(runs_of(monitor))

    def test_a_question_in_a_graph_goes_on_as_the_same_runs(self, monitors):
        """
        A node's agent may ask by interrupt: the graph returns with the question, and goes on with the answer.
        """
        monitor = monitors("enforce")
        one = agent_of(looks(30), name="one")
        graph = monitor.wrap(self.graph(one, agent_of([], name="two")), ask="interrupt")
        result = graph("find a")
        assert 1 == len(result.interrupts)
        one.model._turns = iter(())
        graph(answer(result, "look in the archive"))

        assert 3 == len(runs_of(monitor))
        assert ["user: find a", "first() -> done", "second() -> done"] == story(monitor)
        assert {"done"} == {run.outcome for run in runs_of(monitor)}

    def test_a_graph_inside_a_graph_is_its_child(self, monitors):
        """
        A node may be a graph: its run is a child, and its agents are children of that.
        """
        monitor = monitors()
        inner = self.graph(agent_of([], name="one"), agent_of([], name="two"))
        builder = GraphBuilder()
        builder.add_node(inner, "inner")
        monitor.wrap(builder.set_execution_timeout(60).build())("find a")

        parents = {run.run_id: run.parent_run_id for run in runs_of(monitor)}
        depth = {run_id: 0 if up is None else 1 + (parents[up] is not None) for run_id, up in parents.items()}
        assert [0, 1, 2, 2] == sorted(depth.values())
