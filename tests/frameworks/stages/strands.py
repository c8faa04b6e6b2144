"""Plays scenes with Strands Agents, on a model of its own base class that follows a script."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Any

from script import How, ModelBroke, Played, Scene, Turn, look_up, make_error
from strands import Agent, tool
from strands.models import Model
from strands.types.content import Message
from strands.types.streaming import StreamEvent

from steadyhelm import Monitor

USAGE = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}


class ScriptedModel(Model):
    """Says what the script says, one turn for each request, and keeps what it was given."""

    def __init__(self, turns: Sequence[Turn], requests: list[str]) -> None:
        self.config = {"model_id": "scripted"}
        self._turns = iter(turns)
        self._requests = requests

    def update_config(self, **model_config: Any) -> None:
        """Change the settings."""
        self.config.update(model_config)

    def get_config(self) -> dict[str, Any]:
        """The settings."""
        return self.config

    def structured_output(self, *args: Any, **kwargs: Any) -> AsyncGenerator[dict[str, Any], None]:
        """Not played."""
        raise NotImplementedError

    async def stream(
        self, messages: Sequence[Message], *args: Any, **kwargs: Any
    ) -> AsyncIterator[StreamEvent]:
        """Answer one request, piece by piece."""
        self._requests.append("\n".join(line for message in messages for line in _lines(message)))
        turn = next(self._turns, Turn("done"))
        if turn.breaks:
            raise ModelBroke("no model")
        for piece in _pieces(turn):
            await asyncio.sleep(0)
            yield piece


class TheStage:
    """Strands Agents: an agent over a scripted model; called, awaited or streamed."""

    name = "strands"
    ways: tuple[How, ...] = ("sync", "async", "async stream")

    def play(self, scene: Scene, monitor: Monitor | None, how: How, **given: Any) -> Played:
        """Let the agent work on the scene."""
        played = Played()
        agent = _agent(scene, monitor, played, **given)
        try:
            result = self._asked(agent, scene.goal, how, played)
            answers = iter(scene.answers)
            while result.stop_reason == "interrupt":
                answer = next(answers, "yes")
                said = [{"interruptId": it.id, "response": answer} for it in result.interrupts]
                result = self._asked(agent, [{"interruptResponse": it} for it in said], how, played)
            played.result = str(result).strip()
        except Exception as exc:  # noqa: BLE001 - what reaches the caller is what is looked at
            played.error = exc
        return played

    def _asked(self, agent: Any, prompt: Any, how: How, played: Played) -> Any:
        if how == "sync":
            return agent(prompt)
        if how == "async":
            return asyncio.run(agent.invoke_async(prompt))
        return asyncio.run(self._streamed(agent, prompt, played))

    async def _streamed(self, agent: Any, prompt: Any, played: Played) -> Any:
        result = None
        async for event in agent.stream_async(prompt):
            if "data" in event:
                played.streamed.append(event["data"])
            result = event.get("result", result)
        return result


def _agent(scene: Scene, monitor: Monitor | None, played: Played, **given: Any) -> Any:
    asking = {"ask": "interrupt"} if scene.answers else {}

    def watch(agent: Agent) -> Any:
        return agent if monitor is None else monitor.wrap(agent, **asking)

    @tool
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        played.made.append(("add", {"a": a, "b": b}))
        return str(a + b)

    @tool
    def lookup(key: str) -> str:
        """Look a key up."""
        played.made.append(("lookup", {"key": key}))
        return look_up(key)

    @tool
    def broken(what: str) -> str:
        """Break."""
        played.made.append(("broken", {"what": what}))
        raise make_error(what)

    inner_model = ScriptedModel(scene.inner, [])
    inner = watch(Agent(inner_model, tools=[lookup], name="inner", callback_handler=None))

    @tool
    async def delegate(task: str) -> str:
        """Let another agent work on a task."""
        played.made.append(("delegate", {"task": task}))
        return str(await inner.invoke_async(task)).strip()

    model = ScriptedModel(scene.turns, played.requests)
    tools = [add, lookup, broken, delegate]
    return watch(Agent(model, tools=tools, name="outer", callback_handler=None, **given))


def _pieces(turn: Turn) -> Iterator[StreamEvent]:
    """A turn as it comes over the wire: words and arguments in two pieces each, the usage last."""
    yield {"messageStart": {"role": "assistant"}}
    if turn.says:
        yield {"contentBlockStart": {"start": {}}}
        yield from ({"contentBlockDelta": {"delta": {"text": text}}} for text in _halves(turn.says))
        yield {"contentBlockStop": {}}
    for ask in turn.calls:
        yield {"contentBlockStart": {"start": {"toolUse": {"name": ask.tool, "toolUseId": ask.call_id}}}}
        args = _halves(json.dumps(ask.args))
        yield from ({"contentBlockDelta": {"delta": {"toolUse": {"input": text}}}} for text in args)
        yield {"contentBlockStop": {}}
    yield {"messageStop": {"stopReason": "tool_use" if turn.calls else "end_turn"}}
    yield {"metadata": {"usage": dict(USAGE), "metrics": {"latencyMs": 1}}}


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def _lines(message: Message) -> Iterator[str]:
    for block in message["content"]:
        if "text" in block:
            yield block["text"]
        elif "toolUse" in block:
            yield f"{block['toolUse']['name']}({json.dumps(block['toolUse']['input'])})"
        elif "toolResult" in block:
            yield from (piece["text"] for piece in block["toolResult"]["content"] if "text" in piece)
