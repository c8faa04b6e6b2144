"""`steadyhelm doctor`: check the installation; each check reports ok, warning or FAIL, and what to do."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import typer
from msgspec import Struct, structs

from steadyhelm.cli.context import GlobalOptions
from steadyhelm.cli.output import EXIT_FAILED, AsJson, print_json
from steadyhelm.errors import MissingExtraError, SettingsError, SteadyhelmError, StoreError
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import console, print_wrapped, safe

if TYPE_CHECKING:
    from steadyhelm.settings import Settings
    from steadyhelm.store import Outbox, Store, Upkeep

_MARKS: Final = {
    "ok": ("ok     ", "green"),
    "warning": ("warning", "yellow"),
    "FAIL": ("FAIL   ", "bold red"),
}


def doctor(
    context: typer.Context,
    as_json: AsJson = False,
) -> None:
    """Check the installation. Includes settings, database, hooks, alerts, models and each detector.

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


def _print_checks(checks: list["Check"], failed: int) -> None:
    from rich.text import Text

    out = console()
    for check in checks:
        name = safe(check.name).ljust(24)
        print_wrapped(out, Text.assemble(_MARKS[check.status], f"  {name} {safe(check.message)}"), indent=34)
        if check.advice:
            print_wrapped(out, Text(f"{'':9}{'':24} {safe(check.advice)}", "dim"), indent=34)
    warnings = sum(check.status == "warning" for check in checks)
    out.print(f"{len(checks)} checks, {failed} failed, {warnings} warning{'s' * (warnings != 1)}")


Status = Literal["ok", "warning", "FAIL"]

_DELIVERIES_READ: Final = 1000
_LATE_S: Final = 3600.0
_MEGABYTE: Final = 1e6


class Check(Struct, frozen=True, kw_only=True):
    """The result of one check."""

    name: str
    status: Status
    message: str
    advice: str = ""


def run_checks(shared: GlobalOptions) -> Iterator[Check]:
    """Yield the result of every check; an error in one of them does not stop the others."""
    yield _check_versions()
    yield _check_frameworks()
    settings, check = _check_settings(shared)
    yield check
    yield from _check_variables()
    for name, check_part in _CHECKS:
        try:
            yield from check_part(settings)
        except Exception as exc:  # noqa: BLE001 - the other checks must still run
            yield Check(name=name, status="FAIL", message=f"{type(exc).__name__}: {exc}")


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
        settings = Settings(db_path=str(shared.database) if shared.database is not None else "")
        advice = "Correct it: until then no monitor starts. The other checks used the defaults."
        return settings, Check(name="settings", status="FAIL", message=str(exc), advice=advice)
    changed = sorted({origin for origin in origins.values() if origin != "default"})
    origins_said = ", ".join(changed).replace("argument", "the command line")
    words = f"changed by {origins_said}" if changed else "all defaults"
    if settings.disabled:
        advice = "Remove it to watch agents again."
        return settings, Check(name="settings", status="warning", message="disabled is set", advice=advice)
    return settings, Check(name="settings", status="ok", message=words)


def _check_variables() -> Iterator[Check]:
    from steadyhelm.cli.config import find_unknown_variables

    for name in find_unknown_variables():
        advice = "Correct its name, or unset it; `steadyhelm config` lists every setting."
        yield Check(
            name="settings",
            status="warning",
            message=f"{name} is set, but there is no such setting",
            advice=advice,
        )


def _check_database(settings: "Settings") -> Iterator[Check]:
    from steadyhelm.components import open_store

    path = settings.database
    if not path.exists():
        yield _check_missing_database(path)
        return
    try:
        with closing(open_store(settings, read_only=True)) as store:
            yield from _check_soundness(store, path)
            yield from _check_losses(store)
            yield from _check_journals(path)
            yield from _check_deliveries(store)
    except StoreError as exc:
        yield Check(name="database", status="FAIL", message=str(exc))


def _check_missing_database(path: Path) -> Check:
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if os.access(folder, os.W_OK):
        return Check(name="database", status="ok", message=f"none yet; the first run creates {path}")
    advice = "Choose another place with the setting db_path."
    return Check(
        name="database",
        status="FAIL",
        message=f"{path} cannot be created: {folder} is not writable",
        advice=advice,
    )


def _check_soundness(store: "Store", path: Path) -> Iterator[Check]:
    from steadyhelm.cli.output import format_age

    faults = store.check()
    for fault in faults:
        advice = f"Save what can be saved: steadyhelm --db {path} export. Then restore a backup."
        yield Check(name="database", status="FAIL", message=fault, advice=advice)
    info = store.describe()
    last = max((agent.last_at for agent in store.list_agents()), default=0.0)
    rows = info["rows"]
    if not faults:
        words = (
            f"{path}: sound, {info['bytes'] / _MEGABYTE:.1f} MB, {rows['runs']:,} runs, "
            f"{rows['events']:,} events, last event {format_age(last)}"
        )
        yield Check(name="database", status="ok", message=words)
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        yield Check(
            name="database",
            status="warning",
            message=f"others on this machine may read {path} (mode {mode:o})",
            advice=f"chmod 600 {path}",
        )


def _check_losses(store: "Upkeep") -> Iterator[Check]:
    losses = store.get_losses()
    if not losses:
        yield Check(name="losses", status="ok", message="nothing was lost")
    for reason, count in sorted(losses.items(), key=lambda item: -item[1]):
        yield Check(name="losses", status="warning", message=f"{count:,} times: {reason}")


def _check_journals(path: Path) -> Iterator[Check]:
    from steadyhelm.journal.abandoned import describe_pending

    pending = describe_pending(path)
    left = [journal for journal in pending if not journal.is_live]
    for journal in left:
        name = Path(journal.path).name
        if journal.is_readable:
            message = f"{name}: {pluralize(journal.records, 'record')} of an ended process not stored yet"
            advice = "The next monitor stores them, or now: steadyhelm runs"
        else:
            message = f"{name} was written by a newer Steadyhelm, or is damaged at its beginning"
            advice = "Upgrade steadyhelm to store what is in it; until then it stays as it is."
        yield Check(name="journal", status="warning", message=message, advice=advice)
    if not left:
        waiting = pluralize(sum(journal.records for journal in pending), "record")
        yield Check(name="journal", status="ok", message=f"{waiting} of live processes not stored yet")


def _check_deliveries(store: "Outbox") -> Iterator[Check]:
    now = time.time()
    waiting = store.list_deliveries(state="pending", limit=_DELIVERIES_READ)
    failed = store.list_deliveries(state="failed", limit=_DELIVERIES_READ)
    late = [delivery for delivery in waiting if now - delivery.created_at > _LATE_S]
    if late:
        error = f" ({late[0].error})" if late[0].error else ""
        advice = "They are sent while a monitor runs, or now with: steadyhelm alerts send"
        message = f"{pluralize(len(late), 'alert')} waiting for more than an hour{error}"
        yield Check(name="alerts", status="warning", message=message, advice=advice)
    if failed:
        last = failed[0].error or "no reason stored"
        message = f"{pluralize(len(failed), 'alert')} could not be sent; the last: {last}"
        advice = "steadyhelm alerts deliveries shows them, steadyhelm alerts test tries the address."
        yield Check(name="alerts", status="warning", message=message, advice=advice)
    if not late and not failed:
        yield Check(name="alerts", status="ok", message=f"{len(waiting)} waiting, none failed")


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
    from steadyhelm.sinks.alerts.address_guard import parse_url

    if not settings.alerts_webhook:
        yield Check(name="alerts", status="ok", message="no address is set: alerts are not sent")
        return
    try:
        host = parse_url(settings.alerts_webhook).host
    except SettingsError as exc:
        yield Check(name="alerts", status="FAIL", message=str(exc))
        return
    words = f"go to {host} as {find_channel(settings.alerts_webhook)}"
    yield Check(name="alerts", status="ok", message=words, advice="steadyhelm alerts test sends one.")


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


def _check_detectors(settings: "Settings") -> Iterator[Check]:
    from steadyhelm.engine import registry

    for name in registry.names(registry.DETECTORS):
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

    title = f"detector {name}"
    options = settings.detectors.get(name, {})
    alone = structs.replace(settings, detectors=_options_for_only(name, options))
    if options.get("enabled") is False:
        advice = f"Remove detectors.{name}.enabled to turn it on."
        return Check(name=title, status="warning", message="off in the settings", advice=advice)
    make = make_detector_factory(alone, Health())
    if name not in SELF_TESTS:
        make()
        return Check(name=title, status="ok", message="can be created; it has no self-test")
    wrong = SELF_TESTS[name](lambda: make()[0])
    if wrong:
        advice = (
            f"Change [detectors.{name}] in the settings: as it is, it misses drift or raises false alarms."
        )
        return Check(name=title, status="FAIL", message=wrong, advice=advice)
    return Check(name=title, status="ok", message="finds its example, and nothing in a healthy run")


def _options_for_only(name: str, options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return options with which this detector is the only one that is on."""
    from steadyhelm.engine import registry

    others = {other: {"enabled": False} for other in registry.names(registry.DETECTORS) if other != name}
    return {**others, name: options}


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
    ("database", _check_database),
    ("hooks", _check_hooks),
    ("alerts", _check_address),
    ("embedder", _check_embedder),
    ("steering", _check_steering),
    ("detectors", _check_detectors),
)
