"""What stands in a message's content: words, thoughts, calls and results, in any of the usual spellings."""

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from msgspec import Struct

from steadyhelm.recordings.run_entries import _args
from steadyhelm.recordings.transcript import Transcript

_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "tool_call"})
_RESULTS: Final = frozenset({"tool_result", "tool_call_response"})
_ROLES: Final = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}

PassOver = Callable[[str], None]


class Part(Struct, frozen=True, kw_only=True):
    """One part of a message: `words` are what was said or came back, `name` the tool, or the unknown kind."""

    kind: Literal["text", "thought", "call", "result", "other"]
    words: Any = None
    name: Any = None
    args: Any = None
    call_id: str | None = None
    is_error: bool = False


def as_text(value: Any) -> str | None:
    """The value when it is a text with something in it."""
    return value if isinstance(value, str) and value else None


def as_object(value: Any) -> dict[str, Any]:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value when it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def opened(value: Any) -> Any:
    """Arguments as they are; an object that is written as a text of JSON is opened."""
    return _args(value)


def words_of(content: Any) -> Any:
    """A content as words: texts joined, a picture or the like by its kind in brackets; other values as is."""
    if not isinstance(content, list):
        text = as_object(content).get("text")
        return text if isinstance(text, str) else content
    said = []
    for raw in content:
        part = _part(raw)
        kind = as_text(as_object(raw).get("type"))
        if part.kind != "text" and kind is None:
            return content
        said.append(part.words if part.kind == "text" else f"[{kind}]")
    return "\n".join(said)


def parts(content: Any) -> Iterator[Part]:
    """The parts of a content, in order; texts that follow each other are one."""
    said: list[str] = []
    for raw in content if isinstance(content, list) else [content]:
        part = _part(raw)
        if part.kind == "text":
            said.append(part.words)
            continue
        if said:
            yield Part(kind="text", words="\n".join(said))
            said = []
        yield part
    if said:
        yield Part(kind="text", words="\n".join(said))


def _part(raw: Any) -> Part:
    if isinstance(raw, str):
        return Part(kind="text", words=raw)
    block = as_object(raw)
    kind = as_text(block.get("type")) or ("text" if "text" in block else "")
    call_id = as_text(block.get("tool_use_id")) or as_text(block.get("call_id")) or as_text(block.get("id"))
    if kind in _TEXTS:
        text = next((block[key] for key in ("text", "content", "refusal") if key in block), None)
        return Part(kind="text", words=text) if isinstance(text, str) else Part(kind="other", name=kind)
    if kind in _THOUGHTS:
        return Part(kind="thought")
    if kind in _CALLS:
        args = next((block[key] for key in ("input", "arguments", "args") if key in block), None)
        return Part(kind="call", name=block.get("name"), args=opened(args), call_id=call_id)
    # Tools that run at the model's side answer under names of their own.
    if kind in _RESULTS or kind.endswith("_tool_result"):
        words = next((block[key] for key in ("content", "response", "result") if key in block), None)
        is_error = block.get("is_error") is True
        return Part(kind="result", words=words_of(words), call_id=call_id, is_error=is_error)
    return Part(kind="other", name=kind)


def take_reply(run: Transcript, content: Any, t: float | None, pass_over: PassOver, **metadata: Any) -> None:
    """Hand what the model said to its run: thoughts are only noted, blank words left out."""
    for part in parts(content):
        if part.kind == "thought":
            run.flag(thinking=True)
        elif part.kind == "call":
            run.call(part.name, part.args, call_id=part.call_id, t=t, **metadata)
        elif part.kind == "result":
            run.result(part.call_id, part.words, t=t, error=part.is_error, **metadata)
        elif part.kind == "other":
            pass_over(part.name)
        elif part.words.strip():
            run.said(part.words, t, **metadata)


def take_results(run: Transcript, content: Any, t: float | None, **metadata: Any) -> list[str]:
    """Hand the results that stand in a user's message to its run; what is left are its texts."""
    texts = []
    for part in parts(content):
        if part.kind == "result":
            run.result(part.call_id, part.words, t=t, error=part.is_error, **metadata)
        elif part.kind == "text":
            texts.append(part.words)
        elif part.kind == "other" and part.name:
            texts.append(f"[{part.name}]")
    return texts


def role_of(message: Any) -> str | None:
    """Who speaks: user, assistant, tool or system; None for what is no message."""
    told = as_object(message)
    role = as_text(told.get("role"))
    if role is None and ("content" in told or "data" in told):
        role = as_text(told.get("type"))
    return _ROLES.get(role.lower()) if role is not None else None


def content_of(message: dict[str, Any]) -> Any:
    """What a message says, under either of its names."""
    content = message.get("content")
    return content if content is not None else message.get("parts", [])


def calls_in(message: dict[str, Any]) -> Iterator[Part]:
    """The calls of an assistant's message, those in its content and those beside it."""
    yield from (part for part in parts(content_of(message)) if part.kind == "call")
    yield from _calls_beside(message)


def _calls_beside(message: dict[str, Any]) -> Iterator[Part]:
    calls = as_list(message.get("tool_calls"))
    if isinstance(message.get("function_call"), dict):
        calls = [*calls, message["function_call"]]
    for raw in calls:
        call = as_object(as_object(raw).get("tool_call")) or as_object(raw)
        function = as_object(call.get("function")) or call
        args = next((function[key] for key in ("arguments", "args", "input") if key in function), None)
        yield Part(kind="call", name=function.get("name"), args=opened(args), call_id=as_text(call.get("id")))


def take_answer(run: Transcript, message: dict[str, Any], t: float | None, pass_over: PassOver) -> None:
    """Hand an assistant's message to its run: its words, and the calls that stand beside them."""
    if message.get("reasoning_content") or message.get("reasoning"):
        run.flag(thinking=True)
    take_reply(run, content_of(message), t, pass_over)
    for call in _calls_beside(message):
        run.call(call.name, call.args, call_id=call.call_id, t=t)


def take_tool_message(run: Transcript, message: dict[str, Any], t: float | None) -> None:
    """Hand what a tool answered to its run."""
    call_id, name = as_text(message.get("tool_call_id")), as_text(message.get("name"))
    content = content_of(message)
    if call_id is None and any(part.kind == "result" for part in parts(content)):
        take_results(run, content, t)
        return
    is_error = message.get("is_error") is True or message.get("status") == "error"
    run.result(call_id, words_of(content), t=t, error=is_error, name=name)
