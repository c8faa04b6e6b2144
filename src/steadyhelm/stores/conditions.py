"""The part of a query behind WHERE, put together from what was asked for."""

import sqlite3
from typing import Any, Final

_LAST_CHARACTER: Final = "\U0010ffff"


class Conditions:
    """Conditions that must all hold, and the values they speak of.

    >>> where = Conditions().add("state = ?", "open").add("agent = ?", None)
    >>> str(where), where.values
    (' WHERE state = ?', ['open'])
    """

    def __init__(self) -> None:
        self._all: list[str] = []
        self.values: list[Any] = []

    def add(self, condition: str, value: Any) -> "Conditions":
        """One more condition, unless its value is None: then nobody asked for it."""
        if value is not None:
            self._all.append(condition)
            self.values.append(unicode(value) if isinstance(value, str) else value)
        return self

    def require(self, condition: str) -> "Conditions":
        """One more condition that speaks of no value."""
        self._all.append(condition)
        return self

    def __str__(self) -> str:
        return f" WHERE {' AND '.join(self._all)}" if self._all else ""


def unicode(text: str) -> str:
    """A text that SQLite takes, whatever was typed."""
    return text.encode("utf-8", "replace").decode("utf-8")


def beginning_with(
    connection: sqlite3.Connection, table: str, column: str, prefix: str, *, also: str = "1", shown: int = 5
) -> tuple[int, list[str]]:
    """How many values of an indexed column begin with this text, and the first few of them.

    A comparison instead of LIKE: it can use the index, and knows no wildcards.
    """
    bounds = (prefix, prefix + _LAST_CHARACTER)
    where = f"FROM {table} WHERE {column} >= ? AND {column} < ? AND {also}"
    (count,) = connection.execute(f"SELECT count(DISTINCT {column}) {where}", bounds).fetchone()
    query = f"SELECT DISTINCT {column} {where} ORDER BY {column} LIMIT {shown}"
    return count, [value for (value,) in connection.execute(query, bounds)]


def candidates(what: str, prefix: str, count: int, first: list[str]) -> str:
    """The message for a shortened id that fits none or several."""
    if not count:
        return f"There is no {what} {prefix!r}."
    more = ", …" if count > len(first) else ""
    return f"{count} {what}s begin with {prefix!r}: {', '.join(first)}{more}. Give more of the id."
