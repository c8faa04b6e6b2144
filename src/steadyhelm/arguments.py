"""Read the arguments of `DriftMonitor`, and say in words which one is wrong."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import UNSET

from steadyhelm.budgets.limits import Budget
from steadyhelm.engine.listeners import require_function
from steadyhelm.errors import SettingsError
from steadyhelm.settings import Settings, load, read_tables
from steadyhelm.sink import Sink

_SINK_NAMES: Final = ("name", "write", "flush", "close")
"""What a sink has, whether or not it is a subclass of Sink."""


def check_arguments(agent_id: object, goal: object, make_detectors: object, clock: object) -> None:
    """Raise SettingsError for an argument that is no setting and has the wrong type."""
    if not agent_id or not isinstance(agent_id, str):
        raise SettingsError(f"agent_id must be a text that names the agent, got {agent_id!r}.")
    if goal and not isinstance(goal, str):
        raise SettingsError(f"goal_description must be a text, got {goal!r}.")
    if make_detectors is not None:
        require_function("make_detectors", make_detectors)
    require_function("clock", clock)


def load_settings(
    given: Mapping[str, Any] | None,
    named: dict[str, Any],
    budget: Budget | None,
    detectors: dict[str, dict[str, Any]],
    config: str | Path | None,
) -> Settings:
    """Return the settings; an argument of its own wins over the same setting in `given`."""
    limits = {f"budget.{name}": limit for name, limit in _list_limits(budget).items()}
    arguments = _check_settings(given) | _drop_none(named) | limits | {"detectors": detectors}
    path = read_path("config", config)
    return load(arguments, path=Path(path) if path is not None else None).settings


def _drop_none(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that were given, where None is no value but stands for "not given"."""
    return {name: value for name, value in _drop_unset(arguments).items() if value is not None}


def _drop_unset(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that were given, also those that equal a default."""
    return {name: value for name, value in arguments.items() if value is not UNSET}


def _check_settings(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings that were given by name; raises SettingsError for detectors, which are not one."""
    if given is not None and not (isinstance(given, Mapping) and all(isinstance(it, str) for it in given)):
        raise SettingsError(
            f'settings must be a table of settings by name, such as {{"mode": "guide"}}, got {given!r}.'
        )
    if given is not None and "detectors" in given:
        raise SettingsError("Give the options of detectors as the argument detectors, not in settings.")
    return dict(given or {})


def _list_limits(budget: Budget | None) -> dict[str, Any]:
    if budget is None:
        return {}
    if not isinstance(budget, Budget):
        raise SettingsError(f"budget must be a Budget, such as Budget(steps=50), got {budget!r}.")
    return {**budget.to_limits(), **budget.to_daily_limits()}


def merge_detector_options(
    given: dict[str, dict[str, Any]] | None, **arguments: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the options by detector; an argument of its own wins over the same option in `detectors`."""
    options = read_tables("detectors", {} if given is None else given)
    for name, values in arguments.items():
        if said := _drop_unset(values):
            options[name] = {**options.get(name, {}), **said}
    return options


def read_path(name: str, path: str | Path | None) -> str | None:
    """Return a path as text; raises SettingsError for what is none, bytes included."""
    if path is None:
        return None
    if not isinstance(path, (str, os.PathLike)) or not isinstance(text := os.fspath(path), str):
        raise SettingsError(f"{name} must be a path, as text or a Path, got {path!r}.")
    return text


def read_sinks(sinks: Sequence[Sink]) -> list[Sink]:
    """Return the sinks; raises SettingsError for what is not a list of them."""
    example = "such as sinks=[OTel()]"
    if isinstance(sinks, (str, Mapping)) or not isinstance(sinks, Iterable):
        raise SettingsError(f"sinks must be a list of sinks, {example}, got {sinks!r}.")
    listed = list(sinks)
    for sink in listed:
        if isinstance(sink, type) or not all(hasattr(sink, name) for name in _SINK_NAMES):
            raise SettingsError(f"Each of the sinks must be an instance of a Sink, {example}, got {sink!r}.")
    return listed


def refuse_unknown(unknown: Mapping[str, Any], kind: type) -> None:
    """Raise SettingsError for an argument that a monitor does not take, with what to write instead."""
    if not unknown:
        return
    from difflib import get_close_matches  # noqa: PLC0415 - needed for a mistake only
    from inspect import signature  # noqa: PLC0415 - the same

    if "goal" in unknown:
        raise SettingsError(
            "DriftMonitor takes no goal: a goal belongs to a run. Write monitor.run(goal=...), "
            "monitor.start_run(goal=...) or steadyhelm.install(goal=...); what the agent is for "
            "in all of its runs is goal_description=..."
        )
    name = next(iter(unknown))
    if name.startswith("on_") and hasattr(kind, name):
        raise SettingsError(f"DriftMonitor takes no {name}. Write monitor.{name}(...) once it is made.")
    near = get_close_matches(name, [it for it in signature(kind).parameters if it != "unknown"], n=1)
    hint = f"Did you mean {near[0]}?" if near else "Other settings go into settings={...}, by their names."
    raise SettingsError(f"DriftMonitor takes no {name}. {hint}")
