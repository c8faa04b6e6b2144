"""Read tokens and exit codes from a transcript, from where it was read before, while it is written.

Transcripts of Claude Code, Codex and Gemini CLI are read; each line is one JSON document.
"""

import contextlib
import os
import stat
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

_MAX_READ_BYTES: Final = 4 << 20
# A pipe or a device must not make the reader wait.
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_CLAUDE_USAGE_KEYS: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)
_MARKS: Final = (b'"usage"', b'"token_count"', b'"tokens"', b'"exit_code"')
"""A line without any of these says nothing about tokens or exit codes."""


class ReplyUsage(NamedTuple):
    """What one line of a transcript says about a reply; `begins_at` is the line's position in the file."""

    begins_at: int
    name: str
    tokens: int
    failure: str
    written_at: float | None
    of_part: bool


class CommandExit(NamedTuple):
    """The exit code of a command, with the id of its call."""

    call_id: str
    code: int


class TranscriptPart(NamedTuple):
    """What a part of a transcript says, and where the part begins and ends; `size` is the file's."""

    start: int
    end: int
    size: int
    replies: tuple[ReplyUsage, ...] = ()
    exits: tuple[CommandExit, ...] = ()


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
    """Return what the lines from `start` on say, at most the last 4 MiB; None without a regular file.

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
    replies, exits = _read_lines(whole, start)
    return TranscriptPart(start, start + len(whole), size, tuple(replies), tuple(exits))


def _read_lines(whole: bytes, start: int) -> tuple[list[ReplyUsage], list[CommandExit]]:
    replies, exits = [], []
    for line in whole.splitlines(keepends=True):
        if any(mark in line for mark in _MARKS):
            content = _decode_object(line)
            reply, ended = _read_reply(content, start), _read_exit(content)
            replies += [reply] if reply is not None else []
            exits += [ended] if ended is not None else []
        start += len(line)
    return replies, exits


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


def _decode_object(line: bytes) -> dict[str, Any]:
    try:
        content = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}
    return content if isinstance(content, dict) else {}


def _get_object(content: Any, *keys: str) -> dict[str, Any]:
    """Return the object under these keys, one inside the other; empty when there is none."""
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}


def _read_claude_reply(
    content: dict[str, Any], usage: dict[str, Any], begins_at: int, written_at: float | None
) -> ReplyUsage:
    message = content["message"]
    failure = _join_texts(message.get("content")) if content.get("isApiErrorMessage") is True else ""
    tokens = sum(_count(usage, key) for key in _CLAUDE_USAGE_KEYS)
    of_part = content.get("isSidechain") is True
    return ReplyUsage(begins_at, str(message.get("id", "")), tokens, failure, written_at, of_part)


def _read_reply(content: dict[str, Any], begins_at: int) -> ReplyUsage | None:
    written_at = _parse_timestamp(content.get("timestamp"))
    usage = _get_object(content, "message", "usage")
    if usage:
        return _read_claude_reply(content, usage, begins_at, written_at)
    info = _get_object(content, "payload", "info")
    if info and content["payload"].get("type") == "token_count":
        # Codex repeats a line: the tokens spent so far tell replies apart.
        name = f"total:{_count(_get_object(info, 'total_token_usage'), 'total_tokens')}"
        tokens = _count(_get_object(info, "last_token_usage"), "total_tokens")
        return ReplyUsage(begins_at, name, tokens, "", written_at, False)
    if content.get("type") == "gemini" and isinstance(content.get("tokens"), dict):
        tokens = _count(content["tokens"], "total")
        return ReplyUsage(begins_at, str(content.get("id", "")), tokens, "", written_at, False)
    return None


def _read_exit(content: dict[str, Any]) -> CommandExit | None:
    """Return the exit code in a line of Codex, which reports it to hooks nowhere else."""
    payload = _get_object(content, "payload")
    ended = _get_object(payload, "item") or payload
    call_id, code = ended.get("id") or ended.get("call_id"), ended.get("exit_code")
    if isinstance(call_id, str) and call_id and isinstance(code, int) and not isinstance(code, bool):
        return CommandExit(call_id, code)
    return None


def _count(usage: Mapping[str, Any], key: str) -> int:
    value = usage.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _join_texts(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = [it.get("text") if isinstance(it, dict) else it for it in parts]
    return "\n".join(it for it in texts if isinstance(it, str)) or "error"


def _parse_timestamp(stamp: Any) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
