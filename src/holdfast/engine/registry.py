"""Finds plug-ins by name: our own in a table, everybody else's by entry point.

Scanning the entry points of an environment costs as much as starting Python, so ours are listed
here, and the scan happens only when somebody asks for a name that is not.
A test keeps the table equal to the one in pyproject.toml.
"""

import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from holdfast.engine.health import logger
from holdfast.errors import SettingsError

DETECTORS: Final = "holdfast.detectors"
SINKS: Final = "holdfast.sinks"
CHANNELS: Final = "holdfast.channels"
ADAPTERS: Final = "holdfast.adapters"

_USUAL_MONITOR: Final = "holdfast.assembly:DriftMonitor"

OWN: Final = {
    DETECTORS: {
        "action_loop": "holdfast.detectors.action_loop:ActionLoop",
        "chanting": "holdfast.detectors.chanting:Chanting",
        "edit_revert": "holdfast.detectors.edit_revert:EditRevert",
        "failing_loop": "holdfast.detectors.failing_loop:FailingLoop",
        "goal_drift": "holdfast.detectors.goal_drift:GoalDrift",
        "reply_style": "holdfast.detectors.reply_style:ReplyStyle",
        "resource_spike": "holdfast.detectors.resource_spike:ResourceSpike",
        "stagnation": "holdfast.detectors.stagnation:Stagnation",
        "transition": "holdfast.detectors.transition:Transition",
        "user_correction": "holdfast.detectors.user_correction:UserCorrection",
    },
    SINKS: {
        "callback": "holdfast.sinks.callback:Callback",
        "otel": "holdfast.sinks.otel:OTel",
        "store": "holdfast.sinks.store:StoreSink",
    },
    CHANNELS: {
        "discord": "holdfast.sinks.alerts.discord:Discord",
        "slack": "holdfast.sinks.alerts.slack:Slack",
        "webhook": "holdfast.sinks.alerts.webhook:Webhook",
    },
    ADAPTERS: {
        "agent_framework": "holdfast.adapters.agent_framework:AgentFrameworkAdapter",
        "anthropic_client": "holdfast.adapters.clients.anthropic:AnthropicClientAdapter",
        "claude_agent": "holdfast.adapters.claude_agent:ClaudeAgentAdapter",
        "crewai": "holdfast.adapters.crewai:CrewAIAdapter",
        "generic": "holdfast.adapters.generic:GenericAdapter",
        "google_adk": "holdfast.adapters.google_adk:GoogleADKAdapter",
        "langchain": "holdfast.adapters.langchain:LangChainAdapter",
        "openai_agents": "holdfast.adapters.openai_agents:OpenAIAgentsAdapter",
        "openai_client": "holdfast.adapters.clients.openai:OpenAIClientAdapter",
        "pydantic_ai": "holdfast.adapters.pydantic_ai:PydanticAIAdapter",
        "strands": "holdfast.adapters.strands:StrandsAdapter",
        "runfile": "holdfast.adapters.runfile:RunFile",
    },
}


def load(group: str, name: str) -> Any:
    """The plug-in of that name; ours first, so that nobody replaces one of them unseen."""
    own = OWN[group].get(name)
    if own is not None:
        module, attribute = own.split(":")
        return getattr(importlib.import_module(module), attribute)
    for entry in _others(group):
        if entry.name == name:
            return entry.load()
    kind = group.removeprefix("holdfast.").removesuffix("s")
    raise SettingsError(f"There is no {kind} named {name!r}. Installed: {', '.join(names(group))}.")


def names(group: str) -> list[str]:
    """Every plug-in of a group, ours first."""
    return [*OWN[group], *others(group)]


def usual_monitor(**settings: Any) -> Any:
    """A monitor of the usual make: named, not imported, since it stands above whoever asks for it."""
    module, attribute = _USUAL_MONITOR.split(":")
    return getattr(importlib.import_module(module), attribute)(**settings)


def others(group: str) -> list[str]:
    """The plug-ins of a group that are not ours."""
    return [entry.name for entry in _others(group)]


def _others(group: str) -> list[EntryPoint]:
    found = []
    for entry in entry_points(group=group):
        if entry.value == OWN[group].get(entry.name):
            continue
        if entry.name in OWN[group]:
            logger.warning("The plug-in %s has a name of ours, %r, and is left out", entry.value, entry.name)
            continue
        found.append(entry)
    return found
