"""A model on loopback that speaks Anthropic's messages protocol and says what a script says.

Claude Code asks it as it would ask the real one; every request is kept, and nothing leaves the machine.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from script import Turn

MAIN = ""
"""The agent whose system prompt holds none of the other agents' words."""
INPUT_TOKENS = 10
OUTPUT_TOKENS = 5
BROKEN = 403
"""The status of a model that breaks: one that Claude Code does not try again."""
NO_MODEL = {"type": "error", "error": {"type": "permission_error", "message": "no model"}}


class FakeMessages:
    """Answers requests by script while it is entered.

    Args:
        scripts: The turns of each agent, by words that stand in its system prompt and in nobody else's;
            turns without words are those of `MAIN`. When they are used up the model says "done".
    """

    def __init__(self, scripts: Mapping[str, Sequence[Turn]] | Sequence[Turn] = ()) -> None:
        given = scripts if isinstance(scripts, Mapping) else {MAIN: scripts}
        self.requests: dict[str, list[dict[str, Any]]] = {who: [] for who in {MAIN, *given}}
        self._scripts = {who: list(turns) for who, turns in given.items()}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
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

    def texts(self, who: str = MAIN) -> list[str]:
        """What an agent's model was given, one text for each request, its messages joined by newlines."""
        return ["\n".join(words(it["content"]) for it in body["messages"]) for body in self.requests[who]]

    def last_words(self, who: str = MAIN) -> str:
        """What the last request told that the one before did not."""
        *_, before, last = ["", *self.texts(who)]
        return last.removeprefix(before)

    def turn_for(self, body: dict[str, Any]) -> Turn:
        """What to answer to this request, which is kept."""
        system = words(body.get("system"))
        with self._lock:
            who = next((name for name in self._scripts if name and name in system), MAIN)
            asked = self.requests[who]
            asked.append(body)
            turns = self._scripts.get(who, [])
            return turns[len(asked) - 1] if len(asked) <= len(turns) else Turn(says="done")


def words(content: Any) -> str:
    """All that a message says: its text, its calls and the results in it."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(words(part) for part in content)
    if not isinstance(content, dict):
        return ""
    if content.get("type") == "tool_use":
        return f"{content['name']}({json.dumps(content['input'])})"
    return words(content.get("text") or content.get("content"))


def message(turn: Turn, number: int, model: str) -> dict[str, Any]:
    """A turn as a message of the protocol."""
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.says}] if turn.says else []
    content += [
        {"type": "tool_use", "id": call.call_id, "name": call.tool, "input": call.args} for call in turn.calls
    ]
    return {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
    }


def pieces(whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message as it is streamed: each part in several pieces, what it cost only at its end."""
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": 1}
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None, "usage": usage}}
    for index, part in enumerate(whole["content"]):
        is_text = part["type"] == "text"
        empty = {**part, "text": ""} if is_text else {**part, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        told = part["text"] if is_text else json.dumps(part["input"])
        half = len(told) // 2
        for piece in (told[:half], told[half:]):
            delta = {"type": "text_delta", "text": piece} if is_text else _json_delta(piece)
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": whole["usage"]}
    yield {"type": "message_stop"}


def _json_delta(piece: str) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": piece}


def _handler(model: FakeMessages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
            if not self.path.partition("?")[0].endswith("/v1/messages"):
                self._say(404, NO_MODEL)
                return
            turn = model.turn_for(body)
            if turn.breaks:
                self._say(BROKEN, NO_MODEL)
                return
            number = sum(len(asked) for asked in model.requests.values())
            whole = message(turn, number, body["model"])
            if body.get("stream"):
                self._stream(whole)
            else:
                self._say(200, whole)

        def _say(self, status: int, content: Mapping[str, Any]) -> None:
            told = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def _stream(self, whole: Mapping[str, Any]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for piece in pieces(whole):
                self.wfile.write(f"event: {piece['type']}\ndata: {json.dumps(piece)}\n\n".encode())
                self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
