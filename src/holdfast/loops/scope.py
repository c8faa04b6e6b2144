"""Where a loop can begin and end: new work and a user's new words are progress."""

from typing import Final, Literal
from zlib import crc32

from msgspec import Struct, field

from holdfast.events import TOOL_CALL, USER_MESSAGE, TraceEvent
from holdfast.loops.steps import read_step

_WORKS_KEPT: Final = 64

Opening = Literal["", "work", "words"]


class Scope(Struct):
    """Tells what opens a new stretch: work that was not done before, or words that were not said before.

    The same edit made again is not new work, and a harness that sends the same text again is not a user.
    """

    works: list[int] = field(default_factory=list)
    words: int = 0

    def take(self, event: TraceEvent) -> Opening:
        """What this event opens, if anything."""
        if event.action_type == TOOL_CALL:
            step = read_step(event)
            return self._work(step.call) if step.is_work_done else ""
        if event.action_type == USER_MESSAGE:
            said = crc32(event.text.encode("utf-8", "replace"))
            new, self.words = said != self.words, said
            return "words" if new else ""
        return ""

    def _work(self, call: int) -> Opening:
        if call in self.works:
            return ""
        self.works.append(call)
        del self.works[:-_WORKS_KEPT]
        return "work"
