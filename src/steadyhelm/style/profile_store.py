"""Where profiles are kept: five come with the package, and those in your own folder stand before them."""

from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from steadyhelm.environment import get_home
from steadyhelm.errors import FormatError, NotFoundError, SettingsError
from steadyhelm.style.profile import NAME, Profile, shown
from steadyhelm.style.profile_files import LARGEST, decoded, profile_from

BUNDLED: Final = ("standard", "relaxed", "strict", "terse", "machine")
_SUFFIXES: Final = (".toml", ".json")
_DEEPEST: Final = 8


def user_folder() -> Path:
    """Where your own profiles are: `profiles` in Steadyhelm's own folder; STEADYHELM_HOME moves it."""
    return Path(get_home()) / "profiles"


def profile_named(name: str) -> Profile:
    """The profile of that name, yours before a bundled one; it is read once in a process."""
    return _kept(name, get_home())


def names(folder: Path | None = None) -> dict[str, Path | None]:
    """Every profile by name: the file it is read from, or None for a bundled one."""
    found: dict[str, Path | None] = dict.fromkeys(BUNDLED)
    folder = folder or user_folder()
    if folder.is_dir():
        for path in sorted(folder.iterdir(), reverse=True):
            if path.suffix in _SUFFIXES and NAME.fullmatch(path.stem):
                found[path.stem] = path
    return found


def read_profile(path: Path, *, folder: Path | None = None) -> Profile:
    """The profile in a file; those it extends are looked for beside the bundled ones and in your folder."""
    return _read(path, folder or user_folder(), ())


@cache
def bundled(name: str) -> Profile:
    """A profile that comes with the package, whatever stands in your folder."""
    where = f"the bundled profile {name}"
    document = decoded(
        files("steadyhelm.style").joinpath("bundled", f"{name}.toml").read_bytes(), where=where
    )
    lookup = bundled if "extends" in document else lambda _: Profile()
    return profile_from(document, name=name, where=where, lookup=lookup)


@lru_cache(maxsize=64)
def _kept(name: str, home: str) -> Profile:  # noqa: ARG001 - another home, another profile
    return _named(name, user_folder(), ())


def _named(name: str, folder: Path, before: tuple[str, ...]) -> Profile:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise NotFoundError(f"There is no profile {shown(name)}. Profiles: {', '.join(names(folder))}.")
    for suffix in _SUFFIXES:
        path = folder / f"{name}{suffix}"
        # A profile of yours may extend the bundled one it stands before.
        if name not in before and path.is_file():
            return _read(path, folder, before)
    if name in BUNDLED:
        return bundled(name)
    if name in before:
        raise SettingsError(f"Profile {name!r} extends itself: {' -> '.join((*before, name))}.")
    raise NotFoundError(f"There is no profile {name!r}. Profiles: {', '.join(names(folder))}.")


def _read(path: Path, folder: Path, before: tuple[str, ...]) -> Profile:
    name = path.stem.lower()
    before = (*before, name)
    if len(before) > _DEEPEST:
        raise SettingsError(f"{path}: profiles may extend each other {_DEEPEST} deep: {' -> '.join(before)}.")
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except OSError as exc:
        raise FormatError(f"{path} cannot be read: {exc}.") from exc
    document = decoded(content, where=str(path))
    return profile_from(
        document, name=name, where=str(path), lookup=lambda wanted: _named(wanted, folder, before)
    )
