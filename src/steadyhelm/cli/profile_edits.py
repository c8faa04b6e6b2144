"""Change a profile's document in place: what is not changed stays, comments and layout included."""

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

import msgspec

from steadyhelm.errors import FormatError
from steadyhelm.style.profile_files import decode_document, format_document
from steadyhelm.style.prose import fold_words

_OWN_TERMS: Final = ("extend", "replace", "ambiguous")


def edit_document(text: str, changes: Mapping[str, Any], *, where: str) -> str:
    """Return a TOML or JSON profile document with these changes; raises FormatError when it cannot be read.

    Terms to remove from a lexicon are added to those it removes already. A term that the document itself
    adds to the lexicon stays.
    """
    decode_document(text.encode(), where=where)
    if where.endswith(".json") or text.lstrip().startswith("{"):
        document: MutableMapping[str, Any] = msgspec.json.decode(text)
        _apply_changes(document, changes)
        return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        parsed = tomlkit.parse(text)
        _apply_changes(parsed, changes)
        return parsed.as_string()
    except TOMLKitError as exc:
        raise FormatError(f"{where} cannot be changed: {exc}.") from exc


def write_new_document(changes: Mapping[str, Any], replies: str) -> str:
    """Return the document of a new profile that was learnt from replies."""
    return format_document({"description": f"Learnt from {replies}.", **changes})


def keep_own_terms(text: str, changes: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """Return the changes without the removal of terms that the document itself adds to a lexicon."""
    lexicons = decode_document(text.encode(), where=where).get("lexicons", {})
    kept: dict[str, dict[str, list[str]]] = {}
    for name, change in changes.get("lexicons", {}).items():
        own = {fold_words(term) for key in _OWN_TERMS for term in lexicons.get(name, {}).get(key, ())}
        if terms := [term for term in change["remove"] if fold_words(term) not in own]:
            kept[name] = {"remove": terms}
    plain = {key: value for key, value in changes.items() if key != "lexicons"}
    return {**plain, "lexicons": kept} if kept else plain


def _apply_changes(document: MutableMapping[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if key != "lexicons":
            document[key] = value
    for name, change in changes.get("lexicons", {}).items():
        lexicons = document.setdefault("lexicons", {})
        table = lexicons.setdefault(name, {})
        removed = table.setdefault("remove", [])
        known = {fold_words(term) for term in removed}
        for term in change["remove"]:
            if fold_words(term) not in known:
                removed.append(term)


def find_profile_path(name: str, folder: Path, output: Path | None) -> Path:
    """Return the file of a profile: the one given, the one that is there, or the one to create."""
    if output is not None:
        return output
    candidates = [folder / f"{name}{suffix}" for suffix in (".toml", ".json")]
    return next((path for path in candidates if path.exists()), candidates[0])
