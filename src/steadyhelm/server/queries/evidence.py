"""Where the evidence of an incident is in its run."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from typing import Final

from steadyhelm.incidents import Incident
from steadyhelm.stores.database import Connection

ARROW: Final = " → "
"""Between the tools of a cycle, in the pattern of an incident."""


def find_seqs(connection: Connection, run: int, incident: Incident) -> list[int]:
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
