"""Notice an agent that changes a file back and forth."""

from typing import Final

from msgspec import Struct, field

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.loops.call_arguments import find_path, first_argument
from steadyhelm.loops.loop_detector import (
    MAX_EVIDENCE_IDS,
    LoopDetector,
    LoopMatch,
    SegmentTracker,
    copy_memory,
    hash_text,
)
from steadyhelm.loops.outcomes import SUCCESS
from steadyhelm.loops.steps import ToolStep, read_step

REVERTS_OF_LOOP: Final = 2

_MAX_FILES: Final = 16
_MAX_EDITS: Final = 12
_NEW_CONTENT: Final = (
    "content", "new_string", "new_str", "newString", "new_text", "file_text", "contents",
)  # fmt: skip
_OLD_CONTENT: Final = ("old_string", "old_str", "oldString", "old_text")


class FileEdit(Struct):
    """The content written to a file, as hashes: the part that was replaced, and what replaced it."""

    old: int
    new: int
    event_id: str


class ContentPair(Struct):
    """Two contents that replaced each other, and how often one came back."""

    pair: tuple[int, int]
    reverts: int = 0
    ids: list[str] = field(default_factory=list)


class EditedFile(Struct):
    """What was done to one file in this segment."""

    edits: list[FileEdit] = field(default_factory=list)
    pairs: list[ContentPair] = field(default_factory=list)


class EditMemory(Struct):
    """The files changed since the user's last new message, which may have asked for the undo."""

    segment: SegmentTracker = field(default_factory=SegmentTracker)
    files: dict[str, EditedFile] = field(default_factory=dict)

    def observe(self, event: TraceEvent) -> LoopMatch | None:
        """Record an event, and return what it reverts, if anything."""
        if event.action_type == TOOL_CALL:
            return self.observe_step(read_step(event))
        if self.segment.record_message(event):
            self.files.clear()
        return None

    def foresee(self, call: TraceEvent) -> LoopMatch | None:
        """Return what a call not yet made would revert if it succeeded. Changes no state."""
        path = find_path(call.input_data)
        if path not in self.files:
            return None
        edit = _read_edit(call)
        if edit is None or _find_reverted(self.files[path].edits, edit) is None:
            return None
        return copy_memory(self).observe_step(ToolStep(call, SUCCESS))

    def observe_step(self, step: ToolStep) -> LoopMatch | None:
        """Record a step, and return what it reverts, if anything."""
        if not step.is_work_done:
            return None
        path, edit = find_path(step.event.input_data), _read_edit(step.event)
        return None if path is None or edit is None else self._record_edit(path, edit)

    def _record_edit(self, path: str, edit: FileEdit) -> LoopMatch | None:
        file = self.files.pop(path, None) or EditedFile()
        self.files[path] = file
        if len(self.files) > _MAX_FILES:
            del self.files[next(iter(self.files))]
        reverted = _find_reverted(file.edits, edit)
        replaced = edit.old or (file.edits[-1].new if file.edits else 0)
        file.edits = [*file.edits, edit][-_MAX_EDITS:]
        if reverted is None:
            return None
        # Counted by pair: reverting two different edits of one file is one undo, not back and forth.
        pair = _find_or_add_pair(file, (min(replaced, edit.new), max(replaced, edit.new)))
        pair.reverts += 1
        pair.ids = list(dict.fromkeys([*pair.ids, reverted.event_id, edit.event_id]))[-MAX_EVIDENCE_IDS:]
        return LoopMatch(
            pattern="edit-revert",
            count=pair.reverts,
            patience=REVERTS_OF_LOOP,
            event_ids=tuple(pair.ids),
            message=f"{path} was changed back to what it was, {pair.reverts} times",
        )


class EditRevert(LoopDetector):
    """Signal when a file returns to an earlier content for the second time since the user's last message.

    Reverting a change once is ordinary work, and a user may ask for it.
    """

    name = "edit_revert"
    version = 3
    advice = "Decide for one of the two, and say why."

    def __init__(self) -> None:
        self._memory = EditMemory()


def _find_or_add_pair(file: EditedFile, pair: tuple[int, int]) -> ContentPair:
    known = next((it for it in file.pairs if it.pair == pair), None)
    if known is None:
        known = ContentPair(pair)
        file.pairs = [*file.pairs, known][-_MAX_EDITS:]
    return known


def _find_reverted(edits: list[FileEdit], edit: FileEdit) -> FileEdit | None:
    """Return the earlier edit that this one reverts; the same content written again reverts nothing."""
    if edit.old:
        return next((it for it in reversed(edits) if (it.old, it.new) == (edit.new, edit.old)), None)
    if edits and edits[-1].new == edit.new:
        return None
    return next((it for it in reversed(edits) if it.new == edit.new), None)


def _read_edit(event: TraceEvent) -> FileEdit | None:
    args = event.input_data
    new, old = first_argument(args, _NEW_CONTENT), first_argument(args, _OLD_CONTENT)
    if not isinstance(new, str):
        return None
    return FileEdit(_hash_content(old) if isinstance(old, str) else 0, _hash_content(new), event.event_id)


def _hash_content(text: str) -> int:
    """Return the hash of a content; never 0, which means that nothing was replaced."""
    return hash_text(text) + 1
