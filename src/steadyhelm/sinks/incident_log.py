"""Log each incident when it opens and when it gets worse, on the writer's thread."""

import shlex
from collections.abc import Sequence
from typing import Final

from steadyhelm.bounded import BoundedDict
from steadyhelm.hostile_text import escape_unsafe
from steadyhelm.incidents import Incident
from steadyhelm.logs import logger
from steadyhelm.policy.alerting import build_link
from steadyhelm.sink import Record, Sink

_INCIDENTS_KEPT: Final = 1000
_MAX_MESSAGE_CHARS: Final = 300
_MAX_NAME_CHARS: Final = 80


class IncidentLog(Sink):
    """Writes one line to the log `steadyhelm`, at WARNING, for each incident that opens or gets worse.

    Args:
        db_path: The database that the command in the line names; empty for the default one.
        public_url: The address of the page that the line links to; empty for none.
    """

    name = "incident_log"

    def __init__(self, db_path: str = "", *, public_url: str = "") -> None:
        self._public_url = public_url
        self._command = f"steadyhelm --db {shlex.quote(db_path)}" if db_path else "steadyhelm"
        self._logged: BoundedDict[str, int] = BoundedDict(_INCIDENTS_KEPT)

    def write(self, records: Sequence[Record]) -> None:
        """Log the incidents of a batch, each once in its latest version."""
        latest = {record.incident_id: record for record in records if isinstance(record, Incident)}
        for incident in latest.values():
            before = self._logged.get(incident.incident_id)
            if before is not None and before >= incident.severity.rank:
                continue
            self._logged[incident.incident_id] = incident.severity.rank
            self._warn(incident, "drifts" if before is None else "drifts further")

    def _warn(self, incident: Incident, what: str) -> None:
        link = build_link(self._public_url, incident)
        logger.warning(
            "%s %s (%s, run %s): %s See: %s alerts show %s%s",
            _shorten(incident.agent_id, _MAX_NAME_CHARS),
            what,
            incident.severity.name,
            _shorten(incident.run_id, _MAX_NAME_CHARS),
            _shorten(incident.message, _MAX_MESSAGE_CHARS).rstrip(".") + ".",
            self._command,
            incident.incident_id,
            f" or {link}" if link else "",
        )


def _shorten(text: str, most: int) -> str:
    """Return text of an agent as one line that does no harm in a terminal."""
    line = " ".join(escape_unsafe(text[: most + 1]).split())
    return line if len(line) <= most else f"{line[:most]}…"
