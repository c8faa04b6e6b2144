"""What a store returns: its rows of runs, agents, tools, spending, alerts and interventions."""

from typing import Literal

from msgspec import Struct

from steadyhelm.decisions import Intervention
from steadyhelm.findings import Kind, Severity
from steadyhelm.incidents import Review

RunState = Literal["running", "suspended", "ended"]
DeliveryState = Literal["pending", "sent", "failed", "muted"]


class StoredRun(Struct, frozen=True, kw_only=True):
    """One line of the list of runs, read from the run's own summary."""

    agent_id: str
    run_id: str
    goal: str = ""
    version: str = ""
    task_type: str = ""
    parent_run_id: str | None = None
    state: RunState = "running"
    outcome: str = ""
    started_at: float = 0.0
    last_at: float = 0.0
    events: int = 0
    tokens: int = 0
    tool_calls: int = 0
    llm_calls: int = 0
    errors: int = 0
    duration_ms: float = 0.0
    cost_usd: float = 0.0
    findings: int = 0
    incidents: int = 0
    peak: float = 0.0


class StoredAgent(Struct, frozen=True, kw_only=True):
    """One agent, with the number of its runs and open incidents."""

    agent_id: str
    runs: int
    last_at: float
    open_incidents: int


class ToolRow(Struct, frozen=True, kw_only=True):
    """How often one run used one action, and at what cost."""

    action_name: str
    calls: int
    errors: int
    tokens: int
    duration_ms: float


class AgentSpending(Struct, frozen=True, kw_only=True):
    """What the runs of one agent spent in a time, and what was granted beside the budget of that day."""

    agent_id: str
    steps: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    granted_steps: int = 0
    granted_tokens: int = 0
    granted_cost_usd: float = 0.0


class Delivery(Struct, frozen=True, kw_only=True):
    """One alert queued for one channel. Every attempt to send it has the same `delivery_id`."""

    delivery_id: str
    agent_id: str
    run_id: str
    incident_id: str
    detector: str
    severity: Severity
    reason: str
    channel: str
    body: bytes
    created_at: float
    state: DeliveryState = "pending"
    attempts: int = 0
    next_at: float = 0.0
    error: str = ""


class LastAlert(Struct, frozen=True, kw_only=True):
    """The latest alert for one agent and detector: the start of the cooldown and of the digest."""

    at: float
    severity: Severity
    incident_id: str


class StoredIntervention(Struct, frozen=True, kw_only=True):
    """One intervention, with the incident it responded to.

    `review` is the review of the incident: the outcome of an intervention in a false alarm proves nothing.
    """

    incident_id: str
    agent_id: str
    run_id: str
    kind: Kind
    detector: str
    intervention: Intervention
    review: Review = ""


class PruneCounts(Struct, frozen=True, kw_only=True):
    """How much `prune` removed."""

    payloads: int = 0
    runs: int = 0
    events: int = 0
