"""Describe objects of the host as JSON can represent them: by their fields, their text, or their type.

Nothing is called on an object but what its type is known to do. The one exception is the text of an
exception.
"""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import gc
import ipaddress
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

import msgspec

from steadyhelm.host_objects import (
    MAX_CHARS,
    MAX_ITEMS,
    MISSING,
    cut_text,
    find_attribute,
    find_foreign_type,
    get_attributes,
    get_mro,
    get_type_name,
    is_a,
    name_type,
    read_field,
    read_own_attributes,
)
from steadyhelm.interrupts import pass_on_signal

_SAMPLE_ITEMS: Final = 32
_SAMPLE_ROWS: Final = 3
_SAMPLE_CHARS: Final = 200
_SAMPLE_DEPTH: Final = 3
_CONTAINERS: Final[tuple[Any, ...]] = (dict, list, tuple, set, frozenset)
_DECIMAL_BYTES: Final = 2048

# Asked of the types themselves, these run no code of a metaclass.
_get_struct_fields: Final = type(msgspec.Struct).__dict__["__struct_fields__"].__get__
_get_exception_args: Final = BaseException.__dict__["args"].__get__
_TEXTS_OF_ARGUMENTS: Final = tuple(
    it.__dict__["__str__"] for it in (BaseException, KeyError, OSError, ImportError)
)
"""The methods that make the text of an exception from its arguments."""


def read_error(error: BaseException) -> str | None:
    """Return the text of an exception, cut to a bounded length; None when its own code fails."""
    try:
        args = _get_exception_args(error)
        if not _is_long(args):
            return cut_text(str(error))
        first = next((arg for arg in args[:MAX_ITEMS] if is_a(arg, (str, bytes, bytearray))), None)
        if first is not None:
            return cut_text(first) if is_a(first, str) else str(describe(first))
        method = find_attribute(type(error), "__str__")
        if not any(method is it for it in _TEXTS_OF_ARGUMENTS):
            return cut_text(str(error))
        return cut_text(str(_abridge(args[0] if len(args) == 1 else args)))
    except BaseException as exc:  # noqa: BLE001 - the host's own `__str__`
        pass_on_signal(exc)
        return None


def _is_long(args: tuple[Any, ...]) -> bool:
    """Return whether the text of these arguments is longer than what is kept, without making it."""
    room, waiting = MAX_CHARS, [*args[: MAX_CHARS + 1]]
    while waiting and room >= 0:
        value = waiting.pop()
        kind = _find_kind(value)
        room -= 1 if kind is None else kind.__len__(value) + 1
        if kind is dict and room >= 0:
            waiting += [*dict.keys(value), *dict.values(value)]
        elif kind in _CONTAINERS and room >= 0:
            waiting.extend(kind.__iter__(value))
        elif kind is None and is_a(value, BaseException):
            waiting += _get_exception_args(value)[: MAX_CHARS + 1]
    return room < 0


def _abridge(value: Any, depth: int = 0) -> Any:
    """Return an argument of an exception with the first of its items alone, to be shown as a text."""
    kind = _find_kind(value)
    if kind is str:
        return cut_text(value, _SAMPLE_CHARS)
    if kind is bytes or kind is bytearray:
        return _describe_bytes(value)
    is_error = kind is None and is_a(value, BaseException)
    if kind is None and not is_error:
        return value
    if depth == _SAMPLE_DEPTH:
        return "…"
    args = _get_exception_args(value) if is_error else value
    text = _abridge_container(args, tuple if is_error else kind, depth + 1)
    return f"{name_type(value)}: {text}" if is_error else text


def _abridge_container(value: Any, kind: Any, depth: int) -> Any:
    size = kind.__len__(value)
    rest = [f"[{size} in all]"] if size > _SAMPLE_ITEMS else []
    if kind is dict:
        some = islice(dict.items(value), _SAMPLE_ITEMS)
        pairs = {str(_abridge(key, depth)): _abridge(item, depth) for key, item in some}
        return pairs | dict.fromkeys(rest, "…")
    return [*(_abridge(item, depth) for item in islice(kind.__iter__(value), _SAMPLE_ITEMS)), *rest]


def _find_kind(value: Any) -> Any:
    """Return which kind of text or container a value is, whatever its class makes of it; None for neither."""
    return next((kind for kind in (str, bytes, bytearray, *_CONTAINERS) if is_a(value, kind)), None)


def describe(value: Any) -> Any:
    """Return an object that JSON cannot represent as one that it can: its fields, its text, or its type.

    Only one level is read. Never raises.

    >>> describe(object()), describe(b"four"), describe(ValueError("no"))
    ('<object>', '<4 bytes e125224e>', 'no')
    """
    try:
        for base in get_mro(type(value)):
            reader = _READERS.get(id(base))
            if reader is not None:
                return reader(value)
        return _describe_by_fields(value)
    except Exception as exc:  # noqa: BLE001 - a field may be missing, a type may be built in an unusual way
        pass_on_signal(exc)
        return f"<{name_type(value)}>"


def _describe_by_fields(value: Any) -> Any:
    """Return the fields of an object of a known framework, a sample of a table, or the name of the type."""
    kind = type(value)
    if issubclass(kind, type):
        return f"<class {str.__getitem__(get_type_name(value), slice(100))}>"
    names = _list_fields(kind)
    if names is not None:
        fields = {name: read_field(value, name) for name in islice(names, MAX_ITEMS)}
        return {name: item for name, item in fields.items() if item is not MISSING}
    for module, name, reader in _FOREIGN_READERS:
        base = find_foreign_type(module, name)
        if base is not None and any(it is base for it in get_mro(kind)):
            return reader(value, base)
    return f"<{name_type(value)}>"


def _list_fields(kind: type) -> Iterator[str] | None:
    """Return the names of the fields of a dataclass, an attrs class or a msgspec struct; None for others."""
    fields = find_attribute(kind, "__dataclass_fields__")
    if type(fields) is dict:
        kept = dataclasses._FIELD  # type: ignore[attr-defined]  # noqa: SLF001 - no class or init variables
        return (name for name, field in fields.items() if field._field_type is kept)  # noqa: SLF001
    if issubclass(kind, msgspec.Struct):
        names: tuple[str, ...] = _get_struct_fields(kind)
        return iter(names)
    attributes = find_attribute(kind, "__attrs_attrs__")
    if is_a(attributes, tuple):
        return (name for it in tuple.__iter__(attributes) if type(name := read_field(it, "name")) is str)
    return None


# --- types of the standard library ----------------------------------------------------------------


def _describe_enum(value: Any) -> Any:
    return read_own_attributes(value).get("_value_", f"<{name_type(value)}>")


def _describe_bytes(value: Any) -> str:
    kind = bytes if is_a(value, bytes) else bytearray
    size = kind.__len__(value)
    ends = bytes(kind.__getitem__(value, slice(MAX_CHARS)))
    if size > MAX_CHARS:
        ends = ends[: MAX_CHARS // 2] + kind.__getitem__(value, slice(size - MAX_CHARS // 2, size))
    return f"<{size} bytes {_hash(ends):08x}>"


def _describe_view(value: memoryview) -> str:
    if not value.c_contiguous or value.nbytes > MAX_CHARS:
        return f"<{value.nbytes} bytes>"
    return _describe_bytes(bytes(value))


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little") & 0xFFFFFFFF


def _describe_known(value: Any) -> str:
    """Return the text of an object of a known type; a class that inherits from one has code of its own."""
    return str(value) if id(type(value)) in _READERS else f"<{name_type(value)}>"


def _describe_time(value: Any) -> str:
    if type(value) is not dt.datetime and type(value) is not dt.time:
        return f"<{name_type(value)}>"
    zone = type(value.tzinfo)
    is_known = zone is types.NoneType or zone is dt.timezone
    is_known = is_known or zone is find_foreign_type("zoneinfo", "ZoneInfo")
    return str(value if is_known else value.replace(tzinfo=None))


def _describe_decimal(value: decimal.Decimal) -> str:
    is_small = type(value) is decimal.Decimal and sys.getsizeof(value) <= _DECIMAL_BYTES
    return str(value) if is_small else f"<{name_type(value)}>"


def _describe_fraction(value: fractions.Fraction) -> str:
    if type(value) is not fractions.Fraction or value.numerator.bit_length() > MAX_CHARS:
        return f"<{name_type(value)}>"
    return str(value) if value.denominator.bit_length() <= MAX_CHARS else f"<{name_type(value)}>"


def _describe_path(value: pathlib.PurePath) -> str:
    if type(value).__module__ not in _PATH_MODULES:
        return f"<{name_type(value)}>"
    parts = read_field(value, "_raw_paths") or ()
    parts = read_field(value, "_parts") if parts is MISSING else parts
    is_long = is_a(parts, list) and sum(len(part) for part in islice(parts, MAX_ITEMS)) > MAX_CHARS
    return f"<{name_type(value)}>" if is_long else str(value)


def _describe_pattern(value: "re.Pattern[Any]") -> Any:
    return value.pattern


def _describe_error(value: BaseException) -> str:
    text = read_error(value)
    return f"<{name_type(value)}>" if text is None else text


def _read_data(value: Any) -> Any:
    return read_own_attributes(value).get("data", f"<{name_type(value)}>")


def _read_proxied_mapping(value: Any) -> Any:
    # Its own methods would ask the mapping behind it.
    return gc.get_referents(value)[0]


_PATH_MODULES: Final = ("pathlib", "pathlib._local")
_KNOWN_TEXTS: Final = (
    complex, range, uuid.UUID, dt.date, dt.timedelta,
    dt.timezone, ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network,
    ipaddress.IPv6Network, type(...), type(NotImplemented),
)  # fmt: skip

_READERS: Final[dict[int, Callable[[Any], Any]]] = {
    **{id(kind): _describe_known for kind in _KNOWN_TEXTS},
    id(dt.datetime): _describe_time,
    id(dt.time): _describe_time,
    id(enum.Enum): _describe_enum,
    id(bytes): _describe_bytes,
    id(bytearray): _describe_bytes,
    id(memoryview): _describe_view,
    id(decimal.Decimal): _describe_decimal,
    id(fractions.Fraction): _describe_fraction,
    id(pathlib.PurePath): _describe_path,
    id(re.Pattern): _describe_pattern,
    id(BaseException): _describe_error,
    id(types.SimpleNamespace): read_own_attributes,
    id(types.MappingProxyType): _read_proxied_mapping,
    id(collections.UserDict): _read_data,
    id(collections.UserList): _read_data,
    id(collections.UserString): _read_data,
}
"""Readers by the id of the type they read: a type of the host may have a hash of its own."""


# --- types of other packages, where they are loaded ------------------------------------------------


def _read_model(value: Any, base: type) -> dict[str, Any]:
    """Return the fields of a Pydantic model, without those it is declared not to show."""
    own = get_attributes(base)["__dict__"].__get__(value)
    declared = find_attribute(type(value), "__pydantic_fields__")
    hidden = {
        name
        for name, field in (declared.items() if type(declared) is dict else ())
        if read_field(field, "exclude") is True
    }
    fields = {name: item for name, item in islice(dict.items(own), MAX_ITEMS) if name not in hidden}
    extra = read_field(value, "__pydantic_extra__")
    return {**fields, **extra} if type(extra) is dict and len(extra) <= MAX_ITEMS else fields


def _read_scalar(value: Any, base: Any) -> Any:
    item = base.item(value)
    return f"<{name_type(value)}>" if type(item) is type(value) else item


def _read_array(value: Any, base: Any) -> dict[str, Any]:
    """Return the shape of an array, and what is at its beginning and end."""
    shape, dtype = base.shape.__get__(value), base.dtype.__get__(value)
    about: dict[str, Any] = {"array": cut_text(str(dtype), 100), "shape": list(shape)}
    if type(value) is not base:
        return about  # a class of the host's own may run its code when a part is taken
    flat, size = base.flat.__get__(value), base.size.__get__(value)
    if size <= 2 * _SAMPLE_ITEMS:
        return {**about, "values": flat[:size].tolist()}
    return {**about, "first": flat[:_SAMPLE_ITEMS].tolist(), "last": flat[size - _SAMPLE_ITEMS :].tolist()}


def _read_table(value: Any, base: Any) -> dict[str, Any]:
    """Return the shape and the columns of a table, and its first and last rows."""
    if type(value) is not base:
        return {"table": name_type(value)}
    rows, columns = value.shape
    wide = value.iloc[:, :_SAMPLE_ITEMS]
    return {
        "table": name_type(value),
        "shape": [rows, columns],
        "columns": list(value.columns[:_SAMPLE_ITEMS]),
        "first": wide.iloc[:_SAMPLE_ROWS].to_numpy().tolist(),
        "last": wide.iloc[max(0, rows - _SAMPLE_ROWS) :].to_numpy().tolist(),
    }


def _read_series(value: Any, base: Any) -> dict[str, Any]:
    if type(value) is not base:
        return {"series": name_type(value)}
    size = len(value)
    return {
        "series": cut_text(str(value.dtype), 100),
        "shape": [size],
        "first": value.iloc[:_SAMPLE_ITEMS].tolist(),
        "last": value.iloc[max(0, size - _SAMPLE_ITEMS) :].tolist(),
    }


_FOREIGN_READERS: Final[tuple[tuple[str, str, Callable[[Any, Any], Any]], ...]] = (
    ("pydantic.main", "BaseModel", _read_model),
    ("pydantic.v1.main", "BaseModel", _read_model),
    ("numpy", "generic", _read_scalar),
    ("numpy", "ndarray", _read_array),
    ("pandas", "DataFrame", _read_table),
    ("pandas", "Series", _read_series),
)
