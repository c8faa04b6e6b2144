"""One batch of records as the rows it becomes, with each run's sums added up before anything is written."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from steadyhelm.events import ACTION_TYPES, LLM_REQUEST, TOOL_CALL, RunInfo, RunSummary
from steadyhelm.findings import DriftEvent
from steadyhelm.incidents import Incident
from steadyhelm.sink import Loss, Record, RecordedEvent, SavedState
from steadyhelm.stores.keys import Keys, RunKey

TYPE_CODES: Final[dict[str, int]] = {name: code for code, name in enumerate(ACTION_TYPES)}
TOOL_CODE: Final = TYPE_CODES[TOOL_CALL]
LLM_CODE: Final = TYPE_CODES[LLM_REQUEST]

PLAIN_ERROR: Final = "error"
"""What a failed event says when its own words are not kept; it needs no payload."""

EventRow = tuple[
    int,
    int,
    int,
    int,
    float,
    int,
    float,
    float | None,
    int | None,
    int,
    int,
    int,
    int | None,
    int | None,
    str | None,
]
Turn = RunInfo | SavedState | RunSummary
PayloadRow = tuple[int, bytes | None, bytes | None, bytes | None, str | None, str | None]


class ToolTally:
    """What one batch adds to one action of one run."""

    __slots__ = ("calls", "duration_ms", "errors", "tokens")

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0
        self.tokens = 0
        self.duration_ms = 0.0


class Tally:
    """What one batch adds to one run."""

    __slots__ = (
        *("key", "run", "prefix", "last_seq", "seqs", "tokens", "tool_calls", "llm_calls", "errors"),
        *(
            "duration_ms",
            "cost_usd",
            "payloads",
            "first_at",
            "last_at",
            "tools",
            "findings",
            "turns",
            "turned_after",
        ),
    )

    def __init__(self, key: RunKey, run_id: str) -> None:
        self.key = key
        self.run = key.id
        self.prefix = run_id + "."
        self.last_seq = key.last_seq
        self.seqs: list[int] = []
        self.tokens = 0
        self.tool_calls = 0
        self.llm_calls = 0
        self.errors = 0
        self.duration_ms = 0.0
        self.cost_usd = 0.0
        self.payloads = 0
        self.first_at = key.started_at
        self.last_at = 0.0
        self.tools: dict[int, ToolTally] = {}
        self.findings: list[DriftEvent] = []
        self.turns: list[Turn] = []
        self.turned_after = 0

    def turn(self, record: Turn) -> None:
        """The run is opened, put aside or ended here."""
        self.turns.append(record)
        self.turned_after = len(self.seqs)
        if not isinstance(record, SavedState):
            at = record.ended_at if isinstance(record, RunSummary) else record.started_at
            self.last_at = max(self.last_at, at)

    @property
    def is_woken(self) -> bool:
        """Whether an event came after everything that opened, suspended or ended the run."""
        return len(self.seqs) > self.turned_after


class Batch(Struct):
    """Everything one batch will write."""

    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    events: list[EventRow] = field(default_factory=list)
    payloads: list[PayloadRow] = field(default_factory=list)
    incidents: dict[str, tuple[Tally, Incident]] = field(default_factory=dict)
    losses: dict[str, Loss] = field(default_factory=dict)


class Gathering:
    """Turns records into a batch, giving numbers to agents, runs and names on the way."""

    def __init__(self, connection: sqlite3.Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys
        self._batch = Batch()

    # The hot loop: a call per idea would cost a fifth of it.
    def batch(self, records: Sequence[Record]) -> Batch:  # noqa: C901, PLR0912, PLR0915 - see above
        """The rows of these records; an event already kept, or twice among them, gives none."""
        connection, keys = self._connection, self._keys
        names, tallies = keys.names, self._batch.tallies
        event_rows, payload_rows = self._batch.events, self._batch.payloads
        payload = (connection.execute("SELECT max(id) FROM payloads").fetchone()[0] or 0) + 1
        for record in records:
            if type(record) is not RecordedEvent:
                self._add(record)
                continue
            event = record.event
            tally = tallies.get((event.agent_id, event.run_id))
            if tally is None:
                tally = self._tally(event.agent_id, event.run_id, event.timestamp)
            seq = event.seq
            if seq > tally.last_seq:
                tally.last_seq = seq
            elif self._is_kept(tally, seq):
                continue
            tally.seqs.append(seq)
            name = names.get(event.action_name) or keys.name(connection, event.action_name)
            tokens, duration_ms, cost_usd, at = (
                event.token_count,
                event.duration_ms,
                event.cost_usd,
                event.timestamp,
            )
            error = event.error
            failed = 0
            if error is not None:
                failed = 1
                tally.errors += 1
                if error == PLAIN_ERROR:
                    error = None
            code = TYPE_CODES.get(event.action_type)
            if code is None:
                code = -keys.name(connection, event.action_type)
            elif code == TOOL_CODE:
                tally.tool_calls += 1
                tool = tally.tools.get(name)
                if tool is None:
                    tool = tally.tools[name] = ToolTally()
                tool.calls += 1
                tool.errors += failed
                tool.tokens += tokens
                tool.duration_ms += duration_ms
            elif code == LLM_CODE:
                tally.llm_calls += 1
            tally.tokens += tokens
            tally.duration_ms += duration_ms
            if cost_usd is not None:
                tally.cost_usd += cost_usd
            if at > tally.last_at:  # noqa: PLR1730 - calling max costs three times the comparison
                tally.last_at = at
            if at < tally.first_at:  # noqa: PLR1730 - the same
                tally.first_at = at
            input_json, output_json, metadata_json = (
                record.input_json,
                record.output_json,
                record.metadata_json,
            )
            call_id = event.call_id
            place = None
            if (
                input_json is not None
                or output_json is not None
                or metadata_json is not None
                or error is not None
                or call_id is not None
            ):
                payload_rows.append((payload, input_json, output_json, metadata_json, error, call_id))
                tally.payloads += 1
                place = payload
                payload += 1
            parent = event.parent_run_id
            event_id = event.event_id
            event_rows.append(
                # Written out: putting a tuple together from parts costs three times as much.
                (
                    tally.run,
                    seq,
                    code,
                    name,
                    at,
                    tokens,
                    duration_ms,
                    cost_usd,
                    event.started_seq,
                    event.call_hash,
                    event.result_hash,
                    failed,
                    place,
                    None if parent is None else keys.name(connection, parent),
                    None if event_id == tally.prefix + str(seq) else event_id,
                )
            )
        return self._batch

    def _tally(self, agent_id: str, run_id: str, at: float) -> Tally:
        tally = self._batch.tallies.get((agent_id, run_id))
        if tally is None:
            key = self._keys.run(self._connection, agent_id, run_id, at)
            tally = self._batch.tallies[agent_id, run_id] = Tally(key, run_id)
        return tally

    def _is_kept(self, tally: Tally, seq: int) -> bool:
        if seq in tally.seqs:
            return True
        found = self._connection.execute("SELECT 1 FROM events WHERE run = ? AND seq = ?", (tally.run, seq))
        return found.fetchone() is not None

    def _add(self, record: Record) -> None:
        """Everything that is not an event: rare, and so told apart here."""
        if isinstance(record, Loss):
            before = self._batch.losses.get(record.reason)
            count = record.count + (before.count if before else 0)
            self._batch.losses[record.reason] = Loss(record.reason, count, record.timestamp)
        elif isinstance(record, DriftEvent):
            self._tally(record.agent_id, record.run_id, record.timestamp).findings.append(record)
        elif isinstance(record, Incident):
            tally = self._tally(record.agent_id, record.run_id, record.opened_at)
            self._batch.incidents[record.incident_id] = (tally, record)
        elif isinstance(record, (RunInfo, RunSummary)):
            self._tally(record.agent_id, record.run_id, record.started_at).turn(record)
        elif isinstance(record, SavedState):
            self._tally(record.agent_id, record.run_id, record.timestamp).turn(record)
