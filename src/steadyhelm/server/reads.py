"""The handlers of every GET, and of what is only tried out."""

import math
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import msgspec

from steadyhelm import __version__
from steadyhelm.components import make_redactor
from steadyhelm.engine.health import select_losses
from steadyhelm.errors import NotFoundError
from steadyhelm.server.context import Call
from steadyhelm.server.queries import agents as agent_queries
from steadyhelm.server.queries import incidents as incident_queries
from steadyhelm.server.queries import judged, series, steps, why
from steadyhelm.server.queries import overview as overview_queries
from steadyhelm.server.queries import runs as run_queries
from steadyhelm.server.queries import search as search_queries
from steadyhelm.server.records import agents, common, incidents, overview, runs, settings
from steadyhelm.store import RunStore
from steadyhelm.store_rows import StoredRun
from steadyhelm.stores.database import Connection
from steadyhelm.stores.exports import build_run_line

MOST_ENTRIES: Final = 100
_ENTRIES: Final = 50
_LEAST_COLUMNS: Final = 50
_DAY_S: Final = 86_400.0
_LONGEST_TEXT: Final = 200
_OLDER: Final = """
    SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_by_start
    WHERE started_at < ? AND payloads >= ? LIMIT 10000) older"""


def _limit(call: Call) -> int:
    return max(1, min(MOST_ENTRIES, call.query.get("limit") or _ENTRIES))


def get_session(call: Call) -> settings.Session:
    """Return who is signed in."""
    assert call.identity is not None
    return settings.Session(
        by=call.identity.by,
        scopes=list(call.identity.scopes),
        expires_at=call.identity.expires_at,
        version=__version__,
        page=call.context.page_digest,
        public_url=call.context.settings.server_public_url,
        demo=call.context.is_demo,
    )


def sign_out(call: Call) -> common.Done:
    """End the session."""
    if call.cookie and call.identity is not None and call.identity.is_cookie:
        call.context.access.sign_out(call.cookie)
    return common.Done(message="Signed out.")


def get_overview(call: Call) -> overview.Overview:
    """Return the overview."""
    days = int(call.query.get("days") or 1)
    return overview_queries.read_overview(call.views, call.store, days, find_daily_limit(call))


def find_daily_limit(call: Call) -> float | None:
    """Return how many dollars an agent may spend a day; None for no limit."""
    limit = call.context.settings.budget_daily_cost_usd
    return float(limit) if limit else None


def search(call: Call) -> overview.SearchResults:
    """Return what begins with a text."""
    text = str(call.query.get("q") or "")[:_LONGEST_TEXT]
    if not text:
        return overview.SearchResults(query="", hits=[])
    with call.store.reading() as connection:
        return search_queries.search(connection, text)


def list_runs(call: Call) -> runs.RunList:
    """Return a page of runs."""
    asked = ("runs", repr(sorted(call.query.items())))
    with call.views.reading() as connection:
        # Every page that follows live asks for the same list after a change: it is read once.
        return call.views.keep(
            asked,
            0.0,
            lambda: (
                run_queries.list_runs(
                    call.views, connection, call.query, _limit(call), call.context.settings
                ),
                math.inf,
            ),
        )


def find_run(call: Call) -> runs.FoundRun:
    """Return the run an id belongs to."""
    found = call.store.find_run(str(call.query.get("run") or ""), agent_id=call.query.get("agent") or None)
    with call.store.reading() as connection:
        row = connection.execute(
            "SELECT r.id, a.id FROM runs r JOIN agents a ON a.id = r.agent"
            " WHERE r.run_id = ? AND a.agent_id = ?",
            (found.run_id, found.agent_id),
        ).fetchone()
    if row is None:
        raise NotFoundError("There is no such run.")
    return runs.FoundRun(
        key=row[0], run_id=found.run_id, agent=common.AgentName(key=row[1], name=found.agent_id)
    )


def get_run(call: Call) -> runs.RunDetail:
    """Return the head of the run page."""
    chosen = call.context.settings
    return run_queries.read_detail(call.store, chosen, call.path["run"], chosen.server_trace_url)


def get_judge_report(call: Call) -> runs.JudgingReport:
    """Return what a judge was asked about the latest runs, and what it changed."""
    query = call.query
    with call.store.reading() as connection:
        return judged.read_judging(
            connection, call.context.settings.judge, query.get("agent") or (), query.get("since")
        )


def get_run_series(call: Call) -> runs.RunSeries:
    """Return the lanes of a run."""
    query = call.query
    most = max(_LEAST_COLUMNS, min(series.MOST_POINTS, query.get("columns") or series.MOST_POINTS))
    with call.store.reading() as connection:
        return series.read_series(connection, call.path["run"], query.get("first"), query.get("last"), most)


def list_steps(call: Call) -> runs.StepPage:
    """Return steps of a run."""
    query = call.query
    with call.store.reading() as connection:
        return steps.list_steps(
            connection, call.path["run"], query.get("before"), query.get("only"), _limit(call)
        )


def get_step(call: Call) -> runs.StepDetail:
    """Return one step with its payloads."""
    with call.store.reading() as connection:
        return steps.read_step(connection, call.path["run"], call.path["step"])


def get_recurrence(call: Call) -> runs.Recurrence:
    """Return what the recurrence matrix is drawn from."""
    with call.store.reading() as connection:
        return steps.read_recurrence(
            connection, call.path["run"], call.query.get("first"), call.query.get("last")
        )


def write_run_file(call: Call) -> tuple[str, Iterator[bytes]]:
    """Return the name of a run's file, and its pieces: one line, read from the store as it is sent."""
    with call.store.reading() as connection:
        run = run_queries.read_run(connection, call.path["run"])
    row = call.store.find_run(run.run_id, agent_id=run.agent.name)
    metadata = call.store.get_run_metadata(run.agent.name, run.run_id)
    head = msgspec.json.encode(build_run_line(row, metadata, ()))
    assert head.endswith(b'"events":[]}')
    return f"run-{run.key}.jsonl", _iter_pieces(call.store, row, head.removesuffix(b"]}"))


def _iter_pieces(store: RunStore, row: StoredRun, head: bytes) -> Iterator[bytes]:
    """Yield a run's line, step by step, after its head up to the list of steps."""
    yield head
    separator = b""
    for recorded in store.iter_run_events(row.agent_id, row.run_id):
        (entry,) = build_run_line(row, {}, [recorded])["events"]
        yield separator + msgspec.json.encode(entry)
        separator = b","
    yield b"]}\n"


def list_groups(call: Call) -> incidents.GroupList:
    """Return a page of the inbox."""
    return incident_queries.list_groups(call.views, call.query, _limit(call))


def get_precision(call: Call) -> incidents.PrecisionList:
    """Return the precision of each detector."""
    with call.store.reading() as connection:
        return incident_queries.read_precision(connection, time.time())


def get_incident(call: Call) -> incidents.IncidentDetail:
    """Return the why card of an incident."""
    return why.read_incident(call.store, call.path["incident"])


def get_group(call: Call) -> incidents.GroupDetail:
    """Return the group of an incident."""
    return why.read_group(call.store, call.path["incident"])


def get_evidence(call: Call) -> incidents.EvidencePair:
    """Return the payloads of a pair of calls."""
    return why.read_evidence(call.store, call.path["incident"], call.query.get("pair"))


def get_agent(call: Call) -> agents.AgentDetail:
    """Return the agent page."""
    return agent_queries.read_agent(
        call.views, call.store, call.context.settings, call.path["agent"], find_daily_limit(call)
    )


def get_transitions(call: Call) -> agents.Transitions:
    """Return the transition graph of an agent."""
    query = call.query
    return agent_queries.read_transitions(
        call.store, call.path["agent"], query.get("version"), query.get("task_type")
    )


def get_metrics(call: Call) -> agents.Metrics:
    """Return the metrics of an agent."""
    with call.store.reading() as connection:
        return agent_queries.read_metrics(connection, call.path["agent"])


def list_settings(call: Call) -> settings.SettingList:
    """Return every setting with its source."""
    return settings.SettingList(settings=list(call.context.list_settings()), file=call.context.settings_file)


def get_health(call: Call) -> settings.Health:
    """Return how well Steadyhelm itself does."""
    now = time.time()
    info = call.store.describe()
    losses = select_losses(call.store.get_losses())
    with call.views.reading() as connection:
        (last_at,) = connection.execute("SELECT max(last_at) FROM agents").fetchone()
        not_checked = run_queries.list_not_checked(call.views, connection, MOST_ENTRIES)
        errors = connection.execute(
            "SELECT reason, sum(count), max(last_at) FROM losses"
            " WHERE reason >= 'error in ' AND reason < 'error in!' GROUP BY reason LIMIT 100"
        ).fetchall()
    is_error = {reason: reason.startswith("error") for reason in losses}
    return settings.Health(
        version=__version__,
        database=str(info["path"]),
        database_bytes=info["bytes"] + info.get("log_bytes", 0),
        runs=info["rows"]["runs"],
        events=info["rows"]["events"],
        behind_s=None if last_at is None else max(0.0, now - last_at),
        lost=[common.Count(name=name, count=n) for name, n in losses.items() if not is_error[name]],
        errors=[common.Count(name=name, count=n) for name, n in losses.items() if is_error[name]],
        not_checked=not_checked,
        detector_errors=[
            settings.DetectorError(detector=reason.removeprefix("error in "), count=count, last_at=at)
            for reason, count, at in errors
        ],
        streams=call.context.count_streams(),
        started_at=call.context.started_at,
    )


def list_channels(call: Call) -> settings.Channels:
    """Return the channels with their delivery log."""
    chosen = call.context.settings
    deliveries = call.store.list_deliveries(limit=_ENTRIES)
    url = chosen.alerts_webhook
    sent = [it.created_at for it in deliveries if it.state == "sent"]
    channel = settings.Channel(
        name="webhook",
        host=urlsplit(url).hostname or "",
        min_severity=chosen.alerts_min_severity,
        pending=sum(it.state == "pending" for it in deliveries),
        failed=sum(it.state == "failed" for it in deliveries),
        last_sent_at=max(sent, default=None),
    )
    return settings.Channels(
        channels=[channel] if url else [],
        deliveries=[
            settings.DeliveryRow(
                delivery_id=it.delivery_id,
                channel=it.channel,
                agent=it.agent_id,
                incident_id=it.incident_id,
                reason=it.reason,
                state=it.state,
                attempts=it.attempts,
                created_at=it.created_at,
                error=it.error,
            )
            for it in deliveries
        ],
    )


def list_keys(call: Call) -> settings.ApiKeys:
    """Return all API keys, without their secrets."""
    return settings.ApiKeys(
        keys=[
            settings.ApiKey(
                id=it.key_id,
                name=it.name,
                prefix=it.prefix,
                scopes=[scope for scope in it.scopes if scope in {"read", "operate", "admin"}],  # type: ignore[misc]
                created_at=it.created_at,
                expires_at=it.expires_at,
                last_used_at=it.last_used_at,
            )
            for it in call.store.list_keys()
        ]
    )


def get_retention(call: Call) -> settings.Retention:
    """Return how long things are kept, and how much there is."""
    chosen = call.context.settings
    info = call.store.describe()
    with call.store.reading() as connection:
        (oldest,) = connection.execute("SELECT min(started_at) FROM runs").fetchone()
        payloads_due = _count_due(connection, chosen.retention_payload_days, least_payloads=1)
        runs_due = _count_due(connection, chosen.retention_run_days, least_payloads=0)
    return settings.Retention(
        payload_days=chosen.retention_payload_days,
        run_days=chosen.retention_run_days,
        tables=[common.Count(name=name, count=count) for name, count in info["rows"].items()],
        bytes=info["bytes"],
        oldest_run_at=oldest,
        payloads_due=payloads_due,
        runs_due=runs_due,
    )


def _count_due(connection: Connection, days: float, *, least_payloads: int) -> int:
    """Return how many runs with so many payloads are older than these days; none where 0 keeps them."""
    before = time.time() - days * _DAY_S if days else 0.0
    (count,) = connection.execute(_OLDER, (before, least_payloads)).fetchone()
    return int(count)


def redact_text(call: Call) -> settings.Redacted:
    """Redact a text as a payload would be; it is not stored."""
    request: settings.RedactText = call.body
    chosen = call.context.settings
    redactor = make_redactor(chosen)
    text = redactor.redact_text(request.text)
    found: dict[str, int] = {}
    for rule in steps.MARKER.findall(text):
        found[rule] = found.get(rule, 0) + 1
    rules = [common.Count(name=name, count=count) for name, count in sorted(found.items())]
    return settings.Redacted(text=text, rules=rules)


def list_audit(call: Call) -> settings.Audit:
    """Return who changed what."""
    limit = _limit(call)
    found = call.store.list_audit(before=call.query.get("before"), limit=limit + 1)
    rows = [
        settings.AuditRow(
            id=it.entry_id, at=it.at, by=it.author, action=it.action, object=it.object, detail=it.detail
        )
        for it in found[:limit]
    ]
    return settings.Audit(rows=rows, next=rows[-1].id if len(found) > limit else None)
