"""What is special to LangChain and LangGraph."""

import asyncio
import copy
import logging
from typing import Annotated, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Send, interrupt
from langsmith import RunTree, tracing_context
from pydantic import BaseModel
from script import GOAL, Ask, Played, Scene, ToolBroke, Turn
from stages.langchain import ScriptedModel, TheStage, called, the_tools
from watched import events_of, guidance_of, line, not_run_of, runs_of, story

import steadyhelm
from steadyhelm import RunStopped
from steadyhelm.adapters.langchain import LangChainAdapter, SteadyhelmCallbacks, SteadyhelmMiddleware
from steadyhelm.adapters.langchain.hooks import get_handler
from steadyhelm.boundary.driver import is_asking
from steadyhelm.errors import SettingsError
from steadyhelm.testing.doubles import Alarm

ASKED = {"messages": [{"role": "user", "content": GOAL}]}
THREAD = {"configurable": {"thread_id": "the ledger"}}
ONE_CALL = [Turn(calls=(Ask("add", {"a": 1, "b": 2}, "c1"),))]
ONE_CALL_TOLD = [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model: done"]


def lookups(n):
    """The same look-up, turn after turn."""
    return [Turn(calls=(Ask("lookup", {"key": "a"}, f"c{n}"),)) for n in range(1, n + 1)]


def model_of(turns, played=None):
    """A model that follows a script."""
    return ScriptedModel(turns=list(turns), played=played or Played())


def agent_of(turns, *middleware, played=None, tools=None, **options):
    """An agent with a scripted model and the tools of every scene."""
    played = played or Played()
    tools = the_tools(Scene(), played) if tools is None else tools
    return create_agent(model_of(turns, played), tools, middleware=middleware, **options)


def graph_of(turns, *, played=None, checkpointer=None, inner=(), **options):
    """A graph built by hand: a model, a plain tool node, and the way between them."""
    played = played or Played()
    model, tools = model_of(turns, played), the_tools(Scene(inner=inner), played)
    graph = StateGraph(MessagesState)
    graph.add_node("think", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools, **options))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile(checkpointer=checkpointer)


@pytest.fixture
def installed():
    """Installs a monitor, and undoes it in the end."""

    def everywhere(monitor):
        return steadyhelm.install(monitor=monitor)

    yield everywhere
    steadyhelm.uninstall()


class TestStructuredAnswers:
    """An agent that must answer in a format calls a tool that does not exist with its answer."""

    @pytest.mark.parametrize("middleware", [False, True])
    def test_a_structured_answer_is_a_reply(self, monitors, middleware):
        """
        An answer in its format is no call; one that does not fit is a failed call, and the model tries again.
        """

        class Sum(BaseModel):
            total: int

        monitor = monitors()
        turns = [
            *ONE_CALL,
            Turn(calls=(Ask("Sum", {"total": "many"}, "s1"),)),
            Turn(calls=(Ask("Sum", {"total": 3}, "s2"),)),
        ]
        ours = [SteadyhelmMiddleware(monitor)] if middleware else []
        agent = monitor.wrap(agent_of(turns, *ours, response_format=ToolStrategy(Sum)))

        assert 3 == agent.invoke(ASKED)["structured_response"].total
        assert [*ONE_CALL_TOLD[:3], "model: ", "Sum(total=many) failed", "model: "] == story(monitor)
        assert ["Sum: invalid arguments"] == not_run_of(monitor)


class TestGraphsBuiltByHand:
    def test_wrapped_they_are_seen_at_every_step(self, monitors):
        """
        A graph with a plain tool node and no middleware is seen like any agent.
        """
        monitor = monitors()
        state = monitor.wrap(graph_of(ONE_CALL)).invoke(ASKED)

        assert "done" == state["messages"][-1].text
        assert ONE_CALL_TOLD == story(monitor)
        assert "done" == runs_of(monitor)[0].outcome

    def test_an_unknown_tool_is_seen_by_its_result(self, monitors):
        """
        A tool node answers for a tool that is not there without calling any; the call is told all the same.
        """
        monitor = monitors()
        monitor.wrap(graph_of([Turn(calls=(Ask("nowhere", {"to": "go"}, "c1"),))])).invoke(ASKED)

        assert [f"user: {GOAL}", "model: ", "nowhere(to=go) failed", "model: done"] == story(monitor)
        assert ["nowhere: no such tool"] == not_run_of(monitor)

    def test_a_node_that_does_its_tools_work_itself_is_seen(self, monitors):
        """
        Where no tool of LangChain is called, calls are told by the messages that answer them.
        """
        model = model_of(ONE_CALL)

        def think(state):
            return {"messages": [model.invoke(state["messages"])]}

        def work(state):
            (call,) = state["messages"][-1].tool_calls
            return {"messages": [ToolMessage(str(sum(call["args"].values())), tool_call_id=call["id"])]}

        graph = StateGraph(MessagesState).add_node("think", think).add_node("work", work)
        graph.add_edge(START, "think").add_edge("work", "think")
        graph.add_conditional_edges("think", lambda it: "work" if it["messages"][-1].tool_calls else END)
        monitor = monitors()
        monitor.wrap(graph.compile()).invoke(ASKED)

        assert ONE_CALL_TOLD == story(monitor)
        assert [] == not_run_of(monitor)

    @pytest.mark.parametrize("handles", [False, True], ids=["errors pass", "errors are handled"])
    @pytest.mark.parametrize("how", TheStage.ways)
    def test_they_can_be_stopped(self, monitors, handles, how):
        """
        A stop ends the run also where the tool node makes messages of all exceptions.
        """
        monitor, played = monitors("enforce"), Played()
        agent = monitor.wrap(graph_of(lookups(30), played=played, handle_tool_errors=handles))

        with pytest.raises(RunStopped) as stopped:
            called(agent, ASKED, {}, how, played)

        assert RunStopped is stopped.type
        assert "stopped" == runs_of(monitor)[0].outcome
        assert len(played.made) <= 6

    def test_words_that_cannot_be_said_are_not_said_silently(self, monitors):
        """
        Callbacks cannot speak to the model: guidance is kept as what was wanted and could not be done.
        """
        monitor, played = monitors("guide"), Played()
        monitor.wrap(graph_of(lookups(4), played=played)).invoke(ASKED)

        assert all("lookup" not in request for request in played.requests)
        monitor.flush()
        answers = [answer for it in monitor.store.list_incidents("agent") for answer in it.interventions]
        assert ["guide"] == [answer.wanted for answer in answers]

    def test_wrapping_a_graph_that_cannot_be_guided_says_so_at_once(self, monitors, caplog):
        """
        In guide mode a graph without our middleware is named when it is wrapped, and one with it is not.
        """
        monitor = monitors("guide")
        with caplog.at_level(logging.WARNING, logger="steadyhelm"):
            monitor.wrap(agent_of(ONE_CALL, SteadyhelmMiddleware(monitor)))
            assert [] == caplog.records
            monitor.wrap(agent_of(ONE_CALL))
            monitor.wrap(graph_of(ONE_CALL))

        assert 2 == sum("but not guide it" in it.getMessage() for it in caplog.records)

    def test_that_there_is_no_middleware_to_say_words_is_logged_once(self, monitors, caplog):
        """
        Whoever wraps a graph in mode guide and gives it no middleware learns what is missing.
        """
        monitor = monitors("guide")
        watched = monitor.wrap(graph_of([*lookups(4), Turn(says="done"), *lookups(4)]))
        with caplog.at_level(logging.WARNING, logger="steadyhelm"):
            watched.invoke(ASKED)
            watched.invoke(ASKED)

        said = [it.getMessage() for it in caplog.records if "had guidance for the model" in it.getMessage()]
        assert 1 == len(said)
        assert "SteadyhelmMiddleware(monitor)" in said[0]

    @pytest.mark.parametrize("mode", ["observe", "guide"])
    def test_where_words_are_said_or_not_wanted_nothing_is_logged(self, monitors, caplog, mode):
        """
        An agent with middleware, and a monitor that only watches, give no cause for it.
        """
        monitor = monitors(mode)
        ours = [SteadyhelmMiddleware(monitor)] if mode == "guide" else []
        with caplog.at_level(logging.WARNING, logger="steadyhelm"):
            monitor.wrap(agent_of(lookups(4), *ours)).invoke(ASKED)

        assert "SteadyhelmMiddleware(monitor)" not in caplog.text

    @pytest.mark.parametrize("how", TheStage.ways)
    def test_a_stop_is_not_logged_as_an_error(self, monitors, caplog, how):
        """
        LangChain logs nothing about the exception by which our callbacks stop, and its own errors as ever.
        """
        agent = monitors("enforce").wrap(graph_of(lookups(30)))
        with pytest.raises(RunStopped):
            called(agent, ASKED, {}, how, Played())

        assert "Error in" not in caplog.text

        class Broken(BaseCallbackHandler):
            def on_chat_model_start(self, *_, **__):
                raise ValueError("the host's own")

        monitors("enforce").wrap(graph_of(ONE_CALL)).invoke(ASKED, {"callbacks": [Broken()]})
        assert "Error in Broken.on_chat_model_start callback" in caplog.text

    def test_a_stop_is_one_exception(self, monitors):
        """
        The traceback of a stop has one exception in it, and not those by which the graph was left.
        """
        with pytest.raises(RunStopped) as stopped:
            monitors("enforce").wrap(graph_of(lookups(30))).invoke(ASKED)

        assert stopped.value.__cause__ is None
        assert stopped.value.__suppress_context__

    def test_a_tool_node_can_be_given_our_hooks(self, monitors):
        """
        With the hooks of our middleware a plain tool node refuses calls, and its results say why.
        """
        monitor, played = monitors("enforce"), Played()
        ours = SteadyhelmMiddleware(monitor)
        hooks = {"wrap_tool_call": ours.wrap_tool_call, "awrap_tool_call": ours.awrap_tool_call}
        state = monitor.wrap(graph_of(lookups(5), played=played, **hooks)).invoke(ASKED)

        assert (4, "done") == (len(played.made), state["messages"][-1].text)
        assert ["error"] == [it.status for it in state["messages"] if it.type == "tool"][4:]

    def test_they_can_be_taken_back(self, monitors):
        """
        A graph with a checkpointer goes back without middleware too: the words are put into its state.
        """
        monitor, played = monitors("enforce", make_detectors=lambda: [Alarm(at=2)]), Played()
        graph = graph_of(lookups(2), played=played, checkpointer=InMemorySaver())
        state = monitor.wrap(graph).invoke(ASKED, THREAD)

        words = guidance_of(monitor)[0]
        assert [GOAL, words, "done"] == [message.text for message in state["messages"]]
        assert f"{GOAL}\n{words}" == played.requests[-1]


class TestInstalled:
    def test_no_code_of_the_host_is_changed(self, monitors, installed):
        """
        After `install` every graph is seen, and an agent inside one of its tools is a child run.
        """
        monitor = installed(monitors())
        inner = [Turn(calls=(Ask("lookup", {"key": "total"}, "i1"),))]
        graph_of([Turn(calls=(Ask("delegate", {"task": "find it"}, "c1"),))], inner=inner).invoke(ASKED)

        outer, nested = runs_of(monitor)
        called = "delegate(task=find it) -> done"
        assert [f"user: {GOAL}", "model: ", called, "model: done"] == story(monitor, outer.run_id)
        assert (outer.run_id, "find it") == (nested.parent_run_id, nested.goal)
        told = ["user: find it", "model: ", "lookup(key=total) -> no entry for total", "model: done"]
        assert told == story(monitor, nested.run_id)

    def test_undone_nothing_is_seen_any_more(self, monitors):
        """
        `uninstall` undoes it, however often it is called.
        """
        monitor = steadyhelm.install(monitor=monitors())
        graph_of(ONE_CALL).invoke(ASKED)
        steadyhelm.uninstall()
        steadyhelm.uninstall()
        graph_of(ONE_CALL).invoke(ASKED)

        assert 1 == len(runs_of(monitor))

    def test_installed_twice_everything_is_seen_once(self, monitors, installed):
        """
        Installed twice, wrapped, and with middleware, a step is still one event.
        """
        monitor = installed(installed(monitors()))
        agent_of(ONE_CALL, SteadyhelmMiddleware(monitor)).invoke(ASKED)
        monitor.wrap(agent_of(ONE_CALL, SteadyhelmMiddleware(monitor))).invoke(
            ASKED, {"callbacks": [SteadyhelmCallbacks(monitor)]}
        )

        assert [ONE_CALL_TOLD] * 2 == [story(monitor, run.run_id) for run in runs_of(monitor)]

    def test_a_model_or_a_tool_alone_is_a_run(self, monitors, installed):
        """
        A model or tool that is called by itself is seen too; `with monitor.run()` keeps such calls together.
        """
        monitor = installed(monitors())
        model, (add, *_) = model_of([]), the_tools(Scene(), Played())
        model.invoke("hello")
        add.invoke({"a": 1, "b": 2})
        with monitor.run(goal="by hand"):
            model.invoke("again")
            add.invoke({"a": 1, "b": 2})

        alone, called, together = (story(monitor, run.run_id) for run in runs_of(monitor))
        assert ["user: hello", "model: done"] == alone
        assert ["add(a=1, b=2) -> 3"] == called
        assert ["user: again", "model: done", "add(a=1, b=2) -> 3"] == together

    def test_a_chain_is_a_run(self, monitors, installed):
        """
        A chain of runnables is seen as one run; one that asks no model is none.
        """
        monitor = installed(monitors())
        chain = (lambda text: [HumanMessage(text)]) | model_of([]) | (lambda message: message.text)
        assert "done" == chain.invoke("hello")

        assert ["user: hello", "model: done"] == story(monitor)
        assert 1 == len(runs_of(monitor))

    def test_it_can_stop(self, monitors, installed):
        """
        An agent that does not listen is stopped, though nobody wrapped it.
        """
        installed(monitors("enforce"))

        with pytest.raises(RunStopped):
            graph_of(lookups(30)).invoke(ASKED)

    def test_two_monitors_see_for_themselves(self, monitors, installed):
        """
        Each monitor has runs of its own, with every step once.
        """
        one, other = installed(monitors()), monitors()
        other.wrap(graph_of(ONE_CALL)).invoke(ASKED)

        assert (ONE_CALL_TOLD, ONE_CALL_TOLD) == (story(one), story(other))

    def test_a_single_call_can_be_watched(self, monitors):
        """
        Callbacks given to one call watch that one, and no other.
        """
        monitor, graph = monitors(), graph_of([*ONE_CALL, Turn(says="done"), *ONE_CALL])
        graph.invoke(ASKED, {"callbacks": [SteadyhelmCallbacks(monitor)]})
        graph.invoke(ASKED)

        assert [ONE_CALL_TOLD] == [story(monitor, run.run_id) for run in runs_of(monitor)]


class TestMiddlewareAlone:
    def test_every_step_is_seen_and_the_run_ends(self, monitors):
        """
        Middleware needs nobody around it to see the agent's steps and its end.
        """
        monitor = monitors()
        agent_of(ONE_CALL, SteadyhelmMiddleware(monitor)).invoke(ASKED)

        assert (ONE_CALL_TOLD, "done") == (story(monitor), runs_of(monitor)[0].outcome)
        assert 0 == monitor.status()["live_runs"]

    def test_a_run_that_raises_has_ended(self, monitors):
        """
        LangChain tells its middleware nothing when an agent raises; the run ends all the same.
        """
        monitor = monitors()
        agent = agent_of([Turn(calls=(Ask("broken", {"what": "ink"}, "c1"),))], SteadyhelmMiddleware(monitor))

        with pytest.raises(ToolBroke, match="ink"):
            agent.invoke(ASKED)

        assert "error: ToolBroke" == runs_of(monitor)[0].outcome
        assert [f"user: {GOAL}", "model: ", "broken(what=ink) failed"] == story(monitor)

    def test_an_agent_that_runs_out_of_steps_has_ended(self, monitors):
        """
        The recursion limit is no step of the agent: it is an error of the run.
        """
        monitor = monitors()
        agent = agent_of(lookups(9), SteadyhelmMiddleware(monitor))

        with pytest.raises(RecursionError):
            agent.invoke(ASKED, {"recursion_limit": 4})

        assert "error: GraphRecursionError" == runs_of(monitor)[0].outcome
        assert "agent_error" in story(monitor)[-1]

    def test_inside_an_agent_nobody_watches_it_is_a_run_of_its_own(self, monitors):
        """
        An agent with middleware inside another's tool has its own task as goal, and no steps of the other's.
        """
        monitor = monitors()
        inner = agent_of(ONE_CALL, SteadyhelmMiddleware(monitor))

        @tool
        def delegate(task: str) -> str:
            """Lets another agent do it."""
            return inner.invoke({"messages": [("user", task)]})["messages"][-1].text

        agent_of([Turn(calls=(Ask("delegate", {"task": "add them"}, "c1"),))], tools=[delegate]).invoke(ASKED)

        (run,) = runs_of(monitor)
        assert ("add them", None) == (run.goal, run.parent_run_id)
        assert ["user: add them", *ONE_CALL_TOLD[1:]] == story(monitor)

    def test_agents_beside_it_are_not_watched(self, monitors):
        """
        Only the agent that has the middleware is watched, and the agents inside its tools.
        """
        monitor = monitors()
        middleware = SteadyhelmMiddleware(monitor)
        agent_of(ONE_CALL).invoke(ASKED)
        model_of([]).invoke("hello")
        agent_of([], middleware).invoke(ASKED)

        assert [[f"user: {GOAL}", "model: done"]] == [story(monitor, run.run_id) for run in runs_of(monitor)]

    def test_it_guides_refuses_and_stops(self, monitors):
        """
        Words, refusals and the stop need no wrapping.
        """
        monitor, played = monitors("enforce"), Played()
        agent = agent_of(lookups(30), SteadyhelmMiddleware(monitor), played=played)

        with pytest.raises(RunStopped):
            asyncio.run(agent.ainvoke(ASKED))

        assert guidance_of(monitor)[0] in played.requests[3]
        assert "stopped" == runs_of(monitor)[0].outcome

    def test_a_return_it_cannot_carry_out_is_reported(self, monitors):
        """
        Going back needs whoever made the outermost call; without that a confirmed loop ends the run.
        """
        monitor = monitors("enforce", make_detectors=lambda: [Alarm(at=2)])
        agent = agent_of(lookups(9), SteadyhelmMiddleware(monitor), checkpointer=InMemorySaver())

        with pytest.raises(RunStopped) as stopped:
            agent.invoke(ASKED, THREAD)

        assert "rollback" == stopped.value.decision.wanted

    def test_a_monitor_that_is_switched_off_does_nothing(self, monitors, monkeypatch):
        """
        With STEADYHELM_DISABLED the agent works as if it were alone.
        """
        monkeypatch.setenv("STEADYHELM_DISABLED", "1")
        monitor = monitors("enforce")
        state = monitor.wrap(agent_of(lookups(9), SteadyhelmMiddleware(monitor))).invoke(ASKED)

        assert "done" == state["messages"][-1].text
        assert 0 == monitor.status()["live_runs"]


class TestWords:
    def test_they_stay_in_the_conversation_the_model_is_shown(self, monitors):
        """
        What was said once stands in every later request at the same place, and not in the agent's own state.
        """
        monitor, played = monitors("guide"), Played()
        agent = agent_of(lookups(6), SteadyhelmMiddleware(monitor), played=played)
        state = agent.invoke(ASKED)

        words = guidance_of(monitor)[0]
        places = [request.index(words) for request in played.requests[3:]]
        assert (4, 1) == (len(places), len(set(places)))
        assert not any(words in message.text for message in state["messages"])

    def test_subgraphs_have_conversations_of_their_own(self, monitors):
        """
        Words about one sub-agent's conversation are not put into another's.
        """
        monitor, first, second = monitors("guide"), Played(), Played()
        one = agent_of(lookups(4), SteadyhelmMiddleware(monitor), played=first)
        other = agent_of([Turn(says="fine")], SteadyhelmMiddleware(monitor), played=second)
        graph = StateGraph(MessagesState)
        graph.add_node("one", lambda _: {"messages": one.invoke(ASKED)["messages"][-1:]})
        graph.add_node("other", other)
        graph.add_edge(START, "one").add_edge("one", "other")
        monitor.wrap(graph.compile()).invoke(ASKED)

        words = guidance_of(monitor)[0]
        assert words in first.requests[3]
        assert not any(words in request for request in second.requests)

    def test_agents_at_the_same_time_hear_their_own(self, monitors):
        """
        Of two copies of a sub-agent that work at the same time only the one that loops hears about it.
        """
        monitor, played = monitors("guide"), {"x": Played(), "y": Played()}
        scripts = {
            "x": lookups(4),
            "y": [Turn(calls=(Ask("add", {"a": n, "b": n}, f"d{n}"),)) for n in range(4)],
        }
        agents = {
            key: agent_of(scripts[key], SteadyhelmMiddleware(monitor), played=played[key]) for key in "xy"
        }

        async def work(state):
            return {"messages": (await agents[state["key"]].ainvoke(ASKED))["messages"][-1:]}

        graph = StateGraph(MessagesState).add_node("work", work)
        graph.add_conditional_edges(START, lambda _: [Send("work", {"key": key}) for key in "xy"])
        asyncio.run(monitor.wrap(graph.compile()).ainvoke(ASKED))

        words = guidance_of(monitor)[0]
        assert words in "".join(played["x"].requests)
        assert words not in "".join(played["y"].requests)

    def test_where_nobody_can_say_them_the_run_is_stopped(self, monitors):
        """
        Middleware in one part of a graph does not keep a loop in another part from being stopped.
        """
        monitor, played = monitors("enforce"), Played()
        graph = StateGraph(MessagesState)
        ours = SteadyhelmMiddleware(monitor)
        graph.add_node("guided", graph_of(ONE_CALL, wrap_tool_call=ours.wrap_tool_call))
        graph.add_node("alone", graph_of(lookups(60), played=played))
        graph.add_edge(START, "guided").add_edge("guided", "alone")

        with pytest.raises(RunStopped):
            monitor.wrap(graph.compile()).invoke(ASKED)

        assert len(played.requests) < 30


class TestEnded:
    @pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "wrapped"])
    @pytest.mark.parametrize("how", TheStage.ways)
    def test_a_stop_can_end_the_agent(self, monitors, wrapped, how):
        """
        With `on_stop="end"` the caller receives the state, whose last message says why; the run is stopped.
        """
        monitor, played = monitors("enforce"), Played()
        agent = agent_of(lookups(30), SteadyhelmMiddleware(monitor, on_stop="end"), played=played)
        called(monitor.wrap(agent) if wrapped else agent, ASKED, {}, how, played)

        assert "stopped" == runs_of(monitor)[0].outcome
        assert len(played.made) <= 6
        assert len(played.requests) < 30

    def test_the_last_message_says_why(self, monitors):
        """
        The conversation ends with a reply without calls, and every call in it has a result.
        """
        monitor = monitors("enforce")
        agent = monitor.wrap(agent_of(lookups(30), SteadyhelmMiddleware(monitor, on_stop="end")))
        messages = agent.invoke(ASKED)["messages"]

        assert messages[-1].text.startswith("Run stopped. Noticed: ")
        asked = [call["id"] for message in messages for call in getattr(message, "tool_calls", ())]
        assert asked == [message.tool_call_id for message in messages if message.type == "tool"]

    def test_a_user_who_says_no_ends_it_too(self, monitors):
        """
        A question that is answered with no ends the agent in the same way.
        """
        monitor = monitors("enforce", make_detectors=lambda: [Alarm(at=2)])
        ours = SteadyhelmMiddleware(monitor, ask=lambda _: False, on_stop="end")
        messages = monitor.wrap(agent_of(lookups(30), ours)).invoke(ASKED)["messages"]

        assert messages[-1].text.startswith("Run stopped.")
        assert "stopped" == runs_of(monitor)[0].outcome

    def test_the_next_call_is_a_run_of_its_own(self, monitors):
        """
        An agent that was ended can be called again.
        """
        monitor = monitors("enforce")
        agent = monitor.wrap(agent_of(lookups(60), SteadyhelmMiddleware(monitor, on_stop="end")))
        agent.invoke(ASKED)
        agent.invoke(ASKED)

        assert ["stopped", "stopped"] == [run.outcome for run in runs_of(monitor)]

    def test_another_word_is_refused(self, monitors):
        """
        What on_stop may be is said where it is something else.
        """
        with pytest.raises(SettingsError, match="'raise' or 'end'"):
            SteadyhelmMiddleware(monitors("enforce"), on_stop="finish")


class TestOtherMiddleware:
    @pytest.mark.parametrize("place", ["outside", "inside"])
    def test_retries_do_not_keep_a_stop_from_stopping(self, monitors, place):
        """
        Middleware that makes messages of exceptions lets a stop pass.
        """
        monitor, played = monitors("enforce"), Played()
        retries = [ModelRetryMiddleware(initial_delay=0.0), ToolRetryMiddleware(initial_delay=0.0)]
        ours = [SteadyhelmMiddleware(monitor)]
        chain = [*retries, *ours] if place == "outside" else [*ours, *retries]
        agent = agent_of(lookups(30), *chain, played=played)

        with pytest.raises(RunStopped):
            agent.invoke(ASKED)

        assert len(played.requests) <= 10

    def test_each_attempt_of_a_model_is_seen(self, monitors):
        """
        A model call that is tried again is two calls of the model.
        """
        monitor = monitors()
        retry = ModelRetryMiddleware(initial_delay=0.0, jitter=False)
        agent_of([Turn(breaks=True)], SteadyhelmMiddleware(monitor), retry).invoke(ASKED)

        assert [f"user: {GOAL}", "model failed", "model: done"] == story(monitor)

    @pytest.mark.parametrize("ours_first", [True, False])
    def test_every_attempt_of_a_call_is_seen(self, monitors, ours_first):
        """
        A tool that other middleware tries again is called twice, wherever our middleware stands.
        """
        monitor, tries = monitors(), []

        @tool
        def shaky() -> str:
            """Works the second time."""
            tries.append(1)
            if len(tries) == 1:
                raise ToolBroke("not yet")
            return "fine"

        retry = ToolRetryMiddleware(initial_delay=0.0, jitter=False)
        turns = [Turn(calls=(Ask("shaky", {}, "c1"),))]
        ours = SteadyhelmMiddleware(monitor)
        agent_of(turns, *([ours, retry] if ours_first else [retry, ours]), tools=[shaky]).invoke(ASKED)

        calls = [line(it) for it in events_of(monitor, runs_of(monitor)[0].run_id)][2:-1]
        assert ["shaky() failed", "shaky() -> fine"] == calls

    def test_a_call_that_is_made_to_another_tool_is_that_tools(self, monitors):
        """
        Where other middleware makes a call to another tool, the tool that is called is what is seen.
        """

        class Redirects(AgentMiddleware):
            def wrap_tool_call(self, request, handler):
                other = {**request.tool_call, "name": "lookup", "args": {"key": "b"}}
                tools = the_tools(Scene(), Played())
                return handler(request.override(tool_call=other, tool=tools[1]))

        monitor = monitors()
        agent_of(ONE_CALL, SteadyhelmMiddleware(monitor), Redirects()).invoke(ASKED)

        assert "lookup(key=b) -> no entry for b" == story(monitor)[2]

    def test_a_model_that_summarises_is_seen(self, monitors):
        """
        Models that other middleware asks are seen as the agent's own; words wait for the agent's.
        """
        monitor = monitors("guide")
        summary = SummarizationMiddleware(
            model_of([Turn(says="in short")]), trigger=("messages", 4), keep=("messages", 1)
        )
        agent_of(lookups(2), SteadyhelmMiddleware(monitor), summary).invoke(ASKED)

        assert "model: in short" in story(monitor)

    @pytest.mark.parametrize("middleware", [True, False])
    @pytest.mark.parametrize(("status", "why"), [("success", "answered"), ("error", "refused")])
    def test_a_call_answered_without_its_tool_is_seen(self, monitors, middleware, status, why):
        """
        Results out of a cache are results, though no tool was called; other middleware may also refuse.
        """

        class Cache(AgentMiddleware):
            def wrap_tool_call(self, request, handler):
                return ToolMessage("3, as ever", tool_call_id=request.tool_call["id"], status=status)

        monitor = monitors()
        ours = [SteadyhelmMiddleware(monitor)] if middleware else []
        monitor.wrap(agent_of(ONE_CALL, *ours, Cache())).invoke(ASKED)

        came = "-> 3, as ever" if status == "success" else "failed"
        assert f"add(a=1, b=2) {came}" in story(monitor)
        assert [f"add: {why}"] == not_run_of(monitor)

    def test_a_tool_that_other_middleware_does_not_find_is_not_run(self, monitors):
        """
        An agent with our middleware says of an unknown tool what one without it says.
        """
        monitor = monitors()
        turns = [Turn(calls=(Ask("nowhere", {"to": "go"}, "c1"),))]
        agent_of(turns, SteadyhelmMiddleware(monitor)).invoke(ASKED)

        assert ["nowhere: no such tool"] == not_run_of(monitor)

    def test_a_graph_inside_a_tool_may_do_its_tools_work_itself(self, monitors):
        """
        It is no agent of `create_agent`, although its callbacks carry the metadata of the one around it.
        """
        model = model_of(ONE_CALL)

        def think(state):
            return {"messages": [model.invoke(state["messages"])]}

        def work(state):
            (call,) = state["messages"][-1].tool_calls
            return {"messages": [ToolMessage("3", tool_call_id=call["id"])]}

        graph = StateGraph(MessagesState).add_node("think", think).add_node("work", work)
        graph.add_edge(START, "think").add_edge("work", "think")
        graph.add_conditional_edges("think", lambda it: "work" if it["messages"][-1].tool_calls else END)
        inner = graph.compile()

        @tool
        def delegate() -> str:
            """Lets another graph do it."""
            return inner.invoke(ASKED)["messages"][-1].text

        monitor = monitors()
        monitor.wrap(agent_of([Turn(calls=(Ask("delegate", {}, "d1"),))], tools=[delegate])).invoke(ASKED)

        assert [[], []] == [not_run_of(monitor, run.run_id) for run in runs_of(monitor)]

    def test_a_tool_that_gives_a_command_is_seen_by_its_message(self, monitors):
        """
        What a tool says in an update of the graph's state is its result.
        """

        @tool
        def note(text: str) -> Command:
            """Notes it."""
            return Command(update={"messages": [ToolMessage(f"noted {text}", tool_call_id="c1")]})

        monitor = monitors()
        turns = [Turn(calls=(Ask("note", {"text": "it"}, "c1"),))]
        agent_of(turns, SteadyhelmMiddleware(monitor), tools=[note]).invoke(ASKED)

        assert "note(text=it) -> noted it" in story(monitor)

    def test_tracing_does_not_hide_anything(self, monitors):
        """
        A tracer puts runs of its own between ours; every step is still seen, in the right run.
        """

        class Traced(AgentMiddleware):
            def wrap_model_call(self, request, handler):
                with tracing_context(parent=RunTree(name="span"), enabled=False):
                    return handler(request)

            def wrap_tool_call(self, request, handler):
                with tracing_context(parent=RunTree(name="span"), enabled=False):
                    return handler(request)

        monitor = monitors()
        monitor.wrap(agent_of(ONE_CALL, SteadyhelmMiddleware(monitor), Traced())).invoke(ASKED)
        agent_of(ONE_CALL, SteadyhelmMiddleware(monitor), Traced()).invoke(ASKED)

        assert [ONE_CALL_TOLD] * 2 == [story(monitor, run.run_id) for run in runs_of(monitor)]


class TestAsked:
    def enforced(self, monitors, at=2):
        """A monitor that is sure of a loop at one call, and has nothing to return to."""
        return monitors("enforce", make_detectors=lambda: [Alarm(at=at)])

    def asking(self, monitor, turns, **options):
        """An agent that can be asked about and cannot go back: nobody wrapped it."""
        return agent_of(
            turns, SteadyhelmMiddleware(monitor, ask="interrupt"), checkpointer=InMemorySaver(), **options
        )

    @pytest.mark.parametrize(
        ("answer", "told"), [(True, "user: Go on."), ("try the archive", "user: try the archive")]
    )
    def test_an_interrupt_asks_and_the_same_run_goes_on(self, monitors, answer, told):
        """
        The graph pauses with our question; the answer is a turn of the user in the same run.
        """
        monitor = self.enforced(monitors)
        agent = self.asking(monitor, lookups(3))
        paused = agent.invoke(ASKED, THREAD)
        (question,) = paused["__interrupt__"]
        assert "steadyhelm" == question.value["source"]
        assert 1 == monitor.status()["live_runs"]

        state = agent.invoke(Command(resume=answer), THREAD)
        assert "done" == state["messages"][-1].text
        (run,) = runs_of(monitor)
        assert told in story(monitor)
        assert ("done", 0) == (run.outcome, monitor.status()["live_runs"])

    def test_no_ends_the_run(self, monitors):
        """
        Who says no to going on ends the run.
        """
        monitor = self.enforced(monitors)
        agent = self.asking(monitor, lookups(3))
        agent.invoke(ASKED, THREAD)

        with pytest.raises(RunStopped):
            agent.invoke(Command(resume=False), THREAD)

        assert "stopped" == runs_of(monitor)[0].outcome

    def test_another_question_leaves_the_paused_run(self, monitors):
        """
        A user who asks something else instead of answering has left the run that waits for them.
        """
        monitor = self.enforced(monitors)
        agent = self.asking(monitor, lookups(2))
        agent.invoke(ASKED, THREAD)
        agent.invoke({"messages": [("user", "never mind")]}, THREAD)

        assert ["left early", "done"] == [run.outcome for run in runs_of(monitor)]

    def test_wrapped_a_paused_run_waits_too(self, monitors):
        """
        What was wrapped is asked about in the same way, in every way it is called.
        """
        monitor = self.enforced(monitors)
        monitor.keeper = None
        agent = monitor.wrap(self.asking(monitor, lookups(3)))

        async def conversation():
            paused = await agent.ainvoke(ASKED, THREAD)
            assert paused["__interrupt__"]
            return [part async for part in agent.astream(Command(resume="go on"), THREAD)]

        parts = asyncio.run(conversation())
        assert "done" == parts[-1]["model"]["messages"][-1].text
        assert ["done"] == [run.outcome for run in runs_of(monitor)]

    def test_without_a_checkpointer_nobody_can_be_asked(self, monitors):
        """
        An interrupt without a checkpointer would end the agent without a word: the run is stopped instead.
        """
        monitor = self.enforced(monitors)

        with pytest.raises(RunStopped):
            agent_of(lookups(9), SteadyhelmMiddleware(monitor, ask="interrupt")).invoke(ASKED, THREAD)

    def test_a_function_can_ask(self, monitors):
        """
        Where the host gives a function that asks, no checkpointer is needed.
        """
        monitor, asked, played = self.enforced(monitors), [], Played()

        def ask(question):
            asked.append(question)
            return "try the archive"

        agent_of(lookups(3), SteadyhelmMiddleware(monitor, ask=ask), played=played).invoke(ASKED)

        assert 1 == len(asked)
        assert "try the archive" in played.requests[2]
        assert "user: try the archive" in story(monitor)

    @pytest.mark.parametrize("fails", [True, False], ids=["raises", "gives nothing"])
    @pytest.mark.parametrize("wrapped", [True, False], ids=["wrapped", "alone"])
    def test_a_function_that_cannot_ask_stops_the_run(self, monitors, wrapped, fails):
        """
        Who cannot be asked cannot let it go on; what the function raises stays inside.
        """
        monitor = self.enforced(monitors)

        def ask(_):
            if fails:
                raise EOFError("nobody is there")

        agent = agent_of(lookups(9), SteadyhelmMiddleware(monitor, ask=ask))
        with pytest.raises(RunStopped, match="Noticed"):
            (monitor.wrap(agent) if wrapped else agent).invoke(ASKED)

        assert fails == ("the user could not be asked: EOFError" in monitor.health.totals())
        assert "stopped" == runs_of(monitor)[0].outcome

    @pytest.mark.parametrize("answer", [True, False, "try the archive"])
    def test_a_function_can_ask_for_a_graph_built_by_hand(self, monitors, answer):
        """
        Callbacks have no words: any answer but yes ends the run, and RunStopped says what the answer was.
        """
        monitor = self.enforced(monitors)
        graph = monitor.wrap(graph_of(lookups(3)), ask=lambda _: answer)

        if answer is True:
            assert "done" == graph.invoke(ASKED)["messages"][-1].text
            return
        with pytest.raises(RunStopped) as stopped:
            graph.invoke(ASKED)
        assert answer is False or answer in str(stopped.value)

    @pytest.mark.parametrize("wrapped", [True, False])
    def test_an_interrupt_of_the_hosts_own_is_no_failure(self, monitors, wrapped):
        """
        A tool that asks its user itself is one call, whose result is known when the graph went on.
        """

        @tool
        def approve(what: str) -> str:
            """Asks the user."""
            return f"the user says {interrupt(what)}"

        monitor = monitors()
        turns = [Turn(calls=(Ask("approve", {"what": "it"}, "c1"),))]
        agent = agent_of(turns, SteadyhelmMiddleware(monitor), tools=[approve], checkpointer=InMemorySaver())
        agent = monitor.wrap(agent) if wrapped else agent
        agent.invoke(ASKED, THREAD)
        agent.invoke(Command(resume="yes"), THREAD)

        called = "approve(what=it) -> the user says yes"
        assert [f"user: {GOAL}", "model: ", called, "model: done"] == story(monitor)
        assert ["done"] == [run.outcome for run in runs_of(monitor)]

    @pytest.mark.parametrize("given_to", ["the graph", "the call"])
    def test_breakpoints_pause_the_run(self, monitors, given_to):
        """
        A graph that stops before named nodes and goes on with no input is one run.
        """
        monitor, stops = monitors(), {"interrupt_before": ["tools"]}
        at_graph, at_call = (stops, {}) if given_to == "the graph" else ({}, stops)
        agent = monitor.wrap(agent_of(ONE_CALL, checkpointer=InMemorySaver(), **at_graph))
        agent.invoke(ASKED, THREAD, **at_call)
        assert 1 == monitor.status()["live_runs"]
        agent.invoke(None, THREAD, **at_call)

        assert [(ONE_CALL_TOLD, "done")] == [
            (story(monitor, it.run_id), it.outcome) for it in runs_of(monitor)
        ]

    def test_what_goes_on_in_another_process_still_has_its_goal(self, monitors):
        """
        A pause we know nothing of is gone on with in a new run, whose goal is in the conversation.
        """
        agent = agent_of(ONE_CALL, checkpointer=InMemorySaver(), interrupt_after=["tools"])
        agent.invoke(ASKED, THREAD)
        monitor = monitors()
        monitor.wrap(agent).invoke(None, THREAD)

        assert [GOAL] == [run.goal for run in runs_of(monitor)]

    def test_an_agent_inside_a_tool_pauses_with_the_outer_one(self, monitors, installed):
        """
        An interrupt inside a nested agent pauses both runs; both go on when the answer comes.
        """

        @tool
        def approve(what: str) -> str:
            """Asks the user."""
            return f"the user says {interrupt(what)}"

        inner = agent_of([Turn(calls=(Ask("approve", {"what": "it"}, "i1"),))], tools=[approve], name="inner")

        @tool
        def delegate(task: str) -> str:
            """Lets another agent do it."""
            return inner.invoke({"messages": [("user", task)]})["messages"][-1].text

        monitor = installed(monitors())
        turns = [Turn(calls=(Ask("delegate", {"task": "ask"}, "c1"),))]
        agent = agent_of(turns, tools=[delegate], checkpointer=InMemorySaver())
        agent.invoke(ASKED, THREAD)
        assert 2 == monitor.status()["live_runs"]
        agent.invoke(Command(resume="yes"), THREAD)

        assert ["done", "done"] == [run.outcome for run in runs_of(monitor)]
        assert "approve(what=it) -> the user says yes" in story(monitor, runs_of(monitor)[1].run_id)
        assert 0 == monitor.status()["live_runs"]


class TestTakenBack:
    def taken_back(self, monitors, graph_options=None, **options):
        monitor, played = monitors("enforce", make_detectors=lambda: [Alarm(at=2)]), Played()
        middleware = SteadyhelmMiddleware(monitor)
        agent = agent_of(lookups(2), middleware, played=played, **options)
        return monitor, played, monitor.wrap(agent)

    def test_the_state_is_that_of_the_checkpoint_and_our_words(self, monitors):
        """
        After going back the thread goes on from there; what came since is only in its history.
        """
        monitor, played, agent = self.taken_back(monitors, checkpointer=InMemorySaver())
        state = agent.invoke(ASKED, THREAD)

        words = guidance_of(monitor)[0]
        assert [GOAL, words, "done"] == [message.text for message in state["messages"]]
        assert state["messages"] == agent.get_state(THREAD).values["messages"]
        assert 2 == len(played.made)
        assert ["done"] == [run.outcome for run in runs_of(monitor)]

    @pytest.mark.parametrize("how", TheStage.ways)
    def test_a_real_loop_is_taken_back(self, monitors, how):
        """
        A model that repeats its call, and again when it is denied, is taken back to before the loop.
        """
        monitor, played = monitors("enforce"), Played()
        begins = [Turn(calls=(Ask("add", {"a": n, "b": 2}, f"a{n}"),)) for n in range(3)]
        script = [*begins, *lookups(60)]
        agent = agent_of(script, SteadyhelmMiddleware(monitor), played=played, checkpointer=InMemorySaver())
        agent = monitor.wrap(agent)
        with pytest.raises(RunStopped):
            called(agent, ASKED, THREAD, how, played)

        told = events_of(monitor, runs_of(monitor)[0].run_id, told=True)
        assert 1 <= sum(it.action_name == "rolled_back" for it in told)
        texts = [message.text for message in agent.get_state(THREAD).values["messages"]]
        assert any(text.startswith("Go back to your last good state") for text in texts)
        assert not any("This call was not run" in text for text in texts[:2])

    def test_it_listens_after_being_taken_back(self, monitors):
        """
        A model that takes another way after the rollback finishes, and the loop is not in its conversation.
        """
        monitor, played = monitors("enforce"), Played()

        class Reformed(ScriptedModel):
            """Repeats its call until it is taken back."""

            def _generate(self, messages, *args, **kwargs):
                if any("Go back to your last good state" in it.text for it in messages):
                    self.turns.clear()
                return super()._generate(messages, *args, **kwargs)

        agent = create_agent(
            Reformed(turns=lookups(20), played=played),
            the_tools(Scene(), played),
            middleware=[SteadyhelmMiddleware(monitor)],
            checkpointer=InMemorySaver(),
        )
        state = monitor.wrap(agent).invoke(ASKED, THREAD)

        assert "done" == state["messages"][-1].text
        assert ["human", "human", "ai"] == [message.type for message in state["messages"]]
        assert "done" == runs_of(monitor)[0].outcome
        answers = [it for one in monitor.store.list_incidents("agent") for it in one.interventions]
        assert "rollback" == answers[-1].verdict

    def test_a_stream_goes_on_after_it(self, monitors):
        """
        Whoever listens hears the steps before and after, and nothing of the return itself.
        """
        _, _, agent = self.taken_back(monitors, checkpointer=InMemorySaver())
        nodes = [node for part in agent.stream(ASKED, THREAD) for node in part]

        assert ["model", "tools", "model", "tools", "model"] == nodes

    def test_without_a_thread_it_is_reported(self, monitors):
        """
        A graph without a checkpointer has nothing to return to: the run is stopped, and says what was wanted.
        """
        _, _, agent = self.taken_back(monitors)

        with pytest.raises(RunStopped) as stopped:
            agent.invoke(ASKED)

        assert "rollback" == stopped.value.decision.wanted

    def test_a_checkpointer_that_fails_is_reported_and_the_agent_goes_on(self, monitors):
        """
        Where the checkpoint cannot be read the agent goes on from where it is.
        """

        class Forgetful(InMemorySaver):
            def get_tuple(self, config):
                if config["configurable"].get("checkpoint_id"):
                    raise OSError("the disk is gone")
                return super().get_tuple(config)

        monitor, played, agent = self.taken_back(monitors, checkpointer=Forgetful())
        state = agent.invoke(ASKED, THREAD)

        assert "done" == state["messages"][-1].text
        assert 3 == len(played.requests)
        told = events_of(monitor, runs_of(monitor)[0].run_id, told=True)
        reasons = [it.metadata["reason"] for it in told if it.action_name == "not_carried_out"]
        assert ["the graph could not be taken back: OSError"] == reasons

    def test_checkpoints_that_were_never_kept_are_reported(self, monitors):
        """
        With `durability="exit"` there are no checkpoints to go back to while the graph runs.
        """
        monitor, _, agent = self.taken_back(monitors, checkpointer=InMemorySaver())
        state = agent.invoke(ASKED, THREAD, durability="exit")

        assert "done" == state["messages"][-1].text
        told = events_of(monitor, runs_of(monitor)[0].run_id, told=True)
        assert any(event.action_name == "not_carried_out" for event in told)

    def test_a_graph_without_messages_goes_back_without_words(self, monitors):
        """
        A graph that keeps its conversation under another name goes back, and hears nothing.
        """

        class Talk(TypedDict):
            talk: Annotated[list, add_messages]

        model, tools = model_of(lookups(2), played := Played()), the_tools(Scene(), Played())
        graph = StateGraph(Talk)
        graph.add_node("think", lambda state: {"talk": [model.invoke(state["talk"])]})
        graph.add_node("tools", ToolNode(tools, messages_key="talk"))
        graph.add_edge(START, "think").add_edge("tools", "think")
        graph.add_conditional_edges("think", lambda state: tools_condition(state, messages_key="talk"))
        monitor = monitors("enforce", make_detectors=lambda: [Alarm(at=2)])
        agent = monitor.wrap(graph.compile(checkpointer=InMemorySaver()))
        state = agent.invoke({"talk": [("user", GOAL)]}, THREAD)

        assert [GOAL, "done"] == [message.text for message in state["talk"]]
        assert GOAL == played.requests[-1]

    def test_a_file_of_checkpoints_serves_sync_and_async(self, monitors, tmp_path):
        """
        Checkpoints of the sqlite package serve as well as those in memory.
        """
        with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver:
            monitor, _, agent = self.taken_back(monitors, checkpointer=saver)
            state = agent.invoke(ASKED, THREAD)
            assert [GOAL, guidance_of(monitor)[0], "done"] == [it.text for it in state["messages"]]

        async def awaited():
            async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "others.db")) as saver:
                monitor, _, agent = self.taken_back(monitors, checkpointer=saver)
                state = await agent.ainvoke(ASKED, THREAD)
                assert [GOAL, guidance_of(monitor)[0], "done"] == [it.text for it in state["messages"]]

        asyncio.run(awaited())


class TestInsideGraphs:
    def test_an_agent_that_is_a_node_is_a_run_of_its_own(self, monitors):
        """
        A sub-agent is a child run, under its name if it has one; a plain subgraph is a part of its graph.
        """
        researcher = agent_of(ONE_CALL, name="researcher")
        graph = StateGraph(MessagesState)
        graph.add_node("researcher", researcher)
        graph.add_node("part", graph_of([Turn(says="fine")]))
        graph.add_node("nameless", agent_of([]))
        graph.add_edge(START, "researcher").add_edge("researcher", "part").add_edge("part", "nameless")
        monitor = monitors()
        monitor.wrap(graph.compile()).invoke(ASKED)

        outer, inner, nameless = runs_of(monitor)
        assert (outer.run_id, "") == (nameless.parent_run_id, nameless.task_type)
        assert [f"user: {GOAL}", "model: fine"] == story(monitor, outer.run_id)
        assert (outer.run_id, "researcher") == (inner.parent_run_id, inner.task_type)
        assert ONE_CALL_TOLD == story(monitor, inner.run_id)

    def test_a_sub_agent_with_middleware_can_be_guided(self, monitors):
        """
        Middleware in a sub-agent acts there, in the child run.
        """
        monitor, played = monitors("guide"), Played()
        worker = agent_of(lookups(4), SteadyhelmMiddleware(monitor), played=played, name="worker")
        graph = StateGraph(MessagesState).add_node("worker", worker).add_edge(START, "worker")
        monitor.wrap(graph.compile()).invoke(ASKED)

        assert guidance_of(monitor, runs_of(monitor)[-1].run_id)[0] in played.requests[3]

    def test_a_hand_over_to_the_graph_above_is_no_failure(self, monitors):
        """
        A sub-agent that hands over to another node by a command has done its work.
        """

        @tool
        def hand_over() -> Command:
            """Lets somebody else go on."""
            return Command(goto="other", graph=Command.PARENT, update={"messages": []})

        one = agent_of([Turn(calls=(Ask("hand_over", {}, "c1"),))], tools=[hand_over], name="one")
        graph = StateGraph(MessagesState)
        graph.add_node("one", one, destinations=("other",))
        graph.add_node("other", lambda _: {"messages": [AIMessage("taken over")]})
        graph.add_edge(START, "one")
        monitor = monitors()
        state = monitor.wrap(graph.compile()).invoke(ASKED)

        assert "taken over" == state["messages"][-1].text
        assert {"done"} == {run.outcome for run in runs_of(monitor)}

    def test_a_wrapped_agent_can_be_a_node(self, monitors):
        """
        What `wrap` gives is a runnable like any other, also inside a graph and inside a chain.
        """
        monitor = monitors()
        watched = monitor.wrap(agent_of([*ONE_CALL, Turn(says="done"), *ONE_CALL]))
        graph = StateGraph(MessagesState).add_node("agent", watched).add_edge(START, "agent").compile()
        graph.invoke(ASKED)
        chain = watched | (lambda state: state["messages"][-1].text)

        assert "done" == chain.invoke(ASKED)
        assert [ONE_CALL_TOLD] * 2 == [story(monitor, run.run_id) for run in runs_of(monitor)]

    def test_a_stopped_agent_inside_a_tool_stops_all(self, monitors):
        """
        The stop of a nested agent reaches whoever made the outermost call.
        """
        monitor = monitors("enforce")
        turns = [Turn(calls=(Ask("delegate", {"task": "find it"}, "c1"),))]
        tools = the_tools(Scene(inner=lookups(30)), Played())
        agent = monitor.wrap(agent_of(turns, SteadyhelmMiddleware(monitor), tools=tools))

        with pytest.raises(RunStopped):
            agent.invoke(ASKED)

        assert ["stopped", "stopped"] == [run.outcome for run in runs_of(monitor)]


class TestWrapped:
    def test_it_passes_for_what_it_wraps(self, monitors):
        """
        Attributes are those of the graph, and other settings give a watched graph.
        """
        monitor, agent = monitors(), agent_of(ONE_CALL, name="books")
        watched = monitor.wrap(agent)

        assert (agent.name, agent.get_graph().nodes.keys()) == ("books", watched.get_graph().nodes.keys())
        again = watched.with_config(tags=["x"])
        assert isinstance(again, LangChainAdapter)
        again.invoke(ASKED)
        assert ONE_CALL_TOLD == story(monitor)

    def test_it_can_be_copied(self, monitors):
        """
        A copy is watched like the original.
        """
        monitor = monitors()
        copy.copy(monitor.wrap(agent_of(ONE_CALL))).invoke(ASKED)

        assert ONE_CALL_TOLD == story(monitor)

    def test_a_deep_copy_is_watched_too(self, monitors):
        """
        A deep copy stands for a copy of what is wrapped, and is watched by the same monitor.
        """
        monitor = monitors()
        watched = monitor.wrap(RunnableLambda(lambda text: text) | model_of([]))
        copied = copy.deepcopy(watched)
        copied.invoke(GOAL)

        assert isinstance(copied, LangChainAdapter)
        assert copied._agent is not watched._agent
        assert [f"user: {GOAL}", "model: done"] == story(monitor)

    def test_an_agent_with_our_middleware_can_be_copied(self, monitors):
        """
        A deep copy of a graph is made as it is without us.
        """
        monitor = monitors()
        watched = monitor.wrap(agent_of(ONE_CALL, SteadyhelmMiddleware(monitor)))
        watched.invoke(ASKED)

        assert watched.nodes.keys() == copy.deepcopy(watched).nodes.keys()

    def test_our_parts_of_a_copied_agent_are_shared(self, monitors):
        """
        What of ours stands in an agent or in its settings is the same in a deep copy.
        """
        monitor = monitors()
        for ours in (SteadyhelmMiddleware(monitor), SteadyhelmCallbacks(monitor)):
            assert [ours] == copy.deepcopy([ours])

    def test_wrapped_again_it_is_the_same(self, monitors):
        """
        One monitor watches a graph once, also with other settings.
        """
        monitor = monitors()
        watched = monitor.wrap(agent_of(ONE_CALL))
        again = watched.with_config(tags=["x"])

        assert watched is monitor.wrap(watched)
        assert again is monitor.wrap(again)
        monitor.wrap(again).invoke(ASKED)
        assert [ONE_CALL_TOLD] == [story(monitor, run.run_id) for run in runs_of(monitor)]

    @pytest.mark.parametrize("how", TheStage.ways)
    def test_two_monitors_watch_the_same_graph(self, monitors, how):
        """
        Each monitor has its own run of the same steps.
        """
        one, other = monitors(), monitors()
        called(other.wrap(one.wrap(agent_of(ONE_CALL))), ASKED, {}, how, Played())

        for monitor in (one, other):
            assert [ONE_CALL_TOLD] == [story(monitor, run.run_id) for run in runs_of(monitor)]
            assert 0 == monitor.status()["live_runs"]

    @pytest.mark.parametrize("strict", ["inner", "outer", "both"])
    def test_of_two_monitors_each_can_stop(self, monitors, strict):
        """
        A stop of either monitor reaches whoever made the call.
        """
        one = monitors("observe" if strict == "outer" else "enforce")
        other = monitors("observe" if strict == "inner" else "enforce")

        with pytest.raises(RunStopped):
            other.wrap(one.wrap(graph_of(lookups(30)))).invoke(ASKED)
        assert (0, 0) == (one.status()["live_runs"], other.status()["live_runs"])

    def test_of_two_monitors_one_can_take_it_back(self, monitors):
        """
        The outer monitor takes the graph back through the inner one, which only watches.
        """
        one, other = monitors(), monitors("enforce", make_detectors=lambda: [Alarm(at=2)])
        graph = graph_of(lookups(2), checkpointer=InMemorySaver())
        state = other.wrap(one.wrap(graph)).invoke(ASKED, THREAD)

        assert [GOAL, guidance_of(other)[0], "done"] == [message.text for message in state["messages"]]

    @pytest.mark.parametrize("watch", [SteadyhelmMiddleware, SteadyhelmCallbacks])
    def test_what_is_no_monitor_is_refused(self, watch):
        """
        A monitor's name is no monitor: that is said at once, and nothing else is touched.
        """
        with pytest.raises(SettingsError, match="watched by a monitor"):
            watch("traveller")
        assert 2 == RunnableLambda(lambda it: it + 1).invoke(1)

    def test_several_inputs_are_several_runs(self, monitors):
        """
        A batch is a run for each of its inputs, sync or async.
        """
        monitor = monitors()
        watched = monitor.wrap(agent_of([]))
        asked = [{"messages": [("user", text)]} for text in ("one", "two")]
        watched.batch(asked)
        asyncio.run(watched.abatch(asked))

        assert ["one", "one", "two", "two"] == sorted(run.goal for run in runs_of(monitor))
        assert 0 == monitor.status()["live_runs"]

    def test_streams_of_events_are_watched(self, monitors):
        """
        A stream of events is watched through callbacks, and the run ends with it.
        """
        monitor = monitors()
        watched = monitor.wrap(agent_of(ONE_CALL, SteadyhelmMiddleware(monitor)))

        async def events():
            return [event["event"] async for event in watched.astream_events(ASKED, version="v2")]

        assert "on_tool_end" in asyncio.run(events())
        assert (ONE_CALL_TOLD, "done") == (story(monitor), runs_of(monitor)[0].outcome)

    def test_a_stream_that_is_left_ends_the_run(self, monitors):
        """
        Who stops listening ends the run; what the caller does in between belongs to no run.
        """
        monitor = monitors()
        stream = monitor.wrap(agent_of(ONE_CALL)).stream(ASKED)
        next(stream)
        assert monitor.current_run is None
        stream.close()

        assert "left early" == runs_of(monitor)[0].outcome
        assert 0 == monitor.status()["live_runs"]

    def test_a_stream_that_nobody_closes_ends_with_its_loop(self, monitors, caplog):
        """
        The loop closes it without an error, and the model that was asked is recorded.
        """
        monitor = monitors()
        model = GenericFakeChatModel(messages=iter([AIMessage("one two three")]))
        watched = monitor.wrap(create_agent(model, []))
        kept = []

        async def leave():
            kept.append(watched.astream(ASKED, stream_mode="messages"))
            await anext(kept[0])

        asyncio.run(leave())

        assert [f"user: {GOAL}", "model: "] == story(monitor)
        assert [] == [it.getMessage() for it in caplog.records if it.name == "asyncio"]

    def test_streams_that_take_turns_do_not_mix(self, monitors):
        """
        Two agents whose streams are read in turns by one thread are two runs.
        """
        monitor = monitors()
        streams = [monitor.wrap(agent_of(ONE_CALL)).stream(ASKED) for _ in range(2)]
        for _ in zip(*streams, strict=True):
            pass

        assert [(None, ONE_CALL_TOLD)] * 2 == [
            (run.parent_run_id, story(monitor, run.run_id)) for run in runs_of(monitor)
        ]

    def test_callbacks_of_the_host_are_left_alone(self, monitors):
        """
        A handler of the host's own hears the same with us as without us.
        """
        heard = {}
        for watched in (False, True):
            names = heard.setdefault(watched, [])

            class Handler(BaseCallbackHandler):
                def on_chain_start(self, serialized, inputs, *, names=names, **kwargs):
                    names.append(kwargs["name"])

            agent = agent_of(ONE_CALL)
            agent = monitors().wrap(agent) if watched else agent
            agent.invoke(ASKED, {"callbacks": [Handler()]})

        assert heard[False] == heard[True]

    @pytest.mark.parametrize(
        "given",
        ["what is it?", ("user", "what is it?"), [HumanMessage("what is it?")], {"query": "what is it?"}],
    )
    def test_goals_are_found_in_whatever_is_given(self, monitors, given):
        """
        A runnable may be given anything; the user's words in it are the goal.
        """
        monitor = monitors()
        chain = RunnableLambda(lambda _: "hm") | model_of([])
        monitor.wrap(chain).invoke(given)

        assert "what is it?" == runs_of(monitor)[0].goal

    @pytest.mark.parametrize("given", [None, 7, b"bytes", object(), {}, [], {"messages": None}, [None]])
    def test_input_that_says_nothing_is_no_error(self, monitors, given):
        """
        Without words there is no goal, and the agent works all the same.
        """
        monitor = monitors()
        chain = RunnableLambda(lambda _: "hm") | model_of([])

        assert "done" == monitor.wrap(chain).invoke(given).text
        assert ["model: done"] == story(monitor)

    @pytest.mark.parametrize("thing", [None, 7, "text", object(), object, RunStopped, Exception("no")])
    def test_what_is_no_runnable_is_not_recognised(self, thing):
        """
        No object makes the question fail.
        """
        assert not LangChainAdapter.can_wrap(thing)


class TestCancelled:
    """Of a call that is cancelled LangChain does not tell the end."""

    @staticmethod
    def left(monitor):
        contexts = get_handler(monitor).contexts
        return len(contexts._callback_runs), len(contexts._places)

    @pytest.fixture(params=["wrapped", "middleware", "installed"])
    def watched(self, request, monitors, installed):
        """A monitor, and what makes it watch an agent with these turns and tools."""
        monitor = monitors()

        def make(turns, tools):
            ours = [SteadyhelmMiddleware(monitor)] if request.param == "middleware" else []
            agent = agent_of(turns, *ours, tools=tools)
            return monitor.wrap(agent) if request.param == "wrapped" else agent

        if request.param == "installed":
            installed(monitor)
        return monitor, make

    def test_a_call_that_takes_too_long_leaves_nothing_behind(self, watched):
        """
        The host's timeout ends the agent while its tool is at work.
        """
        monitor, make = watched

        @tool
        async def slow(key: str) -> str:
            """Takes its time."""
            await asyncio.sleep(30)

        async def work(agent):
            async with asyncio.timeout(0.2):
                await agent.ainvoke(ASKED)

        with pytest.raises(TimeoutError):
            asyncio.run(work(make([Turn(calls=(Ask("slow", {"key": "a"}, "c1"),))], [slow])))

        assert (0, 0) == self.left(monitor)
        assert 0 == monitor.status()["live_runs"]

    def test_a_call_beside_one_that_fails_leaves_nothing_behind(self, watched):
        """
        A tool that raises cancels those that are at work at the same time.
        """
        monitor, make = watched

        @tool
        async def slow(key: str) -> str:
            """Takes its time."""
            await asyncio.sleep(30)

        @tool
        async def broken(key: str) -> str:
            """Raises."""
            await asyncio.sleep(0.05)
            raise ToolBroke

        calls = Turn(calls=(Ask("broken", {"key": "a"}, "c1"), Ask("slow", {"key": "a"}, "c2")))
        with pytest.raises(ToolBroke):
            asyncio.run(make([calls], [slow, broken]).ainvoke(ASKED))

        assert (0, 0) == self.left(monitor)
        assert 0 == monitor.status()["live_runs"]


class TestClientsInside:
    @pytest.mark.parametrize("wrapped", [True, False], ids=["wrapped", "middleware alone"])
    @pytest.mark.parametrize("how", TheStage.ways)
    def test_a_watched_client_knows_that_its_call_is_told(self, monitors, wrapped, how):
        """
        Inside a model call of an agent, a client that is watched too has nothing to tell.
        """
        asking = []

        class OverClient(ScriptedModel):
            def _next_turn(self, messages):
                asking.append(is_asking())
                return super()._next_turn(messages)

        monitor, played = monitors(), Played()
        model = OverClient(turns=[], played=played)
        agent = create_agent(model, [], middleware=[] if wrapped else [SteadyhelmMiddleware(monitor)])
        called(monitor.wrap(agent) if wrapped else agent, ASKED, {}, how, played)

        assert [True] == asking
        assert not is_asking()


class TestOddMessages:
    def test_calls_the_provider_made_itself_are_seen(self, monitors):
        """
        A search that the model's provider made stands in the reply whole, and is a call.
        """
        content = [
            {"type": "text", "text": "I looked it up."},
            {"type": "server_tool_call", "id": "s1", "name": "web_search", "args": {"query": "oslo"}},
            {"type": "server_tool_result", "tool_call_id": "s1", "status": "success", "output": "rain"},
        ]
        model = GenericFakeChatModel(messages=iter([AIMessage(content=content)]))
        monitor = monitors()
        monitor.wrap(model).invoke("what is the weather?")

        told = ["user: what is the weather?", "model: I looked it up.", "web_search(query=oslo) -> rain"]
        assert told == story(monitor)

    @pytest.mark.parametrize(
        "message",
        [
            AIMessage(content=[{"type": "image", "url": "x"}, "a text", {"type": "text", "text": ""}]),
            AIMessage(content="\ud800 half a letter"),
            AIMessage(content="x" * 200_000),
            AIMessage(
                content="", invalid_tool_calls=[{"name": "add", "args": "{", "id": "c1", "error": "bad"}]
            ),
        ],
        ids=["blocks", "half a character", "huge", "calls that cannot be read"],
    )
    def test_a_reply_may_be_anything(self, monitors, message):
        """
        Whatever a model says is one event, and the agent goes on.
        """
        monitor = monitors()
        model = GenericFakeChatModel(messages=iter([message, "done", "done"]))
        monitor.wrap(create_agent(model, [], middleware=[SteadyhelmMiddleware(monitor)])).invoke(ASKED)

        assert f"user: {GOAL}" == story(monitor)[0]
        assert {} == monitor.status()["losses"]

    def test_a_result_is_read_once(self, monitors, monkeypatch):
        """
        What the middleware reads of a call the callbacks leave alone.
        """
        monkeypatch.setattr("steadyhelm.adapters.langchain.hooks.read_result", lambda *_: 1 / 0)
        monitor = monitors("guide")
        monitor.wrap(agent_of(ONE_CALL, SteadyhelmMiddleware(monitor))).invoke(ASKED)

        assert {} == monitor.status()["losses"]

    def test_a_failure_of_ours_is_not_the_agents(self, monitors, quiet, monkeypatch):
        """
        What breaks on our side is counted, and the agent notices nothing.
        """
        monkeypatch.setattr("steadyhelm.adapters.langchain.hooks.read_reply", lambda *_: 1 / 0)
        monkeypatch.setattr("steadyhelm.adapters.langchain.middleware.read_result", lambda *_: 1 / 0)
        monkeypatch.setattr("steadyhelm.adapters.langchain.contexts.read_goal", lambda *_: 1 / 0)
        monitor = monitors("enforce")
        state = monitor.wrap(agent_of(ONE_CALL, SteadyhelmMiddleware(monitor))).invoke(ASKED)

        assert "done" == state["messages"][-1].text
        assert any("langchain" in reason for reason in monitor.status()["losses"])
