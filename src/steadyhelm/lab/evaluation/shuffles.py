"""Ways to change recorded runs: some must not matter to a detector, some must."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec import structs

from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.recordings.run_file import ReadRun

Shuffle = Callable[[Sequence[ReadRun], random.Random], list[ReadRun]]
Later = Callable[[ReadRun, int], ReadRun]

_DAY_S: Final = 86_400.0
_OTHER_WORDS: Final = "Something else entirely was said here."


def _without_labels(runs: Sequence[ReadRun], _: random.Random) -> list[ReadRun]:
    return [structs.replace(run, labels=[], outcome="", meta={}, extra={}) for run in runs]


def _renamed(runs: Sequence[ReadRun], draw: random.Random) -> list[ReadRun]:
    return [_with_id(run, f"run-{draw.getrandbits(64):016x}") for run in runs]


def _with_id(run: ReadRun, run_id: str) -> ReadRun:
    info = structs.replace(run.info, run_id=run_id, metadata=None)
    return structs.replace(
        run, info=info, events=[structs.replace(event, run_id=run_id) for event in run.events]
    )


def _reordered(runs: Sequence[ReadRun], draw: random.Random) -> list[ReadRun]:
    shuffled = list(runs)
    draw.shuffle(shuffled)
    return shuffled


def _another_day(runs: Sequence[ReadRun], draw: random.Random) -> list[ReadRun]:
    return [_moved(run, draw.randrange(1, 1000) * _DAY_S) for run in runs]


def _moved(run: ReadRun, by_s: float) -> ReadRun:
    info = structs.replace(run.info, started_at=run.info.started_at + by_s)
    events = [structs.replace(event, timestamp=event.timestamp + by_s) for event in run.events]
    return structs.replace(run, info=info, events=events)


def _with_other_answers(runs: Sequence[ReadRun], draw: random.Random) -> list[ReadRun]:
    """Every call gets the result of some call of the set, every model call some reply."""
    answers = {kind: _pool(runs, kind, draw) for kind in (TOOL_CALL, LLM_REQUEST)}
    return [structs.replace(run, events=[_answered(event, answers) for event in run.events]) for run in runs]


def _pool(runs: Sequence[ReadRun], kind: str, draw: random.Random) -> Iterator[tuple[Any, str | None]]:
    pool = [(e.output_data, e.error) for run in runs for e in run.events if e.action_type == kind]
    draw.shuffle(pool)
    return iter(pool)


def _answered(event: TraceEvent, answers: dict[str, Iterator[tuple[Any, str | None]]]) -> TraceEvent:
    if event.action_type not in answers:
        return event
    output, error = next(answers[event.action_type])
    return structs.replace(event, output_data=output, error=error, call_hash=0, result_hash=0)


def _cut(run: ReadRun, at: int) -> ReadRun:
    return structs.replace(run, events=run.events[: _place(run, at) + 1])


def _with_other_words(run: ReadRun, at: int) -> ReadRun:
    place = _place(run, at)
    events = [
        structs.replace(event, input_data={"text": _OTHER_WORDS})
        if i > place and event.action_type == USER_MESSAGE
        else event
        for i, event in enumerate(run.events)
    ]
    return structs.replace(run, events=events)


def _place(run: ReadRun, at: int) -> int:
    return next(i for i, event in enumerate(run.events) if int(event.event_id) == at)


MUST_NOT_MATTER: Final[dict[str, Shuffle]] = {
    "labels, outcome and notes, taken away": _without_labels,
    "run ids and sources": _renamed,
    "the order of runs": _reordered,
    "the day it happened": _another_day,
}
LATER_MUST_NOT_MATTER: Final[dict[str, Later]] = {
    "what the user says after the first finding": _with_other_words,
    "everything after the first finding, cut off": _cut,
}
MUST_MATTER: Final[dict[str, Shuffle]] = {
    "results and replies, between all steps of the set": _with_other_answers
}
