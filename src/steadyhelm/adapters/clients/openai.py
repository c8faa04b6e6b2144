"""Watch what goes through an OpenAI client, or any client that is used like one.

Chat completions and responses, plain, streamed, parsed, raw and in the background: each reply is a model
call, and what came of the calls it asked for is read from the request that brings it.
"""

from typing import Any, Final

from steadyhelm.adapters.clients.chat import ChatDialect
from steadyhelm.adapters.clients.responses import ResponsesDialect
from steadyhelm.adapters.clients.wrapping import Surface, found, unwrap, wrap
from steadyhelm.boundary.driver import Ask
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import SettingsError

SURFACES: Final = (
    Surface("chat.completions", ChatDialect()),
    Surface("responses", ResponsesDialect(), later=("retrieve",)),
    Surface("beta.chat.completions", ChatDialect()),
    Surface("beta.responses", ResponsesDialect(), later=("retrieve",)),
)


class OpenAIClientAdapter:
    """`monitor.wrap(openai.OpenAI())`: gives the client itself, watched in place; `unwrap` puts it back."""

    def __new__(cls, monitor: Monitor, client: Any, *, ask: Ask | None = None) -> Any:
        """The client, watched."""
        if not cls.can_wrap(client):
            raise SettingsError(
                f"wrap() got a {type(client).__name__}, which has no chat.completions.create to watch."
            )
        return wrap(monitor, client, "openai_client", SURFACES, ask)

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Whether the object can be used like OpenAI's client."""
        return callable(found(agent, "chat.completions.create"))

    @staticmethod
    def unwrap(client: Any) -> Any:
        """The client as it was before; runs that went on in it end."""
        return unwrap(client)
