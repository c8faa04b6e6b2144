"""Learn a profile's targets from good replies, as a change of its document in which the rest stays."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from steadyhelm.cli.output import diff_texts
from steadyhelm.errors import FormatError
from steadyhelm.reports.formats import pluralize
from steadyhelm.style.fitting import fit_profile
from steadyhelm.style.profile import Profile
from steadyhelm.style.profile_files import (
    build_profile,
    decode_document,
    find_profile,
    format_document,
    read_profile,
)
from steadyhelm.style.prose import fold_words
from steadyhelm.style.scoring import score_reply


class LearntDocument(Struct, frozen=True, kw_only=True):
    """A profile's document with what was learnt; `before` is what it was, None for a new one.

    `flagged_before` and `flagged` are how many of the good replies the profile flags.
    """

    text: str
    before: str | None
    replies: int
    flagged_before: int
    flagged: int
    house_words: tuple[str, ...]

    def list_changes(self, path: Path) -> Iterator[str]:
        """Yield the difference, line by line."""
        return diff_texts(path, self.before, self.text)


def learn_document(path: Path, name: str, extends: str | None, replies: Sequence[str]) -> LearntDocument:
    """Return the document of a profile after learning; only what is learnt, and a given `extends`, changes.

    Raises SettingsError for too few replies, and FormatError when the file cannot be read.
    """
    before = _read_text(path) if path.exists() else None
    where = str(path)
    base: dict[str, Any] = {"extends": extends or "standard"} if before is None else {}
    base |= {"extends": extends} if extends is not None else {}
    learnt = fit_profile(replies, _find_starting_profile(path, before, base, name), name=name)
    if before is None:
        changes = {**base, **learnt.changes}
        text = format_new_profile(changes, pluralize(learnt.replies, "good reply", "good replies"))
    else:
        changes = keep_own_terms(before, {**base, **learnt.changes}, where=where)
        text = edit_document(before, changes, where=where)
    after = _build(text, name, where)
    return LearntDocument(
        text=text,
        before=before,
        replies=learnt.replies,
        flagged_before=learnt.flagged_before,
        flagged=sum(score_reply(reply, after).drifting for reply in replies),
        house_words=tuple(
            sorted(term for it in changes.get("lexicons", {}).values() for term in it["remove"])
        ),
    )


def _find_starting_profile(path: Path, before: str | None, base: dict[str, Any], name: str) -> Profile:
    """Return the profile that is learnt from: the one in the file, with another base where one is given."""
    if before is None:
        return find_profile(base["extends"])
    if not base:
        return read_profile(path)
    return _build(edit_document(before, base, where=str(path)), name, str(path))


def _build(text: str, name: str, where: str) -> Profile:
    document = decode_document(text.encode(), where=where)
    return build_profile(document, name=name, where=where, lookup=find_profile)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise FormatError(f"{path} cannot be read: {exc}.") from exc


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


def format_new_profile(changes: Mapping[str, Any], replies: str) -> str:
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
