"""Clients of model APIs, watched in place: OpenAI's, any used like it, Anthropic's, and litellm.

Beside the usual modules there are `openai_formats` and `anthropic_format`, one class for each way to ask a
model; `litellm_calls`, since it has functions and no client; `watched_methods`, which all of them share;
`streams`, since a reply is recorded while the host reads it; and `conversations` with `fingerprints`, since a
client has no conversation of its own and it must be recognised from the messages.
"""

from typing import TYPE_CHECKING

from steadyhelm.adapters.lazy_names import lazy_names

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
    },
)
