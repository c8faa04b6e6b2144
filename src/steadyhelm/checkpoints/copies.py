"""A checkpoint as a copy that shares nothing with what was handed in, every field of it plain."""

import math
import operator
import os
from collections.abc import Mapping
from typing import Any, Final

from steadyhelm.checkpoint import BEFORE_ANY_EVENT, Checkpoint, FileContent
from steadyhelm.checkpoints.storable import Place, Reduction, TooLargeError, clean_text, is_utf8

PERMISSIONS: Final = 0o777
"""The bits of a file's mode that are kept: those that give a program its owner's rights are not."""

_LARGEST_COUNT: Final = 1 << 62
_LATEST: Final = 1e12
_NOTES_CARRIED: Final = 40


def plain_copy(given: Checkpoint, *, max_bytes: int) -> Checkpoint:
    """A copy that can be written down, with notes of what it changed; TooLargeError when it is too large."""
    reduction = Reduction(max_bytes)
    fields: dict[str, Any] = {
        "checkpoint_id": _text(given.checkpoint_id, reduction),
        "agent_id": _text(given.agent_id, reduction),
        "run_id": _text(given.run_id, reduction),
        "turn": _count(given.turn, 0),
        "seq": max(BEFORE_ANY_EVENT, _count(given.seq, BEFORE_ANY_EVENT)),
        "taken_at": _time(given.taken_at),
        "conversation_history": _history(given.conversation_history, reduction),
        "goal_tree": None if given.goal_tree is None else _mapping(given.goal_tree, "goal_tree", reduction),
        "state_files": _files(given.state_files, reduction),
        "file_modes": _modes(given.file_modes),
        "session_state": _state(given.session_state, reduction),
        "label": _text(given.label, reduction),
        "in_incident": _truth(given.in_incident),
        "meta": _mapping(given.meta, "meta", reduction),
    }
    # One that was kept before and is kept again still says what it lost the first time.
    earlier = given.reduced[:_NOTES_CARRIED] if isinstance(given.reduced, tuple) else ()
    return Checkpoint(**fields, reduced=(*map(clean_text, earlier), *reduction.notes))


def _history(value: Any, reduction: Reduction) -> list[Any]:
    plain = reduction.plain(value, (None, "conversation_history"))
    if isinstance(plain, list):
        return plain
    return [] if plain is None else [plain]


def _mapping(value: Any, name: str, reduction: Reduction) -> dict[Any, Any]:
    plain = reduction.plain(value, (None, name))
    if isinstance(plain, dict):
        return plain
    return {} if plain is None else {"value": plain}


def _files(value: Any, reduction: Reduction) -> dict[str, FileContent]:
    """Contents by path. A file is kept as it is or not at all: half a file is a broken one."""
    everything: Place = (None, "state_files")
    kept: dict[str, FileContent] = {}
    for path, content in _entries(value, everything, reduction):
        place = (everything, path)
        name = _path(path)
        if name is None:
            reduction.note(place, "left out, its path is not text")
            continue
        try:
            kept[name] = _content(content, place, reduction)
        except TooLargeError:
            raise
        except Exception:  # noqa: BLE001 - it may be anything
            reduction.note(place, f"left out, {type(content).__name__} is not the contents of a file")
    return kept


def _path(path: Any) -> str | None:
    try:
        name = str.__str__(os.fsdecode(path))
    except Exception:  # noqa: BLE001 - it may be anything
        return None
    return name if is_utf8(name) else None


def _entries(value: Any, place: Place, reduction: Reduction) -> list[tuple[Any, Any]]:
    try:
        return reduction.taken(value.items())
    except TooLargeError:
        raise
    except Exception:  # noqa: BLE001 - it may be anything
        reduction.note(place, f"left out, {type(value).__name__} is no mapping of paths to contents")
        return []


def _content(content: Any, place: Place, reduction: Reduction) -> FileContent:
    if content is None:
        return None
    if isinstance(content, Mapping):
        return {clean_text(key): item for key, item in reduction.plain(content, place).items()}
    if not isinstance(content, (str, bytes, bytearray, memoryview)):
        raise TypeError(content)
    whole = str.__str__(content) if isinstance(content, str) else bytes(content)
    reduction.spend(len(whole))
    if isinstance(whole, str) and not is_utf8(whole):
        # This is how Python hands over the bytes of a text file that are no UTF-8: as bytes they are kept.
        return whole.encode("utf-8", "surrogateescape")
    return whole


def _modes(value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    return {
        path: mode & PERMISSIONS
        for path, mode in list(dict.items(value))
        if type(path) is str and is_utf8(path) and type(mode) is int
    }


def _state(value: Any, reduction: Reduction) -> bytes:
    if not isinstance(value, bytes):
        reduction.note((None, "session_state"), f"left out, {type(value).__name__} is not bytes")
        return b""
    reduction.spend(len(value))
    return bytes(value)


def _text(value: Any, reduction: Reduction) -> str:
    text = clean_text(value)
    reduction.spend(len(text))
    return text


def _count(value: Any, otherwise: int) -> int:
    try:
        count = operator.index(value)
    except Exception:  # noqa: BLE001 - it may be anything
        return otherwise
    return max(-_LARGEST_COUNT, min(count, _LARGEST_COUNT))


def _time(value: Any) -> float:
    try:
        seconds = float(value)
    except Exception:  # noqa: BLE001 - it may be anything
        return 0.0
    return max(0.0, min(seconds, _LATEST)) if math.isfinite(seconds) else 0.0


def _truth(value: Any) -> bool:
    try:
        return bool(value)
    except Exception:  # noqa: BLE001 - it may be anything
        # Where it cannot be told, it is not one to return to.
        return True
