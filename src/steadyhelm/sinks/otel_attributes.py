"""What OpenTelemetry is told about a finding and an answer, in attributes any exporter can encode."""

import math
from typing import Any, Final

from steadyhelm.decisions import Intervention
from steadyhelm.findings import DriftEvent
from steadyhelm.incidents import Incident

Attributes = dict[str, str | bool | int | float]

_LONGEST_TEXT: Final = 4096
_NS: Final = 1_000_000_000


def about_finding(finding: DriftEvent) -> Attributes:
    """The standard names first, so that any back-end shows them; ours beside them."""
    return {
        "gen_ai.evaluation.name": f"steadyhelm.{finding.detector}",
        "gen_ai.evaluation.score.value": finding.score if math.isfinite(finding.score) else 0.0,
        "gen_ai.evaluation.score.label": finding.severity.value,
        "gen_ai.evaluation.explanation": text_of(finding.message),
        "steadyhelm.agent_id": text_of(finding.agent_id),
        "steadyhelm.run_id": text_of(finding.run_id),
        "steadyhelm.finding_id": text_of(finding.event_id),
        "steadyhelm.kind": finding.kind,
        "steadyhelm.suggested_action": text_of(finding.suggested_action),
    }


def about_answer(incident: Incident, answer: Intervention) -> Attributes:
    """What was done about an incident, and what came of it."""
    told: Attributes = {
        "steadyhelm.agent_id": text_of(incident.agent_id),
        "steadyhelm.run_id": text_of(incident.run_id),
        "steadyhelm.incident_id": incident.incident_id,
        "steadyhelm.kind": incident.kind,
        "steadyhelm.action": answer.action.value,
        "steadyhelm.verdict": answer.verdict,
        "steadyhelm.outcome": answer.outcome,
        "steadyhelm.guidance": text_of(answer.guidance),
    }
    if answer.tokens_saved is not None:
        told["steadyhelm.tokens_saved"] = answer.tokens_saved
    return told


def text_of(text: Any) -> str:
    """A text any exporter can encode: half a character would cost the host the whole batch it is in."""
    return str(text)[:_LONGEST_TEXT].encode("utf-8", "replace").decode()


def in_ns(at: float) -> int:
    """A time as OpenTelemetry has it."""
    return int(at * _NS) if math.isfinite(at) and at > 0 else 0
