"""What is counted at every event of a run: its sums, and the places that events were seen at."""

from bisect import bisect_right
from typing import Final, Literal
from zlib import crc32

from msgspec import Struct, field

from steadyhelm.calibration import find_frequent_sequences
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, RunInfo, RunSummary, TraceEvent

_NAMES_KEPT: Final = 400
_MARKS_KEPT: Final = 32
_HIDDEN_KEPT: Final = 256
_GAPS_KEPT: Final = 64
_DIGESTS_KEPT: Final = 32

Skipped = Literal["", "repeated", "late", "conflicting"]
"""Why an event was not judged: the same event was seen, it came after a later one, or another event has its
place. Empty for an event that was judged."""


class Totals(Struct):
    """The sums of one run so far; `marks` are the tokens spent by the end of each of the latest events.

    `hidden` are the places of the latest events that are not part of what the agent did: nothing is counted
    by them.
    """

    last_seq: int = -1
    events: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    tool_calls: int = 0
    llm_calls: int = 0
    errors: int = 0
    first_at: float = -1.0
    last_at: float = 0.0
    names: list[str] = field(default_factory=list)
    last_names: list[str] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    hidden: list[int] = field(default_factory=list)

    def hide(self, seq: int) -> None:
        """Pass the place of an event that the agent has no part in."""
        self.last_seq = seq
        self.hidden.append(seq)
        if len(self.hidden) > 2 * _HIDDEN_KEPT:
            del self.hidden[:-_HIDDEN_KEPT]
        self.marks.append(self.tokens)
        if len(self.marks) > 2 * _MARKS_KEPT:
            del self.marks[:-_MARKS_KEPT]

    def count_events(self, since: int, seq: int) -> int:
        """Return the number of events after one place up to another, without hidden ones."""
        if not self.hidden:
            return seq - since
        return seq - since - bisect_right(self.hidden, seq) + bisect_right(self.hidden, since)

    def add(self, event: TraceEvent) -> None:
        """Count one event."""
        self.last_seq = event.seq
        self.events += 1
        if event.token_count:  # else the same number is kept once more, not a copy of it
            self.tokens += event.token_count
        self.marks.append(self.tokens)
        if len(self.marks) > 2 * _MARKS_KEPT:
            del self.marks[:-_MARKS_KEPT]
        if event.action_type == TOOL_CALL:
            self.tool_calls += 1
            before = self.last_names
            self.last_names = [before[-1], event.action_name] if before else [event.action_name]
            if self.tool_calls <= _NAMES_KEPT:
                self.names.append(event.action_name)
        elif event.action_type == LLM_REQUEST:
            self.llm_calls += 1
        if event.error is not None:
            self.errors += 1
        if event.cost_usd is not None:
            self.cost_usd += event.cost_usd
        if self.first_at < 0:
            self.first_at = event.timestamp - event.duration_ms / 1000
        self.last_at = max(self.last_at, event.timestamp)

    def tokens_before(self, seq: int) -> int:
        """Return the tokens spent before the event at that place, as far back as is remembered."""
        marks, back = self.marks, self.last_seq - seq + 1
        if back < 1 or not marks:
            return self.tokens
        return (
            marks[-back - 1]
            if back < len(marks)
            else 0
            if len(marks) == self.events + len(self.hidden)
            else marks[0]
        )

    def summarise(
        self,
        run: RunInfo,
        *,
        at: float,
        outcome: str,
        had_incident: bool,
        doubts: list[tuple[str, str, float]],
    ) -> RunSummary:
        """Return the summary of the run; detectors add what they learnt from it afterwards."""
        started_at = run.started_at if run.started_at > 0 else max(self.first_at, 0.0)
        return RunSummary(
            agent_id=run.agent_id,
            run_id=run.run_id,
            version=run.version,
            task_type=run.task_type,
            started_at=started_at,
            ended_at=at,
            outcome=outcome,
            events=self.events,
            tokens=self.tokens,
            tool_calls=self.tool_calls,
            llm_calls=self.llm_calls,
            errors=self.errors,
            duration_ms=max(0.0, self.last_at - started_at) * 1000,
            had_incident=had_incident,
            sequences=find_frequent_sequences(self.names),
            doubts=doubts,
        )


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
        self.digests.append(_compute_digest(event))
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
                    self.digests[-1 - back] = _compute_digest(event)
                return "late"
        is_known = back < len(self.digests)
        return "conflicting" if is_known and self.digests[-1 - back] != _compute_digest(event) else "repeated"


def _compute_digest(event: TraceEvent) -> int:
    """Return a number for what an event says, the same in every process; never 0, which stands for none."""
    said = f"{event.action_type}\0{event.action_name}\0{event.timestamp!r}\0{event.call_hash}\0"
    said += f"{event.result_hash}\0{event.token_count}\0{event.error}"
    return crc32(said.encode("utf-8", "replace")) or 1
