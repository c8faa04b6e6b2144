"""Plays scenes with the Claude Agent SDK: the real Claude Code, a model on loopback, our own tools."""

import asyncio
import tempfile
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    StreamEvent,
    create_sdk_mcp_server,
    query,
    tool,
)
from fake_messages import FakeMessages
from script import How, Played, Scene, ToolBroke

from steadyhelm import Monitor

INNER = "You are inner."
OUTER = "You keep the books."
NO_NETWORK = {
    "ANTHROPIC_API_KEY": "none",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    # Tools are known by their own names, as the scenes call them.
    "CLAUDE_AGENT_SDK_MCP_NO_PREFIX": "1",
}


def environment(model: FakeMessages, home: str) -> dict[str, str]:
    """What Claude Code needs to work in this home, with this model, and to leave nothing elsewhere."""
    places = {"HOME": home, "TMPDIR": home, "CLAUDE_CODE_TMPDIR": home}
    return {**NO_NETWORK, **places, "ANTHROPIC_BASE_URL": model.url}


class TheStage:
    """`query` with tools of an MCP server in this process; the user is asked through `ask`.

    Its model is behind HTTP: what breaks there reaches the caller as the SDK's own error.
    """

    name = "claude"
    ways: tuple[How, ...] = ("async", "async stream")
    # A message tells the tokens of its beginning; those that came later count with the turn's last reply.
    tokens = [11, 19]  # noqa: RUF012 - compared with a list
    cannot = {  # noqa: RUF012 - a table, like those of the other stages
        "rollback": "a conversation inside Claude Code cannot be cut short from outside while it goes on"
    }

    def play(self, scene: Scene, monitor: Monitor | None, how: How) -> Played:
        """Build the agent, watch it (with no monitor: leave it as it is) and let it work."""
        with (
            FakeMessages({"": scene.turns, INNER: scene.inner}) as model,
            tempfile.TemporaryDirectory(prefix="sh-") as home,
        ):
            played = Played()
            agent = _Agent(scene, monitor, played, environment(model, home))
            try:
                played.result = asyncio.run(agent.work(how))
            except Exception as exc:  # noqa: BLE001 - what came of it is for the test to judge
                played.error = exc
            # Where it works is told to the model with the first request, and is another place each time.
            played.requests = [text.replace(home, "/home") for text in model.texts()]
            return played


class _Agent:
    """The agent of a scene, and the one inside it."""

    def __init__(self, scene: Scene, monitor: Monitor | None, played: Played, env: dict[str, str]) -> None:
        self._scene, self._played, self._env = scene, played, env
        self._query = query if monitor is None else self._watched(monitor)

    def _watched(self, monitor: Monitor) -> Any:
        from steadyhelm.adapters.claude_agent import ClaudeAgentAdapter

        answers = list(self._scene.answers)
        return ClaudeAgentAdapter(monitor, query, ask=(lambda _: answers.pop(0)) if answers else None)

    async def work(self, how: How) -> str | None:
        """Work on the scene's goal; gives what the agent said in the end."""
        options = self._options(OUTER, self._tools(), include_partial_messages=how == "async stream")
        said = None
        async for message in self._query(prompt=self._scene.goal, options=options):
            if isinstance(message, StreamEvent):
                self._played.streamed.append(
                    message.event.get("delta", {}).get("text") or message.event["type"]
                )
            said = _said(message) or said
        return said

    def _options(self, system_prompt: str, tools: list[Any], **more: Any) -> ClaudeAgentOptions:
        server = create_sdk_mcp_server("ledger", tools=tools)
        return ClaudeAgentOptions(
            system_prompt=system_prompt,
            tools=[],
            mcp_servers={"ledger": server},
            allowed_tools=["mcp__ledger"],
            setting_sources=[],
            env=self._env,
            cwd=self._env["HOME"],
            **more,
        )

    def _tools(self) -> list[Any]:
        made = self._played.made

        @tool("add", "Add two numbers.", {"a": int, "b": int})
        async def add(args: dict[str, Any]) -> dict[str, Any]:
            made.append(("add", args))
            return _text(str(args["a"] + args["b"]))

        @tool("broken", "Never works.", {"what": str})
        async def broken(args: dict[str, Any]) -> dict[str, Any]:
            made.append(("broken", args))
            raise ToolBroke(args["what"])

        @tool("delegate", "Let another agent work on it.", {"task": str})
        async def delegate(args: dict[str, Any]) -> dict[str, Any]:
            made.append(("delegate", args))
            said = None
            options = self._options(INNER, [self._lookup()])
            async for message in self._query(prompt=args["task"], options=options):
                said = _said(message) or said
            return _text(said or "")

        return [add, self._lookup(), broken, delegate]

    def _lookup(self) -> Any:
        @tool("lookup", "Look up an entry.", {"key": str})
        async def lookup(args: dict[str, Any]) -> dict[str, Any]:
            self._played.made.append(("lookup", args))
            return _text(f"no entry for {args['key']}")

        return lookup


def _said(message: Any) -> str | None:
    return message.result if isinstance(message, ResultMessage) else None


def _text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}
