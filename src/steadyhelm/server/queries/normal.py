"""What is normal for an agent: quantiles over its latest clean runs, per run and along a run."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from collections.abc import Sequence
from typing import Final

from steadyhelm.server.records.common import Band, Range
from steadyhelm.stores.database import Connection

CLEAN_RUNS: Final = 50
_LEAST_RUNS: Final = 5

MEASURES: Final = {
    "steps": "events",
    "drift": "top_score",
    "tokens": "tokens",
    "cost_usd": "nullif(cost_usd, 0)",
    "duration_s": "last_at - started_at",
    "failed": "errors",
    "repeats": "repeated",
    "repeated_share": "CAST(repeated AS REAL) / nullif(tool_calls, 0)",
    "reply_length": "CAST(reply_bytes AS REAL) / nullif(llm_calls, 0)",
}
"""The figures of one run, in SQL."""

_CLEAN: Final = """
    FROM runs WHERE agent = ? AND version = ? AND task_type = ? AND teaches = 1 AND id != ?
    ORDER BY id DESC LIMIT ?"""


def read_ranges(
    connection: Connection, agent: int, version: str, task_type: str, *, but: int = 0
) -> dict[str, Range]:
    """Return the normal range of each measure, where enough clean runs are known; `but` is left out."""
    columns = ", ".join(MEASURES.values())
    values = (agent, version, task_type, but, CLEAN_RUNS)
    rows = connection.execute(f"SELECT {columns} {_CLEAN}", values).fetchall()
    ranges = {}
    for place, name in enumerate(MEASURES):
        found = make_range([row[place] for row in rows if row[place] is not None])
        if found is not None:
            ranges[name] = found
    return ranges


def make_range(values: Sequence[float]) -> Range | None:
    """Return the quantiles of these values; None for fewer than five."""
    if len(values) < _LEAST_RUNS:
        return None
    ordered = sorted(values)
    return Range(
        p5=find_quantile(ordered, 0.05),
        p50=find_quantile(ordered, 0.5),
        p95=find_quantile(ordered, 0.95),
        runs=len(ordered),
    )


def find_quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, between the two nearest.

    >>> find_quantile([1.0, 2.0, 3.0], 0.25)
    1.5
    """
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return round(ordered[below] + (ordered[above] - ordered[below]) * (place - below), 6)


def read_bands(
    connection: Connection, agent: int, version: str, task_type: str, *, but: int = 0
) -> dict[str, Band]:
    """Return the bands of drift, tokens and cost along a run, where enough clean runs are known."""
    rows = connection.execute(
        "SELECT step, score, tokens, cost_usd FROM run_marks"
        f" WHERE run IN (SELECT id {_CLEAN}) ORDER BY step",
        (agent, version, task_type, but, CLEAN_RUNS),
    ).fetchall()
    bands = {}
    for place, name in enumerate(("drift", "tokens", "cost_usd"), start=1):
        found = _make_band([(row[0], row[place]) for row in rows if row[place] is not None])
        if found is not None:
            bands[name] = found
    return bands


def _make_band(points: Sequence[tuple[int, float]]) -> Band | None:
    by_step: dict[int, list[float]] = {}
    for step, value in points:
        by_step.setdefault(step, []).append(value)
    ranges = {step: make_range(values) for step, values in by_step.items()}
    known = {step: found for step, found in ranges.items() if found is not None}
    if not known:
        return None
    return Band(
        steps=list(known),
        p5=[it.p5 for it in known.values()],
        p50=[it.p50 for it in known.values()],
        p95=[it.p95 for it in known.values()],
        runs=[it.runs for it in known.values()],
    )
