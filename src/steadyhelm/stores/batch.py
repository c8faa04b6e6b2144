"""Turn one batch of records into rows, with each run's totals added up before anything is written."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import astuple

from steadyhelm.events import ACTION_TYPES, LLM_REQUEST, TOOL_CALL, RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.incidents import Incident
from steadyhelm.sink import DailyGrant, DriftPoint, Loss, PinnedBaseline, Record, RecordedEvent, SavedState
from steadyhelm.stores.database import Connection
from steadyhelm.stores.row_ids import CachedRun, LastSame, RowIds, find_last_same

TYPE_CODES: Final[dict[str, int]] = {name: code for code, name in enumerate(ACTION_TYPES)}
TOOL_CODE: Final = TYPE_CODES[TOOL_CALL]
LLM_CODE: Final = TYPE_CODES[LLM_REQUEST]

PLAIN_ERROR: Final = "error"
"""The error text of a failed event whose own text is not stored; it needs no payload."""

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
    int | None,
    int | None,
]
StateChange = RunInfo | SavedState | RunSummary
PointRow = tuple[int, int, float | None, float | None, float | None, float | None, float | None, float | None]
LimitRow = tuple[int, int, int | None, int | None, float | None, float | None, float]
PayloadRow = tuple[int, bytes | None, bytes | None, bytes | None, str | None, str | None]


class ToolTotals:
    """What one batch adds to the totals of one tool of one run."""

    __slots__ = ("calls", "duration_ms", "errors", "tokens")

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0
        self.tokens = 0
        self.duration_ms = 0.0


class RunTotals:
    """What one batch adds to the totals of one run."""

    __slots__ = (
        *("cached", "run", "prefix", "last_seq", "seqs", "tokens", "tool_calls", "llm_calls", "errors"),
        *(
            "duration_ms",
            "cost_usd",
            "payloads",
            "repeated",
            "reply_bytes",
            "top_score",
            "last_score",
            "first_at",
            "last_at",
            "tools",
            "findings",
            "state_changes",
            "events_before_change",
        ),
    )

    def __init__(self, cached: CachedRun, run_id: str) -> None:
        self.cached = cached
        self.run = cached.id
        self.prefix = run_id + "."
        self.last_seq = cached.last_seq
        self.seqs: list[int] = []
        self.tokens = 0
        self.tool_calls = 0
        self.llm_calls = 0
        self.errors = 0
        self.duration_ms = 0.0
        self.cost_usd = 0.0
        self.payloads = 0
        self.repeated = 0
        self.reply_bytes = 0
        self.top_score: float | None = None
        self.last_score: float | None = None
        self.first_at = cached.started_at
        self.last_at = 0.0
        self.tools: dict[int, ToolTotals] = {}
        self.findings: list[DriftEvent] = []
        self.state_changes: list[StateChange] = []
        self.events_before_change = 0

    def add_state_change(self, record: StateChange) -> None:
        """Add a record that starts, suspends or ends the run."""
        self.state_changes.append(record)
        self.events_before_change = len(self.seqs)
        if not isinstance(record, SavedState):
            at = record.ended_at if isinstance(record, RunSummary) else record.started_at
            self.last_at = max(self.last_at, at)

    @property
    def is_resumed(self) -> bool:
        """Whether an event came after the last record that started, suspended or ended the run."""
        return len(self.seqs) > self.events_before_change

    @property
    def is_over(self) -> bool:
        """Whether the run ended in this batch, and nothing came after it."""
        last = self.state_changes[-1] if self.state_changes else None
        return isinstance(last, RunSummary) and not self.is_resumed


class Batch(Struct):
    """The rows and totals of one batch."""

    totals: dict[tuple[str, str], RunTotals] = field(default_factory=dict)
    events: list[EventRow] = field(default_factory=list)
    payloads: list[PayloadRow] = field(default_factory=list)
    points: list[PointRow] = field(default_factory=list)
    limits: list[LimitRow] = field(default_factory=list)
    incidents: dict[str, tuple[RunTotals, Incident]] = field(default_factory=dict)
    losses: list[tuple[str, str, int, float]] = field(default_factory=list)
    pinned: list[tuple[RunTotals, PinnedBaseline]] = field(default_factory=list)
    grants: list[DailyGrant] = field(default_factory=list)


class BatchBuilder:
    """Builds a batch from records. Inserts new agents, runs and names to get their row ids."""

    def __init__(self, connection: Connection, row_ids: RowIds) -> None:
        self._connection = connection
        self._row_ids = row_ids
        self._batch = Batch()

    # The hot loop: a function per idea would make it a fifth slower.
    def build(self, records: Sequence[Record]) -> Batch:  # noqa: C901, PLR0912, PLR0915 - see above
        """Return the rows of these records. An event that is already stored, or a repeated one, has none."""
        connection, row_ids = self._connection, self._row_ids
        names, all_totals = row_ids.names, self._batch.totals
        event_rows, payload_rows = self._batch.events, self._batch.payloads
        next_payload = connection.dialect.get_next_payload_id(connection)
        for record in records:
            if type(record) is not RecordedEvent:
                self._add(record)
                continue
            event = record.event
            totals = all_totals.get((event.agent_id, event.run_id))
            if totals is None:
                totals = self._get_totals(event.agent_id, event.run_id, event.timestamp)
            seq = event.seq
            if seq > totals.last_seq:
                totals.last_seq = seq
            elif self._is_stored(totals, seq):
                continue
            totals.seqs.append(seq)
            name = names.get(event.action_name) or row_ids.get_name(connection, event.action_name)
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
                totals.errors += 1
                if error == PLAIN_ERROR:
                    error = None
            last_same = same_result = None
            code = TYPE_CODES.get(event.action_type)
            if code is None:
                code = -row_ids.get_name(connection, event.action_type)
            elif code == TOOL_CODE:
                found = self._add_tool_call(totals, event, name)
                if found is not None:
                    last_same, same_result = found
                    totals.repeated += 1
            elif code == LLM_CODE:
                totals.llm_calls += 1
                if record.output_json is not None:
                    totals.reply_bytes += len(record.output_json)
            totals.tokens += tokens
            totals.duration_ms += duration_ms
            if cost_usd is not None:
                totals.cost_usd += cost_usd
            if at > totals.last_at:  # noqa: PLR1730 - calling max takes three times as long
                totals.last_at = at
            if at < totals.first_at:  # noqa: PLR1730 - the same
                totals.first_at = at
            input_json, output_json, metadata_json = (
                record.input_json,
                record.output_json,
                record.metadata_json,
            )
            call_id = event.call_id
            payload_id = None
            if (
                input_json is not None
                or output_json is not None
                or metadata_json is not None
                or error is not None
                or call_id is not None
            ):
                payload_rows.append((next_payload, input_json, output_json, metadata_json, error, call_id))
                totals.payloads += 1
                payload_id = next_payload
                next_payload += 1
            parent = event.parent_run_id
            event_id = event.event_id
            event_rows.append(
                # One literal: joining a tuple from parts takes three times as long.
                (
                    totals.run,
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
                    payload_id,
                    None if parent is None else row_ids.get_name(connection, parent),
                    None if event_id == totals.prefix + str(seq) else event_id,
                    last_same,
                    same_result,
                )
            )
            if record.drift is not None:
                self._add_point(totals, seq, record.drift)
            if record.limits is not None:
                self._batch.limits.append((totals.run, seq, *astuple(record.limits)))
        return self._batch

    def _add_tool_call(self, totals: RunTotals, event: TraceEvent, name: int) -> LastSame | None:
        """Count a tool call, and return the last identical one, None for none."""
        totals.tool_calls += 1
        tool = totals.tools.get(name)
        if tool is None:
            tool = totals.tools[name] = ToolTotals()
        tool.calls += 1
        if event.error is not None:
            tool.errors += 1
        tool.tokens += event.token_count
        tool.duration_ms += event.duration_ms
        if not event.call_hash:  # 0 where not even hashes of arguments are kept
            return None
        calls = totals.cached.calls
        found = calls.add(event.call_hash, event.result_hash, event.seq)
        if found is None and not calls.is_complete:
            return find_last_same(self._connection, totals.run, event)
        return found

    def _add_point(self, totals: RunTotals, seq: int, point: DriftPoint) -> None:
        self._batch.points.append((totals.run, seq, *astuple(point)))
        score = totals.last_score = point.score
        if score is not None and (totals.top_score is None or score > totals.top_score):
            totals.top_score = score

    def _get_totals(self, agent_id: str, run_id: str, at: float) -> RunTotals:
        totals = self._batch.totals.get((agent_id, run_id))
        if totals is None:
            cached = self._row_ids.get_run(self._connection, agent_id, run_id, at)
            totals = self._batch.totals[agent_id, run_id] = RunTotals(cached, run_id)
        return totals

    def _is_stored(self, totals: RunTotals, seq: int) -> bool:
        if seq in totals.seqs:
            return True
        found = self._connection.execute("SELECT 1 FROM events WHERE run = ? AND seq = ?", (totals.run, seq))
        return found.fetchone() is not None

    def _add(self, record: Record) -> None:
        """Add a record that is not an event. These are rare, so their types are tested here."""
        if isinstance(record, Loss):
            self._batch.losses.append((record.reason, record.token, record.count, record.timestamp))
        elif isinstance(record, DriftEvent):
            self._get_totals(record.agent_id, record.run_id, record.timestamp).findings.append(record)
        elif isinstance(record, Incident):
            totals = self._get_totals(record.agent_id, record.run_id, record.opened_at)
            self._batch.incidents[record.incident_id] = (totals, record)
        elif isinstance(record, (RunInfo, RunSummary)):
            self._get_totals(record.agent_id, record.run_id, record.started_at).add_state_change(record)
        elif isinstance(record, SavedState):
            self._get_totals(record.agent_id, record.run_id, record.timestamp).add_state_change(record)
        elif isinstance(record, PinnedBaseline):
            self._batch.pinned.append((self._get_totals(record.agent_id, record.run_id, 0.0), record))
        elif isinstance(record, DailyGrant):
            self._batch.grants.append(record)
