"""Plays scenes with a plain loop over litellm: its OpenAI provider against an endpoint on loopback."""

import os
from typing import Any, Self

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched

import litellm
from plain_agent import PlainStage
from stages.openai_client import USAGE
from stages.openai_client import TheStage as OpenAIStage


class Functions:
    """The functions of litellm, told where the endpoint is."""

    def __init__(self, url: str) -> None:
        self._options = {"api_base": f"{url}/v1", "api_key": "none", "max_retries": 0}
        self.completion: Any = litellm.completion
        self.acompletion: Any = litellm.acompletion

    def watch(self, watch: Any) -> Self:
        self.completion, self.acompletion = watch(self.completion), watch(self.acompletion)
        return self

    def ask(self, request: dict[str, Any], **options: Any) -> Any:
        model = f"openai/{request['model']}"
        return self.completion(**{**request, "model": model}, **self._options, **options)

    async def ask_async(self, request: dict[str, Any], **options: Any) -> Any:
        model = f"openai/{request['model']}"
        return await self.acompletion(**{**request, "model": model}, **self._options, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass


class TheStage(OpenAIStage):
    """The same loop; litellm calls OpenAI's client."""

    name = "litellm"

    def client(self, url: str) -> Functions:
        """The functions."""
        return Functions(url)

    async_client = client

    def watched(self, monitor: Any, scene: Any) -> Any:
        """Both functions, watched."""
        watch = PlainStage.watched(self, monitor, scene)
        return lambda functions: functions.watch(watch)

    def ask(self, client: Functions, request: dict[str, Any], _played: Any) -> Any:
        """One request."""
        return client.ask(request).choices[0].message

    async def ask_async(self, client: Functions, request: dict[str, Any], _played: Any) -> Any:
        """One request, awaited."""
        return (await client.ask_async(request)).choices[0].message

    def ask_streamed(self, client: Functions, request: dict[str, Any], played: Any) -> Any:
        """One request whose reply comes in pieces."""
        chunks = list(client.ask(request, stream=True, stream_options=USAGE))
        return _join(chunks, played)

    async def ask_streamed_async(self, client: Functions, request: dict[str, Any], played: Any) -> Any:
        """The same, awaited."""
        stream = await client.ask_async(request, stream=True, stream_options=USAGE)
        return _join([chunk async for chunk in stream], played)


def _join(chunks: list[Any], played: Any) -> Any:
    played.streamed += [it.choices[0].delta.content for it in chunks if it.choices[0].delta.content]
    return litellm.stream_chunk_builder(chunks).choices[0].message
