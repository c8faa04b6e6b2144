"""Build the parts of queries that depend on what was asked for, and convert values to and from columns."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

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


# Build the parts of queries that depend on what was asked for.

_LAST_CHARACTER: Final = "\U0010ffff"

AGENT_ROW_ID: Final = "(SELECT id FROM agents WHERE agent_id = ?)"


class Conditions:
    """The WHERE clause of a query: conditions that must all hold, and their values.

    >>> where = Conditions().add("state = ?", "open").add("agent = ?", None)
    >>> str(where), where.values
    (' WHERE state = ?', ['open'])
    """

    def __init__(self) -> None:
        self._all: list[str] = []
        self.values: list[Any] = []

    def add(self, condition: str, value: Any) -> "Conditions":
        """Add a condition with one value, unless the value is None. Returns this object."""
        if value is not None:
            self._all.append(condition)
            self.values.append(to_unicode(value) if isinstance(value, str) else value)
        return self

    def require(self, condition: str) -> "Conditions":
        """Add a condition without a value. Returns this object."""
        self._all.append(condition)
        return self

    def __str__(self) -> str:
        return f" WHERE {' AND '.join(self._all)}" if self._all else ""


def select_agent_or_run(table: str, agent_id: str | None, run_id: str | None) -> Conditions:
    """Return the conditions for one agent, one run or both, in the form that uses the narrower index.

    The query must join `agents` as `a`.
    """
    where = Conditions()
    if run_id is None:
        return where.add(f"{table}.agent = {AGENT_ROW_ID}", agent_id)
    where.add(f"{table}.run IN (SELECT id FROM runs WHERE run_id = ?)", run_id)
    return where.add("a.agent_id = ?", agent_id)


def find_by_prefix(
    connection: sqlite3.Connection, table: str, column: str, prefix: str, *, also: str = "1", shown: int = 5
) -> tuple[int, list[str]]:
    """Return how many values of an indexed column begin with this text, and the first few of them.

    A comparison instead of LIKE: it can use the index, and has no wildcards.
    """
    bounds = (prefix, prefix + _LAST_CHARACTER)
    where = f"FROM {table} WHERE {column} >= ? AND {column} < ? AND {also}"
    (count,) = connection.execute(f"SELECT count(DISTINCT {column}) {where}", bounds).fetchone()
    query = f"SELECT DISTINCT {column} {where} ORDER BY {column} LIMIT {shown}"
    return count, [value for (value,) in connection.execute(query, bounds)]


def describe_ambiguous_id(what: str, prefix: str, count: int, first: list[str]) -> str:
    """Return the error message for a shortened id that fits none or several."""
    if not count:
        return f"There is no {what} {prefix!r}."
    more = ", …" if count > len(first) else ""
    return f"{count} {what}s begin with {prefix!r}: {', '.join(first)}{more}. Give more of the id."
