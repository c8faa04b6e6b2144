"""Keep the steps of a run whose saved state was not read yet.

They are judged at once as those of a new run, and again from the saved state when it is there.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from steadyhelm.engine.responses import Observation
from steadyhelm.forks import ReentrantEvent
from steadyhelm.judge import Question
from steadyhelm.sink import Record

MOST_POSTPONED: Final = 1000
STEPS_AT_ONCE: Final = 16
"""How many steps the thread that takes one judges again: it must not wait until all others are judged."""

Step = Callable[[], object]
T = TypeVar("T")


class RecordHolder(Protocol):
    """Keeps records that are not queued yet where they survive the process."""

    def hold(self, epoch: str, records: Sequence[Record]) -> None:
        """Keep records of the run with this epoch."""
        ...

    def miss(self, count: int) -> None:
        """Write down that so many more have no record yet: they do not survive the process."""
        ...

    def release(self, count: int, *, withdrawn: str = "") -> None:
        """Keep that many no longer, of which those of the epoch given were recorded otherwise."""
        ...


class PostponedSteps:
    """Steps in the order they were taken, and their records. Methods are called under the lock of the run.

    Args:
        holder: Keeps the records of the new run that it may be after all.
        epoch: The epoch of that run.
    """

    def __init__(self, holder: RecordHolder, epoch: str) -> None:
        self._holder = holder
        self._epoch = epoch
        self._steps: deque[Step] = deque()
        self._held: list[Sequence[Record]] = []
        self._behind = 0
        self.questions: list[Question] = []
        """What a judge is to be asked if the run is a new one."""
        self.is_waiting = True
        """Whether it is not known yet how the run continues."""
        self.done = ReentrantEvent()
        """Set when the steps need not wait any more."""

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def is_full(self) -> bool:
        """Whether no further step should wait."""
        return len(self._steps) >= MOST_POSTPONED

    def hold(self, records: Sequence[Record]) -> None:
        """Keep records until it is known how the run continues."""
        self._held.append(records)
        self._holder.hold(self._epoch, records)

    def count_behind(self) -> None:
        """Count a step that has no record yet: its caller did not wait until those before it were judged."""
        self._behind += 1
        self._holder.miss(1)

    def withdraw_held(self) -> None:
        """Drop what is held: its steps were judged again."""
        held, self._held = self._held, []
        self._holder.release(sum(map(len, held)) + self._behind, withdrawn=self._epoch)

    def queue_held(self, queue: Callable[[Sequence[Record]], None]) -> None:
        """Queue what is held: the run is a new one."""
        held, self._held = self._held, []
        for records in held:
            queue(records)
        self._holder.release(sum(map(len, held)))

    def add(self, step: Step) -> None:
        """Add a step behind the others."""
        self._steps.append(step)

    def do_some(self, do: Callable[[Step], object], most: int) -> object:
        """Do the first steps; returns the result of the last of all, None while others are left."""
        result: object = None
        for _ in range(min(most, len(self._steps))):
            result = do(self._steps.popleft())
        if self._steps:
            return None
        self.done.set()
        return result


def split_questions(done: T) -> tuple[T, Sequence[Question]]:
    """Return the result of a step without its questions for a judge, and these."""
    if isinstance(done, Observation) and done.questions:
        return done._replace(questions=()), done.questions
    return done, ()
