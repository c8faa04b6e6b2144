"""Changes to somebody's settings file: shown first, with a backup, and taken back without a trace."""

import contextlib
import difflib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from steadyhelm.errors import FormatError
from steadyhelm.hooks import install as hook_settings
from steadyhelm.settings import home

FOLDER: Final = "hooks"


class Change(Struct, frozen=True, kw_only=True):
    """What a file holds and what it shall hold; None where there is no file."""

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.before == self.after


class _Record(Struct, frozen=True, kw_only=True):
    """What we wrote where, so that exactly that can be taken back."""

    path: str
    existed: bool
    digest: str
    folders: list[str] = []


def to_install(agent: str, path: Path, command: str, *, status_line: str = "") -> Change:
    """The change that puts our entries in."""
    before = _bytes(path)
    text = _text(before, path)
    content = hook_settings.with_entries(
        hook_settings.parsed(text, path), agent, command, status_line=status_line
    )
    if before is not None and content == hook_settings.parsed(text, path):
        return Change(path=path, before=before, after=before)
    return Change(path=path, before=before, after=hook_settings.rewritten(text, content).encode())


def to_uninstall(path: Path) -> Change:
    """The change that takes our entries out: back to the very bytes where nobody else changed the file."""
    before = _bytes(path)
    if before is None:
        return Change(path=path, before=None, after=None)
    record = _record(path)
    if record is not None and record.digest == _digest(before):
        return Change(path=path, before=before, after=_backup(path) if record.existed else None)
    text = _text(before, path)
    content = hook_settings.parsed(text, path)
    rest = hook_settings.without_entries(content)
    if rest == content:
        return Change(path=path, before=before, after=before)
    if record is not None and not record.existed and rest in ({}, {"version": 1}):
        return Change(path=path, before=before, after=None)
    return Change(path=path, before=before, after=hook_settings.rewritten(text, rest).encode())


def difference(change: Change) -> Iterator[str]:
    """The change as a person reads it."""
    sides = [(it or b"").decode("utf-8", "replace").splitlines() for it in (change.before, change.after)]
    names = [str(change.path) if it is not None else "/dev/null" for it in (change.before, change.after)]
    return difflib.unified_diff(sides[0], sides[1], names[0], names[1], lineterm="")


def install(change: Change) -> Path | None:
    """Carry it out, keeping a backup; gives the backup, None when there was no file."""
    _require_unchanged(change)
    assert change.after is not None
    known = _record(change.path)
    if known is None or known.digest != _digest(change.before or b""):
        known = _kept_aside(change)
    folders = [str(it) for it in reversed(change.path.parents) if not it.exists()] or known.folders
    change.path.parent.mkdir(parents=True, exist_ok=True)
    _write(change.path, change.after)
    record = _Record(
        path=str(change.path), existed=known.existed, digest=_digest(change.after), folders=folders
    )
    _write(_place(change.path, ".json"), msgspec.json.encode(record))
    return _place(change.path, ".before") if known.existed else None


def uninstall(change: Change) -> None:
    """Carry it out, and forget that we were there."""
    _require_unchanged(change)
    record = _record(change.path)
    if change.after is None:
        change.path.unlink(missing_ok=True)
        for folder in reversed(record.folders if record is not None else []):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
    elif not change.is_empty:
        _write(change.path, change.after)
    for ending in (".json", ".before"):
        _place(change.path, ending).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (home() / FOLDER).rmdir()


def _kept_aside(change: Change) -> _Record:
    """Keep what the file was before us: without entries of ours that somebody copied there."""
    (home() / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    before = change.before
    if before is None:
        return _Record(path=str(change.path), existed=False, digest="")
    text = _text(before, change.path)
    content = hook_settings.parsed(text, change.path)
    rest = hook_settings.without_entries(content)
    clean = before if rest == content else hook_settings.rewritten(text, rest).encode()
    _write(_place(change.path, ".before"), clean)
    return _Record(path=str(change.path), existed=True, digest="")


def _require_unchanged(change: Change) -> None:
    if _bytes(change.path) != change.before:
        raise FormatError(
            f"{change.path} was changed by somebody else just now. Nothing was done; try again."
        )


def _place(path: Path, ending: str) -> Path:
    return home() / FOLDER / (hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest() + ending)


def _record(path: Path) -> _Record | None:
    content = _bytes(_place(path, ".json"))
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=_Record)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _backup(path: Path) -> bytes | None:
    return _bytes(_place(path, ".before"))


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise FormatError(f"{path} cannot be read: {exc.strerror or exc}.") from exc


def _text(content: bytes | None, path: Path) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError as exc:
        raise FormatError(f"{path} is not UTF-8 text; it was left as it is.") from exc


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Put the whole file in place at once, with the permissions it had."""
    fresh = path.with_name(f".{path.name}.{os.urandom(4).hex()}.new")
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    try:
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            file.write(content)
        fresh.chmod(mode)
        fresh.replace(path)
    except OSError as exc:
        raise FormatError(f"{path} cannot be written: {exc.strerror or exc}.") from exc
    finally:
        fresh.unlink(missing_ok=True)


def summary(path: Path) -> dict[str, Any]:
    """Which events of this file run us, and in which mode; what is wrong with it where it cannot be read."""
    try:
        events = hook_settings.events_installed(hook_settings.parsed(_text(_bytes(path), path), path))
    except FormatError as exc:
        return {"path": str(path), "events": [], "modes": [], "problem": str(exc)}
    return {"path": str(path), "events": sorted(events), "modes": sorted(set(events.values())), "problem": ""}
