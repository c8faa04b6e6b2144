"""Read what Agent Framework keeps of messages, replies and results; nothing of the framework is imported."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from steadyhelm.adapter import ModelReply

_CALL, _RESULT = "_tool_call", "_tool_result"


class Wanted(NamedTuple):
    """A call that the model asked for."""

    name: str
    args: Any


class Hosted(NamedTuple):
    """A call that the model's provider made by itself."""

    call_id: str
    name: str
    args: Any
    result: Any


def contents_of(messages: Iterable[Any]) -> Iterator[Any]:
    """Every piece of every message."""
    for message in messages:
        yield from message.contents


def goal_of(messages: Iterable[Any]) -> str:
    """What the user says with the last message of theirs that has words."""
    said = [message.text for message in messages if message.role == "user" and message.text]
    return str(said[-1]) if said else ""


def reply_of(response: Any) -> ModelReply:
    """What the model answered, and the tokens that took."""
    usage = response.usage_details or {}
    return ModelReply(
        text=response.text or "",
        model=str(response.model or ""),
        input_tokens=usage.get("input_token_count") or 0,
        output_tokens=usage.get("output_token_count") or 0,
    )


def wanted_by(response: Any) -> dict[str, Wanted]:
    """The calls a reply asks for, by their ids."""
    calls = [it for it in contents_of(response.messages) if it.type == "function_call"]
    return {
        it.call_id: Wanted(it.name or "", args_of(it.parse_arguments()))
        for it in calls
        if it.call_id and not it.informational_only
    }


def hosted_in(response: Any) -> Iterator[Hosted]:
    """The calls that the provider made while it answered: a search, a sandbox, a remote server."""
    pieces = list(contents_of(response.messages))
    results = {it.call_id: it for it in pieces if it.type.endswith(_RESULT) and it.call_id}
    for piece in pieces:
        if piece.type.endswith(_CALL) and piece.call_id:
            name = piece.tool_name or piece.type.removesuffix(_CALL)
            args = piece.arguments if piece.arguments is not None else piece.inputs
            result = results.get(piece.call_id)
            yield Hosted(piece.call_id, name, _plain(args), _outcome(result))


def call_id_of(piece: Any) -> str:
    """The id of the call that a piece is, answers or asks about."""
    call = getattr(piece, "function_call", None)
    return str(getattr(call, "call_id", None) or getattr(piece, "call_id", None) or "")


def args_of(arguments: Any) -> Any:
    """A call's arguments by name."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    dump = getattr(arguments, "model_dump", None)
    return dump() if dump is not None else arguments


def value_of(result: Any) -> Any:
    """What a tool gave: its text, where it is nothing but text."""
    if not isinstance(result, list) or not all(hasattr(it, "type") for it in result):
        return result
    if all(it.type == "text" for it in result):
        return "\n".join(it.text or "" for it in result)
    return [_plain(it) for it in result]


def _outcome(piece: Any) -> Any:
    if piece is None:
        return None
    for value in (piece.output, piece.outputs, piece.result, piece.items):
        if value is not None:
            return value_of(value) if isinstance(value, list) else _plain(value)
    return None


def _plain(piece: Any) -> Any:
    if isinstance(piece, list | tuple):
        return [_plain(it) for it in piece]
    if not hasattr(piece, "type"):
        return piece
    return piece.text if piece.type == "text" else {"type": piece.type, "uri": str(piece.uri or "")[:80]}
