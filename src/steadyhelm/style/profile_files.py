"""Profiles as documents: TOML or JSON in, a checked Profile out, and back again."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from steadyhelm.errors import FormatError, NotFoundError, SettingsError, SteadyhelmError
from steadyhelm.style.lexicons import Lexicon
from steadyhelm.style.profile import RANGES, HardRules, Profile, profile_faults, shown, value_faults
from steadyhelm.style.prose import folded

LARGEST: Final = 1 << 20
_TEXTS: Final = ("name", "description", "extends", "language")
_TABLES: Final = ("weights", "lexicons", "rules")
FIELDS: Final = (*_TEXTS, *RANGES, *_TABLES)
_CHANGES: Final = ("extend", "replace", "remove", "ambiguous")
_RULES: Final = HardRules.__struct_fields__
_BOM: Final = b"\xef\xbb\xbf"

Lookup = Callable[[str], Profile]


def decoded(content: bytes, *, where: str) -> dict[str, Any]:
    """The table in a TOML or JSON file; JSON is what is called so, or begins with a brace."""
    if len(content) > LARGEST:
        raise FormatError(f"{where} is larger than any profile ({LARGEST >> 20} MB).")
    content = content.removeprefix(_BOM)
    is_json = where.endswith(".json") or content.lstrip().startswith(b"{")
    try:
        document = msgspec.json.decode(content) if is_json else msgspec.toml.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise FormatError(f"{where} is not {'JSON' if is_json else 'TOML'}: {exc}.") from exc
    if not isinstance(document, dict):
        raise FormatError(f"{where} must hold a table of settings, got {type(document).__name__}.")
    return document


def profile_from(document: Mapping[str, Any], *, name: str, where: str, lookup: Lookup) -> Profile:
    """The profile a document describes; `lookup` finds the one it extends.

    Raises SettingsError with everything that is wrong, one line a fault.
    """
    faults = [f"{where}: {fault}" for fault in _document_faults(document, name)]
    sound = _sound_part(document)
    base, elsewhere = _base(sound, where, lookup)
    changes = _changes(sound, base or Profile(), name)
    # What depends on the profile it extends cannot be judged without it.
    judged = profile_faults if base is not None else value_faults
    faults += (f"{where}: {fault}" for fault in judged({**structs.asdict(base or Profile()), **changes}))
    if base is None or faults:
        raise SettingsError("\n".join((*faults, *elsewhere)))
    return structs.replace(base, **changes)


def _base(document: Mapping[str, Any], where: str, lookup: Lookup) -> tuple[Profile | None, tuple[str, ...]]:
    """The profile a document extends; without one, why there is none."""
    wanted = document.get("extends", "standard")
    try:
        return lookup(wanted), ()
    except NotFoundError as exc:
        return None, (f"{where}: extends must be the name of a profile, got {shown(wanted)}. {exc}",)
    except SteadyhelmError as exc:
        # It names its own file.
        return None, (str(exc),)


def _changes(document: Mapping[str, Any], base: Profile, name: str) -> dict[str, Any]:
    plain = {key: document[key] for key in ("description", "language", *RANGES) if key in document}
    return {
        **plain,
        "name": name,
        "weights": {**base.weights, **document.get("weights", {})},
        "lexicons": _lexicons(base, document.get("lexicons", {})),
        "rules": structs.replace(base.rules, **document.get("rules", {})),
    }


def _sound_part(document: Mapping[str, Any]) -> dict[str, Any]:
    """What of a document can be read at all, so that its values can be judged too."""
    texts = {key: document[key] for key in _TEXTS if isinstance(document.get(key), str)}
    numbers = {key: document[key] for key in RANGES if key in document}
    tables = {key: document[key] for key in _TABLES if isinstance(document.get(key), dict)}
    if "rules" in tables:
        tables["rules"] = {key: value for key, value in tables["rules"].items() if key in _RULES}
    if "lexicons" in tables:
        lexicons = tables["lexicons"].items()
        # One that cannot be read is there all the same: its weight belongs to it.
        tables["lexicons"] = {
            key: {} if any(_lexicon_faults(key, change)) else change for key, change in lexicons
        }
    return {**texts, **numbers, **tables}


def _document_faults(document: Mapping[str, Any], name: str) -> Iterator[str]:
    for key, value in document.items():
        if key.startswith("_comment"):
            continue
        if key not in FIELDS:
            yield f"there is no {shown(key)} in a profile; there are {', '.join(FIELDS)}."
        elif key in _TEXTS and not isinstance(value, str):
            yield f"{key} must be text, got {shown(value)}."
        elif key == "name" and value != name:
            yield f"name must be {name!r}, as the file is called, or be left out, got {shown(value)}."
        elif key in _TABLES and not isinstance(value, dict):
            yield f"{key} must be a table, got {shown(value)}."
    rules = document.get("rules")
    if isinstance(rules, dict):
        unknown = [key for key in rules if key not in _RULES]
        yield from (f"there is no rule {shown(key)}; there are {', '.join(_RULES)}." for key in unknown)
    lexicons = document.get("lexicons")
    if isinstance(lexicons, dict):
        for component, change in lexicons.items():
            yield from _lexicon_faults(component, change)


def _lexicon_faults(name: str, change: Any) -> Iterator[str]:
    if not isinstance(change, dict):
        yield f"lexicons.{name} must be a table with {', '.join(_CHANGES)}, got {shown(change)}."
        return
    for key, terms in change.items():
        if key not in _CHANGES:
            yield f"lexicons.{name} knows {', '.join(_CHANGES)}, got {shown(key)}."
        elif not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            yield f"lexicons.{name}.{key} must be a list of texts, got {shown(terms)}."
        else:
            yield from (
                f"lexicons.{name}.{key} holds {shown(term)}, in which there is no word."
                for term in terms
                if not folded(term)
            )
    if "extend" in change and "replace" in change:
        yield f"lexicons.{name} must either extend or replace, not both."


def _lexicons(base: Profile, changes: Mapping[str, Mapping[str, list[str]]]) -> dict[str, Lexicon]:
    merged = dict(base.lexicons)
    for name, change in changes.items():
        before = Lexicon() if "replace" in change else merged.get(name, Lexicon())
        added = [*change.get("replace", ()), *change.get("extend", ())]
        gated = change.get("ambiguous", ())
        # The newest word on a term holds: it leaves the list it stood on before.
        gone = {folded(term) for term in (*change.get("remove", ()), *added, *gated)}
        merged[name] = Lexicon(
            words=(*_without(before.words, gone), *added),
            ambiguous=(*_without(before.ambiguous, gone), *gated),
        )
    return merged


def _without(terms: tuple[str, ...], gone: set[tuple[str, ...]]) -> Iterator[str]:
    return (term for term in terms if folded(term) not in gone)


def written(changes: Mapping[str, Any], *, heading: str = "") -> str:
    """A profile document as TOML: numbers, texts, lists of texts, and tables of those."""
    lines = [f"# {line}" for line in heading.splitlines()]
    plain = {key: value for key, value in changes.items() if not isinstance(value, dict)}
    lines += [f"{key} = {_value(value)}" for key, value in plain.items()]
    for key, table in changes.items():
        if isinstance(table, dict):
            lines += _table(key, table)
    return "\n".join(lines) + "\n"


def _table(name: str, table: Mapping[str, Any]) -> list[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in plain.items())] if plain else []
    for key, inner in table.items():
        if isinstance(inner, dict):
            lines += _table(f"{name}.{key}", inner)
    return lines


def _value(value: Any) -> str:
    # A JSON text, number, boolean or list of texts is one in TOML too.
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
