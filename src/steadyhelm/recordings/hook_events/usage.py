"""Count the tokens in a transcript, from where it was read before, while the agent still writes it."""

from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

_MAX_READ_BYTES: Final = 4 << 20
_USAGE_KEYS: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


class Usage(NamedTuple):
    """Tokens of replies, how far the transcript was read, and the last reply.

    `failure` is the error message in place of the last reply when the model failed.
    """

    tokens: int
    read_to: int
    reply: str = ""
    failure: str = ""


def count_tokens_since(
    path: str, start: int, *, counted: str = "", since: float = 0.0, of_part: bool = False
) -> Usage:
    """Return the tokens of replies written since `start`, and the position to continue at.

    A reply takes a line for each of its parts and repeats its usage on each: it counts once, and not at
    all when it is the one that was `counted` last. Replies from before `since` are of an earlier run.
    """
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            # A file that became shorter is another one.
            start = start if 0 <= start <= size else 0
            start = max(start, size - _MAX_READ_BYTES)
            file.seek(start)
            new = file.read(_MAX_READ_BYTES)
    except (OSError, ValueError):
        return Usage(0, start, counted)
    whole = new[: new.rfind(b"\n") + 1]
    replies: dict[str, int] = {}
    failure = ""
    for line in whole.splitlines():
        reply = _read_reply(line, since, of_part=of_part) if b'"usage"' in line else None
        if reply is None:
            continue
        failure = reply.failure
        if reply.tokens and (reply.name != counted or not reply.name):
            replies[reply.name] = max(reply.tokens, replies.get(reply.name, 0))
    return Usage(sum(replies.values()), start + len(whole), [counted, *replies][-1], failure)


class _ReplyUsage(NamedTuple):
    name: str
    tokens: int
    failure: str


def _read_reply(line: bytes, since: float, *, of_part: bool) -> _ReplyUsage | None:
    try:
        content = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    message: Any = content.get("message") if isinstance(content, dict) else None
    usage = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(usage, dict) or (content.get("isSidechain") is True and not of_part):
        return None
    if _parse_timestamp(content.get("timestamp"), since) < since:
        return None
    counts = [usage.get(name) for name in _USAGE_KEYS]
    tokens = sum(it for it in counts if isinstance(it, int) and not isinstance(it, bool) and it > 0)
    failure = _join_texts(message.get("content")) if content.get("isApiErrorMessage") is True else ""
    return _ReplyUsage(str(message.get("id", "")), tokens, failure)


def _join_texts(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = [it.get("text") if isinstance(it, dict) else it for it in parts]
    return "\n".join(it for it in texts if isinstance(it, str)) or "error"


def _parse_timestamp(stamp: Any, otherwise: float) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return otherwise
