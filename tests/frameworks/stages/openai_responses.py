"""Plays scenes with a plain loop over OpenAI's client: responses, held by the model's side."""

import json
from typing import Any

import openai
from fake_endpoints import INNER
from plain_agent import Loop, PlainStage, Tools, told
from script import Played

OPTIONS: dict[str, Any] = {"api_key": "none", "max_retries": 0}
MODEL = "gpt-scripted"


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
        about: dict[str, Any] = {"model": MODEL, **({"instructions": system} if system else {})}
        request: dict[str, Any] = {"input": goal}
        while True:
            response = yield {**about, **request}
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return str(response.output_text)
            results = []
            for call in calls:
                try:
                    result = yield from tools.run(call.name, json.loads(call.arguments))
                except (LookupError, TypeError, tools.failure) as exc:
                    result = told(exc)
                results.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
            request = {"input": results, "previous_response_id": response.id}

    def inner(self, task: str) -> Loop:
        """The agent inside `delegate`."""
        return self.agent(task, Tools(Played(), self.inner), INNER)

    def ask(self, client: Any, request: dict[str, Any], _played: Played) -> Any:
        """One request."""
        return client.responses.create(**request)

    async def ask_async(self, client: Any, request: dict[str, Any], _played: Played) -> Any:
        """One request, awaited."""
        return await client.responses.create(**request)

    def ask_streamed(self, client: Any, request: dict[str, Any], played: Played) -> Any:
        """One request whose reply comes in pieces."""
        with client.responses.stream(**request) as stream:
            played.streamed += [it.delta for it in stream if it.type == "response.output_text.delta"]
            return stream.get_final_response()

    async def ask_streamed_async(self, client: Any, request: dict[str, Any], played: Played) -> Any:
        """The same, awaited."""
        async with client.responses.stream(**request) as stream:
            played.streamed += [it.delta async for it in stream if it.type == "response.output_text.delta"]
            return await stream.get_final_response()
