"""Translate messages, replies, tool results and start events of LlamaIndex, by their fields alone."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steadyhelm.adapter import ModelReply, ToolResult
from steadyhelm.engine.coercion import to_count
from steadyhelm.host_objects import MISSING, is_a, read_field

_GOAL_NAMES: Final = ("user_msg", "input", "query", "message", "question", "task", "topic")
_INPUT_TOKENS: Final = ("prompt_tokens", "input_tokens", "prompt_token_count")
_OUTPUT_TOKENS: Final = ("completion_tokens", "output_tokens", "candidates_token_count")


def read_goal(start_event: Any, options: Mapping[str, Any]) -> str:
    """Return what a workflow is started with: the user's message, or the one text among its inputs."""
    data = _read_private(start_event, "_data")
    fields = {**options, **(data if is_a(data, dict) else {})}
    for name in _GOAL_NAMES:
        given = fields.get(name, read_field(start_event, name))
        if text := (given if is_a(given, str) else read_text(given)):
            return text
    history = fields.get("chat_history")
    said = [it for it in history if read_role(it) == "user"] if is_a(history, list) else []
    if said:
        return read_text(said[-1])
    texts = [value for value in fields.values() if is_a(value, str)]
    return texts[0] if len(texts) == 1 else ""


def read_role(message: Any) -> str:
    """Return the role of a message."""
    role = read_field(message, "role")
    # A role is a text and an enum: its own `str()` would name the class.
    return str.__str__(role) if is_a(role, str) else ""


def read_text(message: Any) -> str:
    """Return the text of a message or of a tool's output, without what is not text."""
    blocks = read_field(message, "blocks")
    texts = [read_field(block, "text") for block in blocks] if is_a(blocks, list) else []
    return "\n".join(text for text in texts if is_a(text, str))


def read_reply(model: Any, response: Any) -> ModelReply:
    """Return the reply of a model, with the token counts its provider gave."""
    text = read_field(response, "text")
    tokens = next(_find_usages(response), (0, 0))
    return ModelReply(
        text=text if is_a(text, str) else read_text(read_field(response, "message")),
        model=read_model_name(model),
        input_tokens=tokens[0],
        output_tokens=tokens[1],
    )


def read_model_name(model: Any) -> str:
    """Return the name of a model, which most classes of models keep as `model`."""
    names = [read_field(model, name) for name in ("model", "model_name")]
    return next((name for name in names if is_a(name, str)), "")


def read_tool_result(output: Any) -> ToolResult:
    """Return the value of a tool's output, or its error in the tool's own words."""
    text = read_text(output)
    if read_field(output, "is_error") is True:
        error = _read_private(output, "_exception")
        return ToolResult(error=error if is_a(error, BaseException) else text or "failed")
    raw = read_field(output, "raw_output")
    return ToolResult(value=text if text or raw is MISSING else raw)


def _find_usages(response: Any) -> Iterator[tuple[int, int]]:
    """Yield the token counts in a reply: LlamaIndex has no place of its own for them."""
    extra, raw = read_field(response, "additional_kwargs"), read_field(response, "raw")
    message = read_field(read_field(response, "message"), "additional_kwargs")
    for holder in (extra, message, raw):
        if holder is MISSING or holder is None:
            continue
        for usage in (holder, _get(holder, "usage"), _get(holder, "usage_metadata")):
            if usage is None:
                continue
            tokens = _find_count(usage, _INPUT_TOKENS), _find_count(usage, _OUTPUT_TOKENS)
            if any(tokens):
                yield tokens


def _find_count(usage: Any, names: tuple[str, ...]) -> int:
    for name in names:
        found = _get(usage, name)
        if found is not None and (count := to_count(found)):
            return count
    return 0


def _get(holder: Any, name: str) -> Any:
    found = dict.get(holder, name) if is_a(holder, dict) else read_field(holder, name)
    return None if found is MISSING else found


def _read_private(value: Any, name: str) -> Any:
    private = read_field(value, "__pydantic_private__")
    return private.get(name) if is_a(private, dict) else None
