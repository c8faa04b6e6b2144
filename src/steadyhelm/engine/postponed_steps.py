"""The steps of a run whose saved state is not there yet: judged as those of a new run, then once more."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from steadyhelm.forks import ReentrantEvent
from steadyhelm.sink import Record

MOST_POSTPONED: Final = 1000
STEPS_AT_ONCE: Final = 16
"""How many steps the thread that takes one judges again: it must not wait until all others are judged."""

Step = Callable[[], object]


class PostponedSteps:
    """Steps in the order they were taken, and their records. Methods are called under the lock of the run."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self.held: list[Sequence[Record]] = []
        """The records of the new run that it may be after all."""
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
