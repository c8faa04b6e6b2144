"""Events as the rows of a table: CSV for a spreadsheet, Parquet for analysis."""

import csv
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final, TextIO

from steadyhelm.errors import MissingExtraError
from steadyhelm.sink import RecordedEvent

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
_PAYLOADS: Final = ("input_json", "output_json", "metadata_json")
_ROWS_AT_ONCE: Final = 10_000
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def _row(recorded: RecordedEvent) -> list[Any]:
    event = recorded.event
    payloads = (getattr(recorded, name) for name in _PAYLOADS)
    fields = [getattr(event, name) for name in _COLUMNS if name not in _PAYLOADS]
    return fields + [None if data is None else data.decode("utf-8", "replace") for data in payloads]


def harmless(cell: Any) -> Any:
    """A text that a spreadsheet would run as a formula, with a quote before it; anything else as it is.

    >>> harmless("=HYPERLINK(1)"), harmless("plain"), harmless(-3)
    ("'=HYPERLINK(1)", 'plain', -3)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


def write_csv(stream: TextIO, events: Iterable[RecordedEvent]) -> None:
    """Write a line of names, then a line per event."""
    writer = csv.writer(stream)
    writer.writerow(_COLUMNS)
    for recorded in events:
        writer.writerow([harmless(cell) for cell in _row(recorded)])


def write_parquet(stream: BinaryIO, events: Iterable[RecordedEvent]) -> None:
    """Write the same columns as Parquet, a bounded number of rows at a time."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an optional package
        import pyarrow.parquet as pq  # noqa: PLC0415 - the same
    except ImportError as exc:
        raise MissingExtraError("Parquet export", extra="parquet") from exc
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in _COLUMNS.items()])
    with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for rows in _chunks(events):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _chunks(events: Iterable[RecordedEvent]) -> Iterator[list[list[Any]]]:
    rows = (_row(recorded) for recorded in events)
    while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        yield chunk
