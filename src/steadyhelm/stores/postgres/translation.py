"""Translate the SQL of the store's parts into the notation of PostgreSQL, and values to and from its types.

Translated are placeholders, `max` and `min` of several values, the order of joins and the choice of an index
(which PostgreSQL makes itself), values of a JSON list, CAST AS INTEGER, and how an event's payload is found.
Everything else has to be written so that both databases understand it:

* a truth value is a number only by `CASE WHEN … THEN 1 ELSE 0 END`, or `count(*) FILTER (WHERE …)`;
* a subquery in FROM has an alias, a sum of nothing is `coalesce(sum(…), 0)`;
* columns on the right of DO UPDATE SET name their table.
"""

import functools
import re
from typing import Any, Final

from psycopg import AsyncConnection, Connection
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.types.array import ListDumper
from psycopg.types.numeric import FloatDumper, IntDumper
from psycopg.types.string import StrDumperUnknown

_PLACES: Final = re.compile(
    r"""'(?:[^']|'')*+'                                     # a text: stays as it is
    | (?P<each>\(SELECT\ value\ FROM\ json_each\(\?\)\))
    | (?P<join>\bCROSS\ JOIN(?=\s+\w+(?:\s+\w+)?\s+ON\b))
    | (?P<index>(?<!\s)\s*+\b(?:INDEXED\ BY\ \w+|NOT\ INDEXED)\b)
    | (?P<payload>\bp\.id\ =\ e\.payload\b)
    | (?P<number>\be\.payload\b)
    | CAST\((?P<whole>[^()?]*)\ AS\ INTEGER\)
    | (?P<place>\?)
    | (?<!:):(?P<name>[a-z_]+)
    | (?P<percent>%)
    | \b(?P<extreme>max|min)\(""",
    re.VERBOSE,
)
_SCALARS: Final = {"max": "greatest", "min": "least"}


@functools.lru_cache(maxsize=2000)
def translate(sql: str) -> str:
    """Return a statement in the notation of PostgreSQL and its driver.

    >>> translate("SELECT max(n, :least), max(n) FROM a CROSS JOIN b ON b.id = a.b WHERE c = ?")
    'SELECT greatest(n, %(least)s), max(n) FROM a JOIN b ON b.id = a.b WHERE c = %s'
    """
    return _PLACES.sub(_translate_place, sql)


def _translate_place(found: "re.Match[str]") -> str:
    kind = found.lastgroup
    if found["extreme"] is not None:
        name = found["extreme"]
        return f"{_SCALARS[name] if _has_several(found.string[found.end() :]) else name}("
    if kind == "name":
        return f"%({found['name']})s"
    if kind == "whole":
        # A cast would round.
        return f"trunc({found['whole']})::bigint"
    return {
        "each": "(SELECT json_array_elements_text(%s::json))",
        "join": "JOIN",
        "index": "",
        # An event's payload has no number of its own: it is the one with the same run and seq.
        "payload": "p.run = e.run AND p.seq = e.seq",
        "number": "p.seq",
        "place": "%s",
        "percent": "%%",
    }.get(kind or "", found[0].replace("%", "%%"))


def _has_several(rest: str) -> bool:
    """Return whether there is a comma before the bracket that closes."""
    depth = 0
    for character in rest:
        if character == "(":
            depth += 1
        elif character == ")":
            if not depth:
                return False
            depth -= 1
        elif character == "," and not depth:
            return True
    return False


# PostgreSQL's text cannot hold NUL. It becomes a pair of characters that starts with one that no text has
# in practice; where a text has it all the same, it is doubled.
_ESCAPE: Final = "\ufdd0"
_ESCAPE_BYTES: Final = _ESCAPE.encode()
_NUL: Final = _ESCAPE_BYTES + b"0"


def _escape(encoded: bytes) -> bytes:
    return encoded.replace(_ESCAPE_BYTES, _ESCAPE_BYTES * 2).replace(b"\0", _NUL)


def _unescape(text: str) -> str:
    return re.sub(f"{_ESCAPE}(.)", lambda found: "\0" if found[1] == "0" else _ESCAPE, text)


class _TextDumper(StrDumperUnknown):
    """Text that may hold NUL."""

    def dump(self, obj: str) -> Buffer | None:
        encoded = obj.encode()
        if b"\0" in encoded or _ESCAPE_BYTES in encoded:
            return _escape(encoded)
        return encoded


class _TextLoader(Loader):
    """Text that may hold NUL."""

    def load(self, data: Buffer) -> str:
        text = str(data, "utf-8")
        return _unescape(text) if _ESCAPE in text else text


class _BoolDumper(IntDumper):
    """Truth values are numbers in our columns."""

    def dump(self, obj: Any) -> Buffer | None:
        return b"1" if obj else b"0"


class _FloatDumper(FloatDumper):
    """What is not a number is NULL, as SQLite stores it."""

    def dump(self, obj: Any) -> Buffer | None:
        return None if obj != obj else repr(obj).encode()  # noqa: PLR0124 - quicker than math.isnan


class Array(list[Any]):
    """Several values of one type, for `ANY (?)` and `unnest(?)`."""


class _ArrayRefuser(Dumper):
    """A list is no value of a column, though PostgreSQL would store its text."""

    def dump(self, obj: Any) -> Buffer | None:
        raise TypeError(f"a {type(obj).__name__} fits no column")


class _NumericLoader(Loader):
    """Sums are numeric: they come back as the numbers they were."""

    def load(self, data: Buffer) -> int | float:
        text = str(data, "ascii")
        return float(text) if "." in text or not text.lstrip("-").isdigit() else int(text)


def register(connection: "Connection[Any] | AsyncConnection[Any]") -> None:
    """Convert values of this connection as SQLite would."""
    adapters = connection.adapters
    adapters.register_dumper(str, _TextDumper)
    adapters.register_dumper(bool, _BoolDumper)
    adapters.register_dumper(Array, ListDumper)
    adapters.register_dumper(list, _ArrayRefuser)
    adapters.register_dumper(tuple, _ArrayRefuser)
    adapters.register_dumper(float, _FloatDumper)
    adapters.register_loader("text", _TextLoader)
    adapters.register_loader("numeric", _NumericLoader)
