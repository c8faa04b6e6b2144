"""Wrap `query`, `ClaudeSDKClient` or the options of the Claude Agent SDK.

`watch_conversations` watches all of a process: it replaces `query` and `ClaudeSDKClient.connect`.
"""

import contextlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from steadyhelm.adapter import Capabilities
from steadyhelm.adapters.claude_agent.hooks import EVENTS, ClaudeConversation, HookOutput
from steadyhelm.adapters.claude_agent.translate import record_message
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.bounded import BoundedDict
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, SettingsError
from steadyhelm.forks import ForkSafeLock
from steadyhelm.host_objects import is_a

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
CAN_ASK: Final[Capabilities] = {**CAN, "before_tool": {"deny", "ask", "stop"}}

_ASK_TIMEOUT_S: Final = 24 * 3600.0
_MAX_CONVERSATIONS: Final = 1000
_POLL_INTERVAL_S: Final = 0.001
_MAX_POLLS: Final = 20


class ClaudeAgentAdapter:
    """Watch conversations with Claude Code.

    * `monitor.wrap(query)` returns a function to call like it; `monitor.wrap(ClaudeSDKClient)`, the class or
      a client that has not connected yet, one to use like it. Every reply and call is recorded, and a stop
      raises `RunStopped`.
    * `monitor.wrap(options)` returns a copy of `ClaudeAgentOptions` with our hooks added. Every call is
      recorded and steered; a turn that was stopped ends with `terminal_reason="hook_stopped"`.

    The user is asked through `can_use_tool` of the options, unless `ask` is given.
    """

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether this is the SDK's query function, client or options."""
        return agent is sdk.query or _is_client_class(agent) or is_a(agent, _KINDS)

    def __new__(cls, monitor: Monitor, agent: Any, *, ask: Ask | None = None) -> Any:
        """Return the watched counterpart of the agent."""
        watch = Conversations(monitor, ask)
        if monitor.disabled:
            return agent
        if agent is sdk.query:
            return watch.query
        if _is_client_class(agent):
            return watch.make_client_class(agent)
        if is_a(agent, sdk.ClaudeAgentOptions):
            return watch.add_hooks(agent)
        if is_a(agent, sdk.ClaudeSDKClient):
            if getattr(agent, "_query", None) is not None:
                raise SettingsError("wrap() got a client that is connected: hooks are set when it connects.")
            client = object.__new__(watch.make_client_class(type(agent)))
            vars(client).update(vars(agent))
            client._start_conversation()
            return client
        raise SettingsError(
            f"wrap() got a {type(agent).__name__}, which is none of the Claude Agent SDK's query, "
            "ClaudeSDKClient or ClaudeAgentOptions."
        )


_KINDS: Final = (sdk.ClaudeAgentOptions, sdk.ClaudeSDKClient)


class Conversations:
    """The conversations of one monitor."""

    def __init__(self, monitor: Monitor, ask: Ask | None = None) -> None:
        self._monitor = monitor
        self._ask = ask
        self._boundary(sdk.ClaudeAgentOptions())  # raises for an `ask` that is no function
        self._by_session: BoundedDict[str, ClaudeConversation] = BoundedDict(_MAX_CONVERSATIONS)
        self._lock = ForkSafeLock()

    def watch_client(self, client: Any) -> None:
        """Make a client that has not connected yet a watched one."""
        client.__class__ = self.make_client_class(type(client))
        client._start_conversation()  # noqa: SLF001 - its class is ours now

    def add_hooks(self, options: Any) -> Any:
        """Return a copy of the options with our hooks; each session is a conversation."""
        boundary = self._boundary(options)

        async def hook(payload: Any, _call_id: Any, _context: Any) -> HookOutput:
            return _handle_hook(self._find_or_start(boundary, str(payload.get("session_id"))), payload)

        return self._with_hooks(options, hook)

    def _find_or_start(self, boundary: Boundary, session: str) -> ClaudeConversation:
        with self._lock:
            conversation = self._by_session.get(session) or ClaudeConversation(boundary)
            self._by_session[session] = conversation
            return conversation

    async def query(self, *, prompt: Any, options: Any = None, transport: Any = None) -> AsyncIterator[Any]:
        """Yield what `query` of the SDK yields; raises `RunStopped` when the agent was stopped."""
        options = options if options is not None else sdk.ClaudeAgentOptions()
        conversation = self._start(options, prompt if is_a(prompt, str) else "")
        messages = sdk.query(
            prompt=prompt, options=self._add_hooks_for(options, conversation), transport=transport
        )
        try:
            async with contextlib.aclosing(watch_messages(conversation, messages)) as watched:
                async for message in watched:
                    yield message
        except BaseException as error:
            await _cancel(messages)
            left = conversation.finish(error)
            if left is error or not is_a(error, Exception):
                raise
            raise left from error  # type: ignore[misc]
        left = conversation.finish()
        if left is not None:
            raise left

    def make_client_class(self, base: Any) -> Any:
        """Return a class of clients, each of which is one conversation."""
        watch = self

        class WatchedClient(base):
            __doc__ = base.__doc__

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self._start_conversation()

            def _start_conversation(self) -> None:
                options: Any = self.__dict__["options"]
                self._conversation = watch._start(options)
                self.options = watch._add_hooks_for(options, self._conversation)

            async def receive_messages(self) -> AsyncIterator[Any]:
                messages = super().receive_messages()
                async with (
                    contextlib.aclosing(messages),
                    contextlib.aclosing(watch_messages(self._conversation, messages)) as watched,
                ):
                    async for message in watched:
                        yield message

            async def disconnect(self) -> None:
                try:
                    await super().disconnect()
                finally:
                    self._conversation.finish()

            async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> Any:
                stop = self._conversation.find_unraised_stop()
                self._conversation.finish(error)
                swallow = await super().__aexit__(kind, error, trace)
                if stop is not None and error is None:
                    raise stop
                return swallow

        WatchedClient.__name__ = WatchedClient.__qualname__ = base.__name__
        return WatchedClient

    def _start(self, options: Any, goal: str = "") -> ClaudeConversation:
        return ClaudeConversation(self._boundary(options), goal, has_messages=True)

    def _add_hooks_for(self, options: Any, conversation: ClaudeConversation) -> Any:
        """Return a copy of the options with hooks for one conversation."""

        async def hook(payload: Any, call_id: Any, _context: Any) -> HookOutput:
            # A message and the hook about it come in either order: wait a moment for the message.
            event, polls = payload.get("hook_event_name"), _MAX_POLLS
            while polls and conversation.is_waiting_for_message(event, call_id):
                polls -= 1
                await anyio.sleep(_POLL_INTERVAL_S)
            return _handle_hook(conversation, payload)

        return self._with_hooks(options, hook)

    def _boundary(self, options: Any) -> Boundary:
        is_native = self._ask is None and options.can_use_tool is not None
        return Boundary(self._monitor, "claude_agent", CAN_ASK if is_native else CAN, ask=self._ask)

    def _with_hooks(self, options: Any, hook: Callable[..., Any]) -> Any:
        hook.is_steadyhelm = True  # type: ignore[attr-defined]
        timeout = _ASK_TIMEOUT_S if self._ask is not None else None
        hooks = {
            event: [it for it in matchers if not _is_ours(it)]
            for event, matchers in (options.hooks or {}).items()
        }
        for event in EVENTS:
            hooks[event] = [*hooks.get(event, ()), sdk.HookMatcher(hooks=[hook], timeout=timeout)]
        return replace(options, hooks=hooks)


def has_our_hooks(options: Any) -> bool:
    """Return whether options have hooks of ours, of whatever monitor."""
    hooks = getattr(options, "hooks", None) or {}
    return any(_is_ours(matcher) for matchers in hooks.values() for matcher in matchers)


def _is_ours(matcher: Any) -> bool:
    return any(getattr(own, "is_steadyhelm", False) for own in matcher.hooks)


def _handle_hook(conversation: ClaudeConversation, payload: Mapping[str, Any]) -> HookOutput:
    output: HookOutput = {}
    with conversation.boundary.guard("hook"):
        output.update(conversation.handle_hook(payload))
    return output


async def watch_messages(conversation: ClaudeConversation, messages: Any) -> AsyncGenerator[Any]:
    """Record and yield messages; raises a stop in place of the message that ends the turn."""
    while True:
        conversation.is_waiting = True
        try:
            with conversation.activate():
                message = await anext(messages)
        except StopAsyncIteration:
            return
        finally:
            conversation.is_waiting = False
        with conversation.boundary.guard("message"):
            record_message(conversation, message)
        if conversation.stopped is not None and is_a(message, sdk.ResultMessage):
            conversation.finish()
            raise conversation.stopped
        yield message


def watch_conversations(monitor: Monitor, patches: Patches) -> None:
    """Watch all queries, and all clients that connect from now on; options with our hooks are watched."""
    conversations = Conversations(monitor)

    def make_query(query: Method) -> Method:
        def start_query(*, options: Any = None, **given: Any) -> Any:
            is_ours = not patches.is_active or monitor.disabled or has_our_hooks(options)
            return (query if is_ours else conversations.query)(options=options, **given)

        return start_query

    def make_connect(connect: Method) -> Method:
        async def connect_watched(self: Any, *args: Any, **given: Any) -> Any:
            if patches.is_active and not monitor.disabled and not has_our_hooks(self.options):
                conversations.watch_client(self)
            return await connect(self, *args, **given)

        return connect_watched

    patches.replace_function(sdk.query, make_query)
    patches.replace_method(sdk.ClaudeSDKClient, "connect", make_connect)


async def _cancel(messages: Any) -> None:
    """End the SDK's generator from inside: closed from outside, it leaves its inner generators open."""
    with contextlib.suppress(Exception), anyio.CancelScope() as scope:
        scope.cancel()
        await anext(messages)


def _is_client_class(agent: Any) -> bool:
    return inspect.isclass(agent) and issubclass(agent, sdk.ClaudeSDKClient)
