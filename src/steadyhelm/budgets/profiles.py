"""What completed tasks of one type have taken, and what that recommends for the next one."""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from steadyhelm.budgets.amounts import LARGEST_LIMIT, MOST, UNITS, LimitName, plain, units
from steadyhelm.decisions import TaskProfile
from steadyhelm.errors import FormatError

LONGEST_NAME: Final = 200
COMPLETE: Final = 0.9
"""A task counts as completed from here on: what is missing, the fifth that is added covers."""

_MARK: Final = "steadyhelm_task_profiles"
_FORMAT: Final = 1
_TEXTS: Final = ("agent_id", "task_type")
_COUNTS: Final = {"tasks": 1, "steps": 0, "tokens": 0}
_AMOUNTS: Final = ("cost_usd", "wall_s")


class BudgetRecommendation(Struct, frozen=True, kw_only=True):
    """What a task of this type should be given: the mean of those completed and a fifth more, rounded up.

    Without any, every limit is None, `reason` says why, and the record counts as false.
    A limit is None too when no completed task has told what it took of it.
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


def task_name(task_type: Any) -> str:
    """A task type as it is kept: text of at most 200 characters, empty for anything else."""
    return plain(task_type, LONGEST_NAME)


def one_task(
    agent_id: str, task_type: Any, steps: Any, tokens: Any, *, cost_usd: Any = 0.0, wall_s: Any = 0.0
) -> TaskProfile | None:
    """The profile of one completed task; None when it has no name, or a number makes no sense."""
    name = task_name(task_type)
    told: tuple[tuple[LimitName, Any], ...] = (
        ("steps", steps),
        ("tokens", tokens),
        ("cost_usd", cost_usd),
        ("wall_s", wall_s),
    )
    used = {limit: amount for limit, value in told if (amount := units(value, UNITS[limit])) is not None}
    if not name or len(used) < len(told):
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


def added(one: TaskProfile, other: TaskProfile) -> TaskProfile:
    """Two profiles of one agent and task type as one."""
    return TaskProfile(
        agent_id=one.agent_id,
        task_type=one.task_type,
        tasks=min(MOST, one.tasks + other.tasks),
        steps=min(MOST, one.steps + other.steps),
        tokens=min(MOST, one.tokens + other.tokens),
        cost_usd=_together("cost_usd", one.cost_usd, other.cost_usd),
        wall_s=_together("wall_s", one.wall_s, other.wall_s),
    )


def of_agent(agent_id: str, profiles: Iterable[TaskProfile]) -> Iterator[TaskProfile]:
    """The profiles as this agent's own."""
    for profile in profiles:
        yield structs.replace(profile, agent_id=agent_id, task_type=task_name(profile.task_type))


def merged(profiles: Iterable[TaskProfile]) -> tuple[TaskProfile, ...]:
    """One profile for each agent and task type, in their order; the order they came in does not matter."""
    sums: dict[tuple[str, str], TaskProfile] = {}
    for profile in profiles:
        key = (profile.agent_id, profile.task_type)
        sums[key] = added(sums[key], profile) if key in sums else profile
    return tuple(sums[key] for key in sorted(sums))


def recommendation(profile: TaskProfile | None, task_type: str) -> BudgetRecommendation:
    """What to give a task of this type.

    >>> known = TaskProfile(agent_id="me", task_type="add_endpoint", tasks=2, steps=15 + 18, tokens=55_000)
    >>> advice = recommendation(known, "add_endpoint")
    >>> advice.steps, advice.tokens
    (20, 33000)
    """
    if profile is None or profile.tasks < 1:
        return BudgetRecommendation(task_type=task_type, reason="No completed task of this type is known.")
    return BudgetRecommendation(
        task_type=task_type,
        steps=_fifth_more(profile.steps, profile.tasks) or None,
        tokens=_fifth_more(profile.tokens, profile.tasks) or None,
        cost_usd=_fifth_more(_whole("cost_usd", profile.cost_usd), profile.tasks) / UNITS["cost_usd"] or None,
        wall_s=_fifth_more(_whole("wall_s", profile.wall_s), profile.tasks) / UNITS["wall_s"] or None,
        tasks=profile.tasks,
    )


def exported(profiles: Iterable[TaskProfile]) -> str:
    """The profiles as one JSON document, which `imported` understands."""
    document = {_MARK: _FORMAT, "profiles": merged(profiles)}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def imported(document: str | bytes) -> tuple[TaskProfile, ...]:
    """The profiles in a JSON document; raises FormatError with what is wrong, and in which profile."""
    try:
        data = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise FormatError(f"The task profiles are not JSON: {exc}.") from exc
    if not isinstance(data, dict) or _MARK not in data:
        raise FormatError(f'These are no task profiles: there is no "{_MARK}" at the top.')
    if data[_MARK] != _FORMAT:
        raise FormatError(
            f"The task profiles have format {_shown(data[_MARK])}, and only {_FORMAT} can be read."
        )
    entries = data.get("profiles")
    if not isinstance(entries, list):
        raise FormatError(f'"profiles" must be a list, got {type(entries).__name__}.')
    return merged(_profile(number, entry) for number, entry in enumerate(entries, start=1))


def _profile(number: int, entry: Any) -> TaskProfile:
    if not isinstance(entry, dict):
        raise FormatError(f"Task profile {number} must be an object, got {type(entry).__name__}.")
    for fault in (_fault(name, entry) for name in (*_TEXTS, *_COUNTS, *_AMOUNTS)):
        if fault:
            raise FormatError(f"Task profile {number}: {fault}")
    return TaskProfile(**{name: entry[name] for name in TaskProfile.__struct_fields__ if name in entry})


def _fault(name: str, entry: dict[str, Any]) -> str:
    """What is wrong with one field, empty when nothing is. Cost and time may be left out."""
    if name not in entry:
        return "" if name in _AMOUNTS else f"{name} is missing."
    value = entry[name]
    if name in _TEXTS:
        sound = isinstance(value, str) and len(value) <= LONGEST_NAME
        return "" if sound else f"{name} must be text of at most {LONGEST_NAME} characters."
    if name in _COUNTS:
        sound = isinstance(value, int) and not isinstance(value, bool)
        sound = sound and _COUNTS[name] <= value <= LARGEST_LIMIT
        return (
            "" if sound else f"{name} must be a whole number of {_COUNTS[name]} or more, got {_shown(value)}."
        )
    sound = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
    return "" if sound else f"{name} must be a number of 0 or more, got {_shown(value)}."


def _shown(value: Any) -> str:
    """A value for an error message; Python itself refuses to write very long numbers out."""
    try:
        return repr(value)[:80]
    except ValueError:
        return "a number of thousands of digits"


def _together(name: LimitName, one: float, other: float) -> float:
    # In whole units, so that the order of the parts does not show in the last digit.
    return min(MOST, _whole(name, one) + _whole(name, other)) / UNITS[name]


def _whole(name: LimitName, value: float) -> int:
    return units(value, UNITS[name]) or 0


def _fifth_more(total: int, tasks: int) -> int:
    """The mean and a fifth of it, rounded up; in whole numbers, so that nothing is lost to a float."""
    return -(-total * 6 // (tasks * 5))
