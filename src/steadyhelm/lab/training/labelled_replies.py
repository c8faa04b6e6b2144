"""Read labelled replies, and label runs by what their users corrected later."""

import bisect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from steadyhelm.corrections.deferred import (
    MAX_DISTANCE,
    CorrectionHistory,
    DeferredCorrection,
    find_corrections,
)
from steadyhelm.errors import FormatError
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.stores.exports import build_entry

CLASSES: Final = ("continuation", "correction", "approval")
"""What is learnt; the first is what the others are held against."""

_CLASS_BY_LABEL: Final = {
    "correction_substance": "correction",
    "correction_style": "correction",
    "frustration": "correction",
    "approval": "approval",
    "continuation": "continuation",
    "new_task": "continuation",
}


SURE: Final = 3


class ReplyLabels(Struct, frozen=True, kw_only=True):
    """The two labels that count; `confidence` says how sure they are, 3 for sure."""

    primary: str
    drift: int
    confidence: int = SURE


class LabelledReply(Struct, frozen=True, kw_only=True):
    """A reply, what came before it, and its labels; `run_id` names the recorded run it is from."""

    repo: str
    session: str
    reply: str
    labels: ReplyLabels
    agent: str = ""
    turn: int = 0
    prompt_before: str = ""
    assistant_before: str = ""
    tool_calls_since_prompt: int = 0
    tool_errors_since_prompt: int = 0
    interrupted: bool = False
    run_id: str | None = None

    @property
    def learnt_as(self) -> str:
        """The learnt class it belongs to."""
        return _CLASS_BY_LABEL[self.labels.primary]

    @property
    def owner(self) -> str:
        """The owner of its project: projects of one owner use the same words."""
        return self.repo.partition("/")[0]

    @property
    def is_drift(self) -> bool:
        """Whether it is evidence that the agent had drifted."""
        return self.labels.drift == 1


def read_replies(path: Path) -> list[LabelledReply]:
    """Return every reply of a file; raise FormatError with the number of a line that is none."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as exc:
        raise FormatError(f"{str(path)!r} cannot be read: {exc.strerror or exc}.") from exc
    replies = list(_decode_replies(lines, path))
    if not replies:
        raise FormatError(f"{str(path)!r} holds no labelled reply.")
    return replies


def _decode_replies(lines: list[bytes], path: Path) -> Iterator[LabelledReply]:
    decoder = msgspec.json.Decoder(LabelledReply)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            reply = decoder.decode(line)
        except msgspec.MsgspecError as exc:
            raise FormatError(f"{path}:{number}: not a labelled reply: {exc}.") from exc
        if reply.labels.primary not in _CLASS_BY_LABEL:
            known = ", ".join(_CLASS_BY_LABEL)
            raise FormatError(
                f"{path}:{number}: primary must be one of {known}, got {reply.labels.primary!r}."
            )
        yield reply


# Label runs by what their users corrected later: a delayed outcome to compare findings with. The labels are
# weak: they are read off later messages by a classifier that is itself often wrong, and a user who does not
# reply may just have given up. They must never judge the detectors that read the same messages (kind
# `correction`): that would measure the classifier's agreement with itself.

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
