"""CrewAI: crews, agents and flows, watched by hooks and events of their own context.

Beside the usual modules there is `calls`: hooks and events each report a part of every call,
and the parts must be joined.
"""

from typing import TYPE_CHECKING

from steadyhelm.adapters import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.crewai.entry import CrewAIAdapter as CrewAIAdapter
    from steadyhelm.adapters.crewai.entry import DriftCrew as DriftCrew
    from steadyhelm.adapters.crewai.entry import watch_crews as watch_crews

__getattr__ = lazy_names(
    __name__,
    {
        "CrewAIAdapter": "entry",
        "DriftCrew": "entry",
        "watch_crews": "entry",
        "watch_crews_and_agents": "entry",
    },
)
