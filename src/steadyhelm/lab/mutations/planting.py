"""Read healthy runs, splice a stretch of steps into each, and keep where it begins and ends.

`splice` and `replace_steps` join runs of different tasks: an agent that leaves its goal halfway, or that
never works on it.
"""

import gzip
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from steadyhelm.errors import FormatError, SteadyhelmError
from steadyhelm.lab.mutations.words import Words

_GZIP: Final = b"\x1f\x8b"
PLANT: Final = "plant"
"""The key of a run's line that describes what was planted in it."""
MIN_REPEATS: Final = 4
_MAX_REPEATS: Final = 8
_FIRST_PLACE_SHARE: Final = 0.2
_LAST_PLACE_SHARE: Final = 0.9
_STEP_MS: Final = 900.0
Entry = dict[str, Any]
RunLine = dict[str, Any]
PlantKind = Literal["loop", "healthy", "goal"]
SPLICED: Final = "spliced"
FOREIGN: Final = "foreign"
_STEPS: Final = frozenset({"tool_call", "tool_result", "llm_output", "error"})


class PlantedRun(Struct, frozen=True, kw_only=True):
    """What a run's line says about its plant: the class, the seed and the entries it covers."""

    name: str
    kind: PlantKind
    first: int
    last: int
    seed: int = 0


class HostCall(Struct, frozen=True):
    """A call of the run that hosts the plant, with its result."""

    name: str
    args: Any
    result: str
    error: bool


class Stretch:
    """Builds the entries of one plant.

    Args:
        rng: The source of every choice.
        host: The calls of the run before the place of the plant.
    """

    def __init__(self, rng: random.Random, host: Sequence[HostCall]) -> None:
        self.rng = rng
        self.words = Words(rng)
        self.host = host
        self.entries: list[Entry] = []

    def add_call(
        self, name: str, args: Any, result: str, *, error: bool = False, duration_s: float | None = None
    ) -> None:
        """Add a call with its result; it takes about a second unless a duration is given."""
        duration_ms = self.rng.uniform(0.5, 1.5) * _STEP_MS if duration_s is None else duration_s * 1000
        self.entries.append(
            {
                "type": "tool_call",
                "name": name,
                "args": args,
                "result": result,
                "error": error,
                "duration_ms": round(duration_ms, 1),
            }
        )

    def repeat_call(self, call: HostCall) -> None:
        """Add a call of the run itself once more, with the same result."""
        self.add_call(call.name, call.args, call.result, error=call.error)

    def add_reply(self, text: str) -> None:
        """Add a reply of the model."""
        self.entries.append({"type": "llm_output", "text": text})

    def add_user_message(self, text: str) -> None:
        """Add a message of the user."""
        self.entries.append({"type": "user_message", "text": text})

    def add_batch(self, calls: Iterable[tuple[str, Any, str]]) -> None:
        """Add calls that are made together, before the first result arrives."""
        made = [(f"plant-{len(self.entries)}-{place}", *call) for place, call in enumerate(calls)]
        for call_id, name, args, _ in made:
            self.entries.append({"type": "tool_call", "name": name, "args": args, "call_id": call_id})
        for call_id, name, _, result in made:
            self.entries.append({"type": "tool_result", "name": name, "text": result, "call_id": call_id})

    def count_repeats(self, least: int = MIN_REPEATS, most: int = _MAX_REPEATS) -> int:
        """Return how often the plant repeats."""
        return self.rng.randint(least, most)


Build = Callable[[Stretch], None]


class PlantClass(Struct, frozen=True):
    """A named class of plants."""

    name: str
    kind: PlantKind
    about: str
    build: Build


def plant_class(kind: PlantKind, registry: dict[str, PlantClass]) -> Callable[[Build], Build]:
    """Return a decorator that registers a function as a class of plants, named after it."""

    def register(build: Build) -> Build:
        name = build.__name__.removeprefix("plant_")
        about = (build.__doc__ or "").strip().removeprefix("Plant ").split("\n", 1)[0].rstrip(".")
        registry[name] = PlantClass(name, kind, about, build)
        return build

    return register


def plant(
    runs: Sequence[RunLine], classes: Iterable[PlantClass], *, plants: int = 30, seed: int = 0
) -> Iterator[RunLine]:
    """Yield the lines of runs with a plant, `plants` of each class, each in another run while there are any.

    The same runs, classes and seed yield the same lines. Raises SteadyhelmError without a run to plant in.
    """
    usable = [run for run in runs if find_places(run["events"])]
    if not usable:
        raise SteadyhelmError("No run has a place to plant in: each needs a few steps with their results.")
    for one in classes:
        order = random.Random(f"{seed}/{one.name}")  # noqa: S311 - reproducible, not secret
        hosts = order.sample(usable, len(usable))
        for number in range(plants):
            rng = random.Random(f"{seed}/{one.name}/{number}")  # noqa: S311 - the same
            yield plant_in(hosts[number % len(hosts)], one, rng, number=number, seed=seed)


def plant_in(run: RunLine, one: PlantClass, rng: random.Random, *, number: int = 0, seed: int = 0) -> RunLine:
    """Return a copy of a run's line with one plant in it."""
    entries = run["events"]
    place = rng.choice(find_places(entries))
    stretch = Stretch(rng, list_calls(entries[:place]))
    one.build(stretch)
    planted = _set_times(stretch.entries, entries, place)
    elapsed = _sum_seconds(stretch.entries)
    after = [_shift_time(entry, elapsed) for entry in entries[place:]]
    last = place + len(planted) - 1
    about = {"name": one.name, "kind": one.kind, "first": place, "last": last, "seed": seed}
    run_id = f"{run.get('run_id') or run.get('id')}+{one.name}-{number}"
    line = {key: value for key, value in run.items() if key not in {"events", "labels", "id"}}
    return {**line, "run_id": run_id, "events": [*entries[:place], *planted, *after], PLANT: about}


def find_places(entries: Sequence[Entry]) -> list[int]:
    """Return the indices at which a stretch can be inserted: no call waits for its result there."""
    places, waiting = [], 0
    for place, entry in enumerate(entries):
        if place and not waiting and _FIRST_PLACE_SHARE <= place / len(entries) <= _LAST_PLACE_SHARE:
            places.append(place)
        if entry.get("type") == "tool_call" and entry.get("result") is None and not entry.get("error"):
            waiting += 1
        elif entry.get("type") in {"tool_result", "error"}:
            waiting = max(0, waiting - 1)
    return places


def list_calls(entries: Sequence[Entry]) -> list[HostCall]:
    """Return the calls of a run that have a text as their result."""
    found, waiting = [], None
    for entry in entries:
        kind, name = entry.get("type"), str(entry.get("name"))
        if kind == "tool_call":
            waiting = entry
            result = entry.get("result")
            if isinstance(result, str):
                found.append(HostCall(name, entry.get("args"), result, bool(entry.get("error"))))
                waiting = None
        elif kind == "tool_result" and waiting is not None and isinstance(entry.get("text"), str):
            if entry.get("name") == waiting.get("name"):
                found.append(HostCall(name, waiting.get("args"), entry["text"], error=False))
            waiting = None
    return found


def _set_times(planted: list[Entry], entries: Sequence[Entry], place: int) -> list[Entry]:
    """Give planted entries times after the entry before them, where the run has times at all."""
    at = next((entry["t"] for entry in reversed(entries[:place]) if _is_number(entry.get("t"))), None)
    if at is None:
        return planted
    timed = []
    for entry in planted:
        at += (entry.get("duration_ms") or 0.0) / 1000
        timed.append({**entry, "t": at})
    return timed


def _shift_time(entry: Entry, seconds: float) -> Entry:
    return {**entry, "t": entry["t"] + seconds} if _is_number(entry.get("t")) else entry


def _sum_seconds(entries: Iterable[Entry]) -> float:
    return sum(entry.get("duration_ms") or 0.0 for entry in entries) / 1000


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class HostRuns(Struct, frozen=True):
    """Runs that can hold a plant, and how many were left out because they are not healthy."""

    runs: list[RunLine]
    left_out: int


def read_hosts(paths: Iterable[Path], *, only_healthy: bool = True) -> HostRuns:
    """Return the runs of these run files. Raises FormatError for a file that is none.

    With `only_healthy`, a run that failed, has a loop label or already holds a plant is left out.
    """
    runs: list[RunLine] = []
    left_out = 0
    for path in paths:
        for number, line in enumerate(_read(path).splitlines(), 1):
            run = _parse(line, f"{str(path)!r}:{number}")
            if is_healthy(run) or not only_healthy:
                runs.append(run)
            else:
                left_out += 1
    return HostRuns(runs, left_out)


def is_healthy(run: RunLine) -> bool:
    """Return whether nothing says that this run went wrong.

    >>> is_healthy({"events": [], "outcome": "failure"})
    False
    """
    if run.get("outcome") == "failure" or PLANT in run or run.get("expect_loop"):
        return False
    labels = run.get("labels") or []
    return not any(isinstance(label, dict) and label.get("kind") == "loop" for label in labels)


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(_GZIP) else content
    except (OSError, EOFError) as exc:
        raise FormatError(f"{str(path)!r} cannot be read: {exc}.") from exc


def _parse(line: bytes, where: str) -> RunLine:
    try:
        run = msgspec.json.decode(line, type=RunLine)
    except msgspec.MsgspecError as exc:
        raise FormatError(f"{where} is not a run: {exc}.") from exc
    entries = run.get("events")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise FormatError(f"{where} is not a run: it has no list of events.")
    return run


def splice(
    runs: Sequence[RunLine], *, plants: int = 30, seed: int = 0, whole: bool = False
) -> Iterator[RunLine]:
    """Yield runs that continue from the middle with the second half of another run, or with all its steps.

    Messages of the other run's user are left out: only the agent changes its task.
    Raises SteadyhelmError without two runs of different goals.
    """
    usable = [run for run in runs if find_places(run["events"])]
    for number, (run, other) in enumerate(_pair(usable, usable, plants, seed)):
        before, begin = run["events"][: _find_middle(run)], 0 if whole else _find_middle(other)
        yield _join(run, before, other["events"][begin:], SPLICED, number, seed)


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
