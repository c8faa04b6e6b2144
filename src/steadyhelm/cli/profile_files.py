"""Task profiles as a file: written whole, and believed only after they were checked."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from steadyhelm.errors import FormatError, SteadyhelmError

if TYPE_CHECKING:
    from steadyhelm.decisions import TaskProfile

_LARGEST: Final = 16 << 20


def write(path: Path, document: str) -> None:
    """Write it beside its place and move it there whole; only its owner may read it."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(document)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as exc:
        raise SteadyhelmError(f"The task profiles cannot be written to {path}: {exc}.") from exc


def read(path: Path) -> "tuple[TaskProfile, ...]":
    """The profiles in a file; raises FormatError with what is wrong with it."""
    from steadyhelm.budgets.profiles import imported

    try:
        if path.stat().st_size > _LARGEST:
            raise FormatError(f"{path} is larger than any file of task profiles ({_LARGEST >> 20} MB).")
        document = path.read_bytes()
    except OSError as exc:
        raise FormatError(f"{path} cannot be read: {exc}.") from exc
    try:
        profiles = imported(document)
    except FormatError as exc:
        raise FormatError(f"{path}: {exc} Nothing was changed.") from exc
    if not profiles:
        raise FormatError(f"{path} holds no task profile. Nothing was changed.")
    return profiles
