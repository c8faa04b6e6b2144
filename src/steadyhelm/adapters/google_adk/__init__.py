"""Google ADK: a plugin and a watched runner; `invocations` holds what lives longer than one callback."""

from typing import TYPE_CHECKING

from steadyhelm.adapters import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.google_adk.entry import GoogleADKAdapter as GoogleADKAdapter
    from steadyhelm.adapters.google_adk.hooks import SteadyhelmPlugin as SteadyhelmPlugin

__getattr__ = lazy_names(
    __name__,
    {
        "GoogleADKAdapter": "entry",
        "SteadyhelmPlugin": "hooks",
        "watch_runners": "entry",
    },
)
