"""A step of a recording that is being read: what its entries said so far, until it is an event."""

from typing import Any

from msgspec import Struct, field

from steadyhelm.events import TraceEvent


class UnfinishedStep(Struct, kw_only=True):
    """A step begun by one entry, and perhaps completed by later ones; `index` is that of the first."""

    index: int
    action_type: str
    action_name: str
    timestamp: float = 0.0
    started_seq: int | None = None
    input_data: Any = None
    output_data: Any = None
    error: str | None = None
    tokens: int = 0
    duration_ms: float = 0.0
    cost_usd: float | None = None
    call_id: str | None = None
    parent_run_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_event(self, agent_id: str, run_id: str, seq: int) -> TraceEvent:
        """Return the event at this place of its run; without a place of its own it also started there."""
        return TraceEvent(
            agent_id=agent_id,
            run_id=run_id,
            action_type=self.action_type,
            action_name=self.action_name,
            timestamp=self.timestamp,
            event_id=str(self.index),
            token_count=self.tokens,
            input_data=self.input_data,
            output_data=self.output_data,
            duration_ms=self.duration_ms,
            metadata=self.metadata or None,
            seq=seq,
            started_seq=seq if self.started_seq is None else self.started_seq,
            call_id=self.call_id,
            parent_run_id=self.parent_run_id,
            error=self.error,
            cost_usd=self.cost_usd,
        )


def wrap_text(content: Any) -> Any:
    """Return text as the data of an event; anything else as it is."""
    return {"text": content} if isinstance(content, str) else content
