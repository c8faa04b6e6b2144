"""Translate Agent Framework messages, replies and results. Does not import the framework."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from steadyhelm.adapter import ModelReply
from steadyhelm.host_objects import has_methods, is_a

_CALL_SUFFIX, _RESULT_SUFFIX = "_tool_call", "_tool_result"


class RequestedCall(NamedTuple):
    """A call that the model requested."""

    name: str
    args: Any


class HostedCall(NamedTuple):
    """A call that the model's provider made itself."""

    call_id: str
    name: str
    args: Any
    result: Any


def iter_contents(messages: Iterable[Any]) -> Iterator[Any]:
    """Yield every content item of every message."""
    for message in messages:
        yield from message.contents


def read_goal(messages: Iterable[Any]) -> str:
    """Return the text of the user's last message that has one."""
    texts = [message.text for message in messages if message.role == "user" and message.text]
    return str(texts[-1]) if texts else ""


def read_reply(response: Any) -> ModelReply:
    """Return the reply of a model call, with its token counts."""
    usage = response.usage_details or {}
    return ModelReply(
        text=response.text or "",
        model=str(response.model or ""),
        input_tokens=usage.get("input_token_count") or 0,
        output_tokens=usage.get("output_token_count") or 0,
    )


def find_requested_calls(response: Any) -> dict[str, RequestedCall]:
    """Return the calls a reply requests, by id."""
    calls = [it for it in iter_contents(response.messages) if it.type == "function_call"]
    return {
        it.call_id: RequestedCall(it.name or "", read_args(it.parse_arguments()))
        for it in calls
        if it.call_id and not it.informational_only
    }


def find_hosted_calls(response: Any) -> Iterator[HostedCall]:
    """Yield the calls that the provider made while it replied: a search, a sandbox, a remote server."""
    pieces = list(iter_contents(response.messages))
    results = {it.call_id: it for it in pieces if it.type.endswith(_RESULT_SUFFIX) and it.call_id}
    for piece in pieces:
        if piece.type.endswith(_CALL_SUFFIX) and piece.call_id:
            name = piece.tool_name or piece.type.removesuffix(_CALL_SUFFIX)
            args = piece.arguments if piece.arguments is not None else piece.inputs
            result = results.get(piece.call_id)
            yield HostedCall(piece.call_id, name, _simplify(args), _read_hosted_result(result))


def read_call_id(piece: Any) -> str:
    """Return the id of the call that a content item is, answers or asks about."""
    call = getattr(piece, "function_call", None)
    return str(getattr(call, "call_id", None) or getattr(piece, "call_id", None) or "")


def read_args(arguments: Any) -> Any:
    """Return the arguments of a call, by name."""
    if is_a(arguments, Mapping):
        return dict(arguments)
    return arguments.model_dump() if has_methods(arguments, "model_dump") else arguments


def read_result(result: Any) -> Any:
    """Return the value of a tool result: its text where it holds nothing else."""
    if not is_a(result, list) or not all(hasattr(it, "type") for it in result):
        return result
    if all(it.type == "text" and is_a(it.text, (str, type(None))) for it in result):
        return "\n".join(it.text or "" for it in result)
    return [_simplify(it) for it in result]


def _read_hosted_result(piece: Any) -> Any:
    if piece is None:
        return None
    for value in (piece.output, piece.outputs, piece.result, piece.items):
        if value is not None:
            return read_result(value) if is_a(value, list) else _simplify(value)
    return None


def _simplify(piece: Any) -> Any:
    if is_a(piece, (list, tuple)):
        return [_simplify(it) for it in piece]
    if not hasattr(piece, "type"):
        return piece
    return piece.text if piece.type == "text" else {"type": piece.type, "uri": str(piece.uri or "")[:80]}
