"""Chat completions, as OpenAI and many others offer them."""

from typing import Any

from steadyhelm.adapters.clients.dialect import Answer, Held
from steadyhelm.adapters.clients.items import count, field, listed, many, plain, steps_of, word
from steadyhelm.recordings.content import as_object, join_text


class ChatDialect:
    """Chat completions: messages with roles, calls beside their words, one message for each result."""

    field = "messages"
    can_hold = False

    def items(self, given: Any) -> list[Any]:
        """The messages of a request."""
        return listed(given)

    def held_by(self, arguments: dict[str, Any]) -> Held:  # noqa: ARG002
        """Nothing: every request has all of its conversation."""
        return Held()

    def read(self, result: Any) -> Answer | None:
        """A completion."""
        choices = field(result, "choices")
        if not isinstance(choices, list) or field(result, "object") == "chat.completion.chunk":
            return None
        message = field(choices[0], "message") if choices else None
        return _completion(result, message, field(result, "usage"))

    def gathering(self, arguments: dict[str, Any]) -> "_Chunks":
        """What takes in the chunks of a completion."""
        return _Chunks(as_object(arguments.get("stream_options")).get("include_usage") is True)

    def place(self, items: list[Any], words: str) -> None:
        """With the user's last words where they spoke last, so that the sides still take turns."""
        last = as_object(plain(items[-1])) if items else {}
        if last.get("role") != "user":
            items.append({"role": "user", "content": words})
            return
        content = last.get("content")
        if isinstance(content, list):
            items[-1] = {**last, "content": [*content, {"type": "text", "text": words}]}
        else:
            items[-1] = {**last, "content": f"{content}\n\n{words}"}


class _Chunks:
    """A completion that comes in chunks."""

    def __init__(self, has_usage: bool) -> None:
        self._has_usage = has_usage
        self._about: Any = None
        self._usage: Any = None
        self._said: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._has_ended = False

    def take(self, chunk: Any) -> bool:
        """The first choice counts: it is the one that goes on."""
        self._about = chunk if self._about is None else self._about
        self._usage = field(chunk, "usage") or self._usage
        for choice in many(chunk, "choices"):
            if field(choice, "index"):
                continue
            self._delta(field(choice, "delta"))
            self._has_ended = self._has_ended or field(choice, "finish_reason") is not None
        return self._has_ended and (self._usage is not None or not self._has_usage)

    def answer(self, *, is_over: bool) -> Answer:
        """The completion as far as it has come."""
        calls = [{**call, "function": _joined(call["function"])} for call in self._calls.values()]
        message = {"role": "assistant", "content": "".join(self._said), "tool_calls": calls}
        answer = _completion(self._about, message, self._usage)
        if is_over or self._has_ended:
            return answer
        return Answer(text=answer.text, model=answer.model, items=answer.items, is_final=False)

    def _delta(self, delta: Any) -> None:
        self._said += [word(delta, "content"), word(delta, "refusal")]
        for call in many(delta, "tool_calls"):
            place = field(call, "index")
            known = self._calls.setdefault(
                place if isinstance(place, int) else len(self._calls),
                {"id": None, "function": {"name": [], "arguments": []}},
            )
            known["id"] = known["id"] or field(call, "id")
            asked = field(call, "function") or field(call, "custom")
            known["function"]["name"].append(word(asked, "name"))
            known["function"]["arguments"].append(word(asked, "arguments") or word(asked, "input"))


def _completion(about: Any, message: Any, usage: Any) -> Answer:
    told = plain(message)
    text = join_text(field(told, "content")) or field(message, "refusal")
    return Answer(
        text=text if isinstance(text, str) else "",
        model=word(about, "model"),
        input_tokens=count(usage, "prompt_tokens"),
        output_tokens=count(usage, "completion_tokens"),
        parts=steps_of({**as_object(told), "role": "assistant"}),
        items=[message],
    )


def _joined(parts: dict[str, list[str]]) -> dict[str, str]:
    return {name: "".join(pieces) for name, pieces in parts.items()}
