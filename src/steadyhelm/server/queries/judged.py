"""What a judge was asked about a run, and what it answered."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from steadyhelm.events import JUDGED
from steadyhelm.incidents import IncidentVerdict
from steadyhelm.judge import JudgedReport, read_judged
from steadyhelm.judging.usage import JudgeSummary, summarise_judging
from steadyhelm.server.records.common import Count
from steadyhelm.server.records.runs import Judged, JudgingReport
from steadyhelm.stores.database import Connection
from steadyhelm.stores.sql import decode_evidence

MOST_JUDGED: Final = 50
_RUNS_READ: Final = 200
_INCIDENTS_READ: Final = 200
_STATE_TYPE: Final = 2
_NAME: Final = "SELECT id FROM names WHERE name = ?"
_ANSWERS: Final = """
    SELECT e.seq, p.metadata_json FROM events e CROSS JOIN payloads p ON p.id = e.payload
    WHERE e.run = ? AND e.type = ? AND e.name = ? ORDER BY e.seq DESC LIMIT ?"""

_EVIDENCE: Final = "SELECT evidence FROM incidents WHERE run = ? ORDER BY opened_seq, id LIMIT ?"


def list_judged(connection: Connection, run: int) -> list[Judged]:
    """Return the latest answers, oldest first. Nothing is read where no judge was ever asked."""
    name = connection.execute(_NAME, (JUDGED,)).fetchone()
    if name is None:
        return []
    rows = connection.execute(_ANSWERS, (run, _STATE_TYPE, name[0], MOST_JUDGED)).fetchall()
    found = []
    moved = {it.seq: f"{it.moved_from or 'none'} → {it.moved_to}" for it in _list_changes(connection, run)}
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
                    moved=moved.get(seq, ""),
                )
            )
    return found


def _find_latest_runs(connection: Connection, agents: Sequence[int], since: float) -> list[int]:
    where = f" AND agent IN ({', '.join(str(int(key)) for key in agents)})" if agents else ""
    sql = f"SELECT id FROM runs WHERE started_at >= ?{where} ORDER BY started_at DESC LIMIT ?"
    return [run for (run,) in connection.execute(sql, (since, _RUNS_READ)).fetchall()]


def read_judging(
    connection: Connection, model: str, agents: Sequence[int], since: float | None
) -> JudgingReport:
    """Return what was asked about the latest runs of some agents, or of all, and what came of it."""
    name = connection.execute(_NAME, (JUDGED,)).fetchone()
    runs = _find_latest_runs(connection, agents, since or 0.0)
    reports: list[JudgedReport] = []
    changes: list[IncidentVerdict] = []
    for run in runs if name is not None else ():
        rows = connection.execute(_ANSWERS, (run, _STATE_TYPE, name[0], MOST_JUDGED)).fetchall()
        reports += [it for it in map(_read, (metadata for _, metadata in rows)) if it is not None]
        changes += _list_changes(connection, run) if rows else ()
    return _make_report(model, summarise_judging(reports, changes, runs=len(runs)))


def _flatten_verdicts(summary: JudgeSummary) -> dict[str, int]:
    return {
        f"{about}: {label}": count
        for about, labels in summary.verdicts.items()
        for label, count in labels.items()
    }


def _make_report(model: str, summary: JudgeSummary) -> JudgingReport:
    return JudgingReport(
        model=model,
        runs=summary.runs,
        asked=summary.asked,
        remembered=summary.remembered,
        tokens=summary.input_tokens + summary.output_tokens,
        cost_usd=summary.cost_usd,
        raised=summary.raised,
        lowered=summary.lowered,
        cleared=summary.cleared,
        addressed=summary.addressed,
        verdicts=_list_counts(_flatten_verdicts(summary)),
        no_verdict=_list_counts(summary.no_verdict),
        not_asked=_list_counts(summary.not_asked),
    )


def _list_counts(counts: Mapping[str, int]) -> list[Count]:
    return [Count(name=name, count=count) for name, count in counts.items()]


def _list_changes(connection: Connection, run: int) -> list[IncidentVerdict]:
    """Return the verdicts that moved the incidents of a run."""
    rows = connection.execute(_EVIDENCE, (run, _INCIDENTS_READ)).fetchall()
    judged = [decode_evidence(evidence).judged for (evidence,) in rows]
    return [it for it in judged if it is not None]


def _read(metadata_json: bytes | None) -> JudgedReport | None:
    try:
        return read_judged(msgspec.json.decode(metadata_json or b"{}"))
    except (ValueError, RecursionError):
        return None
