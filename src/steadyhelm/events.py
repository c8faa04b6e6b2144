"""What an agent did, and in which run: the records everything else is computed from."""

import time
import uuid
from typing import Any, Final, Literal, Self

from msgspec import Struct, field, structs

ActionType = Literal["tool_call", "llm_request", "state_transition", "user_message"]

TOOL_CALL: Final = "tool_call"
LLM_REQUEST: Final = "llm_request"
STATE_TRANSITION: Final = "state_transition"
USER_MESSAGE: Final = "user_message"

# Changes of state that callers tell us about, by name: none of them is a step of the agent's own.
BUDGET_DECIDED: Final = "budget_decided"
BUDGET_GRANTED: Final = "budget_granted"
CALL_REFUSED: Final = "call_refused"
CHECKPOINT_TAKEN: Final = "checkpoint_taken"
EXTENSION_REQUESTED: Final = "extension_requested"
NOT_CARRIED_OUT: Final = "not_carried_out"
PROGRESS: Final = "progress"
ROLLED_BACK: Final = "rolled_back"

ACTION_TYPES: Final = (TOOL_CALL, LLM_REQUEST, STATE_TRANSITION, USER_MESSAGE)


def new_id() -> str:
    """A fresh random id, 12 hexadecimal characters."""
    return uuid.uuid4().hex[:12]


class TraceEvent(Struct, frozen=True, kw_only=True):
    """One step of an agent: a tool call with its result, a model call, a change of state, a user's turn.

    A tool call is one event, observed when its result is known.
    `seq` is its place of completion in the run, `started_seq` how many events the agent had
    seen when it was issued, so calls of one parallel batch share it.
    `call_hash` and `result_hash` are fingerprints of what was asked and what came back;
    0 until somebody computed them (see `steadyhelm.fingerprints`).
    `tool_kind` is what a user declared the tool to be (see `steadyhelm.declarations`).

    An `action_type` we do not know is kept and ignored by the detectors, never an error.
    """

    agent_id: str
    run_id: str
    action_type: str
    action_name: str
    timestamp: float = field(default_factory=time.time)
    event_id: str = field(default_factory=new_id)
    token_count: int = 0
    input_data: Any = None
    output_data: Any = None
    duration_ms: float = 0.0
    metadata: dict[str, Any] | None = None
    seq: int = 0
    started_seq: int | None = None
    call_id: str | None = None
    parent_run_id: str | None = None
    error: str | None = None
    cost_usd: float | None = None
    call_hash: int = 0
    result_hash: int = 0
    tool_kind: str = ""

    @property
    def text(self) -> str:
        """The words of a reply or a message, wherever the caller put them; empty when there are none."""
        if self.action_type == USER_MESSAGE:
            return _words_in(self.input_data) or _words_in(self.output_data)
        return _words_in(self.output_data)

    def to_dict(self) -> dict[str, Any]:
        """The event as plain data, one key per field."""
        return structs.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Build an event from `to_dict`'s result; keys we do not know are ignored."""
        return cls(**{name: data[name] for name in cls.__struct_fields__ if name in data})


def _words_in(data: Any) -> str:
    if isinstance(data, str):
        return data
    if isinstance(data, dict):
        for key in ("text", "output", "content"):
            value = data.get(key)
            if isinstance(value, str):
                return value
    return ""


class RunInfo(Struct, frozen=True, kw_only=True):
    """The run an event belongs to: whose it is, what it is for, and when it began."""

    agent_id: str
    run_id: str
    goal: str = ""
    started_at: float = 0.0
    version: str = ""
    task_type: str = ""
    parent_run_id: str | None = None
    metadata: dict[str, Any] | None = None


class RunSummary(Struct, frozen=True, kw_only=True):
    """What remains of a run when it has ended: the numbers a baseline is learnt from.

    `similarities` are the goal similarities of its windows of outputs as `embedder` saw them,
    `actions` its first actions in order, `surprise` how unusual that order was for this agent,
    `doubts` the tools and files findings have brought into doubt, with the trust left in them,
    `words` a bitmap of the (hashed) words its outputs used, `sequences` its most frequent runs of
    two to four actions.
    """

    agent_id: str
    run_id: str
    version: str = ""
    task_type: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0
    outcome: str = ""
    events: int = 0
    tokens: int = 0
    tool_calls: int = 0
    llm_calls: int = 0
    errors: int = 0
    duration_ms: float = 0.0
    had_incident: bool = False
    sequences: list[list[str]] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    surprise: float | None = None
    doubts: list[tuple[str, str, float]] = field(default_factory=list)
    embedder: str = ""
    similarities: list[float] = field(default_factory=list)
    words: bytes = b""
