"""Plays scenes with CrewAI: a crew of one agent with one task, over a model of its own base class.

The model follows a script and tells the event bus what it does, as CrewAI's own providers do. A silent one is
a model that somebody wrote themselves: the bus hears nothing of it.
"""

import asyncio
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

OFFLINE = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "CREWAI_TESTING": "true",
    "OTEL_SDK_DISABLED": "true",
}
os.environ.update(OFFLINE)
# Read when it is imported, so it stands before the import; what it stores goes away with this process.
os.environ.setdefault("CREWAI_STORAGE_DIR", tempfile.mkdtemp(prefix="crewai-"))

with warnings.catch_warnings():
    # What it warns of while it is imported is not ours to fix.
    warnings.simplefilter("ignore")
    from crewai import Agent, BaseLLM, Crew, Task
    from crewai.events.types.llm_events import LLMCallType
    from crewai.llms.base_llm import llm_call_context
    from crewai.tools import BaseTool, tool

from pydantic import ConfigDict, PrivateAttr  # noqa: E402
from script import How, ModelBroke, Played, Scene, Turn, look_up, make_error  # noqa: E402

from steadyhelm import Monitor  # noqa: E402

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
Watch = Callable[[Any], Any]


class ScriptedModel(BaseLLM):
    """Says what the script says, one turn for each request, and keeps what it was given.

    With `text_calls` it cannot call tools itself, and CrewAI reads the calls from what it says.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    silent: bool = False
    text_calls: bool = False
    _turns: Iterator[Turn] = PrivateAttr()
    _requests: list[str] = PrivateAttr()

    def __init__(self, turns: Sequence[Turn], requests: list[str], **fields: Any) -> None:
        super().__init__(model="scripted", **fields)
        self._turns = iter(turns)
        self._requests = requests

    def supports_function_calling(self) -> bool:
        """Whether it asks for tools in a form of its own."""
        return not self.text_calls

    def get_input_tokens_count(self, *_args: Any, **_kwargs: Any) -> int:
        """What a request weighs: nothing."""
        return 0

    def call(
        self,
        messages: Any,
        tools: Any = None,
        *_args: Any,
        from_task: Any = None,
        from_agent: Any = None,
        **_kw: Any,
    ) -> Any:
        """Answer one request."""
        with self._told(messages, tools, from_task, from_agent) as answer:
            self._answer(answer, messages, from_task, from_agent)
        return answer[0]

    async def acall(
        self,
        messages: Any,
        tools: Any = None,
        *_args: Any,
        from_task: Any = None,
        from_agent: Any = None,
        **_kw: Any,
    ) -> Any:
        """Answer one request."""
        with self._told(messages, tools, from_task, from_agent) as answer:
            await asyncio.sleep(0)
            self._answer(answer, messages, from_task, from_agent)
        return answer[0]

    @contextmanager
    def _told(self, messages: Any, tools: Any, from_task: Any, from_agent: Any) -> Iterator[list[Any]]:
        """What is done in here is told to the event bus, in the order in which the providers do."""
        answer: list[Any] = []
        if self.silent:
            yield answer
            return
        who = {"from_task": from_task, "from_agent": from_agent}
        with llm_call_context():
            self._emit_call_started_event(messages=messages, tools=tools, **who)
            try:
                self._invoke_before_llm_call_hooks(messages, from_agent)
                yield answer
            except Exception as exc:
                self._emit_call_failed_event(error=str(exc), **who)
                raise
            kind = LLMCallType.LLM_CALL if isinstance(answer[0], str) else LLMCallType.TOOL_CALL
            self._emit_call_completed_event(answer[0], kind, messages=messages, usage=USAGE, **who)

    def _answer(self, answer: list[Any], messages: Any, from_task: Any, from_agent: Any) -> None:
        self._requests.append("\n".join(line for message in messages for line in _lines(message)))
        turn = next(self._turns, Turn("done"))
        if turn.breaks:
            raise ModelBroke("no model")
        text = _spoken(turn) if self.text_calls else turn.says
        if self._effective_stream() and not self.silent:
            self._send_pieces(text, () if self.text_calls else turn.calls, from_task, from_agent)
        self._track_token_usage_internal(USAGE)
        native = [_native(ask) for ask in turn.calls] if not self.text_calls else []
        answer.append(native or text)

    def _send_pieces(self, text: str, calls: Sequence[Any], from_task: Any, from_agent: Any) -> None:
        """The words in two pieces and each call in two parts, as they come over the wire."""
        who = {"from_task": from_task, "from_agent": from_agent}
        for half in _halves(text):
            self._emit_stream_chunk_event(half, call_type=LLMCallType.LLM_CALL, **who)
        for place, ask in enumerate(calls):
            for half in _halves(_written(ask)):
                part = {"id": ask.call_id, "index": place, "function": {"name": ask.tool, "arguments": half}}
                self._emit_stream_chunk_event(half, tool_call=part, call_type=LLMCallType.TOOL_CALL, **who)


class TheStage:
    """CrewAI: a crew kicked off, awaited or streamed."""

    name = "crewai"
    ways: tuple[How, ...] = ("sync", "async", "stream", "async stream")

    def __init__(self, *, silent: bool = False, text_calls: bool = False) -> None:
        self.silent, self.text_calls = silent, text_calls

    def play(self, scene: Scene, monitor: Monitor | None, how: How) -> Played:
        """Let the crew work on the scene."""
        played = Played()
        answers = iter(scene.answers)
        ask = {"ask": lambda _question: next(answers)} if scene.answers else {}
        try:
            crew = self.crew(scene, played, streams="stream" in how)
            watched = monitor.wrap(crew, **ask) if monitor is not None else crew
            played.result = self._kicked_off(watched, how, played).raw
        except Exception as exc:  # noqa: BLE001 - what reaches the caller is what is looked at
            played.error = exc
        return played

    def crew(self, scene: Scene, played: Played, *, streams: bool = False) -> Crew:
        """A crew of one agent that works on the scene's goal."""
        tools = [*make_tools(played), self._delegate(scene, played)]
        agent = self.agent("outer", scene.turns, played.requests, tools)
        task = Task(description=scene.goal, expected_output="the sum", agent=agent)
        # Without a cache a call that is made again is really made again.
        return Crew(agents=[agent], tasks=[task], stream=streams, cache=False)

    def agent(self, role: str, turns: Sequence[Turn], requests: list[str], tools: list[BaseTool]) -> Agent:
        """An agent that follows a script."""
        model = ScriptedModel(turns, requests, silent=self.silent, text_calls=self.text_calls)
        return Agent(role=role, goal="to help", backstory="Hired.", llm=model, tools=tools, max_retry_limit=0)

    def _delegate(self, scene: Scene, played: Played) -> BaseTool:
        inner = self.agent("inner", scene.inner, [], [make_tools(played)[1]])

        @tool
        def delegate(task: str) -> str:
            """Let another agent work on a task."""
            played.made.append(("delegate", {"task": task}))
            return inner.kickoff(task).raw

        return delegate

    def _kicked_off(self, crew: Any, how: How, played: Played) -> Any:
        if how == "sync":
            return crew.kickoff()
        if how == "async":
            return asyncio.run(crew.akickoff())
        if how == "async stream":
            return asyncio.run(self._streamed(crew, played))
        stream = crew.kickoff()
        played.streamed.extend(piece.content for piece in stream if piece.tool_call is None)
        return stream.result

    async def _streamed(self, crew: Any, played: Played) -> Any:
        stream = await crew.akickoff()
        async for piece in stream:
            if piece.tool_call is None:
                played.streamed.append(piece.content)
        return stream.result


def make_tools(played: Played) -> list[BaseTool]:
    """The tools of every scene."""

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

    return [add, lookup, broken]


def _native(ask: Any) -> dict[str, Any]:
    function = {"name": ask.tool, "arguments": _written(ask)}
    return {"id": ask.call_id, "type": "function", "function": function}


def _written(ask: Any) -> str:
    """The arguments of a call as a model writes them; a text is written as it stands, well or badly."""
    return ask.args if isinstance(ask.args, str) else json.dumps(ask.args)


def _spoken(turn: Turn) -> str:
    """A turn as a model speaks that can only write: CrewAI reads one call of it."""
    if not turn.calls:
        return f"Thought: I know it.\nFinal Answer: {turn.says}"
    ask = turn.calls[0]
    return f"Thought: {turn.says or 'I need a tool.'}\nAction: {ask.tool}\nAction Input: {_written(ask)}"


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def _lines(message: dict[str, Any]) -> Iterator[str]:
    if message.get("content"):
        yield str(message["content"])
    for call in message.get("tool_calls") or ():
        yield f"{call['function']['name']}({call['function']['arguments']})"
