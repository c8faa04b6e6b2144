"""What people say about a run, in one shape, whatever layout they said it in.

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
    """What the labels of one run answer to a question.

    `run` is whether it should be flagged, None when nobody said.
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


NOBODY_SAID: Final = Expectation(run=None)


def expect(run: ReadRun, question: Question, *, is_used: bool) -> Expectation:
    """What the labels of this run answer; `is_used` says that its set uses this label at all."""
    if question.label in OUTCOMES:
        return Expectation(run=run.outcome == question.label if run.outcome in OUTCOMES else None)
    if "expect_loop" in run.extra:
        return _case(run, question)
    if run.extra.get(REVIEWED):
        return _reviewed(run, question)
    source = source_of(run)
    for prefix, reader in _READERS:
        if source.startswith(prefix):
            return reader(run, question, is_used)
    return _bound(run, question, is_used)


def uses(runs: Sequence[ReadRun], label: str) -> bool:
    """Whether any run of a set carries this label: only then does its absence say something."""
    return any(_kind(mark) == label for run in runs for mark in run.labels)


def source_of(run: ReadRun) -> str:
    """Where the run was recorded, as its file says."""
    return str((run.info.metadata or {}).get("source", ""))


def _case(run: ReadRun, question: Question) -> Expectation:
    """A scenario that says as a whole whether it is a loop, and no later than where."""
    if question.label != "loop":
        return NOBODY_SAID
    expected = run.extra["expect_loop"]
    at = run.extra.get("at_event")
    return Expectation(
        run=expected if isinstance(expected, bool) else None,
        at_most=at if _is_index(at) else None,
        group=str(run.extra.get("tier", "")),
    )


def _reviewed(run: ReadRun, question: Question) -> Expectation:
    """A run of our own store: only what people said about its incidents counts, silence says nothing."""
    marks = _marks(run, question.label)
    if not marks:
        return NOBODY_SAID
    real = [mark for mark in marks if not mark.get("false_alarm")]
    return Expectation(run=bool(real), first=_first(real))


def _bound(run: ReadRun, question: Question, is_used: bool) -> Expectation:
    """Labels bound to entries where something was seen; elsewhere nothing was said step by step."""
    marks = _marks(run, question.label)
    if not marks and not is_used:
        return NOBODY_SAID
    return Expectation(run=bool(marks), first=_first(marks))


def _every_step(run: ReadRun, question: Question, is_used: bool) -> Expectation:
    """Every neighbouring pair of calls was judged, so a step without a label is a clean step."""
    marks = _marks(run, question.label)
    if not marks and not is_used:
        return NOBODY_SAID
    return Expectation(run=bool(marks), steps=frozenset(_places(marks)), first=_first(marks))


def _typed_only(run: ReadRun, question: Question, is_used: bool) -> Expectation:
    """Failures were typed for some runs only: the others answer nothing about types."""
    kinds = {_kind(mark) for mark in run.labels}
    if question.label == "decisive_error" or kinds - {"decisive_error"}:
        return _bound(run, question, is_used)
    return NOBODY_SAID


_Reader = Callable[[ReadRun, Question, bool], Expectation]
_READERS: Final[tuple[tuple[str, _Reader], ...]] = (
    ("sola", _every_step),
    ("whowhen", _typed_only),
    ("tau", _typed_only),
    ("agentrx", _typed_only),
)


def _marks(run: ReadRun, label: str) -> list[dict[str, Any]]:
    return [mark for mark in run.labels if _kind(mark) == label]


def _kind(mark: Any) -> str:
    return str(mark.get("kind", "")) if isinstance(mark, dict) else ""


def _first(marks: Sequence[dict[str, Any]]) -> int | None:
    return min(_places(marks), default=None)


def _places(marks: Sequence[dict[str, Any]]) -> list[int]:
    return [at for mark in marks if _is_index(at := mark.get("at"))]


def _is_index(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
