"""Build the parts of queries that depend on what was asked for, and convert values to and from columns."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, get_args

import msgspec
from msgspec import Struct

from steadyhelm.decisions import DriftAction, Intervention
from steadyhelm.findings import Kind, Severity
from steadyhelm.incidents import Incident, IncidentVerdict
from steadyhelm.sink import to_unicode
from steadyhelm.stores.database import Connection

AGENT_ROW_ID: Final = "(SELECT id FROM agents WHERE agent_id = ?)"
_LAST_CHARACTER: Final = "\U0010ffff"
_LIST_COMMANDS: Final = {"run": "steadyhelm runs", "incident": "steadyhelm alerts --all"}
SEVERITIES: Final = tuple(Severity)
"""The severities by rank: the rank is what is stored."""
Name = TypeVar("Name", bound=str)
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
RESPONSES: Final = ("remind", "replan", "rollback", "ask", "stop", "block")
_BY_VERDICT: Final = {"deny": "block", "rollback": "rollback", "ask": "ask", "stop": "stop"}
_BY_ACTION: Final = {
    DriftAction.INJECT_REMINDER: "remind",
    DriftAction.SUMMARIZE_REPLAN: "replan",
    DriftAction.CHECKPOINT_RESET: "rollback",
    DriftAction.ASK_USER: "ask",
}


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
    connection: Connection, table: str, column: str, prefix: str, *, also: str = "1 = 1", shown: int = 5
) -> tuple[int, list[str]]:
    """Return how many values of an indexed column begin with this text, and the first few of them.

    A comparison instead of LIKE: it can use the index, and has no wildcards.
    """
    bounds = (prefix, prefix + _LAST_CHARACTER)
    where = f"FROM {table} WHERE {column} >= ? AND {column} < ? AND {also}"
    (count,) = connection.execute(f"SELECT count(DISTINCT {column}) {where}", bounds).fetchone()
    query = f"SELECT DISTINCT {column} {where} ORDER BY {column} LIMIT {shown}"
    return count, [value for (value,) in connection.execute(query, bounds)]


def describe_ambiguous_id(what: Literal["run", "incident"], prefix: str, count: int, first: list[str]) -> str:
    """Return the error message for a shortened id that fits none or several."""
    if not count:
        return f"There is no {what} {prefix!r}. List what there is with: {_LIST_COMMANDS[what]}"
    more = ", …" if count > len(first) else ""
    return f"{count} {what}s begin with {prefix!r}: {', '.join(first)}{more}. Give more of the id."


# Convert values to and from columns. A set is kept as bits of one number, by which lists can be filtered.


def decode_json(encoded: bytes | None) -> Any:
    """Return stored JSON as data, or as text when it is not JSON."""
    if not encoded:
        return None
    try:
        return msgspec.json.decode(encoded)
    except (ValueError, RecursionError):
        return encoded.decode("utf-8", "replace")


def to_bits(names: Iterable[str], all_names: tuple[str, ...]) -> int:
    """Return these names as bits.

    >>> to_bits(["loop", "resource"], KINDS)
    5
    """
    bits = 0
    for name in names:
        if name in all_names:
            bits |= 1 << all_names.index(name)
    return bits


def from_bits(bits: int, all_names: tuple[Name, ...]) -> list[Name]:
    """Return the names that the bits stand for."""
    return [name for place, name in enumerate(all_names) if bits >> place & 1]


def name_response(intervention: Intervention) -> str:
    """Return the response an intervention was, in the words of the screens; empty when nothing was said.

    Where nothing but words was delivered, that is the response level they were written for.
    """
    if not intervention.said:
        return ""
    return _BY_VERDICT.get(intervention.verdict) or name_level(intervention)


def name_level(intervention: Intervention) -> str:
    """Return the response level that an intervention was meant for, whether or not it was delivered."""
    return _BY_ACTION.get(intervention.action, "")


class StoredEvidence(Struct, frozen=True, array_like=True):
    """The evidence of an incident. Rows from before judges have no third entry."""

    event_ids: tuple[str, ...]
    interventions: tuple[Intervention, ...]
    judged: IncidentVerdict | None = None


_decoder: Final = msgspec.msgpack.Decoder(StoredEvidence)


def decode_evidence(column: bytes) -> StoredEvidence:
    """Return the evidence in a column."""
    return _decoder.decode(column)


def encode_evidence(incident: Incident) -> bytes:
    """Return the column of an incident; without a verdict it is the one that older versions can read."""
    parts = (incident.event_ids, incident.interventions)
    return msgspec.msgpack.encode(parts if incident.judged is None else (*parts, incident.judged))
