"""Decide once per run whether its steps have left its goal: by what is usual for the agent, or by topic.

The statistic of a run is the highest average drift of its steps, replies and calls alike, in which words
that the run has used for a while count half: an agent that turns to something else uses new ones.
An alarm is due when a run passes what only few ordinary runs of this agent reach; its severity follows from
how few.
Before an agent is known, only one thing is clear enough: several steps that name nothing of the task.
"""

import math
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.goals.tokens import weigh_names
from steadyhelm.goals.vocabulary import GoalDNA
from steadyhelm.windows import measure_rarity, quantile

FALSE_ALARM_SHARE: Final = 0.045
"""The share of ordinary runs that pass the limit."""

_BULK_FROM, _BULK_TO = 0.5, 0.9
"""The quantiles from which the tail is estimated: odd runs among few must not set the limit."""
_MIN_RUNS_BEYOND: Final = 5
"""How many ordinary runs pass a limit that is counted: of fewer, most may be odd ones."""

MIN_RUNS_LEARNT: Final = 20
_MIN_LIMIT: Final = 0.3
_MAX_LIMIT: Final = 0.75
"""A limit above this leaves no room for drift: goals and steps of this agent share too few words."""

TOO_LITTLE_SHARED: Final = "goal and steps share too little"
_SMOOTHING: Final = 0.3
_MIN_CHANGE_SHARE: Final = 0.8
"""What a step counts of its drift at least: a run that repeats foreign words is off its goal all the same."""
_PROOFS_KEPT: Final = 5

_MIN_TASK_WORDS: Final = 3
_LONG_TASK_WORDS: Final = 8
_MIN_STEPS: Final = 3
_MIN_WORDS, _MIN_WORDS_OF_SHORT_TASKS = 20, 60
"""How many words about a topic the steps have in all: a long reply says as much as several short ones."""
_FACTOR_OF_CUT_TASKS: Final = 2
"""How much more that is when part of the task's text is missing: what is named may have stood there."""
CALL_WORD_SHARE: Final = 0.5
"""What a word in the arguments of a call counts of one in a reply: many are the same in any task."""
MIN_WORDS_OF_REPLY: Final = 7.5
"""What a reply counts at least: eight short ones are enough for any task."""
_MIN_TOPIC_DRIFT: Final = 0.5
"""The drift of a step that names nothing of a long task; for shorter tasks it is less."""
_TASK_PRIOR_WORDS: Final = 3
_MAX_NAMED_SHARE: Final = 0.15
_ENOUGH_NAMED_WEIGHT: Final = 8.0
"""Naming words of this weight is naming the task, however long its description is."""

_LOWEST_SCORE, _HIGHEST_SCORE = 0.5, 0.95
_SCORE_PER_TENTH: Final = 0.2
"""How much the score rises each time such a run is ten times rarer."""
_TOPIC_SCORE: Final = 0.6
_MIN_TAIL: Final = 0.02


class Departure(NamedTuple):
    """A run that has left its goal: the score, the average drift, and the limit it passed.

    `limit` is None when only the topic was judged.
    """

    score: float
    drift: float
    limit: float | None


class StepDrift(Struct):
    """The average drift of the steps since the task was set.

    `change` is the average in which words that the run has used before count half, and `peak` the highest of
    it in the run.
    `words` counts the words about a topic in these steps, `named` are the words of the task that any step has
    named, `proofs` the ids of the last steps compared.
    """

    average: float | None = None
    steps: int = 0
    named: list[str] = field(default_factory=list)
    proofs: list[str] = field(default_factory=list)
    peak: float | None = None
    change: float | None = None
    words: float = 0.0

    def add(
        self,
        drift: float | None,
        change: float | None,
        named: Collection[str],
        event_id: str,
        words: float = 0.0,
    ) -> bool:
        """Add a step with words that count so much; return whether it could be compared with the task."""
        if named:
            self.named += [word for word in named if word not in self.named]
        if drift is None:
            return False
        before = self.average or 0.0
        self.average = before + _SMOOTHING * (drift - before)
        before = self.change or 0.0
        lowest = _MIN_CHANGE_SHARE * drift
        self.change = before + _SMOOTHING * (max(lowest, drift if change is None else change) - before)
        self.peak = max(self.peak or 0.0, self.change)
        self.steps += 1
        self.words += words
        self.proofs = [*self.proofs, event_id][-_PROOFS_KEPT:]
        return True

    def start_new_task(self) -> None:
        """Forget the steps of the task before; the peak is the run's."""
        self.average, self.change, self.named, self.proofs = None, None, [], []
        self.steps, self.words = 0, 0.0

    def judge_by_limit(self, peaks: Sequence[float], limit: float | None = None) -> Departure | None:
        """Return how the run departs from what is usual for this agent, None when it does not.

        `peaks` are the sorted peaks of its ordinary runs, `limit` is theirs if it is known.
        """
        limit = find_limit(peaks) if limit is None else limit
        if self.change is None or self.change <= limit:
            return None
        rarity = measure_rarity(peaks, self.change, limit, min_scale=_MIN_TAIL)
        score = min(_HIGHEST_SCORE, _LOWEST_SCORE + _SCORE_PER_TENTH * rarity)
        return Departure(score, self.change, limit)

    def judge_by_topic(self, dna: GoalDNA) -> Departure | None:
        """Return how the steps depart from the topic of the task, None when they do not, or are too few."""
        words = len(dna.core)
        if self.average is None or not self._says_enough(dna):
            return None
        if self.average < _MIN_TOPIC_DRIFT * words / (words + _TASK_PRIOR_WORDS):
            return None
        task = min(weigh_names(dna.core), _ENOUGH_NAMED_WEIGHT)
        is_named = weigh_names(self.named) > _MAX_NAMED_SHARE * task
        return None if is_named else Departure(_TOPIC_SCORE, self.average, None)

    def _says_enough(self, dna: GoalDNA) -> bool:
        """Return whether the steps have words enough that an agent at work would have named its task."""
        least = _MIN_WORDS if len(dna.core) >= _LONG_TASK_WORDS else _MIN_WORDS_OF_SHORT_TASKS
        return self.steps >= _MIN_STEPS and self.words >= least * (_FACTOR_OF_CUT_TASKS if dna.is_cut else 1)


def find_limit(peaks: Sequence[float]) -> float:
    """Return the average drift that few ordinary runs pass, whatever odd runs among them reach.

    >>> find_limit([n / 100 for n in range(60)])
    0.59
    >>> round(find_limit([0.25 + n / 1000 for n in range(30)] + [0.9]), 3)
    0.3
    """
    place = math.ceil((1 - FALSE_ALARM_SHARE) * (len(peaks) + 1)) - 1
    if place < len(peaks) - _MIN_RUNS_BEYOND:
        return max(_MIN_LIMIT, peaks[place])
    high = quantile(peaks, _BULK_TO)
    scale = (high - quantile(peaks, _BULK_FROM)) / math.log((1 - _BULK_FROM) / (1 - _BULK_TO))
    expected = high + scale * math.log((1 - _BULK_TO) / FALSE_ALARM_SHARE)
    return max(_MIN_LIMIT, min(expected, peaks[-1]))


def has_room(peaks: Sequence[float]) -> bool:
    """Return whether ordinary runs of this agent are near enough to their goals to tell drift from them."""
    return find_limit(peaks) <= _MAX_LIMIT


def explain_not_comparable(dna: GoalDNA | None, limit: float | None) -> str | None:
    """Return why goal and steps cannot be compared; None when they can.

    `limit` is that of the agent's ordinary runs, None while it is not known.
    """
    if dna is None or len(dna.core) < _MIN_TASK_WORDS:
        return "the goal says too little to compare steps with"
    return None if limit is None or limit <= _MAX_LIMIT else TOO_LITTLE_SHARED
