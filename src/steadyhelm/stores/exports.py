"""Hand over what is stored: as run files, as a table for a spreadsheet, or as Parquet."""

import contextlib
import gzip
import io
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, Literal, cast

import msgspec
from msgspec import Struct

from steadyhelm.errors import SettingsError, StoreError
from steadyhelm.sink import RecordedEvent
from steadyhelm.store import RunRow, Store
from steadyhelm.stores.runlines import run_line
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.stores.tables import write_csv, write_parquet

ExportFormat = Literal["jsonl", "csv", "parquet"]
EXPORT_FORMATS: Final = ("jsonl", "csv", "parquet")

_RUNS_AT_ONCE: Final = 500


class Exported(Struct, frozen=True, kw_only=True):
    """How much was written."""

    runs: int
    events: int


class _Selection:
    """The runs to export, read one at a time, and counted on the way."""

    def __init__(self, store: Store, agent_id: str | None, run_id: str | None, since: float | None) -> None:
        self.store = store
        self._agent_id = agent_id
        self._run_id = run_id
        self._since = since
        self.runs = 0
        self.events = 0

    def __iter__(self) -> Iterator[RunRow]:
        for run in self._rows():
            if self._since is None or run.last_at >= self._since:
                self.runs += 1
                yield run

    def _rows(self) -> Iterator[RunRow]:
        if self._run_id is not None:
            yield self.store.find_run(self._run_id, agent_id=self._agent_id)
            return
        yield from _all_runs(self.store, self._agent_id)

    def events_of(self, run: RunRow) -> Iterator[RecordedEvent]:
        for recorded in self.store.run_events(run.agent_id, run.run_id):
            self.events += 1
            yield recorded

    def metadata_of(self, run: RunRow) -> dict[str, Any]:
        if not isinstance(self.store, SQLiteStore):
            return {}
        return self.store.run_metadata(run.agent_id, run.run_id)


def _all_runs(store: Store, agent_id: str | None) -> Iterator[RunRow]:
    """Every run, newest first; runs that began at the same moment never fall between two pages."""
    before: float | None = None
    limit = _RUNS_AT_ONCE
    seen: set[tuple[str, str]] = set()
    while True:
        page = store.runs(agent_id, limit=limit, before=before)
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
    store: Store,
    target: str | os.PathLike[str] | BinaryIO,
    *,
    format: ExportFormat,  # noqa: A002 - what it is called everywhere
    agent_id: str | None = None,
    run_id: str | None = None,
    since: float | None = None,
) -> Exported:
    """Write the chosen runs to a file or a binary stream; says how many.

    A file is written beside its place and moved there when it is complete; only its owner may read it.
    A name that ends with .gz is compressed. `since` leaves out runs whose last activity is older.
    """
    write = _WRITERS.get(format)
    if write is None:
        raise SettingsError(f"format must be one of {', '.join(EXPORT_FORMATS)}, got {format!r}.")
    selection = _Selection(store, agent_id, run_id, since)
    with _opened(target) as stream:
        write(selection, stream)
    return Exported(runs=selection.runs, events=selection.events)


@contextlib.contextmanager
def _opened(target: str | os.PathLike[str] | BinaryIO) -> Iterator[BinaryIO]:
    if not isinstance(target, (str, os.PathLike)):
        yield target
        return
    path = Path(target).expanduser().absolute()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as exc:
        raise StoreError(f"The export {path} cannot be created: {exc}.") from exc
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as raw, _compressed(raw, path) as stream:
            yield stream
        part.replace(path)
    except OSError as exc:
        raise StoreError(f"The export {path} could not be written: {exc}.") from exc
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _compressed(raw: IO[bytes], path: Path) -> Iterator[BinaryIO]:
    if path.suffix != ".gz":
        yield cast("BinaryIO", raw)
        return
    # Without a name and a time in it, the same runs give the same file.
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as stream:
        yield cast("BinaryIO", stream)


def _write_jsonl(selection: _Selection, stream: BinaryIO) -> None:
    for run in selection:
        line = run_line(run, selection.metadata_of(run), selection.events_of(run))
        stream.write(msgspec.json.encode(line) + b"\n")


def _write_csv(selection: _Selection, stream: BinaryIO) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    write_csv(text, (recorded for run in selection for recorded in selection.events_of(run)))
    text.flush()
    # The stream is the caller's to close.
    text.detach()


def _write_parquet(selection: _Selection, stream: BinaryIO) -> None:
    write_parquet(stream, (recorded for run in selection for recorded in selection.events_of(run)))


_WRITERS: Final[dict[str, Callable[[_Selection, BinaryIO], None]]] = {
    "jsonl": _write_jsonl,
    "csv": _write_csv,
    "parquet": _write_parquet,
}
