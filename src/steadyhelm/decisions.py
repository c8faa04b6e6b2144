"""What is known about the drift of a run, and the decision that every observed event gets."""

import enum
from typing import Final, Literal

from msgspec import Struct, field

from steadyhelm.findings import DriftEvent

Mode = Literal["observe", "guide", "enforce"]
MODES: Final = ("observe", "guide", "enforce")

Verdict = Literal["proceed", "guide", "deny", "rollback", "ask", "stop"]

Outcome = Literal["unknown", "worked", "ignored", "worse"]

Hook = Literal["force_checkpoint", "switch_model"]
HOOKS: Final[tuple[Hook, ...]] = ("force_checkpoint", "switch_model")


class DriftAction(enum.StrEnum):
    """The response levels, gentlest first."""

    CONTINUE = "CONTINUE"
    INJECT_REMINDER = "INJECT_REMINDER"
    SUMMARIZE_REPLAN = "SUMMARIZE_REPLAN"
    CHECKPOINT_RESET = "CHECKPOINT_RESET"
    ASK_USER = "ASK_USER"

    @property
    def level(self) -> int:
        """The number of the level; CONTINUE is 0."""
        return _RESPONSE_LEVEL_NUMBERS[self]

    def next_stronger(self) -> "DriftAction":
        """Return the next stronger action; the strongest returns itself."""
        return RESPONSE_LEVELS[min(self.level + 1, len(RESPONSE_LEVELS) - 1)]

    def next_gentler(self) -> "DriftAction":
        """Return the next gentler action; the gentlest returns itself."""
        return RESPONSE_LEVELS[max(self.level - 1, 0)]


RESPONSE_LEVELS: Final = tuple(DriftAction)
_RESPONSE_LEVEL_NUMBERS: Final = {action: level for level, action in enumerate(RESPONSE_LEVELS)}


class DriftSeverity(enum.StrEnum):
    """How far a run has drifted as a whole, one value for each range between the engine's thresholds."""

    NONE = "NONE"
    LOW = "LOW"
    MODERATE = "MODERATE"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"


class DriftSignals(Struct, frozen=True, kw_only=True):
    """The five signals of drift. None is unknown; `reasons` may say why.

    All run from 0 (fine) to 1, except `budget_velocity`, which is signed: below 0 the run spends faster
    than it makes progress, above 0 it makes progress faster than it spends.
    """

    goal_dna_drift: float | None = None
    loop_risk: float | None = None
    budget_velocity: float | None = None
    quality_degradation: float | None = None
    stuck_time: float | None = None
    reasons: dict[str, str] = field(default_factory=dict)


class DriftAssessment(Struct, frozen=True, kw_only=True):
    """An assessment of a run: how far it has drifted, why, and which action that calls for.

    `contributions` are the parts of `overall_score`, by signal, and add up to it.
    `weights` are the weights they were taken with, after the weights of unknown signals were shared out;
    `unknown` names those signals, each with the reason.
    `raised_by` says why the action is stronger than the score alone calls for.
    `certain` says that the action does not depend on the score: a confirmed loop or an exhausted budget.
    """

    overall_score: float
    recommended_action: DriftAction
    severity: DriftSeverity = DriftSeverity.NONE
    recommendation: str = ""
    explanation: str = ""
    contributions: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    raised_by: tuple[str, ...] = ()
    certain: bool = False

    @property
    def response_level(self) -> str:
        """The name of the recommended action."""
        return self.recommended_action.value


class DriftTrend(Struct, frozen=True, kw_only=True):
    """The trend of the score: its mean change per turn, and whether that change grows."""

    velocity: float = 0.0
    is_accelerating: bool = False
    turns: int = 0


class BudgetState(Struct, frozen=True, kw_only=True):
    """What a run may still spend. A limit of None is no limit, and then so is what remains.

    What is `reserved` is set aside for child runs, and what they leave is returned; used, reserved and
    remaining add up to the limit, until it is used up: then nothing remains, whatever is returned.
    `progress` is how far the run has come, 0 to 1, as far as its steps reported it.
    `velocity` is the progress per step over the window seen, `pace` the progress made minus the share
    of the budget spent (below 0: spending faster than making progress); all None while progress is unknown.
    `adjustment_factor` is what the next full window would multiply the limits by.
    `exhausted_by` names the limits that are used up; `landing` says that only the reserve for finishing
    in order is left.
    `steps_to_exhaustion` is the forecast at the present rate, None while it is unknown.
    """

    steps_used: int = 0
    steps_limit: int | None = None
    steps_reserved: int = 0
    steps_remaining: int | None = None
    tokens_used: int = 0
    tokens_limit: int | None = None
    tokens_reserved: int = 0
    tokens_remaining: int | None = None
    cost_used_usd: float = 0.0
    cost_limit_usd: float | None = None
    cost_reserved_usd: float = 0.0
    cost_remaining_usd: float | None = None
    wall_used_s: float = 0.0
    wall_limit_s: float | None = None
    wall_remaining_s: float | None = None
    progress: float | None = None
    velocity: float | None = None
    pace: float | None = None
    adjustment_factor: float = 1.0
    exhausted_by: tuple[str, ...] = ()
    landing: bool = False
    steps_to_exhaustion: float | None = None

    @property
    def exhausted(self) -> bool:
        """Whether any limit is used up."""
        return bool(self.exhausted_by)


class DailyBudgetState(Struct, frozen=True, kw_only=True):
    """What an agent has spent on one day, over all its runs, and what it may spend.

    `day` is its date, `opens_at` when the next one begins. Limits include what was granted for the day; None
    is no limit. `exhausted_by` names the limits that are used up.
    """

    day: str
    opens_at: float
    steps_used: int = 0
    steps_limit: int | None = None
    tokens_used: int = 0
    tokens_limit: int | None = None
    cost_used_usd: float = 0.0
    cost_limit_usd: float | None = None
    exhausted_by: tuple[str, ...] = ()

    @property
    def exhausted(self) -> bool:
        """Whether any limit is used up."""
        return bool(self.exhausted_by)


class BudgetDecision(Struct, frozen=True, kw_only=True):
    """A change of limits, or a request for one, and its result: kept whether it was granted or not.

    An `extension` was asked for, an `adjustment` followed from the run's progress by its `factor`.
    What is granted is the change of the limits, below 0 where an adjustment reduced them.
    """

    approved: bool
    reason: str
    justification: str = ""
    requested_steps: int = 0
    requested_tokens: int = 0
    requested_cost_usd: float = 0.0
    requested_wall_s: float = 0.0
    granted_steps: int = 0
    granted_tokens: int = 0
    granted_cost_usd: float = 0.0
    granted_wall_s: float = 0.0
    turn: int = 0
    kind: Literal["extension", "grant", "adjustment"] = "extension"
    factor: float | None = None


class TaskProfile(Struct, frozen=True, kw_only=True):
    """What completed tasks of one type have taken, as sums, so that profiles can be added."""

    agent_id: str
    task_type: str
    tasks: int = 0
    steps: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    wall_s: float = 0.0


class Intervention(Struct, frozen=True, kw_only=True):
    """One response to one incident: the action advised, the verdict delivered, and whether it helped.

    `wording` names the text that was chosen, so that texts can be compared.
    `because` says why the action differs from what the findings alone call for.
    `wanted` is the verdict the action called for where the caller could not carry it out.
    `expected` says what should change, `window` within how many steps; `outcome` whether it did.
    `tokens_before` and `cost_before_usd` are what the run had cost by then, `tokens_saved` what the steps of
    the window would have cost at the incident's own rate, when it was delivered and worked, and at most what
    was spent since.
    `not_carried_out` is the reason the caller reported for not carrying it out.
    `hard` says that the pattern had become chronic by then.
    """

    action: DriftAction
    verdict: Verdict
    seq: int
    timestamp: float
    guidance: str = ""
    outcome: Outcome = "unknown"
    hard: bool = False
    wording: str = ""
    because: tuple[str, ...] = ()
    wanted: Verdict | None = None
    evidence: tuple[str, ...] = ()
    expected: str = ""
    window: int = 0
    settled_seq: int | None = None
    tokens_before: int = 0
    cost_before_usd: float = 0.0
    tokens_saved: int | None = None
    not_carried_out: str = ""

    @property
    def said(self) -> bool:
        """Whether the caller was asked to do anything: in mode `observe` it never is."""
        return self.verdict != "proceed"


class Decision(Struct, frozen=True, kw_only=True):
    """The decision for the event just observed.

    `action` is what it advises, whatever the mode.
    `verdict` is what the caller must do now; in mode `observe` always `proceed`.
    `wanted` is the verdict the action called for where the caller said it cannot do that.
    `guidance` is the text for the model, empty when there is nothing to say, or nothing new;
    `wording` names the text.
    `hooks` are further things the caller may do: force a checkpoint, switch to another model.
    `assessment` is the drift of the run as a whole, `budget` what it may still spend; None where no
    assessment was needed, or no budget was set.
    `daily_budget` is what the agent has spent today over all runs, where that is used up; else None.
    `hard` says that the pattern has become chronic in this run.
    `not_stored` says, in durable mode, why the step is not in the database yet; empty when it is.
    `findings` has also the conditions that merely go on, which are not stored again (`is_ongoing`).
    """

    action: DriftAction = DriftAction.CONTINUE
    verdict: Verdict = "proceed"
    guidance: str = ""
    findings: tuple[DriftEvent, ...] = ()
    hard: bool = False
    wanted: Verdict | None = None
    wording: str = ""
    hooks: tuple[Hook, ...] = ()
    assessment: DriftAssessment | None = None
    budget: BudgetState | None = None
    daily_budget: DailyBudgetState | None = None
    not_stored: str = ""

    @property
    def drifting(self) -> bool:
        """Whether the advised action is not CONTINUE."""
        return self.action is not DriftAction.CONTINUE


PROCEED: Final = Decision()

UNDECIDED: Final = Decision()
"""The decision for a step that could not be judged: equal to PROCEED, but another object."""
