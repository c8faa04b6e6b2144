"""Files of which the same lines are read again and again, in whatever ranges."""

import re
from statistics import median_low
from typing import Final
from zlib import crc32

from msgspec import Struct, field

from steadyhelm.loops.call_arguments import find_command, find_path
from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, LoopMatch
from steadyhelm.loops.outcomes import extract_text
from steadyhelm.loops.steps import ToolStep

SAME_LINES_OF_LOOP: Final = 4

_MAX_FILES: Final = 8
_MAX_LINES: Final = 512
_MAX_LINES_OF_READ: Final = 64
_MAX_TEXT_CHARS: Final = 5_000
_MIN_LINES: Final = 6
_MIN_LINE_CHARS: Final = 4
_MAX_NEW_SHARE: Final = 0.02

_LINE_NUMBER: Final = re.compile(r"(?m)^ *\d+(?:[\t:→|]| {2})")
_READING_COMMAND: Final = re.compile(
    r"\s*(?:cd [^;&|]+ && )?(?:sed -n|head|tail|cat|nl|awk|less|more|bat)\b(?:'[^']*'|[^;&|>'])*?"
    r"([\w~.@/-]*\w\.\w+|/[\w.@/-]+)"
)
_MAX_COMMAND_CHARS: Final = 300


class FileRead(Struct):
    """How often each line of a file was read after the first time, by its hash, and by which calls."""

    lines: dict[int, int]
    calls: list[int]
    ids: list[str]


class LinesRead(Struct):
    """The files read in this segment, the latest last."""

    files: dict[str, FileRead] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget everything."""
        self.files.clear()

    def observe(self, step: ToolStep) -> LoopMatch | None:
        """Record a step, and return a match when a file is read once more and no line of it is new.

        Equal calls alone are no match: action_loop counts them.
        """
        path = _find_file(step)
        if path is None:
            return None
        read = self.files.pop(path, None)
        if read is None:  # most files are read once: only from the second time on it is worth its cost
            self._keep(path, FileRead({}, [step.call_key], [step.event.event_id]))
            return None
        self._keep(path, read)
        lines = _hash_lines(extract_text(step.event.output_data))
        if len(lines) < _MIN_LINES:
            return None
        counts = [read.lines.get(line, 0) + 1 for line in lines]
        read.lines.update(zip(lines, counts, strict=True))
        for line in list(read.lines)[: max(0, len(read.lines) - _MAX_LINES)]:
            del read.lines[line]
        read.ids = [*read.ids, step.event.event_id][-MAX_EVIDENCE_IDS:]
        read.calls = [*read.calls, step.call_key][-MAX_EVIDENCE_IDS:]
        count = median_low(counts)
        has_news = counts.count(1) > _MAX_NEW_SHARE * len(counts)
        if count < SAME_LINES_OF_LOOP or has_news or len(set(read.calls)) == 1:
            return None
        return LoopMatch(
            pattern="lines read again",
            count=count,
            patience=SAME_LINES_OF_LOOP,
            event_ids=tuple(read.ids),
            message=f"the same lines of {path} were read {count} times, in other ranges",
        )

    def _keep(self, path: str, read: FileRead) -> None:
        self.files[path] = read
        if len(self.files) > _MAX_FILES:
            del self.files[next(iter(self.files))]


def _find_file(step: ToolStep) -> str | None:
    """Return the file that a step reads, None for any other step."""
    if step.kind != "look" or not step.outcome.known or step.outcome.failed or step.outcome.is_short:
        return None
    command = find_command(step.event.input_data)
    if command is None:
        path = find_path(step.event.input_data)
    else:
        found = _READING_COMMAND.match(command[:_MAX_COMMAND_CHARS])
        path = found[1] if found is not None else None
    return None if path is None else path.removeprefix("./")


def _hash_lines(text: str) -> list[int]:
    """Return hashes of the distinct lines of a text without their numbers, the first of them."""
    lines = _LINE_NUMBER.sub("", text[:_MAX_TEXT_CHARS]).split("\n")
    kept = dict.fromkeys(line for it in lines if len(line := it.strip()) >= _MIN_LINE_CHARS)
    return [crc32(line.encode("utf-8", "replace")) for line in list(kept)[:_MAX_LINES_OF_READ]]
