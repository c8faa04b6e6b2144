"""Records of what is normal for one agent: learnt from its clean runs, read by the detectors."""

from typing import Any, Final, Self

from msgspec import Struct, convert, field, to_builtins

_MIN_ASIDE_RUNS: Final = 3
_MANY_UNUSUAL_RUNS: Final = 4
"""So many unusual runs in a row, and the agent may have changed for good."""
OUTDATED_ADVICE: Final = (
    "The runs before this one were unusual too, and none is learnt from. If the agent has changed for "
    "good, mark this as a false alarm, or reset its baseline with `steadyhelm baseline reset`."
)


class Spread(Struct, frozen=True, kw_only=True):
    """The spread of a quantity over past runs: quantiles of its logarithm, kept as plain values."""

    p50: float = 0.0
    p95: float = 0.0


class Cusum(Struct, frozen=True, kw_only=True):
    """A cumulative sum of how far log(x) lies above the usual, with the moments learnt so far.

    `count`, `mean` and `squares` are Welford's running moments of log(x); `total` is the sum itself, and
    `alarms` is how often it has crossed its limit.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    total: float = 0.0
    alarms: int = 0


class Trend(Struct, frozen=True, kw_only=True):
    """Two cumulative sums over runs: one keeps learning, one compares with the first fifty runs, frozen."""

    learning: Cusum = field(default_factory=Cusum)
    frozen: Cusum = field(default_factory=Cusum)

    @property
    def alarms(self) -> int:
        """How often either sum has crossed its limit."""
        return self.learning.alarms + self.frozen.alarms


class BaselineStats(Struct, frozen=True, kw_only=True):
    """What is normal for an agent, of one version and one type of task.

    `calibration_runs` counts the clean runs it was learnt from, `required_runs` how many it needs.
    `goal_peaks` is the sorted reference of how far whole runs were from their goals, `goal_flagged` how many
    of those runs were reported for it, and `similarities` the reference of similarities, where a threshold
    was given; all on the scale of `embedder`: another embedder starts new ones;
    `transitions` counts which action followed which, and `surprises` is the sorted reference of how
    unusual whole runs were;
    `word_counts` says in how many of `word_runs` runs a (hashed) word occurred, a byte a word;
    `usual_waits` is how long tools are waited for, in seconds, and `aside_runs` counts the runs in which an
    argument of a tool varied alone and never changed its result;
    `unusual_runs` is how many runs in a row, since the last one it learnt from and up to four, were reported
    only for differing from the agent's earlier runs.
    """

    agent_id: str
    version: str = ""
    task_type: str = ""
    calibration_runs: int = 0
    required_runs: int = 30
    mean_tokens_per_run: float = 0.0
    std_tokens_per_run: float = 0.0
    mean_tools_per_run: float = 0.0
    std_tools_per_run: float = 0.0
    mean_duration_ms: float = 0.0
    std_duration_ms: float = 0.0
    common_sequences: list[list[str]] = field(default_factory=list)
    mean_goal_similarity: float = 0.0
    std_goal_similarity: float = 0.0
    is_calibrated: bool = False
    is_frozen: bool = False
    spreads: dict[str, Spread] = field(default_factory=dict)
    trends: dict[str, Trend] = field(default_factory=dict)
    embedder: str = ""
    similarities: list[float] = field(default_factory=list)
    goal_peaks: list[float] = field(default_factory=list)
    goal_flagged: int = 0
    transitions: dict[str, dict[str, int]] = field(default_factory=dict)
    surprises: list[float] = field(default_factory=list)
    word_runs: int = 0
    word_counts: bytes = b""
    usual_waits: dict[str, float] = field(default_factory=dict)
    aside_runs: dict[str, dict[str, int]] = field(default_factory=dict)
    unusual_runs: int = 0

    @property
    def may_be_outdated(self) -> bool:
        """Whether so many runs in a row were unusual that the agent may have changed for good."""
        return self.unusual_runs >= _MANY_UNUSUAL_RUNS and not self.is_frozen

    @property
    def asides(self) -> dict[str, tuple[str, ...]]:
        """The arguments that say nothing of what a call is about, by tool."""
        found = {
            tool: tuple(name for name, runs in arguments.items() if runs >= _MIN_ASIDE_RUNS)
            for tool, arguments in self.aside_runs.items()
        }
        return {tool: names for tool, names in found.items() if names}

    @property
    def progress(self) -> str:
        """The state of learning as text for people.

        >>> BaselineStats(agent_id="a", calibration_runs=12).progress
        'learning 12/30'
        """
        if self.is_frozen:
            return f"frozen at {self.calibration_runs} runs"
        if self.is_calibrated:
            return f"calibrated on {self.calibration_runs} runs"
        return f"learning {self.calibration_runs}/{self.required_runs}"

    def to_dict(self) -> dict[str, Any]:
        """Return the baseline as plain data, one key per field."""
        plain: dict[str, Any] = to_builtins(self)
        return plain

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Build a baseline from the result of `to_dict`; unknown keys are ignored."""
        return convert(data, cls, strict=False)
