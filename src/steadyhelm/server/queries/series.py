"""The four lanes of the run page: steps, drift score, loops and budget, down-sampled to 2,000 points."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.decisions import DriftAction, Intervention
from steadyhelm.incidents import Incident
from steadyhelm.server.queries.budget_lanes import read_lanes
from steadyhelm.server.queries.normal import read_bands
from steadyhelm.server.queries.rows import find_seqs, make_loop_badge, make_response
from steadyhelm.server.queries.runs import list_unknown, read_run, read_tools
from steadyhelm.server.records.common import RunRow
from steadyhelm.server.records.runs import (
    Bracket,
    ColumnSeries,
    Marker,
    RunSeries,
    ScoreSeries,
    StepKind,
    StepSeries,
    StepSpan,
    ToolUse,
)
from steadyhelm.stores.database import Connection
from steadyhelm.stores.sql import SEVERITIES, decode_evidence

MOST_POINTS: Final = 2000
NAMED_TOOLS: Final = 7
_INCIDENTS: Final = 100
_USER: Final = 3
_REPLAN_LEVEL: Final = DriftAction.SUMMARIZE_REPLAN.level
_BEFORE_NEXT_MESSAGE: Final = (
    "SELECT coalesce(min(seq) - 1, ?) FROM events WHERE run = ? AND seq > ? AND type = ?"
)
KINDS: Final[dict[int, StepKind]] = {0: "tool", 1: "reply", _USER: "user"}
_ROWS: Final = """
    SELECT e.seq, e.ts, e.type, n.name, e.failed, e.last_same, e.same_result, e.tokens, e.cost_usd
    FROM events e CROSS JOIN names n ON n.id = e.name
    WHERE e.run = ? AND e.seq >= ? AND e.seq <= ? ORDER BY e.seq"""
_SCORES: Final = """
    SELECT s.seq, coalesce(e.ts, 0), s.score, s.goal, s.loop, s.budget, s.quality, s.stuck
    FROM scores s LEFT JOIN events e ON e.run = s.run AND e.seq = s.seq
    WHERE s.run = ? AND s.seq >= ? AND s.seq <= ?"""
_EXTREMES: Final = """
    SELECT s.seq, coalesce(e.ts, 0), s.score, s.goal, s.loop, s.budget, s.quality, s.stuck
    FROM (SELECT *,
            row_number() OVER (PARTITION BY (seq - {begin}) / {width} ORDER BY score DESC, seq) AS from_top,
            row_number() OVER (PARTITION BY (seq - {begin}) / {width} ORDER BY score, seq) AS from_bottom
        FROM scores WHERE run = ? AND seq >= ? AND seq <= ? AND score IS NOT NULL) s
    LEFT JOIN events e ON e.run = s.run AND e.seq = s.seq
    WHERE s.from_top = 1 OR s.from_bottom = 1 ORDER BY s.seq"""
_BITS: Final = 63


class Episode(NamedTuple):
    """An incident of the run, with the places of its evidence."""

    incident_id: str
    kind: str
    pattern: str
    seqs: list[int]
    first: int
    last: int
    interventions: tuple[Intervention, ...]
    message: str
    repeats: int = 0


def read_series(
    connection: Connection, key: int, first: int | None, last: int | None, most: int
) -> RunSeries:
    """Return the lanes of a run for these steps, counted from 1; all of them unless given."""
    run = read_run(connection, key)
    (end,) = connection.execute("SELECT coalesce(max(seq), -1) FROM events WHERE run = ?", (key,)).fetchone()
    since = max(0, (first or 1) - 1)
    until = min(end, (last or end + 1) - 1)
    tools = read_tools(connection, run)
    episodes = read_episodes(connection, run)
    is_whole = until - since + 1 <= most
    points = _read_points(connection, run, tools, episodes, since, until) if is_whole else None
    columns = None if is_whole else _read_columns(connection, run, tools, episodes, since, until, most)
    bands = read_bands(connection, run.agent.key, run.version, run.task_type, but=key)
    return RunSeries(
        run=key,
        steps=end + 1,
        first=since + 1,
        last=until + 1,
        started_at=run.started_at,
        version=run.steps,
        points=points,
        columns=columns,
        score=_read_score(connection, run, since, until, most),
        band=bands.get("drift"),
        budgets=read_lanes(connection, run, since, until, most, bands),
        brackets=_draw_brackets(episodes),
        markers=_read_markers(connection, run, episodes),
        not_run=_find_steps_not_run(connection, run, episodes, end),
    )


def read_episodes(connection: Connection, run: RunRow) -> list[Episode]:
    """Return the incidents of a run in order, with the places of their evidence."""
    rows = connection.execute(
        "SELECT incident_id, kind, pattern, evidence, opened_seq, last_seq, detector, severity, message,"
        " repeats"
        " FROM incidents WHERE run = ? ORDER BY opened_seq, id LIMIT ?",
        (run.key, _INCIDENTS),
    ).fetchall()
    found = []
    for incident_id, kind, pattern, evidence, opened, last, detector, severity, message, repeats in rows:
        stored = decode_evidence(evidence)
        incident = Incident(
            incident_id=incident_id,
            agent_id=run.agent.name,
            run_id=run.run_id,
            detector=detector,
            kind=kind,
            severity=SEVERITIES[severity],
            peak=0.0,
            message=message,
            suggested_action="",
            opened_at=0.0,
            opened_seq=opened,
            last_at=0.0,
            last_seq=last,
            event_ids=stored.event_ids,
        )
        seqs = find_seqs(connection, run.key, incident)
        first = min([opened, *seqs])
        found.append(
            Episode(incident_id, kind, pattern, seqs, first, last, stored.interventions, message, repeats)
        )
    return found


def _read_points(
    connection: Connection,
    run: RunRow,
    tools: Sequence[ToolUse],
    episodes: Sequence[Episode],
    since: int,
    until: int,
) -> StepSeries:
    places = {tool.name: place for place, tool in enumerate(tools)}
    inside = _cover(episodes, since, until)
    rows = connection.execute(_ROWS, (run.key, since, until)).fetchall()
    return StepSeries(
        step=[row[0] + 1 for row in rows],
        at=[round(row[1] - run.started_at, 3) for row in rows],
        kind=[KINDS.get(row[2], "state") for row in rows],
        tool=[places.get(row[3], -1) if row[2] == 0 else -1 for row in rows],
        failed=[row[4] for row in rows],
        last_same=[0 if row[5] is None else row[5] + 1 for row in rows],
        same_result=[-1 if row[6] is None else row[6] for row in rows],
        incident=[int(row[0] in inside) for row in rows],
        tokens=[row[7] for row in rows],
        cost_usd=[row[8] for row in rows],
    )


def _cover(episodes: Sequence[Episode], since: int, until: int) -> set[int]:
    covered: set[int] = set()
    for episode in episodes:
        covered.update(range(max(since, episode.first), min(until, episode.last) + 1))
    return covered


def _read_columns(
    connection: Connection,
    run: RunRow,
    tools: Sequence[ToolUse],
    episodes: Sequence[Episode],
    since: int,
    until: int,
    most: int,
) -> ColumnSeries:
    width = -(-(until - since + 1) // most)
    ids = _find_name_ids(connection, [tool.name for tool in tools[:NAMED_TOOLS]])
    inside = " OR ".join(f"seq BETWEEN {it.first} AND {it.last}" for it in episodes) or "0 = 1"
    counts = PackedCountColumns(
        [*(f"type = 0 AND name = {name}" for name in ids), "type = 0", "type = 1", "type = 3", "type != 0"],
        ["failed != 0", "last_same IS NOT NULL", f"last_same IS NOT NULL AND ({inside})"],
        width,
    )
    rows = connection.execute(
        f"""SELECT (seq - ?) / ?, min(ts), {", ".join(counts.sums)}
        FROM events WHERE run = ? AND seq >= ? AND seq <= ? GROUP BY 1 ORDER BY 1""",
        (since, width, run.key, since, until),
    ).fetchall()
    columns = [counts.unpack(row[2:]) for row in rows]
    return ColumnSeries(
        first=[since + row[0] * width + 1 for row in rows],
        last=[min(since + (row[0] + 1) * width - 1, until) + 1 for row in rows],
        at=[round(row[1] - run.started_at, 3) for row in rows],
        calls=[column[:-6] for column in columns],
        replies=[column[-6] for column in columns],
        users=[column[-5] for column in columns],
        states=[column[-4] for column in columns],
        failed=[column[-3] for column in columns],
        repeated=[column[-2] for column in columns],
        repeated_inside=[column[-1] for column in columns],
    )


def _find_name_ids(connection: Connection, names: Sequence[str]) -> list[int]:
    found = []
    for name in names:
        row = connection.execute("SELECT id FROM names WHERE name = ?", (name,)).fetchone()
        found.append(-1 if row is None else int(row[0]))
    return found


def _read_score_rows(
    connection: Connection, run: int, since: int, until: int, most: int
) -> Sequence[Sequence[Any]]:
    """Return the scores where they change; where there are more than so many, the extremes of each span."""
    # The score that holds at the first step may have been set before it.
    sql = "SELECT max(seq) FROM scores WHERE run = ? AND seq <= ?"
    (latest,) = connection.execute(sql, (run, since)).fetchone()
    begin = since if latest is None else latest
    values = (run, begin, until)
    sql = "SELECT count(*) FROM scores WHERE run = ? AND seq >= ? AND seq <= ?"
    (count,) = connection.execute(sql, values).fetchone()
    if count <= most:
        return connection.execute(f"{_SCORES} ORDER BY s.seq", values).fetchall()
    width = -(-(until - begin + 1) // (most // 2))
    return connection.execute(_EXTREMES.format(begin=begin, width=width), values).fetchall()


def _read_score(connection: Connection, run: RunRow, since: int, until: int, most: int) -> ScoreSeries:
    rows = _read_score_rows(connection, run.key, since, until, most)
    return ScoreSeries(
        step=[max(row[0], since) + 1 for row in rows],
        at=[round(row[1] - run.started_at, 3) for row in rows],
        score=[row[2] for row in rows],
        goal=[row[3] for row in rows],
        loop=[row[4] for row in rows],
        budget=[row[5] for row in rows],
        quality=[row[6] for row in rows],
        stuck=[row[7] for row in rows],
        not_checked=list_unknown(connection, run.key),
    )


def _draw_brackets(episodes: Sequence[Episode]) -> list[Bracket]:
    loops = [it for it in episodes if it.kind == "loop"]
    brackets = []
    # The longest lies lowest; a bracket goes to the first level where it has room.
    rows: list[list[Episode]] = []
    for episode in sorted(loops, key=lambda it: (it.first - it.last, it.first)):
        level = next((n for n, row in enumerate(rows) if not _overlaps(episode, row)), len(rows))
        if level == len(rows):
            rows.append([])
        rows[level].append(episode)
        brackets.append(_make_bracket(episode, level))
    return sorted(brackets, key=lambda it: it.first)


def _make_bracket(episode: Episode, level: int) -> Bracket:
    badge = make_loop_badge(episode.pattern, episode.repeats, len(episode.seqs))
    return Bracket(
        incident_id=episode.incident_id,
        first=episode.first + 1,
        last=episode.last + 1,
        proof=[seq + 1 for seq in episode.seqs],
        tools=badge.tools,
        words=f"{badge.count:,}\N{MULTIPLICATION SIGN}{_name_outcome(episode.message)}",
        level=level,
    )


def _name_outcome(message: str) -> str:
    """Return what all calls of a loop came to, as its message says it."""
    return next((f" with {it}" for it in ("the same error", "the same result") if it in message), "")


def _overlaps(episode: Episode, row: Sequence[Episode]) -> bool:
    return any(episode.first <= other.last and other.first <= episode.last for other in row)


def _read_markers(connection: Connection, run: RunRow, episodes: Sequence[Episode]) -> list[Marker]:
    markers = [
        _make_marker(connection, run, episode.incident_id, intervention)
        for episode in episodes
        for intervention in episode.interventions
        if intervention.said
    ]
    return sorted(markers, key=lambda it: it.step)


def _make_marker(connection: Connection, run: RunRow, incident_id: str, delivered: Intervention) -> Marker:
    made = make_response(delivered)
    return Marker(
        step=made.step,
        at=round(delivered.timestamp - run.started_at, 3),
        response=made.response,
        outcome=made.outcome,
        incident_id=incident_id,
        before=read_score_at(connection, run.key, delivered.seq),
        after=read_score_at(connection, run.key, delivered.settled_seq),
    )


def _find_steps_not_run(
    connection: Connection, run: RunRow, episodes: Sequence[Episode], end: int
) -> StepSpan | None:
    """Return the steps of a recording that would not have run, had the agent made a new plan when it was due.

    They end before the user's next message. A run that goes on, or in which anything was said to the agent,
    is no recording.
    """
    made = [intervention for episode in episodes for intervention in episode.interventions]
    if run.state in {"running", "waiting"} or any(it.said for it in made):
        return None
    due = min((it.seq for it in made if it.action.level >= _REPLAN_LEVEL), default=None)
    if due is None or due >= end:
        return None
    (until,) = connection.execute(_BEFORE_NEXT_MESSAGE, (end, run.key, due, _USER)).fetchone()
    return StepSpan(first=due + 2, last=until + 1) if until > due else None


def read_score_at(connection: Connection, run: int, seq: int | None) -> float | None:
    """Return the drift score that held at a place; None when it is not known."""
    if seq is None:
        return None
    row: tuple[Any, ...] | None = connection.execute(
        "SELECT score FROM scores WHERE run = ? AND seq <= ? ORDER BY seq DESC LIMIT 1", (run, seq)
    ).fetchone()
    return None if row is None else row[0]


class PackedCountColumns:
    """Counts of conditions, several in one integer: sums are most of what a long run's columns cost.

    Args:
        exclusive: Conditions of which at most one holds for a row: the first that does is counted.
        flags: Conditions that are counted each on its own.
        most: How many rows are counted at most.

    >>> counts = PackedCountColumns(["type = 1"], ["failed"], most=3)
    >>> counts.sums
    ['sum((CASE WHEN type = 1 THEN 1 ELSE 0 END) + (CASE WHEN failed THEN 4 ELSE 0 END))']
    >>> counts.unpack([2 + 3 * 4])
    [2, 3]
    """

    def __init__(self, exclusive: Sequence[str], flags: Sequence[str], most: int) -> None:
        self._width = max(1, most.bit_length())
        self._each = _BITS // self._width
        self._count = len(exclusive) + len(flags)
        self.sums: list[str] = []
        for start in range(0, self._count, self._each):
            place = range(start, min(start + self._each, self._count))
            ones = {at: 1 << self._width * (at - start) for at in place}
            cases = [f"WHEN {exclusive[at]} THEN {ones[at]}" for at in place if at < len(exclusive)]
            terms = [f"(CASE {' '.join(cases)} ELSE 0 END)"] if cases else []
            terms += [
                f"(CASE WHEN {flags[at - len(exclusive)]} THEN {ones[at]} ELSE 0 END)"
                for at in place
                if at >= len(exclusive)
            ]
            self.sums.append(f"sum({' + '.join(terms)})")

    def unpack(self, values: Sequence[int]) -> list[int]:
        """Return the counts of one row of sums, in the order of the conditions."""
        mask = (1 << self._width) - 1
        return [
            values[at // self._each] >> self._width * (at % self._each) & mask for at in range(self._count)
        ]
