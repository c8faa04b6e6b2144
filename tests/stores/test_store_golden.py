"""Stored formats stay readable: files written with each schema there ever was, read by today's code.

Each was made once, by `python tests/stores/test_store_golden.py` with the sources on PYTHONPATH, and is
never made again: a later schema gets a file of its own beside it.
"""

import json
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from steadyhelm.baselines import BaselineStats, Cusum, Spread, Trend
from steadyhelm.decisions import DriftAction, Intervention
from steadyhelm.events import RunInfo
from steadyhelm.incidents import Mute, Threshold
from steadyhelm.people import AccessKey, AuditEntry, ToolMark
from steadyhelm.sink import BudgetLimits, DailyGrant, DriftPoint, Loss, SavedState
from steadyhelm.stores.opening import prepare
from steadyhelm.stores.schema import MIGRATIONS, Migration
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import (
    AT,
    a_delivery,
    a_finding,
    a_profile,
    a_summary,
    an_event,
    an_incident,
)

GOLDEN = Path(__file__).parent.parent / "golden"
SCHEMAS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007")


def fill(store):
    """Something in every table."""
    info = RunInfo(
        agent_id="agent", run_id="run", goal="mend it", started_at=AT, version="2", metadata={"m": 1}
    )
    answer = Intervention(
        action=DriftAction.ASK_USER,
        verdict="ask",
        seq=4,
        timestamp=AT + 4,
        guidance="stop",
        outcome="worked",
        wording="ask.loop",
        wanted="rollback",
        evidence=("run.0", "run.3"),
        expected="the same steps do not come back",
        window=8,
        settled_seq=12,
        tokens_before=900,
        cost_before_usd=0.5,
        tokens_saved=300,
    )
    store.write(
        [
            info,
            msgspec.structs.replace(
                an_event(0, call_hash=-7, result_hash=9, started_seq=0, parent_run_id="parent"),
                drift=DriftPoint(0.25, None, 0.25),
                limits=BudgetLimits(tokens=900, reserve=0.1),
            ),
            an_event(1, action_type="llm_request", action_name="model", cost_usd=0.5, metadata={"k": "v"}),
            an_event(2, action_type="handoff", error="no such agent", call_id="call", event_id="mine"),
            an_event(3, input_data=None, output_data=None, error="error"),
            a_finding(3),
            an_incident(event_ids=("run.0", "run.3"), interventions=(answer,), subject="search", repeats=6),
            a_summary("ended", outcome="done", words=b"\1\2", similarities=[0.5], sequences=[["a", "b"]]),
            SavedState("agent", "run", b"session", AT),
            Loss("queue full", 3, AT),
            DailyGrant("agent", "run", "grant", AT, steps=5, tokens=100, cost_usd=0.5, reason="asked"),
        ]
    )
    store.acknowledge("incident", at=AT + 5)
    store.review("incident", "confirmed")
    store.save_baseline(
        BaselineStats(
            agent_id="agent",
            calibration_runs=2,
            word_counts=b"\0\1",
            spreads={"tokens": Spread(p50=1.0, p95=2.0)},
            trends={"tokens": Trend(learning=Cusum(count=2, mean=0.5))},
        ),
        updated_at=AT,
    )
    store.save_profile(a_profile(cost_usd=0.5, wall_s=90.0))
    store.mute(Mute(agent_id="agent", detector="goal_drift", until=AT + 99, set_at=AT))
    store.save_threshold(Threshold(agent_id="agent", detector="goal_drift", min_score=0.9, incident_id="i"))
    store.save_threshold(
        Threshold(
            agent_id="agent",
            detector="action_loop",
            min_score=0.9,
            incident_id="j",
            set_at=AT,
            kind="loop",
            subject="search",
            max_repeats=12,
        )
    )
    store.enqueue(a_delivery(next_at=AT))
    store.mark_tool(ToolMark(agent_id="agent", tool="wait", kind="poll", set_by="page", set_at=AT))
    store.add_comment("incident", at=AT, author="page", content="known")
    store.add_audit(AuditEntry(at=AT, author="page", action="mute", object="incident"))
    store.add_key(AccessKey(name="ci", prefix="sh_1", digest=b"\1", scopes=("read",), created_at=AT))


def content(store):
    """Everything a store gives back, as plain data."""
    everything = {
        "agents": store.list_agents(),
        "runs": store.list_runs(),
        "tools": store.list_run_tools("agent", "run"),
        "metadata": store.get_run_metadata("agent", "run"),
        "events": store.get_run_traces("agent", "run"),
        "findings": store.get_drift_events(),
        "incidents": store.list_incidents(),
        "summaries": store.list_run_summaries("agent"),
        "baselines": store.list_baselines(),
        "profiles": store.list_profiles(),
        "spending": store.list_spending(since=0.0, until=AT + 900),
        "interventions": store.list_interventions(),
        "mutes": store.list_mutes(at=0.0),
        "thresholds": store.list_thresholds(),
        "deliveries": store.list_deliveries(),
        "losses": store.get_losses(),
        "tool_marks": store.list_tool_marks("agent"),
        "comments": store.list_comments(["incident"]),
        "audit": store.list_audit(),
        "keys": store.list_keys(),
        "state": store.take_state("agent", "run"),
    }
    return msgspec.json.decode(msgspec.json.encode(everything))


def differences(expected, read, where="content"):
    """Where what was read is not what was written; fields that came later do not count."""
    if isinstance(expected, dict) and isinstance(read, dict):
        return [it for key in expected for it in differences(expected[key], read.get(key), f"{where}.{key}")]
    if isinstance(expected, list) and isinstance(read, list) and len(expected) == len(read):
        pairs = enumerate(zip(expected, read, strict=True))
        return [it for place, (a, b) in pairs for it in differences(a, b, f"{where}[{place}]")]
    return [] if expected == read else [f"{where}: {expected!r} was written, {read!r} is read"]


def steps(path):
    """The steps that led to the schema of this file."""
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM migrations")]


def expected_content(schema):
    """What the file of that schema was made with."""
    return json.loads((GOLDEN / f"store-{schema}.json").read_text())


class TestGolden:
    @pytest.mark.parametrize("schema", SCHEMAS)
    def test_it_reads_the_same(self, tmp_path, schema):
        """
        Today's code opens a file of every schema there ever was and reads what was written to it.
        """
        path = tmp_path / "runs.db"
        shutil.copy(GOLDEN / f"store-{schema}.sqlite", path)
        store = SQLiteStore(path)

        assert [] == store.check()
        assert [] == differences(expected_content(schema), content(store))
        store.close()

    def test_the_first_is_brought_up_to_date(self, tmp_path):
        """
        A file of the first schema gets a later step, and what it was before stands beside it.
        """
        path = tmp_path / "runs.db"
        shutil.copy(GOLDEN / "store-0001.sqlite", path)
        notes = Migration("9999-notes", ("CREATE TABLE notes (text TEXT)",))
        prepare(path, migrations=(*MIGRATIONS, notes))

        later = [migration.name for migration in MIGRATIONS[1:]]
        (backup,) = tmp_path.glob("runs.db.before-*.bak")
        assert ["0001-first", *later, "9999-notes"] == steps(path)
        assert ["0001-first"] == steps(backup) == steps(GOLDEN / "store-0001.sqlite")

    def test_the_newest_schema_has_one(self, store):
        """
        Whoever adds a step to the schema adds a file made with it.
        """
        assert store.describe()["schema"].startswith(SCHEMAS[-1])

    def test_it_is_filled(self, store):
        """
        Everything the golden file is made with comes back today as well.
        """
        fill(store)

        assert [] == differences(expected_content(SCHEMAS[-1]), content(store))


def make(schema):
    """Write the golden file, its pages small, and what it holds."""
    path = GOLDEN / f"store-{schema}.sqlite"
    store = SQLiteStore(path)
    fill(store)
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        for statement in ("PRAGMA journal_mode = DELETE", "PRAGMA page_size = 1024", "VACUUM"):
            connection.execute(statement)
    with tempfile.TemporaryDirectory() as folder:
        copy = SQLiteStore(shutil.copy(path, folder))
        text = json.dumps(content(copy), indent=1, sort_keys=True)
        copy.close()
    (GOLDEN / f"store-{schema}.json").write_text(text + "\n")


if __name__ == "__main__":
    make(SCHEMAS[-1])
