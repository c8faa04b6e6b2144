"""A model on loopback that says what a script says: by chat completions, by responses or by messages.

The real client libraries ask it as they would ask the real ones. It keeps every request, and is as strict as
those are about what may follow what.
"""

import itertools
import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from fake_messages import message, pieces, words
from script import Turn

INNER = "You are inner."
"""The system prompt of the agent inside `delegate`."""
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
BROKEN = 403
"""The status of a model that breaks: one that the clients do not try again."""
SEARCH = "[search]"
"""Words by which a turn says that the model's side made a search before it spoke."""
NO_MODEL = {"type": "error", "error": {"type": "permission_error", "message": "no model"}}

_FOLLOWS = {"message", "function_call", "web_search_call"}

Body = dict[str, Any]


class BadRequest(Exception):  # noqa: N818 - what the endpoint answers with 400
    """The request breaks a rule of the protocol."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True


class FakeEndpoint:
    """Answers requests by script while it is entered.

    `bodies` are the requests as they came, `texts` what the model was given: one text for each request of the
    outer agent, all its messages joined by newlines.
    """

    def __init__(self, turns: Sequence[Turn] = (), inner: Sequence[Turn] = ()) -> None:
        self.bodies: list[Body] = []
        self.texts: list[str] = []
        self._scripts = {False: list(turns), True: list(inner)}
        self._numbers = itertools.count(1)
        self._held: dict[str, list[Any]] = {}
        self._promised: dict[str, list[Body]] = {}
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"endpoint": self}))
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

    def answer(self, path: str, body: Body) -> tuple[Body, Iterator[Body]]:
        """The reply to a request, whole and as it is streamed."""
        with self._lock:
            number = next(self._numbers)
            self.bodies.append(body)
            if path.endswith("/chat/completions"):
                given = body["messages"]
                check_chat(given)
            elif path.endswith("/responses"):
                given = self._held_before(_held_as(body)) + _items(body["input"])
                check_items(given)
            else:
                before = (body.get("thread") or {}).get("previous_message_id")
                given = self._held_before(before) + body["messages"]
                check_messages(given)
            turn = self._turn(body, given)
        if turn.breaks:
            raise PermissionError
        model = str(body["model"])
        if path.endswith("/chat/completions"):
            usage = (body.get("stream_options") or {}).get("include_usage", False)
            return completion(turn, number, model), chunks(turn, number, model, usage=usage)
        if path.endswith("/responses"):
            whole = response(turn, number, model)
            lasting = _held_as(body) if "conversation" in body else whole["id"]
            self._held[lasting] = [*given, *whole["output"]]
            if body.get("background"):
                return self._promise(whole), iter(())
            return whole, response_events(whole)
        whole = with_search(message(turn, number, model))
        self._held[whole["id"]] = [*given, {"role": "assistant", "content": whole["content"]}]
        return whole, pieces(whole)

    def fetch(self, response_id: str) -> Body:
        """A response that was promised: at first it is under way, then it is there."""
        coming = self._promised[response_id]
        return coming.pop(0) if len(coming) > 1 else coming[0]

    def _promise(self, whole: Body) -> Body:
        promise = {**whole, "status": "queued", "output": [], "usage": None}
        self._promised[whole["id"]] = [{**promise, "status": "in_progress"}, whole]
        return promise

    def _held_before(self, known: str | None) -> list[Any]:
        if known is None:
            return []
        if known not in self._held and not known.startswith("conv_"):
            raise BadRequest(f"there is no response {known}")
        return self._held.get(known, [])

    def _turn(self, body: Body, given: list[Any]) -> Turn:
        said = [words(body.get("system")), words(body.get("instructions")), *(_told(item) for item in given)]
        is_inner = any(INNER in text for text in said)
        if not is_inner:
            self.texts.append("\n".join(text for text in said if text))
        turns = self._scripts[is_inner]
        return turns.pop(0) if turns else Turn(says="done")


# --- chat completions ----------------------------------------------------------------------------------


def completion(turn: Turn, number: int, model: str) -> Body:
    """A turn as a chat completion."""
    said: Body = {"role": "assistant", "content": turn.says or None}
    if turn.calls:
        said["tool_calls"] = [_tool_call(ask.call_id, ask.tool, json.dumps(ask.args)) for ask in turn.calls]
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if turn.calls else "stop"}
    about = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": model}
    return {**about, "choices": [choice], "usage": USAGE}


def chunks(turn: Turn, number: int, model: str, *, usage: bool) -> Iterator[Body]:
    """The same as it is streamed: word by word, each call in three parts, what it cost last if asked for."""
    about = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0, "model": model}

    def chunk(delta: Body, finish: str | None = None) -> Body:
        return {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _by_word(turn.says):
        yield chunk({"content": piece})
    for place, ask in enumerate(turn.calls):
        args = json.dumps(ask.args)
        yield chunk({"tool_calls": [{"index": place, **_tool_call(ask.call_id, ask.tool, "")}]})
        for part in (args[:3], args[3:]):
            yield chunk({"tool_calls": [{"index": place, "function": {"arguments": part}}]})
    yield chunk({}, "tool_calls" if turn.calls else "stop")
    if usage:
        yield {**about, "choices": [], "usage": USAGE}


def _tool_call(call_id: str, name: str, arguments: str) -> Body:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def check_chat(messages: list[Body]) -> None:
    """Calls are answered by the messages right behind them, all of them and nothing else."""
    waiting: set[str] = set()
    for it in messages:
        if it["role"] == "tool":
            if it["tool_call_id"] not in waiting:
                raise BadRequest(f"nobody asked for {it['tool_call_id']}")
            waiting.discard(it["tool_call_id"])
        elif waiting:
            raise BadRequest(f"{it['role']} where results of {sorted(waiting)} should be")
        if it["role"] == "assistant":
            waiting = {call["id"] for call in it.get("tool_calls") or ()}
    if waiting or messages[-1]["role"] == "assistant":
        raise BadRequest("nothing to answer")


# --- responses -----------------------------------------------------------------------------------------


def response(turn: Turn, number: int, model: str) -> Body:
    """A turn as a response: a thought, words, calls."""
    output: list[Body] = [{"type": "reasoning", "id": f"rs_{number}", "summary": []}]
    if turn.says.startswith(SEARCH):
        action = {"type": "search", "query": "ledger"}
        output.append(
            {"type": "web_search_call", "id": f"ws_{number}", "status": "completed", "action": action}
        )
    if turn.says:
        text = {"type": "output_text", "text": turn.says, "annotations": []}
        said = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
        output.append({**said, "content": [text]})
    for ask in turn.calls:
        call = {"type": "function_call", "id": f"fc_{ask.call_id}", "call_id": ask.call_id}
        output.append({**call, "name": ask.tool, "arguments": json.dumps(ask.args), "status": "completed"})
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    about = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": model}
    about |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "completed"}
    return {**about, "output": output, "usage": usage}


def response_events(whole: Body) -> Iterator[Body]:
    """The same as it is streamed."""
    numbers = itertools.count()

    def event(kind: str, **fields: Any) -> Body:
        return {"type": f"response.{kind}", "sequence_number": next(numbers), **fields}

    yield event("created", response={**whole, "status": "in_progress", "output": [], "usage": None})
    for place, item in enumerate(whole["output"]):
        where = {"output_index": place, "item_id": item["id"]}
        if item["type"] == "message":
            yield event("output_item.added", output_index=place, item={**item, "content": []})
            (part,) = item["content"]
            where["content_index"] = 0
            yield event("content_part.added", **where, part={**part, "text": ""})
            for piece in _by_word(part["text"]):
                yield event("output_text.delta", **where, delta=piece, logprobs=[])
            yield event("output_text.done", **where, text=part["text"], logprobs=[])
            yield event("content_part.done", **where, part=part)
        elif item["type"] == "function_call":
            yield event("output_item.added", output_index=place, item={**item, "arguments": ""})
            for part in (item["arguments"][:3], item["arguments"][3:]):
                yield event("function_call_arguments.delta", **where, delta=part)
            told = {"name": item["name"], "arguments": item["arguments"]}
            yield event("function_call_arguments.done", **where, **told)
        else:
            yield event("output_item.added", output_index=place, item=item)
        yield event("output_item.done", output_index=place, item=item)
    yield event("completed", response=whole)


def check_items(items: list[Body]) -> None:
    """Every call has its output, every output its call before it, and a thought what followed it."""
    asked = [it["call_id"] for it in items if it.get("type") == "function_call"]
    came = [it["call_id"] for it in items if it.get("type") == "function_call_output"]
    if sorted(asked) != sorted(came):
        raise BadRequest(f"calls {asked}, outputs {came}")
    for it, after in itertools.pairwise([*items, {}]):
        if it.get("type") == "reasoning" and after.get("type") not in _FOLLOWS:
            raise BadRequest(f"nothing follows the thought {it['id']}")


def _held_as(body: Body) -> str | None:
    """What the model's side knows the conversation of a request by."""
    lasting = body.get("conversation")
    known = lasting["id"] if isinstance(lasting, dict) else lasting
    return known or body.get("previous_response_id")


def _items(given: Any) -> list[Any]:
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


# --- messages ------------------------------------------------------------------------------------------


def with_search(whole: Body) -> Body:
    """The same message after a search at the model's side, if it speaks of one."""
    if not any(str(block.get("text")).startswith(SEARCH) for block in whole["content"]):
        return whole
    asked = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "ledger"}}
    page = {"type": "web_search_result", "title": "Ledger", "url": "https://ledger.test"}
    page |= {"encrypted_content": "", "page_age": None}
    came = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [page]}
    return {**whole, "content": [asked, came, *whole["content"]]}


def check_messages(messages: list[Body]) -> None:
    """The two sides take turns, and calls are answered at the beginning of the message behind them."""
    waiting: set[str] = set()
    for place, it in enumerate(messages):
        if it["role"] != ("assistant" if place % 2 else "user"):
            raise BadRequest(f"message {place} is from {it['role']}")
        blocks = it["content"] if isinstance(it["content"], list) else []
        results = list(itertools.takewhile(lambda block: block["type"] == "tool_result", blocks))
        if {block["tool_use_id"] for block in results} != waiting:
            raise BadRequest(f"message {place} should begin with results of {sorted(waiting)}")
        if any(block["type"] == "tool_result" for block in blocks[len(results) :]):
            raise BadRequest(f"message {place} has results behind other things")
        waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
    if waiting:
        raise BadRequest("calls that nobody answered")


# --- the wire ------------------------------------------------------------------------------------------


def _by_word(text: str) -> list[str]:
    return re.findall(r"\s*\S+", text)


def _told(item: Body) -> str:
    if "output" in item:
        return str(item["output"])
    return words(item.get("content"))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    endpoint: FakeEndpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        path = self.path.partition("?")[0]
        try:
            whole, parts = self.endpoint.answer(path, body)
        except PermissionError:
            self._say(BROKEN, NO_MODEL)
        except (BadRequest, KeyError) as exc:
            error = {"type": "invalid_request_error", "message": str(exc)}
            self._say(400, {"type": "error", "error": error})
        else:
            self._stream(parts, path) if body.get("stream") else self._say(200, whole)

    def do_GET(self) -> None:
        self._say(200, self.endpoint.fetch(self.path.partition("?")[0].rpartition("/")[2]))

    def _say(self, status: int, content: Body) -> None:
        told = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def _stream(self, parts: Iterator[Body], path: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        with suppress(ConnectionError):  # whoever leaves a stream closes it
            for part in parts:
                named = f"event: {part['type']}\n" if "type" in part else ""
                self.wfile.write(f"{named}data: {json.dumps(part)}\n\n".encode())
                self.wfile.flush()
            if path.endswith("/chat/completions"):
                self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""
