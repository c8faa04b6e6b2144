"""Runs out of our own database, labelled with what people said about their incidents."""

import bisect
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from steadyhelm.lab.evaluation.expectations import LABELS, REVIEWED
from steadyhelm.recordings.run_file import BrokenLine, ReadRun, RunFile
from steadyhelm.store import Store
from steadyhelm.stores.exports import export
from steadyhelm.stores.sqlite import SQLiteStore

_SQLITE: Final = b"SQLite format 3\x00"
_INCIDENTS: Final = 1_000_000


def is_database(file: Path) -> bool:
    """Whether a file is an SQLite database: its first bytes tell, whatever its name."""
    with file.open("rb") as opened:
        return opened.read(len(_SQLITE)) == _SQLITE


def stored_runs(file: Path) -> list[ReadRun | BrokenLine]:
    """Every run of a database, oldest first, with its reviewed incidents as labels."""
    with closing(SQLiteStore(file, read_only=True)) as store, tempfile.TemporaryFile() as lines:
        export(store, lines, format="jsonl")
        lines.seek(0)
        labels = _reviews(store)
        found = [_labelled(item, labels) for item in RunFile(lines)]
    return found[::-1]


def _labelled(
    item: ReadRun | BrokenLine, labels: dict[tuple[str, str], list[dict[str, Any]]]
) -> ReadRun | BrokenLine:
    if isinstance(item, BrokenLine):
        return item
    marks = labels.get((item.info.agent_id, item.info.run_id), [])
    return structs.replace(item, labels=marks, extra={**item.extra, REVIEWED: True})


def _reviews(store: Store) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """What people said, by agent and run: confirmed drift, or a false alarm."""
    labels: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for incident in store.list_incidents(limit=_INCIDENTS):
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
