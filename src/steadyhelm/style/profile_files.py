"""Find profiles by name, read them from TOML or JSON documents, check them, and write them."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import structs

from steadyhelm.environment import get_home
from steadyhelm.errors import FormatError, NotFoundError, SettingsError, SteadyhelmError
from steadyhelm.style.markers import MarkerTerms
from steadyhelm.style.profile import (
    PROFILE_NAME,
    RANGES,
    HardRules,
    Profile,
    find_profile_faults,
    find_value_faults,
    format_value,
)
from steadyhelm.style.prose import fold_words

MAX_FILE_BYTES: Final = 1 << 20
_TEXT_FIELDS: Final = ("name", "description", "extends", "language")
_TABLE_FIELDS: Final = ("weights", "lexicons", "rules")
FIELDS: Final = (*_TEXT_FIELDS, *RANGES, *_TABLE_FIELDS)
_TERM_CHANGES: Final = ("extend", "replace", "remove", "ambiguous")
_RULE_NAMES: Final = HardRules.__struct_fields__
_BOM: Final = b"\xef\xbb\xbf"

ProfileLookup = Callable[[str], Profile]


def decode_document(content: bytes, *, where: str) -> dict[str, Any]:
    """Return the table in a TOML or JSON file. JSON is recognised by its suffix or a first brace."""
    if len(content) > MAX_FILE_BYTES:
        raise FormatError(f"{where} is larger than any profile ({MAX_FILE_BYTES >> 20} MB).")
    content = content.removeprefix(_BOM)
    is_json = where.endswith(".json") or content.lstrip().startswith(b"{")
    try:
        document = msgspec.json.decode(content) if is_json else msgspec.toml.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise FormatError(f"{where} is not {'JSON' if is_json else 'TOML'}: {exc}.") from exc
    if not isinstance(document, dict):
        raise FormatError(f"{where} must hold a table of settings, got {type(document).__name__}.")
    return document


def build_profile(document: Mapping[str, Any], *, name: str, where: str, lookup: ProfileLookup) -> Profile:
    """Return the profile that a document describes; `lookup` finds the one it extends.

    Raise SettingsError with all faults, one per line.
    """
    faults = [f"{where}: {fault}" for fault in _find_document_faults(document, name)]
    sound = _select_valid_fields(document)
    base, elsewhere = _find_base(sound, where, lookup)
    changes = _read_changes(sound, base or Profile(), name)
    # Fields that depend on the extended profile cannot be checked without it.
    judged = find_profile_faults if base is not None else find_value_faults
    faults += (f"{where}: {fault}" for fault in judged({**structs.asdict(base or Profile()), **changes}))
    if base is None or faults:
        raise SettingsError("\n".join((*faults, *elsewhere)))
    return structs.replace(base, **changes)


def _find_base(
    document: Mapping[str, Any], where: str, lookup: ProfileLookup
) -> tuple[Profile | None, tuple[str, ...]]:
    """Return the profile that a document extends; if there is none, the reasons."""
    wanted = document.get("extends", "standard")
    try:
        return lookup(wanted), ()
    except NotFoundError as exc:
        return None, (f"{where}: extends must be the name of a profile, got {format_value(wanted)}. {exc}",)
    except SteadyhelmError as exc:
        # It names its own file.
        return None, (str(exc),)


def _read_changes(document: Mapping[str, Any], base: Profile, name: str) -> dict[str, Any]:
    plain = {key: document[key] for key in ("description", "language", *RANGES) if key in document}
    return {
        **plain,
        "name": name,
        "weights": {**base.weights, **document.get("weights", {})},
        "lexicons": _merge_lexicons(base, document.get("lexicons", {})),
        "rules": structs.replace(base.rules, **document.get("rules", {})),
    }


def _select_valid_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a document that have the right type, so that their values can be checked too."""
    texts = {key: document[key] for key in _TEXT_FIELDS if isinstance(document.get(key), str)}
    numbers = {key: document[key] for key in RANGES if key in document}
    tables = {key: document[key] for key in _TABLE_FIELDS if isinstance(document.get(key), dict)}
    if "rules" in tables:
        tables["rules"] = {key: value for key, value in tables["rules"].items() if key in _RULE_NAMES}
    if "lexicons" in tables:
        lexicons = tables["lexicons"].items()
        # One that cannot be read stays as an empty one: its weight belongs to it.
        tables["lexicons"] = {
            key: {} if any(_find_lexicon_faults(key, change)) else change for key, change in lexicons
        }
    return {**texts, **numbers, **tables}


def _find_document_faults(document: Mapping[str, Any], name: str) -> Iterator[str]:
    for key, value in document.items():
        if key.startswith("_comment"):
            continue
        if key not in FIELDS:
            yield f"there is no {format_value(key)} in a profile; there are {', '.join(FIELDS)}."
        elif key in _TEXT_FIELDS and not isinstance(value, str):
            yield f"{key} must be text, got {format_value(value)}."
        elif key == "name" and value != name:
            yield f"name must be {name!r}, as the file is called, or be left out, got {format_value(value)}."
        elif key in _TABLE_FIELDS and not isinstance(value, dict):
            yield f"{key} must be a table, got {format_value(value)}."
    rules = document.get("rules")
    if isinstance(rules, dict):
        unknown = [key for key in rules if key not in _RULE_NAMES]
        yield from (
            f"there is no rule {format_value(key)}; there are {', '.join(_RULE_NAMES)}." for key in unknown
        )
    lexicons = document.get("lexicons")
    if isinstance(lexicons, dict):
        for component, change in lexicons.items():
            yield from _find_lexicon_faults(component, change)


def _find_lexicon_faults(name: str, change: Any) -> Iterator[str]:
    if not isinstance(change, dict):
        yield f"lexicons.{name} must be a table with {', '.join(_TERM_CHANGES)}, got {format_value(change)}."
        return
    for key, terms in change.items():
        if key not in _TERM_CHANGES:
            yield f"lexicons.{name} knows {', '.join(_TERM_CHANGES)}, got {format_value(key)}."
        elif not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            yield f"lexicons.{name}.{key} must be a list of texts, got {format_value(terms)}."
        else:
            yield from (
                f"lexicons.{name}.{key} holds {format_value(term)}, in which there is no word."
                for term in terms
                if not fold_words(term)
            )
    if "extend" in change and "replace" in change:
        yield f"lexicons.{name} must either extend or replace, not both."


def _merge_lexicons(base: Profile, changes: Mapping[str, Mapping[str, list[str]]]) -> dict[str, MarkerTerms]:
    merged = dict(base.lexicons)
    for name, change in changes.items():
        before = MarkerTerms() if "replace" in change else merged.get(name, MarkerTerms())
        added = [*change.get("replace", ()), *change.get("extend", ())]
        gated = change.get("ambiguous", ())
        # The last change of a term counts: it is removed from its former list.
        gone = {fold_words(term) for term in (*change.get("remove", ()), *added, *gated)}
        merged[name] = MarkerTerms(
            words=(*_drop_terms(before.words, gone), *added),
            ambiguous=(*_drop_terms(before.ambiguous, gone), *gated),
        )
    return merged


def _drop_terms(terms: tuple[str, ...], gone: set[tuple[str, ...]]) -> Iterator[str]:
    return (term for term in terms if fold_words(term) not in gone)


def format_document(changes: Mapping[str, Any], *, heading: str = "") -> str:
    """Return a profile document as TOML: numbers, texts, lists of texts, and tables of those."""
    lines = [f"# {line}" for line in heading.splitlines()]
    plain = {key: value for key, value in changes.items() if not isinstance(value, dict)}
    lines += [f"{key} = {_format_value(value)}" for key, value in plain.items()]
    for key, table in changes.items():
        if isinstance(table, dict):
            lines += _format_table(key, table)
    return "\n".join(lines) + "\n"


def _format_table(name: str, table: Mapping[str, Any]) -> list[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = (
        ["", f"[{name}]", *(f"{key} = {_format_value(value)}" for key, value in plain.items())]
        if plain
        else []
    )
    for key, inner in table.items():
        if isinstance(inner, dict):
            lines += _format_table(f"{name}.{key}", inner)
    return lines


def _format_value(value: Any) -> str:
    # A JSON text, number, boolean or list of texts is one in TOML too.
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


# Find profiles by name: five are bundled, and those in the user's folder take precedence.

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
