"""CrewAI: crews, agents and flows, watched by hooks and events of their own context."""

from typing import TYPE_CHECKING

from steadyhelm.adapters.lazy_names import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.crewai.crew import CrewAIAdapter as CrewAIAdapter
    from steadyhelm.adapters.crewai.crew import DriftCrew as DriftCrew
    from steadyhelm.adapters.crewai.crew import watch_crews as watch_crews

__getattr__ = lazy_names(__name__, {"CrewAIAdapter": "crew", "DriftCrew": "crew", "watch_crews": "crew"})
