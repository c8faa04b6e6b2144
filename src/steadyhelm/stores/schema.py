"""The tables, and the named migrations that create them.

Queries stay fast however much is stored: integers identify agents, runs and names; events are clustered by
run and seq and hold no text; arguments and results are in `payloads`; `runs` and `run_tools` hold totals
that are updated with each batch, so that no list ever counts events.

A migration that has been released is never changed: a new one is added after it.
"""

# ruff: noqa: S608 - every piece of these statements is our own text

from typing import Final

from msgspec import Struct

APPLICATION_ID: Final = 0x53544459
"""`STDY`, in the header of every database of ours."""


class Migration(Struct, frozen=True):
    """A named step from one schema to the next."""

    name: str
    statements: tuple[str, ...]


_RUNS: Final = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent INTEGER NOT NULL REFERENCES agents (id),
    run_id TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'running',
    started_at REAL NOT NULL,
    start_known INTEGER NOT NULL DEFAULT 0,
    last_at REAL NOT NULL,
    events INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0,
    tool_calls INTEGER NOT NULL DEFAULT 0,
    llm_calls INTEGER NOT NULL DEFAULT 0,
    errors INTEGER NOT NULL DEFAULT 0,
    duration_ms REAL NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0,
    payloads INTEGER NOT NULL DEFAULT 0,
    findings INTEGER NOT NULL DEFAULT 0,
    incidents INTEGER NOT NULL DEFAULT 0,
    peak REAL NOT NULL DEFAULT 0,
    had_incident INTEGER NOT NULL DEFAULT 0,
    teaches INTEGER NOT NULL DEFAULT 0,
    version TEXT NOT NULL DEFAULT '',
    task_type TEXT NOT NULL DEFAULT '',
    parent_run_id TEXT,
    outcome TEXT NOT NULL DEFAULT '',
    goal TEXT NOT NULL DEFAULT '',
    metadata_json BLOB,
    summary BLOB,
    epoch TEXT UNIQUE,
    taught INTEGER NOT NULL DEFAULT 0,
    pinned INTEGER REFERENCES pinned_baselines (id),
    pinned_seq INTEGER,
    UNIQUE (run_id, agent)
)"""

# `type` is a number for a kind of action we know, and minus a row of `names` for any other.
_EVENTS: Final = """
CREATE TABLE events (
    run INTEGER NOT NULL REFERENCES runs (id),
    seq INTEGER NOT NULL,
    type INTEGER NOT NULL,
    name INTEGER NOT NULL REFERENCES names (id),
    ts REAL NOT NULL,
    tokens INTEGER NOT NULL,
    duration_ms REAL NOT NULL,
    cost_usd REAL,
    started_seq INTEGER,
    call_hash INTEGER NOT NULL,
    result_hash INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    payload INTEGER,
    parent INTEGER REFERENCES names (id),
    event_id TEXT,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID"""

_INCIDENTS: Final = """
CREATE TABLE incidents (
    id INTEGER PRIMARY KEY,
    incident_id TEXT NOT NULL UNIQUE,
    agent INTEGER NOT NULL REFERENCES agents (id),
    run INTEGER NOT NULL REFERENCES runs (id),
    detector TEXT NOT NULL,
    kind TEXT NOT NULL,
    severity INTEGER NOT NULL,
    peak REAL NOT NULL,
    message TEXT NOT NULL,
    suggested_action TEXT NOT NULL,
    opened_at REAL NOT NULL,
    opened_seq INTEGER NOT NULL,
    last_at REAL NOT NULL,
    last_seq INTEGER NOT NULL,
    state TEXT NOT NULL,
    closed_at REAL,
    findings INTEGER NOT NULL,
    hard_limit INTEGER NOT NULL,
    evidence BLOB NOT NULL,
    review TEXT NOT NULL DEFAULT '',
    acknowledged_at REAL
)"""

_OUTBOX: Final = """
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id TEXT NOT NULL UNIQUE,
    agent_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    incident_id TEXT NOT NULL,
    detector TEXT NOT NULL,
    severity INTEGER NOT NULL,
    reason TEXT NOT NULL,
    channel TEXT NOT NULL,
    body BLOB NOT NULL,
    created_at REAL NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_at REAL NOT NULL,
    error TEXT NOT NULL
)"""

FIRST: Final = Migration(
    "0001-first",
    (
        """CREATE TABLE agents (
            id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL UNIQUE,
            runs INTEGER NOT NULL DEFAULT 0, last_at REAL NOT NULL DEFAULT 0)""",
        "CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
        """CREATE TABLE pinned_baselines (
            id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, content BLOB NOT NULL)""",
        _RUNS,
        "CREATE INDEX runs_by_pinned ON runs (pinned) WHERE pinned IS NOT NULL",
        "CREATE INDEX runs_by_start ON runs (started_at)",
        "CREATE INDEX runs_by_agent ON runs (agent, started_at)",
        "CREATE INDEX runs_by_activity ON runs (agent, last_at)",
        "CREATE INDEX runs_that_teach ON runs (agent, version, task_type) WHERE teaches = 1",
        _EVENTS,
        """CREATE TABLE payloads (
            id INTEGER PRIMARY KEY, input_json BLOB, output_json BLOB, metadata_json BLOB,
            error TEXT, call_id TEXT)""",
        """CREATE TABLE run_tools (
            run INTEGER NOT NULL REFERENCES runs (id), name INTEGER NOT NULL REFERENCES names (id),
            calls INTEGER NOT NULL, errors INTEGER NOT NULL, tokens INTEGER NOT NULL,
            duration_ms REAL NOT NULL, PRIMARY KEY (run, name)) WITHOUT ROWID""",
        """CREATE TABLE findings (
            id INTEGER PRIMARY KEY, agent INTEGER NOT NULL REFERENCES agents (id),
            run INTEGER NOT NULL REFERENCES runs (id), ts REAL NOT NULL, severity INTEGER NOT NULL,
            score REAL NOT NULL, detector TEXT NOT NULL, kind TEXT NOT NULL, event_id TEXT NOT NULL,
            message TEXT NOT NULL, suggested_action TEXT NOT NULL, context_json BLOB,
            UNIQUE (run, ts, event_id))""",
        "CREATE INDEX findings_by_time ON findings (ts, severity)",
        "CREATE INDEX findings_by_agent ON findings (agent, ts, severity)",
        _INCIDENTS,
        "CREATE INDEX incidents_open ON incidents (last_at) WHERE state = 'open'",
        "CREATE INDEX incidents_by_time ON incidents (last_at)",
        "CREATE INDEX incidents_by_agent ON incidents (agent, last_at)",
        "CREATE INDEX incidents_by_run ON incidents (run, last_at)",
        """CREATE TABLE mutes (agent_id TEXT, detector TEXT, until REAL NOT NULL, set_at REAL NOT NULL,
            PRIMARY KEY (agent_id, detector)) WITHOUT ROWID""",
        """CREATE TABLE thresholds (agent_id TEXT, detector TEXT, incident_id TEXT, min_score REAL NOT NULL,
            set_at REAL NOT NULL, PRIMARY KEY (agent_id, detector, incident_id)) WITHOUT ROWID""",
        """CREATE TABLE baselines (
            agent INTEGER NOT NULL REFERENCES agents (id), version TEXT NOT NULL, task_type TEXT NOT NULL,
            stats BLOB, updated_at REAL NOT NULL, after_run INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (agent, version, task_type)) WITHOUT ROWID""",
        """CREATE TABLE states (
            run INTEGER PRIMARY KEY REFERENCES runs (id), state BLOB NOT NULL, saved_at REAL NOT NULL)""",
        _OUTBOX,
        "CREATE INDEX outbox_due ON outbox (next_at) WHERE state = 'pending'",
        "CREATE INDEX outbox_by_agent ON outbox (agent_id, detector)",
        """CREATE TABLE losses (
            reason TEXT NOT NULL, token TEXT NOT NULL, count INTEGER NOT NULL, last_at REAL NOT NULL,
            PRIMARY KEY (reason, token)) WITHOUT ROWID""",
        """CREATE TABLE task_profiles (
            agent INTEGER NOT NULL REFERENCES agents (id), task_type TEXT NOT NULL, tasks INTEGER NOT NULL,
            steps INTEGER NOT NULL, tokens INTEGER NOT NULL, cost_usd REAL NOT NULL, wall_s REAL NOT NULL,
            PRIMARY KEY (agent, task_type)) WITHOUT ROWID""",
    ),
)

# Quarters of an hour: whatever the offset from UTC, a day is a whole number of them.
SPENDING: Final = Migration(
    "0002-spending",
    (
        """CREATE TABLE spending (
            agent INTEGER NOT NULL REFERENCES agents (id), quarter_hour INTEGER NOT NULL,
            steps INTEGER NOT NULL, tokens INTEGER NOT NULL, cost_usd REAL NOT NULL,
            PRIMARY KEY (agent, quarter_hour)) WITHOUT ROWID""",
        """CREATE TABLE daily_grants (
            agent INTEGER NOT NULL REFERENCES agents (id), grant_id TEXT NOT NULL, at REAL NOT NULL,
            run_id TEXT NOT NULL, steps INTEGER NOT NULL, tokens INTEGER NOT NULL, cost_usd REAL NOT NULL,
            reason TEXT NOT NULL, PRIMARY KEY (agent, grant_id)) WITHOUT ROWID""",
    ),
)

PAGE: Final = Migration(
    "0003-page",
    (
        # Of a call: the place of the last identical one, and whether its result was the same.
        "ALTER TABLE events ADD COLUMN last_same INTEGER",
        "ALTER TABLE events ADD COLUMN same_result INTEGER",
        # The drift score and the limits of the budget, where they change.
        """CREATE TABLE scores (
            run INTEGER NOT NULL REFERENCES runs (id), seq INTEGER NOT NULL, score REAL, goal REAL, loop REAL,
            budget REAL, quality REAL, stuck REAL, PRIMARY KEY (run, seq)) WITHOUT ROWID""",
        """CREATE TABLE limits (
            run INTEGER NOT NULL REFERENCES runs (id), seq INTEGER NOT NULL, steps INTEGER, tokens INTEGER,
            cost_usd REAL, wall_s REAL, reserve REAL NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID""",
        # What an ended run had reached at steps 1, 2, 4, 8 and so on: bands are taken from clean runs.
        """CREATE TABLE run_marks (
            run INTEGER NOT NULL REFERENCES runs (id), step INTEGER NOT NULL, score REAL,
            tokens INTEGER NOT NULL, cost_usd REAL NOT NULL, PRIMARY KEY (run, step)) WITHOUT ROWID""",
        "ALTER TABLE runs ADD COLUMN repeated INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE runs ADD COLUMN reply_bytes INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE runs ADD COLUMN top_score REAL",
        "ALTER TABLE runs ADD COLUMN last_score REAL",
        # Sets of bits: see `flags`.
        "ALTER TABLE runs ADD COLUMN top_severity INTEGER NOT NULL DEFAULT -1",
        "ALTER TABLE runs ADD COLUMN kinds INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE runs ADD COLUMN responses INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE runs ADD COLUMN excluded INTEGER NOT NULL DEFAULT 0",
        """UPDATE runs SET (top_severity, kinds) = (SELECT max(severity),
            max(kind = 'loop') | max(kind = 'goal') << 1 | max(kind = 'resource') << 2
            | max(kind = 'style') << 3 | max(kind = 'correction') << 4 | max(kind = 'transition') << 5
            FROM incidents WHERE run = runs.id) WHERE incidents > 0""",
        """CREATE INDEX runs_flagged ON runs (started_at, top_severity, kinds, responses)
            WHERE kinds > 0""",
        "CREATE INDEX runs_not_ended ON runs (started_at, state) WHERE state != 'ended'",
        "CREATE INDEX runs_by_parent ON runs (parent_run_id, agent) WHERE parent_run_id IS NOT NULL",
        "CREATE INDEX runs_by_goal ON runs (goal) WHERE goal != ''",
        "CREATE INDEX run_tools_by_name ON run_tools (name)",
        "ALTER TABLE incidents ADD COLUMN pattern TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE incidents ADD COLUMN acknowledged_by TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE incidents ADD COLUMN reviewed_by TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE incidents ADD COLUMN reviewed_at REAL",
        "CREATE INDEX incidents_by_pattern ON incidents (agent, kind, pattern, last_at)",
        # A mute may also end when an incident is more severe, or when another version runs.
        "ALTER TABLE mutes ADD COLUMN up_to_severity INTEGER",
        "ALTER TABLE mutes ADD COLUMN version TEXT",
        """CREATE TABLE declarations (
            agent INTEGER NOT NULL REFERENCES agents (id), tool TEXT NOT NULL, kind TEXT NOT NULL,
            set_by TEXT NOT NULL, set_at REAL NOT NULL, PRIMARY KEY (agent, tool)) WITHOUT ROWID""",
        """CREATE TABLE comments (
            id INTEGER PRIMARY KEY AUTOINCREMENT, incident_id TEXT NOT NULL, at REAL NOT NULL,
            author TEXT NOT NULL, content TEXT NOT NULL)""",
        "CREATE INDEX comments_by_incident ON comments (incident_id)",
        """CREATE TABLE audit (
            id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, author TEXT NOT NULL,
            action TEXT NOT NULL, object TEXT NOT NULL, detail TEXT NOT NULL)""",
        """CREATE TABLE api_keys (
            id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, prefix TEXT NOT NULL,
            digest BLOB NOT NULL UNIQUE, scopes TEXT NOT NULL, created_at REAL NOT NULL,
            expires_at REAL, last_used_at REAL)""",
        # One row per run and batch, numbered inside the transaction that writes it; kept for an hour.
        """CREATE TABLE changes (
            id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, what TEXT NOT NULL, run INTEGER,
            agent INTEGER)""",
    ),
)

SUBJECTS: Final = Migration(
    "0004-subjects",
    (
        "ALTER TABLE incidents ADD COLUMN subject TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE incidents ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE thresholds ADD COLUMN kind TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE thresholds ADD COLUMN subject TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE thresholds ADD COLUMN max_repeats INTEGER",
    ),
)

# The lists of the page are read from these alone: each has every column that its query needs.
PAGE_INDEXES: Final = Migration(
    "0005-page-indexes",
    (
        "CREATE INDEX runs_by_day ON runs (started_at, agent, top_score)",
        "CREATE INDEX runs_by_outcome ON runs (outcome, started_at) WHERE outcome != ''",
        """CREATE INDEX incidents_open_groups ON incidents (agent, kind, pattern, detector, severity, review,
            acknowledged_at, last_at, opened_at) WHERE state = 'open'""",
        "CREATE INDEX incidents_closed ON incidents (last_at) WHERE state = 'closed'",
    ),
)

# A time that is none counts as day 0, as in `spending`.
_DAY: Final = "CASE WHEN {0} >= 0 AND {0} < 1e12 THEN CAST({0} / 86400.0 AS INTEGER) ELSE 0 END"
_ADD_RUN_TO_DAY: Final = f"""
    INSERT INTO agent_days VALUES (NEW.agent, {_DAY.format("NEW.started_at")}, 1,
        NEW.top_score IS NOT NULL, coalesce(NEW.top_score, 0.0), 0, 0.0)
    ON CONFLICT (agent, day) DO UPDATE SET runs = runs + 1, scored = scored + excluded.scored,
        scores = scores + excluded.scores;"""
_TAKE_RUN_FROM_DAY: Final = f"""
    UPDATE agent_days SET runs = runs - 1, scored = scored - (OLD.top_score IS NOT NULL),
        scores = scores - coalesce(OLD.top_score, 0.0)
    WHERE agent = OLD.agent AND day = {_DAY.format("OLD.started_at")};"""
_ADD_SPENDING_TO_DAY: Final = """
    INSERT INTO agent_days VALUES (NEW.agent, NEW.quarter_hour / 96, 0, 0, 0.0, NEW.tokens, NEW.cost_usd)
    ON CONFLICT (agent, day) DO UPDATE SET tokens = tokens + excluded.tokens,
        cost_usd = cost_usd + excluded.cost_usd;"""
_TAKE_SPENDING_FROM_DAY: Final = """
    UPDATE agent_days SET tokens = tokens - OLD.tokens, cost_usd = cost_usd - OLD.cost_usd
    WHERE agent = OLD.agent AND day = OLD.quarter_hour / 96;"""

# Kept by triggers, so that no way of writing, deleting or migrating runs can forget it.
AGENT_DAYS: Final = Migration(
    "0006-agent-days",
    (
        # Per agent and day of UTC: the runs that began, how many of them have a top score and the sum of
        # these, and what was spent.
        """CREATE TABLE agent_days (
            agent INTEGER NOT NULL REFERENCES agents (id), day INTEGER NOT NULL, runs INTEGER NOT NULL,
            scored INTEGER NOT NULL, scores REAL NOT NULL, tokens INTEGER NOT NULL, cost_usd REAL NOT NULL,
            PRIMARY KEY (agent, day)) WITHOUT ROWID""",
        f"""INSERT INTO agent_days SELECT agent, {_DAY.format("started_at")}, count(*), count(top_score),
            coalesce(sum(top_score), 0.0), 0, 0.0 FROM runs GROUP BY 1, 2""",
        """INSERT INTO agent_days SELECT agent, quarter_hour / 96, 0, 0, 0.0, sum(tokens), sum(cost_usd)
            FROM spending WHERE true GROUP BY 1, 2 ON CONFLICT (agent, day) DO UPDATE SET
            tokens = excluded.tokens, cost_usd = excluded.cost_usd""",
        "CREATE INDEX agent_days_by_day ON agent_days (day, runs, tokens, cost_usd)",
        f"CREATE TRIGGER day_of_new_run AFTER INSERT ON runs BEGIN {_ADD_RUN_TO_DAY} END",
        f"CREATE TRIGGER day_of_deleted_run AFTER DELETE ON runs BEGIN {_TAKE_RUN_FROM_DAY} END",
        f"""CREATE TRIGGER day_of_changed_run AFTER UPDATE OF started_at, top_score ON runs
            WHEN NEW.started_at IS NOT OLD.started_at OR NEW.top_score IS NOT OLD.top_score
            BEGIN {_TAKE_RUN_FROM_DAY} {_ADD_RUN_TO_DAY} END""",
        f"CREATE TRIGGER day_of_new_spending AFTER INSERT ON spending BEGIN {_ADD_SPENDING_TO_DAY} END",
        f"""CREATE TRIGGER day_of_deleted_spending AFTER DELETE ON spending
            BEGIN {_TAKE_SPENDING_FROM_DAY} END""",
        f"""CREATE TRIGGER day_of_changed_spending AFTER UPDATE ON spending
            BEGIN {_TAKE_SPENDING_FROM_DAY} {_ADD_SPENDING_TO_DAY} END""",
        "CREATE INDEX runs_running ON runs (agent, started_at) WHERE state = 'running'",
        """CREATE INDEX incidents_urgent ON incidents (last_at)
            WHERE state = 'open' AND severity >= 2 AND acknowledged_at IS NULL""",
        """CREATE INDEX incidents_done ON incidents (last_at)
            WHERE state = 'open' AND review = 'false_alarm'""",
        "DROP INDEX runs_by_day",
    ),
)

# What nobody has dealt with yet stays in the page's inbox after the drift has ended, for some days.
INBOX: Final = Migration(
    "0007-inbox",
    (
        # With state and review, which are the same in all rows: older SQLite reads the table to know them.
        """CREATE INDEX incidents_unreviewed ON incidents (agent, last_at, kind, pattern, detector, severity,
            acknowledged_at, state, review) WHERE state = 'closed' AND review = ''""",
        "CREATE INDEX incidents_reviewed ON incidents (last_at) WHERE review != ''",
        "DROP INDEX incidents_done",
        "DROP INDEX incidents_urgent",
        """CREATE INDEX incidents_urgent ON incidents (state, last_at)
            WHERE review = '' AND severity >= 2 AND acknowledged_at IS NULL""",
    ),
)

MIGRATIONS: Final = (FIRST, SPENDING, PAGE, SUBJECTS, PAGE_INDEXES, AGENT_DAYS, INBOX)

MIGRATIONS_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at REAL NOT NULL)"
)
