"""Export stored runs: as run files, as CSV for a spreadsheet, or as Parquet."""

import contextlib
import csv
import gzip
import io
import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, Literal, TextIO, cast

from msgspec import Struct

from steadyhelm.errors import MissingExtraError, SettingsError, StoreError
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.hostile_text import encode_safe_json, escape_unsafe
from steadyhelm.sink import RecordedEvent
from steadyhelm.store import RunStore
from steadyhelm.store_rows import StoredRun

ExportFormat = Literal["jsonl", "csv", "parquet"]
EXPORT_FORMATS: Final = ("jsonl", "csv", "parquet")

_RUNS_PER_PAGE: Final = 500
_COLUMNS: Final = {
    "agent_id": "string",
    "run_id": "string",
    "seq": "int64",
    "event_id": "string",
    "timestamp": "float64",
    "action_type": "string",
    "action_name": "string",
    "token_count": "int64",
    "duration_ms": "float64",
    "cost_usd": "float64",
    "error": "string",
    "call_id": "string",
    "parent_run_id": "string",
    "started_seq": "int64",
    "call_hash": "int64",
    "result_hash": "int64",
    "input_json": "string",
    "output_json": "string",
    "metadata_json": "string",
}
_PAYLOAD_COLUMNS: Final = ("input_json", "output_json", "metadata_json")
_ROWS_PER_CHUNK: Final = 10_000
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


class ExportCounts(Struct, frozen=True, kw_only=True):
    """How much was exported."""

    runs: int
    events: int


class _Selection:
    """The runs to export, read one at a time and counted."""

    def __init__(
        self, store: RunStore, agent_id: str | None, run_id: str | None, since: float | None
    ) -> None:
        self.store = store
        self._agent_id = agent_id
        self._run_id = run_id
        self._since = since
        self.runs = 0
        self.events = 0

    def __iter__(self) -> Iterator[StoredRun]:
        for run in self._select():
            if self._since is None or run.last_at >= self._since:
                self.runs += 1
                yield run

    def _select(self) -> Iterator[StoredRun]:
        if self._run_id is not None:
            yield self.store.find_run(self._run_id, agent_id=self._agent_id)
            return
        yield from _iter_runs(self.store, self._agent_id)

    def read_events(self, run: StoredRun) -> Iterator[RecordedEvent]:
        for recorded in self.store.iter_run_events(run.agent_id, run.run_id):
            self.events += 1
            yield recorded

    def read_metadata(self, run: StoredRun) -> dict[str, Any]:
        return self.store.get_run_metadata(run.agent_id, run.run_id)


def _iter_runs(store: RunStore, agent_id: str | None) -> Iterator[StoredRun]:
    """Yield every run, newest first. Runs that began at the same moment are never lost between two pages."""
    before: float | None = None
    limit = _RUNS_PER_PAGE
    seen: set[tuple[str, str]] = set()
    while True:
        page = store.list_runs(agent_id, limit=limit, before=before)
        fresh = [run for run in page if (run.agent_id, run.run_id) not in seen]
        yield from fresh
        if len(page) < limit:
            return
        last = page[-1].started_at
        seen = {(run.agent_id, run.run_id) for run in page if run.started_at == last}
        # The next page begins with the runs of that same moment again; a page of nothing else must grow.
        limit = limit if len(seen) < limit else limit * 2
        before = math.nextafter(last, math.inf)


def export(
    store: RunStore,
    target: str | os.PathLike[str] | BinaryIO,
    *,
    format: ExportFormat,  # noqa: A002 - the name it has everywhere
    agent_id: str | None = None,
    run_id: str | None = None,
    since: float | None = None,
) -> ExportCounts:
    """Write the selected runs to a file or a binary stream. Returns how many.

    A file is written under another name and moved into place when complete; only its owner may read it.
    A name that ends with .gz is compressed. `since` leaves out runs whose last activity is older.
    """
    write = _WRITERS.get(format)
    if write is None:
        raise SettingsError(f"format must be one of {', '.join(EXPORT_FORMATS)}, got {format!r}.")
    selection = _Selection(store, agent_id, run_id, since)
    with _open_target(target) as stream:
        write(selection, stream)
    return ExportCounts(runs=selection.runs, events=selection.events)


@contextlib.contextmanager
def _open_target(target: str | os.PathLike[str] | BinaryIO) -> Iterator[BinaryIO]:
    if not isinstance(target, (str, os.PathLike)):
        yield target
        return
    path = Path(target).expanduser().absolute()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as exc:
        raise StoreError(f"The export {path} cannot be created: {exc.strerror or exc}.") from exc
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as raw, _open_compressed(raw, path) as stream:
            yield stream
        part.replace(path)
    except OSError as exc:
        raise StoreError(f"The export {path} could not be written: {exc}.") from exc
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _open_compressed(raw: IO[bytes], path: Path) -> Iterator[BinaryIO]:
    if path.suffix != ".gz":
        yield cast("BinaryIO", raw)
        return
    # Without a name and a time in it, the same runs lead to the same file.
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as stream:
        yield cast("BinaryIO", stream)


def _write_jsonl(selection: _Selection, stream: BinaryIO) -> None:
    for run in selection:
        line = build_run_line(run, selection.read_metadata(run), selection.read_events(run))
        stream.write(encode_safe_json(line) + b"\n")


def _write_csv(selection: _Selection, stream: BinaryIO) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    _write_csv_rows(text, (recorded for run in selection for recorded in selection.read_events(run)))
    text.flush()
    # The stream is the caller's to close.
    text.detach()


def _write_parquet(selection: _Selection, stream: BinaryIO) -> None:
    _write_parquet_rows(stream, (recorded for run in selection for recorded in selection.read_events(run)))


def _build_row(recorded: RecordedEvent) -> list[Any]:
    event = recorded.event
    payloads = (getattr(recorded, name) for name in _PAYLOAD_COLUMNS)
    fields = [getattr(event, name) for name in _COLUMNS if name not in _PAYLOAD_COLUMNS]
    return fields + [None if data is None else data.decode("utf-8", "replace") for data in payloads]


def escape_formula(cell: Any) -> Any:
    """Return a text that a spreadsheet would run as a formula with a quote before it, others unchanged.

    >>> escape_formula("=HYPERLINK(1)"), escape_formula("plain"), escape_formula(-3)
    ("'=HYPERLINK(1)", 'plain', -3)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


def _escape_cell(cell: Any) -> Any:
    quoted = escape_formula(cell)
    return escape_unsafe(quoted) if isinstance(quoted, str) else quoted


def _write_csv_rows(stream: TextIO, events: Iterable[RecordedEvent]) -> None:
    """Write a line of column names, then a line per event."""
    writer = csv.writer(stream)
    writer.writerow(_COLUMNS)
    for recorded in events:
        writer.writerow([_escape_cell(cell) for cell in _build_row(recorded)])


def _write_parquet_rows(stream: BinaryIO, events: Iterable[RecordedEvent]) -> None:
    """Write the same columns as Parquet, a bounded number of rows at a time."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an optional package
        import pyarrow.parquet as pq  # noqa: PLC0415 - the same
    except ImportError as exc:
        raise MissingExtraError("Parquet export", extra="parquet") from exc
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in _COLUMNS.items()])
    with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for rows in _iter_chunks(events):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _iter_chunks(events: Iterable[RecordedEvent]) -> Iterator[list[list[Any]]]:
    rows = (_build_row(recorded) for recorded in events)
    while chunk := list(itertools.islice(rows, _ROWS_PER_CHUNK)):
        yield chunk


_WRITERS: Final[dict[str, Callable[[_Selection, BinaryIO], None]]] = {
    "jsonl": _write_jsonl,
    "csv": _write_csv,
    "parquet": _write_parquet,
}


_TYPE_NAMES: Final = {
    TOOL_CALL: "tool_call",
    LLM_REQUEST: "llm_output",
    STATE_TRANSITION: "state",
    USER_MESSAGE: "user_message",
}


def build_run_line(
    run: StoredRun, metadata: dict[str, Any], events: Iterable[RecordedEvent]
) -> dict[str, Any]:
    """Return the run as a line of a run file. What is not known is left out."""
    line = {
        "run_id": run.run_id,
        "agent_id": run.agent_id,
        "goal": run.goal,
        "version": run.version,
        "task_type": run.task_type,
        "parent_run_id": run.parent_run_id,
        "started_at": run.started_at,
        "outcome": run.outcome,
        "meta": metadata,
    }
    known = {key: value for key, value in line.items() if value not in (None, "", {})}
    return {**known, "events": [build_entry(recorded.event) for recorded in events]}


def build_entry(event: TraceEvent) -> dict[str, Any]:
    """Return one event as an entry of a run file.

    Arguments are under `args`, texts under `text`, any other result under `result`.
    What a run file has no key for is under `meta`, so that nothing a detector reads is lost.
    """
    fields = {
        "type": _TYPE_NAMES.get(event.action_type, "state"),
        "name": event.action_name,
        **_build_data(event),
        "error": _build_error(event),
        "tokens": event.token_count or None,
        "duration_ms": event.duration_ms or None,
        "t": event.timestamp,
        "call_id": event.call_id,
        "parent_run_id": event.parent_run_id,
        "cost_usd": event.cost_usd,
        "meta": _build_meta(event) or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _build_data(event: TraceEvent) -> dict[str, Any]:
    if event.action_type == TOOL_CALL:
        return {"args": event.input_data, "result": event.output_data}
    if event.action_type == USER_MESSAGE:
        return _build_text(event.input_data)
    return {"args": event.input_data, **_build_text(event.output_data)}


def _build_text(data: Any) -> dict[str, Any]:
    if isinstance(data, dict) and data.keys() == {"text"} and isinstance(data["text"], str):
        return {"text": data["text"]}
    return {"text": data} if isinstance(data, str) else {"result": data}


def _build_error(event: TraceEvent) -> str | bool | None:
    if event.error is not None:
        return event.error or True
    # A call without any result has ended all the same: readers must not wait for an entry with the result.
    return False if event.action_type == TOOL_CALL and event.output_data is None else None


def _build_meta(event: TraceEvent) -> dict[str, Any]:
    meta = {
        "seq": event.seq,
        "started_seq": event.started_seq,
        "event_id": None if event.event_id == f"{event.run_id}.{event.seq}" else event.event_id,
        "action_type": None if event.action_type in _TYPE_NAMES else event.action_type,
        "output_data": event.output_data if event.action_type == USER_MESSAGE else None,
        "metadata": event.metadata,
    }
    return {key: value for key, value in meta.items() if value is not None}
