"""Clients of model APIs, watched in place: OpenAI's, any used like it, Anthropic's, and litellm.

Beside the usual modules there are `formats`, with one class for each way to ask a model; `litellm_calls`,
since it has functions and no client; `watched_methods`, which all of them share, and which record a reply
while the host reads it; `conversations` with `fingerprints`, since a client has no conversation of its own
and it must be recognised from the messages; and `patches`, which `steadyhelm.install()` makes.
"""

from typing import TYPE_CHECKING

from steadyhelm.adapters import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.clients.entry import AnthropicClientAdapter as AnthropicClientAdapter
    from steadyhelm.adapters.clients.entry import OpenAIClientAdapter as OpenAIClientAdapter
    from steadyhelm.adapters.clients.litellm_calls import LiteLLMAdapter as LiteLLMAdapter

__getattr__ = lazy_names(
    __name__,
    {
        "AnthropicClientAdapter": "entry",
        "LiteLLMAdapter": "litellm_calls",
        "OpenAIClientAdapter": "entry",
        "watch_chat_completions": "patches",
        "watch_responses": "patches",
        "watch_beta_responses": "patches",
        "watch_messages": "patches",
        "watch_beta_messages": "patches",
        "watch_litellm": "litellm_calls",
    },
)
