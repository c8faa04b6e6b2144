"""Read the runs to plant in: healthy runs of run files, as the lines they are."""

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from steadyhelm.errors import FormatError
from steadyhelm.lab.mutations.planting import PLANT, RunLine

_GZIP: Final = b"\x1f\x8b"


class HostRuns(Struct, frozen=True):
    """Runs that can hold a plant, and how many were left out because they are not healthy."""

    runs: list[RunLine]
    left_out: int


def read_hosts(paths: Iterable[Path], *, only_healthy: bool = True) -> HostRuns:
    """Return the runs of these run files. Raises FormatError for a file that is none.

    With `only_healthy`, a run that failed, has a loop label or already holds a plant is left out.
    """
    runs: list[RunLine] = []
    left_out = 0
    for path in paths:
        for number, line in enumerate(_read(path).splitlines(), 1):
            run = _parse(line, f"{str(path)!r}:{number}")
            if is_healthy(run) or not only_healthy:
                runs.append(run)
            else:
                left_out += 1
    return HostRuns(runs, left_out)


def is_healthy(run: RunLine) -> bool:
    """Return whether nothing says that this run went wrong.

    >>> is_healthy({"events": [], "outcome": "failure"})
    False
    """
    if run.get("outcome") == "failure" or PLANT in run or run.get("expect_loop"):
        return False
    labels = run.get("labels") or []
    return not any(isinstance(label, dict) and label.get("kind") == "loop" for label in labels)


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(_GZIP) else content
    except (OSError, EOFError) as exc:
        raise FormatError(f"{str(path)!r} cannot be read: {exc}.") from exc


def _parse(line: bytes, where: str) -> RunLine:
    try:
        run = msgspec.json.decode(line, type=RunLine)
    except msgspec.MsgspecError as exc:
        raise FormatError(f"{where} is not a run: {exc}.") from exc
    entries = run.get("events")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise FormatError(f"{where} is not a run: it has no list of events.")
    return run
