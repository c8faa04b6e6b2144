"""Alerts about the sessions of hooks reach their channel, and no hook waits for that."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hook_processes import call, shared_home

from steadyhelm.stores.sqlite import SQLiteStore

LOOP = 6


class Channel(ThreadingHTTPServer):
    """A webhook on loopback; it keeps what it gets, and answers once `answers` is set."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Receiver)
        self.got = []
        self.answers = threading.Event()
        self.answers.set()
        self.status = 200


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append(json.loads(body))
        self.server.answers.wait(30)
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def channel():
    with Channel() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.answers.set()
        server.shutdown()


@pytest.fixture
def hooks():
    with shared_home() as hooks:
        yield hooks


def options(channel, **more):
    url = f"http://127.0.0.1:{channel.server_address[1]}/hook"
    return {"STEADYHELM_ALERTS_WEBHOOK": url, "STEADYHELM_ALERTS_ALLOW_HOSTS": "127.0.0.1", **more}


def deliveries(hooks):
    with hooks.store() as store:
        return [(it.state, it.attempts) for it in store.list_deliveries()]


@pytest.mark.parametrize("host", ["0", "1"], ids=["alone", "helped"])
def test_a_loop_is_one_alert(hooks, channel, host):
    """
    A session that loops is reported to the channel, with or without the process that stays; nothing is
    said to an agent that is only observed.
    """
    environment = options(channel, STEADYHELM_HOOK_HOST=host)
    said = [
        hooks.run(call(n), "--agent", "claude-code", "--mode", "observe", **environment) for n in range(LOOP)
    ]
    hooks.wait_until(lambda: channel.got, "no alert came")
    assert {("", "")} == set(said)
    first = channel.got[0]
    assert ("opened", "s1", "claude-code") == (
        *(first["reason"], first["incident"]["run_id"], first["incident"]["agent_id"]),
    )
    hooks.wait_until(lambda: all(state == "sent" for state, _ in deliveries(hooks)), "not sent")
    assert {"opened"} == {it["reason"] for it in channel.got if it["reason"] != "worse"}


def test_a_channel_that_does_not_answer(hooks, channel):
    """
    While a channel holds the connection, later hooks are handled, and get their answers.
    """
    channel.answers.clear()
    environment = options(channel)
    for n in range(LOOP):
        hooks.run(call(n), **environment)
    hooks.wait_until(lambda: channel.got, "no alert came")
    held = len(channel.got)
    for n in range(LOOP, LOOP + 3):
        hooks.run(call(n, "/p/b.py"), **environment)
    hooks.wait_for_calls(LOOP + 3)
    assert not channel.answers.is_set()
    assert held >= 1
    assert {} == hooks.losses()


def test_alerts_that_are_left(hooks, channel):
    """
    An alert that could not be sent stays in the store, and a later hook's process sends it.
    """
    alone = {"STEADYHELM_HOOK_HOST": "0"}
    channel.status = 503
    for n in range(LOOP):
        hooks.run(call(n), **options(channel, **alone))
    hooks.wait_until(lambda: ("pending", 1) in deliveries(hooks), "no attempt was made")
    channel.status = 200
    make_due(hooks)
    hooks.run(call("later", session="s2"), **options(channel, **alone))
    hooks.wait_until(lambda: ("sent", 2) in deliveries(hooks), "not sent")


def make_due(hooks):
    """Let the time pass after which a failed alert is sent again."""
    store = SQLiteStore(hooks.home / "steadyhelm.db")
    for it in store.list_deliveries(state="pending"):
        store.settle_delivery(it.delivery_id, "pending", next_at=0.0, error=it.error)
    store.close()


@pytest.mark.parametrize("host", ["0", "1"], ids=["alone", "helped"])
def test_an_address_that_is_refused(hooks, channel, host):
    """
    An address that may not be used is an error in the log, without the address; the steps are stored.
    """
    environment = {**options(channel, STEADYHELM_HOOK_HOST=host), "STEADYHELM_ALERTS_ALLOW_HOSTS": ""}
    for n in range(LOOP):
        hooks.run(call(n), **environment)
    hooks.wait_for_calls(LOOP)
    hooks.wait_until(lambda: any("alerts cannot be sent" in it for it in hooks.log()), "nothing was logged")
    assert not any("127.0.0.1" in it for it in hooks.log())
    assert [] == channel.got
