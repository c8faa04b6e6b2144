"""Back and forth: content that returns to what it was, again."""

from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.loops.likeness import text_key
from steadyhelm.loops.outcomes import DONE
from steadyhelm.loops.scope import Scope
from steadyhelm.loops.sightings import IDS_KEPT, Sighting, copied
from steadyhelm.loops.steps import Step, read_step

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
        if event.action_type == TOOL_CALL:
            return self.add(read_step(event))
        if self.scope.takes_words(event):
            self.files.clear()
        return None

    def foresee(self, call: TraceEvent) -> Sighting | None:
        """What a call not yet made would take back again if it succeeded."""
        path = path_in(call.input_data)
        if path not in self.files:
            return None
        change = _change(call)
        if change is None or _returned_to(self.files[path].changes, change) is None:
            return None
        return copied(self).add(Step(call, DONE))

    def add(self, step: Step) -> Sighting | None:
        """What this step takes back again, if anything."""
        if not step.is_work_done:
            return None
        path, change = path_in(step.event.input_data), _change(step.event)
        return None if path is None or change is None else self._taken_back(path, change)

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
    path = _first(args, _PATHS)
    return path[:300] if isinstance(path, str) and path else None


def _change(event: TraceEvent) -> Change | None:
    args = event.input_data
    new, old = _first(args, _NEW), _first(args, _OLD)
    if not isinstance(new, str):
        return None
    return Change(_key(old) if isinstance(old, str) else 0, _key(new), event.event_id)


def _first(args: Any, names: tuple[str, ...]) -> Any:
    if isinstance(args, dict):
        for name in names:
            if name in args:
                return args[name]
    return None


def _key(text: str) -> int:
    return text_key(text) + 1
