"""SQL statements given to a tool or to a shell: whether they change something."""

import functools
import re
from typing import Any, Final

_MAX_STATEMENT_CHARS: Final = 4096
_MAX_STATEMENTS: Final = 40

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+\d?|[A-Z]+(?![a-z])")
_STATEMENT_ARGUMENTS: Final = ("sql", "statement", "stmt", "sql_query", "query", "q")
STATEMENT_ARGUMENT_SET: Final = frozenset(_STATEMENT_ARGUMENTS)
# What these arguments hold is SQL by the name of the tool alone.
_OF_ANYTHING: Final = frozenset({"query", "q"})
_DATABASE_WORDS: Final = frozenset(
    """
    bigquery clickhouse database db duckdb exec execute mariadb mysql oracle pg postgres postgresql psql query
    redshift run snowflake sql sqlite sqlite3 statement warehouse
    """.split()  # noqa: SIM905 - so many quoted words read worse
)
_SEARCH_WORDS: Final = frozenset({"doc", "docs", "find", "google", "lookup", "search", "web", "wiki"})

_OBJECTS: Final = (
    r"(?:column|database|extension|function|index|policy|procedure|role|schema|sequence|statistics|table"
    r"|tablespace|trigger|type|user|view)\b"
)
_CHANGE: Final = (
    r"(?:insert\s{1,3}(?:or\s{1,3}\w{1,9}\s{1,3})?into\s|update\s[^;]{1,120}?\sset\s|delete\s{1,3}from\s"
    rf"|(?:create|alter|drop)\s(?:[\s\w]{{0,60}}?\s)??{_OBJECTS}|truncate\s|(?:merge|replace|upsert)\s{{1,3}}into\s"
    r"|(?:grant|revoke)\s[^;]{1,120}?\s(?:to|from)\s|analyze\b|vacuum\b|reindex\b|refresh\s{1,3}materialized\b"
    r"|copy\s[^;]{1,120}?\sfrom\s|optimize\s{1,3}table\b|cluster\s)"
)
_COMMENTS: Final = r"\s{0,9}(?:--[^\n]{0,200}\n\s{0,9}){0,3}"
_CHANGES: Final = re.compile(
    rf"{_COMMENTS}(?:with\s[^;]{{1,2000}}?\)\s{{0,9}}(?=insert|update|delete|merge))?{_CHANGE}", re.IGNORECASE
)
_SHELL_CLIENT: Final = re.compile(r"\b(?:duckdb|mariadb|mysql|psql|sqlite3?|sqlcmd)\s")
_QUOTED_CHANGE: Final = re.compile(rf"[\"']\s{{0,3}}{_CHANGE}", re.IGNORECASE)


def changes_data(name: str, arguments: Any) -> bool:
    """Return whether a call of a tool runs an SQL statement that changes something.

    >>> changes_data("sql", {"q": "CREATE INDEX i ON t (a)"}), changes_data("sql", {"q": "EXPLAIN SELECT 1"})
    (True, False)
    >>> changes_data("web_search", {"query": "create index concurrently"})
    False
    """
    if isinstance(arguments, str):
        argument, text = "q", arguments
    else:
        argument = next((it for it in _STATEMENT_ARGUMENTS if it in arguments), "")
        text = arguments.get(argument)
    if not isinstance(text, str) or not (argument not in _OF_ANYTHING or _is_database(name)):
        return False
    statements = text[:_MAX_STATEMENT_CHARS].split(";", _MAX_STATEMENTS)
    return any(_CHANGES.match(one) is not None for one in statements)


def changes_data_through_shell(command: str) -> bool:
    """Return whether a command has a client of a database run a statement that changes something.

    >>> changes_data_through_shell("psql app -c 'update t set a = 1'")
    True
    """
    return _SHELL_CLIENT.search(command) is not None and _QUOTED_CHANGE.search(command) is not None


@functools.lru_cache(maxsize=256)
def _is_database(name: str) -> bool:
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    return not words.isdisjoint(_DATABASE_WORDS) and words.isdisjoint(_SEARCH_WORDS)
