import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import msgspec
import pytest
from receiver import Reply

from steadyhelm.errors import AddressRefusedError, NotFoundError, SettingsError
from steadyhelm.incidents import Mute
from steadyhelm.sinks.alerts.channel import AlertChannel
from steadyhelm.sinks.alerts.signing import verify_signature
from steadyhelm.sinks.alerts.worker import AlertWorker
from steadyhelm.stores.sqlite import SQLiteStore

CHILD = """
import sys
from steadyhelm.sinks.alerts.worker import AlertWorker
from steadyhelm.stores.sqlite import SQLiteStore
path, url = sys.argv[1:]
AlertWorker(SQLiteStore(path), {"ops": url}, allow_hosts={"127.0.0.1"}).deliver_due()
"""


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now=1700000100.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    """The time of day, moved by hand."""
    return Clock()


@pytest.fixture
def worker(store, receiver, clock):
    """A worker with one channel, driven by hand."""
    return AlertWorker(store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"}, clock=clock)


def numbered(alert, number):
    """One of many deliveries."""
    return msgspec.structs.replace(alert, alert_id=f"a{number}").to_delivery("ops")


def only(store):
    """The one delivery there is."""
    [delivery] = store.list_deliveries()
    return delivery


class TestDelivery:
    def test_what_is_due_is_sent(self, store, receiver, worker, alert):
        """
        An alert in the outbox arrives, under its delivery id, and is noted as sent.
        """
        store.enqueue(alert.to_delivery("ops"))

        assert 1 == worker.deliver_due()
        assert (["a1-ops"], "sent", 0) == (receiver.ids, only(store).state, worker.count_pending())
        assert "a1-ops" == json.loads(receiver.requests[0].body)["delivery_id"]

    def test_an_alert_enqueued_twice_is_sent_once(self, store, receiver, worker, alert):
        """
        A replay that enqueues the same alert again sends nothing more.
        """
        for _ in range(3):
            store.enqueue(alert.to_delivery("ops"))
            worker.deliver_due()

        assert ["a1-ops"] == receiver.ids

    def test_the_outbox_does_not_hold_the_url(self, store, receiver, worker, alert):
        """
        A delivery names its channel; the URL, which is a secret, is nowhere in it.
        """
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()

        assert b"s3cret" not in msgspec.json.encode(store.list_deliveries())

    def test_a_signed_alert_is_verified_by_its_receiver(self, store, receiver, clock, alert):
        """
        With a secret, id, time and body are signed, and the receiver can tell.
        """
        worker = AlertWorker(
            store, {"ops": receiver.url}, secret="s3cret", allow_hosts={"127.0.0.1"}, clock=clock
        )
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()

        [request] = receiver.requests
        assert verify_signature("s3cret", request.headers, request.body, now=clock.now)

    def test_without_a_secret_nothing_is_signed(self, store, receiver, worker, alert):
        """
        Without a secret there is no signature, and no pretence of one.
        """
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()

        assert "Steadyhelm-Signature" not in receiver.requests[0].headers

    def test_a_muted_alert_is_not_sent(self, store, receiver, worker, clock, alert):
        """
        While agent and detector are muted their alerts are settled as muted, unsent.
        """
        store.mute(Mute(agent_id="researcher", detector="action_loop", until=clock.now + 1))
        store.enqueue(alert.to_delivery("ops"))

        assert (0, [], "muted") == (worker.deliver_due(), receiver.ids, only(store).state)

    @pytest.mark.parametrize(("agent_id", "ends"), [("another", 60), ("researcher", -1)])
    def test_a_mute_of_others_or_of_the_past_is_none(
        self, store, receiver, worker, clock, alert, agent_id, ends
    ):
        """
        A mute of another agent, or one that has ended, holds nothing back.
        """
        store.mute(Mute(agent_id=agent_id, detector="action_loop", until=clock.now + ends))
        store.enqueue(alert.to_delivery("ops"))

        assert 1 == worker.deliver_due()

    def test_two_workers_send_each_alert_once(self, store, receiver, alert):
        """
        Two workers, each with the file open on its own, send every alert exactly once between them.
        """
        for number in range(20):
            store.enqueue(numbered(alert, number))
        stores = [store, SQLiteStore(store.path)]
        workers = [AlertWorker(each, {"ops": receiver.url}, allow_hosts={"127.0.0.1"}) for each in stores]
        threads = [threading.Thread(target=worker.deliver_due) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stores[1].close()

        assert sorted(f"a{number}-ops" for number in range(20)) == sorted(receiver.ids)


class TestRetry:
    def test_a_server_in_trouble_is_tried_again(self, store, receiver, worker, clock, alert):
        """
        Two answers of 5xx and then one of 200 mean three attempts, one and two seconds apart.
        """
        receiver.replies.extend([Reply(500), Reply(503), Reply(200)])
        store.enqueue(alert.to_delivery("ops"))
        waits = []
        while not worker.deliver_due():
            waits.append(only(store).next_at - clock.now)
            clock.now = only(store).next_at

        assert [1, 2] == [int(wait) for wait in waits]
        assert (["a1-ops"] * 3, "sent") == (receiver.ids, only(store).state)

    def test_nothing_is_tried_before_it_is_due(self, store, receiver, worker, clock, alert):
        """
        Between attempts an alert waits.
        """
        receiver.replies.append(Reply(500))
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()
        clock.now += 0.5
        worker.deliver_due()

        assert (1, "pending", "answered 500") == (
            len(receiver.requests),
            only(store).state,
            only(store).error,
        )

    def test_a_wait_that_is_asked_for_is_kept(self, store, receiver, worker, clock, alert):
        """
        An answer of 429 with Retry-After is obeyed.
        """
        receiver.replies.append(Reply(429, {"Retry-After": "30"}))
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()

        assert clock.now + 30 == only(store).next_at

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413])
    def test_a_refusal_is_final(self, store, receiver, worker, alert, status):
        """
        An answer that another attempt would not change fails the delivery at once.
        """
        receiver.replies.append(Reply(status, {}, b"no_service"))
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()

        assert ("failed", f"answered {status} no_service") == (only(store).state, only(store).error)

    def test_an_answer_that_repeats_the_url_is_not_kept(self, store, receiver, worker, alert):
        """
        What a server says in more than a word is not noted: it may repeat the secret path.
        """
        receiver.replies.append(Reply(404, {}, b"Cannot POST /T0/B0/s3cret"))
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()

        assert "answered 404" == only(store).error

    def test_a_redirect_fails_and_says_so(self, store, receiver, worker, alert):
        """
        A redirect is not followed, wherever it leads.
        """
        receiver.replies.append(Reply(307, {"Location": "http://127.0.0.1/inside"}))
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()

        error = "answered 307, a redirect to 127.0.0.1; redirects are not followed"
        assert ("failed", error, 1) == (only(store).state, only(store).error, len(receiver.requests))

    def test_ten_attempts_are_enough(self, store, receiver, worker, clock, alert):
        """
        An alert that failed ten times is given up, noted as failed with the reason.
        """
        receiver.replies.extend([Reply(500)] * 20)
        store.enqueue(alert.to_delivery("ops"))
        while only(store).state == "pending":
            worker.deliver_due()
            clock.now += 901.0

        assert "failed" == only(store).state
        assert ("answered 500 (given up)", 10) == (only(store).error, len(receiver.requests))

    def test_a_server_that_hangs_is_tried_again(self, store, receiver, clock, alert):
        """
        No answer in time is a failure that another attempt may mend.
        """
        answered = threading.Event()
        receiver.replies.append(Reply(before=lambda: answered.wait(60)))
        worker = AlertWorker(
            store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"}, clock=clock, timeout_s=0.1
        )
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()
        answered.set()

        assert ("pending", "no answer within 0.1 s") == (only(store).state, only(store).error)

    def test_a_server_that_is_not_there_is_tried_again(self, store, clock, alert):
        """
        A refused connection is a failure that another attempt may mend.
        """
        worker = AlertWorker(store, {"ops": "http://127.0.0.1:1/"}, allow_hosts={"127.0.0.1"}, clock=clock)
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()

        assert "pending" == only(store).state
        assert only(store).error.startswith("could not be reached: ")

    def test_a_private_address_is_final(self, store, clock, alert):
        """
        A name that resolves to a private address fails at once, and the note says how to allow it.
        """
        worker = AlertWorker(
            store, {"ops": "https://rebind.example/"}, clock=clock, resolve=lambda host, port: ["10.0.0.1"]
        )
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()

        assert "failed" == only(store).state
        assert "add 'rebind.example' to the alerts' allow_hosts" in only(store).error


class TestBreaker:
    def test_a_channel_that_keeps_failing_gets_a_rest(self, store, receiver, worker, clock, alert):
        """
        After five failures in a row a channel is left alone for a minute, then tried again.
        """
        receiver.replies.extend([Reply(500)] * 5)
        for number in range(8):
            store.enqueue(numbered(alert, number))
        worker.deliver_due()
        assert 5 == len(receiver.requests)

        clock.now += 60.0
        assert 8 == worker.deliver_due()

    def test_other_channels_go_on(self, store, receiver, clock, alert):
        """
        The rest of one channel does not hold up another.
        """
        receiver.replies.extend([Reply(500)] * 5)
        urls = {"ops": receiver.url, "chat": receiver.url}
        worker = AlertWorker(store, urls, allow_hosts={"127.0.0.1"}, clock=clock)
        for number in range(5):
            store.enqueue(numbered(alert, number))
        worker.deliver_due()
        store.enqueue(alert.to_delivery("chat"))

        assert 1 == worker.deliver_due()


class TestRestart:
    def test_a_restart_sends_what_was_pending(self, store, receiver, alert):
        """
        What an earlier process left in the outbox is sent when a worker starts.
        """
        store.enqueue(alert.to_delivery("ops"))
        worker = AlertWorker(store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"})
        worker.start()
        receiver.wait_for(1)
        worker.close(60)

        assert (["a1-ops"], "sent") == (receiver.ids, only(store).state)

    def test_one_that_died_before_noting_is_sent_again(self, store, receiver, alert):
        """
        A process killed between sending and noting leaves its alert to the next, under the same id.
        """
        store.enqueue(alert.to_delivery("ops"))
        receiver.replies.append(Reply(before=lambda: os.kill(child.pid, signal.SIGKILL)))
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(store.path), receiver.url])
        assert -signal.SIGKILL == child.wait(30)
        worker = AlertWorker(store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"})
        assert 0 == worker.deliver_due()

        later = AlertWorker(
            store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"}, clock=lambda: time.time() + 31
        )
        assert 1 == later.deliver_due()
        assert (["a1-ops"] * 2, "sent") == (receiver.ids, only(store).state)

    def test_one_that_kills_its_senders_is_given_up(self, store, receiver, worker, clock, alert):
        """
        A delivery that ten processes claimed and none lived to note is failed, not sent once more.
        """
        store.enqueue(alert.to_delivery("ops"))
        for _ in range(10):
            store.claim_deliveries(now=clock.now, lease_s=30.0)
            clock.now += 30.0

        assert (0, "failed", "10 senders died while they had it") == (
            worker.deliver_due(),
            only(store).state,
            only(store).error,
        )


class TestThread:
    def test_waking_sends_in_the_background(self, store, receiver, alert):
        """
        After being woken the worker sends by itself; closing lets it finish.
        """
        worker = AlertWorker(store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"})
        for number in range(3):
            store.enqueue(numbered(alert, number))
            worker.wake()
            receiver.wait_for(number + 1)
        worker.close(60)

        assert ["a0-ops", "a1-ops", "a2-ops"] == receiver.ids
        assert 0 == worker.count_pending()

    def test_it_comes_back_for_what_is_due_later(self, store, receiver, alert):
        """
        An alert that failed is tried again when its wait is over, without being woken.
        """
        receiver.replies.append(Reply(500))
        store.enqueue(alert.to_delivery("ops"))
        worker = AlertWorker(store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"})
        worker.wake()
        receiver.wait_for(2)
        worker.close(60)

        assert ["a1-ops", "a1-ops"] == receiver.ids

    def test_one_thread_is_enough(self, store, receiver):
        """
        However often it is woken, the worker has one thread, a daemon.
        """
        worker = AlertWorker(store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"})
        threads = set()
        for _ in range(5):
            worker.wake()
            threads.add(worker._thread)
        worker.close(60)

        [thread] = threads
        assert (True, False) == (thread.daemon, thread.is_alive())

    def test_without_channels_there_is_no_thread(self, store):
        """
        A worker that has nowhere to go starts nothing.
        """
        worker = AlertWorker(store, {})
        worker.start()

        assert None is worker._thread

    def test_after_closing_it_stays_closed(self, store, receiver):
        """
        Waking a closed worker does nothing.
        """
        worker = AlertWorker(store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"})
        worker.close(0)
        worker.wake()

        assert None is worker._thread

    def test_closing_does_not_wait_for_a_server_that_hangs(self, store, receiver, alert):
        """
        Closing waits as long as it was told, whatever the other side does; the alert stays in the outbox.
        """
        answered = threading.Event()
        receiver.replies.append(Reply(before=lambda: answered.wait(60)))
        store.enqueue(alert.to_delivery("ops"))
        worker = AlertWorker(store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"})
        worker.wake()
        receiver.wait_for(1)
        worker.close(0.01)
        held = worker._thread.is_alive(), only(store).state
        answered.set()
        worker._thread.join(60)

        assert (True, "pending") == held

    def test_after_a_fork_it_starts_anew(self, store, receiver):
        """
        Told of a fork, the worker forgets the thread it no longer has, even if its lock was held.
        """
        worker = AlertWorker(store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"})
        worker.wake()
        before = worker._thread
        worker._start_lock.acquire()
        worker.after_fork()
        worker.wake()
        after = worker._thread
        worker.close(60)

        assert before is not after


class TestTrouble:
    def test_a_store_that_fails_is_survived(self, store, receiver, alert, caplog):
        """
        When the store fails, the worker logs it, counts it and raises nothing.
        """
        losses = []
        worker = AlertWorker(store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"}, on_loss=losses.append)
        store.close()

        assert (0, ["alert_sending_failed"]) == (worker.deliver_due(), losses)
        assert "Sending alerts failed" in caplog.text

    def test_a_lost_alert_is_counted(self, store, receiver, clock, alert, caplog):
        """
        An alert that is given up is counted and logged with channel and host, not with its URL.
        """
        losses = []
        receiver.replies.append(Reply(404))
        worker = AlertWorker(
            store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"}, clock=clock, on_loss=losses.append
        )
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()

        assert ["alert_not_delivered"] == losses
        assert "Alert a1-ops was not delivered to ops (127.0.0.1): answered 404" in caplog.text

    def test_a_counter_that_fails_stops_nothing(self, store, receiver, clock, alert):
        """
        A callback that raises does not keep the next alert from being sent.
        """
        receiver.replies.append(Reply(404))
        worker = AlertWorker(
            store, {"ops": receiver.url}, allow_hosts={"127.0.0.1"}, clock=clock, on_loss=lambda reason: 1 / 0
        )
        for number in range(2):
            store.enqueue(numbered(alert, number))

        assert 1 == worker.deliver_due()

    def test_no_log_line_shows_the_url(self, store, receiver, worker, alert, caplog):
        """
        Not even with every logger at its loudest does the secret part of a URL appear.
        """
        caplog.set_level(logging.DEBUG)
        receiver.replies.extend([Reply(500), Reply(404, {}, b"/T0/B0/s3cret")])
        for number in range(3):
            store.enqueue(numbered(alert, number))
        worker.deliver_due()

        assert "127.0.0.1" in caplog.text
        assert "s3cret" not in caplog.text

    def test_a_channel_nobody_knows_is_kept_for_a_while(self, store, receiver, worker, alert):
        """
        An alert for a channel that is not configured here waits: another process may know it.
        """
        store.enqueue(alert.to_delivery("pager"))
        worker.deliver_due()

        assert ("pending", "this process has no channel of that name") == (
            only(store).state,
            only(store).error,
        )

    @pytest.mark.parametrize("body", [b"", b"{}", b"not json", b"\xff\xfe", b'{"alert_id": 5}'])
    def test_a_body_that_cannot_be_read_fails(self, store, receiver, worker, alert, body):
        """
        A damaged delivery is failed with the reason, and the next one is sent.
        """
        store.enqueue(msgspec.structs.replace(numbered(alert, 0), body=body))
        store.enqueue(numbered(alert, 1))

        assert (1, ["a1-ops"]) == (worker.deliver_due(), receiver.ids)
        assert (
            "the stored alert cannot be read"
            in {row.state: row for row in store.list_deliveries()}["failed"].error
        )

    def test_a_channel_that_raises_fails_its_alert(self, store, receiver, clock, alert):
        """
        A plug-in that cannot render an alert fails that delivery, with what it raised.
        """

        class Broken(AlertChannel):
            name = "broken"

            @classmethod
            def matches(cls, url):
                return True

            def build_payload(self, alert):
                return {}["missing"]

        worker = AlertWorker(
            store, {"ops": receiver.url}, kinds=[Broken], allow_hosts={"127.0.0.1"}, clock=clock
        )
        store.enqueue(alert.to_delivery("ops"))
        worker.deliver_due()

        assert ("failed", "could not be sent: KeyError: 'missing'") == (only(store).state, only(store).error)


class TestTestAlert:
    def test_it_reaches_the_channel_past_the_outbox(self, store, receiver, worker):
        """
        A test alert is sent at once, leaves the outbox alone, and comes back with status and time.
        """
        receipt = worker.send_test("ops")

        assert (True, 200, "webhook", "127.0.0.1", "") == (
            receipt.ok,
            receipt.status,
            receipt.kind,
            receipt.host,
            receipt.error,
        )
        assert receipt.ms > 0
        assert (1, []) == (len(receiver.requests), store.list_deliveries())

    def test_it_is_honest_about_failure(self, receiver, worker):
        """
        A channel that refuses is reported as it answered.
        """
        receiver.replies.append(Reply(403, {}, b"invalid_token"))
        receipt = worker.send_test("ops")

        assert (False, 403, "answered 403 invalid_token") == (receipt.ok, receipt.status, receipt.error)

    def test_a_channel_that_is_not_there_is_named(self, worker):
        """
        Testing a channel that is not configured says which there are.
        """
        with pytest.raises(NotFoundError, match="no alert channel 'chat'; configured: ops"):
            worker.send_test("chat")


class TestSettings:
    @pytest.mark.parametrize(
        ("channels", "settings", "words"),
        [
            ({"ops": "example.org"}, {}, r"alerts\.channels\.ops must be a URL"),
            ({"o p s": "https://example.org"}, {}, "A channel's name must be 1 to 40 letters"),
            ({}, {"secret": ""}, r"alerts\.secret must hold at least one character"),
            ({}, {"timeout_s": 0}, r"alerts\.timeout_s must be more than 0 seconds, got 0"),
            ({}, {"lease_s": 9}, r"alerts\.lease_s must be at least twice alerts\.timeout_s \(5\), got 9"),
            ({}, {"allow_hosts": ["http://x"]}, r"alerts\.allow_hosts must hold names"),
        ],
    )
    def test_a_bad_setting_is_named(self, store, channels, settings, words):
        """
        A setting that cannot be is refused with its name and what is allowed.
        """
        with pytest.raises(SettingsError, match=words):
            AlertWorker(store, channels, **settings)

    @pytest.mark.parametrize(
        "url", ["http://example.org/hook", "https://127.0.0.1/", "https://169.254.169.254/"]
    )
    def test_an_address_that_will_never_do_is_refused_when_it_is_set(self, store, url):
        """
        What the guard can refuse without a look-up it refuses at once, not at the first alert.
        """
        with pytest.raises(AddressRefusedError, match="allow_hosts"):
            AlertWorker(store, {"ops": url})
