"""What is special to Agent Framework: its middlewares, streams, approvals, sessions and hosted tools."""

import asyncio
import copy
import gc
import subprocess
import sys

import pytest
from agent_framework import (
    Agent,
    AgentMiddleware,
    AgentResponse,
    AgentSession,
    ChatMiddleware,
    ChatResponse,
    Content,
    FunctionMiddleware,
    FunctionTool,
    Message,
    MiddlewareTermination,
    tool,
)
from script import Ask, ModelBroke, Turn
from stages.agent_framework import ScriptedClient
from versions import needs
from watched import events_of, guidance_of, line, runs_of, story

from steadyhelm import RunStopped
from steadyhelm.adapters.agent_framework import AgentFrameworkAdapter, SteadyhelmMiddleware
from steadyhelm.errors import SettingsError
from steadyhelm.testing.doubles import Alarm


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def lookup(key: str) -> str:
    """Look an entry up."""
    return f"no entry for {key}"


class KeepsConversations(ScriptedClient):
    """A provider that keeps the conversation: each request is only what is new in it."""

    STORES_BY_DEFAULT = True

    async def _whole(self, turn):
        response = await super()._whole(turn)
        response.conversation_id = "there"
        return response


class Searches(ScriptedClient):
    """A provider that searches by itself while it answers."""

    async def _whole(self, turn):
        call = Content.from_search_tool_call("s1", tool_name="web_search", arguments={"query": "ledger"})
        found = Content.from_search_tool_result("s1", tool_name="web_search", result="three ledgers")
        return ChatResponse(messages=Message("assistant", [call, found, "I found three."]))


def turn(*calls):
    return Turn(calls=calls)


def look(call_id, key="a"):
    return Ask("lookup", {"key": key}, call_id)


def looks(times, key="a"):
    return [turn(look(f"c{n}", key)) for n in range(times)]


def agent_of(turns, *, requests=None, tools=(add, lookup), client=ScriptedClient, **options):
    requests = [] if requests is None else requests
    return Agent(client(turns, requests), **{"name": "outer", "tools": list(tools), **options})


def ran(agent, said="find a", **options):
    async def work():
        return await agent.run(said, **options)

    return asyncio.run(work())


def streamed(agent, said="find a", **options):
    async def work():
        stream = agent.run(said, stream=True, **options)
        async for _ in stream:
            pass
        return await stream.get_final_response()

    return asyncio.run(work())


BOTH = pytest.mark.parametrize("run", [ran, streamed])
FOUND = ["user: find a", "model: ", "lookup(key=a) -> no entry for a", "model: done"]


class TestMiddleware:
    @BOTH
    def test_middleware_alone_sees_what_wrap_sees(self, monitors, run):
        """
        An agent made with our middlewares is watched as one that was wrapped.
        """
        monitor = monitors()
        run(agent_of(looks(1), middleware=SteadyhelmMiddleware(monitor)))

        assert FOUND == story(monitor)

    @BOTH
    def test_middleware_for_one_run_is_enough(self, monitors, run):
        """
        They may be given to a single run instead.
        """
        monitor = monitors()
        run(agent_of(looks(1)), middleware=SteadyhelmMiddleware(monitor))

        assert FOUND == story(monitor)

    @BOTH
    def test_watched_twice_is_watched_once(self, monitors, run):
        """
        Given to the agent, to the run, and by wrapping: no step is told twice.
        """
        monitor = monitors()
        ours = SteadyhelmMiddleware(monitor)
        agent = monitor.wrap(monitor.wrap(agent_of(looks(1), middleware=ours)))
        run(agent, middleware=ours)

        assert FOUND == story(monitor)
        assert 1 == len(runs_of(monitor))

    def test_two_monitors_watch_the_same_agent(self, monitors):
        """
        Each monitor has its own run of the same steps.
        """
        one, other = monitors(), monitors()
        ran(other.wrap(one.wrap(agent_of(looks(1)))))

        assert FOUND == story(one)
        assert FOUND == story(other)

    def test_wrap_leaves_the_agent_as_it_was(self, monitors):
        """
        What is wrapped is a copy: an agent of the same class, with everything the first one has.
        """
        agent = agent_of([])
        watched = monitors().wrap(agent)

        assert agent.middleware is None
        assert type(watched) is Agent
        assert (agent.id, agent.client) == (watched.id, watched.client)

    def test_agents_and_clients_can_be_copied(self, monitors):
        """
        The framework keeps middleware in agents and clients: their deep copies share ours.
        """
        monitor, agent = monitors(), agent_of(looks(1))
        watched = monitor.wrap(agent)
        ran(watched)
        ran(copy.deepcopy(watched), "find b")
        copies = copy.deepcopy([agent, agent.client])

        assert ["find a", "find b"] == [run.goal for run in runs_of(monitor)]
        assert "done" == ran(copies[0]).text

    def test_a_copy_of_the_middlewares_is_themselves(self, monitors):
        """
        They are shared, however they are copied.
        """
        ours = SteadyhelmMiddleware(monitors())

        assert ours is copy.copy(ours)
        assert ours is copy.deepcopy(ours)

    def test_what_is_no_monitor_is_refused(self):
        """
        A monitor's name is no monitor.
        """
        with pytest.raises(SettingsError, match="watched by a monitor"):
            SteadyhelmMiddleware("traveller")

    def test_a_disabled_monitor_leaves_the_agent_alone(self, monitors, monkeypatch):
        """
        With STEADYHELM_DISABLED nothing is wrapped, and middlewares that are there do nothing.
        """
        monkeypatch.setenv("STEADYHELM_DISABLED", "1")
        monitor = monitors()
        agent = agent_of(looks(1), middleware=SteadyhelmMiddleware(monitor))

        assert agent is monitor.wrap(agent)
        assert "done" == ran(agent).text

    @pytest.mark.parametrize("thing", [None, 1, "agent", object(), Agent, [], FunctionTool])
    def test_other_objects_are_not_recognised(self, thing):
        """
        Whatever is no agent with middleware is left to others.
        """
        assert not AgentFrameworkAdapter.can_wrap(thing)

    @pytest.mark.parametrize("ask", ["yes", 1, ()])
    def test_a_bad_way_of_asking_is_refused(self, monitors, ask):
        """
        `ask` is a function or "approval".
        """
        with pytest.raises(SettingsError, match="ask must be"):
            monitors().wrap(agent_of([]), ask=ask)

    def test_a_missing_package_is_named(self):
        """
        Without the framework the adapter says what to install.
        """
        hidden = "import sys; sys.modules['agent_framework'] = None; "
        code = hidden + "import steadyhelm.adapters.agent_framework.entry"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

        assert "pip install 'steadyhelm[agent-framework]'" in done.stderr


class TestSteps:
    def test_a_provider_that_keeps_to_known_tools_still_tells_of_the_call(self, monitors):
        """
        With `terminate_on_unknown_calls` the host's own exception passes, and the call is a failed one.
        """
        monitor = monitors()
        agent = agent_of([turn(Ask("nowhere", {"to": "go"}, "c1"))])
        agent.client.function_invocation_configuration["terminate_on_unknown_calls"] = True
        with pytest.raises(KeyError, match="nowhere"):
            ran(monitor.wrap(agent))

        assert "nowhere(to=go) failed" == story(monitor)[2]

    def test_what_the_provider_does_by_itself_is_seen(self, monitors):
        """
        A hosted search is a call of the run, though no function of ours was called.
        """
        monitor = monitors()
        ran(monitor.wrap(agent_of([], client=Searches)))

        told = ["user: find a", "model: I found three.", "web_search(query=ledger) -> three ledgers"]
        assert told == story(monitor)

    @BOTH
    def test_a_call_that_ends_the_run_is_no_failure(self, monitors, run):
        """
        A middleware of the host's that ends the loop with a result is not an error of the tool.
        """

        class Enough(FunctionMiddleware):
            async def process(self, context, call_next):
                await call_next()
                raise MiddlewareTermination(result=context.result)

        monitor = monitors()
        run(monitor.wrap(agent_of(looks(3), middleware=[Enough()])))

        assert not [it for it in events_of(monitor, runs_of(monitor)[0].run_id) if it.error]
        assert "done" == runs_of(monitor)[0].outcome

    @pytest.mark.parametrize("kind", [AgentMiddleware, ChatMiddleware])
    def test_a_middleware_that_answers_itself_is_no_failure(self, monitors, kind):
        """
        A cache of the host's may end a run or a request before it begins: nothing has failed.
        """

        class Knows(kind):
            async def process(self, context, call_next):
                said = Message("assistant", ["I know that one."])
                of = AgentResponse if kind is AgentMiddleware else ChatResponse
                context.result = of(messages=[said])
                raise MiddlewareTermination

        monitor = monitors()
        response = ran(monitor.wrap(agent_of(looks(3), middleware=[Knows()])))

        assert "I know that one." == response.text
        assert "done" == runs_of(monitor)[0].outcome
        replies = ["model: I know that one."] if kind is ChatMiddleware else []
        assert ["user: find a", *replies] == story(monitor)

    def test_an_agent_as_a_tool_is_a_child_run(self, monitors):
        """
        `agent.as_tool()` of a wrapped agent is one call of the outer run, and a run of its own.
        """
        monitor = monitors()
        inner = monitor.wrap(agent_of(looks(1), name="inner"))
        calls = [turn(Ask("inner", {"task": "find a"}, "c1"))]
        ran(monitor.wrap(agent_of(calls, tools=[inner.as_tool()])), "delegate it")

        outer, child = runs_of(monitor)
        assert outer.run_id == child.parent_run_id
        assert "inner(task=find a) -> done" == story(monitor, outer.run_id)[2]
        assert FOUND == story(monitor, child.run_id)

    def test_a_conversation_has_a_run_for_each_turn(self, monitors):
        """
        Each `agent.run` is a run of its own, with its own goal, whatever the session remembers.
        """
        monitor = monitors()
        agent, session = monitor.wrap(agent_of(looks(1))), AgentSession()
        ran(agent, session=session)
        ran(agent, "and now?", session=session)

        assert ["find a", "and now?"] == [run.goal for run in runs_of(monitor)]
        assert ["user: and now?", "model: done"] == story(monitor, runs_of(monitor)[1].run_id)


class TestStreams:
    @needs("agent-framework-core", "1.23", "streams cannot be closed")
    def test_a_stream_that_is_closed_ends_the_run(self, monitors):
        """
        Whoever leaves an `async with` early has left the run early.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of([Turn("a long story"), *looks(3)]))

        async def leave():
            async with agent.run("find a", stream=True) as stream:
                async for _ in stream:
                    break

        asyncio.run(leave())

        assert ["left early"] == [run.outcome for run in runs_of(monitor)]
        assert 0 == monitor.status()["live_runs"]

    def test_a_stream_that_is_dropped_ends_the_run(self, monitors):
        """
        A stream that nobody holds any more is over, though nobody closed it.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of([Turn("a long story")]))

        async def leave():
            async for _ in agent.run("find a", stream=True):
                break
            gc.collect()
            for _ in range(600):
                await asyncio.sleep(0.01)
                if any(outcomes := [run.outcome for run in runs_of(monitor)]):
                    return outcomes
            return []

        assert ["left early"] == asyncio.run(leave())

    def test_only_the_final_response_may_be_asked_for(self, monitors):
        """
        A stream that is not read but asked for its response is a whole run.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of(looks(1)))

        async def final():
            return await agent.run("find a", stream=True).get_final_response()

        assert "done" == asyncio.run(final()).text
        assert FOUND == story(monitor)
        assert "done" == runs_of(monitor)[0].outcome

    def test_what_the_reader_does_meanwhile_is_not_the_agents(self, monitors):
        """
        Between two parts of a stream the code of its reader belongs to no run.
        """
        monitor = monitors()
        agent = monitor.wrap(agent_of(looks(1)))

        async def look_around():
            return {monitor.current_run async for _ in agent.run("find a", stream=True)}

        assert {None} == asyncio.run(look_around())


class TestWords:
    @BOTH
    def test_words_stay_where_they_were_said(self, monitors, run):
        """
        The session keeps the conversation as it was; what we said is in every request that follows.
        """
        monitor, requests, session = monitors("guide"), [], AgentSession()
        agent = monitor.wrap(agent_of(looks(4), requests=requests))
        run(agent, session=session)
        run(agent, "and now?", session=session)

        said = guidance_of(monitor, runs_of(monitor)[0].run_id)[0]
        assert [False] * 3 == [said in request for request in requests[:3]]
        assert [True] * (len(requests) - 3) == [said in request for request in requests[3:]]
        assert said not in str([message.to_dict() for message in session.state["in_memory"]["messages"]])

    @BOTH
    def test_what_was_taken_back_stays_away(self, monitors, run):
        """
        The next turn of the conversation does not bring back what a rollback took out of it.
        """
        monitor, requests, session = (
            monitors("enforce", make_detectors=lambda: [Alarm(at=3)]),
            [],
            AgentSession(),
        )
        turns = [turn(Ask("add", {"a": 1, "b": 2}, "c1")), turn(look("c2")), turn(look("c3", "b"))]
        agent = monitor.wrap(agent_of(turns, requests=requests))
        run(agent, session=session)
        run(agent, "and now?", session=session)

        assert "no entry" in requests[2]
        assert not any("no entry" in request for request in requests[3:])
        assert "and now?" in requests[-1]

    def test_where_the_provider_keeps_the_conversation_words_go_with_what_is_new(self, monitors):
        """
        A request then has only the latest messages: the words are said once, and nothing can be taken back.
        """
        monitor, requests = monitors("guide"), []
        ran(monitor.wrap(agent_of(looks(5), requests=requests, client=KeepsConversations)))

        said = guidance_of(monitor)[0]
        assert [3] == [n for n, request in enumerate(requests) if said in request]

    def test_where_the_provider_keeps_the_conversation_a_confirmed_loop_is_not_rolled_back(self, monitors):
        """
        What cannot be carried out is reported, and the words are said.
        """
        monitor, requests = monitors("enforce", make_detectors=lambda: [Alarm(at=3)]), []
        ran(
            monitor.wrap(agent_of(looks(5), requests=requests, client=KeepsConversations)),
            session=AgentSession(),
        )

        told = events_of(monitor, runs_of(monitor)[0].run_id, told=True)
        assert "not_carried_out" in [it.action_name for it in told]
        assert guidance_of(monitor)[0] in requests[3]


class TestStopped:
    @needs("agent-framework-core", "1.23", "open calls are not reported to the provider")
    def test_open_calls_of_a_kept_conversation_are_closed(self, monitors):
        """
        After a stop the provider is told that the calls came to nothing: else it refuses the next request.
        """
        monitor, requests = monitors("enforce"), []
        agent = monitor.wrap(agent_of(looks(30), requests=requests, client=KeepsConversations))
        with pytest.raises(RunStopped):
            ran(agent, session=AgentSession())

        assert "aborted" in requests[-1]
        assert "stopped" == runs_of(monitor)[0].outcome
        assert len(requests) - 1 == sum("model" in it for it in story(monitor))

    def test_a_broken_model_is_the_hosts_own_failure(self, monitors):
        """
        The exception of a stream's model passes unchanged, and is told once.
        """
        monitor = monitors("enforce")
        with pytest.raises(ModelBroke):
            streamed(monitor.wrap(agent_of([Turn(breaks=True)])))

        assert ["user: find a", "model failed"] == story(monitor)
        assert "error: ModelBroke" == runs_of(monitor)[0].outcome

    def test_a_stopped_inner_agent_is_a_failed_call(self, monitors):
        """
        The stop of an agent that is a tool reaches whoever called it: the outer agent goes on without it.
        """
        monitor = monitors("enforce")
        inner = monitor.wrap(agent_of(looks(30), name="inner"))
        calls = [turn(Ask("inner", {"task": "find a"}, "c1"))]
        response = ran(monitor.wrap(agent_of(calls, tools=[inner.as_tool()])), "delegate it")

        assert "done" == response.text
        assert "inner(task=find a) failed" == story(monitor)[2]
        assert {"done", "stopped"} == {it.outcome for it in runs_of(monitor)}


def answered(response, approved, *words):
    said = [it.to_function_approval_response(approved) for it in response.user_input_requests]
    return Message("user", [*said, *words])


class TestApprovals:
    @BOTH
    @pytest.mark.parametrize(
        ("approved", "words", "told", "calls"),
        [
            (True, (), "Go on.", 1),
            (False, ("look in the archive",), "look in the archive", 0),
        ],
    )
    def test_an_answer_says_what_becomes_of_the_call(self, monitors, run, approved, words, told, calls):
        """
        The question is an approval of the framework; with the response the same run goes on.
        """
        monitor, session, requests = monitors("enforce"), AgentSession(), []
        agent = monitor.wrap(agent_of(looks(30), requests=requests), ask="approval")
        response = run(agent, session=session)
        (request,) = response.user_input_requests
        assert "The agent does not make progress with: find a." in request.additional_properties["reason"]
        agent.client._turns = iter(())
        response = run(agent, answered(response, approved, *words), session=session)

        assert "done" == response.messages[-1].text
        assert 1 == len(runs_of(monitor))
        steps = [line(it) for it in events_of(monitor, runs_of(monitor)[0].run_id)]
        after = steps[steps.index(f"user: {told}") + 1 :]
        assert calls == sum("lookup" in it for it in after)
        assert "model: done" == after[-1]
        assert all(it in requests[-1] for it in words)

    @BOTH
    def test_a_no_ends_the_run(self, monitors, run):
        """
        An approval that is refused without words is a no: the run stops, and its caller receives the stop.
        """
        monitor, session = monitors("enforce"), AgentSession()
        agent = monitor.wrap(agent_of(looks(30)), ask="approval")
        response = run(agent, session=session)
        with pytest.raises(RunStopped):
            run(agent, answered(response, False), session=session)

        assert ["stopped"] == [it.outcome for it in runs_of(monitor)]

    def test_an_agent_built_anew_goes_on_with_the_answer(self, monitors):
        """
        A server may build its agent for each request: the run is known by the call that was asked about.
        """
        monitor, session = monitors("enforce"), AgentSession()
        response = ran(monitor.wrap(agent_of(looks(30)), ask="approval"), session=session)
        ran(monitor.wrap(agent_of([]), ask="approval"), answered(response, True), session=session)

        assert ["done"] == [it.outcome for it in runs_of(monitor)]

    def test_an_approval_of_the_hosts_own_does_not_end_the_run(self, monitors):
        """
        A tool that always needs approval: what comes after the answer belongs to the same run.
        """
        monitor, session = monitors(), AgentSession()
        careful = tool(lookup, approval_mode="always_require")
        agent = monitor.wrap(agent_of(looks(1), tools=[careful]))
        response = ran(agent, session=session)
        ran(agent, answered(response, True), session=session)

        assert FOUND == story(monitor)
        assert 1 == len(runs_of(monitor))

    def test_a_call_that_the_host_makes_itself_is_seen(self, monitors):
        """
        A tool without a function is the caller's to call; its result is told with the next request.
        """
        monitor, session = monitors(), AgentSession()
        schema = {"type": "object", "properties": {"key": {"type": "string"}}}
        theirs = FunctionTool(name="lookup", description="Look it up.", input_model=schema, func=None)
        agent = monitor.wrap(agent_of(looks(1), tools=[theirs]))
        ran(agent, session=session)
        ran(agent, Message("tool", [Content.from_function_result("c0", result="page 7")]), session=session)

        assert ["user: find a", "model: ", "lookup(key=a) -> page 7", "model: done"] == story(monitor)

    def test_an_inner_agent_does_not_return_with_a_question(self, monitors):
        """
        Whoever called it is a tool, which expects an answer: the inner run is stopped instead.
        """
        monitor = monitors("enforce")
        inner = monitor.wrap(agent_of(looks(30), name="inner"), ask="approval")
        calls = [turn(Ask("inner", {"task": "find a"}, "c1"))]
        outer = monitor.wrap(agent_of(calls, tools=[inner.as_tool()]), ask="approval")
        ran(outer, "delegate it", session=AgentSession())

        assert ["done", "stopped"] == [it.outcome for it in runs_of(monitor)]

    @BOTH
    def test_a_function_may_ask_instead(self, monitors, run):
        """
        With a function as `ask` the agent never returns with a question.
        """
        asked, requests = [], []

        def ask(question):
            asked.append(question)
            return "look in the archive"

        agent = monitors("enforce").wrap(agent_of(looks(10), requests=requests), ask=ask)
        response = run(agent)

        assert [] == response.user_input_requests
        assert "The agent does not make progress with: find a." in asked[0]
        assert any("look in the archive" in request for request in requests)
