"""A model on loopback that speaks Gemini's protocol and says what a script says.

Gemini CLI asks it as it would ask the real one; every request is kept, and nothing leaves the machine.
"""

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from script import Turn

TOKENS = 15


class FakeGemini:
    """Answers requests by script while it is entered; when its turns are used up the model says "done"."""

    def __init__(self, turns: Sequence[Turn] = ()) -> None:
        self.requests: list[dict[str, Any]] = []
        self.others: list[str] = []
        """The paths of requests that are not for the model."""
        self._turns = list(turns)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def texts(self) -> list[str]:
        """What the model was given, one text for each request."""
        return [json.dumps(body["contents"]) for body in self.requests]

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """What to answer to this request, which is kept."""
        with self._lock:
            self.requests.append(body)
            number = len(self.requests)
            turn = self._turns.pop(0) if self._turns else Turn(says="done")
        parts: list[dict[str, Any]] = [{"text": turn.says}] if turn.says else []
        parts += [{"functionCall": {"name": ask.tool, "args": ask.args}} for ask in turn.calls]
        said = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": TOKENS - 5, "candidatesTokenCount": 5, "totalTokenCount": TOKENS}
        return {"candidates": [said], "usageMetadata": usage, "responseId": f"response-{number}"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model: FakeGemini

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        if ":streamGenerateContent" not in self.path:
            self.model.others.append(self.path)
            self._say(404, "application/json", b"{}")
            return
        told = f"data: {json.dumps(self.model.reply(body))}\n\n"
        self._say(200, "text/event-stream", told.encode())

    def _say(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
