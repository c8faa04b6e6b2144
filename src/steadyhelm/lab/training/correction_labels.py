"""Label runs by what their users corrected later: a delayed outcome to compare findings with.

The labels are weak: they are read off later messages by a classifier that is itself often wrong, and a user
who does not reply may just have given up.
They must never judge the detectors that read the same messages (kind `correction`): that would measure the
classifier's agreement with itself.
"""

import bisect
from collections.abc import Iterable, Iterator
from typing import Any, Final

from steadyhelm.corrections.deferred import (
    MAX_DISTANCE,
    CorrectionHistory,
    DeferredCorrection,
    find_corrections,
)
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.stores.exports import build_entry

CORRECTION_LABEL: Final = "correction"
_LABEL_SOURCE: Final = "a later message of the user"


def label_runs(runs: Iterable[ReadRun], *, max_distance: int = MAX_DISTANCE) -> Iterator[dict[str, Any]]:
    """Yield the runs as objects of a run file, with their corrections among the labels.

    A run in which the user never answered is left out: its outcome is unknown.
    """
    for run in runs:
        history = find_corrections(run.events, max_distance=max_distance)
        if history.judged:
            yield label_run(run, history)


def label_run(run: ReadRun, history: CorrectionHistory) -> dict[str, Any]:
    """Return one run as an object of a run file; its own labels stay, moved to its entries' new places."""
    info = run.info
    known = {
        "run_id": info.run_id,
        "agent_id": info.agent_id,
        "goal": info.goal,
        "source": (info.metadata or {}).get("source"),
        "version": info.version,
        "task_type": info.task_type,
        "parent_run_id": info.parent_run_id,
        "started_at": info.started_at,
        "outcome": run.outcome,
        "meta": run.meta,
    }
    return {
        **{key: value for key, value in known.items() if value},
        "events": [build_entry(event) for event in run.events],
        "labels": [*_move_labels(run), *map(_make_label, history.corrections)],
    }


def _make_label(correction: DeferredCorrection) -> dict[str, Any]:
    """Return a label at the last step of the turn: by then it had gone wrong."""
    return {
        "kind": CORRECTION_LABEL,
        "at": correction.last,
        "from": correction.first,
        "turn": correction.turn,
        "message": correction.message,
        "distance": correction.distance,
        "reply": correction.kind,
        "probability": round(correction.probability, 4),
        "by": _LABEL_SOURCE,
        "derived": True,
    }


def _move_labels(run: ReadRun) -> Iterator[Any]:
    """Yield the labels of the file at their new places: a call and its result are one entry now."""
    began = sorted((int(event.event_id), place) for place, event in enumerate(run.events))
    for label in run.labels:
        at = label.get("at") if isinstance(label, dict) else None
        if isinstance(at, bool) or not isinstance(at, int):
            yield label
            continue
        found = bisect.bisect_right(began, (at, len(began))) - 1
        yield {**label, "at": began[max(0, found)][1]}
