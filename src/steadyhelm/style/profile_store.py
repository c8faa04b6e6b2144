"""Find profiles by name: five are bundled, and those in the user's folder take precedence."""

from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from steadyhelm.environment import get_home
from steadyhelm.errors import FormatError, NotFoundError, SettingsError
from steadyhelm.style.profile import PROFILE_NAME, Profile, format_value
from steadyhelm.style.profile_files import MAX_FILE_BYTES, build_profile, decode_document

BUNDLED_PROFILES: Final = ("standard", "relaxed", "strict", "terse", "machine")
_SUFFIXES: Final = (".toml", ".json")
_MAX_EXTENDS: Final = 8


def get_user_folder() -> Path:
    """Return the folder of the user's profiles: `profiles` in STEADYHELM_HOME or `~/.steadyhelm`."""
    return Path(get_home()) / "profiles"


def find_profile(name: str) -> Profile:
    """Return the profile of that name, the user's before a bundled one. Each is read once per process."""
    return _find_cached(name, get_home())


def list_profiles(folder: Path | None = None) -> dict[str, Path | None]:
    """Return every profile by name, with its file, or None for a bundled one."""
    found: dict[str, Path | None] = dict.fromkeys(BUNDLED_PROFILES)
    folder = folder or get_user_folder()
    if folder.is_dir():
        for path in sorted(folder.iterdir(), reverse=True):
            if path.suffix in _SUFFIXES and PROFILE_NAME.fullmatch(path.stem):
                found[path.stem] = path
    return found


def read_profile(path: Path, *, folder: Path | None = None) -> Profile:
    """Return the profile in a file. Profiles it extends are bundled or in the user's folder."""
    return _read_file(path, folder or get_user_folder(), ())


@cache
def load_bundled(name: str) -> Profile:
    """Return a bundled profile, whatever is in the user's folder."""
    where = f"the bundled profile {name}"
    document = decode_document(
        files("steadyhelm.style").joinpath("bundled", f"{name}.toml").read_bytes(), where=where
    )
    lookup = load_bundled if "extends" in document else lambda _: Profile()
    return build_profile(document, name=name, where=where, lookup=lookup)


@lru_cache(maxsize=64)
def _find_cached(name: str, home: str | None) -> Profile:  # noqa: ARG001 - another home, another profile
    return _find_in_folder(name, get_user_folder(), ())


def _find_in_folder(name: str, folder: Path, chain: tuple[str, ...]) -> Profile:
    if not isinstance(name, str) or not PROFILE_NAME.fullmatch(name):
        raise NotFoundError(
            f"There is no profile {format_value(name)}. Profiles: {', '.join(list_profiles(folder))}."
        )
    for suffix in _SUFFIXES:
        path = folder / f"{name}{suffix}"
        # A user's profile may extend the bundled one of the same name.
        if name not in chain and path.is_file():
            return _read_file(path, folder, chain)
    if name in BUNDLED_PROFILES:
        return load_bundled(name)
    if name in chain:
        raise SettingsError(f"Profile {name!r} extends itself: {' -> '.join((*chain, name))}.")
    raise NotFoundError(f"There is no profile {name!r}. Profiles: {', '.join(list_profiles(folder))}.")


def _read_file(path: Path, folder: Path, chain: tuple[str, ...]) -> Profile:
    name = path.stem.lower()
    chain = (*chain, name)
    if len(chain) > _MAX_EXTENDS:
        raise SettingsError(
            f"{path}: profiles may extend each other {_MAX_EXTENDS} deep: {' -> '.join(chain)}."
        )
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise FormatError(f"{path} cannot be read: {exc}.") from exc
    document = decode_document(content, where=str(path))
    return build_profile(
        document, name=name, where=str(path), lookup=lambda wanted: _find_in_folder(wanted, folder, chain)
    )
