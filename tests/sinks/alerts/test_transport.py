import socket
import subprocess
import sys
import threading

import httpcore
import pytest
from receiver import Reply

from steadyhelm.errors import AddressRefusedError
from steadyhelm.sinks.alerts.address_guard import AddressGuard, parse_url
from steadyhelm.sinks.alerts.transport import RESPONSE_LIMIT_BYTES, GuardedTransport, build_tls_context, post

TLS = build_tls_context()


def sent(url, guard, *, timeout_s=5.0, body=b"{}"):
    """The answer to one post."""
    transport = GuardedTransport(guard, timeout_s=timeout_s, tls=TLS)
    return post(transport, parse_url(url), body, {"Content-Type": "application/json"})


@pytest.fixture
def listener():
    """A bare socket on loopback, for answers no web server would give."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


def served(listener, conversation):
    """Have one conversation with whoever connects, in a thread; the list fills with what it returned."""
    heard = []

    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(10)
            heard.append(conversation(connection))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread, heard


class TestPost:
    def test_an_allowed_host_is_reached(self, receiver):
        """
        A body posted to an allowed host arrives with its path and headers, and the answer comes back.
        """
        answer = sent(receiver.url, AddressGuard(["127.0.0.1"]))

        [request] = receiver.requests
        assert (200, b"ok") == (answer.status, answer.body)
        assert ("/T0/B0/s3cret", b"{}", f"127.0.0.1:{receiver.port}") == (
            request.path,
            request.body,
            request.headers["Host"],
        )

    def test_loopback_is_refused(self, receiver):
        """
        Without being allowed, loopback is refused before anything is sent.
        """
        with pytest.raises(AddressRefusedError, match="loopback"):
            sent(receiver.url, AddressGuard())
        assert [] == receiver.requests

    def test_a_proxy_in_the_environment_is_ignored(self, receiver, monkeypatch):
        """
        Proxies that the environment names are not used: they would connect where we must not.
        """
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")

        assert 200 == sent(receiver.url, AddressGuard(["127.0.0.1"])).status

    def test_a_redirect_is_not_followed(self, receiver):
        """
        An answer that points elsewhere is the answer; nobody goes there.
        """
        receiver.replies.append(Reply(302, {"Location": f"http://127.0.0.1:{receiver.port}/inside"}))
        answer = sent(receiver.url, AddressGuard(["127.0.0.1"]))

        assert (302, 1) == (answer.status, len(receiver.requests))

    def test_a_large_answer_is_cut(self, receiver):
        """
        No more than 64 KB of an answer are read.
        """
        receiver.replies.append(Reply(200, {}, b"x" * 5_000_000))

        assert RESPONSE_LIMIT_BYTES == len(sent(receiver.url, AddressGuard(["127.0.0.1"])).body)

    def test_a_compressed_answer_is_not_unpacked(self, receiver):
        """
        An answer that claims to be compressed is left as it is: it may be a bomb.
        """
        receiver.replies.append(Reply(200, {"Content-Encoding": "gzip"}, b"not gzip"))

        assert b"not gzip" == sent(receiver.url, AddressGuard(["127.0.0.1"])).body


class TestNames:
    def test_the_name_is_resolved_once_and_the_connection_pinned(self, receiver):
        """
        The name is asked for once per alert: a second, different answer is never seen.
        """
        answers = [["127.0.0.1"], ["127.0.0.2"]]
        guard = AddressGuard(["alerts.example"], resolve=lambda host, port: answers.pop(0))

        sent(f"http://alerts.example:{receiver.port}/hook", guard)

        assert ([["127.0.0.2"]], f"alerts.example:{receiver.port}") == (
            answers,
            receiver.requests[0].headers["Host"],
        )

    def test_a_name_that_turns_private_is_refused(self):
        """
        A name that was public when it was set and is loopback when it is used is refused then.
        """
        answers = [["8.8.8.8"], ["127.0.0.1"]]
        guard = AddressGuard(resolve=lambda host, port: answers.pop(0))
        assert ["8.8.8.8"] == guard.resolve("rebind.example", 443)

        with pytest.raises(AddressRefusedError, match=r"rebind\.example: 127\.0\.0\.1 is loopback"):
            sent("https://rebind.example/hook", guard)

    def test_the_one_who_answered_is_judged_again(self, listener):
        """
        Should the peer be another than the judged address, the connection is closed before a word is said.
        """

        class Forgetful(AddressGuard):
            """Lets every name through, so that only the second look is left."""

            def resolve(self, host, port):
                return ["127.0.0.1"]

        thread, heard = served(listener, lambda connection: connection.recv(1000))

        with pytest.raises(AddressRefusedError, match="loopback"):
            sent(f"https://slipped.example:{listener.getsockname()[1]}/hook", Forgetful())
        thread.join(60)
        assert [b""] == heard

    def test_the_next_address_is_tried(self, receiver):
        """
        When one judged address does not answer, the next one is used.
        """
        guard = AddressGuard(["alerts.example"], resolve=lambda host, port: ["127.0.0.77", "127.0.0.1"])

        assert 200 == sent(f"http://alerts.example:{receiver.port}/hook", guard).status

    def test_tls_is_spoken_to_the_name(self, listener):
        """
        The server is greeted with the name from the URL, although the connection goes to the address.
        """
        guard = AddressGuard(["alerts.example"], resolve=lambda host, port: ["127.0.0.1"])
        thread, heard = served(listener, lambda connection: connection.recv(5000))

        with pytest.raises(httpcore.ConnectError):
            sent(f"https://alerts.example:{listener.getsockname()[1]}/hook", guard)
        thread.join(60)
        assert b"alerts.example" in heard[0]

    @pytest.mark.parametrize("fault", [OSError("no such name"), UnicodeError("label too long")])
    def test_a_name_that_cannot_be_found_is_a_network_error(self, fault):
        """
        A failed look-up is an ordinary failure to connect.
        """

        def resolve(host, port):
            raise fault

        with pytest.raises(httpcore.ConnectError, match="could not be found"):
            sent("https://nowhere.example/hook", AddressGuard(resolve=resolve))


class TestDeadline:
    def test_a_server_that_hangs_is_left(self, listener):
        """
        A server that takes the request and says nothing costs the timeout and no more.
        """
        guard = AddressGuard(["127.0.0.1"])

        with pytest.raises(httpcore.TimeoutException):  # on a busy machine also before it was asked
            sent(f"http://127.0.0.1:{listener.getsockname()[1]}/hook", guard, timeout_s=0.5)

    def test_a_server_that_trickles_is_left(self, listener):
        """
        A server that sends a byte now and then does not win more time with each.
        """
        stop = threading.Event()

        def trickle(connection):
            connection.recv(5000)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not stop.wait(0.02):
                connection.sendall(b"x")

        thread, _ = served(listener, trickle)
        try:
            with pytest.raises(httpcore.TimeoutException):
                sent(
                    f"http://127.0.0.1:{listener.getsockname()[1]}/hook",
                    AddressGuard(["127.0.0.1"]),
                    timeout_s=0.5,
                )
        finally:
            stop.set()
            thread.join(60)

    def test_nothing_is_sent_after_a_look_up_that_took_too_long(self, receiver):
        """
        When finding the address has used up the time, the alert is not sent late.
        """
        waited = threading.Event()

        def resolve(host, port):
            waited.wait(0.05)
            return ["127.0.0.1"]

        guard = AddressGuard(["alerts.example"], resolve=resolve)
        with pytest.raises(httpcore.ConnectTimeout):
            sent(f"http://alerts.example:{receiver.port}/hook", guard, timeout_s=0.01)
        assert [] == receiver.requests


class TestImport:
    def test_the_worker_costs_no_web_client_until_it_sends(self):
        """
        Importing the worker does not import httpx or httpcore.
        """
        code = "import steadyhelm.sinks.alerts.worker, sys; print({'httpx', 'httpcore'} & set(sys.modules))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

        assert "set()" == done.stdout.strip()
