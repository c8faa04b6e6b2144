"""Find plug-ins by name: our own in a table, everybody else's by entry point.

Scanning the entry points of an environment costs as much as starting Python, so ours are listed
here, and the scan happens only when somebody asks for a name that is not.
A test keeps the table equal to the one in pyproject.toml.
"""

import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from steadyhelm.errors import SettingsError
from steadyhelm.logs import logger

DETECTORS: Final = "steadyhelm.detectors"
SINKS: Final = "steadyhelm.sinks"
CHANNELS: Final = "steadyhelm.channels"
ADAPTERS: Final = "steadyhelm.adapters"

_USUAL_MONITOR: Final = "steadyhelm.assembly:DriftMonitor"

OWN: Final = {
    DETECTORS: {
        "action_loop": "steadyhelm.detectors.action_loop:ActionLoop",
        "edit_revert": "steadyhelm.detectors.edit_revert:EditRevert",
        "failing_loop": "steadyhelm.detectors.failing_loop:FailingLoop",
        "goal_drift": "steadyhelm.detectors.goal_drift:GoalDrift",
        "repetitive_text": "steadyhelm.detectors.repetitive_text:RepetitiveText",
        "reply_style": "steadyhelm.detectors.reply_style:ReplyStyle",
        "resource_spike": "steadyhelm.detectors.resource_spike:ResourceSpike",
        "stagnation": "steadyhelm.detectors.stagnation:Stagnation",
        "unusual_order": "steadyhelm.detectors.unusual_order:UnusualOrder",
        "user_correction": "steadyhelm.detectors.user_correction:UserCorrection",
    },
    SINKS: {
        "callback": "steadyhelm.sinks.callback:Callback",
        "incident_log": "steadyhelm.sinks.incident_log:IncidentLog",
        "otel": "steadyhelm.sinks.otel:OTel",
        "store": "steadyhelm.sinks.store:StoreSink",
    },
    CHANNELS: {
        "discord": "steadyhelm.sinks.alerts.discord:Discord",
        "slack": "steadyhelm.sinks.alerts.slack:Slack",
        "webhook": "steadyhelm.sinks.alerts.webhook:Webhook",
    },
    ADAPTERS: {
        "agent_framework": "steadyhelm.adapters.agent_framework:AgentFrameworkAdapter",
        "anthropic_client": "steadyhelm.adapters.clients:AnthropicClientAdapter",
        "claude_agent": "steadyhelm.adapters.claude_agent:ClaudeAgentAdapter",
        "crewai": "steadyhelm.adapters.crewai:CrewAIAdapter",
        "generic": "steadyhelm.adapters.generic:GenericAdapter",
        "google_adk": "steadyhelm.adapters.google_adk:GoogleADKAdapter",
        "langchain": "steadyhelm.adapters.langchain:LangChainAdapter",
        "litellm": "steadyhelm.adapters.clients:LiteLLMAdapter",
        "llama_index": "steadyhelm.adapters.llama_index:LlamaIndexAdapter",
        "openai_agents": "steadyhelm.adapters.openai_agents:OpenAIAgentsAdapter",
        "openai_client": "steadyhelm.adapters.clients:OpenAIClientAdapter",
        "pydantic_ai": "steadyhelm.adapters.pydantic_ai:PydanticAIAdapter",
        "strands": "steadyhelm.adapters.strands:StrandsAdapter",
    },
}


def load(group: str, name: str) -> Any:
    """Return the plug-in of that name; ours first, so that no package replaces one of them unnoticed."""
    own = OWN[group].get(name)
    if own is not None:
        module, attribute = own.split(":")
        return getattr(importlib.import_module(module), attribute)
    for entry in _find_foreign_entries(group):
        if entry.name == name:
            return entry.load()
    kind = group.removeprefix("steadyhelm.").removesuffix("s")
    raise SettingsError(f"There is no {kind} named {name!r}. Installed: {', '.join(list_names(group))}.")


def list_names(group: str) -> list[str]:
    """Return the names of every plug-in of a group, ours first."""
    return [*OWN[group], *list_foreign_names(group)]


def usual_monitor(**settings: Any) -> Any:
    """Return a `DriftMonitor`: loaded by its name, since its module is in a higher layer."""
    module, attribute = _USUAL_MONITOR.split(":")
    return getattr(importlib.import_module(module), attribute)(**settings)


def list_foreign_names(group: str) -> list[str]:
    """Return the names of the plug-ins of a group that other packages bring."""
    return [entry.name for entry in _find_foreign_entries(group)]


def _find_foreign_entries(group: str) -> list[EntryPoint]:
    try:
        entries = entry_points(group=group)
    except Exception as exc:  # noqa: BLE001 - it reads files of every installed package
        logger.warning("Steadyhelm cannot list the plug-ins of other packages: %s", exc)
        return []
    found = []
    for entry in entries:
        if entry.value == OWN[group].get(entry.name):
            continue
        if entry.name in OWN[group]:
            logger.warning("The plug-in %s has a name of ours, %r, and is left out", entry.value, entry.name)
            continue
        found.append(entry)
    return found
