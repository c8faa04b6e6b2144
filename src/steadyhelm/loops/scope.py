"""Where a loop can begin and end: new work and a user's new words are progress."""

from typing import Final, Literal

from msgspec import Struct, field

from steadyhelm.events import TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.loops.likeness import text_key
from steadyhelm.loops.steps import read_step

_WORKS_KEPT: Final = 64

Opening = Literal["", "work", "words"]


class Scope(Struct):
    """Tells what opens a new stretch: work that was not done before, or words that were not said before.

    The same edit made again is not new work, and a harness that sends the same text again is not a user.
    Nothing else opens one: a call that was refused is neither.
    """

    works: dict[int, None] = field(default_factory=dict)
    words: int = 0

    def take(self, event: TraceEvent) -> Opening:
        """What this event opens, if anything."""
        if event.action_type == TOOL_CALL:
            step = read_step(event)
            return "work" if step.is_work_done and self.takes_work(step.call) else ""
        return "words" if self.takes_words(event) else ""

    def takes_work(self, call: int) -> bool:
        """Whether this call, which changed something, was not made before."""
        if call in self.works:
            return False
        self.works[call] = None
        if len(self.works) > _WORKS_KEPT:
            del self.works[next(iter(self.works))]
        return True

    def takes_words(self, event: TraceEvent) -> bool:
        """Whether this event is a user who says something new."""
        if event.action_type != USER_MESSAGE:
            return False
        before, self.words = self.words, text_key(event.text)
        return before != self.words
