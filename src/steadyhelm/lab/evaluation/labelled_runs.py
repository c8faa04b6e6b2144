"""Labelled runs: find and read sets of them, and read what their labels say, whatever layout they have."""

import bisect
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeGuard

from msgspec import Struct, structs

from steadyhelm.environment import DATA
from steadyhelm.errors import SteadyhelmError
from steadyhelm.findings import Severity
from steadyhelm.recordings.run_file import BrokenLine, ReadRun, RunFile
from steadyhelm.store import Store
from steadyhelm.stores import open_store
from steadyhelm.stores.exports import export
from steadyhelm.stores.locations import DatabaseLocation

OUTCOMES: Final = ("failure", "success")
LABELS: Final = {"loop": "loop", "goal": "goal_deviation", "resource": "resource_abuse"}
"""The label that is asked about when only a kind of finding was named."""


REVIEWED: Final = "reviewed"
"""The extra key that marks a run whose labels are people's reviews of its incidents."""


class LabelQuestion(Struct, frozen=True, kw_only=True):
    """What is asked of every run, and which findings count as an answer.

    `adjacent` counts a finding only when its evidence holds the call just before it, which is
    what people who labelled neighbouring pairs of calls were asked.
    """

    kind: str = "loop"
    label: str = "loop"
    severity: Severity = Severity.MED
    adjacent: bool = False


class Expectation(Struct, frozen=True, kw_only=True):
    """What the labels of one run say about a question.

    `run` is whether it should be flagged, None when it is not labelled.
    `steps` are the entries at which it should be, None when steps were not judged one by one.
    `first` is the earliest entry a label points at, for the delay; `at_most` the last entry by
    which it must have been found.
    `group` is a part of the set that is reported by itself, such as a tier.
    """

    run: bool | None
    steps: frozenset[int] | None = None
    first: int | None = None
    at_most: int | None = None
    group: str = ""


NOT_LABELLED: Final = Expectation(run=None)


def read_expectation(run: ReadRun, question: LabelQuestion, *, is_used: bool) -> Expectation:
    """Return what the labels of this run say; `is_used` is whether its set uses this label at all."""
    if question.label in OUTCOMES:
        return Expectation(run=run.outcome == question.label if run.outcome in OUTCOMES else None)
    if "expect_loop" in run.extra:
        return _read_case(run, question)
    if run.extra.get(REVIEWED):
        return _read_reviews(run, question)
    source = get_source(run)
    for prefix, reader in _READERS:
        if source.startswith(prefix):
            return reader(run, question, is_used)
    return _read_labels(run, question, is_used)


def has_label(runs: Sequence[ReadRun], label: str) -> bool:
    """Return whether any run of a set has this label: only then does its absence mean something."""
    return any(_get_kind(mark) == label for run in runs for mark in run.labels)


def get_source(run: ReadRun) -> str:
    """Return where the run was recorded, as its file says."""
    return str((run.info.metadata or {}).get("source", ""))


def _read_case(run: ReadRun, question: LabelQuestion) -> Expectation:
    """Read a scenario that says for the whole run whether it loops, and by which entry it must be found."""
    if question.label != "loop":
        return NOT_LABELLED
    expected = run.extra["expect_loop"]
    at = run.extra.get("at_event")
    return Expectation(
        run=expected if isinstance(expected, bool) else None,
        at_most=at if _is_index(at) else None,
        group=str(run.extra.get("tier", "")),
    )


def _read_reviews(run: ReadRun, question: LabelQuestion) -> Expectation:
    """Read a run of our own store: only reviewed incidents count, a run without reviews is not labelled."""
    marks = _find_marks(run, question.label)
    if not marks:
        return NOT_LABELLED
    real = [mark for mark in marks if not mark.get("false_alarm")]
    return Expectation(run=bool(real), first=_find_first_place(real))


def _read_labels(run: ReadRun, question: LabelQuestion, is_used: bool) -> Expectation:
    """Read labels that point at entries; entries without a label were not judged one by one."""
    marks = _find_marks(run, question.label)
    if not marks and not is_used:
        return NOT_LABELLED
    return Expectation(run=bool(marks), first=_find_first_place(marks))


def _read_every_step(run: ReadRun, question: LabelQuestion, is_used: bool) -> Expectation:
    """Read a set in which every pair of neighbouring calls was judged: no label means a clean step."""
    marks = _find_marks(run, question.label)
    if not marks and not is_used:
        return NOT_LABELLED
    return Expectation(run=bool(marks), steps=frozenset(_list_places(marks)), first=_find_first_place(marks))


def _read_if_typed(run: ReadRun, question: LabelQuestion, is_used: bool) -> Expectation:
    """Read a set in which only some failures have a type; the others are not labelled for types."""
    kinds = {_get_kind(mark) for mark in run.labels}
    if question.label == "decisive_error" or kinds - {"decisive_error"}:
        return _read_labels(run, question, is_used)
    return NOT_LABELLED


_Reader = Callable[[ReadRun, LabelQuestion, bool], Expectation]
_READERS: Final[tuple[tuple[str, _Reader], ...]] = (
    ("sola", _read_every_step),
    ("whowhen", _read_if_typed),
    ("tau", _read_if_typed),
    ("agentrx", _read_if_typed),
)


def _find_marks(run: ReadRun, label: str) -> list[dict[str, Any]]:
    return [mark for mark in run.labels if _get_kind(mark) == label]


def _get_kind(mark: Any) -> str:
    return str(mark.get("kind", "")) if isinstance(mark, dict) else ""


def _find_first_place(marks: Sequence[dict[str, Any]]) -> int | None:
    return min(_list_places(marks), default=None)


def _list_places(marks: Sequence[dict[str, Any]]) -> list[int]:
    return [at for mark in marks if _is_index(at := mark.get("at"))]


def _is_index(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# Find labelled data and read the sets of runs in files, folders and databases.

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


def read_sets(paths: Iterable[Path | DatabaseLocation]) -> list[RunSet]:
    """Return one set for every run file or database under these paths."""
    return [read_set(file) for file in find_run_files(paths)]


def read_set(file: Path | DatabaseLocation) -> RunSet:
    """Return the runs of a run file, or of our own database."""
    items: Sequence[ReadRun | BrokenLine] = (
        list(RunFile(file)) if isinstance(file, Path) and not is_database(file) else read_stored_runs(file)
    )
    return RunSet(
        name=file.name.removesuffix(".gz").removesuffix(".jsonl") if isinstance(file, Path) else str(file),
        runs=[item for item in items if isinstance(item, ReadRun)],
        broken=[item for item in items if isinstance(item, BrokenLine)],
    )


def find_run_files(paths: Iterable[Path | DatabaseLocation]) -> list[Path | DatabaseLocation]:
    """Return all that is to be read, each once and in order; a folder means the run files inside it."""
    found: dict[Path | DatabaseLocation, Path | DatabaseLocation] = {}
    for path in paths:
        if isinstance(path, DatabaseLocation):
            found.setdefault(path, path)
            continue
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
    if not file.is_file():
        return False  # a pipe, a socket or a device: opening it may wait forever
    with file.open("rb") as opened:
        return opened.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER


def read_stored_runs(where: Path | DatabaseLocation) -> list[ReadRun | BrokenLine]:
    """Return every run of a database, oldest first, with its reviewed incidents as labels."""
    with closing(open_store(where, read_only=True)) as store, tempfile.TemporaryFile() as lines:
        export(store, lines, format="jsonl")
        lines.seek(0)
        labels = _read_stored_reviews(store)
        found = [_add_labels(item, labels) for item in RunFile(lines)]
    return found[::-1]


def _add_labels(
    item: ReadRun | BrokenLine, labels: dict[tuple[str, str], list[dict[str, Any]]]
) -> ReadRun | BrokenLine:
    if isinstance(item, BrokenLine):
        return item
    marks = labels.get((item.info.agent_id, item.info.run_id), [])
    return structs.replace(item, labels=marks, extra={**item.extra, REVIEWED: True})


def _read_stored_reviews(store: Store) -> dict[tuple[str, str], list[dict[str, Any]]]:
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
