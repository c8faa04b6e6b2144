"""Watch every conversation of a process: `query` and `ClaudeSDKClient.connect` are replaced."""

from typing import Any

from steadyhelm.adapters.claude_agent.entry import Conversations, has_our_hooks
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError

try:
    import claude_agent_sdk as sdk
except ImportError as exc:
    raise MissingExtraError("Claude Agent SDK adapter", extra="claude") from exc


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
