"""Notice an agent whose outputs have left its goal."""

from typing import Final, NamedTuple

from msgspec import Struct, field, structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.embedder import Embedder
from steadyhelm.embedders.idf import BUCKETS, RUNS_NEEDED, Idf, mark, words
from steadyhelm.errors import SettingsError
from steadyhelm.events import (
    LLM_REQUEST,
    STATE_TRANSITION,
    TOOL_CALL,
    USER_MESSAGE,
    RunInfo,
    RunSummary,
    TraceEvent,
)
from steadyhelm.findings import DriftEvent
from steadyhelm.goals.divergence import divergence
from steadyhelm.goals.tracker import GoalTracker, is_plan_name
from steadyhelm.windows import conformal_threshold

WINDOW: Final = 3
WINDOWS_NEEDED: Final = 20
ALPHA: Final = 0.10
_LEAST_CHARACTERS: Final = 20
_WINDOWS_TAUGHT: Final = 12
_SMALLEST_STD: Final = 0.05
_TRACKER_WEIGHT: Final = 3


class _Memory(Struct):
    recent: list[float] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    taught: list[float] = field(default_factory=list)
    seen: bytearray = field(default_factory=lambda: bytearray(BUCKETS // 8))
    tracker: GoalTracker = field(default_factory=GoalTracker)
    level: float | None = None


class _Compared(NamedTuple):
    """An output's similarity, or its window's, and the one it should have."""

    similarity: float
    threshold: float
    event_ids: list[str]

    @property
    def is_usual(self) -> bool:
        return self.similarity >= self.threshold

    @property
    def lack(self) -> float:
        return (self.threshold - self.similarity) / self.threshold


class GoalDrift(Detector):
    """Signal when what the agent says has little to do with what it was asked.

    Without a threshold it compares the mean of the last three outputs with what is usual for this
    agent, and says "not checked" until it has learnt that.
    With a threshold it applies that number to each output, from the first one on.

    `level` is there from the first outputs on, calibrated or not: how little of what the agent says is known
    from the goal, the user, the plan and the files touched, with a quarter of the say left to the comparison
    above where that can judge.
    It makes no findings: it is one uncertain sign among others.

    Args:
        similarity_threshold: Similarity below which an output is off the goal; None learns it per agent.
        embedder: How near two texts are: `idf` (no dependency) or `minilm` (an extra).
        goal: The goal of runs that bring none of their own.

    >>> goal_drift = GoalDrift(similarity_threshold=0.2, goal="book a flight to Oslo")
    >>> said_at(goal_drift, "the flight to Oslo is booked", "here is a poem on winter and snow")
    [1]
    """

    name = "goal_drift"
    kind = "goal"
    version = 2

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
        self.not_checked = "no output seen yet"

    @property
    def goal(self) -> str:
        """What the run is for now: a user's later message may have changed it."""
        return self._memory.tracker.goal or self._goal

    def begin(self, run: RunInfo) -> None:
        """The run's own goal counts more than the agent's."""
        self._goal = run.goal or self._goal
        self._memory.tracker.start(self._goal)
        self.not_checked = "no output seen yet" if self._goal else "no goal was given"

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Compare an output with the goal; anything else only tells more about the task."""
        if event.action_type != LLM_REQUEST:
            self._take(event)
            return None
        text = event.text
        if len(text) < _LEAST_CHARACTERS:
            return None
        memory = self._memory
        memory.tracker.record_reply(text)
        compared = self._compared(text, event, baseline) if self._goal else None
        memory.level = self.level = _blended(memory.tracker, compared)
        return None if compared is None or compared.is_usual else self._finding(event, text, compared)

    def restore(self, state: bytes) -> None:
        """Take up a state that `state` gave, its level with it."""
        super().restore(state)
        self.level = self._memory.level

    def teach(self, summary: RunSummary) -> RunSummary:
        """The similarities and words of this run."""
        memory = self._memory
        embedder = self._embedder.name if memory.taught else ""
        return structs.replace(
            summary, embedder=embedder, similarities=memory.taught, words=bytes(memory.seen)
        )

    def _take(self, event: TraceEvent) -> None:
        """What is not the agent's words may still say what the task is about."""
        tracker = self._memory.tracker
        if event.action_type == TOOL_CALL:
            tracker.record_call(event)
        elif event.action_type == USER_MESSAGE:
            if tracker.record_user_message(event.text):
                # A new task is never judged against the old goal.
                self._memory.recent, self._memory.ids = [], []
                self._memory.level = self.level = None
        elif event.action_type == STATE_TRANSITION and is_plan_name(event.action_name):
            tracker.record_plan(event.input_data or event.output_data)

    def _compared(self, text: str, event: TraceEvent, baseline: BaselineStats) -> _Compared | None:
        """The output against what is usual, or None while that is not known."""
        similarity = self._similarity(text, event, baseline)
        memory = self._memory
        mean = sum(memory.recent) / len(memory.recent)
        is_full = len(memory.recent) == WINDOW
        if is_full and baseline.word_runs >= RUNS_NEEDED and len(memory.taught) < _WINDOWS_TAUGHT:
            memory.taught.append(mean)
        if self.similarity_threshold is not None:
            return _Compared(similarity, self._given_threshold(baseline), [event.event_id])
        if not is_full:
            self.not_checked = f"learning {len(memory.recent)}/{WINDOW} outputs of this run"
            return None
        threshold = self._learnt_threshold(baseline)
        return None if threshold is None else _Compared(mean, threshold, memory.ids)

    def _similarity(self, text: str, event: TraceEvent, baseline: BaselineStats) -> float:
        memory = self._memory
        goal = self.goal
        counts = words(text)
        mark(memory.seen, counts)
        if isinstance(self._embedder, Idf):
            similarity = self._embedder.similarity_of(goal, counts, baseline)
        else:
            similarity = self._embedder.similarity(goal, text, baseline)
        memory.recent = [*memory.recent, similarity][-WINDOW:]
        memory.ids = [*memory.ids, event.event_id][-WINDOW:]
        return similarity

    def _given_threshold(self, baseline: BaselineStats) -> float:
        given = self.similarity_threshold
        assert given is not None
        self.not_checked = None
        if not baseline.is_calibrated or baseline.mean_goal_similarity <= 0:
            return given
        usual = baseline.mean_goal_similarity - 2 * max(baseline.std_goal_similarity, _SMALLEST_STD)
        return max(given, usual)

    def _learnt_threshold(self, baseline: BaselineStats) -> float | None:
        if not baseline.is_calibrated:
            self.not_checked = baseline.progress
            return None
        known = len(baseline.similarities) if baseline.embedder == self._embedder.name else 0
        if known < WINDOWS_NEEDED:
            self.not_checked = f"learning {known}/{WINDOWS_NEEDED} windows of outputs"
            return None
        threshold = conformal_threshold(baseline.similarities, ALPHA)
        if not threshold:
            self.not_checked = "this agent's outputs share too few words with its goals to judge by"
            return None
        self.not_checked = None
        return threshold

    def _finding(self, event: TraceEvent, text: str, compared: _Compared) -> DriftEvent:
        tracker = self._memory.tracker
        diverged = divergence(tracker.dna, text) if tracker.dna is not None else None
        how = f"; {diverged.words}" if diverged is not None else ""
        similarity, threshold = compared.similarity, compared.threshold
        return self.finding(
            event,
            score=compared.lack,
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


def _blended(tracker: GoalTracker, compared: _Compared | None) -> float | None:
    """The two signs in one; the comparison has no say once the user has asked for more than the goal."""
    drift = tracker.drift
    if compared is None or tracker.is_added_to:
        return drift
    lack = min(1.0, max(0.0, compared.lack))
    return lack if drift is None else (_TRACKER_WEIGHT * drift + lack) / (_TRACKER_WEIGHT + 1)
