"""Google ADK: a plugin, and a runner that has it."""

from typing import TYPE_CHECKING

from steadyhelm.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.google_adk.plugin import SteadyhelmPlugin as SteadyhelmPlugin
    from steadyhelm.adapters.google_adk.runner import GoogleADKAdapter as GoogleADKAdapter

__getattr__ = lazy_names(__name__, {"GoogleADKAdapter": "runner", "SteadyhelmPlugin": "plugin"})
