"""Task profiles: what completed tasks of one type have used, and the budget that recommends."""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from steadyhelm.budgets.memory import BudgetMemory
from steadyhelm.budgets.meters import (
    MAX_LIMIT,
    MAX_UNITS,
    UNITS,
    LimitName,
    to_progress,
    to_text,
    to_units,
)
from steadyhelm.decisions import TaskProfile
from steadyhelm.errors import FormatError

MAX_NAME_CHARS: Final = 200
COMPLETE_PROGRESS: Final = 0.9
"""A task counts as completed from this progress on: the fifth that is added covers the rest."""
MAX_PROFILES: Final = 256
MIN_TASKS: Final = 5
"""From fewer completed tasks a budget is recommended, but no run is limited by it."""

_DOCUMENT_KEY: Final = "steadyhelm_task_profiles"
_DOCUMENT_FORMAT: Final = 1
_TEXT_FIELDS: Final = ("agent_id", "task_type")
_COUNT_MINIMUMS: Final = {"tasks": 1, "steps": 0, "tokens": 0}
_AMOUNT_FIELDS: Final = ("cost_usd", "wall_s")


class BudgetRecommendation(Struct, frozen=True, kw_only=True):
    """The recommended budget for a task type: the mean of completed tasks and a fifth more, rounded up.

    Without any, every limit is None, `reason` says why, and the record counts as false.
    A limit is None too when no completed task reported what it used of it.
    """

    task_type: str
    steps: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    wall_s: float | None = None
    tasks: int = 0
    reason: str = ""

    def __bool__(self) -> bool:
        return self.tasks > 0

    @property
    def is_reliable(self) -> bool:
        """Whether enough tasks were completed to set limits by it."""
        return self.tasks >= MIN_TASKS


def clean_task_name(task_type: Any) -> str:
    """Return a task type as text of at most 200 characters; empty for anything else."""
    return to_text(task_type, MAX_NAME_CHARS)


def build_profile(
    agent_id: str, task_type: Any, steps: Any, tokens: Any, *, cost_usd: Any = 0.0, wall_s: Any = 0.0
) -> TaskProfile | None:
    """Return the profile of one completed task; None when it has no name or a value is not usable."""
    name = clean_task_name(task_type)
    reported: tuple[tuple[LimitName, Any], ...] = (
        ("steps", steps),
        ("tokens", tokens),
        ("cost_usd", cost_usd),
        ("wall_s", wall_s),
    )
    used = {
        limit: amount for limit, value in reported if (amount := to_units(value, UNITS[limit])) is not None
    }
    if not name or len(used) < len(reported):
        return None
    return TaskProfile(
        agent_id=agent_id,
        task_type=name,
        tasks=1,
        steps=used["steps"],
        tokens=used["tokens"],
        cost_usd=used["cost_usd"] / UNITS["cost_usd"],
        wall_s=used["wall_s"] / UNITS["wall_s"],
    )


def add_profiles(one: TaskProfile, other: TaskProfile) -> TaskProfile:
    """Return the sum of two profiles of one agent and task type."""
    return TaskProfile(
        agent_id=one.agent_id,
        task_type=one.task_type,
        tasks=min(MAX_UNITS, one.tasks + other.tasks),
        steps=min(MAX_UNITS, one.steps + other.steps),
        tokens=min(MAX_UNITS, one.tokens + other.tokens),
        cost_usd=_add_amounts("cost_usd", one.cost_usd, other.cost_usd),
        wall_s=_add_amounts("wall_s", one.wall_s, other.wall_s),
    )


def assign_to_agent(agent_id: str, profiles: Iterable[TaskProfile]) -> Iterator[TaskProfile]:
    """Yield the profiles with this agent as their owner."""
    for profile in profiles:
        yield structs.replace(profile, agent_id=agent_id, task_type=clean_task_name(profile.task_type))


def merge_profiles(profiles: Iterable[TaskProfile]) -> tuple[TaskProfile, ...]:
    """Return one profile for each agent and task type, sorted by them."""
    sums: dict[tuple[str, str], TaskProfile] = {}
    for profile in profiles:
        key = (profile.agent_id, profile.task_type)
        sums[key] = add_profiles(sums[key], profile) if key in sums else profile
    return tuple(sums[key] for key in sorted(sums))


def recommend_budget(profile: TaskProfile | None, task_type: str) -> BudgetRecommendation:
    """Return the recommended budget for a task of this type.

    >>> known = TaskProfile(agent_id="me", task_type="add_endpoint", tasks=2, steps=15 + 18, tokens=55_000)
    >>> advice = recommend_budget(known, "add_endpoint")
    >>> advice.steps, advice.tokens
    (20, 33000)
    """
    if profile is None or profile.tasks < 1:
        return BudgetRecommendation(task_type=task_type, reason="No completed task of this type is known.")
    return BudgetRecommendation(
        task_type=task_type,
        steps=_add_fifth_to_mean(profile.steps, profile.tasks) or None,
        tokens=_add_fifth_to_mean(profile.tokens, profile.tasks) or None,
        cost_usd=_add_fifth_to_mean(_to_smallest_units("cost_usd", profile.cost_usd), profile.tasks)
        / UNITS["cost_usd"]
        or None,
        wall_s=_add_fifth_to_mean(_to_smallest_units("wall_s", profile.wall_s), profile.tasks)
        / UNITS["wall_s"]
        or None,
        tasks=profile.tasks,
    )


def learn_task(memory: BudgetMemory, task: TaskProfile | None, total_progress: Any) -> TaskProfile | None:
    """Add one completed task to the profile of its type, and return it; None when nothing was learnt."""
    progress = to_progress(total_progress)
    if task is None or progress is None:
        memory.not_counted += 1
        return None
    if not memory.rules.enable_historical_profiling or progress < COMPLETE_PROGRESS:
        return None
    known = memory.profiles.get(task.task_type)
    return store_profile(memory, add_profiles(known, task) if known else task)


def store_profile(memory: BudgetMemory, profile: TaskProfile) -> TaskProfile:
    """Store a profile as the most recent one; beyond the limit the least recent one is dropped."""
    memory.profiles.pop(profile.task_type, None)
    if len(memory.profiles) >= MAX_PROFILES:
        del memory.profiles[next(iter(memory.profiles))]
    memory.profiles[profile.task_type] = profile
    return profile


def recommend_from_memory(memory: BudgetMemory, task_type: Any) -> BudgetRecommendation:
    """Return the recommended budget for a task of this type, from the profiles of this budget."""
    name = clean_task_name(task_type)
    if not memory.rules.enable_historical_profiling:
        return BudgetRecommendation(task_type=name, reason="Task profiles are switched off.")
    return recommend_budget(memory.profiles.get(name), name)


def export_profiles(profiles: Iterable[TaskProfile]) -> str:
    """Return the profiles as one JSON document, which `import_profiles` reads."""
    document = {_DOCUMENT_KEY: _DOCUMENT_FORMAT, "profiles": merge_profiles(profiles)}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def import_profiles(document: str | bytes) -> tuple[TaskProfile, ...]:
    """Return the profiles in a JSON document; raises FormatError with what is wrong, and in which profile."""
    try:
        data = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise FormatError(f"The task profiles are not JSON: {exc}.") from exc
    if not isinstance(data, dict) or _DOCUMENT_KEY not in data:
        raise FormatError(f'These are no task profiles: there is no "{_DOCUMENT_KEY}" at the top.')
    if data[_DOCUMENT_KEY] != _DOCUMENT_FORMAT:
        raise FormatError(
            f"The task profiles have format {_show(data[_DOCUMENT_KEY])}, "
            f"and only {_DOCUMENT_FORMAT} can be read."
        )
    entries = data.get("profiles")
    if not isinstance(entries, list):
        raise FormatError(f'"profiles" must be a list, got {type(entries).__name__}.')
    return merge_profiles(_read_profile(number, entry) for number, entry in enumerate(entries, start=1))


def _read_profile(number: int, entry: Any) -> TaskProfile:
    if not isinstance(entry, dict):
        raise FormatError(f"Task profile {number} must be an object, got {type(entry).__name__}.")
    for fault in (_find_fault(name, entry) for name in (*_TEXT_FIELDS, *_COUNT_MINIMUMS, *_AMOUNT_FIELDS)):
        if fault:
            raise FormatError(f"Task profile {number}: {fault}")
    return TaskProfile(**{name: entry[name] for name in TaskProfile.__struct_fields__ if name in entry})


def _find_fault(name: str, entry: dict[str, Any]) -> str:
    """Return what is wrong with one field, empty when nothing is. Cost and time may be left out."""
    if name not in entry:
        return "" if name in _AMOUNT_FIELDS else f"{name} is missing."
    value = entry[name]
    if name in _TEXT_FIELDS:
        is_valid = isinstance(value, str) and len(value) <= MAX_NAME_CHARS
        return "" if is_valid else f"{name} must be text of at most {MAX_NAME_CHARS} characters."
    if name in _COUNT_MINIMUMS:
        least = _COUNT_MINIMUMS[name]
        is_valid = isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_LIMIT
        return "" if is_valid else f"{name} must be a whole number of {least} or more, got {_show(value)}."
    is_valid = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
    return "" if is_valid else f"{name} must be a number of 0 or more, got {_show(value)}."


def _show(value: Any) -> str:
    """Return a value for an error message; Python itself refuses to print very long numbers."""
    try:
        return repr(value)[:80]
    except ValueError:
        return "a number of thousands of digits"


def _add_amounts(name: LimitName, one: float, other: float) -> float:
    # In whole units, so that the order of the parts does not show in the last digit.
    return min(MAX_UNITS, _to_smallest_units(name, one) + _to_smallest_units(name, other)) / UNITS[name]


def _to_smallest_units(name: LimitName, value: float) -> int:
    return to_units(value, UNITS[name]) or 0


def _add_fifth_to_mean(total: int, tasks: int) -> int:
    """Return the mean and a fifth more, rounded up; in whole numbers, so that nothing is lost to a float."""
    return -(-total * 6 // (tasks * 5))
