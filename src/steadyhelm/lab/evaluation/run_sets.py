"""Find labelled data and read the sets of runs in files, folders and databases."""

import bisect
import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from steadyhelm.environment import DATA
from steadyhelm.errors import SteadyhelmError
from steadyhelm.lab.evaluation.expectations import LABELS, REVIEWED
from steadyhelm.recordings.run_file import BrokenLine, ReadRun, RunFile
from steadyhelm.store import Store
from steadyhelm.stores.exports import export
from steadyhelm.stores.sqlite import SQLiteStore

_DEFAULT_FOLDER: Final = Path("..") / "shared" / "data"
_FILE_ENDINGS: Final = (".jsonl", ".jsonl.gz")
_SQLITE_HEADER: Final = b"SQLite format 3\x00"
_MAX_INCIDENTS: Final = 1_000_000


class RunSet(Struct, frozen=True, kw_only=True):
    """The runs of one file, in its order, and a record for each line that could not be read."""

    name: str
    runs: list[ReadRun]
    broken: list[BrokenLine]


def find_data_folder(given: Path | None = None) -> Path:
    """Return the folder of labelled data: `given`, else `STEADYHELM_DATA`, else the default folder.

    Raises SteadyhelmError when it is not there.
    """
    folder = (given or Path(os.environ.get(DATA) or _DEFAULT_FOLDER)).expanduser()
    if not folder.is_dir():
        raise SteadyhelmError(
            f"There is no labelled data at {folder}. Give the folder, or set {DATA} to it: "
            "the data is not part of Steadyhelm."
        )
    return folder


def read_sets(paths: Iterable[Path]) -> list[RunSet]:
    """Return one set for every run file or database under these paths."""
    return [read_set(file) for file in find_run_files(paths)]


def read_set(file: Path) -> RunSet:
    """Return the runs of a run file, or of our own database."""
    items: Sequence[ReadRun | BrokenLine] = (
        read_stored_runs(file) if is_database(file) else list(RunFile(file))
    )
    return RunSet(
        name=file.name.removesuffix(".gz").removesuffix(".jsonl"),
        runs=[item for item in items if isinstance(item, ReadRun)],
        broken=[item for item in items if isinstance(item, BrokenLine)],
    )


def find_run_files(paths: Iterable[Path]) -> list[Path]:
    """Return every file to read, each once and in order; a folder means the run files inside it."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise SteadyhelmError(f"There is no file or folder {str(path)!r}.")
        for file in _list_run_files(path) if path.is_dir() else [path]:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _list_run_files(folder: Path) -> list[Path]:
    return sorted(
        file for file in folder.rglob("*.jsonl*") if file.name.endswith(_FILE_ENDINGS) and file.is_file()
    )


def is_database(file: Path) -> bool:
    """Return whether a file is an SQLite database, judged by its first bytes."""
    with file.open("rb") as opened:
        return opened.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER


def read_stored_runs(file: Path) -> list[ReadRun | BrokenLine]:
    """Return every run of a database, oldest first, with its reviewed incidents as labels."""
    with closing(SQLiteStore(file, read_only=True)) as store, tempfile.TemporaryFile() as lines:
        export(store, lines, format="jsonl")
        lines.seek(0)
        labels = _read_reviews(store)
        found = [_add_labels(item, labels) for item in RunFile(lines)]
    return found[::-1]


def _add_labels(
    item: ReadRun | BrokenLine, labels: dict[tuple[str, str], list[dict[str, Any]]]
) -> ReadRun | BrokenLine:
    if isinstance(item, BrokenLine):
        return item
    marks = labels.get((item.info.agent_id, item.info.run_id), [])
    return structs.replace(item, labels=marks, extra={**item.extra, REVIEWED: True})


def _read_reviews(store: Store) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the reviews by agent and run: confirmed drift, or a false alarm."""
    labels: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for incident in store.list_incidents(limit=_MAX_INCIDENTS):
        if not incident.review:
            continue
        seqs = [recorded.event.seq for recorded in store.iter_run_events(incident.agent_id, incident.run_id)]
        labels.setdefault((incident.agent_id, incident.run_id), []).append(
            {
                "kind": LABELS.get(incident.kind, incident.kind),
                "at": bisect.bisect_left(seqs, incident.opened_seq),
                "false_alarm": incident.review == "false_alarm",
                "by": "review",
            }
        )
    return labels
