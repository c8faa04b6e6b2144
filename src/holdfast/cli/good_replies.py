"""Good replies in a file, to learn a profile from: JSON Lines, or one text as a whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.errors import FormatError

_FIELDS: Final = ("text", "output", "content", "assistant_before", "reply")
_LINES: Final = frozenset({".jsonl", ".ndjson"})
_LARGEST: Final = 1 << 20


def replies_in(path: Path) -> Iterator[str]:
    """The replies in a file: a line each in `.jsonl`, else the whole file is one."""
    try:
        if path.suffix not in _LINES:
            with path.open("rb") as stream:
                yield stream.read(_LARGEST).decode("utf-8", "replace")
            return
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield _text_in(line, f"{path}, line {number}")
    except OSError as exc:
        raise FormatError(f"{path} cannot be read: {exc}.") from exc


def _text_in(line: bytes, where: str) -> str:
    try:
        entry: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise FormatError(f"{where} is not JSON: {exc}.") from exc
    if isinstance(entry, str):
        return entry
    if isinstance(entry, dict):
        for name in _FIELDS:
            if isinstance(entry.get(name), str):
                return str(entry[name])
    raise FormatError(f"{where} holds no reply; it must be a text, or have one of {', '.join(_FIELDS)}.")
