"""Plays scenes with Google's Agent Development Kit: its own runner, its model base class, real tools."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import PrivateAttr
from script import How, ModelBroke, Played, Scene, Turn, look_up, make_error

from steadyhelm import Monitor, RunStopped

USER = "somebody"
CONFIRMATION = "adk_request_confirmation"
# Older versions of `Runner.run` lose what the agent raises in their thread; newer ones say what they raise.
LOSES_ERRORS = "Raises:" not in (InMemoryRunner.run.__doc__ or "")
USAGE = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=10, candidates_token_count=5, total_token_count=15
)


class ScriptedLlm(BaseLlm):
    """A model of the framework that answers by a script, in chunks when it is asked to stream."""

    model: str = "scripted"
    _turns: Iterator[Turn] = PrivateAttr()
    _requests: list[str] = PrivateAttr()

    def __init__(self, turns: Iterator[Turn], requests: list[str]) -> None:
        super().__init__()
        self._turns = turns
        self._requests = requests

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Give the next turn of the script."""
        self._requests.append("\n".join(words_of(content) for content in llm_request.contents))
        turn = next(self._turns, Turn(says="done"))
        if turn.breaks:
            raise ModelBroke("no model")
        if stream:
            for piece in turn.says.split(" ") if turn.says else ():
                part = types.Part(text=f"{piece} ")
                yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)
        yield LlmResponse(
            content=types.Content(role="model", parts=parts_of(turn)),
            usage_metadata=USAGE,
            finish_reason=types.FinishReason.STOP,
            model_version="scripted-1",
        )


class TheStage:
    """One agent with the four tools, in an in-memory runner of its own for each scene."""

    name = "google-adk"
    ways: tuple[How, ...] = ("sync", "async", "stream", "async stream")

    def play(self, scene: Scene, monitor: Monitor | None, how: How, **given: Any) -> Played:
        """Let the agent work on the goal, and answer what the user is asked."""
        played = Played()
        app = App(name="ledger", root_agent=agent_of(scene, played), **given)
        runner: Any = InMemoryRunner(app=app)
        if monitor is not None:
            runner = monitor.wrap(runner, ask="confirmation" if scene.answers else None)
        asyncio.run(runner.session_service.create_session(app_name="ledger", user_id=USER, session_id="one"))
        answers = iter(scene.answers)
        said: types.Content | None = types.UserContent(scene.goal)
        try:
            while said is not None:
                said = reply_to(self._turn(runner, said, how, played), answers)
        except Exception as exc:  # noqa: BLE001 - what a caller would have caught
            played.error = exc
        return played

    def _turn(self, runner: Any, said: types.Content, how: How, played: Played) -> list[Event]:
        mode = StreamingMode.SSE if "stream" in how else StreamingMode.NONE
        asked: dict[str, Any] = {
            "user_id": USER,
            "session_id": "one",
            "new_message": said,
            "run_config": RunConfig(streaming_mode=mode),
        }
        if "async" not in how:
            with lost_errors() if LOSES_ERRORS else nullcontext([]) as lost:
                events = [taken_in(event, played) for event in runner.run(**asked)]
            for error in lost:
                # Our stop is raised by `run` itself.
                if not isinstance(error, RunStopped):
                    raise error
            return events

        async def watched() -> list[Event]:
            return [taken_in(event, played) async for event in runner.run_async(**asked)]

        return asyncio.run(watched())


@contextmanager
def lost_errors() -> Iterator[list[BaseException]]:
    """What threads raise inside the block, and nobody catches."""
    lost: list[BaseException] = []
    before = threading.excepthook
    threading.excepthook = lambda args: lost.append(args.exc_value or args.exc_type())
    try:
        yield lost
    finally:
        threading.excepthook = before


def agent_of(scene: Scene, played: Played) -> LlmAgent:
    """The agent of a scene; what its tools do is kept with what is played."""

    def add(a: int, b: int) -> str:
        """Add two numbers."""
        played.made.append(("add", {"a": a, "b": b}))
        return str(a + b)

    def lookup(key: str) -> str:
        """Look up an entry."""
        played.made.append(("lookup", {"key": key}))
        return look_up(key)

    def broken(what: str) -> str:
        """Fail."""
        played.made.append(("broken", {"what": what}))
        raise make_error(what)

    inner_model = ScriptedLlm(iter(scene.inner), played.requests)
    inner = AgentTool(LlmAgent(name="inner", model=inner_model, tools=[lookup]))

    async def delegate(task: str, tool_context: ToolContext) -> Any:
        """Let another agent do it."""
        played.made.append(("delegate", {"task": task}))
        return await inner.run_async(args={"request": task}, tool_context=tool_context)

    model = ScriptedLlm(iter(scene.turns), played.requests)
    return LlmAgent(name="bookkeeper", model=model, tools=[add, lookup, broken, delegate])


def taken_in(event: Event, played: Played) -> Event:
    """Keep what an event tells the caller."""
    words = "".join(part.text or "" for part in (event.content.parts or ())) if event.content else ""
    if event.partial:
        played.streamed.append(words)
    elif words and event.is_final_response():
        played.result = words
    return event


def reply_to(events: list[Event], answers: Iterator[str]) -> types.Content | None:
    """What the user says next to each call that waits for it; None when nothing does, or they are silent."""
    waiting = [call for event in events for call in event.get_function_calls() if call.name == CONFIRMATION]
    parts = []
    for call in waiting:
        answer = next(answers, None)
        if answer is None:
            return None
        confirmation = {"confirmed": answer == "yes", "payload": answer}
        response = types.FunctionResponse(id=call.id, name=CONFIRMATION, response=confirmation)
        parts.append(types.Part(function_response=response))
    return types.Content(role="user", parts=parts) if parts else None


def parts_of(turn: Turn) -> list[types.Part]:
    """A turn of the script in the framework's own parts."""
    parts = [types.Part(text=turn.says)] if turn.says else []
    for ask in turn.calls:
        call = types.FunctionCall(id=ask.call_id, name=ask.tool, args=dict(ask.args))
        parts.append(types.Part(function_call=call))
    return parts


def words_of(content: types.Content) -> str:
    """A message as text: what it says, asks for and brings back."""
    words = []
    for part in content.parts or ():
        if part.text:
            words.append(part.text)
        if part.function_call is not None:
            words.append(f"{part.function_call.name}({part.function_call.args})")
        if part.function_response is not None:
            given = part.function_response.response or {}
            words += [f"{key}: {value}" for key, value in given.items()]
    return " ".join(words)
