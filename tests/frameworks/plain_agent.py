"""An agent without a framework: a loop over a client, as people write it.

The loop is a generator: it gives what to ask the model with and gets the model's message back, so that one
loop serves plain, awaited and streamed requests.
"""

import asyncio
import json
from collections.abc import Callable, Generator
from typing import Any, ClassVar

from fake_endpoints import FakeEndpoint
from script import How, Played, Scene, ToolBroke

from steadyhelm import Monitor

Loop = Generator[dict[str, Any], Any, str]


class Tools:
    """The tools of every scene."""

    failure = ToolBroke

    def __init__(self, played: Played, inner: Callable[[str], Loop]) -> None:
        self._played = played
        self._inner = inner

    def run(self, name: str, args: dict[str, Any]) -> Generator[Any, Any, str]:
        """Call a tool; raises what it raises."""
        tool = getattr(self, f"_{name}", None)
        if tool is None or name in {"played", "inner"}:
            raise LookupError(f"there is no tool {name}")
        if name == "add" and not all(isinstance(value, int) for value in args.values()):
            raise TypeError(f"not a number in {args}")
        self._played.made.append((name, args))
        result = tool(**args)
        return (yield from result) if isinstance(result, Generator) else result

    def _add(self, a: int, b: int) -> str:
        return str(a + b)

    def _lookup(self, key: str) -> str:
        return f"no entry for {key}"

    def _broken(self, what: str) -> str:
        raise ToolBroke(what)

    def _delegate(self, task: str) -> Loop:
        return self._inner(task)


def told(failure: Exception) -> str:
    """A failure in the words of a host whose protocol has none for it."""
    return json.dumps({"error": f"{type(failure).__name__}: {failure}"})


class PlainStage:
    """Plays scenes with a plain loop; a subclass knows the client."""

    name = ""
    ways: tuple[How, ...] = ("sync", "async", "stream", "async stream")
    cannot: ClassVar = {
        "deny": "the host makes its calls itself: by the time they are seen they are asked for"
    }

    def play(self, scene: Scene, monitor: Monitor | None, how: How) -> Played:
        """Let the loop work against the scene's endpoint; with a monitor its client is watched."""
        played = Played()
        with FakeEndpoint(scene.turns, scene.inner) as endpoint:
            played.requests = endpoint.texts
            watched = self.watched(monitor, scene)
            work = self.work_async if how.startswith("async") else self.work
            try:
                played.result = work(endpoint.url, watched, scene, played, streams=how.endswith("stream"))
            except Exception as exc:  # noqa: BLE001 - what came of it is for the test to judge
                played.error = exc
        return played

    def watched(self, monitor: Monitor | None, scene: Scene) -> Callable[[Any], Any]:
        """What makes a client a watched one."""
        answers = list(scene.answers)
        ask = (lambda _question: answers.pop(0)) if answers else None
        return lambda client: client if monitor is None else monitor.wrap(client, ask=ask)

    def work(
        self, url: str, watched: Callable[[Any], Any], scene: Scene, played: Played, *, streams: bool
    ) -> str:
        """Walk through the loop with a plain client."""
        with watched(self.client(url)) as client:
            loop = self.agent(scene.goal, Tools(played, self.inner))
            answer = None
            while True:
                try:
                    request = loop.send(answer)
                except StopIteration as done:
                    return done.value
                ask = self.ask_streamed if streams else self.ask
                answer = ask(client, request, played)

    def work_async(
        self, url: str, watched: Callable[[Any], Any], scene: Scene, played: Played, *, streams: bool
    ) -> str:
        """Walk through it with a client that is awaited."""

        async def walk() -> str:
            async with watched(self.async_client(url)) as client:
                loop = self.agent(scene.goal, Tools(played, self.inner))
                answer = None
                while True:
                    try:
                        request = loop.send(answer)
                    except StopIteration as done:
                        return done.value
                    ask = self.ask_streamed_async if streams else self.ask_async
                    answer = await ask(client, request, played)

        return asyncio.run(walk())

    def inner(self, task: str) -> Loop:
        """The agent inside `delegate`."""
        raise NotImplementedError

    def agent(self, goal: str, tools: Tools) -> Loop:
        """The loop itself."""
        raise NotImplementedError
