"""Turn the public layouts of labelled agent runs into run files, labels kept.

An importer gets the JSON documents of one file after the other and yields runs as a run file
holds them. What it cannot make sense of is an error with the file's name, never a silent gap.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from steadyhelm.errors import FormatError, SettingsError


class Document(NamedTuple):
    """What one JSON file holds."""

    file: Path
    value: Any


Importer = Callable[[list[Document]], Iterator[dict[str, Any]]]


class Entries:
    """The entries of a run in the making."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    def add(self, kind: str, **keys: Any) -> int:
        """Add an entry without what is not known, and say its index."""
        known = {key: value for key, value in keys.items() if value is not None}
        self.all.append({"type": kind, **known})
        return len(self.all) - 1


def documents(paths: Iterable[Path]) -> list[Document]:
    """Every JSON file that the paths stand for, sorted within a folder."""
    found = []
    for path in paths:
        if not path.exists():
            raise SettingsError(f"There is no file or folder {str(path)!r}.")
        files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        found += [Document(file, _json(file)) for file in files]
    if not found:
        raise FormatError("No JSON file was found there.")
    return found


def write_runs(runs: Iterable[dict[str, Any]], target: Path) -> int:
    """Write a run file, gzip when its name ends in .gz, and say how many runs it holds."""
    # All of them before the first is written: a file half written would look like a whole one.
    lines = b"".join(msgspec.json.encode(run) + b"\n" for run in runs)
    try:
        target.write_bytes(gzip.compress(lines, mtime=0) if target.suffix == ".gz" else lines)
    except OSError as exc:
        raise FormatError(f"{str(target)!r} cannot be written: {exc.strerror or exc}.") from exc
    return lines.count(b"\n")


def text_in(content: Any) -> str:
    """The words of a message, whether it is a text or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if isinstance(part, dict) and "text" in part)
    return ""


def opened(value: Any) -> Any:
    """A value that was written as a text of JSON, opened; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as exc:
        raise FormatError(f"{str(file)!r} cannot be read: {exc}.") from exc
