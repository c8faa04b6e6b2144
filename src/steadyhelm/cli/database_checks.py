"""The checks of `steadyhelm doctor` that look at the database: soundness, losses, journals, alerts."""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from steadyhelm.errors import SteadyhelmError, StoreError
from steadyhelm.reports.formats import pluralize

if TYPE_CHECKING:
    from steadyhelm.settings import Settings
    from steadyhelm.store import Outbox, Store, Upkeep
    from steadyhelm.stores.locations import DatabaseLocation

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


def check_database(settings: "Settings") -> Iterator[Check]:
    """Yield the checks of the database, which is only read."""
    from steadyhelm.components import open_store
    from steadyhelm.stores.opening import find_missing_migrations

    if settings.database.is_server:
        yield from _check_server(settings)
        return
    path = settings.database.path
    if not path.exists():
        yield _check_missing_database(path)
        return
    try:
        missing = find_missing_migrations(path.absolute())
        if not os.access(path, os.W_OK):
            message = f"{path} cannot be written: agents are watched, and nothing is stored"
            advice = "Make it writable for you, or choose another place with the setting db."
            yield Check(name="database", status="FAIL", message=message, advice=advice)
        if missing:
            message = f"{path} was written by an older Steadyhelm and lacks the step {missing[0]!r}"
            advice = "The next monitor brings it up to date, after a backup; or now: steadyhelm db migrate"
            yield Check(name="database", status="warning", message=message, advice=advice)
            return
        with closing(open_store(settings, read_only=True)) as store:
            yield from _check_store(store, settings.database)
        yield from _check_mode(path)
    except StoreError as exc:
        yield Check(name="database", status="FAIL", message=str(exc))


def _check_server(settings: "Settings") -> Iterator[Check]:
    from steadyhelm.components import open_store

    try:
        with closing(open_store(settings, read_only=True)) as store:
            yield from _check_store(store, settings.database)
    except SteadyhelmError as exc:
        yield Check(name="database", status="FAIL", message=str(exc))


def _check_store(store: "Store", location: "DatabaseLocation") -> Iterator[Check]:
    yield from _check_soundness(store, location)
    yield from _check_losses(store)
    yield from _check_journals(location.journal_path)
    yield from _check_deliveries(store)


def _check_missing_database(path: Path) -> Check:
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if os.access(folder, os.W_OK):
        return Check(name="database", status="ok", message=f"none yet; the first run creates {path}")
    advice = "Choose another place with the setting db."
    return Check(
        name="database",
        status="FAIL",
        message=f"{path} cannot be created: {folder} is not writable",
        advice=advice,
    )


def _check_soundness(store: "Store", location: "DatabaseLocation") -> Iterator[Check]:
    from steadyhelm.cli.output import format_age

    faults = store.check()
    for fault in faults:
        advice = f"Save what can be saved: steadyhelm --db {location} export. Then restore a backup."
        yield Check(name="database", status="FAIL", message=fault, advice=advice)
    info = store.describe()
    last = max((agent.last_at for agent in store.list_agents()), default=0.0)
    rows = info["rows"]
    if not faults:
        words = (
            f"{location}: sound, {info['bytes'] / _MEGABYTE:.1f} MB, {pluralize(rows['runs'], 'run')}, "
            f"{pluralize(rows['events'], 'event')}, last event {format_age(last)}"
        )
        yield Check(name="database", status="ok", message=words)


def _check_mode(path: Path) -> Iterator[Check]:
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
        yield Check(name="losses", status="warning", message=f"{pluralize(count, 'time')}: {reason}")


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
        yield Check(name="alert deliveries", status="warning", message=message, advice=advice)
    if failed:
        last = failed[0].error or "no reason stored"
        message = f"{pluralize(len(failed), 'alert')} could not be sent; the last: {last}"
        advice = "steadyhelm alerts deliveries shows them, steadyhelm alerts test tries the address."
        yield Check(name="alert deliveries", status="warning", message=message, advice=advice)
    if not late and not failed:
        yield Check(name="alert deliveries", status="ok", message=f"{len(waiting)} waiting, none failed")
