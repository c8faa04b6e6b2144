"""Compare the calls that a framework made in one test with those that were recorded, call by call.

A made call is one whose tool or model was called by the framework, inside a run of an agent, and that has
ended. One that left by an interrupt has not: the framework calls the tool again under the same id when the
run is resumed, and that call is the one that counts. A recorded call says whether it was run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

MODEL, TOOL = "model", "tool"
KINDS = (MODEL, TOOL)


class Call(NamedTuple):
    """One call, made or recorded.

    `call_id` is empty where the framework has none; `not_run` is why it does not count as run, if so.
    """

    kind: str
    call_id: str
    name: str
    not_run: str = ""


class Comparison(NamedTuple):
    """The calls of one kind in one test, or in many.

    `made` counts those that ended, `interrupted` those that left by an interrupt. `missing` are made and not
    recorded as run, `surplus` are recorded as run and not made: together they are unexplained.
    """

    made: int = 0
    interrupted: int = 0
    run: int = 0
    not_run: int = 0
    missing: int = 0
    surplus: int = 0

    @property
    def unexplained(self) -> int:
        """How many calls are on one side alone."""
        return self.missing + self.surplus

    def add(self, other: "Comparison") -> "Comparison":
        """Return the sum of both."""
        return Comparison(*(mine + its for mine, its in zip(self, other, strict=True)))


def compare_calls(made: Iterable[Any], recorded: Iterable[Any]) -> dict[str, Comparison]:
    """Return by kind how the calls of one test compare; each side is a list of calls, or of their fields."""
    made, recorded = [Call(*it) for it in made], [Call(*it) for it in recorded]
    return {kind: _compare(_pick(made, kind), _pick(recorded, kind)) for kind in KINDS}


def _pick(calls: list[Call], kind: str) -> list[Call]:
    return [it for it in calls if it.kind == kind]


def _compare(made: list[Call], recorded: list[Call]) -> Comparison:
    ended, run = [it for it in made if not it.not_run], [it for it in recorded if not it.not_run]
    missing, surplus = _match(ended, run)
    return Comparison(
        made=len(ended),
        interrupted=len(made) - len(ended),
        run=len(run),
        not_run=len(recorded) - len(run),
        missing=missing,
        surplus=surplus,
    )


def _match(made: list[Call], recorded: list[Call]) -> tuple[int, int]:
    """Return how many calls have no counterpart, on either side: by id, or by name where a call has no id."""
    waiting: defaultdict[str, list[Call]] = defaultdict(list)
    for call in recorded:
        waiting[call.call_id].append(call)
    unnamed: Counter[str] = Counter()
    missing = 0
    for call in made:
        if call.call_id and waiting[call.call_id]:
            waiting[call.call_id].pop()
        elif call.call_id:
            missing += 1
        else:
            unnamed[call.name] += 1
    left = Counter(call.name for calls in waiting.values() for call in calls)
    return missing + (unnamed - left).total(), (left - unnamed).total()
