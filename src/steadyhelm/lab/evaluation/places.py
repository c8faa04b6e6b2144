"""Where labelled data is, and the sets of runs a path stands for."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from steadyhelm.environment import DATA
from steadyhelm.errors import SteadyhelmError
from steadyhelm.lab.evaluation.stored import is_database, stored_runs
from steadyhelm.recordings.run_file import BrokenLine, ReadRun, RunFile

_BESIDE: Final = Path("..") / "shared" / "data"
_ENDINGS: Final = (".jsonl", ".jsonl.gz")


class RunSet(Struct, frozen=True, kw_only=True):
    """The runs of one file, in its order, and a record for each line that holds none."""

    name: str
    runs: list[ReadRun]
    broken: list[BrokenLine]


def data_folder(given: Path | None = None) -> Path:
    """The folder of labelled data: the one given, the one `STEADYHELM_DATA` names, or the one beside us.

    Raises SteadyhelmError when it is not there.
    """
    folder = (given or Path(os.environ.get(DATA) or _BESIDE)).expanduser()
    if not folder.is_dir():
        raise SteadyhelmError(
            f"There is no labelled data at {folder}. Name its folder, or set {DATA} to it: the data is "
            "not part of Steadyhelm."
        )
    return folder


def read_sets(paths: Iterable[Path]) -> list[RunSet]:
    """One set for every run file or database that the paths stand for."""
    return [read_set(file) for file in run_files(paths)]


def read_set(file: Path) -> RunSet:
    """The runs of a run file, or of our own database."""
    items: Sequence[ReadRun | BrokenLine] = stored_runs(file) if is_database(file) else list(RunFile(file))
    return RunSet(
        name=file.name.removesuffix(".gz").removesuffix(".jsonl"),
        runs=[item for item in items if isinstance(item, ReadRun)],
        broken=[item for item in items if isinstance(item, BrokenLine)],
    )


def run_files(paths: Iterable[Path]) -> list[Path]:
    """Every file to read, in order and each once; a folder gives the run files inside it, sorted."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise SteadyhelmError(f"There is no file or folder {str(path)!r}.")
        for file in _in_folder(path) if path.is_dir() else [path]:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _in_folder(folder: Path) -> list[Path]:
    return sorted(
        file for file in folder.rglob("*.jsonl*") if file.name.endswith(_ENDINGS) and file.is_file()
    )
