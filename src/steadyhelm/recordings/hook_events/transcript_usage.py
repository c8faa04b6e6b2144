"""Count the tokens in a transcript, from where it was read before, while the agent still writes it."""

import contextlib
import os
import stat
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

_MAX_READ_BYTES: Final = 4 << 20
# A pipe or a device must not make the reader wait.
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_USAGE_KEYS: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


class ReplyUsage(NamedTuple):
    """What one line of a transcript says about a reply; `begins_at` is the line's position in the file."""

    begins_at: int
    name: str
    tokens: int
    failure: str
    written_at: float | None
    of_part: bool


class TranscriptPart(NamedTuple):
    """The replies in a part of a transcript, and where the part begins and ends; `size` is the file's."""

    start: int
    end: int
    size: int
    replies: tuple[ReplyUsage, ...] = ()


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

    See `count_tokens` for the rest.
    """
    part = read_transcript(path, start)
    return count_tokens(part, start, counted=counted, since=since, of_part=of_part)


def read_transcript(path: str, start: int) -> TranscriptPart | None:
    """Return the replies in the lines from `start` on, at most the last 4 MiB; None without a regular file.

    Does not wait for a pipe or a device.
    """
    with contextlib.suppress(OSError, ValueError):
        return _read_file(os.open(path, _OPEN_FLAGS), start)
    return None


def _read_file(file: int, start: int) -> TranscriptPart | None:
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return None
        size = status.st_size
        # A file that became shorter is another one.
        start = max(start if 0 <= start <= size else 0, size - _MAX_READ_BYTES)
        os.lseek(file, start, os.SEEK_SET)
        new = os.read(file, size - start)
    finally:
        os.close(file)
    whole = new[: new.rfind(b"\n") + 1]
    return TranscriptPart(start, start + len(whole), size, tuple(_read_replies(whole, start)))


def _read_replies(whole: bytes, start: int) -> list[ReplyUsage]:
    replies = []
    for line in whole.splitlines(keepends=True):
        reply = _read_reply(line, start) if b'"usage"' in line else None
        if reply is not None:
            replies.append(reply)
        start += len(line)
    return replies


def count_tokens(
    part: TranscriptPart | None,
    start: int,
    *,
    counted: str = "",
    since: float = 0.0,
    of_part: bool = False,
) -> Usage:
    """Return the tokens of the replies that begin at `start` or later, and the position to continue at.

    A reply takes a line for each of its parts and repeats its usage on each: it counts once, and not at
    all when it is the one that was `counted` last. Replies from before `since` are of an earlier run.
    Where the part begins after `start` because less was read, nothing is counted: read again from there.
    """
    if part is None:
        return Usage(0, start, counted)
    start = start if 0 <= start <= part.size else 0
    if part.start > max(start, part.size - _MAX_READ_BYTES):
        return Usage(0, start, counted)
    replies: dict[str, int] = {}
    failure = ""
    for reply in part.replies:
        is_earlier = reply.written_at is not None and reply.written_at < since
        if reply.begins_at < start or is_earlier or (reply.of_part and not of_part):
            continue
        failure = reply.failure
        if reply.tokens and (reply.name != counted or not reply.name):
            replies[reply.name] = max(reply.tokens, replies.get(reply.name, 0))
    return Usage(sum(replies.values()), max(start, part.end), [counted, *replies][-1], failure)


def _read_reply(line: bytes, begins_at: int) -> ReplyUsage | None:
    try:
        content = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    message: Any = content.get("message") if isinstance(content, dict) else None
    usage = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in _USAGE_KEYS]
    tokens = sum(it for it in counts if isinstance(it, int) and not isinstance(it, bool) and it > 0)
    failure = _join_texts(message.get("content")) if content.get("isApiErrorMessage") is True else ""
    return ReplyUsage(
        begins_at,
        str(message.get("id", "")),
        tokens,
        failure,
        _parse_timestamp(content.get("timestamp")),
        content.get("isSidechain") is True,
    )


def _join_texts(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = [it.get("text") if isinstance(it, dict) else it for it in parts]
    return "\n".join(it for it in texts if isinstance(it, str)) or "error"


def _parse_timestamp(stamp: Any) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
