"""Records of what an agent did, and in which run: everything else is computed from them."""

import time
import uuid
from typing import Any, Final, Literal, Self

from msgspec import Struct, field, structs

TOOL_CALL: Final = "tool_call"
LLM_REQUEST: Final = "llm_request"
STATE_TRANSITION: Final = "state_transition"
USER_MESSAGE: Final = "user_message"

# State changes that callers report, by name: none of them is a step of the agent itself.
BUDGET_DECIDED: Final = "budget_decided"
BUDGET_GRANTED: Final = "budget_granted"
BUDGET_SET: Final = "budget_set"
CALL_REFUSED: Final = "call_refused"
CHECKPOINT_TAKEN: Final = "checkpoint_taken"
DAILY_BUDGET: Final = "daily_budget"
EXTENSION_REQUESTED: Final = "extension_requested"
GUIDANCE_DELIVERED: Final = "guidance_delivered"
JUDGED: Final = "judged"
NEW_GOAL: Final = "new_goal"
NOT_CARRIED_OUT: Final = "not_carried_out"
PLAN: Final = "plan"
PROGRESS: Final = "progress"
ROLLED_BACK: Final = "rolled_back"

ANSWERS_QUESTION: Final = "answers_question"
"""In the metadata of a user message: it answers a question of ours."""

NOT_RUN: Final = "not_run"
"""In the metadata of a tool call that the agent asked for, and whose tool was not called: why not."""

NotRun = Literal["no such tool", "invalid arguments", "refused", "answered"]
"""Why a tool was not called. With "refused" a person, a guardrail, a hook or other middleware prevented the
call, or it was cancelled first; with "answered" something else gave the result, such as a cache."""

ACTION_TYPES: Final = (TOOL_CALL, LLM_REQUEST, STATE_TRANSITION, USER_MESSAGE)


def new_id() -> str:
    """Return a new random id, 12 hexadecimal characters."""
    return uuid.uuid4().hex[:12]


class TraceEvent(Struct, frozen=True, kw_only=True):
    """One step of an agent: a tool call with its result, a model call, a state change, a user message.

    A tool call is one event, observed when its result is known.
    `seq` is its place of completion in the run, `started_seq` how many events the agent had
    seen when it was issued, so calls of one parallel batch share it.
    `call_hash` and `result_hash` are fingerprints of the call and of its result;
    0 until they are computed (see `steadyhelm.fingerprints`).
    `tool_kind` is the kind that a user declared for the tool (see `steadyhelm.declarations`).

    An unknown `action_type` is stored and ignored by the detectors, never an error.
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
        """The text of a reply, message or goal, wherever the caller put it; empty when there is none."""
        global _last_text  # noqa: PLW0603 - a memo of a pure function: a race costs a second reading, nothing else
        cached = _last_text
        if cached is not None and cached[0] is self:  # one event is read by seven parts of the engine in turn
            return cached[1]
        text = _find_text(self.output_data)
        if self.action_type in _TEXT_IN_INPUT:
            text = _find_text(self.input_data) or text
        _last_text = (self, text)
        return text

    @property
    def is_answer(self) -> bool:
        """Whether it is what the user answered to a question of ours (see `ANSWERS_QUESTION`)."""
        return self.metadata is not None and self.metadata.get(ANSWERS_QUESTION) is True

    @property
    def not_run(self) -> str:
        """Why the tool of this call was not called (see `NotRun`); empty for a call that was made."""
        return str(self.metadata.get(NOT_RUN) or "") if self.metadata is not None else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain data, one key per field."""
        return structs.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Build an event from the result of `to_dict`; unknown keys are ignored."""
        return cls(**{name: data[name] for name in cls.__struct_fields__ if name in data})


_TEXT_IN_INPUT: Final = frozenset({USER_MESSAGE, STATE_TRANSITION})
_last_text: tuple[TraceEvent, str] | None = None


def _find_text(data: Any) -> str:
    if isinstance(data, str):
        return data
    if isinstance(data, dict):
        for key in ("text", "output", "content"):
            value = data.get(key)
            if isinstance(value, str):
                return value
    return ""


class RunInfo(Struct, frozen=True, kw_only=True):
    """The run an event belongs to: its agent, its goal, and when it began.

    `epoch` is made when the run starts and kept while it is suspended: two runs of the same id are two runs.
    """

    agent_id: str
    run_id: str
    goal: str = ""
    started_at: float = 0.0
    version: str = ""
    task_type: str = ""
    parent_run_id: str | None = None
    metadata: dict[str, Any] | None = None
    epoch: str = ""


class RunSummary(Struct, frozen=True, kw_only=True):
    """The summary of an ended run: the numbers a baseline is learnt from.

    `similarities` are the goal similarities of its windows of outputs, measured by `embedder`,
    `goal_peak` how far its steps were from the goal at most, `goal_flagged` whether that was reported,
    `actions` its first actions in order, `surprise` how unusual that order was for this agent,
    `doubts` the tools and files that findings concerned, with the trust left in them,
    `words` a bitmap of the (hashed) words its outputs used, `sequences` its most frequent runs of
    two to four actions, `waits` the longest wait for a tool's answer to change, in seconds, and `asides`
    the arguments of tools that varied alone and never changed a result. `checked` are the detectors that
    looked at it, `not_checked` what could not be checked, with the reasons.
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
    goal_peak: float | None = None
    goal_flagged: bool = False
    words: bytes = b""
    waits: dict[str, float] = field(default_factory=dict)
    asides: dict[str, list[str]] = field(default_factory=dict)
    checked: list[str] = field(default_factory=list)
    not_checked: dict[str, str] = field(default_factory=dict)
