"""Learn a profile's targets from good replies, as a change of its document."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from steadyhelm.cli.output import diff_texts
from steadyhelm.cli.profile_edits import edit_document, keep_own_terms, write_new_document
from steadyhelm.errors import FormatError
from steadyhelm.reports.formats import pluralize
from steadyhelm.style.fitting import fit_profile
from steadyhelm.style.profile import Profile
from steadyhelm.style.profile_files import build_profile, decode_document, find_profile, read_profile
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
    learnt = fit_profile(replies, _find_start(path, before, base, name), name=name)
    if before is None:
        changes = {**base, **learnt.changes}
        text = write_new_document(changes, pluralize(learnt.replies, "good reply", "good replies"))
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


def _find_start(path: Path, before: str | None, base: dict[str, Any], name: str) -> Profile:
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
