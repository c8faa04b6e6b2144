"""Notice an agent whose outputs have left its goal."""

from typing import Final, NamedTuple

from msgspec import Struct, field, structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.detector import Detector
from steadyhelm.embedder import Embedder
from steadyhelm.embedders.idf import (
    BUCKETS,
    MIN_RUNS,
    Idf,
    StemRarity,
    count_words,
    has_stem,
    mark_stems,
    mark_words,
)
from steadyhelm.errors import SettingsError
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import MED_FROM, DriftEvent
from steadyhelm.goals.departure import (
    CALL_WORD_SHARE,
    MIN_RUNS_LEARNT,
    MIN_WORDS_OF_REPLY,
    Departure,
    StepDrift,
    explain_not_comparable,
    find_limit,
)
from steadyhelm.goals.tracker import SHORTEST_REPLY_CHARS, GoalTracker
from steadyhelm.goals.vocabulary import find_divergence
from steadyhelm.loops.call_arguments import find_path
from steadyhelm.loops.steps import read_step, works_on_files

WINDOW_OUTPUTS: Final = 3
_MAX_WINDOWS_PER_RUN: Final = 12
_MIN_STD: Final = 0.05
_TRACKER_WEIGHT: Final = 3
_NOTICED_SCORE: Final = 0.45
_STEPS_UNTIL_USED: Final = 3
"""Further steps until the words of a step count as used by the run."""
_MIN_SHARE_OF_FILE_CALLS: Final = 1 / 3
"""So many calls name a file in a coding session that only reads; other agents open one now and then."""


class _Memory(Struct):
    recent: list[float] = field(default_factory=list)
    taught: list[float] = field(default_factory=list)
    seen: bytearray = field(default_factory=lambda: bytearray(BUCKETS // 8))
    tracker: GoalTracker | None = None
    changes: int = 0
    level: float | None = None
    steps: StepDrift = field(default_factory=StepDrift)
    is_reported: bool = False
    is_off: bool = False
    changes_files: bool = False
    calls: int = 0
    file_calls: int = 0
    latest_words: list[list[str]] = field(default_factory=list)
    is_weighed: bool = False

    @property
    def is_coding(self) -> bool:
        return self.changes_files or self.file_calls > _MIN_SHARE_OF_FILE_CALLS * self.calls

    def record_file_work(self, call: TraceEvent) -> None:
        """Note whether a call changes a file or runs a command, and how many name a file until one does."""
        self.calls += 1
        if works_on_files(call):
            self.file_calls += 1
            self.changes_files = find_path(call.input_data) is None or read_step(call).kind == "work"


class _Comparison(NamedTuple):
    """The similarity of an output, and the threshold for it."""

    similarity: float
    threshold: float

    @property
    def is_usual(self) -> bool:
        return self.similarity >= self.threshold

    @property
    def shortfall(self) -> float:
        return (self.threshold - self.similarity) / self.threshold


class GoalDrift(Detector):
    """Signal when the agent's steps have little to do with its goal.

    Without a threshold it decides once per run: the average drift of replies and calls is compared with the
    highest that ordinary runs of this agent reach, and the severity follows from how rare such a run is.
    Words that most runs of the agent contain count for little: they say nothing of the task of one; those
    that the run itself has used for a while count half.
    In a coding session such a departure is noticed (LOW) only: pieces of work within one repository share
    most of their words. So is a change of topic after the user has asked for more than the goal.
    Until that is learnt, only a change of topic is reported: several steps that name nothing of the task.
    With a threshold it applies that number to the similarity of each output, from the first one on.

    `level` is available from the first outputs on, calibrated or not: the share of the agent's words that is
    not known from the goal, the user, the plan and the files touched. Where a threshold was given, the
    comparison with it counts for a quarter. The level makes no findings: it is one uncertain signal among
    others.

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
    version = 7

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
        self._rarity: StemRarity | None = None
        self._usual: tuple[BaselineStats, list[float], float | None] | None = None
        self.not_checked = "no output seen yet"

    @property
    def goal(self) -> str:
        """The current goal of the run: a later user message may have changed it."""
        return self._tracker.goal or self._goal

    @property
    def _has_goal(self) -> bool:
        """Whether a goal was given, with the run or later by the host."""
        return bool(self._goal or self._tracker.given)

    def follow_goal(self, tracker: GoalTracker) -> None:
        """Use the goal that the session tracks. Used alone, a detector tracks the goal itself."""
        self._followed = tracker

    def begin(self, run: RunInfo) -> None:
        """Start a run. Its own goal takes precedence over the agent's."""
        self._goal = run.goal or self._goal
        self._tracker.start(self._goal)
        self.not_checked = "no output seen yet" if self._goal else "no goal was given"

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Compare a step with the goal. Other events only add to what is known about the task."""
        tracker, memory = self._tracker, self._memory
        if self._followed is None:
            tracker.observe(event)
        if tracker.changes != memory.changes:  # a new task is never judged against the old goal
            memory.changes, memory.recent, memory.is_off = tracker.changes, [], False
            memory.level = self.level = None
            memory.steps.start_new_task()
        if event.action_type == TOOL_CALL:
            return self._check_call(event, baseline)
        if event.action_type != LLM_REQUEST:
            return None
        text = event.text
        if len(text) < SHORTEST_REPLY_CHARS:
            return None
        if self.similarity_threshold is not None:
            return self._check_output(text, event, baseline)
        memory.level = self.level = tracker.drift
        if not self._has_goal:
            return None
        drift, change = self._measure_reply(text, baseline)
        names, words = tracker.reply_names, max(MIN_WORDS_OF_REPLY, len(tracker.said))
        is_compared = memory.steps.add(drift, change, names, event.event_id, words)
        found = self._judge(event, text, baseline, is_compared=is_compared)
        self._record_words(tracker.said)
        return found

    def restore(self, state: bytes) -> None:
        """Restore a saved state and its level."""
        super().restore(state)
        self.level = self._memory.level

    def teach(self, summary: RunSummary) -> RunSummary:
        """Add to the summary how far the run was from its goal, or its similarities where a threshold is."""
        memory, dna = self._memory, self._tracker.dna
        for words in memory.latest_words:
            mark_stems(memory.seen, words)
        if dna is not None and any(memory.seen) and self.similarity_threshold is None:
            mark_stems(memory.seen, dna.core)
        has_measured = bool(memory.taught) or memory.steps.peak is not None or any(memory.seen)
        return structs.replace(
            summary,
            embedder=self._embedder.name if has_measured else "",
            similarities=memory.taught,
            # Until it is known which words are usual, a run is farther from its goal than later ones.
            goal_peak=memory.steps.peak if memory.is_weighed or not isinstance(self._embedder, Idf) else None,
            goal_flagged=memory.is_reported,
            words=bytes(memory.seen) if any(memory.seen) else b"",
        )

    @property
    def _tracker(self) -> GoalTracker:
        if self._followed is not None:
            return self._followed
        if self._memory.tracker is None:
            self._memory.tracker = GoalTracker()
        return self._memory.tracker

    # --- by what is usual for the agent, or by topic -----------------------------------------------------

    def _check_call(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        """Add a call to the run's drift. An embedder compares replies only."""
        if not self._memory.changes_files:
            self._memory.record_file_work(event)
        if self.similarity_threshold is not None or not self._has_goal or not isinstance(self._embedder, Idf):
            return None
        rarity = self._find_rarity(baseline)
        weigh = None if rarity is None else rarity.weigh
        compared = self._tracker.compare_call(event, weigh, self._is_used)
        if compared is None:
            return None
        is_compared = self._memory.steps.add(
            compared.drift,
            compared.change,
            compared.named,
            event.event_id,
            CALL_WORD_SHARE * len(compared.words),
        )
        found = self._judge(event, "", baseline, is_compared=is_compared)
        self._record_words(compared.words)
        return found

    def _measure_reply(self, text: str, baseline: BaselineStats) -> tuple[float | None, float | None]:
        """Return the drift of a reply, and with words that the run has used counted half."""
        if not isinstance(self._embedder, Idf):
            drift = min(1.0, max(0.0, 1.0 - self._embedder.similarity(self.goal, text, baseline)))
            return drift, drift
        rarity = self._find_rarity(baseline)
        if rarity is None:
            return self._tracker.reply_drift, self._tracker.reply_drift
        compared = self._tracker.compare_reply(rarity.weigh, self._is_used)
        return (None, None) if compared is None else (compared.drift, compared.change)

    def _is_used(self, stem: str) -> bool:
        return has_stem(self._memory.seen, stem)

    def _record_words(self, words: list[str]) -> None:
        """Note the words of a step. Those of steps off the goal never count as used."""
        latest = self._memory.latest_words
        if self._memory.is_off:
            latest.clear()
        elif isinstance(self._embedder, Idf):
            latest.append(words)
            if len(latest) > _STEPS_UNTIL_USED:
                mark_stems(self._memory.seen, latest.pop(0))

    def _find_rarity(self, baseline: BaselineStats) -> StemRarity | None:
        """Return how rare words are for this agent; None until that is learnt."""
        if self._rarity is None or self._rarity.counts is not baseline.word_counts:
            self._rarity = StemRarity.from_baseline(baseline)
            self._memory.is_weighed = self._rarity is not None
        return self._rarity

    def _judge(
        self, event: TraceEvent, text: str, baseline: BaselineStats, *, is_compared: bool
    ) -> DriftEvent | None:
        """Return a finding when the run leaves its goal, and at every further reply that is off it."""
        memory, dna = self._memory, self._tracker.dna
        peaks, limit = self._find_usual(baseline)
        self.not_checked = explain_not_comparable(dna, limit)
        if self.not_checked is not None or dna is None or not is_compared:
            return None
        if peaks:
            departure = memory.steps.judge_by_limit(peaks, limit)
        elif isinstance(self._embedder, Idf):
            departure = memory.steps.judge_by_topic(dna)
        else:
            self.not_checked, departure = baseline.progress, None
        was_off, memory.is_off = memory.is_off, departure is not None
        if departure is None or (was_off and not text):
            return None
        if memory.is_coding and (departure.limit is not None or self._tracker.is_added_to):
            departure = departure._replace(score=min(departure.score, _NOTICED_SCORE))
        memory.is_reported = memory.is_reported or departure.score >= MED_FROM
        return self._build_departure(event, text, departure, len(peaks))

    def _find_usual(self, baseline: BaselineStats) -> tuple[list[float], float | None]:
        """Return the peaks of the agent's ordinary runs and their limit; none until enough are learnt."""
        if self._usual is None or self._usual[0] is not baseline:
            is_learnt = baseline.is_calibrated and baseline.embedder == self._embedder.name
            peaks = baseline.goal_peaks if is_learnt else []
            peaks = peaks if len(peaks) >= MIN_RUNS_LEARNT else []
            self._usual = (baseline, peaks, find_limit(peaks) if peaks else None)
        return self._usual[1:]

    def _build_departure(self, event: TraceEvent, text: str, departure: Departure, runs: int) -> DriftEvent:
        limit = departure.limit
        usual = "nothing of it is named" if limit is None else f"usually {limit:.2f} at most"
        return self._build_finding(
            event,
            text,
            score=departure.score,
            message=f"the last steps have left the goal: drift {departure.drift:.2f}, {usual}",
            event_ids=list(self._memory.steps.proofs),
            facts={
                "drift": round(departure.drift, 4),
                "limit": None if limit is None else round(limit, 4),
                "runs_learnt": runs,
            },
        )

    # --- by a threshold that was given -------------------------------------------------------------------

    def _check_output(self, text: str, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:
        compared = self._compare(text, baseline) if self._has_goal else None
        memory = self._memory
        memory.level = self.level = _combine(self._tracker, compared)
        if compared is None or compared.is_usual:
            return None
        memory.is_reported = True
        similarity, threshold = compared.similarity, compared.threshold
        return self._build_finding(
            event,
            text,
            score=compared.shortfall,
            message=f"far from the goal: similarity {similarity:.2f}, usually {threshold:.2f} or more",
            event_ids=[event.event_id],
            facts={"similarity": round(similarity, 4), "threshold": round(threshold, 4)},
        )

    def _compare(self, text: str, baseline: BaselineStats) -> _Comparison:
        """Return the output compared with the threshold, and teach its window."""
        memory = self._memory
        similarity = self._measure_similarity(text, baseline)
        memory.recent = [*memory.recent, similarity][-WINDOW_OUTPUTS:]
        is_full = len(memory.recent) == WINDOW_OUTPUTS
        if is_full and baseline.word_runs >= MIN_RUNS and len(memory.taught) < _MAX_WINDOWS_PER_RUN:
            memory.taught.append(sum(memory.recent) / WINDOW_OUTPUTS)
        self.not_checked = None
        return _Comparison(similarity, self._raise_given_threshold(baseline))

    def _measure_similarity(self, text: str, baseline: BaselineStats) -> float:
        counts = count_words(text)
        mark_words(self._memory.seen, counts)
        if isinstance(self._embedder, Idf):
            return self._embedder.compare_counts(self.goal, counts, baseline)
        return self._embedder.similarity(self.goal, text, baseline)

    def _raise_given_threshold(self, baseline: BaselineStats) -> float:
        given = self.similarity_threshold
        assert given is not None
        if not baseline.is_calibrated or baseline.mean_goal_similarity <= 0:
            return given
        usual = baseline.mean_goal_similarity - 2 * max(baseline.std_goal_similarity, _MIN_STD)
        return max(given, usual)

    def _build_finding(
        self,
        event: TraceEvent,
        text: str,
        *,
        score: float,
        message: str,
        event_ids: list[str],
        facts: dict[str, float | int | None],
    ) -> DriftEvent:
        dna = self._tracker.dna
        diverged = find_divergence(dna, text) if dna is not None and text else None
        return self.finding(
            event,
            score=score,
            message=f"{message}; {diverged.description}" if diverged is not None else message,
            suggested_action="Say in one sentence how the next step serves the goal, then take it.",
            event_ids=event_ids,
            **facts,
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
