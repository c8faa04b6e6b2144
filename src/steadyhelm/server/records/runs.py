"""The list of runs, and the run page: header, lanes, steps, payloads, recurrence."""

from typing import Any, Literal

from steadyhelm.server.records.common import AgentName, Band, Count, Figure, Key, Reason, Record, RunRow

StepKind = Literal["tool", "reply", "user", "state"]
Meter = Literal["tokens", "cost", "steps", "time"]


class Levels(Record, frozen=True, kw_only=True):
    """The drift scores from which each response is advised."""

    remind: float
    replan: float
    rollback: float
    stop: float


class RunList(Record, frozen=True, kw_only=True):
    """A page of runs, newest first. Pass `next` as `after` for the next page; None: no more.

    `total` counts all runs that match, and stops at 10,000. `levels` are those of the settings now.
    """

    runs: list[RunRow]
    next: str | None
    total: int
    levels: Levels


class ToolUse(Record, frozen=True, kw_only=True):
    """A tool of the run; lists elsewhere refer to its place in this list (0 is the most used)."""

    name: str
    calls: int
    errors: int
    tokens: int
    duration_ms: float
    declared: str


class RunFigures(Record, frozen=True, kw_only=True):
    """The six figures: steps, drift score (highest), tokens, cost in dollars, duration in seconds, failed
    calls.

    `repeated_share` is the share of calls with an identical earlier call.
    """

    steps: Figure
    drift: Figure
    tokens: Figure
    cost_usd: Figure
    duration_s: Figure
    failed: Figure
    repeated_share: Figure


class Judged(Record, frozen=True, kw_only=True):
    """What a judge answered to one question about the run.

    `label` is `none` without a verdict; `reason` says why. `asked` is False when an equal question was
    answered before, or nobody was asked. `addressed` says that text of the run tried to tell the judge what
    to answer. `moved` is how it moved the severity of an incident ("MED → LOW"), empty where it did not.
    """

    step: int
    about: str
    subject: str
    label: str
    confidence: float
    quote: str
    reason: str
    asked: bool
    addressed: bool
    tokens: int
    cost_usd: float | None
    moved: str


class JudgingReport(Record, frozen=True, kw_only=True):
    """What a judge was asked about the latest 200 runs of some agents or of all, and what it changed.

    `asked` counts questions that were sent, `remembered` those answered by an equal one before; `no_verdict`
    and `not_asked` count the others by reason. `raised`, `lowered` and `cleared` count incidents.
    `model` is the judge in the server's settings, empty when there is none.
    """

    model: str
    runs: int
    asked: int
    remembered: int
    tokens: int
    cost_usd: float | None
    raised: int
    lowered: int
    cleared: int
    addressed: int
    verdicts: list[Count]
    no_verdict: list[Count]
    not_asked: list[Count]


class ChildRun(Record, frozen=True, kw_only=True):
    """A run that this run started. `step` is the call that started it, or the latest while that goes on."""

    run: RunRow
    step: int


class RunDetail(Record, frozen=True, kw_only=True):
    """The header of the run page.

    `incidents` are the ids, in order of their first step: load each for its why card. `trace_id` and
    `trace_url` lead to the trace elsewhere, where known. `model` is the model of the latest reply that named
    one. `baseline` says what it is compared with ("calibrated on 40 runs", "learning 13/20"). `checked_by`
    are detectors that looked, `not_checked` those that could not. `judged` has the latest 50 answers of a
    judge.
    """

    run: RunRow
    model: str
    trace_id: str | None
    trace_url: str | None
    metadata: dict[str, Any]
    figures: RunFigures
    levels: Levels
    tools: list[ToolUse]
    incidents: list[str]
    children: list[ChildRun]
    parent: RunRow | None
    baseline: str
    checked_by: list[str]
    not_checked: list[Reason]
    excluded: bool
    judged: list[Judged]


class StepSeries(Record, frozen=True, kw_only=True):
    """One entry per step, when at most 2,000 steps were asked for. All lists have the same length.

    `at` is seconds since the run's start. `tool` is a place in `RunDetail.tools`, -1 where it is no call.
    `last_same` is the step of the last identical call (same tool and arguments), 0 when there is none or it
    is no call; `same_result` is 1 when the result was the same then, 0 when it changed, -1 when there is
    nothing to compare. `incident` is 1 inside an incident. `cost_usd` is None where unknown.
    """

    step: list[int]
    at: list[float]
    kind: list[StepKind]
    tool: list[int]
    failed: list[int]
    last_same: list[int]
    same_result: list[int]
    incident: list[int]
    tokens: list[int]
    cost_usd: list[float | None]


class ColumnSeries(Record, frozen=True, kw_only=True):
    """At most 2,000 columns of several steps, when more steps were asked for. All lists have the same length.

    A column covers the steps `first` to `last`. `calls` are calls by tool: for the first 7 tools of
    `RunDetail.tools`, then all others. `repeated` counts calls with an identical earlier call,
    `repeated_inside` those of them inside an incident.
    """

    first: list[int]
    last: list[int]
    at: list[float]
    calls: list[list[int]]
    replies: list[int]
    users: list[int]
    states: list[int]
    failed: list[int]
    repeated: list[int]
    repeated_inside: list[int]


class ScoreSeries(Record, frozen=True, kw_only=True):
    """The drift score where it changes; it holds until the next entry. None is unknown (a gap).

    The five contributions add up to the score; one that is None was not checked at that step. `not_checked`
    says why the latest score of the run lacks some.
    Down-sampled to at most 2,000 entries, keeping highest and lowest.
    """

    step: list[int]
    at: list[float]
    score: list[float | None]
    goal: list[float | None]
    loop: list[float | None]
    budget: list[float | None]
    quality: list[float | None]
    stuck: list[float | None]
    not_checked: list[Reason]


class Extension(Record, frozen=True, kw_only=True):
    """A change of a limit during the run."""

    step: int
    limit: float
    reason: str


class Forecast(Record, frozen=True, kw_only=True):
    """When a budget is used up at the present rate: the step at which, as quantiles; while running only."""

    p10: float
    p50: float
    p90: float


class BudgetLane(Record, frozen=True, kw_only=True):
    """What is left of one budget, from the limit down to 0. Units: tokens, dollars, tool calls or seconds.

    `start` is the limit at the first step, `limit` the one that holds now, `extensions` what is between.
    `left` holds from its step to the next. `reserve` is kept for finishing in order. `band` is what clean
    runs had used at each step, to be taken off the limit that held then.
    """

    meter: Meter
    start: float
    limit: float
    reserve: float
    step: list[int]
    at: list[float]
    left: list[float]
    extensions: list[Extension]
    band: Band | None
    forecast: Forecast | None


class Marker(Record, frozen=True, kw_only=True):
    """A response on the strip. `before` and `after` are the drift score then and when it was judged."""

    step: int
    at: float
    response: str
    outcome: str
    incident_id: str
    before: float | None
    after: float | None


class Bracket(Record, frozen=True, kw_only=True):
    """A loop above the strip: its range, the steps that prove it (at most 50), its tools and its words."""

    incident_id: str
    first: int
    last: int
    proof: list[int]
    tools: list[str]
    words: str
    level: int


class StepSpan(Record, frozen=True, kw_only=True):
    """The steps `first` to `last`."""

    first: int
    last: int


class RunSeries(Record, frozen=True, kw_only=True):
    """The four lanes for the steps `first` to `last` of `steps`.

    Either `points` or `columns` is there. `version` changes whenever the run does. `not_run` are the steps
    that would not have run, had the agent made a new plan at the step before them: only in recordings, which
    are runs that are over and in which nothing was said to the agent.
    """

    run: Key
    steps: int
    first: int
    last: int
    started_at: float
    version: int
    points: StepSeries | None
    columns: ColumnSeries | None
    score: ScoreSeries
    band: Band | None
    budgets: list[BudgetLane]
    brackets: list[Bracket]
    markers: list[Marker]
    not_run: StepSpan | None


class StepRow(Record, frozen=True, kw_only=True):
    """A line of the list of steps. `arguments` and `result` are clipped at 200 characters."""

    step: int
    at: float
    kind: StepKind
    name: str
    tool: int
    failed: bool
    last_same: int
    same_result: int
    response: str
    arguments: str
    result: str
    tokens: int
    cost_usd: float | None
    duration_ms: float
    score: float | None


class StepPage(Record, frozen=True, kw_only=True):
    """Steps, newest first. Pass `next` as `before` for the next page; None: no more."""

    steps: list[StepRow]
    next: int | None
    counts: list[Count]


class Payload(Record, frozen=True, kw_only=True):
    """One payload as stored, as JSON text. `size` is its bytes; `text` is clipped at 64 KiB, then `clipped`.

    `redacted` names the rules that took something out.
    """

    text: str
    size: int
    clipped: bool
    redacted: list[str]


class StepDetail(Record, frozen=True, kw_only=True):
    """One step with its payloads. `pruned`: retention has deleted them."""

    step: StepRow
    event_id: str
    call_id: str | None
    error: str | None
    arguments: Payload | None
    result: Payload | None
    metadata: Payload | None
    contributions: list[tuple[str, float | None]]
    pruned: bool


class Recurrence(Record, frozen=True, kw_only=True):
    """What a recurrence matrix is drawn from, without payloads.

    At most 200 entries; with `per_entry` above 1 an entry stands for that many steps (its first is `step`),
    and `call` is the most frequent call in it. Two entries with the same number in `call` are the same call,
    with the same number in `result` too also the same result; -1 is no call. `tool` is a place in
    `RunDetail.tools`. `period` is the length of the cycle that explains most repeats, None when there is
    none.
    """

    first: int
    last: int
    per_entry: int
    step: list[int]
    tool: list[int]
    call: list[int]
    result: list[int]
    same_call_pairs: int
    same_result_pairs: int
    repeated_share: float | None
    period: int | None
    sentence: str


class FoundRun(Record, frozen=True, kw_only=True):
    """The run an id (or the beginning of one) belongs to: what links from alerts are resolved with."""

    key: Key
    run_id: str
    agent: AgentName
