"""Plays scenes with LlamaIndex: a `FunctionAgent` over a function-calling model that follows a script."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import ToolSelection
from pydantic import PrivateAttr
from script import How, ModelBroke, Played, Scene, Turn, look_up, make_error

from steadyhelm import Monitor

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class ScriptedModel(FunctionCallingLLM):
    """Says what the script says, one turn for each request, and keeps what it was given."""

    model: str = "scripted"
    _turns: Iterator[Turn] = PrivateAttr()
    _requests: list[str] = PrivateAttr()

    def __init__(self, turns: Sequence[Turn], requests: list[str]) -> None:
        super().__init__()
        self._turns = iter(turns)
        self._requests = requests

    @property
    def metadata(self) -> LLMMetadata:
        """What it can do."""
        return LLMMetadata(is_function_calling_model=True, model_name="scripted")

    def _answer(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        self._requests.append("\n".join(line for message in messages for line in _lines(message)))
        turn = next(self._turns, Turn("done"))
        if turn.breaks:
            raise ModelBroke("no model")
        calls = [
            ToolCallBlock(tool_call_id=ask.call_id, tool_name=ask.tool, tool_kwargs=dict(ask.args))
            for ask in turn.calls
        ]
        message = ChatMessage(role="assistant", content=turn.says or None)
        message.blocks.extend(calls)
        return ChatResponse(message=message, raw={"usage": USAGE}, delta=turn.says)

    async def achat(self, messages: Sequence[ChatMessage], **_options: Any) -> ChatResponse:
        """Answer one request."""
        await asyncio.sleep(0)
        return self._answer(messages)

    async def astream_chat(self, messages: Sequence[ChatMessage], **_options: Any) -> Any:
        """Answer one request, in two pieces; the usage comes with the last."""
        whole = self._answer(messages)

        async def pieces() -> AsyncIterator[ChatResponse]:
            text = whole.message.content or ""
            half = text[: len(text) // 2]
            first = ChatMessage(role="assistant", content=half or None)
            yield ChatResponse(message=first, delta=half)
            await asyncio.sleep(0)
            yield ChatResponse(message=whole.message, raw=whole.raw, delta=text[len(half) :])

        return pieces()

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_options: Any
    ) -> dict[str, Any]:
        return {"messages": list(chat_history or ())}

    def get_tool_calls_from_response(self, response: ChatResponse, **_options: Any) -> list[ToolSelection]:
        """The calls of a reply."""
        return [
            ToolSelection(tool_id=it.tool_call_id, tool_name=it.tool_name, tool_kwargs=it.tool_kwargs)
            for it in response.message.blocks
            if isinstance(it, ToolCallBlock)
        ]

    def _unplayed(self, *_args: Any, **_options: Any) -> Any:
        raise NotImplementedError

    chat = stream_chat = complete = stream_complete = acomplete = astream_complete = _unplayed


class TheStage:
    """LlamaIndex: an agent that is awaited, or whose events are read; and the same inside a workflow."""

    name = "llama-index"
    ways: tuple[How, ...] = ("async", "async stream")

    def play(self, scene: Scene, monitor: Monitor | None, how: How) -> Played:
        """Let the agent work on the scene."""
        played = Played()
        agent = the_agent(scene, monitor, played, streaming="stream" in how)
        try:
            played.result = asyncio.run(_run(agent, scene.goal, played))
        except Exception as exc:  # noqa: BLE001 - what reaches the caller is what is looked at
            played.error = exc
        return played


async def _run(agent: Any, goal: str, played: Played) -> str:
    handler = agent.run(user_msg=goal, max_iterations=100)
    if getattr(agent, "streaming", True):
        async for event in handler.stream_events():
            if isinstance(event, AgentStream) and event.delta:
                played.streamed.append(event.delta)
    return str(await handler)


def make_tools(played: Played) -> list[Callable[..., Any]]:
    """The tools that every scene has."""

    def add(a: int, b: int) -> str:
        """Add two numbers."""
        total = a + b
        played.made.append(("add", {"a": a, "b": b}))
        return str(total)

    def lookup(key: str) -> str:
        """Look a key up."""
        played.made.append(("lookup", {"key": key}))
        return look_up(key)

    def broken(what: str) -> str:
        """Break."""
        played.made.append(("broken", {"what": what}))
        raise make_error(what)

    return [add, lookup, broken]


def the_agent(scene: Scene, monitor: Monitor | None, played: Played, **options: Any) -> Any:
    """The agent of the scene, watched by the monitor if there is one."""
    answers = iter(scene.answers)
    asking = {"ask": lambda _question: next(answers)} if scene.answers else {}

    def watch(agent: Any) -> Any:
        return agent if monitor is None else monitor.wrap(agent, **asking)

    tools = make_tools(played)
    inner = watch(FunctionAgent(name="inner", tools=[tools[1]], llm=ScriptedModel(scene.inner, [])))

    async def delegate(task: str) -> str:
        """Let another agent work on a task."""
        played.made.append(("delegate", {"task": task}))
        return str(await inner.run(user_msg=task))

    model = ScriptedModel(scene.turns, played.requests)
    return watch(FunctionAgent(name="outer", tools=[*tools, delegate], llm=model, **options))


def workflow_of(scene: Scene, played: Played) -> AgentWorkflow:
    """A workflow of one agent that works on the scene."""
    model = ScriptedModel(scene.turns, played.requests)
    return AgentWorkflow(agents=[FunctionAgent(name="outer", tools=make_tools(played), llm=model)])


def _lines(message: ChatMessage) -> Iterator[str]:
    if message.content:
        yield message.content
    for block in message.blocks:
        if isinstance(block, ToolCallBlock):
            yield f"{block.tool_name}({json.dumps(block.tool_kwargs)})"
