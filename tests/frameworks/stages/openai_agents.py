"""Plays scenes with the OpenAI Agents SDK: its own scripted model, its own tools, its own runner."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agents import Agent, RunConfig, Runner, Tool, Usage, function_tool
from agents.items import TResponseInputItem, TResponseOutputItem
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from script import How, ModelBroke, Played, Scene, Turn, look_up, make_error

from steadyhelm import Monitor

_IDLE_TURNS = 60
_MOST_TURNS = 50


@dataclass
class Task:
    """What `delegate` takes."""

    task: str


class TheStage:
    """The OpenAI Agents SDK. Its streams can only be read by a coroutine."""

    name = "openai-agents"
    ways: tuple[How, ...] = ("sync", "async", "async stream")

    def play(self, scene: Scene, monitor: Monitor | None, how: How) -> Played:
        """Let the agent of this scene work."""
        played = Played()
        answers = list(scene.answers)
        options: dict[str, Any] = {"ask": lambda _question: answers.pop(0)} if answers else {}
        runner = Runner if monitor is None else monitor.wrap(Runner, **options)
        model = scripted(scene.turns)
        agent = Agent("outer", tools=_tools(played, scene), model=model, instructions="Use your tools.")
        settings: dict[str, Any] = {
            "max_turns": _MOST_TURNS,
            "run_config": RunConfig(tracing_disabled=True),
        }
        try:
            if how == "sync":
                played.result = runner.run_sync(agent, scene.goal, **settings).final_output
            elif how == "async":
                played.result = asyncio.run(runner.run(agent, scene.goal, **settings)).final_output
            else:
                played.result = asyncio.run(_streamed(runner, agent, scene.goal, settings, played))
        except BaseException as exc:  # noqa: BLE001 - whatever reaches the caller is what is looked at
            played.error = exc
        if how == "sync":
            close_loop()
        played.requests = [given(call.input) for call in model.calls]
        return played


def close_loop() -> None:
    """`run_sync` leaves its event loop open for the next call in this thread."""
    asyncio.get_event_loop_policy().get_event_loop().close()
    asyncio.set_event_loop(None)


def scripted(turns: Iterable[Turn]) -> ScriptedModel:
    """The framework's offline model, with these turns; it says "done" when they are used up."""
    steps = [_step(turn) for turn in turns]
    idle = [ModelStep(output=[assistant_message("done")]) for _ in range(_IDLE_TURNS)]
    usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
    return ScriptedModel([*steps, *idle], default_usage=usage)


def given(items: str | list[TResponseInputItem]) -> str:
    """All the words of one request."""
    if isinstance(items, str):
        return items
    return "\n".join(words for item in items for words in _words(dict(item)))


def _words(item: dict[str, Any]) -> list[str]:
    content = item.get("content", item.get("output", item.get("arguments", "")))
    if isinstance(content, str):
        return [content]
    return [str(part.get("text", "")) for part in content]


def _step(turn: Turn) -> ModelStep:
    if turn.breaks:
        return ModelStep.raise_error(ModelBroke("no model"))
    output: list[TResponseOutputItem] = [assistant_message(turn.says)] if turn.says else []
    output += [function_call(ask.tool, ask.args, call_id=ask.call_id) for ask in turn.calls]
    return ModelStep(output=output)


def _tools(played: Played, scene: Scene) -> list[Tool]:
    @function_tool
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        played.made.append(("add", {"a": a, "b": b}))
        return str(a + b)

    @function_tool
    def lookup(key: str) -> str:
        """Look an entry up."""
        played.made.append(("lookup", {"key": key}))
        return look_up(key)

    @function_tool
    def broken(what: str) -> str:
        """Never works."""
        played.made.append(("broken", {"what": what}))
        raise make_error(what)

    def told(options: Any) -> str:
        played.made.append(("delegate", dict(options["params"])))
        return str(options["params"]["task"])

    inner = Agent("inner", tools=[lookup], model=scripted(scene.inner))
    delegate = inner.as_tool("delegate", "Let somebody else do it.", parameters=Task, input_builder=told)
    return [add, lookup, broken, delegate]


async def _streamed(
    runner: Any, agent: Agent[Any], goal: str, settings: dict[str, Any], played: Played
) -> str | None:
    result = runner.run_streamed(agent, goal, **settings)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            played.streamed.append(event.data.delta)
    return result.final_output
