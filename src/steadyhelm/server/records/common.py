"""What several pages share."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from steadyhelm.findings import Kind, Severity
from steadyhelm.incidents import IncidentTab

RunState = Literal["running", "waiting", "ended", "stopped", "crashed"]
"""running: steps came lately, or it has not ended; waiting: suspended, to be continued; stopped: Steadyhelm
stopped it; crashed: it ended with an error, or its process is gone."""

Response = Literal["remind", "replan", "rollback", "ask", "stop", "block"]
"""What an intervention did. `block`: one call was refused."""

ResponseOutcome = Literal["worked", "ignored", "worse", "unknown", "not_carried_out"]

Scope = Literal["read", "operate", "admin"]
"""read: every GET; operate: incidents, baselines, declarations; admin: keys, channels, retention."""

Key = Annotated[int, Meta(ge=1)]


class Record(Struct, frozen=True, kw_only=True):
    """An answer. Every field is always there."""


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request. Unknown fields are refused."""


class Problem(Record, frozen=True, kw_only=True):
    """Every answer that is not a success: what happened, in a sentence for people.

    `code` is for programs: unauthorized, forbidden, not_found, invalid, too_large, too_many, conflict,
    unavailable, page_not_built.
    """

    code: str
    message: str


class Done(Record, frozen=True, kw_only=True):
    """A change was made. `message` says what, in the words of a notice with undo."""

    message: str


class Range(Record, frozen=True, kw_only=True):
    """The normal range of a quantity: quantiles over this many clean runs."""

    p5: float
    p50: float
    p95: float
    runs: int


class Figure(Record, frozen=True, kw_only=True):
    """A number beside its normal range and its limit. `normal` is None while it is not known."""

    value: float | None
    normal: Range | None
    limit: float | None


class Band(Record, frozen=True, kw_only=True):
    """A normal range along a run, at steps 1, 2, 4, 8 …; interpolate on log2(step).

    It ends where fewer than 5 clean runs go on. `runs` are the clean runs that reached each step.
    All lists have the same length.
    """

    steps: list[int]
    p5: list[float]
    p50: list[float]
    p95: list[float]
    runs: list[int]


class AgentName(Record, frozen=True, kw_only=True):
    """An agent as others refer to it."""

    key: Key
    name: str


class LoopBadge(Record, frozen=True, kw_only=True):
    """The longest repetition noticed in a run: `tools` in order (one: a call repeated; several: a cycle).

    `declared` says that the tool is declared as a poll or batch tool: shown grey.
    """

    tools: list[str]
    count: int
    declared: bool


class ResponseMade(Record, frozen=True, kw_only=True):
    """An intervention as lists show it."""

    response: Response
    outcome: ResponseOutcome
    step: int


class RunRow(Record, frozen=True, kw_only=True):
    """One line of the list of runs.

    `peak` is the highest drift score, `top_severity` and `kinds` come from its incidents (empty: none).
    `cost_usd` is None where no step had a cost. `duration_s` runs to the last step.
    """

    key: Key
    run_id: str
    agent: AgentName
    goal: str
    version: str
    task_type: str
    state: RunState
    outcome: str
    started_at: float
    last_at: float
    duration_s: float
    steps: int
    tokens: int
    cost_usd: float | None
    errors: int
    peak: float | None
    incidents: int
    top_severity: Severity | None
    kinds: list[Kind]
    loop: LoopBadge | None
    response: ResponseMade | None
    parent: str | None


class IncidentRow(Record, frozen=True, kw_only=True):
    """An incident in a list, always with its step range.

    `pattern` is what repeats or deviates, in a few words (`fetch_page`, `read → edit`, `tokens`).
    `ongoing`: the drift goes on now; else it has ended.
    """

    incident_id: str
    agent: AgentName
    run: Key
    run_id: str
    kind: Kind
    detector: str
    severity: Severity
    peak: float
    pattern: str
    message: str
    tab: IncidentTab
    ongoing: bool
    first_step: int
    last_step: int
    opened_at: float
    last_at: float
    findings: int
    review: Literal["", "false_alarm", "confirmed"]


class Count(Record, frozen=True, kw_only=True):
    """A number of things, by name."""

    name: str
    count: int


class Reason(Record, frozen=True, kw_only=True):
    """Why something is not known or was not checked."""

    name: str
    reason: str
