"""Convert the public layouts of labelled agent runs to run files, with their labels.

An importer gets the JSON documents of all files and yields runs in the form of a run file.
What it cannot read is an error with the file's name, never a silent gap.
"""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from steadyhelm.errors import FormatError, SettingsError
from steadyhelm.lab.importers import tau, trail, who_and_when
from steadyhelm.lab.importers.documents import Document, Importer

IMPORTERS: Final[dict[str, Importer]] = {
    "trail": trail.read_runs,
    "tau": tau.read_runs,
    "who-and-when": who_and_when.read_runs,
}


def read_documents(paths: Iterable[Path]) -> list[Document]:
    """Return every JSON file under these paths, sorted within a folder."""
    found = []
    for path in paths:
        if not path.exists():
            raise SettingsError(f"There is no file or folder {str(path)!r}.")
        files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        found += [Document(file, _read_json(file)) for file in files]
    if not found:
        raise FormatError("No JSON file was found there.")
    return found


def write_runs(runs: Iterable[dict[str, Any]], target: Path) -> int:
    """Write a run file, gzip when its name ends in .gz, and return how many runs it has."""
    # All of them before the first is written: a file half written would look like a whole one.
    lines = b"".join(msgspec.json.encode(run) + b"\n" for run in runs)
    try:
        target.write_bytes(gzip.compress(lines, mtime=0) if target.suffix == ".gz" else lines)
    except OSError as exc:
        raise FormatError(f"{str(target)!r} cannot be written: {exc.strerror or exc}.") from exc
    return lines.count(b"\n")


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as exc:
        raise FormatError(f"{str(file)!r} cannot be read: {exc}.") from exc
