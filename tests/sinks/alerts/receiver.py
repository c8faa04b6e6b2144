"""A web server on loopback that notes what it is sent and answers as it is told."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import NamedTuple


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict
    body: bytes

    @property
    def delivery_id(self):
        """The id the alert was sent under."""
        return self.headers["Steadyhelm-Delivery"]


class Reply(NamedTuple):
    """One answer: `before` is called when the request is in and nothing was answered yet."""

    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b"ok"
    before: Callable[[], None] | None = None


class Receiver:
    """Answers 200 unless `replies` says otherwise."""

    def __init__(self):
        self.requests = []
        self.replies = deque()
        self._arrived = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def port(self):
        """Where it listens."""
        return self._server.server_address[1]

    @property
    def url(self):
        """A webhook's URL, with a secret in it."""
        return f"http://127.0.0.1:{self.port}/T0/B0/s3cret"

    @property
    def ids(self):
        """The ids of everything received, in order."""
        return [request.delivery_id for request in self.requests]

    def wait_for(self, count, timeout=60.0):
        """Return once so many requests have come in."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, timeout)

    def close(self):
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _note(self, request):
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
            return self.replies.popleft() if self.replies else Reply()

    def _handler(receiver):  # noqa: N805 - the handler below has a self of its own
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                reply = receiver._note(Received(self.path, dict(self.headers), body))
                if reply.before is not None:
                    reply.before()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, *words):
                pass

            def handle(self):
                # The other side may hang up in the middle of an answer: some tests are about that.
                with contextlib.suppress(ConnectionError):
                    super().handle()

        return Handler
