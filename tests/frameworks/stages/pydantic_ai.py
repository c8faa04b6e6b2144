"""Plays scenes with Pydantic AI: an `Agent` on a scripted `FunctionModel`, with real tools."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaToolCall,
    FunctionModel,
    FunctionStreamedResponse,
)
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
from pydantic_ai.usage import RequestUsage
from script import How, ModelBroke, Played, Scene, Turn, look_up, make_error

from steadyhelm import Monitor


class ScriptedModel(FunctionModel):
    """Says what its script says, whole or in pieces, and keeps what it was given.

    The stock model guesses what a streamed reply cost; a real one knows.
    """

    def __init__(self, turns: Sequence[Turn], requests: list[str]) -> None:
        super().__init__(self._whole, stream_function=self._pieces, model_name="scripted")
        self._turns = iter(turns)
        self._requests = requests

    @asynccontextmanager
    async def request_stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async with super().request_stream(*args, **kwargs) as streamed:
            yield CountedStream(**{name: getattr(streamed, name) for name in _FIELDS})

    def _next_turn(self, messages: list[ModelMessage]) -> Turn:
        self._requests.append("\n".join(line for message in messages for line in _lines(message)))
        turn = next(self._turns, Turn(says="done"))
        if turn.breaks:
            raise ModelBroke("no model")
        return turn

    async def _whole(self, messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        turn = self._next_turn(messages)
        words = [TextPart(turn.says)] if turn.says else []
        calls = [ToolCallPart(ask.tool, dict(ask.args), ask.call_id) for ask in turn.calls]
        return ModelResponse(parts=[*words, *calls], usage=RequestUsage(input_tokens=10, output_tokens=5))

    async def _pieces(self, messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[Any]:
        """The words one by one, and each call in two pieces."""
        turn = self._next_turn(messages)
        for place, word in enumerate(turn.says.split(" ") if turn.says else ()):
            await asyncio.sleep(0)
            yield f" {word}" if place else word
        for place, ask in enumerate(turn.calls):
            args = json.dumps(ask.args)
            yield {place: DeltaToolCall(ask.tool, args[:3], tool_call_id=ask.call_id)}
            yield {place: DeltaToolCall(json_args=args[3:])}


_FIELDS = ("model_request_parameters", "_model_name", "_iter")


class CountedStream(FunctionStreamedResponse):
    """A streamed reply that says at its end what it cost."""

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        async for event in super()._get_event_iterator():
            yield event
        self._usage = RequestUsage(input_tokens=10, output_tokens=5)


class TheStage:
    """An agent that is watched by `monitor.wrap`; the user is asked by a handler of deferred calls."""

    name = "pydantic-ai"
    ways: tuple[How, ...] = ("sync", "async", "stream", "async stream")

    def play(self, scene: Scene, monitor: Monitor | None, how: How, **given: Any) -> Played:
        """Build the agent, watch it (with no monitor: leave it as it is) and let it work."""
        played = Played()
        agent = the_agent(scene, monitor, played, **given)
        try:
            played.result = _WAYS[how](agent, scene.goal, played)
        except Exception as exc:  # noqa: BLE001 - what came of it is for the test to judge
            played.error = exc
        return played


def the_agent(scene: Scene, monitor: Monitor | None, played: Played, **options: Any) -> Any:
    """The agent of the scene, watched by the monitor if there is one."""
    watch: Callable[[Any], Any] = monitor.wrap if monitor is not None else lambda agent: agent

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

    inner = watch(Agent(ScriptedModel(scene.inner, []), name="inner", tools=[lookup]))

    async def delegate(task: str) -> str:
        """Let another agent work on a task."""
        played.made.append(("delegate", {"task": task}))
        return str((await inner.run(task)).output)

    asking = [HandleDeferredToolCalls(handler=_answering(scene.answers))] if scene.answers else []
    model = ScriptedModel(scene.turns, played.requests)
    tools = [add, lookup, broken, delegate]
    return watch(Agent(model, name="outer", tools=tools, **{"capabilities": asking, **options}))


def _answering(answers: Sequence[str]) -> Callable[..., DeferredToolResults | None]:
    """A user who is asked about each call: "yes" allows it, anything else refuses it with these words."""
    left = iter(answers)

    def answer(_ctx: RunContext[Any], asked: DeferredToolRequests) -> DeferredToolResults | None:
        said = {call.tool_call_id: next(left, "no") for call in asked.approvals}
        return DeferredToolResults(
            approvals={
                call_id: True if words == "yes" else ToolDenied(words) for call_id, words in said.items()
            }
        )

    return answer


@contextmanager
def loop_of_its_own() -> Iterator[None]:
    """What is called without `await` leaves its event loop open: give it one that is closed."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _sync(agent: Any, goal: str, _played: Played) -> str:
    with loop_of_its_own():
        return str(agent.run_sync(goal).output)


def _async(agent: Any, goal: str, _played: Played) -> str:
    return str(asyncio.run(agent.run(goal)).output)


def _stream(agent: Any, goal: str, played: Played) -> str:
    async def heard(_ctx: RunContext[Any], events: AsyncIterator[Any]) -> None:
        async for event in events:
            played.streamed.extend(_words(event))

    with loop_of_its_own():
        return str(agent.run_sync(goal, event_stream_handler=heard).output)


def _async_stream(agent: Any, goal: str, played: Played) -> str:
    async def heard() -> str:
        async with agent.run_stream_events(goal) as events:
            async for event in events:
                played.streamed.extend(_words(event))
        return str(events.result.output)

    return asyncio.run(heard())


_WAYS: dict[How, Callable[[Any, str, Played], str]] = {
    "sync": _sync,
    "async": _async,
    "stream": _stream,
    "async stream": _async_stream,
}


def _words(event: Any) -> Iterator[str]:
    """The words of a reply as they come."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        yield event.part.content
    elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        yield event.delta.content_delta


def _lines(message: ModelMessage) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            yield f"{part.tool_name}({part.args_as_json_str()})"
        elif hasattr(part, "model_response_str"):
            yield part.model_response_str()
        elif isinstance(part.content, str):
            yield part.content
