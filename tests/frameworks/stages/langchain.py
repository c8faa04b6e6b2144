"""Plays scenes with LangChain: `create_agent` with a scripted chat model and real tools."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import ConfigDict
from script import How, ModelBroke, Played, Scene, Turn, look_up, make_error

from steadyhelm import Monitor

USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
DONE = Turn(says="done")


class ScriptedModel(BaseChatModel):
    """A chat model that says what its script says, whole or in pieces."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    turns: list[Turn]
    played: Played

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=[tool.name for tool in tools])

    def _generate(self, messages: list[BaseMessage], *_args: Any, **_kwargs: Any) -> ChatResult:
        turn = self._next_turn(messages)
        calls = [{"name": ask.tool, "args": ask.args, "id": ask.call_id} for ask in turn.calls]
        message = AIMessage(content=turn.says, tool_calls=calls, usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for message in self._pieces(self._next_turn(messages)):
            piece = ChatGenerationChunk(message=message)
            if run_manager is not None:
                run_manager.on_llm_new_token(piece.text, chunk=piece)
            yield piece

    def _next_turn(self, messages: list[BaseMessage]) -> Turn:
        self.played.requests.append("\n".join(message.text for message in messages))
        turn = self.turns.pop(0) if self.turns else DONE
        if turn.breaks:
            raise ModelBroke("no model")
        return turn

    def _pieces(self, turn: Turn) -> Iterator[AIMessageChunk]:
        """The words one by one, each call in two parts, and the usage last, as real models send them."""
        known_as = f"lc_{uuid4()}"
        for place, word in enumerate(turn.says.split(" ") if turn.says else ()):
            yield AIMessageChunk(id=known_as, content=f" {word}" if place else word)
        for place, ask in enumerate(turn.calls):
            args = json.dumps(ask.args)
            start = {"name": ask.tool, "args": args[:3], "id": ask.call_id, "index": place}
            rest = {"name": None, "args": args[3:], "id": None, "index": place}
            yield AIMessageChunk(id=known_as, content="", tool_call_chunks=[start])
            yield AIMessageChunk(id=known_as, content="", tool_call_chunks=[rest])
        yield AIMessageChunk(id=known_as, content="", usage_metadata=USAGE, chunk_position="last")


class TheStage:
    """A `create_agent` agent, watched through middleware, callbacks and the outermost call.

    Only an agent with a checkpointer can be asked about and can go back.
    """

    name = "langchain"
    ways: tuple[How, ...] = ("sync", "async", "stream", "async stream")

    def play(self, scene: Scene, monitor: Monitor | None, how: How, **given: Any) -> Played:
        """Build the agent, watch it (with no monitor: leave it as it is) and let it work."""
        played = Played()
        agent = self.agent(scene, monitor, played, **given)
        asked = {"messages": [{"role": "user", "content": scene.goal}]}
        config = {"configurable": {"thread_id": "the ledger"}}
        answers = list(scene.answers)
        try:
            while asked is not None:
                state = called(agent, asked, config, how, played)
                interrupted = state.get("__interrupt__") and answers
                asked = Command(resume=answers.pop(0)) if interrupted else None
            played.result = state["messages"][-1].text
        except Exception as exc:  # noqa: BLE001 - what came of it is for the test to judge
            played.error = exc
        return played

    def agent(self, scene: Scene, monitor: Monitor | None, played: Played, **given: Any) -> Any:
        """The agent of the scene, watched by the monitor if there is one."""
        model = ScriptedModel(turns=list(scene.turns), played=played)
        tools = the_tools(scene, played)
        if monitor is None:
            return create_agent(model, tools, checkpointer=InMemorySaver(), **given)
        from steadyhelm.adapters.langchain import LangChainAdapter, SteadyhelmMiddleware

        middleware = [SteadyhelmMiddleware(monitor, ask="interrupt" if scene.answers else None)]
        agent = create_agent(model, tools, middleware=middleware, checkpointer=InMemorySaver())
        return LangChainAdapter(monitor, agent)


def the_tools(scene: Scene, played: Played) -> list[BaseTool]:
    """The tools of every scene; `delegate` asks an agent of its own."""

    def add(a: int, b: int) -> str:
        """Add two numbers."""
        played.made.append(("add", {"a": a, "b": b}))
        return str(a + b)

    def lookup(key: str) -> str:
        """Look up an entry."""
        played.made.append(("lookup", {"key": key}))
        return look_up(key)

    def broken(what: str) -> str:
        """Never works."""
        played.made.append(("broken", {"what": what}))
        raise make_error(what)

    def inner() -> Any:
        model = ScriptedModel(turns=list(scene.inner), played=Played())
        return create_agent(model, [StructuredTool.from_function(lookup)], name="inner")

    def delegate(task: str) -> str:
        """Let another agent work on it."""
        played.made.append(("delegate", {"task": task}))
        return str(inner().invoke(_request(task))["messages"][-1].text)

    async def adelegate(task: str) -> str:
        """Let another agent work on it."""
        played.made.append(("delegate", {"task": task}))
        return str((await inner().ainvoke(_request(task)))["messages"][-1].text)

    plain = [StructuredTool.from_function(function) for function in (add, lookup, broken)]
    return [*plain, StructuredTool.from_function(delegate, adelegate, name="delegate")]


def _request(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def called(agent: Any, asked: Any, config: Any, how: How, played: Played) -> dict[str, Any]:
    """What the agent's last state is, called in this way."""
    if how == "sync":
        return agent.invoke(asked, config)
    if how == "async":
        return asyncio.run(agent.ainvoke(asked, config))
    if how == "stream":
        return _last(agent.stream(asked, config, stream_mode=["messages", "values", "updates"]), played)
    return asyncio.run(_last_async(agent, asked, config, played))


def _last(parts: Any, played: Played) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for mode, part in parts:
        if mode == "values":
            state.update(part)
        elif mode == "updates" and "__interrupt__" in part:
            state["__interrupt__"] = part["__interrupt__"]
        elif mode == "messages" and isinstance(part[0], AIMessageChunk) and part[0].text:
            played.streamed.append(part[0].text)
    return state


async def _last_async(agent: Any, asked: Any, config: Any, played: Played) -> dict[str, Any]:
    stream = agent.astream(asked, config, stream_mode=["messages", "values", "updates"])
    return _last([part async for part in stream], played)
