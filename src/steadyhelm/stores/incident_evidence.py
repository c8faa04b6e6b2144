"""What an incident's column of evidence holds: event ids, interventions, and what a judge changed."""

from typing import Final

import msgspec
from msgspec import Struct

from steadyhelm.decisions import Intervention
from steadyhelm.incidents import Incident, IncidentVerdict


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
