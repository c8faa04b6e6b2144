"""What a judge was asked about a run, and what it answered."""

import sqlite3
from typing import Final

import msgspec

from steadyhelm.events import JUDGED
from steadyhelm.judge import JudgedReport, read_judged
from steadyhelm.server.records.runs import Judged

MOST_JUDGED: Final = 50
_STATE_TYPE: Final = 2
_NAME: Final = "SELECT id FROM names WHERE name = ?"
_ANSWERS: Final = """
    SELECT e.seq, p.metadata_json FROM events e CROSS JOIN payloads p ON p.id = e.payload
    WHERE e.run = ? AND e.type = ? AND e.name = ? ORDER BY e.seq DESC LIMIT ?"""


def list_judged(connection: sqlite3.Connection, run: int) -> list[Judged]:
    """Return the latest answers, oldest first. Nothing is read where no judge was ever asked."""
    name = connection.execute(_NAME, (JUDGED,)).fetchone()
    if name is None:
        return []
    rows = connection.execute(_ANSWERS, (run, _STATE_TYPE, name[0], MOST_JUDGED)).fetchall()
    found = []
    for seq, metadata_json in reversed(rows):
        report = _read(metadata_json)
        if report is not None:
            found.append(
                Judged(
                    step=seq + 1,
                    about=report.about,
                    subject=report.subject,
                    label=report.label,
                    confidence=report.confidence,
                    quote=report.quote,
                    reason=report.reason,
                    asked=report.asked,
                    addressed=report.addressed,
                    tokens=report.input_tokens + report.output_tokens,
                    cost_usd=report.cost_usd,
                )
            )
    return found


def _read(metadata_json: bytes | None) -> JudgedReport | None:
    try:
        return read_judged(msgspec.json.decode(metadata_json or b"{}"))
    except (ValueError, RecursionError):
        return None
