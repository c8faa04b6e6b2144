"""Plays scenes with a plain loop over Anthropic's client: messages against an endpoint on loopback."""

from typing import Any

import anthropic
from fake_endpoints import INNER
from plain_agent import Loop, PlainStage, Tools
from script import Played

OPTIONS: dict[str, Any] = {"api_key": "none", "max_retries": 0}
MODEL = "claude-scripted"


class TheStage(PlainStage):
    """Twenty lines: ask, do what the model asks for, ask again."""

    name = "anthropic"

    def client(self, url: str) -> anthropic.Anthropic:
        """A client that knows where the endpoint is."""
        return anthropic.Anthropic(base_url=url, **OPTIONS)

    def async_client(self, url: str) -> anthropic.AsyncAnthropic:
        """The same, awaited."""
        return anthropic.AsyncAnthropic(base_url=url, **OPTIONS)

    def agent(self, goal: str, tools: Tools, system: str = "") -> Loop:
        """The loop itself."""
        about: dict[str, Any] = {"model": MODEL, "max_tokens": 1000, **({"system": system} if system else {})}
        messages: list[Any] = [{"role": "user", "content": goal}]
        while True:
            message = yield {**about, "messages": messages}
            messages.append({"role": "assistant", "content": message.content})
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                return "".join(block.text for block in message.content)
            results = []
            for call in calls:
                result = {"type": "tool_result", "tool_use_id": call.id}
                try:
                    result["content"] = yield from tools.run(call.name, call.input)
                except (LookupError, TypeError, tools.failure) as exc:
                    result |= {"content": f"{type(exc).__name__}: {exc}", "is_error": True}
                results.append(result)
            messages.append({"role": "user", "content": results})

    def inner(self, task: str) -> Loop:
        """The agent inside `delegate`."""
        return self.agent(task, Tools(Played(), self.inner), INNER)

    def ask(self, client: Any, request: dict[str, Any], _played: Played) -> Any:
        """One request."""
        return client.messages.create(**request)

    async def ask_async(self, client: Any, request: dict[str, Any], _played: Played) -> Any:
        """One request, awaited."""
        return await client.messages.create(**request)

    def ask_streamed(self, client: Any, request: dict[str, Any], played: Played) -> Any:
        """One request whose reply comes in pieces."""
        with client.messages.stream(**request) as stream:
            played.streamed += list(stream.text_stream)
            return stream.get_final_message()

    async def ask_streamed_async(self, client: Any, request: dict[str, Any], played: Played) -> Any:
        """The same, awaited."""
        async with client.messages.stream(**request) as stream:
            played.streamed += [text async for text in stream.text_stream]
            return await stream.get_final_message()
