"""Back and forth: content that returns to what it was, again."""

from typing import Any, Final
from zlib import crc32

from msgspec import Struct, field

from holdfast.events import TOOL_CALL, TraceEvent
from holdfast.loops.scope import Scope
from holdfast.loops.sightings import IDS_KEPT, Sighting
from holdfast.loops.steps import read_step

REVERTS: Final = 2

_PATHS_KEPT: Final = 16
_CHANGES_KEPT: Final = 12
_PATHS: Final = ("path", "file_path", "filePath", "filename", "file", "notebook_path", "target_file")
_NEW: Final = ("content", "new_string", "new_str", "newString", "new_text", "file_text", "contents")
_OLD: Final = ("old_string", "old_str", "oldString", "old_text")


class Change(Struct):
    """A file's content, or the part of it that was replaced and what replaced it."""

    old: int
    new: int
    event_id: str


class Swing(Struct):
    """Two contents that took each other's place, and how often one came back."""

    pair: tuple[int, int]
    reverts: int = 0
    ids: list[str] = field(default_factory=list)


class File(Struct):
    """What was done to one file in this stretch."""

    changes: list[Change] = field(default_factory=list)
    swings: list[Swing] = field(default_factory=list)


class Oscillation(Struct):
    """The files being changed since the user's last new words: they may have asked for the undo."""

    scope: Scope = field(default_factory=Scope)
    files: dict[str, File] = field(default_factory=dict)

    def take(self, event: TraceEvent) -> Sighting | None:
        """What this event takes back again, if anything."""
        if event.action_type != TOOL_CALL:
            if self.scope.take(event) == "words":
                self.files.clear()
            return None
        step = read_step(event)
        if not step.is_work_done:
            return None
        path, change = _change(event)
        if path is None or change is None:
            return None
        return self._taken_back(path, change)

    def _taken_back(self, path: str, change: Change) -> Sighting | None:
        file = self.files.pop(path, None) or File()
        self.files[path] = file
        if len(self.files) > _PATHS_KEPT:
            del self.files[next(iter(self.files))]
        earlier = _returned_to(file.changes, change)
        left = change.old or (file.changes[-1].new if file.changes else 0)
        file.changes = [*file.changes, change][-_CHANGES_KEPT:]
        if earlier is None:
            return None
        # Counted by pair: taking back two different edits of one file is one undo, not a swing.
        swing = _swing(file, (min(left, change.new), max(left, change.new)))
        swing.reverts += 1
        swing.ids = list(dict.fromkeys([*swing.ids, earlier.event_id, change.event_id]))[-IDS_KEPT:]
        return Sighting(
            pattern="edit-revert",
            count=swing.reverts,
            patience=REVERTS,
            event_ids=tuple(swing.ids),
            message=f"{path} was changed back to what it was, {swing.reverts} times",
        )


def _swing(file: File, pair: tuple[int, int]) -> Swing:
    known = next((it for it in file.swings if it.pair == pair), None)
    if known is None:
        known = Swing(pair)
        file.swings = [*file.swings, known][-_CHANGES_KEPT:]
    return known


def _returned_to(changes: list[Change], change: Change) -> Change | None:
    """The earlier change that this one takes back; the same content written again takes nothing back."""
    if change.old:
        return next((it for it in reversed(changes) if (it.old, it.new) == (change.new, change.old)), None)
    if changes and changes[-1].new == change.new:
        return None
    return next((it for it in reversed(changes) if it.new == change.new), None)


def path_in(args: Any) -> str | None:
    """The file a call is about, if its arguments name one."""
    path = _first(args, _PATHS) if isinstance(args, dict) else None
    return path[:300] if isinstance(path, str) and path else None


def _change(event: TraceEvent) -> tuple[str | None, Change | None]:
    args = event.input_data
    if not isinstance(args, dict):
        return None, None
    path, new, old = path_in(args), _first(args, _NEW), _first(args, _OLD)
    if path is None or not isinstance(new, str):
        return None, None
    return path, Change(_key(old) if isinstance(old, str) else 0, _key(new), event.event_id)


def _first(args: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((args[name] for name in names if name in args), None)


def _key(text: str) -> int:
    return crc32(text.encode("utf-8", "replace")) + 1
