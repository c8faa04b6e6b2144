"""Notice a run that uses more than its limits, or more than is usual for this agent."""

import math
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.baselines import OUTDATED_ADVICE, BaselineStats, Spread, Trend
from steadyhelm.detector import Detector
from steadyhelm.errors import SettingsError
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, RunInfo, TraceEvent
from steadyhelm.findings import MED_FROM, DriftEvent, count_quarters_past
from steadyhelm.loops.steps import read_step
from steadyhelm.windows import Shift, next_trend

_MIN_TOKEN_SCORE: Final = 0.7
_DURATION_SCORE: Final = 0.8
_NOTICED_SCORE: Final = 0.4
_MIN_EXCESS_FACTOR: Final = 1.5
_WHOLE_SECONDS_FROM_MS: Final = 10_000
_LEAST_UNUSUAL: Final = {"tokens": 2_000.0, "tools": 10.0, "duration_ms": 30_000.0}
"""What costs less than this is neither unusual nor a rise, however alike the agent's runs are."""

# What is compared over runs: the key in the baseline, its name in messages, the fields of mean and std.
MEASURES: Final = (
    ("tokens", "tokens", "mean_tokens_per_run", "std_tokens_per_run"),
    ("tools", "tool calls", "mean_tools_per_run", "std_tools_per_run"),
    ("duration_ms", "seconds", "mean_duration_ms", "std_duration_ms"),
)


class _Memory(Struct):
    """What the run has spent so far; `waits` and `waited_ms` are the part of it that was spent waiting.

    `waits_for` is the tool that the latest call waited for.
    """

    tokens: int = 0
    tools: int = 0
    llm_calls: int = 0
    duration_ms: float = 0.0
    started_at: float = -1.0
    last_id: str = ""
    last_at: float = 0.0
    listed: dict[str, int] = field(default_factory=dict)
    waits: int = 0
    waited_ms: float = 0.0
    waits_for: str = ""

    def measure_work(self, measure: str) -> float:
        """Return what was spent of a measure, waiting aside."""
        if measure == "tools":
            return self.tools - self.waits
        return self.duration_ms - self.waited_ms if measure == "duration_ms" else self.tokens


class ResourceSpike(Detector):
    """Signal when a run passes a hard limit, uses far more than usual, or continues a rising trend.

    Hard limits never adapt. A passed limit is listed when it is passed and at each further quarter of it; in
    between it goes on: incident, drift score and decisions treat it as active. A soft one is noticed when it
    is passed and at each doubling.
    Beside them a calibrated agent's run is compared with the agent's quantiles (MED from twice what its runs
    seldom pass), and each ended run with the runs before it: a lasting rise is noticed even when no single
    run is unusual.
    Waiting is not compared: the loop detectors judge it by what is usual for the tool.

    Args:
        absolute_token_limit: Tokens a run may spend; None for no limit.
        absolute_duration_limit_ms: Milliseconds a run may take; None for no limit.
        spike_multiplier: Standard deviations above the mean that are a spike; None compares quantiles.
        soft_limits: Passing a limit is noticed (LOW), not reported, and nothing is done about it. So are the
            default limits of a monitor where the user has set none.

    >>> fired_at(ResourceSpike(absolute_token_limit=2_000), "rrrr")  # each reply costs 1,000 tokens
    [2, 3]
    """

    name = "resource_spike"
    kind = "resource"
    version = 2

    _memory: _Memory

    def __init__(
        self,
        *,
        absolute_token_limit: int | None = 50_000,
        absolute_duration_limit_ms: float | None = 300_000,
        spike_multiplier: float | None = None,
        soft_limits: bool = False,
    ) -> None:
        for setting, value in (
            ("absolute_token_limit", absolute_token_limit),
            ("absolute_duration_limit_ms", absolute_duration_limit_ms),
            ("spike_multiplier", spike_multiplier),
        ):
            if value is not None and not value > 0:
                raise SettingsError(f"resource_spike.{setting} must be above 0, or None, got {value!r}.")
        self.absolute_token_limit = absolute_token_limit
        self.absolute_duration_limit_ms = absolute_duration_limit_ms
        self.spike_multiplier = spike_multiplier
        self.soft_limits = soft_limits
        self._memory = _Memory()
        self._run = RunInfo(agent_id="", run_id="")
        self._limits: tuple[BaselineStats, dict[str, float]] | None = None
        self.not_checked = None

    def begin(self, run: RunInfo) -> None:
        """Count time from the start of the run where it is known, else from its first event."""
        self._run = run
        if run.started_at > 0:
            self._memory.started_at = run.started_at

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Add the event to the totals, and compare them with every limit."""
        memory = self._memory
        if event.action_type == TOOL_CALL:
            memory.tools += 1
            self._record_wait(event)
        elif event.action_type == LLM_REQUEST:
            memory.llm_calls += 1
        if memory.started_at < 0:
            memory.started_at = event.timestamp - event.duration_ms / 1000
        memory.last_id, memory.last_at = event.event_id, event.timestamp
        memory.tokens += event.token_count
        memory.duration_ms = max(memory.duration_ms, (event.timestamp - memory.started_at) * 1000)
        passed = self._check_limits(event)
        if passed is not None and not self.soft_limits:
            return passed
        unusual = self._check_baseline(event, baseline) if baseline.is_calibrated else None
        return unusual or passed

    def end(self, baseline: BaselineStats) -> DriftEvent | None:
        """Compare the whole run with the agent's runs before it."""
        memory = self._memory
        if not memory.last_id or not baseline.is_calibrated:
            return None
        # The finding is at the last event, whose data need not be kept for that.
        last = TraceEvent(
            agent_id=self._run.agent_id,
            run_id=self._run.run_id,
            action_type=STATE_TRANSITION,
            action_name="run_end",
            timestamp=memory.last_at,
            event_id=memory.last_id,
        )
        for measure, label, _, _ in MEASURES:
            spent = getattr(memory, measure)
            shift = next_trend(baseline.trends.get(measure, Trend()), spent)
            if shift.is_alarm and spent >= _LEAST_UNUSUAL[measure]:
                return self._report_trend(last, measure, label, shift)
        return None

    def _record_wait(self, event: TraceEvent) -> None:
        """Record a call that waits, or brings what was waited for: the time since the event before it."""
        memory, name = self._memory, event.action_name
        is_wait = read_step(event).kind == "wait"
        was_waited_for = memory.waits_for == name
        memory.waits_for = name if is_wait else ""
        if not (is_wait or was_waited_for):
            return
        memory.waits += 1
        since = memory.last_at if memory.last_id else event.timestamp - event.duration_ms / 1000
        memory.waited_ms += max(0.0, (event.timestamp - since) * 1000)

    def _check_limits(self, event: TraceEvent) -> DriftEvent | None:
        tokens, duration_ms = self._memory.tokens, self._memory.duration_ms
        token_limit, duration_limit = self.absolute_token_limit, self.absolute_duration_limit_ms
        if token_limit is not None and tokens > token_limit:
            score = max(_MIN_TOKEN_SCORE, (tokens - token_limit) / token_limit)
            return self._report_limit(event, score, "tokens", "tokens", tokens, token_limit)
        if duration_limit is not None and duration_ms > duration_limit:
            return self._report_limit(
                event, _DURATION_SCORE, "duration_ms", "seconds", duration_ms, duration_limit
            )
        return None

    def _report_limit(
        self, event: TraceEvent, score: float, measure: str, label: str, spent: float, limit: float
    ) -> DriftEvent | None:
        # A soft limit is passed by every long run: it is worth a note when that run has doubled again.
        steps = int(math.log2(spent / limit)) if self.soft_limits else count_quarters_past(spent, limit)
        ongoing = self._note_ongoing(f"limit of {label}", steps)
        if ongoing and self.soft_limits:
            return None
        return self.finding(
            event,
            score=_NOTICED_SCORE if self.soft_limits else score,
            message=f"{_format_amount(measure, spent)} {label} spent in this run, "
            f"the limit is {_format_amount(measure, limit)}",
            suggested_action="Set a limit of your own where a run must not take more."
            if self.soft_limits
            else "Stop, or hand over what there is; raise the limit if this run is worth it.",
            advice="Finish now: hand over what there is, and say what is left.",
            hard_limit=not self.soft_limits,
            subject=measure,
            spent=spent,
            limit=limit,
            **self._totals(),
            **ongoing,
        )

    def _note_ongoing(self, name: str, steps: int) -> dict[str, Any]:
        """Return the mark of a limit that was listed at this step past it, or at a later one."""
        if steps <= self._memory.listed.get(name, -1):
            return {"ongoing": True}
        self._memory.listed[name] = steps
        return {}

    def _check_baseline(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        if self._limits is None or self._limits[0] is not baseline:
            self._limits = (baseline, self._compute_limits(baseline))
        for measure, label, mean, _ in MEASURES:
            spent, limit = self._memory.measure_work(measure), self._limits[1].get(measure, math.inf)
            if spent > limit:
                average = _format_amount(measure, getattr(baseline, mean))
                return self.finding(
                    event,
                    score=self._score_excess(spent, limit),
                    message=f"{_format_amount(measure, spent)} {label} in this run; this agent's runs take "
                    f"{average} on average and seldom more than {_format_amount(measure, limit)}",
                    suggested_action=OUTDATED_ADVICE
                    if baseline.may_be_outdated
                    else "Ask the agent for a summary of what is done and what is left.",
                    advice="Sum up what is done and what is left, then finish in as few steps as you can.",
                    measure=measure,
                    subject=measure,
                    spent=spent,
                    limit=round(limit, 1),
                    **self._totals(),
                    **self._note_ongoing(measure, count_quarters_past(spent, limit)),
                )
        return None

    def _compute_limits(self, baseline: BaselineStats) -> dict[str, float]:
        limits = {}
        for measure, _, mean_name, std_name in MEASURES:
            mean, std = getattr(baseline, mean_name), getattr(baseline, std_name)
            if mean <= 0:
                continue
            if self.spike_multiplier is not None:
                limit = mean + self.spike_multiplier * max(std, mean * 0.1)
                limits[measure] = max(limit, mean * _MIN_EXCESS_FACTOR)
            else:
                limit = _quantile_limit(baseline.spreads.get(measure, Spread()))
                limits[measure] = max(limit, _LEAST_UNUSUAL[measure])
        return limits

    def _score_excess(self, spent: float, limit: float) -> float:
        """Return MED from twice the limit on, CRITICAL from ten times; with a multiplier, the excess."""
        return 1 - limit / spent if self.spike_multiplier is None else (spent - limit) / limit

    def _report_trend(self, event: TraceEvent, measure: str, label: str, shift: Shift) -> DriftEvent:
        against_first = shift.frozen >= 1.0
        height = shift.frozen if against_first else shift.learning
        since = "since its first 50 runs" if against_first else "over its recent runs"
        return self.finding(
            event,
            score=MED_FROM * height,
            message=f"this agent's runs have come to take more {label} {since}",
            suggested_action="Compare with older runs: a prompt, a tool or a model may have changed.",
            measure=measure,
            subject=f"{measure} over runs",
            learning_share=round(shift.learning, 2),
            frozen_share=round(shift.frozen, 2),
            over_runs=True,
        )

    def _totals(self) -> dict[str, Any]:
        totals = ("tokens", "tools", "llm_calls", "duration_ms")
        return {"totals": {name: getattr(self._memory, name) for name in totals}}


def _format_amount(measure: str, amount: float) -> str:
    """Return an amount as messages give it: time in seconds, with a decimal where that tells more.

    >>> _format_amount("duration_ms", 1250), _format_amount("tokens", 5880)
    ('1.2', '5,880')
    """
    if measure != "duration_ms":
        return f"{amount:,.0f}"
    return f"{amount / 1000:,.1f}" if amount < _WHOLE_SECONDS_FROM_MS else f"{amount / 1000:,.0f}"


def _quantile_limit(spread: Spread) -> float:
    """Return a limit twice as far above the median, in logs, as the 95 % quantile; infinite when unknown."""
    if spread.p50 <= 0 or spread.p95 <= 0:
        return math.inf
    return max(spread.p95 * spread.p95 / spread.p50, spread.p95 * _MIN_EXCESS_FACTOR)
