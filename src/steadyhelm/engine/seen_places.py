"""Which places of a run were seen: tells an event that is delivered twice from one that comes too late."""

from typing import Final, Literal
from zlib import crc32

from msgspec import Struct, field

from steadyhelm.events import TraceEvent

Skipped = Literal["", "repeated", "late", "conflicting"]
"""Why an event was not judged: the same event was seen, it came after a later one, or another event has its
place. Empty for an event that was judged."""

_GAPS_KEPT: Final = 64
_DIGESTS_KEPT: Final = 32


class SeenPlaces(Struct, array_like=True):
    """The places of a run that events were seen at, up to the highest.

    `gaps` are ranges of places that no event was seen at, the latest 64; `digests` are those of the latest 32
    events by place. An event further back than that counts as repeated.
    """

    gaps: list[tuple[int, int]] = field(default_factory=list)
    digests: list[int] = field(default_factory=list)

    def add(self, event: TraceEvent, last_seq: int) -> None:
        """Record an event whose place is above `last_seq`, the highest so far."""
        missing = event.seq - last_seq - 1
        if missing:
            self.gaps = [*self.gaps, (last_seq + 1, event.seq - 1)][-_GAPS_KEPT:]
            self.digests += [0] * min(missing, _DIGESTS_KEPT)
        self.digests.append(_digest(event))
        if len(self.digests) > 2 * _DIGESTS_KEPT:
            del self.digests[:-_DIGESTS_KEPT]

    def classify(self, event: TraceEvent, last_seq: int) -> Skipped:
        """Return what an event is whose place is not above `last_seq`; a late one is seen from now on."""
        place = event.seq
        back = last_seq - place
        for index, (first, last) in enumerate(self.gaps):
            if first <= place <= last:
                rest = [(first, place - 1), (place + 1, last)]
                self.gaps[index : index + 1] = [gap for gap in rest if gap[0] <= gap[1]]
                if back < len(self.digests):
                    self.digests[-1 - back] = _digest(event)
                return "late"
        is_known = back < len(self.digests)
        return "conflicting" if is_known and self.digests[-1 - back] != _digest(event) else "repeated"


def _digest(event: TraceEvent) -> int:
    """Return a number for what an event says, the same in every process; never 0, which stands for none."""
    said = f"{event.action_type}\0{event.action_name}\0{event.timestamp!r}\0{event.call_hash}\0"
    said += f"{event.result_hash}\0{event.token_count}\0{event.error}"
    return crc32(said.encode("utf-8", "replace")) or 1
