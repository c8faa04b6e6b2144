"""What people and detectors ask for often is answered along an index, however much is stored."""

import time

import pytest

from steadyhelm.findings import Severity
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.queries.incidents import list_groups
from steadyhelm.server.queries.overview import read_overview
from steadyhelm.store import Store
from steadyhelm.testing.store_records import AT, a_delivery, a_finding, a_summary, an_event, an_incident

ASKED = {
    "the list of runs": lambda store: store.list_runs(),
    "an agent's runs, paged": lambda store: store.list_runs("agent", before=AT + 9),
    "a run by id": lambda store: store.find_run("run-1"),
    "a run by prefix": lambda store: store.find_run("run-3"),
    "a run's timeline": lambda store: list(store.iter_run_events("agent", "run-1")),
    "a run's tools": lambda store: store.list_run_tools("agent", "run-1"),
    "a run's last actions": lambda store: store.get_recent_actions("agent", "run-1"),
    "a run's statistics": lambda store: store.get_run_stats("agent", "run-1"),
    "alerts": lambda store: store.list_incidents(),
    "alerts lately": lambda store: store.list_incidents(since=AT, severity=Severity.MED),
    "open alerts": lambda store: store.list_incidents(state="open"),
    "an agent's open alerts": lambda store: store.list_incidents("agent", state="open"),
    "an agent's alerts": lambda store: store.list_incidents("agent", since=AT, detector="action_loop"),
    "a run's alerts": lambda store: store.list_incidents("agent", "run-1"),
    "an alert by id": lambda store: store.find_incident("incident"),
    "answers": lambda store: store.list_interventions(),
    "an agent's answers lately": lambda store: store.list_interventions("agent", since=AT),
    "the newest events": lambda store: store.get_traces(),
    "an agent's newest events": lambda store: store.get_traces("agent"),
    "a run's newest events": lambda store: store.get_traces("agent", "run-1"),
    "what tasks of an agent take": lambda store: store.list_profiles("agent"),
    "findings": lambda store: store.get_drift_events(),
    "an agent's findings": lambda store: store.get_drift_events("agent", since=AT, severity=Severity.MED),
    "a run's findings": lambda store: store.get_drift_events("agent", "run"),
    "what a baseline learns from": lambda store: store.list_run_summaries("agent"),
    "a baseline": lambda store: store.get_baseline("agent"),
    "due deliveries": lambda store: store.claim_deliveries(now=1.0, lease_s=1.0),
    "the last alert": lambda store: store.get_last_alert("agent", "action_loop"),
    "open alerts per agent": lambda store: store.list_agents(),
    "the inbox": lambda store: list_groups(AgentViews(store), {}, 50),
    "what people dealt with": lambda store: list_groups(AgentViews(store), {"tab": "closed"}, 50),
    "the overview": lambda store: read_overview(AgentViews(store), store, 1, None),
}
SMALL = ("SCAN agents", "SCAN mutes", "SCAN losses", "SCAN sqlite_sequence", "SCAN CONSTANT ROW")
"""Tables that hold a handful of rows, and are read whole."""


@pytest.fixture
def filled(store) -> Store:
    store.write([an_event(seq, run_id=f"run-{run}") for run in range(30) for seq in range(10)])
    store.write([a_finding(), an_incident(), a_summary("run-1")])
    store.enqueue(a_delivery(next_at=99.0))
    return store


def plans(store, ask):
    """The steps SQLite takes for everything that is asked."""
    statements = []
    with store._connections.reading() as connection:
        connection.set_trace_callback(statements.append)
    ask(store)
    with store._connections.reading() as connection:
        connection.set_trace_callback(None)
        return [
            step
            for statement in statements
            if statement.lstrip().startswith("SELECT")
            for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}")
        ]


class TestPlans:
    @pytest.mark.parametrize("what", ASKED)
    def test_no_table_is_read_through(self, filled, what):
        """
        No large table is scanned: each step is a search, or walks an index in order.
        """
        steps = plans(filled, ASKED[what])
        scans = [step for step in steps if step.startswith("SCAN") and "USING" not in step]

        assert steps
        assert [] == [scan for scan in scans if scan not in SMALL]

    @pytest.mark.parametrize(
        "what",
        [
            *("the list of runs", "an agent's runs, paged", "alerts", "open alerts", "answers"),
            *("an agent's answers lately", "the newest events", "an agent's newest events"),
        ],
    )
    def test_lists_are_not_sorted(self, filled, what):
        """
        A list comes out of its index in order, so that only what is shown is read.
        """
        assert [] == [step for step in plans(filled, ASKED[what]) if step.startswith("USE TEMP B-TREE")]

    @pytest.mark.parametrize("what", ["the inbox", "the overview"])
    def test_the_inbox_is_bounded_in_time(self, filled, what):
        """
        However many incidents an agent has had: those that ended are found by when they were last seen.
        """
        filled.write([an_incident("ended", state="closed", last_at=time.time())])
        steps = plans(filled, ASKED[what])
        ended = [step for step in steps if "incidents_unreviewed" in step or "incidents_by_pattern" in step]

        assert ended
        assert [] == [step for step in ended if "last_at>?" not in step]
        assert any("COVERING INDEX incidents_unreviewed" in step for step in ended)

    def test_events_have_no_other_index(self, filled):
        """
        Events are kept in the order of run and place, and nothing else has to be kept up to date.
        """
        with filled._connections.reading() as connection:
            indexes = connection.execute("PRAGMA index_list(events)").fetchall()

        assert ["pk"] == [origin for _, _, _, origin, _ in indexes]
