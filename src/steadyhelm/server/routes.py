"""Every route of the API as data: what the server serves, and what the schema is made from.

A route without a scope is open to everybody; there is one, and a test names it.
"""

from typing import Final, Literal, NamedTuple

from steadyhelm.server.records import agents, common, incidents, overview, runs, settings
from steadyhelm.server.records.common import Record, Request, Scope

PREFIX: Final = "/api/v1"

Method = Literal["GET", "POST", "DELETE"]
ParameterKind = Literal["text", "whole", "number"]


class Parameter(NamedTuple):
    """One parameter of the query, with its values where they are bounded; `many` are separated by commas."""

    name: str
    about: str
    kind: ParameterKind = "text"
    allowed: tuple[str, ...] = ()
    many: bool = False


class Route(NamedTuple):
    """One route. `name` is the function that answers it; `answer` None is a file or a stream."""

    name: str
    method: Method
    path: str
    answer: type[Record] | None
    scope: Scope | None = "read"
    request: type[Request] | None = None
    query: tuple[Parameter, ...] = ()


_SEVERITIES: Final = ("LOW", "MED", "HIGH", "CRITICAL")
_KINDS: Final = ("loop", "goal", "resource", "style", "correction", "transition")
_RUN_STATES: Final = ("running", "waiting", "ended", "stopped", "crashed")
_RESPONSES: Final = ("remind", "replan", "rollback", "ask", "stop", "block")

_AGENT: Final = Parameter("agent", "keys of agents", kind="whole", many=True)
_KIND: Final = Parameter("kind", "kinds of incident", allowed=_KINDS, many=True)
_SEVERITY: Final = Parameter("severity", "lowest severity of its incidents", allowed=_SEVERITIES)
_AFTER: Final = Parameter("after", "`next` of the page before")
_LIMIT: Final = Parameter("limit", "most entries, 1 to 100; 50 unless given", kind="whole")
_FIRST: Final = Parameter("first", "first step, counted from 1", kind="whole")
_LAST: Final = Parameter("last", "last step", kind="whole")

ROUTES: Final = (
    Route("sign_in", "POST", "/session", settings.SignedIn, None, settings.SignIn),
    Route("get_session", "GET", "/session", settings.Session),
    Route("sign_out", "DELETE", "/session", common.Done),
    Route(
        "get_overview",
        "GET",
        "/overview",
        overview.Overview,
        query=(Parameter("days", "of how many days the figures are", allowed=("1", "7", "30")),),
    ),
    Route(
        "search",
        "GET",
        "/search",
        overview.SearchResults,
        query=(Parameter("q", "beginning of a run's id or goal, an agent's or a tool's name"),),
    ),
    Route(
        "list_runs",
        "GET",
        "/runs",
        runs.RunList,
        query=(
            *(_AGENT, _KIND, _SEVERITY, _AFTER, _LIMIT),
            Parameter("state", "states", allowed=_RUN_STATES, many=True),
            Parameter("response", "responses", allowed=_RESPONSES, many=True),
            Parameter("since", "started at this time or later", kind="number"),
            Parameter("q", "beginning of a run's id or goal, or the name of a tool"),
        ),
    ),
    Route(
        "find_run",
        "GET",
        "/runs/find",
        runs.FoundRun,
        query=(Parameter("run", "a run's id, or its beginning"), Parameter("agent", "an agent's name")),
    ),
    Route("get_run", "GET", "/runs/{run}", runs.RunDetail),
    Route(
        "get_run_series",
        "GET",
        "/runs/{run}/series",
        runs.RunSeries,
        query=(_FIRST, _LAST, Parameter("columns", "most columns, 50 to 2,000", kind="whole")),
    ),
    Route(
        "list_steps",
        "GET",
        "/runs/{run}/steps",
        runs.StepPage,
        query=(
            Parameter("before", "only steps before this one", kind="whole"),
            Parameter("only", "which steps", allowed=("failed", "repeated", "responses")),
            _LIMIT,
        ),
    ),
    Route("get_step", "GET", "/runs/{run}/steps/{step}", runs.StepDetail),
    Route("get_recurrence", "GET", "/runs/{run}/recurrence", runs.Recurrence, query=(_FIRST, _LAST)),
    Route(
        "get_judge_report",
        "GET",
        "/judge",
        runs.JudgingReport,
        query=(_AGENT, Parameter("since", "only runs started at this time or later", kind="number")),
    ),
    Route("download_run", "GET", "/runs/{run}/file", None),
    Route(
        "list_groups",
        "GET",
        "/incidents",
        incidents.GroupList,
        query=(
            *(_AGENT, _KIND, _SEVERITY, _AFTER, _LIMIT),
            Parameter(
                "tab", "which tab; open unless given", allowed=("open", "acknowledged", "muted", "closed")
            ),
        ),
    ),
    Route("get_precision", "GET", "/precision", incidents.PrecisionList),
    Route("get_incident", "GET", "/incidents/{incident}", incidents.IncidentDetail),
    Route("get_group", "GET", "/incidents/{incident}/group", incidents.GroupDetail),
    Route(
        "get_evidence",
        "GET",
        "/incidents/{incident}/evidence",
        incidents.EvidencePair,
        query=(
            Parameter("pair", "place in `pairs`, from 0; the first that differs unless given", kind="whole"),
        ),
    ),
    Route(
        "acknowledge",
        "POST",
        "/incidents/{incident}/acknowledge",
        common.Done,
        "operate",
        incidents.Acknowledge,
    ),
    Route("mute", "POST", "/incidents/{incident}/mute", common.Done, "operate", incidents.MuteRequest),
    Route(
        "preview_false_alarm",
        "POST",
        "/incidents/{incident}/false-alarm/preview",
        incidents.Effect,
        "read",
        incidents.FalseAlarm,
    ),
    Route(
        "mark_false_alarm",
        "POST",
        "/incidents/{incident}/false-alarm",
        common.Done,
        "operate",
        incidents.FalseAlarm,
    ),
    Route("mark_right", "POST", "/incidents/{incident}/right", common.Done, "operate", incidents.Right),
    Route("undo_mark", "POST", "/incidents/{incident}/undo", common.Done, "operate", incidents.Undo),
    Route(
        "add_comment",
        "POST",
        "/incidents/{incident}/comments",
        incidents.Comment,
        "operate",
        incidents.NewComment,
    ),
    Route("get_agent", "GET", "/agents/{agent}", agents.AgentDetail),
    Route(
        "get_transitions",
        "GET",
        "/agents/{agent}/transitions",
        agents.Transitions,
        query=(
            Parameter("version", "the baseline's version; the newest unless given"),
            Parameter("task_type", "its type of task"),
        ),
    ),
    Route("get_metrics", "GET", "/agents/{agent}/metrics", agents.Metrics),
    Route(
        "change_baseline",
        "POST",
        "/agents/{agent}/baseline",
        common.Done,
        "operate",
        agents.BaselineChange,
    ),
    Route("exclude_run", "POST", "/agents/{agent}/exclude", common.Done, "operate", agents.ExcludeRun),
    Route(
        "preview_declaration",
        "POST",
        "/agents/{agent}/declarations/preview",
        incidents.Effect,
        "read",
        agents.Declare,
    ),
    Route("declare_tool", "POST", "/agents/{agent}/declarations", common.Done, "operate", agents.Declare),
    Route("list_settings", "GET", "/settings", settings.SettingList),
    Route("get_health", "GET", "/health", settings.Health),
    Route("list_channels", "GET", "/channels", settings.Channels),
    Route("test_channel", "POST", "/channels/test", settings.TestResult, "admin", Request),
    Route("list_keys", "GET", "/keys", settings.ApiKeys, "admin"),
    Route("make_key", "POST", "/keys", settings.MadeKey, "admin", settings.NewKey),
    Route("revoke_key", "DELETE", "/keys/{id}", common.Done, "admin"),
    Route("get_retention", "GET", "/retention", settings.Retention),
    Route("prune", "POST", "/retention/prune", settings.Pruned, "admin", Request),
    Route("redact_text", "POST", "/redaction/test", settings.Redacted, "read", settings.RedactText),
    Route(
        "list_audit",
        "GET",
        "/audit",
        settings.Audit,
        query=(Parameter("before", "only entries with a smaller id", kind="whole"), _LIMIT),
    ),
    Route("stream", "GET", "/stream", None),
)

STREAMED: Final = (settings.Change, settings.Reset)
"""What the stream's events hold."""
