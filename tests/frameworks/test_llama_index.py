"""What is particular to LlamaIndex: workflows of every kind, waiting tools, and what is patched."""

import asyncio
import os
import subprocess
import sys

import pytest
from conftest import stage_of
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.llms import ChatMessage, CompletionResponse, MockLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from script import GOAL, Ask, Played, Scene, Turn
from test_contract import lookups
from watched import guidance_of, runs_of, story
from workflows.errors import WorkflowCancelledByUser

from steadyhelm import RunStopped
from steadyhelm.adapters.llama_index.translate import read_goal, read_reply, read_tool_result

stage = stage_of("llama-index")
SCRIPTED = type(stage).play.__globals__["ScriptedModel"]
MAKE_TOOLS = type(stage).play.__globals__["make_tools"]

RESTORES = """
import steadyhelm
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.llms import LLM, MockLLM
from llama_index.core.tools import FunctionTool
from workflows import Workflow

owners = [Workflow, FunctionTool, FunctionAgent, AgentWorkflow, LLM, MockLLM]
names = ["run", "call_tool", "acall", "achat", "astream_chat", "chat", "acomplete"]

def read():
    return [getattr(owner, name, None) for owner in owners for name in names]

before = read()
steadyhelm.install()
during = read()
steadyhelm.uninstall()
print(before != during, before == read())
"""


def agent_of(turns, played, **options):
    """An agent that follows a script, unwatched."""
    options = {"name": "outer", "tools": MAKE_TOOLS(played), **options}
    return FunctionAgent(llm=SCRIPTED(turns, played.requests), **options)


async def run(agent, goal=GOAL, **options):
    """The answer of an agent."""
    return str(await agent.run(user_msg=goal, **options))


class Report(Workflow):
    """A workflow that is no agent: it calls a tool and a model by itself."""

    tool = None
    llm = None

    @step
    async def write(self, ev: StartEvent) -> StopEvent:
        for _ in range(ev.get("times", 1)):
            found = await self.tool.acall(key=ev.topic)
            reply = await self.llm.acomplete(f"Write about {ev.topic}: {found}")
        return StopEvent(result=str(reply))


@pytest.fixture
def report():
    """A workflow, and the prompts that its model got."""
    prompts = []

    class Echo(MockLLM):
        async def acomplete(self, prompt, formatted=False, **options):
            prompts.append(prompt)
            return CompletionResponse(text="written")

    def lookup(key: str) -> str:
        """Look a key up."""
        return f"no entry for {key}"

    workflow = Report()
    workflow.tool, workflow.llm = FunctionTool.from_defaults(lookup), Echo()
    return workflow, prompts


class TestWorkflows:
    def test_agents_of_a_workflow_hand_over(self, monitors):
        """
        Agents that hand over to each other are one run; the hand-over is a call.
        """
        monitor, played = monitors(), Played()
        turns = [Turn(calls=(Ask("handoff", {"to_agent": "second", "reason": "sums"}, "h1"),))]
        first = agent_of(turns, played, name="first", description="asks", tools=[], can_handoff_to=["second"])
        second = agent_of(
            [Turn(calls=(Ask("add", {"a": 1, "b": 2}, "c1"),))], played, name="second", description="adds"
        )
        workflow = monitor.wrap(AgentWorkflow(agents=[first, second], root_agent="first"))

        assert "done" == asyncio.run(run(workflow))
        (kept,) = runs_of(monitor)
        lines = story(monitor)
        assert GOAL == kept.goal
        assert [f"user: {GOAL}", "model: "] == lines[:2]
        assert lines[2].startswith("handoff(reason=sums, to_agent=second)")
        assert ["model: ", "add(a=1, b=2) -> 3", "model: done"] == lines[3:]

    def test_a_workflow_of_ones_own_is_watched_and_guided(self, monitors, report):
        """
        A workflow without an agent is a run from its first call of a model or tool on.
        """
        monitor = monitors("guide")
        workflow, prompts = report
        asyncio.run(start(monitor.wrap(workflow), topic="ships", times=4))

        assert "ships" == runs_of(monitor)[0].goal
        assert ["lookup(key=ships) -> no entry for ships", "model: written"] == story(monitor)[1:3]
        assert guidance_of(monitor)[0] in prompts[2]

    def test_a_call_of_ones_own_is_blocked_and_the_run_stopped(self, monitors, report):
        """
        In enforce mode a step gets an error in place of a fruitless call, and in the end RunStopped.
        """
        monitor = monitors("enforce")
        workflow, prompts = report
        with pytest.raises(RunStopped):
            asyncio.run(start(monitor.wrap(workflow), topic="ships", times=40))
        assert 5 <= len(prompts) <= 12
        assert "stopped" == runs_of(monitor)[0].outcome

    def test_a_workflow_without_models_leaves_no_run(self, monitors):
        """
        A workflow that calls neither a model nor a tool is no agent, and no run is kept of it.
        """

        class Nothing(Workflow):
            @step
            async def only(self, ev: StartEvent) -> StopEvent:
                return StopEvent(result="fine")

        monitor = monitors()
        assert "fine" == asyncio.run(start(monitor.wrap(Nothing())))
        assert [] == runs_of(monitor)

    def test_an_agent_that_reasons_in_words_is_watched(self, monitors):
        """
        A ReAct agent, whose calls are written in its words, is watched and guided as well.
        """
        thought = 'Thought: look.\nAction: lookup\nAction Input: {"key": "a"}'
        monitor, played = monitors("guide"), Played()
        turns = [Turn(says=thought)] * 4 + [Turn(says="Thought: enough.\nAnswer: none")]
        model = SCRIPTED(turns, played.requests)
        agent = monitor.wrap(ReActAgent(name="outer", tools=MAKE_TOOLS(played), llm=model))

        assert "none" == asyncio.run(run(agent))
        assert 4 == sum(line == "lookup(key=a) -> no entry for a" for line in story(monitor))
        assert guidance_of(monitor)[0] in played.requests[3]

    def test_an_agent_inside_a_watched_one_is_watched(self, monitors):
        """
        An inner agent that nobody wrapped is a child run of the watched agent around it.
        """
        monitor, played = monitors(), Played()
        inner = agent_of([], Played(), name="inner")

        async def delegate(task: str) -> str:
            """Let another agent work on a task."""
            return await run(inner, task)

        turns = [Turn(calls=(Ask("delegate", {"task": "sum it"}, "c1"),))]
        asyncio.run(run(monitor.wrap(agent_of(turns, played, tools=[delegate]))))

        outer, child = runs_of(monitor)
        assert (outer.run_id, "sum it") == (child.parent_run_id, child.goal)


class TestWaiting:
    def test_a_tool_that_waits_for_a_person_is_one_call(self, monitors):
        """
        A tool that waits for the user's answer begins again when it is there, and is one call.
        """

        async def confirm(ctx: Context, what: str) -> str:
            """Ask the user."""
            answer = await ctx.wait_for_event(
                HumanResponseEvent, waiter_event=InputRequiredEvent(prefix=what), waiter_id=what
            )
            return answer.response

        async def work(agent):
            handler = agent.run(user_msg=GOAL)
            async for event in handler.stream_events():
                if isinstance(event, InputRequiredEvent):
                    handler.ctx.send_event(HumanResponseEvent(response="go ahead"))
            return str(await handler)

        monitor, played = monitors(), Played()
        turns = [Turn(calls=(Ask("confirm", {"what": "sure?"}, "c1"),))]
        agent = monitor.wrap(agent_of(turns, played, tools=[FunctionTool.from_defaults(confirm)]))

        assert "done" == asyncio.run(work(agent))
        expected = [f"user: {GOAL}", "model: ", "confirm(what=sure?) -> go ahead", "model: done"]
        assert expected == story(monitor)

    def test_a_cancelled_run_was_left_early(self, monitors):
        """
        A run that its caller cancels ends, and is no failure.
        """
        monitor = monitors()
        started = asyncio.Event()

        async def wait_forever() -> str:
            """Wait."""
            started.set()
            await asyncio.Event().wait()

        async def cancel(agent):
            handler = agent.run(user_msg=GOAL)
            await started.wait()
            await handler.cancel_run()
            with pytest.raises(WorkflowCancelledByUser):
                await handler

        turns = [Turn(calls=(Ask("wait_forever", {}, "c1"),))]
        asyncio.run(cancel(monitor.wrap(agent_of(turns, Played(), tools=[wait_forever]))))

        assert "left early" == runs_of(monitor)[0].outcome
        assert 0 == monitor.status()["live_runs"]


class TestPatches:
    def test_uninstall_restores_every_method(self, tmp_path):
        """
        After `uninstall()` the methods of LlamaIndex's classes are the original ones.
        """
        done = subprocess.run(
            [sys.executable, "-c", RESTORES],
            env={**os.environ, "STEADYHELM_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

        assert ("True True\n", 0) == (done.stdout, done.returncode), done.stderr

    def test_an_unwatched_agent_beside_a_watched_one_is_left_alone(self, monitors):
        """
        Wrapping one agent watches that agent only.
        """
        monitor, played = monitors(), Played()
        monitor.wrap(agent_of([], Played()))

        assert "done" == asyncio.run(run(agent_of(lookups(1), played)))
        assert [] == runs_of(monitor)

    def test_the_agent_itself_is_returned(self, monitors):
        """
        `wrap` returns the same object: it can be given to an AgentWorkflow, and cannot be bypassed.
        """
        agent = agent_of([], Played())

        assert agent is monitors().wrap(agent)


class TestTranslation:
    def test_the_goal_is_what_the_user_said(self):
        """
        The goal is the user's message, the last one of a conversation, or the only text there is.
        """
        message = ChatMessage(role="user", content="count")
        history = [message, ChatMessage(role="assistant", content="ready")]

        assert "count" == read_goal(StartEvent(user_msg=message), {})
        assert "count" == read_goal(StartEvent(chat_history=history), {})
        assert "ships" == read_goal(None, {"subject": "ships", "times": 3})
        assert "" == read_goal(None, {"subject": "ships", "style": "plain"})

    @pytest.mark.parametrize("thing", [None, object(), 3, "text", [1], {"usage": "many"}])
    def test_anything_may_come_instead_of_a_reply(self, thing):
        """
        A reply or a result of any other type is read as nothing, and nothing is raised.
        """
        assert 0 == read_reply(thing, thing).input_tokens
        assert read_tool_result(thing).error is None


async def start(workflow, **inputs):
    """The result of a workflow."""
    return await workflow.run(**inputs)


def test_scenes_are_played_in_a_workflow_too(monitors):
    """
    In enforce mode an AgentWorkflow that does not listen ends with RunStopped.
    """
    played, monitor = Played(), monitors("enforce")
    workflow = type(stage).play.__globals__["workflow_of"](Scene(turns=lookups(30)), played)
    with pytest.raises(RunStopped):
        asyncio.run(run(monitor.wrap(workflow), max_iterations=100))
    assert 4 <= len(played.made) <= 6
