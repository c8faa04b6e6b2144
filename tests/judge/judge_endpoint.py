"""A model server on the loopback, and small clients in the shape of OpenAI's and Anthropic's."""

import http.client
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

WAIT_S = 60.0
"""How long a test waits for something that must happen before it fails."""


def quote_from(text: str) -> str:
    """Return the first words of the run that a question shows."""
    return next(line for line in text.splitlines() if line.startswith("| ")).removeprefix("| ")


def answer(label: str, confidence: float = 0.95, **changes: Any) -> Callable[[str], str]:
    """Return a model that answers every question with a label, and a true quote."""

    def reply(text: str) -> str:
        return json.dumps({"label": label, "confidence": confidence, "quote": quote_from(text)} | changes)

    return reply


class Endpoint:
    """A server that plays a model. `reply` is the text of its answers; `status` another one than 200.

    While `hold` is set to an unset event, no request is answered. `asked` are the texts it got.
    """

    def __init__(self, reply: Callable[[str], str]) -> None:
        self.reply = reply
        self.status = 200
        self.usage = {"prompt_tokens": 700, "completion_tokens": 40}
        self.hold: threading.Event | None = None
        self.entered = threading.Event()
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.answer(self, body)

            def log_message(self, *_args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.port = self._server.server_address[1]

    def answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        text = body["messages"][-1]["content"]
        self.asked.append(text)
        self.bodies.append(body)
        self.entered.set()
        if self.hold is not None:
            self.hold.wait(WAIT_S)
        is_message = handler.path.endswith("/messages")
        content = self._build_message(text) if is_message else self._build_completion(text)
        encoded = json.dumps(content if self.status == 200 else {"error": "no"}).encode()
        try:
            handler.send_response(self.status)
            handler.send_header("Content-Length", str(len(encoded)))
            handler.end_headers()
            handler.wfile.write(encoded)
        except OSError:
            pass  # the client has given up

    def _build_completion(self, text: str) -> dict[str, Any]:
        return {"choices": [{"message": {"content": self.reply(text)}}], "usage": self.usage}

    def _build_message(self, text: str) -> dict[str, Any]:
        usage = {"input_tokens": 700, "output_tokens": 40}
        return {"content": [{"type": "tool_use", "input": json.loads(self.reply(text))}], "usage": usage}

    def close(self) -> None:
        if self.hold is not None:
            self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(WAIT_S)


class StatusError(Exception):
    """What a client raises for a status that is none of success."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


class Client:
    """A client with `chat.completions.create` and `messages.create`, over plain HTTP."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._complete))
        self.messages = SimpleNamespace(create=self._message)

    def _complete(self, **body: Any) -> Any:
        return self._post("/v1/chat/completions", body)

    def _message(self, **body: Any) -> Any:
        return self._post("/v1/messages", body)

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=WAIT_S)
        try:
            connection.request("POST", path, json.dumps(body))
            reply = connection.getresponse()
            content = reply.read()
        finally:
            connection.close()
        if reply.status != 200:
            raise StatusError(reply.status)
        return json.loads(content, object_hook=_make_object)


def _make_object(fields: dict[str, Any]) -> Any:
    """Return an object of the SDK: its fields are attributes; the input of a tool stays a dict."""
    return fields if "label" in fields else SimpleNamespace(**fields)
