"""A call that failed, and how often: what is remembered of failures."""

from typing import Final, Self

from msgspec import Struct

from steadyhelm.loops.likeness import likeness, words_of
from steadyhelm.loops.outcomes import Outcome, error_key
from steadyhelm.loops.sightings import IDS_KEPT
from steadyhelm.loops.steps import Step

# Where so few words were asked, they tell nothing apart: the error alone counts.
_NEXT_TO_NOTHING: Final = 2


class Attempt(Struct, frozen=True):
    """A call as far as its failing matters."""

    name: str
    event_id: str
    seq: int
    started_seq: int | None
    asked: bytes
    is_answered: bool

    @classmethod
    def of(cls, step: Step) -> Self:
        """The attempt that a step is."""
        event = step.event
        return cls(
            event.action_name, event.event_id, event.seq, event.started_seq, step.asked, step.outcome.known
        )

    def had_seen(self, seq: int) -> bool:
        """Whether the agent had seen the event at that place when it made this call."""
        return self.started_seq is None or self.started_seq > seq


class Tally(Struct):
    """A call that failed before, and how often.

    The same call failing alike in one stretch is plain repetition, and told as such.
    """

    outcome: Outcome
    stretch: int
    last_seq: int
    last_step: int
    ids: list[str]
    count: int = 1
    is_repetition: bool = True

    def add(self, attempt: Attempt, at: int) -> None:
        """Once more."""
        self.count += 1
        self.last_seq, self.last_step = attempt.seq, at
        self.ids = [*self.ids, attempt.event_id][-IDS_KEPT:]


class Streak(Struct):
    """Failures of calls that may differ, with what the latest asked; `error` as it was, until compared."""

    asked: bytes
    stretch: int
    last_seq: int
    last_step: int
    ids: list[str]
    is_repetition: bool
    error: str = ""
    key: int = 0
    count: int = 1
    alike: float = 1.0
    is_told: bool = False

    @classmethod
    def begun(cls, attempt: Attempt, at: int, stretch: int, error: str = "") -> Self:
        """The first of them."""
        ids, is_repetition = [attempt.event_id], attempt.is_answered
        return cls(attempt.asked, stretch, attempt.seq, at, ids, is_repetition, error)

    def add(self, attempt: Attempt, at: int) -> None:
        """Once more, perhaps with other words."""
        words, before = words_of(attempt.asked), words_of(self.asked)
        if max(len(words), len(before)) > _NEXT_TO_NOTHING:
            self.alike = min(self.alike, likeness(words, before))
        self.is_repetition &= words == before
        self.asked = attempt.asked
        self.count += 1
        self.last_seq, self.last_step = attempt.seq, at
        self.ids = [*self.ids, attempt.event_id][-IDS_KEPT:]

    def is_about(self, key: int) -> bool:
        """Whether its error is the one with this key; its own is costly, and made when first asked for."""
        if not self.key:
            self.key = error_key(self.error)
            self.error = ""
        return self.key == key
