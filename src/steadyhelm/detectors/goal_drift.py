"""Notice an agent whose outputs have left its goal."""

from typing import Final, NamedTuple

from msgspec import Struct, field, structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.embedder import Embedder
from steadyhelm.embedders.idf import BUCKETS, MIN_RUNS, Idf, count_words, mark_words
from steadyhelm.errors import SettingsError
from steadyhelm.events import LLM_REQUEST, RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.goals.tracker import SHORTEST_REPLY_CHARS, GoalTracker
from steadyhelm.goals.vocabulary import find_divergence
from steadyhelm.windows import conformal_threshold

WINDOW_OUTPUTS: Final = 3
MIN_WINDOWS: Final = 20
FALSE_ALARM_SHARE: Final = 0.10
_MAX_WINDOWS_PER_RUN: Final = 12
_MIN_STD: Final = 0.05
_TRACKER_WEIGHT: Final = 3


class _Memory(Struct):
    recent: list[float] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    taught: list[float] = field(default_factory=list)
    seen: bytearray = field(default_factory=lambda: bytearray(BUCKETS // 8))
    tracker: GoalTracker | None = None
    changes: int = 0
    level: float | None = None


class _Comparison(NamedTuple):
    """The similarity of an output, or of its window, and the threshold for it."""

    similarity: float
    threshold: float
    event_ids: list[str]

    @property
    def is_usual(self) -> bool:
        return self.similarity >= self.threshold

    @property
    def shortfall(self) -> float:
        return (self.threshold - self.similarity) / self.threshold


class GoalDrift(Detector):
    """Signal when the agent's outputs have little to do with its goal.

    Without a threshold it compares the mean of the last three outputs with what is usual for this
    agent, and reports "not checked" until it has learnt that.
    With a threshold it applies that number to each output, from the first one on.

    `level` is available from the first outputs on, calibrated or not: the share of the agent's words that is
    not known from the goal, the user, the plan and the files touched. Where the comparison above is possible,
    it counts for a quarter. The level makes no findings: it is one uncertain signal among others.

    Args:
        similarity_threshold: Similarity below which an output is off the goal; None learns it per agent.
        embedder: How near two texts are: `idf` (no dependency) or `minilm` (an extra).
        goal: The goal of runs that have none of their own.

    >>> goal_drift = GoalDrift(similarity_threshold=0.2, goal="book a flight to Oslo")
    >>> said_at(goal_drift, "the flight to Oslo is booked", "here is a poem on winter and snow")
    [1]
    """

    name = "goal_drift"
    kind = "goal"
    version = 3

    _memory: _Memory

    def __init__(
        self, *, similarity_threshold: float | None = None, embedder: Embedder | None = None, goal: str = ""
    ) -> None:
        if similarity_threshold is not None and not 0.0 < similarity_threshold <= 1.0:
            raise SettingsError(
                "goal_drift.similarity_threshold must be above 0 and at most 1, or None to learn it, "
                f"got {similarity_threshold!r}."
            )
        self.similarity_threshold = similarity_threshold
        self._embedder = embedder or Idf()
        self._goal = goal
        self._memory = _Memory()
        self._followed: GoalTracker | None = None
        self.not_checked = "no output seen yet"

    @property
    def goal(self) -> str:
        """The current goal of the run: a later user message may have changed it."""
        return self._tracker.goal or self._goal

    def follow_goal(self, tracker: GoalTracker) -> None:
        """Use the goal that the session tracks. Used alone, a detector tracks the goal itself."""
        self._followed = tracker

    def begin(self, run: RunInfo) -> None:
        """Start a run. Its own goal takes precedence over the agent's."""
        self._goal = run.goal or self._goal
        self._tracker.start(self._goal)
        self.not_checked = "no output seen yet" if self._goal else "no goal was given"

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Compare an output with the goal. Other events only add to what is known about the task."""
        tracker, memory = self._tracker, self._memory
        if self._followed is None:
            tracker.observe(event)
        if tracker.changes != memory.changes:
            # A new task is never judged against the old goal.
            memory.changes, memory.recent, memory.ids = tracker.changes, [], []
            memory.level = self.level = None
        if event.action_type != LLM_REQUEST:
            return None
        text = event.text
        if len(text) < SHORTEST_REPLY_CHARS:
            return None
        compared = self._compare(text, event, baseline) if self._goal else None
        memory.level = self.level = _combine(tracker, compared)
        return None if compared is None or compared.is_usual else self._build_finding(event, text, compared)

    def restore(self, state: bytes) -> None:
        """Restore a saved state and its level."""
        super().restore(state)
        self.level = self._memory.level

    def teach(self, summary: RunSummary) -> RunSummary:
        """Add the similarities and words of this run to its summary."""
        memory = self._memory
        embedder = self._embedder.name if memory.taught else ""
        return structs.replace(
            summary, embedder=embedder, similarities=memory.taught, words=bytes(memory.seen)
        )

    @property
    def _tracker(self) -> GoalTracker:
        if self._followed is not None:
            return self._followed
        if self._memory.tracker is None:
            self._memory.tracker = GoalTracker()
        return self._memory.tracker

    def _compare(self, text: str, event: TraceEvent, baseline: BaselineStats) -> _Comparison | None:
        """Return the output compared with what is usual; None while that is not known."""
        similarity = self._measure_similarity(text, event, baseline)
        memory = self._memory
        mean = sum(memory.recent) / len(memory.recent)
        is_full = len(memory.recent) == WINDOW_OUTPUTS
        if is_full and baseline.word_runs >= MIN_RUNS and len(memory.taught) < _MAX_WINDOWS_PER_RUN:
            memory.taught.append(mean)
        if self.similarity_threshold is not None:
            return _Comparison(similarity, self._raise_given_threshold(baseline), [event.event_id])
        if not is_full:
            self.not_checked = f"learning {len(memory.recent)}/{WINDOW_OUTPUTS} outputs of this run"
            return None
        threshold = self._find_learnt_threshold(baseline)
        return None if threshold is None else _Comparison(mean, threshold, memory.ids)

    def _measure_similarity(self, text: str, event: TraceEvent, baseline: BaselineStats) -> float:
        memory = self._memory
        goal = self.goal
        counts = count_words(text)
        mark_words(memory.seen, counts)
        if isinstance(self._embedder, Idf):
            similarity = self._embedder.compare_counts(goal, counts, baseline)
        else:
            similarity = self._embedder.similarity(goal, text, baseline)
        memory.recent = [*memory.recent, similarity][-WINDOW_OUTPUTS:]
        memory.ids = [*memory.ids, event.event_id][-WINDOW_OUTPUTS:]
        return similarity

    def _raise_given_threshold(self, baseline: BaselineStats) -> float:
        given = self.similarity_threshold
        assert given is not None
        self.not_checked = None
        if not baseline.is_calibrated or baseline.mean_goal_similarity <= 0:
            return given
        usual = baseline.mean_goal_similarity - 2 * max(baseline.std_goal_similarity, _MIN_STD)
        return max(given, usual)

    def _find_learnt_threshold(self, baseline: BaselineStats) -> float | None:
        if not baseline.is_calibrated:
            self.not_checked = baseline.progress
            return None
        known = len(baseline.similarities) if baseline.embedder == self._embedder.name else 0
        if known < MIN_WINDOWS:
            self.not_checked = f"learning {known}/{MIN_WINDOWS} windows of outputs"
            return None
        threshold = conformal_threshold(baseline.similarities, FALSE_ALARM_SHARE)
        if not threshold:
            self.not_checked = "this agent's outputs share too few words with its goals to judge by"
            return None
        self.not_checked = None
        return threshold

    def _build_finding(self, event: TraceEvent, text: str, compared: _Comparison) -> DriftEvent:
        tracker = self._tracker
        diverged = find_divergence(tracker.dna, text) if tracker.dna is not None else None
        how = f"; {diverged.description}" if diverged is not None else ""
        similarity, threshold = compared.similarity, compared.threshold
        return self.finding(
            event,
            score=compared.shortfall,
            message=f"far from the goal: similarity {similarity:.2f}, usually {threshold:.2f} or more{how}",
            suggested_action="Say in one sentence how the next step serves the goal, then take it.",
            event_ids=compared.event_ids,
            similarity=round(similarity, 4),
            threshold=round(threshold, 4),
            goal=self.goal[:200],
            divergence=diverged.kind if diverged is not None else None,
            foreign=list(diverged.foreign) if diverged is not None else [],
            missing=list(diverged.missing) if diverged is not None else [],
        )


def _combine(tracker: GoalTracker, compared: _Comparison | None) -> float | None:
    """Return both signals in one. The comparison is ignored once the user asked for more than the goal."""
    drift = tracker.drift
    if compared is None or tracker.is_added_to:
        return drift
    shortfall = min(1.0, max(0.0, compared.shortfall))
    return shortfall if drift is None else (_TRACKER_WEIGHT * drift + shortfall) / (_TRACKER_WEIGHT + 1)
