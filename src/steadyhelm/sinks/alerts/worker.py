"""Send the alerts in the outbox from a background thread, and retry those that fail.

The outbox is part of the store: an alert queued there survives this process.
A delivery is leased, sent, and its result recorded. When a process dies in between, the lease expires and
the delivery is sent again under the same id.
"""

import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from steadyhelm.errors import NotFoundError, SettingsError
from steadyhelm.findings import Severity
from steadyhelm.forks import ReentrantEvent
from steadyhelm.incidents import Incident, Mute
from steadyhelm.logs import logger
from steadyhelm.policy.alerting import Alert
from steadyhelm.sinks.alerts.address_guard import AddressGuard, Resolve, resolve_with_system
from steadyhelm.sinks.alerts.channel import AlertChannel, clean_text
from steadyhelm.sinks.alerts.discord import Discord
from steadyhelm.sinks.alerts.sender import (
    MAX_ATTEMPTS,
    TIMEOUT_S,
    AlertSender,
    CircuitBreaker,
    SendResult,
    compute_wait_s,
)
from steadyhelm.sinks.alerts.slack import Slack
from steadyhelm.sinks.alerts.webhook import Webhook
from steadyhelm.store import IncidentStore, Outbox, RunStore
from steadyhelm.store_rows import Delivery, DeliveryState

CHANNEL_TYPES: Final[tuple[type[AlertChannel], ...]] = (Slack, Discord, Webhook)

_MIN_IDLE_S: Final = 1.0
_EMPTY_OUTBOX_IDLE_S: Final = 60.0
_IDLE_AFTER_ERROR_S: Final = 5.0
_MAX_PENDING_READ: Final = 1000


class AlertStore(Outbox, IncidentStore, RunStore, Protocol):
    """The parts of a store that sending uses: the outbox, the mutes of incidents, and versions of runs."""


class AlertWorker:
    """Sends the alerts in the outbox to their channels.

    Args:
        store: The outbox, and the mutes in force.
        channels: URLs by name. Deliveries contain the names; the URLs are secrets and stay here.
        secret: The key that signs alerts; None leaves them unsigned.
        allow_hosts: Hosts that may be private, loopback or without TLS.
        kinds: The types of channel to choose from, by URL.
        clock: Returns the time; unless given, what is due is decided by the clock that all processes share.
        resolve: Returns every address of a host.
        lease_s: Seconds for which no other process sends a claimed delivery.
        timeout_s: Seconds one alert may take altogether.
        on_loss: Called with the reason when an alert is given up or sending failed.
    """

    def __init__(
        self,
        store: AlertStore,
        channels: Mapping[str, str],
        *,
        secret: str | None = None,
        allow_hosts: Iterable[str] = (),
        kinds: Sequence[type[AlertChannel]] = CHANNEL_TYPES,
        clock: Callable[[], float] | None = None,
        resolve: Resolve = resolve_with_system,
        lease_s: float = 30.0,
        timeout_s: float = TIMEOUT_S,
        on_loss: Callable[[str], None] | None = None,
    ) -> None:
        if not lease_s >= 2 * timeout_s:
            raise SettingsError(
                f"alerts.lease_s must be at least twice alerts.timeout_s ({timeout_s:g}), got {lease_s!r}."
            )
        guard = AddressGuard(allow_hosts, resolve=resolve)
        self._given_clock = clock
        self._clock = clock or time.time
        self._sender = AlertSender(
            channels, secret=secret, guard=guard, kinds=kinds, clock=self._clock, timeout_s=timeout_s
        )
        self._store = store
        self._lease_s = lease_s
        self._on_loss = on_loss
        self._breaker = CircuitBreaker()
        self._close_by: float | None = None
        self.after_fork()

    def after_fork(self) -> None:
        """Reset the thread and the locks, which the child of a fork does not have."""
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()  # so that two callers do not start two threads
        self._signal = ReentrantEvent()

    def start(self) -> None:
        """Start sending, beginning with what an earlier process left in the outbox."""
        self.wake()

    def wake(self) -> None:
        """Send new alerts from the background thread. Returns at once."""
        if self._close_by is not None or not self._sender.destinations:
            return
        try:
            with self._start_lock:
                if self._thread is None or not self._thread.is_alive():
                    thread = threading.Thread(target=self._run, name="steadyhelm-alerts", daemon=True)
                    thread.start()
                    self._thread = thread
        except RuntimeError:
            # No more threads, or the interpreter is shutting down: everything stays in the outbox.
            self._report_error("alert_thread_not_started")
        self._signal.set()

    def deliver_due(self) -> int:
        """Send everything that is due now, in the caller's thread. Returns how many were sent."""
        sent = 0
        try:
            while not self._is_past_close():
                now = None if self._given_clock is None else self._given_clock()
                claimed = self._store.claim_deliveries(now=now, lease_s=self._lease_s, limit=1)
                if not claimed:
                    break
                sent += self._deliver(claimed[0])
        except Exception:  # noqa: BLE001 - never raise into the host's process: log, count, try later
            self._report_error("alert_sending_failed")
        return sent

    def send_test(self, channel: str) -> SendResult:
        """Send a test alert to one channel at once, without the outbox. Raises NotFoundError."""
        destination = self._sender.find(channel)
        alert = _build_test_alert(channel, now=self._clock())
        return self._sender.send(alert, destination, delivery_id=alert.delivery_id)

    def count_pending(self) -> int:
        """Return how many deliveries wait to be sent, at most a thousand."""
        return len(self._store.list_deliveries(state="pending", limit=_MAX_PENDING_READ))

    def close(self, timeout_s: float = 2.0) -> None:
        """Send what is due, for at most this long. The rest stays in the outbox for the next process."""
        self._close_by = time.monotonic() + timeout_s
        self._signal.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _run(self) -> None:
        signal = self._signal
        while True:
            signal.clear()
            self.deliver_due()
            if self._close_by is not None:
                return
            signal.wait(self._compute_idle_s())

    def _compute_idle_s(self) -> float:
        """Return the seconds until something may be due."""
        try:
            pending = self._store.list_deliveries(state="pending", limit=_MAX_PENDING_READ)
        except Exception:  # noqa: BLE001 - the same
            self._report_error("alert_sending_failed")
            return _IDLE_AFTER_ERROR_S
        if not pending:
            # Look from time to time: a short-lived process may have queued something it had no time to send.
            return _EMPTY_OUTBOX_IDLE_S
        soonest = min(delivery.next_at for delivery in pending) - self._clock()
        # A claim of a process that died can be taken when its lease expires, so never sleep longer.
        return min(max(soonest, _MIN_IDLE_S), self._lease_s)

    def _is_past_close(self) -> bool:
        return self._close_by is not None and time.monotonic() >= self._close_by

    def _hold_back(self, delivery: Delivery, now: float) -> bool:
        """Settle an alert that is muted, or whose channel is paused; return whether it was one."""
        if self._is_muted(delivery, now):
            self._settle(delivery, "muted")
            return True
        paused_until = self._breaker.get_pause_end(delivery.channel, now=now)
        if paused_until is None:
            return False
        error = "the channel keeps failing and is paused"
        self._settle(delivery, "pending", next_at=paused_until, error=error)
        return True

    def _deliver(self, delivery: Delivery) -> bool:
        now = self._clock()
        if self._hold_back(delivery, now):
            return False
        result = self._send(delivery)
        if result.ok:
            self._breaker.record_success(delivery.channel)
            self._settle(delivery, "sent")
            return True
        if result.can_retry:
            self._breaker.record_failure(delivery.channel, now=now)
        self._record_failure(delivery, result)
        return False

    def _settle(
        self, delivery: Delivery, state: DeliveryState, *, next_at: float = 0.0, error: str = ""
    ) -> bool:
        """Record the result of an attempt, unless another process has the delivery by now."""
        return self._store.settle_delivery(
            delivery.delivery_id, state, attempts=delivery.attempts, next_at=next_at, error=error
        )

    def _send(self, delivery: Delivery) -> SendResult:
        if delivery.attempts > MAX_ATTEMPTS and not delivery.error:
            # Claimed again and again and no result recorded: the process that sends it dies each time.
            return _make_failure(delivery, f"{MAX_ATTEMPTS} senders died while they had it")
        destination = self._sender.destinations.get(delivery.channel)
        if destination is None:
            # Another process with other settings may have it: keep trying for a while.
            return _make_failure(delivery, "this process has no channel of that name", can_retry=True)
        try:
            alert = Alert.from_body(delivery.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            return _make_failure(delivery, f"the stored alert cannot be read: {exc}")
        return self._sender.send(alert, destination, delivery_id=delivery.delivery_id)

    def _record_failure(self, delivery: Delivery, result: SendResult) -> None:
        attempt = delivery.attempts
        if result.can_retry and attempt < MAX_ATTEMPTS:
            next_at = self._clock() + compute_wait_s(
                delivery.delivery_id, attempt, retry_after_s=result.retry_after_s
            )
            self._settle(delivery, "pending", next_at=next_at, error=result.error)
            return
        error = f"{result.error} (given up)" if result.can_retry else result.error
        if not self._settle(delivery, "failed", error=error):
            return
        where = f"{clean_text(delivery.channel)[:40]} ({result.host or 'unknown host'})"
        logger.warning("Alert %s was not delivered to %s: %s", delivery.delivery_id, where, error)
        self._count_loss("alert_not_delivered")

    def _is_muted(self, delivery: Delivery, now: float) -> bool:
        return any(self._is_held_back(delivery, mute) for mute in self._store.list_mutes(at=now))

    def _is_held_back(self, delivery: Delivery, mute: Mute) -> bool:
        if (mute.agent_id, mute.detector) != (delivery.agent_id, delivery.detector):
            return False
        if mute.up_to is not None and delivery.severity.rank > mute.up_to.rank:
            return False
        if mute.version is None:
            return True
        try:
            run = self._store.find_run(delivery.run_id, agent_id=delivery.agent_id)
        except NotFoundError:
            return True
        return run.version == mute.version

    def _report_error(self, reason: str) -> None:
        error = sys.exception()
        logger.warning("Sending alerts failed (%s); it is tried again later.", reason, exc_info=error)
        self._count_loss(reason)

    def _count_loss(self, reason: str) -> None:
        if self._on_loss is None:
            return
        try:
            self._on_loss(reason)
        except Exception as exc:  # noqa: BLE001 - an error in counting must not stop the thread
            logger.warning("Counting a lost alert failed.", exc_info=exc)


def _make_failure(delivery: Delivery, error: str, *, can_retry: bool = False) -> SendResult:
    """Return the result of an alert that was not sent."""
    return SendResult(channel=delivery.channel, kind="", host="", ok=False, error=error, can_retry=can_retry)


def _build_test_alert(channel: str, *, now: float) -> Alert:
    incident = Incident(
        incident_id="test",
        agent_id="steadyhelm",
        run_id="test",
        detector="test",
        kind="loop",
        severity=Severity.LOW,
        peak=0.0,
        message="This is a test: alerts of this kind reach you here.",
        suggested_action="Nothing to do.",
        opened_at=now,
        opened_seq=0,
        last_at=now,
        last_seq=0,
    )
    alert_id = f"test-{uuid.uuid4().hex[:12]}"
    return Alert(alert_id=alert_id, reason="opened", incident=incident, created_at=now, channel=channel)
