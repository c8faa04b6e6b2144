"""A batch that is delivered three times changes no more than one that is delivered once."""

import itertools
import time

import pytest
from msgspec import structs

from steadyhelm.decisions import TaskProfile
from steadyhelm.events import RunInfo, RunSummary
from steadyhelm.findings import Severity
from steadyhelm.policy.alerting import AlertPolicy
from steadyhelm.sink import DailyGrant, Loss, RecordedEvent, SavedState
from steadyhelm.sinks.store import StoreSink
from steadyhelm.stores import open_store
from steadyhelm.testing import events
from steadyhelm.testing.store_records import a_finding, an_incident

NOW = time.time()


@pytest.fixture
def make_sink(make_database):
    stores = []

    def make(name):
        store = open_store(make_database(name))
        stores.append(store)
        sink = StoreSink(store, calibration_runs=3, policy=AlertPolicy(cooldown_s=60.0), channels=["webhook"])
        return sink, store

    yield make
    for store in stores:
        store.close()


def a_run(number, *, incidents=()):
    run_id, at = f"run-{number}", NOW + 100 * number
    steps = [structs.replace(it, agent_id="agent", run_id=run_id, timestamp=at) for it in events("." * 6)]
    summary = RunSummary(
        agent_id="agent",
        run_id=run_id,
        task_type="refund",
        started_at=at,
        ended_at=at + 9,
        events=6,
        tool_calls=6,
        tokens=600,
        had_incident=bool(incidents),
    )
    return [
        RunInfo(agent_id="agent", run_id=run_id, task_type="refund", started_at=at),
        *map(RecordedEvent.of, steps),
        *incidents,
        Loss("queue full", number, at, "token"),
        DailyGrant("agent", run_id, f"grant-{number}", at, steps=3),
        summary,
    ]


def incident(number, **fields):
    return structs.replace(
        an_incident(f"incident-{number}"), agent_id="agent", severity=Severity.HIGH, **fields
    )


def content(store):
    """Return everything that a second delivery could change."""
    return {
        "runs": [structs.asdict(run) for run in store.list_runs(limit=1000)],
        "events": store.get_traces("agent", limit=1000),
        "findings": store.get_drift_events("agent", limit=1000),
        "incidents": store.list_incidents("agent"),
        "baselines": store.list_baselines(),
        "profiles": store.list_profiles(),
        "spending": store.list_spending(since=0.0, until=NOW + 86_400),
        "summaries": store.list_run_summaries("agent", task_type="refund"),
        "losses": store.get_losses(),
        "alerts": [structs.replace(it, body=b"") for it in store.list_deliveries()],
        "suspended": store.list_suspended("agent"),
    }


BATCHES = [
    a_run(1),
    a_run(2)[:5],
    a_run(2)[5:],
    a_run(3, incidents=[incident(1, run_id="run-3", opened_at=NOW, last_at=NOW)]),
    [
        incident(2, run_id="run-1", opened_at=NOW + 10, last_at=NOW + 10),
        incident(3, run_id="run-1", opened_at=NOW + 400, last_at=NOW + 400),
    ],
    [
        incident(3, run_id="run-1", opened_at=NOW + 400, last_at=NOW + 500, findings=4, last_seq=9),
        a_finding(3, run_id="run-1", timestamp=NOW),
    ],
    a_run(5, incidents=[incident(5, run_id="run-5", kind="resource", detector="resource_spike")]),
    [
        RunInfo(agent_id="agent", run_id="run-4", started_at=NOW + 900),
        RecordedEvent.of(
            structs.replace(events(".")[0], agent_id="agent", run_id="run-4", timestamp=NOW + 900)
        ),
        SavedState("agent", "run-4", b"state", NOW + 901),
    ],
]


class TestRedelivery:
    def test_three_times_is_once(self, make_sink):
        """
        Each batch delivered three times leaves what each delivered once leaves.
        """
        (once, first), (thrice, second) = make_sink("once"), make_sink("thrice")
        for batch in BATCHES:
            once.write(batch)
            for _ in range(3):
                thrice.write(batch)

        assert content(first) == content(second)
        assert [] == second.check()

    def test_all_of_it_three_times_is_once(self, make_sink):
        """
        A whole journal delivered three times, in any batches, leaves what it leaves once.
        """
        (once, first), (thrice, second) = make_sink("once"), make_sink("thrice")
        records = list(itertools.chain.from_iterable(BATCHES))
        for batch in BATCHES:
            once.write(batch)
        for size in (len(records), 7, 3):
            for start in range(0, len(records), size):
                thrice.write(records[start : start + size])

        assert content(first) == content(second)
        assert [] == second.check()

    def test_a_profile_counts_a_task_once(self, make_sink):
        """
        The profile of a task type has each completed task once.
        """
        sink, store = make_sink("profile")
        for _ in range(3):
            sink.write(a_run(1))
            sink.write(a_run(2))

        (profile,) = store.list_profiles("agent")
        assert isinstance(profile, TaskProfile)
        assert (2, 12, 1200) == (profile.tasks, profile.steps, profile.tokens)
