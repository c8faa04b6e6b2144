"""The Claude Agent SDK: `query`, `ClaudeSDKClient` or their options, watched by hooks and messages."""

import contextlib
import inspect
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from steadyhelm.adapter import Capabilities
from steadyhelm.adapters.claude_agent.conversation import EVENTS, Answer, Conversation
from steadyhelm.adapters.claude_agent.speaker import Said
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, SettingsError
from steadyhelm.forks import ForkSafeLock

try:
    import anyio
    import claude_agent_sdk as sdk
except ImportError as exc:
    raise MissingExtraError("Claude Agent SDK adapter", extra="claude") from exc

CAN: Final[Capabilities] = {
    "before_model": {"guide"},  # when the user speaks
    "before_tool": {"deny", "stop"},
    "after_tool": {"guide", "stop"},
}
_ASKING: Final[Capabilities] = {**CAN, "before_tool": {"deny", "ask", "stop"}}

_ASKING_TIMEOUT_S: Final = 24 * 3600.0
_CONVERSATIONS_KEPT: Final = 1000
_LOOK_EVERY_S: Final = 0.001
_LOOKS: Final = 20
_INPUT_TOKENS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class ClaudeAgentAdapter:
    """Gives the watched counterpart of what it is given.

    * `query` gives a function to call like it; `ClaudeSDKClient`, the class or a client that has not
      connected yet, one to use like it: every reply and call is seen, and a stop raises `RunStopped`.
    * `ClaudeAgentOptions` give a copy with our hooks beside those that are there: every call is seen and
      steered; a turn that was stopped ends with `terminal_reason="hook_stopped"`.

    A `can_use_tool` in the options is also how the user is asked, unless `ask` is given.
    """

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Whether it is the SDK's query function, client or options."""
        return agent is sdk.query or _is_client_class(agent) or isinstance(agent, _KINDS)

    def __new__(cls, monitor: Monitor, agent: Any, *, ask: Ask | None = None) -> Any:
        """The watched counterpart of the agent."""
        watch = Watch(monitor, ask)
        if monitor.disabled:
            return agent
        if agent is sdk.query:
            return watch.query
        if _is_client_class(agent):
            return watch.client_class(agent)
        if isinstance(agent, sdk.ClaudeAgentOptions):
            return watch.options(agent)
        if isinstance(agent, sdk.ClaudeSDKClient):
            if getattr(agent, "_query", None) is not None:
                raise SettingsError("wrap() got a client that is connected: hooks are set when it connects.")
            client = object.__new__(watch.client_class(type(agent)))
            vars(client).update(vars(agent))
            client._is_watched()
            return client
        raise SettingsError(
            f"wrap() got a {type(agent).__name__}, which is none of the Claude Agent SDK's query, "
            "ClaudeSDKClient or ClaudeAgentOptions."
        )


_KINDS: Final = (sdk.ClaudeAgentOptions, sdk.ClaudeSDKClient)


class Watch:
    """Watches conversations for one monitor; `ask` puts a question to the user."""

    def __init__(self, monitor: Monitor, ask: Ask | None = None) -> None:
        self._monitor = monitor
        self._ask = ask
        self._boundary(sdk.ClaudeAgentOptions())  # an `ask` that is no function is refused now
        self._conversations: OrderedDict[str, Conversation] = OrderedDict()
        self._lock = ForkSafeLock()

    def options(self, options: Any) -> Any:
        """A copy of the options with our hooks; whoever talks with them, each session is a conversation."""
        boundary = self._boundary(options)

        async def hook(payload: Any, _call_id: Any, _context: Any) -> Answer:
            return _answer(self._known(boundary, str(payload.get("session_id"))), payload)

        return self._with_hooks(options, hook)

    def _known(self, boundary: Boundary, session: str) -> Conversation:
        with self._lock:
            known = self._conversations.get(session) or Conversation(boundary)
            self._conversations[session] = known
            self._conversations.move_to_end(session)
            if len(self._conversations) > _CONVERSATIONS_KEPT:
                self._conversations.popitem(last=False)
            return known

    async def query(self, *, prompt: Any, options: Any = None, transport: Any = None) -> AsyncIterator[Any]:
        """As `query` of the SDK: what it yields, and `RunStopped` when the agent was stopped."""
        options = options if options is not None else sdk.ClaudeAgentOptions()
        talk = self.conversation(options, prompt if isinstance(prompt, str) else "")
        messages = sdk.query(prompt=prompt, options=self.hooked(options, talk), transport=transport)
        try:
            async with contextlib.aclosing(heard(talk, messages)) as listening:
                async for message in listening:
                    yield message
        except BaseException as error:
            await _cut_off(messages)
            left = talk.finish(error)
            if left is error or not isinstance(error, Exception):
                raise
            raise left from error  # type: ignore[misc]
        left = talk.finish()
        if left is not None:
            raise left

    def client_class(self, base: Any) -> Any:
        """A class of clients, each of which is a conversation from its first prompt to its end."""
        watch = self

        class WatchedClient(base):
            __doc__ = base.__doc__

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self._is_watched()

            def _is_watched(self) -> None:
                options: Any = self.__dict__["options"]
                self._talk = watch.conversation(options)
                self.options = watch.hooked(options, self._talk)

            async def receive_messages(self) -> AsyncIterator[Any]:
                messages = super().receive_messages()
                async with (
                    contextlib.aclosing(messages),
                    contextlib.aclosing(heard(self._talk, messages)) as heard_of,
                ):
                    async for message in heard_of:
                        yield message

            async def disconnect(self) -> None:
                try:
                    await super().disconnect()
                finally:
                    self._talk.finish()

            async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> Any:
                unheard = self._talk.unheard_stop()
                self._talk.finish(error)
                swallow = await super().__aexit__(kind, error, trace)
                if unheard is not None and error is None:
                    raise unheard
                return swallow

        WatchedClient.__name__ = WatchedClient.__qualname__ = base.__name__
        return WatchedClient

    def conversation(self, options: Any, goal: str = "") -> Conversation:
        """A conversation whose messages somebody listens to."""
        return Conversation(self._boundary(options), goal, listens=True)

    def hooked(self, options: Any, talk: Conversation) -> Any:
        """A copy of the options whose hooks tell of one conversation."""

        async def hook(payload: Any, call_id: Any, _context: Any) -> Answer:
            # A message and the hook about it come one right after the other, and either may be served first.
            event, looks = payload.get("hook_event_name"), _LOOKS
            while looks and talk.awaits(event, call_id):
                looks -= 1
                await anyio.sleep(_LOOK_EVERY_S)
            return _answer(talk, payload)

        return self._with_hooks(options, hook)

    def _boundary(self, options: Any) -> Boundary:
        natively = self._ask is None and options.can_use_tool is not None
        return Boundary(self._monitor, "claude_agent", _ASKING if natively else CAN, ask=self._ask)

    def _with_hooks(self, options: Any, hook: Callable[..., Any]) -> Any:
        hook.is_steadyhelm = True  # type: ignore[attr-defined]
        timeout = _ASKING_TIMEOUT_S if self._ask is not None else None
        hooks = {
            event: [
                it for it in matchers if not any(getattr(own, "is_steadyhelm", False) for own in it.hooks)
            ]
            for event, matchers in (options.hooks or {}).items()
        }
        for event in EVENTS:
            hooks[event] = [*hooks.get(event, ()), sdk.HookMatcher(hooks=[hook], timeout=timeout)]
        return replace(options, hooks=hooks)


def _answer(talk: Conversation, payload: Mapping[str, Any]) -> Answer:
    said: list[Answer] = [{}]
    with talk.boundary.guard("hook"):
        said.append(talk.hook(payload))
    return said[-1]


async def heard(talk: Conversation, messages: Any) -> AsyncGenerator[Any]:
    """The messages, each told before it is handed on; a stop comes in place of the one that ends the turn."""
    while True:
        talk.is_waiting = True
        try:
            with talk.activate():
                message = await anext(messages)
        except StopAsyncIteration:
            return
        finally:
            talk.is_waiting = False
        with talk.boundary.guard("message"):
            tell(talk, message)
        if talk.stopped is not None and isinstance(message, sdk.ResultMessage):
            talk.finish()
            raise talk.stopped
        yield message


async def _cut_off(messages: Any) -> None:
    """End a conversation from inside: closed from outside, the SDK's generator leaves the ones in it open."""
    with contextlib.suppress(Exception), anyio.CancelScope() as scope:
        scope.cancel()
        await anext(messages)


def tell(talk: Conversation, message: Any) -> None:
    """Tell what a message shows of the model's replies, of sub-agents and of what a turn took."""
    if isinstance(message, sdk.AssistantMessage):
        text = "\n".join(part.text for part in message.content if isinstance(part, sdk.TextBlock))
        if message.error is not None:
            talk.failure_shown(text or message.error, parent_call=message.parent_tool_use_id)
            return
        calls = tuple(part.id for part in message.content if isinstance(part, sdk.ToolUseBlock))
        given, made = _tokens(message.usage)
        name = message.message_id or message.uuid or ""
        said = Said(name=name, text=text, model=message.model, input_tokens=given, output_tokens=made)
        talk.reply_shown(said, calls=calls, parent_call=message.parent_tool_use_id)
    elif isinstance(message, sdk.ResultMessage):
        given, made = _tokens(message.usage)
        talk.turn_shown(input_tokens=given, output_tokens=made, total_cost_usd=message.total_cost_usd)
    elif isinstance(message, sdk.TaskStartedMessage):
        talk.part_shown(message.task_id, message.tool_use_id)


def _tokens(usage: Mapping[str, Any] | None) -> tuple[int, int]:
    """What went in, from a cache or not, and what came out."""
    counts = usage or {}
    given = sum(int(counts.get(name) or 0) for name in _INPUT_TOKENS)
    return given, int(counts.get("output_tokens") or 0)


def _is_client_class(agent: Any) -> bool:
    return inspect.isclass(agent) and issubclass(agent, sdk.ClaudeSDKClient)
