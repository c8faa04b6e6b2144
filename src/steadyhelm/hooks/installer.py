"""Install and uninstall hooks in a settings file: plan the change, back up, write, and restore."""

import contextlib
import difflib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from steadyhelm.errors import FormatError
from steadyhelm.hooks import settings_entries
from steadyhelm.settings import home

RECORDS_FOLDER: Final = "hooks"
DEFAULT_MODE: Final = "observe"
_MAX_SETTINGS_BYTES: Final = 2 << 20


class SettingsChange(Struct, frozen=True, kw_only=True):
    """The content of a file before and after a change; None where there is no file.

    `mode` is the one that is installed, `keeps_status_line` whether another status line stays.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    mode: str = ""
    keeps_status_line: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return self.before == self.after


class _InstallRecord(Struct, frozen=True, kw_only=True):
    """What is written where, so that exactly that can be undone.

    It is written before the file is, which may fail: then the file still has the content of `previous`, where
    an earlier installation wrote that.
    """

    path: str
    existed: bool
    digest: str
    previous: str = ""
    folders: list[str] = []

    def describes(self, content: bytes) -> bool:
        """Return whether the file with this content is as we left it."""
        return _hash_content(content) in {self.digest, self.previous}


@contextlib.contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Raise a FormatError that says what is wrong for every error of the file system."""
    try:
        yield
    except OSError as exc:
        where = exc.filename or path
        raise FormatError(f"{path} cannot be changed: {exc.strerror or exc} ({where}).") from exc


def plan_install(agent: str, path: Path, mode: str = "", *, status_line: str | None = None) -> SettingsChange:
    """Return the change that adds our entries; see `add_entries` for `status_line`.

    Without a mode, the mode that is installed stays; a new installation observes.
    """
    before = _read_bytes(path)
    text = _decode_text(before, path)
    content = settings_entries.parse_settings(text, path)
    installed = set(settings_entries.find_installed_events(content).values()) - {""}
    mode = mode or (installed.pop() if len(installed) == 1 else DEFAULT_MODE)
    command = settings_entries.build_hook_command(agent, mode)
    fresh = settings_entries.add_entries(content, agent, command, status_line=status_line)
    after = before
    if before is None or fresh != content:
        after = settings_entries.write_settings(text, fresh).encode()
    kept = bool(status_line) and settings_entries.has_other_status_line(content)
    return SettingsChange(path=path, before=before, after=after, mode=mode, keeps_status_line=kept)


def plan_uninstall(path: Path) -> SettingsChange:
    """Return the change that removes our entries; an otherwise unchanged file is restored byte for byte."""
    before = _read_bytes(path)
    if before is None:
        return SettingsChange(path=path, before=None, after=None)
    record = _read_record(path)
    if record is not None and record.describes(before):
        backup = _read_backup(path) if record.existed else None
        if backup is not None or not record.existed:
            return SettingsChange(path=path, before=before, after=backup)
    text = _decode_text(before, path)
    content = settings_entries.parse_settings(text, path)
    rest = settings_entries.remove_entries(content)
    if rest == content:
        return SettingsChange(path=path, before=before, after=before)
    if record is not None and not record.existed and rest in ({}, {"version": 1}):
        return SettingsChange(path=path, before=before, after=None)
    after = settings_entries.write_settings(text, rest).encode()
    return SettingsChange(path=path, before=before, after=after)


def diff_lines(change: SettingsChange) -> Iterator[str]:
    """Return the lines of a unified diff of the change."""
    sides = [(it or b"").decode("utf-8", "replace").splitlines() for it in (change.before, change.after)]
    names = [str(change.path) if it is not None else "/dev/null" for it in (change.before, change.after)]
    return difflib.unified_diff(sides[0], sides[1], names[0], names[1], lineterm="")


def get_backup_path(path: Path) -> Path:
    """Return where the backup of a settings file is kept."""
    return _record_path(path, ".before")


def apply_install(change: SettingsChange) -> None:
    """Write the change, and keep a backup of the file. When this fails the file is as it was."""
    _require_unchanged(change)
    assert change.after is not None
    with _explain_errors(change.path):
        known = _read_record(change.path)
        if known is None or not known.describes(change.before or b""):
            known = _back_up(change)
        folders = [str(it) for it in reversed(change.path.parents) if not it.exists()] or known.folders
        record = _InstallRecord(
            path=str(change.path),
            existed=known.existed,
            digest=_hash_content(change.after),
            previous=_hash_content(change.before or b"") if known.digest else "",
            folders=folders,
        )
        _replace_file(_record_path(change.path, ".json"), msgspec.json.encode(record))
        change.path.parent.mkdir(parents=True, exist_ok=True)
        _replace_file(change.path, change.after)


def apply_uninstall(change: SettingsChange) -> None:
    """Write the change, and remove the backup and the record."""
    _require_unchanged(change)
    record = _read_record(change.path)
    with _explain_errors(change.path):
        if change.after is None:
            change.path.unlink(missing_ok=True)
            for folder in reversed(record.folders if record is not None else []):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        elif not change.is_empty:
            _replace_file(change.path, change.after)
    # What is left of these does no harm: the file is not as the record says.
    with contextlib.suppress(OSError):
        for ending in (".json", ".before"):
            _record_path(change.path, ending).unlink(missing_ok=True)
        (home() / RECORDS_FOLDER).rmdir()


def _back_up(change: SettingsChange) -> _InstallRecord:
    """Back up the file as it was before us, without entries of ours that were copied there."""
    (home() / RECORDS_FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    before = change.before
    if before is None:
        return _InstallRecord(path=str(change.path), existed=False, digest="")
    text = _decode_text(before, change.path)
    content = settings_entries.parse_settings(text, change.path)
    rest = settings_entries.remove_entries(content)
    clean = before if rest == content else settings_entries.write_settings(text, rest).encode()
    _replace_file(get_backup_path(change.path), clean)
    return _InstallRecord(path=str(change.path), existed=True, digest="")


def _require_unchanged(change: SettingsChange) -> None:
    if _read_bytes(change.path) != change.before:
        raise FormatError(
            f"{change.path} was changed by another program just now. Nothing was done; try again."
        )


def _record_path(path: Path, ending: str) -> Path:
    return home() / RECORDS_FOLDER / (hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest() + ending)


def _read_record(path: Path) -> _InstallRecord | None:
    content = _read_bytes(_record_path(path, ".json"))
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=_InstallRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _read_backup(path: Path) -> bytes | None:
    return _read_bytes(get_backup_path(path))


def _require_small_file(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise FormatError(f"{path} is not a file; it was left as it is.")
    if status.st_size > _MAX_SETTINGS_BYTES:
        raise FormatError(f"{path} is larger than {_MAX_SETTINGS_BYTES >> 20} MiB; it was left as it is.")


def _read_bytes(path: Path) -> bytes | None:
    """Return the content of a file; None without one. Does not wait for a pipe or a device."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            _require_small_file(os.fstat(file), path)
            return os.read(file, _MAX_SETTINGS_BYTES)
        finally:
            os.close(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as exc:
        raise FormatError(f"{path} cannot be read: {getattr(exc, 'strerror', None) or exc}.") from exc


def _decode_text(content: bytes | None, path: Path) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError as exc:
        raise FormatError(f"{path} is not UTF-8 text; it was left as it is.") from exc


def _hash_content(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _replace_file(path: Path, content: bytes) -> None:
    """Replace the whole file at once, with the permissions it had."""
    fresh = path.with_name(f".{path.name}.{os.urandom(4).hex()}.new")
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    try:
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave an empty file in place of the old one
        fresh.chmod(mode)
        fresh.replace(path)
    except OSError as exc:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise FormatError(f"{path} cannot be written: {exc.strerror or exc}.") from exc


def describe_place(agent: str, *, project: bool) -> dict[str, Any]:
    """Return which events of an agent's file run our command, in which modes, or why it cannot be read."""
    path = None
    try:
        path = settings_entries.find_settings_file(agent, project=project)
        content = settings_entries.parse_settings(_decode_text(_read_bytes(path), path), path)
    except FormatError as exc:
        return {"path": str(path or ""), "events": [], "modes": [], "problem": str(exc)}
    events = settings_entries.find_installed_events(content)
    return {"path": str(path), "events": sorted(events), "modes": sorted(set(events.values())), "problem": ""}
