"""Read what the labels of a run say, whatever layout they have.

A `Question` names what is asked ("did this run loop?") and which findings answer it.
An `Expectation` is what the labels of one run answer.
Layouts differ, so each kind of set has a reader of its own; a set we do not know is read by the
labels in the run file's own format.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeGuard

from msgspec import Struct

from steadyhelm.findings import Severity
from steadyhelm.recordings.run_file import ReadRun

OUTCOMES: Final = ("failure", "success")
LABELS: Final = {"loop": "loop", "goal": "goal_deviation", "resource": "resource_abuse"}
"""The label that is asked about when only a kind of finding was named."""


REVIEWED: Final = "reviewed"
"""The extra key that marks a run whose labels are people's reviews of its incidents."""


class Question(Struct, frozen=True, kw_only=True):
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


def read_expectation(run: ReadRun, question: Question, *, is_used: bool) -> Expectation:
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


def _read_case(run: ReadRun, question: Question) -> Expectation:
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


def _read_reviews(run: ReadRun, question: Question) -> Expectation:
    """Read a run of our own store: only reviewed incidents count, a run without reviews is not labelled."""
    marks = _find_marks(run, question.label)
    if not marks:
        return NOT_LABELLED
    real = [mark for mark in marks if not mark.get("false_alarm")]
    return Expectation(run=bool(real), first=_find_first_place(real))


def _read_labels(run: ReadRun, question: Question, is_used: bool) -> Expectation:
    """Read labels that point at entries; entries without a label were not judged one by one."""
    marks = _find_marks(run, question.label)
    if not marks and not is_used:
        return NOT_LABELLED
    return Expectation(run=bool(marks), first=_find_first_place(marks))


def _read_every_step(run: ReadRun, question: Question, is_used: bool) -> Expectation:
    """Read a set in which every pair of neighbouring calls was judged: no label means a clean step."""
    marks = _find_marks(run, question.label)
    if not marks and not is_used:
        return NOT_LABELLED
    return Expectation(run=bool(marks), steps=frozenset(_list_places(marks)), first=_find_first_place(marks))


def _read_if_typed(run: ReadRun, question: Question, is_used: bool) -> Expectation:
    """Read a set in which only some failures have a type; the others are not labelled for types."""
    kinds = {_get_kind(mark) for mark in run.labels}
    if question.label == "decisive_error" or kinds - {"decisive_error"}:
        return _read_labels(run, question, is_used)
    return NOT_LABELLED


_Reader = Callable[[ReadRun, Question, bool], Expectation]
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
