"""The tokens a transcript names, read on from where we were, while the agent goes on writing it."""

from pathlib import Path
from typing import Any, Final

import msgspec

_MOST_READ: Final = 4 << 20
_COUNTS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def tokens_since(path: str, start: int) -> tuple[int, int]:
    """Tokens of the replies written since `start`, and where to go on; a half-written line waits.

    A reply takes a line for each of its parts and repeats its usage on each: it counts once.
    """
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            # A file that became shorter is another one.
            start = start if 0 <= start <= size else 0
            start = max(start, size - _MOST_READ)
            file.seek(start)
            new = file.read(_MOST_READ)
    except (OSError, ValueError):
        return 0, start
    whole = new[: new.rfind(b"\n") + 1]
    replies: dict[str, int] = {}
    for line in whole.splitlines():
        if b'"usage"' in line:
            reply, tokens = _usage(line)
            replies[reply] = max(tokens, replies.get(reply, 0))
    return sum(replies.values()), start + len(whole)


def _usage(line: bytes) -> tuple[str, int]:
    try:
        content = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return "", 0
    message: Any = content.get("message") if isinstance(content, dict) else None
    usage = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(usage, dict) or content.get("isSidechain") is True:
        return "", 0
    counts = [usage.get(name) for name in _COUNTS]
    tokens = sum(it for it in counts if isinstance(it, int) and not isinstance(it, bool) and it > 0)
    return str(message.get("id", "")), tokens
