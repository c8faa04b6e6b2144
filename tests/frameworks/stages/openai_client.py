"""Plays scenes with a plain loop over OpenAI's client: chat completions against an endpoint on loopback."""

import json
from typing import Any

import openai
from fake_endpoints import INNER
from plain_agent import Loop, PlainStage, Tools, told
from script import Played

OPTIONS: dict[str, Any] = {"api_key": "none", "max_retries": 0}
MODEL = "gpt-scripted"
USAGE = {"include_usage": True}


class TheStage(PlainStage):
    """Twenty lines: ask, do what the model asks for, ask again."""

    name = "openai"

    def client(self, url: str) -> openai.OpenAI:
        """A client that knows where the endpoint is."""
        return openai.OpenAI(base_url=f"{url}/v1", **OPTIONS)

    def async_client(self, url: str) -> openai.AsyncOpenAI:
        """The same, awaited."""
        return openai.AsyncOpenAI(base_url=f"{url}/v1", **OPTIONS)

    def agent(self, goal: str, tools: Tools, system: str = "") -> Loop:
        """The loop itself."""
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": goal})
        while True:
            message = yield {"messages": messages, "model": MODEL}
            messages.append(message)
            if not message.tool_calls:
                return str(message.content)
            for call in message.tool_calls:
                try:
                    result = yield from tools.run(call.function.name, json.loads(call.function.arguments))
                except (LookupError, TypeError, tools.failure) as exc:
                    result = told(exc)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    def inner(self, task: str) -> Loop:
        """The agent inside `delegate`."""
        return self.agent(task, Tools(Played(), self.inner), INNER)

    def ask(self, client: Any, request: dict[str, Any], _played: Played) -> Any:
        """One request."""
        return client.chat.completions.create(**request).choices[0].message

    async def ask_async(self, client: Any, request: dict[str, Any], _played: Played) -> Any:
        """One request, awaited."""
        return (await client.chat.completions.create(**request)).choices[0].message

    def ask_streamed(self, client: Any, request: dict[str, Any], played: Played) -> Any:
        """One request whose reply comes in pieces."""
        with client.chat.completions.stream(**request, stream_options=USAGE) as stream:
            played.streamed += [event.delta for event in stream if event.type == "content.delta"]
            return stream.get_final_completion().choices[0].message

    async def ask_streamed_async(self, client: Any, request: dict[str, Any], played: Played) -> Any:
        """The same, awaited."""
        async with client.chat.completions.stream(**request, stream_options=USAGE) as stream:
            played.streamed += [event.delta async for event in stream if event.type == "content.delta"]
            return (await stream.get_final_completion()).choices[0].message
