"""Good replies in a file, to learn a profile from: JSON Lines, or one text as a whole."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import typer

from steadyhelm.errors import FormatError

_FIELDS: Final = ("text", "output", "content", "assistant_before", "reply")
_LINES: Final = frozenset({".jsonl", ".ndjson"})
_LARGEST: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"


def replies_in(path: Path) -> Iterator[str]:
    """The replies in a file: a line each in `.jsonl` and standard input (-), else the whole file is one."""
    try:
        if str(path) == "-":
            yield from _by_line(typer.get_binary_stream("stdin"), "standard input")
            return
        with path.open("rb") as stream:
            if path.suffix in _LINES:
                yield from _by_line(stream, str(path))
            else:
                yield stream.read(_LARGEST).decode("utf-8-sig", "replace")
    except OSError as exc:
        raise FormatError(f"{path} cannot be read: {exc}.") from exc


def _by_line(lines: Iterable[bytes], where: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        entry = line.removeprefix(_BOM) if number == 1 else line
        if entry.strip():
            yield _text_in(entry, f"{where}, line {number}")


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
