import asyncio
from contextlib import nullcontext

import pytest
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.run_config import RunConfig, ToolThreadPoolConfig
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.runners import InMemoryRunner, Runner
from google.adk.tools import FunctionTool
from google.adk.tools.agent_tool import AgentTool
from google.adk.workflow import Workflow
from google.genai import types
from script import GOAL, Ask, Turn
from stages.google_adk import CONFIRMATION, USER, ScriptedLlm
from versions import needs
from watched import events_of, guidance_of, line, runs_of, story

from steadyhelm import RunStopped, SettingsError
from steadyhelm.adapters.google_adk import GoogleADKAdapter, SteadyhelmPlugin
from steadyhelm.adapters.google_adk.invocations import RequestEdits
from steadyhelm.testing.doubles import Alarm


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def lookup(key: str) -> str:
    """Look up an entry."""
    return f"no entry for {key}"


def says(text):
    return Turn(says=text)


def calls(tool, call_id="c1", **args):
    return Turn(calls=(Ask(tool, args, call_id),))


def lookups(n):
    return [calls("lookup", f"c{at}", key="a") for at in range(n)]


def agent(name, *turns, requests=None, **options):
    """An agent that says these turns."""
    model = ScriptedLlm(iter(turns), [] if requests is None else requests)
    return LlmAgent(name=name, model=model, **{"tools": [add, lookup], **options})


class Talk:
    """A session with a runner: what is said, and the events that come back."""

    def __init__(self, runner, session="one"):
        self.runner, self.session = runner, session
        make = runner.session_service.create_session
        asyncio.run(make(app_name=runner.app_name, user_id=USER, session_id=session))

    def say(self, said=GOAL, **options):
        message = types.UserContent(said) if isinstance(said, str) else said
        asked = {"user_id": USER, "session_id": self.session, "new_message": message, **options}

        async def watched():
            return [event async for event in self.runner.run_async(**asked)]

        return asyncio.run(watched())


def app_of(root, *plugins):
    return App(name="ledger", root_agent=root, plugins=list(plugins))


def watched(monitor, root, *plugins, **options):
    """A session with this agent, watched."""
    return Talk(monitor.wrap(InMemoryRunner(app=app_of(root, *plugins)), **options))


def children_of(monitor):
    outer, *inner = runs_of(monitor)
    assert {outer.run_id} == {run.parent_run_id for run in inner}
    return {run.task_type: run for run in inner}


class TestWrapped:
    def test_the_runner_that_was_given_stays_as_it_was(self, monitors):
        """
        A watched runner is another of the same kind, with the same services; the first has no plugin of ours.
        """
        runner = InMemoryRunner(app=app_of(agent("a")))
        wrapped = monitors().wrap(runner)

        assert ([], InMemoryRunner) == (runner.plugin_manager.plugins, type(runner))
        assert isinstance(wrapped, InMemoryRunner)
        assert wrapped.session_service is runner.session_service

    def test_the_app_that_was_given_stays_as_it_was(self, monitors):
        """
        A watched app is a copy with our plugin before its own.
        """
        other = BasePlugin(name="other")
        app = app_of(agent("a"), other)
        wrapped = monitors().wrap(app)

        assert [other] == app.plugins
        assert ["steadyhelm", "other"] == [plugin.name for plugin in wrapped.plugins]

    def test_an_app_is_watched(self, monitors):
        """
        Every runner made of a watched app is watched.
        """
        monitor = monitors()
        Talk(InMemoryRunner(app=monitor.wrap(app_of(agent("a", calls("add", a=1, b=2)))))).say()

        assert [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model: done"] == story(monitor)

    @pytest.mark.parametrize("surfaces", ["app and runner", "runner twice"])
    def test_watched_twice_is_told_once(self, monitors, surfaces):
        """
        Where the same monitor is plugged in twice every step is still one event.
        """
        monitor = monitors()
        app = app_of(agent("a"))
        runner = InMemoryRunner(app=monitor.wrap(app) if "app" in surfaces else app)
        for _ in range(2):
            runner = monitor.wrap(runner)
        Talk(runner).say()

        assert [f"user: {GOAL}", "model: done"] == story(monitor)

    def test_two_monitors_watch_one_runner(self, monitors):
        """
        Two monitors are two plugins of different names, and each sees the whole run.
        """
        both = one, two = monitors(), monitors()
        inner = AgentTool(agent("inner", says("42")))
        root = agent("outer", calls("inner", request="think"), tools=[inner])
        Talk(two.wrap(one.wrap(InMemoryRunner(app=app_of(root))))).say()

        for monitor in both:
            told = ["model: ", "inner(request=think) -> 42", "model: done"]
            assert [f"user: {GOAL}", *told] == story(monitor)
            assert ["user: think", "model: 42"] == story(monitor, children_of(monitor)["inner"].run_id)

    def test_an_agent_does_not_run_by_itself(self, monitors):
        """
        An agent handed to wrap is refused, with words that say what to hand over.
        """
        with pytest.raises(SettingsError, match="Wrap its Runner or its App"):
            monitors().wrap(agent("a"))

    def test_other_objects_are_not_ours(self):
        """
        Nothing but a runner, an app or an agent is recognised, and no object makes that fail.
        """

        class Odd:
            @property
            def __class__(self):
                raise ZeroDivisionError

        assert not any(GoogleADKAdapter.can_wrap(it) for it in (None, 7, "", Runner, Odd()))

    def test_a_watched_runner_is_closed_like_any_other(self, monitors):
        """
        A watched runner can be entered and left, and closes the plugins of the runner it stands for.
        """

        class Closing(BasePlugin):
            closed = 0

            async def close(self):
                self.closed += 1

        plugin = Closing(name="closing")

        async def used():
            async with monitors().wrap(InMemoryRunner(app=app_of(agent("a"), plugin))):
                pass

        asyncio.run(used())
        assert 1 == plugin.closed

    def test_the_debug_helper_is_watched(self, monitors):
        """
        What the runner's own helper starts is seen too.
        """
        monitor = monitors()
        runner = monitor.wrap(InMemoryRunner(app=app_of(agent("a"))))
        asyncio.run(runner.run_debug("hello", quiet=True))

        assert ["user: hello", "model: done"] == story(monitor)


class TestStopped:
    def test_the_plugin_alone_stops_inside_the_frameworks_own_error(self, monitors):
        """
        Without a watched runner the stop is the cause of the error that the framework raises.
        """
        monitor = monitors("enforce")
        talk = Talk(InMemoryRunner(app=app_of(agent("a", *lookups(30)), SteadyhelmPlugin(monitor))))
        with pytest.raises(RuntimeError) as raised:
            talk.say()

        assert isinstance(raised.value.__cause__, RunStopped)
        assert "stopped" == runs_of(monitor)[0].outcome

    def test_a_stopped_run_stays_stopped(self, monitors):
        """
        Where somebody has the agent tried again after a stop, its next step is stopped too.
        """
        monitor = monitors("enforce")

        class Again(SequentialAgent):
            async def _run_async_impl(self, ctx):
                for inner in self.sub_agents:
                    try:
                        async for event in inner.run_async(ctx):
                            yield event
                    except RuntimeError:
                        pass

        second = []
        both = Again(name="both", sub_agents=[agent("a", *lookups(30)), agent("b", requests=second)])
        with pytest.raises(RunStopped):
            watched(monitor, both).say()

        assert [] == second

    def test_the_next_turn_of_the_session_is_a_run_of_its_own(self, monitors):
        """
        After a stop the user may go on: what they say next begins a new run.
        """
        monitor = monitors("enforce")
        talk = watched(monitor, agent("a", *lookups(30)))
        with pytest.raises(RunStopped):
            talk.say()
        talk.runner.agent.model._turns = iter([says("I see.")])
        talk.say("Leave it.")

        assert ["stopped", "done"] == [run.outcome for run in runs_of(monitor)]
        assert ["user: Leave it.", "model: I see."] == story(monitor, runs_of(monitor)[1].run_id)

    def test_a_stop_inside_a_branch_reaches_the_caller(self, monitors):
        """
        One of several agents at the same time is stopped: the caller receives that stop.
        """
        monitor = monitors("enforce")
        both = ParallelAgent(name="both", sub_agents=[agent("a", *lookups(30)), agent("b", says("fine"))])
        with pytest.raises(RunStopped) as raised:
            watched(monitor, both).say()

        assert raised.value.run_id in {run.run_id for run in runs_of(monitor)[1:]}

    def test_a_stop_inside_a_tool_reaches_the_caller(self, monitors):
        """
        An agent inside a tool is stopped: its caller's call failed with that, and so does the whole.
        """
        monitor = monitors("enforce")
        inner = AgentTool(agent("inner", *lookups(30)))
        talk = watched(monitor, agent("outer", calls("inner", request="find it"), tools=[inner]))
        with pytest.raises(RunStopped) as raised:
            talk.say()

        outer, child = runs_of(monitor)
        assert child.run_id == raised.value.run_id
        assert ["stopped", "stopped"] == [outer.outcome, child.outcome]
        assert [f"user: {GOAL}", "model: ", "inner(request=find it) failed"] == story(monitor)
        assert 0 == monitor.status()["live_runs"]


class TestAgents:
    def test_a_transfer_is_the_same_conversation(self, monitors):
        """
        An agent that takes over goes on in the same run.
        """
        monitor = monitors()
        second = agent("second", calls("add", "c2", a=1, b=2), says("three"), description="adds")
        first = agent("first", calls("transfer_to_agent", agent_name="second"), sub_agents=[second])
        watched(monitor, first).say()

        assert 1 == len(runs_of(monitor))
        told = ["transfer_to_agent(agent_name=second) -> ", "model: ", "add(a=1, b=2) -> 3", "model: three"]
        assert [f"user: {GOAL}", "model: ", *told] == story(monitor)

    @pytest.mark.parametrize("kind", [SequentialAgent, LoopAgent])
    def test_agents_one_after_the_other_share_a_run(self, monitors, kind):
        """
        Agents that see what the others said before them share a conversation, and so a run.
        """
        monitor = monitors()
        options = {"max_iterations": 1} if kind is LoopAgent else {}
        watched(
            monitor, kind(name="all", sub_agents=[agent("a", says("A")), agent("b", says("B"))], **options)
        ).say()

        assert [f"user: {GOAL}", "model: A", "model: B"] == story(monitor)

    def test_agents_at_the_same_time_are_runs_of_their_own(self, monitors):
        """
        Agents in branches do not see each other: each is a child run, with its own steps.
        """
        monitor = monitors()
        one, two = agent("one", calls("add", a=1, b=2)), agent("two", calls("lookup", key="x"))
        watched(monitor, ParallelAgent(name="both", sub_agents=[one, two])).say()

        told = children_of(monitor)
        assert [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model: done"] == story(
            monitor, told["one"].run_id
        )
        step = "lookup(key=x) -> no entry for x"
        assert [f"user: {GOAL}", "model: ", step, "model: done"] == story(monitor, told["two"].run_id)
        assert [f"user: {GOAL}"] == story(monitor)
        assert {"done"} == {run.outcome for run in runs_of(monitor)}

    @pytest.mark.parametrize("mode", ["single_turn", "task"])
    def test_an_agent_that_is_given_a_task_is_a_run_of_its_own(self, monitors, mode):
        """
        A sub-agent that works on a task by itself is a child run; for its caller it is one call.
        """
        monitor = monitors()
        end = calls("finish_task", "c3", result="3") if mode == "task" else says("3")
        inner = agent("inner", calls("add", "c2", a=1, b=2), end, mode=mode, description="adds")
        watched(monitor, agent("outer", calls("inner", request="add one and two"), sub_agents=[inner])).say()

        child = children_of(monitor)["inner"]
        assert "inner(request=add one and two)" in story(monitor)[2]
        assert "model: done" == story(monitor)[-1]
        assert 4 == len(story(monitor))
        assert "add(a=1, b=2) -> 3" in story(monitor, child.run_id)
        assert "add one and two" in child.goal

    def test_an_agent_inside_an_agent_inside_an_agent(self, monitors):
        """
        Each agent that works as a tool is a child of the one that called it.
        """
        monitor = monitors()
        deepest = AgentTool(agent("deepest", says("the bottom")))
        middle = AgentTool(agent("middle", calls("deepest", "c2", request="go on"), tools=[deepest]))
        watched(monitor, agent("top", calls("middle", request="go down"), tools=[middle])).say()

        top, second, third = runs_of(monitor)
        assert [None, top.run_id, second.run_id] == [it.parent_run_id for it in (top, second, third)]
        assert ["user: go on", "model: the bottom"] == story(monitor, third.run_id)

    def test_an_agent_that_hides_its_plugins_is_seen_as_one_call(self, monitors):
        """
        A tool that runs its agent without the app's plugins is seen from outside.
        """
        monitor = monitors()
        inner = AgentTool(agent("inner", says("hidden")), include_plugins=False)
        watched(monitor, agent("outer", calls("inner", request="do it"), tools=[inner])).say()

        assert [f"user: {GOAL}", "model: ", "inner(request=do it) -> hidden", "model: done"] == story(monitor)
        assert 1 == len(runs_of(monitor))

    def test_tools_in_threads(self, monitors):
        """
        An agent that a tool runs in another thread is still a child of its caller.
        """
        monitor = monitors()
        inner = monitor.wrap(InMemoryRunner(app=App(name="inner_app", root_agent=agent("inner", says("42")))))
        talk = Talk(inner)

        def think(about: str) -> str:
            """Think."""
            message = types.UserContent(about)
            said = list(inner.run(user_id=USER, session_id=talk.session, new_message=message))
            return said[-1].content.parts[0].text

        outer = watched(monitor, agent("outer", calls("think", about="six by nine"), tools=[think]))
        outer.say(run_config=RunConfig(tool_thread_pool_config=ToolThreadPoolConfig()))

        assert ["user: six by nine", "model: 42"] == story(monitor, children_of(monitor)["inner"].run_id)

    def test_an_agent_of_another_kind_inside_a_tool(self, monitors):
        """
        Whatever agent a tool lets work is a child of the run that called the tool, and nobody else's.
        """
        monitor = monitors()

        class Other:
            def run(self, task):
                return f"did {task}"

        def think(about: str) -> str:
            """Think."""
            return monitor.wrap(Other()).run(about)

        talk = watched(monitor, agent("outer", calls("think", about="it"), tools=[think]))
        talk.say()
        monitor.wrap(Other()).run("something else")

        outer, inner, after = runs_of(monitor)
        assert [None, outer.run_id, None] == [it.parent_run_id for it in (outer, inner, after)]
        assert "think(about=it) -> did it" in story(monitor)

    def test_a_workflow_is_watched(self, monitors):
        """
        Agents that are nodes of a workflow are seen, and the run ends with it.
        """
        monitor = monitors()
        first = agent("first", calls("add", a=1, b=2), says("three"))
        flow = Workflow(name="flow", edges=[("START", first)])
        watched(monitor, flow).say()

        told = [step for run in runs_of(monitor) for step in story(monitor, run.run_id)]
        assert "add(a=1, b=2) -> 3" in told
        assert 0 == monitor.status()["live_runs"]


def confirmed(*answers):
    """What the user answers, in the framework's own words; None is a plain no."""

    def said(events):
        asked = [call for event in events for call in event.get_function_calls() if call.name == CONFIRMATION]
        assert len(answers) == len(asked)
        parts = [
            types.Part(
                function_response=types.FunctionResponse(id=call.id, name=CONFIRMATION, response=answer)
            )
            for call, answer in zip(asked, answers, strict=True)
        ]
        return types.Content(role="user", parts=parts)

    return said


YES, NO = {"confirmed": True}, {"confirmed": False}
INSTEAD = {"confirmed": False, "payload": "look in the archive"}
A_PAIR = Turn(calls=(Ask("lookup", {"key": "a"}, "d1"), Ask("lookup", {"key": "a"}, "d2")))


def tail(monitor, count, *, told=False):
    """The last steps of the first run; with `told`, also what was done about it."""
    monitor.flush()
    events = events_of(monitor, runs_of(monitor)[0].run_id, told=told)
    steps = [it.action_name if it.action_type == "state_transition" else line(it) for it in events]
    return [step for step in steps if step != "checkpoint_taken"][-count:]


class TestConfirmed:
    def test_a_call_that_is_allowed_is_made(self, monitors):
        """
        The user allows a call that they were asked about: it is made, once, and the run goes on.
        """
        monitor = monitors("enforce")
        talk = watched(monitor, agent("a", *lookups(10)), ask="confirmation")
        asked = talk.say()
        assert 1 == monitor.status()["live_runs"]
        talk.say(confirmed(YES)(asked))

        assert ["user: Go on.", "lookup(key=a) -> no entry for a", "model: done"] == tail(monitor, 3)
        assert ["done"] == [run.outcome for run in runs_of(monitor)]

    def test_a_no_ends_the_run(self, monitors):
        """
        The user says no: the call is not made, and the caller of the runner receives the stop.
        """
        monitor = monitors("enforce")
        talk = watched(monitor, agent("a", *lookups(10)), ask="confirmation")
        asked = talk.say()
        with pytest.raises(RunStopped):
            talk.say(confirmed(NO)(asked))

        assert ["call_refused", "user: No."] == tail(monitor, 2, told=True)
        assert ["stopped"] == [run.outcome for run in runs_of(monitor)]

    def test_a_call_that_is_not_allowed_is_not_made(self, monitors):
        """
        The user says what to do instead: the model hears it in place of a result.
        """
        monitor, requests = monitors("enforce"), []
        talk = watched(monitor, agent("a", *lookups(10), requests=requests), ask="confirmation")
        talk.say(confirmed(INSTEAD)(talk.say()))

        told = ["call_refused", "user: look in the archive", "model: done"]
        assert told == tail(monitor, 3, told=True)
        assert "The user says: look in the archive" in requests[-1]

    def test_each_call_of_a_batch_is_asked_about(self, monitors):
        """
        Two calls wait at once; one is allowed and made, the other is not.
        """
        monitor = monitors("enforce")
        talk = watched(monitor, agent("a", *lookups(9), A_PAIR), ask="confirmation")
        talk.say(confirmed(YES, INSTEAD)(talk.say()))

        told = ["user: Go on.", "call_refused", "user: look in the archive"]
        told += ["lookup(key=a) -> no entry for a", "model: done"]
        assert told == tail(monitor, 5, told=True)

    def test_a_user_who_goes_on_with_something_else(self, monitors):
        """
        A question that is never answered ends with its run when the user says something else.
        """
        monitor = monitors("enforce")
        talk = watched(monitor, agent("a", *lookups(10)), ask="confirmation")
        talk.say()
        talk.say("Never mind.")

        assert ["left early", "done"] == [run.outcome for run in runs_of(monitor)]
        assert 0 == monitor.status()["live_runs"]

    def test_a_runner_that_is_closed(self, monitors):
        """
        Nobody answers once the runner is closed: the run ends.
        """
        monitor = monitors("enforce")
        talk = watched(monitor, agent("a", *lookups(10)), ask="confirmation")
        talk.say()
        asyncio.run(talk.runner.close())

        assert 0 == monitor.status()["live_runs"]

    def test_an_agent_inside_a_tool_cannot_wait(self, monitors):
        """
        An agent whose session is thrown away is not asked about but stopped.
        """
        monitor = monitors("enforce")
        inner = AgentTool(agent("inner", *lookups(10)))
        talk = watched(
            monitor, agent("outer", calls("inner", request="find it"), tools=[inner]), ask="confirmation"
        )
        with pytest.raises(RunStopped) as raised:
            talk.say()

        assert "ask" == raised.value.decision.wanted

    def test_the_hosts_own_confirmation_is_left_alone(self, monitors):
        """
        A tool that asks by itself is called once, after the user's answer, which is a turn of theirs.
        """
        monitor = monitors()
        guarded = FunctionTool(add, require_confirmation=True)
        talk = watched(monitor, agent("a", calls("add", a=1, b=2), tools=[guarded]))
        talk.say(confirmed(YES)(talk.say()))

        told = ["model: ", "user: Go on.", "add(a=1, b=2) -> 3", "model: done"]
        assert [f"user: {GOAL}", *told] == story(monitor)

    @needs("google-adk", "2.13", "an agent with a single turn does not return to its caller")
    @pytest.mark.parametrize("mode", ["single_turn", "task"])
    def test_a_sub_agent_waits_for_the_user(self, monitors, mode):
        """
        An agent inside the session is taken up where it waited, and for its caller that is still one call.
        """
        monitor = monitors("enforce")
        end = calls("finish_task", "e", result="none") if mode == "task" else says("none")
        inner = agent("inner", *lookups(10), end, mode=mode, description="looks things up")
        root = agent("outer", calls("inner", "i", request="find it"), sub_agents=[inner])
        talk = watched(monitor, root, ask="confirmation")
        talk.say(confirmed(YES)(talk.say()))

        told = ["model: ", "inner(request=find it) -> none", "model: done"]
        assert [f"user: {GOAL}", *told] == story(monitor)
        assert "user: Go on." in story(monitor, children_of(monitor)["inner"].run_id)
        assert 0 == monitor.status()["live_runs"]

    def test_an_answer_that_reaches_another_process(self, monitors):
        """
        Who has not asked the question takes the answer as a turn of the user, in a run of its own.
        """
        monitor = monitors("enforce")
        talk = watched(monitor, agent("a", *lookups(10)), ask="confirmation")
        asked = talk.say()
        own = [it for it in talk.runner.plugin_manager.plugins if not isinstance(it, SteadyhelmPlugin)]
        talk.runner.plugin_manager.plugins = own
        talk.runner = monitor.wrap(talk.runner)
        talk.say(confirmed(YES)(asked))

        told = ["user: Go on.", "lookup(key=a) -> no entry for a", "model: done"]
        assert [f"user: {GOAL}", *told] == story(monitor, runs_of(monitor)[1].run_id)

    @pytest.mark.parametrize("answer", [{}, {"response": "{}"}, {"confirmed": True, "payload": [1]}])
    def test_odd_answers(self, monitors, answer):
        """
        Whatever form an answer has, it is read as the framework reads it.
        """
        monitor = monitors("enforce")
        talk = watched(monitor, agent("a", *lookups(10)), ask="confirmation")
        asked = talk.say()
        with nullcontext() if answer.get("confirmed") else pytest.raises(RunStopped):
            talk.say(confirmed(answer)(asked))

        said = "user: Go on." if answer.get("confirmed") else "user: No."
        assert said in story(monitor)
        assert {} == monitor.status()["losses"]

    @pytest.mark.parametrize("ask", ["interrupt", 7, ""])
    def test_no_way_to_ask(self, monitors, ask):
        """
        A way to ask that there is not is named at once.
        """
        with pytest.raises(SettingsError, match="ask must be a function"):
            SteadyhelmPlugin(monitors(), ask=ask)

    def test_the_user_is_asked_by_a_function(self, monitors):
        """
        A host that has its own way to ask gives a function; the framework's way is not needed.
        """
        monitor, questions = monitors("enforce"), []
        talk = watched(monitor, agent("a", *lookups(10)), ask=lambda it: questions.append(it) or "Try b.")
        talk.say()

        assert GOAL in questions[0]
        assert "user: Try b." in story(monitor)


class TestConversation:
    def test_words_stay_where_they_were_said(self, monitors):
        """
        What was said to the model once is there with every later request of the session, at the same place.
        """
        monitor, requests = monitors("guide"), []
        talk = watched(monitor, agent("a", *lookups(3), requests=requests))
        talk.say()
        talk.say("And now?")

        before = requests[3].partition(guidance_of(monitor)[0])[0]
        assert before
        assert requests[-1].startswith(before + guidance_of(monitor)[0])

    def test_what_was_taken_back_stays_away(self, monitors):
        """
        A stretch that the agent was taken back over is not shown again in later turns of the session.
        """
        monitor, requests = monitors("enforce", make_detectors=lambda: [Alarm(at=2)]), []
        talk = watched(monitor, agent("a", *lookups(2), says("Another way."), requests=requests))
        talk.say()
        talk.say("And now?")

        assert "no entry for" not in requests[-1]
        assert "Another way.\nAnd now?" in requests[-1]
        session = talk.runner.session_service.get_session
        kept = asyncio.run(session(app_name="ledger", user_id=USER, session_id="one"))
        assert 2 == sum(len(event.get_function_responses()) for event in kept.events)

    def test_where_messages_change_places_there_is_no_way_back(self, monitors):
        """
        With a static instruction the framework moves messages about: what wants a return ends with a stop.
        """
        monitor = monitors("enforce", make_detectors=lambda: [Alarm(at=2)])
        root = agent("a", *lookups(2), static_instruction="Be brief.", instruction="Now.")
        with pytest.raises(RunStopped) as raised:
            watched(monitor, root).say()

        assert "rollback" == raised.value.decision.wanted

    def test_where_the_provider_keeps_the_conversation_there_is_no_way_back(self):
        """
        A request that only continues what the provider keeps is no state to return to.
        """
        assert RequestEdits(str).read_state(None, LlmRequest(previous_interaction_id="i1")) is None

    def test_the_way_back_of_another_agent(self, monitors):
        """
        A checkpoint is in one agent's view of the conversation: another agent hears words, and that is told.
        """
        monitor, requests = monitors("enforce", make_detectors=lambda: [Alarm(at=2)]), []
        first = agent("a", calls("lookup", key="x"), says("A"))
        second = agent("b", calls("lookup", "c2", key="y"), requests=requests)
        watched(monitor, SequentialAgent(name="both", sub_agents=[first, second])).say()

        assert "not_carried_out" in tail(monitor, 3, told=True)
        assert guidance_of(monitor)[0] in requests[-1]
        assert "no entry for y" in requests[-1]

    def test_a_turn_without_words(self, monitors):
        """
        A picture is a user's turn too, named by its kind.
        """
        monitor = monitors()
        picture = types.Part.from_bytes(data=b"...", mime_type="image/png")
        watched(monitor, agent("a")).say(types.Content(role="user", parts=[picture]))

        assert ["user: [image/png]", "model: done"] == story(monitor)


class Answering(BasePlugin):
    """A plugin of the host's own that answers one callback."""

    def __init__(self, **answers):
        super().__init__(name="answering")
        for callback, answer in answers.items():
            setattr(self, callback, self._giving(answer))

    @staticmethod
    def _giving(answer):
        async def callback(**_):
            return answer

        return callback


def reply(text, **fields):
    return LlmResponse(content=types.Content(parts=[types.Part(text=text)]), **fields)


class TestBesideOthers:
    @pytest.mark.parametrize("who", ["plugin", "agent"])
    def test_an_answer_in_the_models_place_is_seen(self, monitors, who):
        """
        Where a cache answers for the model, by plugin or by callback, its answer is one reply.
        """
        monitor, cached = monitors(), reply("from the cache")
        if who == "plugin":
            talk = watched(monitor, agent("a"), Answering(before_model_callback=cached))
        else:
            talk = watched(monitor, agent("a", before_model_callback=lambda **_: cached))
        talk.say()

        assert [f"user: {GOAL}", "model: from the cache"] == story(monitor)

    def test_a_failure_that_somebody_mends(self, monitors):
        """
        A tool's failure is seen as one, and another plugin can still mend it.
        """

        def broken() -> str:
            """Fail."""
            raise ValueError("no ink")

        monitor = monitors()
        mending = Answering(on_tool_error_callback={"result": "mended"})
        watched(monitor, agent("a", calls("broken"), tools=[broken]), mending).say()

        assert [f"user: {GOAL}", "model: ", "broken() failed", "model: done"] == story(monitor)

    def test_a_model_error_that_somebody_mends(self, monitors):
        """
        A model's failure is one failed reply, and the answer that stands for it changes nothing about that.
        """
        monitor = monitors()
        mending = Answering(on_model_error_callback=reply("mended"))
        events = watched(monitor, agent("a", Turn(breaks=True)), mending).say()

        assert "mended" == events[-1].content.parts[0].text
        assert [f"user: {GOAL}", "model failed"] == story(monitor)

    def test_a_call_that_somebody_else_refuses(self, monitors):
        """
        Where a plugin before ours answers a call, the call is seen with that answer.
        """
        monitor = monitors()
        refusing = Answering(before_tool_callback={"error": "not today"})
        plugins = [refusing, SteadyhelmPlugin(monitor)]
        Talk(InMemoryRunner(app=app_of(agent("a", calls("add", a=1, b=2)), *plugins))).say()

        assert [f"user: {GOAL}", "model: ", "add(a=1, b=2) failed", "model: done"] == story(monitor)

    def test_a_turn_that_somebody_else_ends(self, monitors):
        """
        A run that another plugin answers before it begins is over at once.
        """
        monitor = monitors()
        ending = Answering(before_run_callback=types.Content(parts=[types.Part(text="Closed today.")]))
        watched(monitor, agent("a"), ending).say()

        assert ["done"] == [run.outcome for run in runs_of(monitor)]


class Replying(BaseLlm):
    """A model that gives these responses, one for each request."""

    model: str = "replying"
    given: list

    async def generate_content_async(self, llm_request, stream=False):
        yield self.given.pop(0)


class TestReplies:
    def test_a_missing_argument_is_a_failure(self, monitors):
        """
        The framework answers a call without all its arguments by itself: that is a failed call.
        """
        monitor = monitors()
        watched(monitor, agent("a", calls("add", a=1))).say()

        assert "add(a=1) failed" in story(monitor)

    def test_a_reply_that_is_refused(self, monitors):
        """
        A model that gives an error instead of an answer has failed, though nobody raises.
        """
        monitor = monitors()
        model = Replying(given=[LlmResponse(error_code="SAFETY", error_message="blocked")])
        watched(monitor, LlmAgent(name="a", model=model)).say()

        assert [f"user: {GOAL}", "model failed"] == story(monitor)

    def test_a_reply_that_never_becomes_whole(self, monitors):
        """
        A model that gives nothing but parts was asked all the same: its answer is unknown.
        """
        monitor = monitors()
        model = Replying(given=[reply("Thr", partial=True)])
        watched(monitor, LlmAgent(name="a", model=model)).say()

        assert [f"user: {GOAL}", "model failed"] == story(monitor)

    def test_an_agent_without_a_model_of_ours_is_heard(self, monitors):
        """
        What a remote agent says, or one that the host wrote, is a reply too.
        """

        class Remote(BaseAgent):
            async def _run_async_impl(self, ctx):
                for word in ("One.", "Two."):
                    part = types.Part(text=word)
                    yield Event(author=self.name, branch=ctx.branch, content=types.Content(parts=[part]))

        monitor = monitors()
        both = [Remote(name="far"), agent("near", says("Three."))]
        watched(monitor, SequentialAgent(name="all", sub_agents=both)).say()

        assert [f"user: {GOAL}", "model: One.", "model: Two.", "model: Three."] == story(monitor)

    def test_thoughts_cost_but_are_not_said(self, monitors):
        """
        What a model thinks is no part of its reply; what it costs is.
        """
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=5, thoughts_token_count=100
        )
        parts = [types.Part(text="Hm.", thought=True), types.Part(text="Three.")]
        given = LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)
        monitor = monitors()
        watched(monitor, LlmAgent(name="a", model=Replying(given=[given]))).say()

        assert [f"user: {GOAL}", "model: Three."] == story(monitor)
        assert 115 == events_of(monitor, runs_of(monitor)[0].run_id)[-1].token_count

    def test_what_the_provider_runs_is_seen(self, monitors):
        """
        Code that the model's provider runs, and what it searches for, are calls that nobody was asked about.
        """
        ran = types.CodeExecutionResult(outcome="OUTCOME_FAILED", output="NameError")
        parts = [
            types.Part(executable_code=types.ExecutableCode(code="print(x)", language="PYTHON")),
            types.Part(code_execution_result=ran),
            types.Part(text="It fails."),
        ]
        found = types.GroundingMetadata(web_search_queries=["why"])
        content = types.Content(role="model", parts=parts)
        model = Replying(given=[LlmResponse(content=content, grounding_metadata=found)])
        monitor = monitors()
        watched(monitor, LlmAgent(name="a", model=model)).say()

        told = ["code_execution(code=print(x)) failed", "google_search(queries=['why']) -> "]
        assert [f"user: {GOAL}", "model: It fails.", *told] == story(monitor)


class TestLeft:
    def test_a_caller_who_leaves_early(self, monitors):
        """
        A caller who stops listening ends the run.
        """
        monitor = monitors()
        talk = watched(monitor, agent("a", *lookups(3)))
        asked = {"user_id": USER, "session_id": "one", "new_message": types.UserContent(GOAL)}

        async def first():
            events = talk.runner.run_async(**asked)
            await anext(events)
            await events.aclose()

        asyncio.run(first())
        assert ["done"] == [run.outcome for run in runs_of(monitor)]

    @needs("google-adk", "2.13", "a cancelled run ends like a finished one")
    @pytest.mark.parametrize("surface", ["runner", "plugin"])
    def test_a_task_that_is_cancelled(self, monitors, surface):
        """
        A cancelled task tells its plugins nothing, and its run still ends.
        """
        monitor, waiting = monitors(), asyncio.Event()

        async def wait() -> str:
            """Wait."""
            waiting.set()
            await asyncio.sleep(60)

        root = agent("a", calls("wait"), tools=[wait])
        app = app_of(root, *([SteadyhelmPlugin(monitor)] if surface == "plugin" else []))
        runner = InMemoryRunner(app=app)
        talk = Talk(runner if surface == "plugin" else monitor.wrap(runner))
        asked = {"user_id": USER, "session_id": "one", "new_message": types.UserContent(GOAL)}

        async def cancelled():
            async def all_of_it():
                return [event async for event in talk.runner.run_async(**asked)]

            task = asyncio.create_task(all_of_it())
            await waiting.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.sleep(0)

        asyncio.run(cancelled())
        assert ["left early"] == [run.outcome for run in runs_of(monitor)]
        assert [f"user: {GOAL}", "model: ", "wait() failed"] == story(monitor)

    @pytest.mark.parametrize("moment", ["model", "tool"])
    def test_a_caller_who_runs_out_of_time(self, monitors, moment):
        """
        A run that takes too long is over when its caller gives up, though the caller's task goes on.
        """
        monitor = monitors()

        async def wait() -> str:
            """Wait."""
            await asyncio.sleep(60)

        class Slow(ScriptedLlm):
            async def generate_content_async(self, llm_request, stream=False):
                await asyncio.sleep(60)
                yield LlmResponse()

        model = (Slow if moment == "model" else ScriptedLlm)(iter([calls("wait")] * 3), [])
        talk = watched(monitor, LlmAgent(name="a", model=model, tools=[wait]))
        asked = {"user_id": USER, "session_id": "one", "new_message": types.UserContent(GOAL)}

        async def times(n):
            for _ in range(n):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        [event async for event in talk.runner.run_async(**asked)]
            return monitor.status()["live_runs"]

        assert 0 == asyncio.run(times(3))
        assert ["left early"] * 3 == [run.outcome for run in runs_of(monitor)]

    @pytest.mark.parametrize("surface", ["runner", "plugin"])
    def test_an_interrupt_inside_a_tool(self, monitors, surface):
        """
        An interrupt passes by every plugin, reaches the caller, and the run has ended.
        """
        monitor = monitors()

        async def interrupted() -> str:
            """Is interrupted."""
            raise KeyboardInterrupt

        root = agent("a", calls("interrupted"), tools=[interrupted])
        app = app_of(root, *([SteadyhelmPlugin(monitor)] if surface == "plugin" else []))
        runner = InMemoryRunner(app=app)
        talk = Talk(runner if surface == "plugin" else monitor.wrap(runner))
        with pytest.raises(KeyboardInterrupt):
            talk.say()

        assert 0 == monitor.status()["live_runs"]

    def test_a_plugin_alone_learns_of_a_timeout_with_the_next_message(self, monitors):
        """
        Where the runner is not ours, what ran out of time is over when its session is spoken to again.
        """
        monitor = monitors()

        async def wait() -> str:
            """Wait."""
            await asyncio.sleep(60)

        root = agent("a", calls("wait"), says("hello"), tools=[wait])
        talk = Talk(InMemoryRunner(app=app_of(root, SteadyhelmPlugin(monitor))))
        asked = {"user_id": USER, "session_id": "one", "new_message": types.UserContent(GOAL)}

        async def twice():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    [event async for event in talk.runner.run_async(**asked)]
            [event async for event in talk.runner.run_async(**asked)]
            return monitor.status()["live_runs"]

        assert 0 == asyncio.run(twice())
        assert ["left early", "done"] == [run.outcome for run in runs_of(monitor)]

    def test_a_question_that_was_read_and_left_still_waits(self, monitors):
        """
        A caller who reads no further than the question may answer it: the run goes on.
        """
        monitor = monitors("enforce")
        talk = watched(monitor, agent("a", *lookups(10)), ask="confirmation")
        asked = {"user_id": USER, "session_id": "one", "new_message": types.UserContent(GOAL)}

        async def until_asked():
            events = talk.runner.run_async(**asked)
            async for event in events:
                if any(it.name == CONFIRMATION for it in event.get_function_calls()):
                    break
            await events.aclose()

        asyncio.run(until_asked())
        assert 1 == monitor.status()["live_runs"]

    def test_a_live_conversation_is_left_alone_and_counted(self, monitors):
        """
        What goes on in `run_live` is not watched, works as before, and the monitor says that it was blind.
        """

        class Speaking(BaseAgent):
            async def _run_live_impl(self, ctx):
                yield Event(author=self.name, content=types.Content(parts=[types.Part(text="hello")]))

        monitor = monitors("enforce")
        talk = watched(monitor, Speaking(name="a"))

        async def spoken():
            asked = {"user_id": USER, "session_id": "one", "live_request_queue": LiveRequestQueue()}
            return [event async for event in talk.runner.run_live(**asked)]

        assert ["hello"] == [event.content.parts[0].text for event in asyncio.run(spoken())]
        assert [] == runs_of(monitor)
        assert 1 == monitor.status()["losses"]["live invocation of Google ADK, which is not watched"]
