"""What is left of a run's budgets, step by step, and when they will be used up."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from steadyhelm.server.records.common import Band, RunRow
from steadyhelm.server.records.runs import BudgetLane, Extension, Forecast, Meter
from steadyhelm.stores.database import Connection

_P10_Z: Final = 1.2816
_LEAST_FOR_FORECAST: Final = 5
_RECENT: Final = 20
_SPENT: Final = """
    SELECT max(seq), max(ts), count(*) FILTER (WHERE type = 0), sum(tokens),
        coalesce(sum(cost_usd), 0.0), coalesce(sum(waited), 0.0)
    FROM (SELECT seq, ts, type, tokens, cost_usd,
        CASE WHEN type = 3 THEN 0.0 ELSE max(0.0, ts - lag(ts, 1, ts) OVER (ORDER BY seq)) END AS waited
        FROM events WHERE run = ? AND seq <= ?) waits
    GROUP BY seq / ? ORDER BY 1"""


class _Meter(NamedTuple):
    """A budget: its column in `limits`, its place in `_SPENT`, and the band of clean runs."""

    name: Meter
    column: str
    place: int
    band: str


_METERS: Final = (
    _Meter("tokens", "tokens", 3, "tokens"),
    _Meter("cost", "cost_usd", 4, "cost_usd"),
    _Meter("steps", "steps", 2, ""),
    _Meter("time", "wall_s", 5, ""),
)


def read_lanes(
    connection: Connection,
    run: RunRow,
    since: int,
    until: int,
    most: int,
    bands: Mapping[str, Band],
) -> list[BudgetLane]:
    """Return a lane for each budget of the run that has a limit."""
    changes = connection.execute(
        "SELECT seq, steps, tokens, cost_usd, wall_s, reserve FROM limits WHERE run = ?"
        " ORDER BY seq LIMIT 500",
        (run.key,),
    ).fetchall()
    if not changes:
        return []
    width = max(1, -(-(until - since + 1) // most))
    spent = connection.execute(_SPENT, (run.key, until, width)).fetchall()
    names = ("seq", "steps", "tokens", "cost_usd", "wall_s", "reserve")
    limits = [dict(zip(names, row, strict=True)) for row in changes]
    return [
        _make_lane(run, meter, limits, spent, since, bands.get(meter.band))
        for meter in _METERS
        if any(it[meter.column] is not None for it in limits)
    ]


def _make_lane(
    run: RunRow,
    meter: _Meter,
    limits: Sequence[Mapping[str, float]],
    spent: Sequence[Sequence[float]],
    since: int,
    band: Band | None,
) -> BudgetLane:
    known = [it for it in limits if it[meter.column] is not None]
    used, step, at, left = 0.0, [], [], []
    place = 0
    for row in spent:
        used += row[meter.place]
        while place + 1 < len(known) and known[place + 1]["seq"] <= row[0]:
            place += 1
        if row[0] >= since:
            step.append(int(row[0]) + 1)
            at.append(round(row[1] - run.started_at, 3))
            left.append(round(max(0.0, known[place][meter.column] - used), 6))
    limit = known[-1][meter.column]
    rates = [row[meter.place] for row in spent[-_RECENT:]]
    is_live = run.state == "running"
    return BudgetLane(
        meter=meter.name,
        start=known[0][meter.column],
        limit=limit,
        reserve=round(limit * known[-1]["reserve"], 6),
        step=step,
        at=at,
        left=left,
        extensions=[
            Extension(
                step=int(after["seq"]) + 1,
                limit=after[meter.column],
                reason="more" if after[meter.column] > before[meter.column] else "less",
            )
            for before, after in itertools.pairwise(known)
            if after[meter.column] != before[meter.column]
        ],
        band=band,
        forecast=_forecast(rates, limit - used, spent) if is_live else None,
    )


def _forecast(rates: Sequence[float], left: float, spent: Sequence[Sequence[float]]) -> Forecast | None:
    """Return at which step nothing is left at the rate of the latest steps; None while it is not known."""
    if len(rates) < _LEAST_FOR_FORECAST or left <= 0:
        return None
    mean = sum(rates) / len(rates)
    if mean <= 0:
        return None
    deviation = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / len(rates))
    width = (spent[-1][0] - spent[0][0]) / max(1, len(spent) - 1) or 1.0
    further = left / mean
    spread = _P10_Z * deviation / math.sqrt(max(1.0, further))
    now = spent[-1][0] + 1
    slow = max(mean - spread, mean / 4)
    return Forecast(
        p10=round(now + width * left / (mean + spread), 2),
        p50=round(now + width * further, 2),
        p90=round(now + width * left / slow, 2),
    )
