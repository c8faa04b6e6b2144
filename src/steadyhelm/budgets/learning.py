"""Task profiles inside a budget: what a completed task teaches, and how many types are remembered."""

from typing import Any, Final

from steadyhelm.budgets.amounts import delta
from steadyhelm.budgets.memory import BudgetMemory
from steadyhelm.budgets.profiles import COMPLETE, BudgetRecommendation, added, recommendation, task_name
from steadyhelm.decisions import TaskProfile

PROFILES_KEPT: Final = 256


def learn(memory: BudgetMemory, task: TaskProfile | None, total_progress: Any) -> TaskProfile | None:
    """Add one completed task to what is known of its type; None when nothing was learnt."""
    done = delta(total_progress)
    if task is None or done is None:
        memory.not_counted += 1
        return None
    if not memory.rules.enable_historical_profiling or done < COMPLETE:
        return None
    known = memory.profiles.get(task.task_type)
    return keep(memory, added(known, task) if known else task)


def keep(memory: BudgetMemory, profile: TaskProfile) -> TaskProfile:
    """Put a profile at the young end of its table; the type untouched for longest gives way."""
    memory.profiles.pop(profile.task_type, None)
    if len(memory.profiles) >= PROFILES_KEPT:
        del memory.profiles[next(iter(memory.profiles))]
    memory.profiles[profile.task_type] = profile
    return profile


def recommend(memory: BudgetMemory, task_type: Any) -> BudgetRecommendation:
    """What to give a task of this type."""
    name = task_name(task_type)
    if not memory.rules.enable_historical_profiling:
        return BudgetRecommendation(task_type=name, reason="Task profiles are switched off.")
    return recommendation(memory.profiles.get(name), name)
