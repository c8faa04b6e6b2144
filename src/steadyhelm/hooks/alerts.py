"""Send the alerts about sessions of coding agents, while no agent waits for it."""

import threading
import time
from typing import TYPE_CHECKING

from steadyhelm.components import build_alert_worker
from steadyhelm.errors import SteadyhelmError
from steadyhelm.forks import ForkSafeLock
from steadyhelm.hooks.log import write_log
from steadyhelm.stores import open_store
from steadyhelm.stores.locations import DatabaseLocation

if TYPE_CHECKING:
    from steadyhelm.engine.health import Health
    from steadyhelm.settings import Settings
    from steadyhelm.sinks.alerts.worker import AlertWorker
    from steadyhelm.stores.sql_store import SQLStore


class HookAlerts:
    """Sends the alerts that steps put into the store, to the channel in the settings.

    Args:
        settings: The settings of the hooks.
        health: Counts alerts that were given up.
    """

    def __init__(self, settings: "Settings", health: "Health") -> None:
        self._settings = settings
        self._health = health
        # A process that ended may have left some.
        self._is_due = bool(settings.alerts_webhook)
        self._opening = ForkSafeLock()
        self._workers: dict[DatabaseLocation, tuple[AlertWorker, SQLStore]] = {}
        """By location: a path may be relative to the folder of the hook."""

    def mark_due(self) -> None:
        """Remember that an alert waits to be sent."""
        self._is_due = True

    def send(self, *, stays: bool) -> None:
        """Send what waits: from a thread of its own in a process that stays, else before this returns."""
        if not self._is_due:
            return
        self._is_due = False
        database = self._settings.database.to_absolute()
        if stays:
            threading.Thread(target=self._wake_worker, args=(database,), daemon=True).start()
        else:
            self._deliver(database)

    def _wake_worker(self, database: DatabaseLocation) -> None:
        try:
            self._open(database)[0].wake()
        except SteadyhelmError as exc:
            _log_refusal(exc)

    def _deliver(self, database: DatabaseLocation) -> None:
        try:
            worker, store = self._open(database)
            worker.deliver_due()
            losses = self._health.list_losses(time.time())
            store.write(losses)
            self._health.mark_stored(losses)
        except SteadyhelmError as exc:
            _log_refusal(exc)

    def _open(self, database: DatabaseLocation) -> "tuple[AlertWorker, SQLStore]":
        with self._opening:
            if database not in self._workers:
                store = open_store(database, synchronous=self._settings.synchronous)
                try:
                    worker = build_alert_worker(self._settings, store, self._health)
                except SteadyhelmError:
                    store.close()
                    raise
                assert worker is not None
                self._workers[database] = worker, store
            return self._workers[database]


def _log_refusal(exc: SteadyhelmError) -> None:
    # The message of an error about an address may hold a part of it, which is a secret.
    write_log("hook: alerts cannot be sent", type(exc).__name__)
