"""Records that do not fit into the tables as they are, made to fit: one odd value must not cost a batch.

Nothing here runs unless SQLite refused a batch.
"""

import math
import sqlite3
from typing import Any, Final, TypeVar, get_args, get_origin

from msgspec import Struct, structs

from steadyhelm.fingerprints import reduced
from steadyhelm.sink import Record, RecordedEvent

MISFITS: Final = (
    *(OverflowError, TypeError, ValueError),
    *(sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError),
)
"""What a value that fits no column makes Python and sqlite3 raise; text that is no Unicode among them."""

_LARGEST: Final = 2**63 - 1
_COUNTED: Final = 2**53  # a batch full of these still adds up to something SQLite can hold
_PAYLOAD: Final = ("input_data", "output_data")

_Kept = TypeVar("_Kept", bound=Struct)


def mended(record: Record) -> Record:
    """The record with every number a number in range and every text Unicode."""
    if isinstance(record, RecordedEvent):
        return structs.replace(record, event=_mended(record.event))
    return _mended(record)


def _mended(record: _Kept) -> _Kept:
    fields = [field for field in structs.fields(record) if field.name not in _PAYLOAD]
    return structs.replace(
        record,
        **{field.name: _fitting(field.name, getattr(record, field.name), field.type) for field in fields},
    )


def _fitting(name: str, value: Any, wanted: Any) -> Any:
    return _whole(value) if _holds_others(wanted) else _single(name, value, wanted)


def _single(name: str, value: Any, wanted: Any) -> Any:
    allowed = get_args(wanted) or (wanted,)
    empty = None if type(None) in allowed else 0
    if value is None and empty is None:
        return None
    try:
        if int in allowed:
            largest = _LARGEST if name.endswith("_hash") else _COUNTED
            return max(-largest, min(largest, int(value)))
        if float in allowed:
            return float(value) if math.isfinite(float(value)) else empty
    except (TypeError, ValueError, OverflowError):
        return empty
    if str in allowed:
        return _unicode(str(value))
    return value


def _holds_others(wanted: Any) -> bool:
    """Whether a field is a tuple, a list or a table; it may be allowed to be missing."""
    return any(get_origin(it) in {tuple, list, dict} for it in (wanted, *get_args(wanted)))


def _whole(value: Any) -> Any:
    """A container with everything in it mended, of the type it had."""
    if isinstance(value, dict):
        return reduced(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_whole(item) for item in value)
    if isinstance(value, Struct):
        return _mended(value)
    return _unicode(value) if type(value) is str else value


def _unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
