"""Clients of model APIs, watched in place: OpenAI's, any client used like it, and Anthropic's.

Beside the usual modules there are `openai_formats` and `anthropic_format`, one class for each way to ask a
model; `watched_methods`, which `entry` and `patches` share; `streams`, since a reply is recorded while the
host reads it; and `conversations` with `fingerprints`, since a client has no conversation of its own and it
must be recognised from the messages.
"""

from typing import TYPE_CHECKING

from steadyhelm.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.clients.entry import AnthropicClientAdapter as AnthropicClientAdapter
    from steadyhelm.adapters.clients.entry import OpenAIClientAdapter as OpenAIClientAdapter

__getattr__ = lazy_names(__name__, {"AnthropicClientAdapter": "entry", "OpenAIClientAdapter": "entry"})
