"""Read labelled replies: JSON Lines, one reply with what came before it per line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from steadyhelm.errors import FormatError

CLASSES: Final = ("continuation", "correction", "approval")
"""What is learnt; the first is what the others are held against."""

_LEARNT_AS: Final = {
    "correction_substance": "correction",
    "correction_style": "correction",
    "frustration": "correction",
    "approval": "approval",
    "continuation": "continuation",
    "new_task": "continuation",
}


class ReplyLabels(Struct, frozen=True, kw_only=True):
    """The two labels that count; how they were made, and how surely, stays in the file."""

    primary: str
    drift: int


class LabelledReply(Struct, frozen=True, kw_only=True):
    """A reply, what came before it, and its labels."""

    repo: str
    session: str
    reply: str
    labels: ReplyLabels
    turn: int = 0
    prompt_before: str = ""
    assistant_before: str = ""
    tool_calls_since_prompt: int = 0
    tool_errors_since_prompt: int = 0
    interrupted: bool = False

    @property
    def learnt_as(self) -> str:
        """The learnt class it belongs to."""
        return _LEARNT_AS[self.labels.primary]

    @property
    def owner(self) -> str:
        """The owner of its project: projects of one owner use the same words."""
        return self.repo.partition("/")[0]

    @property
    def is_drift(self) -> bool:
        """Whether it is evidence that the agent had drifted."""
        return self.labels.drift == 1


def read_replies(path: Path) -> list[LabelledReply]:
    """Return every reply of a file; raise FormatError with the number of a line that is none."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as exc:
        raise FormatError(f"{str(path)!r} cannot be read: {exc.strerror or exc}.") from exc
    replies = list(_decode_replies(lines, path))
    if not replies:
        raise FormatError(f"{str(path)!r} holds no labelled reply.")
    return replies


def _decode_replies(lines: list[bytes], path: Path) -> Iterator[LabelledReply]:
    decoder = msgspec.json.Decoder(LabelledReply)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            reply = decoder.decode(line)
        except msgspec.MsgspecError as exc:
            raise FormatError(f"{path}:{number}: not a labelled reply: {exc}.") from exc
        if reply.labels.primary not in _LEARNT_AS:
            known = ", ".join(_LEARNT_AS)
            raise FormatError(
                f"{path}:{number}: primary must be one of {known}, got {reply.labels.primary!r}."
            )
        yield reply
