"""Join runs of different tasks: an agent that leaves its goal halfway, or that never works on it."""

import random
from collections.abc import Iterator, Sequence
from typing import Final

from steadyhelm.errors import SteadyhelmError
from steadyhelm.lab.mutations.planting import PLANT, Entry, RunLine, find_places

SPLICED: Final = "spliced"
FOREIGN: Final = "foreign"
_STEPS: Final = frozenset({"tool_call", "tool_result", "llm_output", "error"})


def splice(runs: Sequence[RunLine], *, plants: int = 30, seed: int = 0) -> Iterator[RunLine]:
    """Yield runs that continue from the middle with the steps of another run.

    Messages of the other run's user are left out: only the agent changes its task.
    Raises SteadyhelmError without two runs of different goals.
    """
    usable = [run for run in runs if find_places(run["events"])]
    for number, (run, other) in enumerate(_pair(usable, usable, plants, seed)):
        before, after = run["events"][: _find_middle(run)], other["events"][_find_middle(other) :]
        yield _join(run, before, after, SPLICED, number, seed)


def replace_steps(
    runs: Sequence[RunLine], others: Sequence[RunLine], *, plants: int = 30, seed: int = 0
) -> Iterator[RunLine]:
    """Yield runs that keep their goal and the user's first message, with the steps of another source's run.

    Raises SteadyhelmError when no run has a message of the user.
    """
    usable = [run for run in runs if _find_opening(run)]
    for number, (run, other) in enumerate(_pair(usable, others, plants, seed)):
        yield _join(run, run["events"][: _find_opening(run)], other["events"], FOREIGN, number, seed)


def _pair(
    runs: Sequence[RunLine], others: Sequence[RunLine], n: int, seed: int
) -> Iterator[tuple[RunLine, RunLine]]:
    """Yield pairs of runs with different goals."""
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    hosts = rng.sample(runs, len(runs))
    for number in range(n if hosts else 1):
        candidates = [
            other for other in others if not hosts or _is_other_task(hosts[number % len(hosts)], other)
        ]
        if not hosts or not candidates:
            raise SteadyhelmError("Two runs with a few steps each and different goals are needed.")
        yield hosts[number % len(hosts)], rng.choice(candidates)


def _is_other_task(run: RunLine, other: RunLine) -> bool:
    return other is not run and not (run.get("goal") and run.get("goal") == other.get("goal"))


def _drop_times(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of another run, whose times would go back: time follows from durations then."""
    return [{key: value for key, value in entry.items() if key != "t"} for entry in entries]


def _join(
    run: RunLine, before: Sequence[Entry], after: Sequence[Entry], name: str, number: int, seed: int
) -> RunLine:
    steps = _drop_times([entry for entry in after if entry.get("type") in _STEPS])
    about = {
        "name": name,
        "kind": "goal",
        "first": len(before),
        "last": len(before) + len(steps) - 1,
        "seed": seed,
    }
    line = {key: value for key, value in run.items() if key not in {"events", "labels", "id"}}
    run_id = f"{run.get('run_id') or run.get('id')}+{name}-{number}"
    return {**line, "run_id": run_id, "events": [*before, *steps], PLANT: about}


def _find_middle(run: RunLine) -> int:
    entries = run["events"]
    return min(find_places(entries), key=lambda place: abs(place - len(entries) // 2))


def _find_opening(run: RunLine) -> int:
    """Return the place after the user's first message; 0 when there is none."""
    places = (place for place, entry in enumerate(run["events"], 1) if entry.get("type") == "user_message")
    return next(places, 0)
