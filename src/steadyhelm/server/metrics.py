"""Figures for Prometheus: few, and bounded however many agents there are."""

import time
from typing import Final

from steadyhelm.server.context import ServerContext
from steadyhelm.server.queries.inbox import count_open

_TYPES: Final = "# HELP {name} {about}\n# TYPE {name} {kind}\n"


def write_metrics(context: ServerContext) -> str:
    """Return the metrics as text."""
    store = context.store
    info = store.describe()
    now = time.time()
    with context.views.reading() as connection:
        opened = count_open(context.views, connection, now)
        (running,) = connection.execute(
            "SELECT count(*) FROM runs INDEXED BY runs_not_ended WHERE state != 'ended' AND state = 'running'"
        ).fetchone()
        (last_at,) = connection.execute("SELECT max(last_at) FROM agents").fetchone()
    names = ("low", "medium", "high", "critical")
    lines = [
        _write("steadyhelm_runs", "gauge", "runs that are stored", info["rows"]["runs"]),
        _write("steadyhelm_events", "gauge", "steps that are stored", info["rows"]["events"]),
        _write("steadyhelm_runs_running", "gauge", "runs that have not ended", running),
        _write("steadyhelm_database_bytes", "gauge", "the size of the database", info["bytes"]),
        _write("steadyhelm_streams", "gauge", "live streams that are open", context.count_streams()),
        _write_by(
            "steadyhelm_open_incidents",
            "gauge",
            "incidents that nobody has dealt with, by severity",
            "severity",
            {names[rank]: count for rank, count in opened.items()},
        ),
        _write_by("steadyhelm_lost_total", "counter", "lost records by reason", "reason", store.get_losses()),
    ]
    if last_at is not None:
        age = max(0.0, now - last_at)
        lines.append(_write("steadyhelm_last_step_age_seconds", "gauge", "since the newest step", age))
    return "".join(lines)


def _write(name: str, kind: str, about: str, value: float) -> str:
    return _TYPES.format(name=name, kind=kind, about=about) + f"{name} {value}\n"


def _write_by(name: str, kind: str, about: str, label: str, values: dict[str, int]) -> str:
    rows = [f'{name}{{{label}="{_escape(key)}"}} {value}\n' for key, value in sorted(values.items())]
    return _TYPES.format(name=name, kind=kind, about=about) + "".join(rows)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
