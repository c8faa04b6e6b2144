"""`steadyhelm doctor`: check the installation; each check reports ok, warning or FAIL, and what to do."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import typer
from msgspec import structs

from steadyhelm.cli.context import GlobalOptions
from steadyhelm.cli.database_checks import Check, check_database
from steadyhelm.cli.output import EXIT_FAILED, AsJson, print_json
from steadyhelm.errors import MissingExtraError, SettingsError, SteadyhelmError
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import console, print_wrapped, safe

if TYPE_CHECKING:
    from steadyhelm.settings import Settings

_ALERT_ADDRESS: Final = "alert address"
_STATUS_MARKS: Final = {
    "ok": ("ok     ", "green"),
    "warning": ("warning", "yellow"),
    "FAIL": ("FAIL   ", "bold red"),
}


def doctor(
    context: typer.Context,
    as_json: AsJson = False,
) -> None:
    """Check the installation. Includes settings, database, hooks, alerts, models, each detector, a monitor.

    The exit status is 1 when a check FAILs.
    """
    shared: GlobalOptions = context.obj
    checks = list(run_checks(shared))
    failed = sum(check.status == "FAIL" for check in checks)
    if as_json:
        print_json({"ok": not failed, "checks": checks})
    else:
        _print_checks(checks, failed)
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _print_checks(checks: list[Check], failed: int) -> None:
    from rich.text import Text

    out = console()
    for check in checks:
        name = safe(check.name).ljust(24)
        print_wrapped(
            out, Text.assemble(_STATUS_MARKS[check.status], f"  {name} {safe(check.message)}"), indent=34
        )
        if check.advice:
            print_wrapped(out, Text(f"{'':9}{'':24} {safe(check.advice)}", "dim"), indent=34)
    warnings = sum(check.status == "warning" for check in checks)
    out.print(f"{len(checks)} checks, {failed} failed, {warnings} warning{'s' * (warnings != 1)}")


def run_checks(shared: GlobalOptions) -> Iterator[Check]:
    """Yield the result of every check; an error in one of them does not stop the others."""
    yield _check_versions()
    yield _check_frameworks()
    settings, check = _check_settings(shared)
    yield check
    yield from _check_variables()
    failures = [check.message] if check.status == "FAIL" else []
    for name, check_part in _CHECKS:
        try:
            for found in check_part(settings):
                failures += [found.message] if found.status == "FAIL" else []
                yield found
        except Exception as exc:  # noqa: BLE001 - the other checks must still run
            yield Check(name=name, status="FAIL", message=f"{type(exc).__name__}: {exc}")
    if check.status != "FAIL":
        yield from _check_monitor(shared, failures)


def _check_versions() -> Check:
    import platform
    import sqlite3

    import msgspec

    from steadyhelm import __version__

    words = (
        f"steadyhelm {__version__}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, msgspec {msgspec.__version__}"
    )
    return Check(name="versions", status="ok", message=words)


def _check_frameworks() -> Check:
    from steadyhelm.adapters.frameworks import FRAMEWORKS

    here = [it for it in FRAMEWORKS if it.installed]
    too_old = [it for it in here if it.describe_missing()]
    if too_old:
        words = "; ".join(f"{it.title} needs {it.describe_missing()}" for it in too_old)
        extras = ",".join(it.extra for it in too_old)
        return Check(
            name="frameworks",
            status="warning",
            message=f"observed only, not steered: {words}",
            advice=f"pip install 'steadyhelm[{extras}]'",
        )
    found = ", ".join(f"{it.title} {it.installed}" for it in here) or "no supported framework is installed"
    return Check(name="frameworks", status="ok", message=found)


def _check_settings(shared: GlobalOptions) -> "tuple[Settings, Check]":
    from steadyhelm.settings import Settings

    try:
        settings, origins = shared.load()
    except SettingsError as exc:
        settings = Settings(db=str(shared.database or ""))
        advice = "Correct it: until then no monitor starts. The other checks used the defaults."
        return settings, Check(name="settings", status="FAIL", message=str(exc), advice=advice)
    changed = sorted({origin for origin in origins.values() if origin != "default"})
    origins_said = ", ".join(changed).replace("argument", "the command line")
    words = f"changed by {origins_said}" if changed else "all defaults"
    if settings.disabled:
        advice = "Remove it to watch agents again."
        return settings, Check(name="settings", status="warning", message="disabled is set", advice=advice)
    return settings, Check(name="settings", status="ok", message=words)


def _check_monitor(shared: GlobalOptions, failures: list[str]) -> Iterator[Check]:
    """Build a monitor as a program would; what another check has said already is not said again."""
    from steadyhelm.cli.self_tests import find_monitor_faults

    faults = find_monitor_faults(shared.config_file)
    advice = "An agent that is watched with these settings meets the same."
    for fault in faults:
        if not any(fault in known or known in fault for known in failures):
            yield Check(name="monitor", status="FAIL", message=fault, advice=advice)
    if not faults:
        yield Check(name="monitor", status="ok", message="starts with these settings, and stores a step")


def _check_variables() -> Iterator[Check]:
    from steadyhelm.cli.config import find_unknown_variables
    from steadyhelm.settings import suggest_variable

    for name in find_unknown_variables():
        meant = suggest_variable(name)
        advice = "Correct its name, or unset it; `steadyhelm config` lists every setting."
        advice = f"Did you mean {meant}?" if meant else advice
        yield Check(
            name="settings",
            status="warning",
            message=f"{name} is set, but there is no such setting",
            advice=advice,
        )


def _check_hooks(settings: "Settings") -> Iterator[Check]:  # noqa: ARG001 - all checks have it
    from steadyhelm.hooks.waiting_steps import count_waiting

    waiting = count_waiting()
    message = f"{pluralize(waiting, 'step')} not recorded yet"
    if waiting:
        advice = "The next hook records them, once it can write to the database."
        yield Check(name="hooks", status="warning", message=message, advice=advice)
    else:
        yield Check(name="hooks", status="ok", message=message)


def _check_address(settings: "Settings") -> Iterator[Check]:
    from steadyhelm.components import find_channel
    from steadyhelm.sinks.alerts.address_guard import check_alert_address, get_host

    check = partial(Check, name=_ALERT_ADDRESS)
    if not settings.alerts_webhook:
        yield check(status="ok", message="none is set: alerts are not sent")
        return
    try:
        check_alert_address(settings.alerts_webhook, settings.alerts_allow_hosts)
    except SteadyhelmError as exc:
        yield check(status="FAIL", message=str(exc))
        return
    words = f"alerts go to {get_host(settings.alerts_webhook)} as {find_channel(settings.alerts_webhook)}"
    yield check(status="ok", message=words, advice="steadyhelm alerts test sends one.")


def _check_embedder(settings: "Settings") -> Iterator[Check]:
    from steadyhelm.components import make_embedder

    try:
        make_embedder(settings)
    except MissingExtraError as exc:
        yield Check(name="embedder", status="FAIL", message=str(exc))
    except (SteadyhelmError, OSError) as exc:
        advice = "steadyhelm models fetch, or the setting embedder = idf. Until then idf is used."
        yield Check(name="embedder", status="FAIL", message=str(exc), advice=advice)
    else:
        yield Check(name="embedder", status="ok", message=settings.embedder)


def _check_judge(settings: "Settings") -> Iterator[Check]:
    """Check that the package of a judge is installed, where one is set, and say what it has used today."""
    import importlib.util

    if not settings.judge:
        return
    package = settings.judge.partition(":")[0]
    if importlib.util.find_spec(package) is None:
        advice = f"pip install 'steadyhelm[{package}]'. Until then no question is answered."
        lacks = f"{settings.judge} needs the package {package}"
        yield Check(name="judge", status="warning", message=lacks, advice=advice)
        return
    yield Check(name="judge", status="ok", message=f"{settings.judge}, today {_describe_daily_use(settings)}")


def _describe_daily_use(settings: "Settings") -> str:
    import time
    from contextlib import closing

    from steadyhelm.budgets.daily import DailyLimits
    from steadyhelm.engine.judge_worker import read_daily_use
    from steadyhelm.stores import open_store

    day = DailyLimits(utc_offset_h=settings.budget_utc_offset_h).find_day(time.time())
    with closing(open_store(settings.database, read_only=True)) as store:
        used = read_daily_use(store, since=day.start, until=day.end)
    return f"{pluralize(used.calls, 'question')}, {used.tokens:,} tokens"


def _check_detectors(settings: "Settings") -> Iterator[Check]:
    from steadyhelm.engine import registry

    for name in registry.list_names(registry.DETECTORS):
        try:
            yield _check_detector(name, settings)
        except Exception as exc:  # noqa: BLE001 - somebody else's plug-in may fail in any way
            message = (
                f"it cannot be used: {exc}"
                if isinstance(exc, SteadyhelmError)
                else f"{type(exc).__name__}: {exc}"
            )
            advice = f"Correct [detectors.{name}] in the settings, or reinstall the package it comes from."
            yield Check(name=f"detector {name}", status="FAIL", message=message, advice=advice)


def _check_detector(name: str, settings: "Settings") -> Check:
    from steadyhelm.cli.self_tests import SELF_TESTS
    from steadyhelm.components import make_detector_factory
    from steadyhelm.engine.health import Health

    check = partial(Check, name=f"detector {name}")
    options = settings.detectors.get(name, {})
    alone = structs.replace(settings, detectors=_make_options_for_only(name, options))
    if options.get("enabled") is False:
        advice = f"Remove detectors.{name}.enabled to turn it on."
        return check(status="warning", message="off in the settings", advice=advice)
    make = make_detector_factory(alone, Health())
    if name not in SELF_TESTS:
        make()
        return check(status="ok", message="can be created; it has no self-test")
    wrong = SELF_TESTS[name](lambda: make()[0])
    if not wrong:
        return check(status="ok", message="finds its example, and nothing in a healthy run")
    advice = f"Change [detectors.{name}] in the settings: as it is, it misses drift or raises false alarms."
    return check(status="FAIL", message=wrong, advice=advice)


def _make_options_for_only(name: str, options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return options with which this detector is the only one that is on."""
    from steadyhelm.engine import registry

    others = {other: {"enabled": False} for other in registry.list_names(registry.DETECTORS) if other != name}
    return {**others, name: options}


def _check_plug_ins(settings: "Settings") -> Iterator[Check]:  # noqa: ARG001 - all checks have it
    """Import the sinks, channels and adapters of other packages; detectors are checked by themselves."""
    from steadyhelm.engine import registry

    for group in (registry.SINKS, registry.CHANNELS, registry.ADAPTERS):
        for name in registry.list_foreign_names(group):
            title = f"{group.removeprefix('steadyhelm.').removesuffix('s')} {name}"
            try:
                registry.load(group, name)
            except Exception as exc:  # noqa: BLE001 - somebody else's plug-in may fail in any way
                message = f"it cannot be imported: {type(exc).__name__}: {exc}"
                advice = "Reinstall the package it comes from, or remove it."
                yield Check(name=title, status="FAIL", message=message, advice=advice)
            else:
                yield Check(name=title, status="ok", message="can be imported")


def _check_steering(settings: "Settings") -> Iterator[Check]:
    from steadyhelm.components import make_keeper, make_steering

    for name, make in (("steering", make_steering), ("checkpoints", make_keeper)):
        try:
            make(settings)
        except SteadyhelmError as exc:
            yield Check(name=name, status="FAIL", message=str(exc), advice="Correct it in the settings.")
        else:
            yield Check(name=name, status="ok", message="the settings are valid")


_CHECKS: Final[tuple[tuple[str, "Callable[[Settings], Iterator[Check]]"], ...]] = (
    ("database", check_database),
    ("hooks", _check_hooks),
    (_ALERT_ADDRESS, _check_address),
    ("embedder", _check_embedder),
    ("judge", _check_judge),
    ("steering", _check_steering),
    ("detectors", _check_detectors),
    ("plug-ins", _check_plug_ins),
)
