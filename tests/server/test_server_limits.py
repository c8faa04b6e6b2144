"""Who may not take the place of others: silent connections, wrong tokens, keys that were revoked."""

import socket
import stat
from contextlib import closing

import pytest

from steadyhelm.cli.serve import _write_opener
from steadyhelm.errors import AddressRefusedError
from steadyhelm.server import app, running
from steadyhelm.server.routes import PREFIX

SESSION = f"{PREFIX}/session"
KEYS = f"{PREFIX}/keys"
STREAM = f"{PREFIX}/stream"


@pytest.fixture
def key(client):
    """A key that may only read, with its id."""
    made = client.post(KEYS, json={"name": "reader", "scopes": ["read"]}).json()
    return made["secret"], made["key"]["id"]


def test_the_code_of_open_is_in_no_argument(tmp_path):
    """The browser is given a file that only this user can read; the code is in it, escaped."""
    path = _write_opener(tmp_path, 'http://127.0.0.1:1/#code=a"b')

    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert "#" not in path.as_uri()
    assert "#code=a&quot;b" in path.read_text()
    assert path == _write_opener(tmp_path, "http://127.0.0.1:1/#code=c")


def test_a_link_in_its_place_is_not_followed(tmp_path):
    """Where somebody put a link, a new file takes its place."""
    (tmp_path / "open.html").symlink_to(tmp_path / "elsewhere")
    _write_opener(tmp_path, "http://127.0.0.1:1/#code=c")

    assert not (tmp_path / "elsewhere").exists()


def test_wrong_tokens_lock_nobody_out(running_server):
    """After many wrong sign-ins and wrong keys of an address, the right token from there still works."""
    with running_server.client() as guest:
        tried = [guest.post(SESSION, json={"token": "wrong"}).status_code for _ in range(30)]
        for _ in range(30):
            guest.get(f"{PREFIX}/runs", headers={"authorization": "Bearer wrong"})

        assert (401, 429) == (tried[0], tried[-1])
        assert 200 == guest.post(SESSION, json={"token": running_server.token}).status_code
        right = {"authorization": f"Bearer {running_server.token}"}
        assert 200 == guest.get(f"{PREFIX}/runs", headers=right).status_code


def test_a_key_does_not_end_the_session_of_another(running_server, key):
    """A request with a key signs nobody out, whatever cookie it carries."""
    _, cookie, secret = running_server.access.sign_in(running_server.token, "")
    with running_server.client(authorization=f"Bearer {key[0]}") as reader:
        reader.delete(SESSION, headers={"cookie": f"{app.COOKIE}={cookie}"})

    assert running_server.access.recognise_session(cookie, secret) is not None


def test_a_stream_ends_with_its_key(running_server, client, key, monkeypatch):
    """Soon after a key is revoked, what it follows ends."""
    monkeypatch.setattr(app, "HEARTBEAT_S", -1)  # checked with every event
    with (
        running_server.client(authorization=f"Bearer {key[0]}") as reader,
        reader.stream("GET", STREAM, timeout=60) as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith(("event: ", "id: ", ":"))
        client.delete(f"{KEYS}/{key[1]}")  # that is a change, so an event follows

        assert not [line for line in lines if line == "event: change"]


def test_a_key_has_not_all_streams(running_server, client, key, monkeypatch):
    """Beyond its own number of streams a key is refused, and the page is not."""
    monkeypatch.setattr(app, "_MOST_STREAMS_OF_KEY", 0)
    with running_server.client(authorization=f"Bearer {key[0]}") as reader:
        assert 429 == reader.get(STREAM).status_code


def test_a_silent_connection_is_closed(database, home, monkeypatch):
    """Who connects and sends nothing is closed, and leaves its place to others."""
    from served_store import run_server

    monkeypatch.setattr(running, "_FIRST_REQUEST_S", 0.05)
    with run_server(database, home) as live, live.client() as guest:
        address = ("127.0.0.1", int(live.url.rpartition(":")[2]))
        with closing(socket.create_connection(address, timeout=60)) as silent:
            assert b"" == silent.recv(1)
        monkeypatch.setattr(running, "_FIRST_REQUEST_S", 60.0)  # a guest may need long on a busy machine
        assert 200 == guest.get("/healthz").status_code


def test_a_refused_address_of_a_channel_is_said(running_server, client, monkeypatch):
    """A test alert to an address that is not allowed is answered with the reason."""

    def refuse():
        raise AddressRefusedError("The address is on this machine.")

    context = running_server.server._context
    running_server.server._context = context._replace(
        send_test=refuse, settings=_with_webhook(context.settings)
    )
    answer = client.post(f"{PREFIX}/channels/test", json={})

    assert {"sent": False, "message": "The address is on this machine."} == answer.json()


def _with_webhook(settings):
    from msgspec import structs

    return structs.replace(settings, alerts_webhook="https://hooks.example.com/x")


def test_the_audit_names_the_key(client, key):
    """Making and revoking a key name it and the beginning of its secret."""
    client.delete(f"{KEYS}/{key[1]}")
    told = [entry["object"] for entry in client.get(f"{PREFIX}/audit").json()["rows"]]

    assert [f"reader ({key[0][: len(told[0]) - len('reader (…)')]}…)"] * 2 == told[:2]
