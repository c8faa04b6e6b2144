"""A client inside a framework: installed together, a request is recorded once, by the framework."""

import asyncio

import pytest
from conftest import WANTED
from fake_endpoints import FakeEndpoint
from script import GOAL
from test_contract import calls
from watched import runs_of, story

import steadyhelm

TOLD = [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model: done"]


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def run_openai_agents(url):
    """Run an agent of the OpenAI Agents SDK with a real client."""
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")
    model = OpenAIChatCompletionsModel("scripted", client)
    agent = Agent("outer", tools=[function_tool(add)], model=model)
    asyncio.run(Runner.run(agent, GOAL, run_config=RunConfig(tracing_disabled=True)))


def run_pydantic_ai(url):
    """Run an agent of Pydantic AI with a real client."""
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
    asyncio.run(Agent(model, tools=[add]).run(GOAL))


def run_strands(url):
    """Run an agent of Strands with a real client."""
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    client_args = {"base_url": f"{url}/v1", "api_key": "none"}
    model = OpenAIModel(client_args=client_args, model_id="scripted", stream=False)
    Agent(model, tools=[tool(add)], callback_handler=None)(GOAL)


PROGRAMS = {"openai-agents": run_openai_agents, "pydantic-ai": run_pydantic_ai, "strands": run_strands}


@pytest.mark.parametrize("name", [name for name in WANTED if name in PROGRAMS and "openai-client" in WANTED])
def test_a_request_inside_a_framework_is_recorded_once(name, monitors):
    """
    A client's request inside an agent's model call is that model call, and no run of its own.
    """
    monitor = steadyhelm.install(monitor=monitors())
    try:
        with FakeEndpoint([calls("add", a=1, b=2)]) as endpoint:
            PROGRAMS[name](endpoint.url)
    finally:
        steadyhelm.uninstall()

    assert 1 == len(runs_of(monitor))
    assert TOLD == story(monitor)
    assert {} == monitor.status()["losses"]
