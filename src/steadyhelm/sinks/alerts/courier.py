"""Sends what waits in the outbox, off everybody's thread, until it has arrived or there is no hope.

The outbox is the store's: an alert enqueued there survives this process.
A delivery is claimed for a while, sent, and its outcome noted. Whoever dies in between leaves it to be
claimed again, and it is sent again under the same id.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from steadyhelm.errors import SettingsError
from steadyhelm.findings import Severity
from steadyhelm.incidents import Incident
from steadyhelm.policy.alerting import Alert
from steadyhelm.sinks.alerts.backoff import MOST_ATTEMPTS, Breaker, wait_s
from steadyhelm.sinks.alerts.channel import Channel, cleaned
from steadyhelm.sinks.alerts.discord import Discord
from steadyhelm.sinks.alerts.guard import AddressGuard, Resolve, system_resolve
from steadyhelm.sinks.alerts.sender import TIMEOUT_S, Receipt, Sender
from steadyhelm.sinks.alerts.slack import Slack
from steadyhelm.sinks.alerts.webhook import Webhook
from steadyhelm.store import Delivery, Store

KINDS: Final[tuple[type[Channel], ...]] = (Slack, Discord, Webhook)

_SHORTEST_IDLE_S: Final = 1.0
_QUIET_IDLE_S: Final = 60.0
_AFTER_TROUBLE_S: Final = 5.0
_PENDING_COUNTED: Final = 1000

_log = logging.getLogger("steadyhelm")


class Courier:
    """Takes alerts from the outbox to their channels.

    Args:
        store: Holds the outbox.
        channels: URLs by name. The names are what deliveries carry; the URLs are secrets and stay here.
        secret: What alerts are signed with; None leaves them unsigned.
        allow_hosts: Hosts that may be private, loopback or without TLS.
        kinds: The kinds of channel to choose from, by URL.
        clock: The time of day.
        resolve: Gives every address of a host.
        lease_s: Seconds for which a claimed delivery is nobody else's.
        timeout_s: Seconds one alert may take altogether.
        on_loss: Told the reason whenever an alert is given up or something failed here.
    """

    def __init__(
        self,
        store: Store,
        channels: Mapping[str, str],
        *,
        secret: str | None = None,
        allow_hosts: Iterable[str] = (),
        kinds: Sequence[type[Channel]] = KINDS,
        clock: Callable[[], float] = time.time,
        resolve: Resolve = system_resolve,
        lease_s: float = 30.0,
        timeout_s: float = TIMEOUT_S,
        on_loss: Callable[[str], None] | None = None,
    ) -> None:
        if not lease_s >= 2 * timeout_s:
            raise SettingsError(
                f"alerts.lease_s must be at least twice alerts.timeout_s ({timeout_s:g}), got {lease_s!r}."
            )
        guard = AddressGuard(allow_hosts, resolve=resolve)
        self._sender = Sender(
            channels, secret=secret, guard=guard, kinds=kinds, clock=clock, timeout_s=timeout_s
        )
        self._store = store
        self._clock = clock
        self._lease_s = lease_s
        self._on_loss = on_loss
        self._breaker = Breaker()
        self._close_by: float | None = None
        self.after_fork()

    def after_fork(self) -> None:
        """Forget the thread and the locks, which the child of a fork does not have."""
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()  # so that two callers do not start two threads
        self._signal = threading.Event()

    def start(self) -> None:
        """Send what an earlier process left behind."""
        self.wake()

    def wake(self) -> None:
        """There is something new to send; returns at once."""
        if self._close_by is not None or not self._sender.destinations:
            return
        try:
            with self._starting:
                if self._thread is None or not self._thread.is_alive():
                    thread = threading.Thread(target=self._work, name="steadyhelm-courier", daemon=True)
                    thread.start()
                    self._thread = thread
        except RuntimeError:
            # No more threads, or the interpreter is going down: the outbox keeps everything.
            self._trouble("alert_thread_not_started")
        self._signal.set()

    def deliver_due(self) -> int:
        """Send everything that is due now, in the caller's thread; how many arrived."""
        arrived = 0
        try:
            while not self._is_over():
                claimed = self._store.claim_deliveries(now=self._clock(), lease_s=self._lease_s, limit=1)
                if not claimed:
                    break
                arrived += self._delivered(claimed[0])
        except Exception:  # noqa: BLE001 - a guest in somebody else's process: log, count, go on later
            self._trouble("alert_courier_failed")
        return arrived

    def test(self, channel: str) -> Receipt:
        """Send a test alert to one channel right now, past the outbox; raises NotFoundError."""
        destination = self._sender.find(channel)
        alert = _test_alert(channel, now=self._clock())
        return self._sender.send(alert, destination, delivery_id=alert.delivery_id)

    def pending(self) -> int:
        """How many deliveries wait to be sent, counted up to a thousand."""
        return len(self._store.list_deliveries(state="pending", limit=_PENDING_COUNTED))

    def close(self, timeout_s: float = 2.0) -> None:
        """Finish what is due, for at most this long; the rest waits in the outbox for the next process."""
        self._close_by = time.monotonic() + timeout_s
        self._signal.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _work(self) -> None:
        signal = self._signal
        while True:
            signal.clear()
            self.deliver_due()
            if self._close_by is not None:
                return
            signal.wait(self._idle_s())

    def _idle_s(self) -> float:
        """Seconds until something may be due."""
        try:
            waiting = self._store.list_deliveries(state="pending", limit=_PENDING_COUNTED)
        except Exception:  # noqa: BLE001 - the same
            self._trouble("alert_courier_failed")
            return _AFTER_TROUBLE_S
        if not waiting:
            # Now and then a look for what a short-lived process left: it may have had no time to send.
            return _QUIET_IDLE_S
        soonest = min(delivery.next_at for delivery in waiting) - self._clock()
        # A claim of a process that died becomes ours when its lease is over, so never sleep longer.
        return min(max(soonest, _SHORTEST_IDLE_S), self._lease_s)

    def _is_over(self) -> bool:
        return self._close_by is not None and time.monotonic() >= self._close_by

    def _delivered(self, delivery: Delivery) -> bool:
        now = self._clock()
        if self._is_muted(delivery, now):
            self._store.settle_delivery(delivery.delivery_id, "muted")
            return False
        rests_until = self._breaker.rests_until(delivery.channel, now=now)
        if rests_until is not None:
            error = "the channel keeps failing and has a rest"
            self._store.settle_delivery(delivery.delivery_id, "pending", next_at=rests_until, error=error)
            return False
        receipt = self._attempt(delivery)
        if receipt.ok:
            self._breaker.worked(delivery.channel)
            self._store.settle_delivery(delivery.delivery_id, "sent")
            return True
        if receipt.again:
            self._breaker.failed(delivery.channel, now=now)
        self._note_failure(delivery, receipt)
        return False

    def _attempt(self, delivery: Delivery) -> Receipt:
        if delivery.attempts > MOST_ATTEMPTS and not delivery.error:
            # Claimed again and again and nothing ever noted: whoever sends it does not live to tell.
            error = f"{MOST_ATTEMPTS} senders died while they had it"
            return Receipt(channel=delivery.channel, kind="", host="", ok=False, error=error)
        destination = self._sender.destinations.get(delivery.channel)
        if destination is None:
            # Perhaps another process with other settings knows it: keep trying for a while.
            error = "this process has no channel of that name"
            return Receipt(channel=delivery.channel, kind="", host="", ok=False, error=error, again=True)
        try:
            alert = Alert.from_body(delivery.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            error = f"the stored alert cannot be read: {exc}"
            return Receipt(channel=delivery.channel, kind="", host="", ok=False, error=error)
        return self._sender.send(alert, destination, delivery_id=delivery.delivery_id)

    def _note_failure(self, delivery: Delivery, receipt: Receipt) -> None:
        attempt = delivery.attempts
        if receipt.again and attempt < MOST_ATTEMPTS:
            next_at = self._clock() + wait_s(delivery.delivery_id, attempt, asked_s=receipt.asked_s)
            self._store.settle_delivery(delivery.delivery_id, "pending", next_at=next_at, error=receipt.error)
            return
        error = f"{receipt.error} (given up)" if receipt.again else receipt.error
        self._store.settle_delivery(delivery.delivery_id, "failed", error=error)
        where = f"{cleaned(delivery.channel)[:40]} ({receipt.host or 'unknown host'})"
        _log.warning("Alert %s was not delivered to %s: %s", delivery.delivery_id, where, error)
        self._count("alert_not_delivered")

    def _is_muted(self, delivery: Delivery, now: float) -> bool:
        muted = {(mute.agent_id, mute.detector) for mute in self._store.list_mutes(at=now)}
        return (delivery.agent_id, delivery.detector) in muted

    def _trouble(self, reason: str) -> None:
        _log.warning("The alert courier failed (%s) and goes on later.", reason, exc_info=True)
        self._count(reason)

    def _count(self, reason: str) -> None:
        if self._on_loss is None:
            return
        try:
            self._on_loss(reason)
        except Exception:  # noqa: BLE001 - whoever counts must not stop the courier
            _log.warning("Counting a lost alert failed.", exc_info=True)


def _test_alert(channel: str, *, now: float) -> Alert:
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
