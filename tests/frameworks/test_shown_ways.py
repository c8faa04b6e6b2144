"""Ways in that the pages show besides `monitor.wrap` and `install()`: our parts given to an agent."""

import importlib

import pytest
from conftest import WANTED, stage_of
from script import Scene
from test_contract import cannot, lookups
from watched import events_of, guidance_of, runs_of

from steadyhelm import RunStopped

# The argument of the agent, or of the app, that takes our part, and the part itself.
PARTS = {
    "langchain": ("middleware", "langchain:SteadyhelmMiddleware"),
    "pydantic-ai": ("capabilities", "pydantic_ai:SteadyhelmCapability"),
    "google-adk": ("plugins", "google_adk:SteadyhelmPlugin"),
    "strands": ("hooks", "strands:SteadyhelmHooks"),
    "agent-framework": ("middleware", "agent_framework:SteadyhelmMiddleware"),
}


@pytest.fixture(params=[name for name in WANTED if name in PARTS])
def stage(request):
    """The stage of each framework whose agents take our part."""
    return stage_of(request.param)


def play(stage, turns, monitor):
    """Let an agent that was given our part, and that nobody wrapped, work on these turns."""
    argument, path = PARTS[stage.name]
    module, _, name = path.partition(":")
    made = getattr(importlib.import_module(f"steadyhelm.adapters.{module}"), name)(monitor)
    parts = list(made) if isinstance(made, (list, tuple)) else [made]
    return stage.play(Scene(turns=turns), None, stage.ways[0], **{argument: parts})


def test_guidance_reaches_the_model(stage, monitors):
    """
    In guide mode what was noticed reaches the model, and every call goes ahead.
    """
    monitor = monitors("guide")
    played = play(stage, lookups(4), monitor)

    assert (None, "done", 4) == (played.error, played.result, len(played.made))
    assert guidance_of(monitor)[0] in played.requests[3]


def test_a_fruitless_call_is_blocked(stage, monitors):
    """
    In enforce mode the fifth identical call is not made.
    """
    assert "deny" not in cannot(stage)
    monitor = monitors("enforce")
    played = play(stage, lookups(5), monitor)

    assert (None, "done", 4) == (played.error, played.result, len(played.made))
    told = events_of(monitor, runs_of(monitor)[0].run_id, told=True)
    assert 1 == sum(event.action_name == "call_refused" for event in told)


def test_a_run_that_goes_on_and_on_is_stopped(stage, monitors):
    """
    In enforce mode an agent that does not listen is stopped, whatever its framework makes of the exception.
    """
    monitor = monitors("enforce")
    played = play(stage, lookups(30), monitor)

    assert any(isinstance(error, RunStopped) for error in (played.error, played.error.__cause__))
    assert "stopped" == runs_of(monitor)[0].outcome
    assert len(played.requests) <= 12
