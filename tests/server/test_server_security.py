"""What gets in and what does not: every class of fault that has hit tools like this one is tried here."""

import http.client
import os
import stat
import time

import pytest
from served_store import run_server

from steadyhelm.errors import SettingsError
from steadyhelm.server.access import CODE_S, COOKIE, Access, read_token
from steadyhelm.server.page_files import read_page
from steadyhelm.server.routes import PREFIX, ROUTES
from steadyhelm.server.running import require_safe_address
from steadyhelm.stores import open_store

RUNS = f"{PREFIX}/runs"
SESSION = f"{PREFIX}/session"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page of two files."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "assets").mkdir()
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "assets" / "app-1.js").write_text("0")
    (folder / "server.token").write_text("not a file of the page")
    return read_page(folder)


@pytest.fixture(scope="module")
def live(recorded, page, tmp_path_factory):
    """One server for all requests that change nothing."""
    with run_server(recorded, tmp_path_factory.mktemp("home"), page) as found:
        yield found


@pytest.fixture
def guest(live):
    """A client that is not signed in."""
    with live.client() as found:
        yield found


@pytest.fixture
def owner(live):
    with live.client(authorization=f"Bearer {live.token}") as found:
        yield found


class TestRoutes:
    def test_only_the_named_ones_are_open(self, live, guest):
        """Of all routes, health, signing in and the page's own files answer without being signed in."""
        answered = set()
        for route in live.server.routes:
            for method in sorted(route.methods - {"HEAD"}):
                path = route.path
                for name in ("run", "agent", "step", "id", "incident"):
                    path = path.replace(f"{{{name}}}", "1")
                response = guest.request(method, path, json={} if method == "POST" else None)
                if response.status_code != 401:
                    answered.add((method, route.path))
        # Signing in without a token answers that the token is not right.
        assert {
            ("GET", "/"),
            ("GET", "/healthz"),
            ("GET", "/index.html"),
            ("GET", "/assets/app-1.js"),
        } == answered
        assert "token" in guest.post(SESSION, json={}).json()["message"]

    def test_what_is_not_there_is_denied_too(self, guest, owner):
        """An unknown path says nothing to who is not signed in."""
        assert (401, 404) == tuple(it.get("/api/v1/nothing").status_code for it in (guest, owner))
        assert 401 == guest.get("/metrics").status_code
        assert owner.get("/metrics").text.startswith("# HELP steadyhelm_runs ")

    @pytest.mark.parametrize(
        ("scopes", "denied"), [(["read"], {"operate", "admin"}), (["operate"], {"admin"}), (["admin"], set())]
    )
    def test_a_key_may_what_its_scope_says(self, live, scopes, denied):
        """A key gets 403 for everything above its scope, on every route."""
        _, secret = live.access.make_key("ci", tuple(scopes), None)
        seen = set()
        with live.client(authorization=f"Bearer {secret}") as client:
            for route in ROUTES:
                if route.scope in denied:
                    path = PREFIX + route.path.format(run=1, agent=1, step=1, id=1, incident="x")
                    body = {} if route.method == "POST" else None
                    seen.add(client.request(route.method, path, json=body).status_code)
            assert 200 == client.get(RUNS).status_code
        assert seen == ({403} if denied else set())

    def test_a_key_that_has_ended_or_was_revoked_is_nobody(self, live):
        """Neither an expired key, nor a revoked one, nor a guess gets in."""
        _, expired = live.access.make_key("old", ("read",), 1.0)
        key, revoked = live.access.make_key("gone", ("read",), None)
        live.access._store.delete_key(key.key_id)
        for secret in (expired, revoked, "sh_guess", "x", live.token[:-1]):
            with live.client(authorization=f"Bearer {secret}") as client:
                assert 401 == client.get(RUNS).status_code


class TestSessions:
    @pytest.fixture
    def visitor(self, live):
        """A client with the origin of the page."""
        with live.client(origin=live.url) as found:
            yield found

    def test_a_session_needs_cookie_and_secret(self, live, visitor):
        """A cookie alone is not enough: a browser sends it to every port of the host."""
        client, response = visitor, visitor.post(SESSION, json={"token": live.token})
        cookie = response.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        secret = response.json()["secret"]
        assert 401 == client.get(RUNS).status_code
        assert 401 == client.get(RUNS, headers={"steadyhelm-secret": "0" * 64}).status_code
        assert 200 == client.get(RUNS, headers={"steadyhelm-secret": secret}).status_code
        client.cookies.clear()
        assert 401 == client.get(RUNS, headers={"steadyhelm-secret": secret}).status_code

    def test_over_tls_the_cookie_is_for_tls_alone(self, live):
        """A proxy with TLS that no setting names: the browser's origin says that it uses it."""
        secure = []
        for origin in (live.url, live.url.replace("http:", "https:")):
            with live.client(origin=origin) as client:
                cookie = client.post(SESSION, json={"token": live.token}).headers["set-cookie"]
                secure.append("Secure" in cookie.split("; "))
        assert [False, True] == secure

    def test_signing_out_ends_it(self, live, visitor):
        """After signing out, cookie and secret are worth nothing."""
        client, response = visitor, visitor.post(SESSION, json={"token": live.token})
        headers = {"steadyhelm-secret": response.json()["secret"]}
        cookie = client.cookies[COOKIE]
        assert 200 == client.delete(SESSION, headers=headers).status_code
        client.cookies.set(COOKIE, cookie)
        assert 401 == client.get(RUNS, headers=headers).status_code

    def test_a_code_signs_in_once(self, live, visitor):
        """The code of `--open` works once."""
        code = live.access.make_code()
        assert [200, 401] == [visitor.post(SESSION, json={"code": code}).status_code for _ in range(2)]

    def test_a_code_and_a_session_end(self, live, monkeypatch):
        """A code is good for two minutes, a session for its time, and neither can be made longer."""
        code = live.access.make_code()
        _, cookie, secret = live.access.sign_in(live.token, "")
        name, _, signature = cookie.rpartition(".")
        longer = f"{name}9.{signature}"
        assert live.access.recognise_session(cookie, secret) is not None
        assert live.access.recognise_session(longer, secret) is None
        now = time.time()
        monkeypatch.setattr("steadyhelm.server.access.time.time", lambda: now + CODE_S + 1)
        assert live.access.sign_in("", code) is None
        monkeypatch.setattr("steadyhelm.server.access.time.time", lambda: now + 13 * 3600)
        assert live.access.recognise_session(cookie, secret) is None

    def test_sessions_outlive_a_restart(self, live, recorded):
        """A server with the same token knows the session; one with another token does not."""
        _, cookie, secret = live.access.sign_in(live.token, "")
        store = open_store(recorded)
        assert Access(live.token, store).recognise_session(cookie, secret) is not None
        assert Access(live.token + "x", store).recognise_session(cookie, secret) is None
        store.close()

    def test_guessing_is_slow(self, database, home):
        """After some wrong tokens, signing in is refused for a while."""
        with run_server(database, home) as found, found.client(origin=found.url) as visitor:
            statuses = [visitor.post(SESSION, json={"token": "guess"}).status_code for _ in range(12)]
        assert (401, 429) == (statuses[0], statuses[-1])


class TestToken:
    def test_only_its_owner_reads_it(self, tmp_path):
        """The token is made once, for its owner alone, and is long."""
        token = read_token(tmp_path)
        assert stat.S_IMODE((tmp_path / "server.token").stat().st_mode) == 0o600
        assert len(token) >= 43
        assert token == read_token(tmp_path)

    def test_a_file_that_others_can_read_is_refused(self, tmp_path):
        """A token that somebody else may know is not used."""
        read_token(tmp_path)
        (tmp_path / "server.token").chmod(0o644)
        with pytest.raises(SettingsError, match="Others can read"):
            read_token(tmp_path)

    @pytest.mark.parametrize("kind", ["link", "empty"])
    def test_no_other_file_is_taken_for_it(self, tmp_path, kind):
        """Neither a link nor an empty file is a token."""
        path = tmp_path / "server.token"
        if kind == "link":
            (tmp_path / "other").write_text("x" * 50)
            path.symlink_to(tmp_path / "other")
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        with pytest.raises(SettingsError, match="Delete it"):
            read_token(tmp_path)


class TestRequests:
    @pytest.mark.parametrize(
        "host",
        [
            *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "0.0.0.0"),
            *("xn--lcalhost-r8a", "127.1", "2130706433", "[::ffff:10.0.0.1]", "", "a@127.0.0.1"),
            *("localhost:x", "localhost:80@evil.example", "localhost:65536", "[::1]evil", "[::1]:-1"),
        ],
    )
    def test_other_names_are_refused(self, live, host):
        """A name that was pointed at this machine gets nothing, the token or not: DNS rebinding."""
        with live.client(authorization=f"Bearer {live.token}", host=host) as client:
            assert 421 == client.get(RUNS).status_code
            assert 421 == client.get("/").status_code

    @pytest.mark.parametrize("host", ["LOCALHOST:1", "localhost.", "[::1]:9", "127.0.0.1"])
    def test_own_names_are_known(self, live, host):
        """Names of this machine are known in every spelling."""
        with live.client(authorization=f"Bearer {live.token}", host=host) as client:
            assert 200 == client.get(RUNS).status_code

    @pytest.mark.parametrize(
        "path",
        [
            *("/..%2f..%2fetc/passwd", "/assets/%2e%2e/index.html", "/%252e%252e/x", "//etc/passwd"),
            *("/assets/..\\server.token", "/.git/config", "/api/v1/runs%2f1", "/assets/%00"),
        ],
    )
    def test_odd_paths_are_refused(self, live, path):
        """A path that two parsers may read differently is refused before anything reads it."""
        connection = http.client.HTTPConnection(live.url.removeprefix("http://"))
        connection.putrequest("GET", path, skip_accept_encoding=True)
        connection.putheader("Authorization", f"Bearer {live.token}")
        connection.endheaders()
        assert connection.getresponse().status in {400, 404}
        connection.close()

    def test_no_file_but_the_page_is_served(self, guest, owner):
        """Files beside the page's own, and names in its folder that are none of it, are not there."""
        assert 401 == guest.get("/server.token").status_code
        assert 404 == owner.get("/server.token").status_code
        assert 200 == guest.get("/assets/app-1.js").status_code

    def test_other_sites_are_refused(self, live):
        """Requests that a browser sends for another site are refused, signed in or not."""
        bearer = {"authorization": f"Bearer {live.token}"}
        with live.client(**bearer) as client:
            body = {"text": "x"}
            path = f"{PREFIX}/redaction/test"
            assert 200 == client.post(path, json=body, headers={"origin": live.url}).status_code
            for headers in (
                {"origin": "http://evil.example"},
                {"origin": "null"},
                {"origin": live.url + ".evil.example"},
                {"sec-fetch-site": "cross-site"},
                {"sec-fetch-site": "same-site", "origin": live.url},
            ):
                assert 403 == client.post(path, json=body, headers=headers).status_code
            assert 403 == client.get(RUNS, headers={"sec-fetch-site": "cross-site"}).status_code

    def test_a_session_changes_nothing_without_an_origin(self, live):
        """With a cookie, a change needs the origin of the page."""
        _, cookie, secret = live.access.sign_in(live.token, "")
        headers = {"cookie": f"{COOKIE}={cookie}", "steadyhelm-secret": secret}
        with live.client(**headers) as client:
            path, body = f"{PREFIX}/redaction/test", {"text": "x"}
            assert 403 == client.post(path, json=body).status_code
            assert 200 == client.post(path, json=body, headers={"origin": live.url}).status_code

    @pytest.mark.parametrize(
        "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
    )
    def test_only_json_is_read(self, owner, kind):
        """What a form of another site can send is refused."""
        response = owner.post(
            f"{PREFIX}/redaction/test", content=b'{"text":"x"}', headers={"content-type": kind}
        )
        assert 400 == response.status_code

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            (b'{"text":"' + b"x" * 70_000 + b'"}', 413),
            (b"[" * 5000, 400),
            (b'{"text":' + b'{"a":' * 3000, 400),
            (b'{"text":"x","more":1}', 400),
            (b'{"text":1}', 400),
            (b'{"__proto__":{"admin":true},"text":"x"}', 400),
            (b"\xff\xfe", 400),
            (b'{"text":"\\ud800"}', 200),
        ],
    )
    def test_bodies_have_limits(self, owner, body, status):
        """Too large, too deep, unknown or broken: refused, and the server goes on."""
        headers = {"content-type": "application/json"}
        response = owner.post(f"{PREFIX}/redaction/test", content=body, headers=headers)
        assert response.status_code in ({200, 400} if status == 200 else {status})
        assert "Traceback" not in response.text

    @pytest.mark.parametrize("text", ["'; DROP TABLE runs; --", '" OR 1=1 --', "%", "_", "*", "\0", "😀"])
    def test_text_is_only_text(self, owner, text):
        """A query is a value, whatever it holds."""
        assert [] == owner.get(RUNS, params={"q": text}).json()["runs"]
        assert 200 == owner.get(f"{PREFIX}/search", params={"q": text}).status_code
        assert 404 == owner.get(f"{RUNS}/find", params={"run": text}).status_code

    def test_every_answer_has_the_headers(self, guest, owner):
        """Scripts, styles and frames are the server's own; nothing is cached that is somebody's."""
        for response in (guest.get("/"), guest.get(RUNS), owner.get(RUNS), owner.get("/nothing")):
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "require-trusted-types-for 'script'" in policy
            assert "nosniff" == response.headers["x-content-type-options"]
            assert "access-control-allow-origin" not in response.headers
        assert "no-store" == owner.get(RUNS).headers["cache-control"]

    def test_methods_that_nobody_needs_are_refused(self, owner):
        """TRACE, PUT and OPTIONS are not answered."""
        assert {400} == {owner.request(method, RUNS).status_code for method in ("TRACE", "PUT", "OPTIONS")}

    def test_a_marker_names_the_rule_and_never_the_match(self, owner):
        """The redaction tester shows no part of a secret."""
        secret = "ghp_" + "a1B2" * 9
        response = owner.post(f"{PREFIX}/redaction/test", json={"text": f"token={secret}"})
        assert secret not in response.text
        assert response.json()["rules"]


class TestAddress:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "helm.example.com"])
    def test_an_open_address_needs_tls(self, host):
        """Where others can reach it, it does not start without TLS or a proxy that has it."""
        with pytest.raises(SettingsError, match="tls-cert"):
            require_safe_address(host, has_tls=False, trusted_proxy="")
        require_safe_address(host, has_tls=True, trusted_proxy="")
        require_safe_address(host, has_tls=False, trusted_proxy="10.0.0.1")

    def test_only_the_proxy_gets_in(self, database, home):
        """With a trusted proxy, requests from elsewhere are refused."""
        with (
            run_server(database, home, **{"server.trusted_proxy": "10.0.0.1"}) as found,
            found.client(authorization=f"Bearer {found.token}") as client,
        ):
            assert 403 == client.get(RUNS).status_code
