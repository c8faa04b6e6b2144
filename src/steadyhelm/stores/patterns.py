"""Name what an incident is about in a few words, so that incidents alike can be grouped."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final

from steadyhelm.incidents import Incident
from steadyhelm.stores.batch import TOOL_CODE, RunTotals

ARROW: Final = " → "
_LONGEST_CYCLE: Final = 5
_EVIDENCE_READ: Final = 24
_LONGEST_NAME: Final = 200


def name_patterns(
    connection: sqlite3.Connection, incidents: Mapping[str, tuple[RunTotals, Incident]]
) -> None:
    """Give each incident that has none yet a pattern: the tools that repeat, else its detector."""
    for totals, incident in incidents.values():
        row = connection.execute(
            "SELECT pattern FROM incidents WHERE incident_id = ?", (incident.incident_id,)
        ).fetchone()
        if row is not None and not row[0]:
            pattern = _find_pattern(connection, totals.run, incident)
            connection.execute(
                "UPDATE incidents SET pattern = ? WHERE incident_id = ?", (pattern, incident.incident_id)
            )


def _find_pattern(connection: sqlite3.Connection, run: int, incident: Incident) -> str:
    words = incident.detector.replace("_", " ")
    if incident.kind != "loop":
        return words
    seqs = find_seqs(connection, run, incident)[-_EVIDENCE_READ:]
    marks = ", ".join("?" * len(seqs))
    rows = connection.execute(
        "SELECT n.name FROM events e CROSS JOIN names n ON n.id = e.name"
        f" WHERE e.run = ? AND e.seq IN ({marks}) AND e.type = {TOOL_CODE} ORDER BY e.seq",
        (run, *seqs),
    )
    tools = find_cycle([name for (name,) in rows])
    return ARROW.join(tool[:_LONGEST_NAME] for tool in tools) or words


def find_seqs(connection: sqlite3.Connection, run: int, incident: Incident) -> list[int]:
    """Return the places of an incident's evidence, in order."""
    prefix = incident.run_id + "."
    seqs = {
        int(event_id.removeprefix(prefix))
        for event_id in incident.event_ids
        if event_id.startswith(prefix) and event_id.removeprefix(prefix).isdecimal()
    }
    others = [event_id for event_id in incident.event_ids if not event_id.startswith(prefix)]
    if others:
        marks = ", ".join("?" * len(others))
        rows = connection.execute(
            f"SELECT seq FROM events WHERE run = ? AND event_id IN ({marks})", (run, *others)
        )
        seqs.update(seq for (seq,) in rows)
    return sorted(seqs)


def find_cycle(names: Sequence[str]) -> list[str]:
    """Return the shortest cycle these names repeat; without one, each of them once, the first few.

    >>> find_cycle(["read", "edit", "read", "edit", "read"])
    ['read', 'edit']
    >>> find_cycle(["search", "search"])
    ['search']
    """
    for length in range(1, min(_LONGEST_CYCLE, len(names) // 2) + 1):
        if all(name == names[place % length] for place, name in enumerate(names)):
            return list(names[:length])
    return list(dict.fromkeys(names))[:_LONGEST_CYCLE]
