"""Read one entry of a recorded run: accept every usual spelling of a key, and note what is odd.

Files come from many programs.
A number in quotes is a number, a list of content parts is a text, a time in milliseconds is a time.
What cannot be read is left out and noted; nothing here raises.
"""

import math
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from steadyhelm.events import JUDGED
from steadyhelm.fingerprints import to_plain_data
from steadyhelm.judge import read_judged

EntryKind = Literal["user_message", "llm_output", "tool_call", "tool_result", "error", "state"]

KINDS: Final[dict[str, EntryKind]] = {
    "user_message": "user_message",
    "llm_output": "llm_output",
    "tool_call": "tool_call",
    "tool_result": "tool_result",
    "error": "error",
    "state": "state",
}
FIELD_LIMIT: Final = 1 << 20
NAME_LIMIT: Final = 512
EPOCH_FROM: Final = 1e8
_MILLISECONDS_FROM: Final = 1e11
_MAX_NUMBER: Final = 1e15
_MAX_METADATA_TEXT: Final = 256
_MAX_METADATA_KEYS: Final = 32
_MAX_NOTES: Final = 20
_KNOWN_KEYS: Final = frozenset(
    {
        *("type", "name", "args", "result", "error", "tokens", "duration_ms", "t"),
        *("call_id", "parent_run_id", "cost_usd"),
    }
)


class Notes:
    """What was odd about a run, in words: the first twenty, and how many more there were.

    `lost` counts those through which something was left out, cut or replaced.
    """

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._count = 0
        self.lost = 0

    def add(self, words: str) -> None:
        """Note something that could not be used as it is."""
        self.lost += 1
        self.remark(words)

    def remark(self, words: str) -> None:
        """Note something odd that was kept unchanged."""
        self._count += 1
        if len(self._kept) < _MAX_NOTES:
            self._kept.append(words)

    def list_all(self) -> list[str]:
        """Return all notes, in order."""
        more = self._count - len(self._kept)
        return [*self._kept, f"and {more} more"] if more else list(self._kept)


class RunEntry(Struct, frozen=True, kw_only=True):
    """One parsed entry of a run's `events`.

    `words` is the message or result: a text, or the value itself where it is structured.
    `error` is None where the entry has none, False where it states that there was no error.
    `t` is in seconds, since the epoch or since the run's start.
    """

    index: int
    kind: EntryKind
    name: str | None
    args: Any
    words: Any
    error: str | bool | None
    tokens: int
    duration_ms: float
    cost_usd: float | None
    t: float | None
    call_id: str | None
    parent_run_id: str | None
    stream: str | None
    metadata: dict[str, Any]


def read_entries(events: list[Any], notes: Notes, *, large: bool = False) -> list[RunEntry]:
    """Return every entry that can be read; `large` means that a field may be over the limit."""
    return [entry for i, raw in enumerate(events) if (entry := _read_entry(i, raw, notes, large=large))]


def _read_entry(index: int, raw: Any, notes: Notes, *, large: bool) -> RunEntry | None:
    where = f"event {index}"
    if not isinstance(raw, dict):
        notes.add(f"{where} is {describe_value(raw)}, not an object; left out")
        return None
    written = raw.get("type")
    kind = KINDS.get(written) if isinstance(written, str) else None
    if kind is None:
        notes.add(f"{where} has the unknown type {describe_value(written)}; left out")
        return None
    if large:
        raw = {key: limit_size(value, f"{where}: {describe_value(key)}", notes) for key, value in raw.items()}
    return RunEntry(
        index=index,
        kind=kind,
        name=read_name(raw.get("name"), f"{where}: name", notes),
        args=parse_arguments(raw.get("args")),
        words=_read_words(kind, raw, where, notes),
        error=_read_error(raw.get("error"), where, notes),
        tokens=int(read_number(raw.get("tokens"), f"{where}: tokens", notes) or 0),
        duration_ms=read_number(raw.get("duration_ms"), f"{where}: duration_ms", notes) or 0.0,
        cost_usd=read_number(raw.get("cost_usd"), f"{where}: cost_usd", notes),
        t=read_seconds(raw.get("t"), f"{where}: t", notes),
        call_id=read_name(raw.get("call_id"), f"{where}: call_id", notes, limit=FIELD_LIMIT),
        parent_run_id=read_name(raw.get("parent_run_id"), f"{where}: parent_run_id", notes),
        stream=read_name(raw.get("stream"), f"{where}: stream", notes, limit=FIELD_LIMIT),
        metadata=_read_metadata(kind, raw, index),
    )


def parse_arguments(value: Any) -> Any:
    """Return arguments as they are; parse an object written as a string of JSON, as many model APIs do."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        opened = msgspec.json.decode(value)
    except (ValueError, RecursionError):
        return value
    return opened if isinstance(opened, dict) else value


def _read_words(kind: EntryKind, raw: dict[str, Any], where: str, notes: Notes) -> Any:
    text = raw.get("text")
    if kind == "tool_call" or text is None:
        return raw.get("result")
    if isinstance(text, dict) and kind in ("tool_result", "state") and not isinstance(text.get("text"), str):
        return text
    return read_text(text, f"{where}: text", notes)


def _read_error(value: Any, where: str, notes: Notes) -> str | bool | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if value.strip() and value.strip().lower() != "false" else False
    if isinstance(value, (int, float)):
        return bool(value)
    if isinstance(value, dict):
        message = value.get("message")
        return message if isinstance(message, str) and message else bool(value)
    notes.add(f"{where}: error is {describe_value(value)}, not true, false or a text; left out")
    return None


def _read_metadata(kind: EntryKind, raw: dict[str, Any], index: int) -> dict[str, Any]:
    """Return the keys without a field of their own, as long as they are small."""
    kept: dict[str, Any] = {}
    for key, value in raw.items():
        if key in _KNOWN_KEYS or value is None or (key == "text" and kind != "tool_call"):
            continue
        # Some writers number their entries; the event's id is the same number.
        if (key == "i" and value == index) or not _is_small(key, value):
            continue
        kept[key] = value
        if len(kept) == _MAX_METADATA_KEYS:
            break
    if kind == "state" and raw.get("name") == JUDGED:
        kept |= _read_verdict(raw.get("meta"))
    return kept


def _read_verdict(meta: Any) -> dict[str, Any]:
    """Return what a judge answered, as an export writes it; empty when that cannot be read."""
    report = read_judged(meta.get("metadata") if isinstance(meta, dict) else None)
    return {} if report is None else report.to_metadata()


def _is_small(key: str, value: Any) -> bool:
    if len(key) > _MAX_METADATA_TEXT:
        return False
    return isinstance(value, (bool, int, float)) or (
        isinstance(value, str) and len(value) <= _MAX_METADATA_TEXT
    )


def read_name(value: Any, what: str, notes: Notes, *, limit: int = NAME_LIMIT) -> str | None:
    """Return a name or an id; a whole number is accepted, an empty text is None."""
    if value is None or value == "":
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if value.bit_length() < NAME_LIMIT else "…"
    if not isinstance(value, str):
        notes.add(f"{what} is {describe_value(value)}, not a text; left out")
        return None
    if len(value) > limit:
        notes.add(f"{what} has {len(value)} characters; cut to {limit}")
        return value[:limit]
    return value


def read_text(value: Any, what: str, notes: Notes) -> str | None:
    """Return a text: as it is, from a number, or joined from a list of content parts."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value) if isinstance(value, float) or value.bit_length() < NAME_LIMIT else "…"
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    if isinstance(value, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in value]
        said = [part for part in parts if isinstance(part, str)]
        # Pictures and the like may be between the texts; a list without any text is no text.
        if said or not value:
            return "\n".join(said)
    notes.add(f"{what} is {describe_value(value)}, not a text; left out")
    return None


def read_number(value: Any, what: str, notes: Notes) -> float | None:
    """Return a finite number from 0 up, also when it is written in quotes."""
    if value is None:
        return None
    found: float | None = None
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            found = float(value)
        except (ValueError, OverflowError):
            found = None
    if found is None or not math.isfinite(found) or not 0 <= found < _MAX_NUMBER:
        notes.add(f"{what} is {describe_value(value)}, not a number from 0 up; left out")
        return None
    return found


def read_seconds(value: Any, what: str, notes: Notes) -> float | None:
    """Return a time in seconds; read epoch times in milli-, micro- or nanoseconds and ISO 8601 texts."""
    if isinstance(value, str):
        value = _parse_time_text(value)
    while isinstance(value, (int, float)) and _MILLISECONDS_FROM <= value < _MAX_NUMBER**2:
        value /= 1000
    return read_number(value, what, notes)


def _parse_time_text(written: str) -> float | str:
    """Return a time in a text as a number; return the text itself when it is not a known format."""
    # Numbers first: a dozen digits also happen to be a compact ISO date.
    try:
        return float(written)
    except ValueError:
        pass
    try:
        parse_time = datetime.fromisoformat(written)
        return parse_time.replace(tzinfo=parse_time.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return written


def limit_size(value: Any, what: str, notes: Notes) -> Any:
    """Return the value when it is at most 1 MiB, else the value with its middle cut out."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else _encode_json(value)
    if len(text) <= FIELD_LIMIT:
        return value
    notes.add(f"{what} has {len(text)} characters; its middle was cut out")
    if not isinstance(value, str):
        smaller = to_plain_data(value)
        if len(_encode_json(smaller)) <= FIELD_LIMIT:
            return smaller
    return cut_middle(text)


def _encode_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode("utf-8", "replace")
    except (OverflowError, RecursionError):
        # JSON readers take integers of any size, its writers do not.
        return msgspec.json.encode(to_plain_data(value)).decode("utf-8", "replace")


def cut_middle(text: str) -> str:
    """Return a text of at most about 1 MiB: of a longer one its beginning, its length, and its end."""
    if len(text) <= FIELD_LIMIT:
        return text
    half = FIELD_LIMIT // 2
    return f"{text[:half]}…[{len(text)} characters]…{text[-half:]}"


def describe_value(value: Any) -> str:
    """Return a value in words short enough for a message."""
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "…")  # noqa: PLR2004 - what fits in a line
    if isinstance(value, (bool, float)):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value) if value.bit_length() < NAME_LIMIT else "a huge integer"
    return "a list" if isinstance(value, list) else "an object"
