"""Convert values between our records and what a database column holds."""

import math
import sqlite3
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from steadyhelm.findings import Severity
from steadyhelm.fingerprints import to_plain_data
from steadyhelm.sink import Record, RecordedEvent

SEVERITIES: Final = tuple(Severity)
"""The severities by rank: the rank is what is stored."""

UNSTORABLE_VALUE_ERRORS: Final = (
    *(OverflowError, TypeError, ValueError),
    *(sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError),
)
"""What Python and sqlite3 raise for a value that fits no column, such as text that is not Unicode."""

_MAX_INTEGER: Final = 2**63 - 1
_MAX_COUNT: Final = 2**53  # the sum over a batch full of these still fits into a column
_PAYLOAD_FIELDS: Final = ("input_data", "output_data")

_AnyStruct = TypeVar("_AnyStruct", bound=Struct)


def to_unicode(text: str) -> str:
    """Return the text with characters that cannot be encoded replaced, so that a column can hold it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def decode_json(encoded: bytes | None) -> Any:
    """Return stored JSON as data, or as text when it is not JSON."""
    if not encoded:
        return None
    try:
        return msgspec.json.decode(encoded)
    except (ValueError, RecursionError):
        return encoded.decode("utf-8", "replace")


def make_storable(record: Record) -> Record:
    """Return the record with every number in range and every text valid Unicode.

    Called only for a batch that the database refused: one odd value must not lose the whole batch.
    """
    if isinstance(record, RecordedEvent):
        return structs.replace(record, event=_make_struct_storable(record.event))
    return _make_struct_storable(record)


def _make_struct_storable(record: _AnyStruct) -> _AnyStruct:
    fields = [field for field in structs.fields(record) if field.name not in _PAYLOAD_FIELDS]
    return structs.replace(
        record,
        **{field.name: _convert(field.name, getattr(record, field.name), field.type) for field in fields},
    )


def _convert(name: str, value: Any, wanted: Any) -> Any:
    return _convert_container(value) if _is_container(wanted) else _convert_single(name, value, wanted)


def _convert_single(name: str, value: Any, wanted: Any) -> Any:
    allowed = get_args(wanted) or (wanted,)
    empty = None if type(None) in allowed else 0
    if value is None and empty is None:
        return None
    try:
        if int in allowed:
            largest = _MAX_INTEGER if name.endswith("_hash") else _MAX_COUNT
            return max(-largest, min(largest, int(value)))
        if float in allowed:
            return float(value) if math.isfinite(float(value)) else empty
    except (TypeError, ValueError, OverflowError):
        return empty
    if str in allowed:
        return to_unicode(str(value))
    return value


def _is_container(wanted: Any) -> bool:
    """Return whether a field's type is a tuple, a list or a dict, optional or not."""
    return any(get_origin(it) in {tuple, list, dict} for it in (wanted, *get_args(wanted)))


def _convert_container(value: Any) -> Any:
    """Return a container of the same type with every item converted."""
    if isinstance(value, dict):
        return to_plain_data(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_convert_container(item) for item in value)
    if isinstance(value, Struct):
        return _make_struct_storable(value)
    return to_unicode(value) if type(value) is str else value
