"""Plays scenes with Agent Framework, on a chat client made of its own base classes that follows a script."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)
from script import How, ModelBroke, Played, Scene, Turn, look_up, make_error

from steadyhelm import Monitor

USAGE = {"input_token_count": 10, "output_token_count": 5, "total_token_count": 15}


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Says what the script says, one turn for each request, and keeps what it was given."""

    def __init__(self, turns: Sequence[Turn], requests: list[str]) -> None:
        super().__init__()
        self._turns = iter(turns)
        self._requests = requests

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        self._requests.append("\n".join(line for message in messages for line in _lines(message)))
        turn = next(self._turns, Turn("done"))
        if stream:
            return self._build_response_stream(self._streamed(turn))
        return self._whole(turn)

    async def _whole(self, turn: Turn) -> ChatResponse:
        if turn.breaks:
            raise ModelBroke("no model")
        contents = [Content.from_text(turn.says)] if turn.says else []
        contents += [
            Content.from_function_call(ask.call_id, ask.tool, arguments=json.dumps(ask.args))
            for ask in turn.calls
        ]
        return ChatResponse(
            messages=Message("assistant", contents), model="scripted", usage_details=dict(USAGE)
        )

    async def _streamed(self, turn: Turn) -> AsyncIterator[ChatResponseUpdate]:
        if turn.breaks:
            raise ModelBroke("no model")
        for content in _pieces(turn):
            await asyncio.sleep(0)
            yield ChatResponseUpdate(contents=[content], role="assistant", model="scripted")


class TheStage:
    """Agent Framework: an agent over a scripted chat client, awaited or streamed."""

    name = "agent-framework"
    ways: tuple[How, ...] = ("async", "async stream")

    def play(self, scene: Scene, monitor: Monitor | None, how: How, **given: Any) -> Played:
        """Let the agent work on the scene."""
        played = Played()
        try:
            asyncio.run(self._play(_agent(scene, monitor, played, **given), scene, how, played))
        except Exception as exc:  # noqa: BLE001 - what reaches the caller is what is looked at
            played.error = exc
        return played

    async def _play(self, agent: Any, scene: Scene, how: How, played: Played) -> None:
        session = agent.create_session()
        answers = iter(scene.answers)
        response = await self._asked(agent, scene.goal, session, how, played)
        while response.user_input_requests:
            refused = [it.to_function_approval_response(False) for it in response.user_input_requests]
            said = Message("user", [*refused, next(answers, "no")])
            response = await self._asked(agent, said, session, how, played)
        played.result = response.messages[-1].text

    async def _asked(self, agent: Any, said: Any, session: Any, how: How, played: Played) -> Any:
        if how == "async":
            return await agent.run(said, session=session)
        stream = agent.run(said, stream=True, session=session)
        async for update in stream:
            if update.text:
                played.streamed.append(update.text)
        return await stream.get_final_response()


def _agent(scene: Scene, monitor: Monitor | None, played: Played, **given: Any) -> Any:
    asking = {"ask": "approval"} if scene.answers else {}

    def watch(agent: Agent) -> Any:
        return agent if monitor is None else monitor.wrap(agent, **asking)

    def add(a: int, b: int) -> str:
        """Add two numbers."""
        played.made.append(("add", {"a": a, "b": b}))
        return str(a + b)

    def lookup(key: str) -> str:
        """Look a key up."""
        played.made.append(("lookup", {"key": key}))
        return look_up(key)

    def broken(what: str) -> str:
        """Break."""
        played.made.append(("broken", {"what": what}))
        raise make_error(what)

    inner_client = ScriptedClient(scene.inner, [])
    inner = watch(Agent(inner_client, name="inner", tools=[lookup]))

    async def delegate(task: str) -> str:
        """Let another agent work on a task."""
        played.made.append(("delegate", {"task": task}))
        return (await inner.run(task)).text

    client = ScriptedClient(scene.turns, played.requests)
    return watch(Agent(client, name="outer", tools=[add, lookup, broken, delegate], **given))


def _pieces(turn: Turn) -> Iterator[Content]:
    """A turn as it comes over the wire: words and arguments in two pieces each, the usage last."""
    middle = len(turn.says) // 2
    yield from (Content.from_text(text) for text in (turn.says[:middle], turn.says[middle:]) if text)
    for ask in turn.calls:
        args = json.dumps(ask.args)
        middle = len(args) // 2
        yield Content.from_function_call(ask.call_id, ask.tool, arguments=args[:middle])
        yield Content.from_function_call(ask.call_id, "", arguments=args[middle:])
    yield Content.from_usage(dict(USAGE))


def _lines(message: Message) -> Iterator[str]:
    for content in message.contents:
        if content.type == "text":
            yield content.text
        elif content.type == "function_call":
            yield f"{content.name}({content.arguments})"
        elif content.type == "function_result":
            yield str(content.result)
