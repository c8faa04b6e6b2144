"""The list of steps, one step with its payloads, and the recurrence of a selection."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from steadyhelm.errors import NotFoundError
from steadyhelm.server.queries.rows import make_response
from steadyhelm.server.queries.runs import read_run, read_tools
from steadyhelm.server.queries.series import KINDS, read_episodes, read_score_at
from steadyhelm.server.records.common import Count, RunRow
from steadyhelm.server.records.runs import Payload, Recurrence, StepDetail, StepPage, StepRow
from steadyhelm.stores.database import Connection

_SNIPPET_CHARS: Final = 200
_SHOWN_BYTES: Final = 64 << 10
_MATRIX: Final = 200
_LONGEST_PERIOD: Final = 12
MARKER: Final = re.compile(r"\[redacted: ([^\]]{1,60})\]")
# Payloads are JSON in UTF-8: what is cut out of the middle of a character is dropped when decoded.
_STEPS: Final = f"""
    SELECT e.seq, e.ts, e.type, n.name, e.failed, e.last_same, e.same_result, e.tokens, e.cost_usd,
        e.duration_ms, substr(p.input_json, 1, {4 * _SNIPPET_CHARS}),
        substr(p.output_json, 1, {4 * _SNIPPET_CHARS}), p.error
    FROM events e CROSS JOIN names n ON n.id = e.name LEFT JOIN payloads p ON p.id = e.payload
    WHERE e.run = ?"""
_PAYLOADS: Final = f"""
    SELECT substr(p.input_json, 1, {_SHOWN_BYTES}), length(p.input_json),
        substr(p.output_json, 1, {_SHOWN_BYTES}), length(p.output_json),
        substr(p.metadata_json, 1, {_SHOWN_BYTES}), length(p.metadata_json), p.error, p.call_id, e.payload,
        e.event_id
    FROM events e LEFT JOIN payloads p ON p.id = e.payload WHERE e.run = ? AND e.seq = ?"""
_ONLY: Final = {"failed": "e.failed = 1", "repeated": "e.last_same IS NOT NULL"}


def list_steps(
    connection: Connection, key: int, before: int | None, only: str | None, limit: int
) -> StepPage:
    """Return steps of a run, newest first."""
    run = read_run(connection, key)
    responses = _read_responses(connection, run)
    places = {tool.name: place for place, tool in enumerate(read_tools(connection, run))}
    condition, values = "", [key]
    if before is not None:
        condition += " AND e.seq < ?"
        values.append(before - 1)
    if only == "responses":
        condition += f" AND e.seq IN ({', '.join(str(seq) for seq in responses) or 'NULL'})"
    elif only is not None:
        condition += f" AND {_ONLY[only]}"
    query = f"{_STEPS}{condition} ORDER BY e.seq DESC LIMIT ?"
    rows = connection.execute(query, (*values, limit + 1)).fetchall()
    steps = [_to_step(connection, run, row, places, responses) for row in rows[:limit]]
    (repeated,) = connection.execute("SELECT repeated FROM runs WHERE id = ?", (key,)).fetchone()
    return StepPage(
        steps=steps,
        next=steps[-1].step if len(rows) > limit else None,
        counts=[
            Count(name="failed", count=run.errors),
            Count(name="repeated", count=repeated),
            Count(name="responses", count=len(responses)),
        ],
    )


def _read_responses(connection: Connection, run: RunRow) -> dict[int, str]:
    return {
        intervention.seq: make_response(intervention).response
        for episode in (read_episodes(connection, run) if run.incidents else ())
        for intervention in episode.interventions
        if intervention.said
    }


def _to_step(
    connection: Connection,
    run: RunRow,
    row: Sequence[Any],
    places: dict[str, int],
    responses: dict[int, str],
) -> StepRow:
    seq, ts, code, name, failed, last_same, same_result, tokens, cost_usd, duration_ms = row[:10]
    arguments, result, error = row[10:]
    return StepRow(
        step=seq + 1,
        at=ts,
        kind=KINDS.get(code, "state"),
        name=name,
        tool=places.get(name, -1) if code == 0 else -1,
        failed=bool(failed),
        last_same=0 if last_same is None else last_same + 1,
        same_result=-1 if same_result is None else same_result,
        response=responses.get(seq, ""),
        arguments=_to_text(arguments)[:_SNIPPET_CHARS],
        result=(_to_text(result) or error or "")[:_SNIPPET_CHARS],
        tokens=tokens,
        cost_usd=cost_usd,
        duration_ms=duration_ms,
        score=read_score_at(connection, run.key, seq),
    )


def _to_text(data: bytes | str | None) -> str:
    if data is None:
        return ""
    return data if isinstance(data, str) else bytes(data).decode("utf-8", "ignore")


def make_payload(data: bytes | str | None, size: int | None) -> Payload | None:
    """Return a payload as stored, the beginning of a long one."""
    if data is None or size is None:
        return None
    text = _to_text(data)
    rules = sorted(set(MARKER.findall(text)))
    return Payload(text=text, size=size, clipped=size > _SHOWN_BYTES, redacted=rules)


def read_step(connection: Connection, key: int, step: int) -> StepDetail:
    """Return one step with its payloads; raises NotFoundError."""
    run = read_run(connection, key)
    row = connection.execute(f"{_STEPS} AND e.seq = ?", (key, step - 1)).fetchone()
    if row is None:
        raise NotFoundError(f"The run has no step {step}.")
    payloads = connection.execute(_PAYLOADS, (key, step - 1)).fetchone()
    places = {tool.name: place for place, tool in enumerate(read_tools(connection, run))}
    point = connection.execute(
        "SELECT goal, loop, budget, quality, stuck FROM scores WHERE run = ? AND seq <= ?"
        " ORDER BY seq DESC LIMIT 1",
        (key, step - 1),
    ).fetchone()
    names = ("goal", "loop", "budget", "quality", "stuck")
    return StepDetail(
        step=_to_step(connection, run, row, places, _read_responses(connection, run)),
        event_id=payloads[9] or f"{run.run_id}.{step - 1}",
        call_id=payloads[7],
        error=payloads[6],
        arguments=make_payload(*payloads[0:2]),
        result=make_payload(*payloads[2:4]),
        metadata=make_payload(*payloads[4:6]),
        contributions=list(zip(names, point or (None,) * 5, strict=True)),
        pruned=payloads[8] is None and row[2] == 0,
    )


def read_recurrence(connection: Connection, key: int, first: int | None, last: int | None) -> Recurrence:
    """Return which steps of a selection are the same call, and which have the same result."""
    run = read_run(connection, key)
    places = {tool.name: place for place, tool in enumerate(read_tools(connection, run))}
    (end,) = connection.execute("SELECT coalesce(max(seq), -1) FROM events WHERE run = ?", (key,)).fetchone()
    since, until = max(0, (first or 1) - 1), min(end, (last or end + 1) - 1)
    rows = connection.execute(
        "SELECT e.seq, e.type, n.name, e.call_hash, e.result_hash FROM events e"
        " CROSS JOIN names n ON n.id = e.name WHERE e.run = ? AND e.seq >= ? AND e.seq <= ? ORDER BY e.seq"
        " LIMIT 20000",
        (key, since, until),
    ).fetchall()
    width = max(1, -(-len(rows) // _MATRIX))
    entries = [_summarise(rows[place : place + width]) for place in range(0, len(rows), width)]
    calls: dict[Any, int] = {}
    results: dict[Any, int] = {}
    call = [-1 if it[2] is None else calls.setdefault(it[2], len(calls)) for it in entries]
    result = [-1 if it[2] is None else results.setdefault(it[2:4], len(results)) for it in entries]
    made = Counter(row[3] for row in rows if row[1] == 0)
    same = Counter(row[3:5] for row in rows if row[1] == 0)
    repeated = sum(count - 1 for count in made.values())
    period = _find_period([row[3] for row in rows if row[1] == 0])
    total = sum(made.values())
    return Recurrence(
        first=since + 1,
        last=until + 1,
        per_entry=width,
        step=[it[0] + 1 for it in entries],
        tool=[-1 if it[2] is None else places.get(it[1], -1) for it in entries],
        call=call,
        result=result,
        same_call_pairs=_count_pairs(made),
        same_result_pairs=_count_pairs(same),
        repeated_share=round(repeated / total, 4) if total else None,
        period=period,
        sentence=_describe(repeated, total, period),
    )


def _summarise(rows: Sequence[tuple[Any, ...]]) -> tuple[int, str, int | None, int]:
    """Return the place of the first step, and the most frequent call of several."""
    calls = [row for row in rows if row[1] == 0]
    if not calls:
        return rows[0][0], "", None, 0
    ((name, call_hash, result_hash), _) = Counter(row[2:5] for row in calls).most_common(1)[0]
    return rows[0][0], name, call_hash, result_hash


def _count_pairs(counts: Counter[Any]) -> int:
    return sum(count * (count - 1) // 2 for count in counts.values())


def _find_period(calls: Sequence[int]) -> int | None:
    """Return the distance at which most calls come back, if at least a third of them do."""
    best, matched = None, len(calls) / 3
    for period in range(1, min(_LONGEST_PERIOD, len(calls) // 2) + 1):
        same = sum(calls[place] == calls[place - period] for place in range(period, len(calls)))
        if same > matched:
            best, matched = period, same
    return best


def _describe(repeated: int, total: int, period: int | None) -> str:
    if not total:
        return "No call in this selection."
    if not repeated:
        return f"Blank: none of the {total:,} calls repeats another."
    if period == 1:
        return f"A grid: one call is repeated; {repeated:,} of {total:,} calls repeat another."
    if period is not None:
        return f"Parallel diagonals: a cycle of {period} calls; {repeated:,} of {total:,} repeat another."
    return f"{repeated:,} of {total:,} calls repeat another, without a regular cycle."
