"""Notice an agent whose outputs have left its goal."""

from typing import Final

from msgspec import Struct, field, structs

from holdfast.baselines import BaselineStats
from holdfast.detector import Detector
from holdfast.embedder import Embedder
from holdfast.embedders.idf import BUCKETS, RUNS_NEEDED, Idf, mark, words
from holdfast.errors import SettingsError
from holdfast.events import LLM_REQUEST, RunInfo, RunSummary, TraceEvent
from holdfast.findings import DriftEvent
from holdfast.windows import conformal_threshold

WINDOW: Final = 3
WINDOWS_NEEDED: Final = 20
ALPHA: Final = 0.10
_LEAST_CHARACTERS: Final = 20
_WINDOWS_TAUGHT: Final = 12
_SMALLEST_STD: Final = 0.05


class _Memory(Struct):
    recent: list[float] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    taught: list[float] = field(default_factory=list)
    seen: bytearray = field(default_factory=lambda: bytearray(BUCKETS // 8))


class GoalDrift(Detector):
    """Signal when what the agent says has little to do with what it was asked.

    Without a threshold it compares the mean of the last three outputs with what is usual for this
    agent, and says "not checked" until it has learnt that.
    With a threshold it applies that number to each output, from the first one on.

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

    def begin(self, run: RunInfo) -> None:
        """The run's own goal counts more than the agent's."""
        self._goal = run.goal or self._goal
        self.not_checked = "no output seen yet" if self._goal else "no goal was given"

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Compare an output with the goal."""
        if event.action_type != LLM_REQUEST or not self._goal:
            return None
        text = event.text
        if len(text) < _LEAST_CHARACTERS:
            return None
        similarity = self._similarity(text, event, baseline)
        memory = self._memory
        mean = sum(memory.recent) / len(memory.recent)
        is_full = len(memory.recent) == WINDOW
        if is_full and baseline.word_runs >= RUNS_NEEDED and len(memory.taught) < _WINDOWS_TAUGHT:
            memory.taught.append(mean)
        if self.similarity_threshold is not None:
            return self._judge(event, similarity, self._given_threshold(baseline), [event.event_id])
        if not is_full:
            self.not_checked = f"learning {len(memory.recent)}/{WINDOW} outputs of this run"
            return None
        threshold = self._learnt_threshold(baseline)
        return None if threshold is None else self._judge(event, mean, threshold, memory.ids)

    def teach(self, summary: RunSummary) -> RunSummary:
        """The similarities and words of this run."""
        memory = self._memory
        embedder = self._embedder.name if memory.taught else ""
        return structs.replace(
            summary, embedder=embedder, similarities=memory.taught, words=bytes(memory.seen)
        )

    def _similarity(self, text: str, event: TraceEvent, baseline: BaselineStats) -> float:
        memory = self._memory
        counts = words(text)
        mark(memory.seen, counts)
        if isinstance(self._embedder, Idf):
            similarity = self._embedder.similarity_of(self._goal, counts, baseline)
        else:
            similarity = self._embedder.similarity(self._goal, text, baseline)
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

    def _judge(
        self, event: TraceEvent, similarity: float, threshold: float, event_ids: list[str]
    ) -> DriftEvent | None:
        if similarity >= threshold:
            return None
        return self.finding(
            event,
            score=(threshold - similarity) / threshold,
            message=f"far from the goal: similarity {similarity:.2f}, usually {threshold:.2f} or more",
            suggested_action="Remind the agent of its goal, and ask how its last step serves it.",
            event_ids=event_ids,
            similarity=round(similarity, 4),
            threshold=round(threshold, 4),
            goal=self._goal[:200],
        )
