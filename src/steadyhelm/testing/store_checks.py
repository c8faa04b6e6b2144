"""Check that a store fulfils its contract: runs and events here, the other roles in their own modules.

Each check takes a function that creates an empty store, and raises AssertionError when it finds a fault::

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_store(check, tmp_path):
        check(lambda: SQLiteStore(tmp_path / "runs.db"))
"""

# ruff: noqa: SIM300, PLR2004, PT017 - a check is a test: expected on the left, numbers specify, no pytest needed

from typing import Final

from steadyhelm.errors import NotFoundError
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.sink import SavedState
from steadyhelm.store import RunState, Store
from steadyhelm.testing import store_baseline_checks, store_incident_checks, store_upkeep_checks
from steadyhelm.testing.store_records import (
    AT,
    MakeStore,
    a_finding,
    a_summary,
    an_event,
    an_incident,
    fill_store,
)


def _state(store: Store) -> RunState:
    return store.find_run("run").state


def check_events_come_back(make_store: MakeStore) -> None:
    """Check that an event is read back as it was written, whatever is in it."""
    events = [
        an_event(
            0, event_id="its own", call_id="call-1", started_seq=0, cost_usd=0.25, parent_run_id="parent"
        ),
        an_event(
            1, action_type="llm_request", error="timed out", metadata={"model": "m"}, call_hash=-(2**63)
        ),
        an_event(2, action_type="never heard of", input_data=None, output_data=None, error="error"),
        an_event(3, action_name="ünï\0code 😀 '; DROP TABLE runs; --", result_hash=2**63 - 1),
    ]
    store = fill_store(make_store, *events)
    assert events == list(store.iter_run_events("agent", "run"))
    assert [recorded.event for recorded in events] == store.get_run_traces("agent", "run")
    store.close()


def check_a_repeated_event_is_left_as_it_is(make_store: MakeStore) -> None:
    """Check that an event with a stored run and seq changes nothing, in the same batch or a later one."""
    store = fill_store(make_store, an_event(0), an_event(0, action_name="other"))
    store.write([an_event(0, action_name="third"), an_event(1)])
    assert ["read", "read"] == [event.action_name for event in store.get_run_traces("agent", "run")]
    run = store.find_run("run")
    assert (2, 20, 2, 10.0) == (run.events, run.tokens, run.tool_calls, run.duration_ms)
    store.close()


def check_a_run_sums_up_its_events(make_store: MakeStore) -> None:
    """Check that the list of runs, a run's tools and its statistics agree with its events."""
    failed = an_event(1, action_name="edit", error="no such file", cost_usd=0.5)
    store = fill_store(
        make_store, an_event(0), failed, an_event(2, action_type="llm_request", action_name="model")
    )
    store.write([an_event(3)])
    (run,) = store.list_runs()
    assert (4, 40, 3, 1, 1) == (run.events, run.tokens, run.tool_calls, run.llm_calls, run.errors)
    assert (0.5, AT, AT + 3) == (run.cost_usd, run.started_at, run.last_at)
    assert [("read", 2, 0), ("edit", 1, 1)] == [
        (tool.action_name, tool.calls, tool.errors) for tool in store.list_run_tools("agent", "run")
    ]
    stats = store.get_run_stats("agent", "run")
    assert {
        "event_count": 4,
        "total_tokens": 40,
        "start_time": AT,
        "end_time": AT + 3,
    }.items() <= stats.items()
    assert ["read", "edit", "read"] == store.get_recent_actions("agent", "run")
    assert ["edit", "read"] == store.get_recent_actions("agent", "run", window=2)
    store.close()


def check_runs_are_listed_newest_first(make_store: MakeStore) -> None:
    """Check that runs come newest first, of one agent or all, a page at a time."""
    store = make_store()
    for number in range(4):
        agent = f"agent-{number % 2}"
        store.write([RunInfo(agent_id=agent, run_id=f"run-{number}", started_at=AT + number, goal="g")])
    assert ["run-3", "run-2", "run-1", "run-0"] == [run.run_id for run in store.list_runs()]
    assert ["run-3", "run-1"] == store.get_run_ids("agent-1")
    assert ["run-1", "run-0"] == [run.run_id for run in store.list_runs(before=AT + 2)]
    assert ["run-3"] == [run.run_id for run in store.list_runs(limit=1)]
    assert [("agent-1", 2), ("agent-0", 2)] == [(row.agent_id, row.runs) for row in store.list_agents()]
    store.close()


def check_a_run_has_a_life(make_store: MakeStore) -> None:
    """Check that a run is running, suspended with its state, running again, and ended."""
    info = RunInfo(
        agent_id="agent", run_id="run", goal="mend it", started_at=AT, version="2", task_type="fix"
    )
    store = fill_store(make_store, info, an_event(0))
    run = store.find_run("run")
    assert ("running", "mend it", "2", "fix") == (run.state, run.goal, run.version, run.task_type)
    store.write([SavedState("agent", "run", b"state", AT + 1)])
    assert "suspended" == _state(store)
    assert (b"state", None) == (store.take_state("agent", "run"), store.take_state("agent", "run"))
    store.write([an_event(1)])
    assert "running" == _state(store)
    store.write([an_event(2), SavedState("agent", "run", b"again", AT + 2)])
    assert "suspended" == _state(store)
    store.write([SavedState("agent", "run", b"more", AT + 3), info])
    assert "running" == _state(store)
    store.write([a_summary(outcome="done")])
    run = store.find_run("run")
    assert ("ended", "done", 3) == (run.state, run.outcome, run.events)
    store.close()


def check_ids_may_be_shortened(make_store: MakeStore) -> None:
    """Check that runs and incidents are found by the start of an id, and errors list the candidates."""
    store = fill_store(make_store, an_event(run_id="abc1"), an_event(run_id="abd2"), an_event(run_id="%_"))
    store.write([an_incident("inc-1", run_id="abc1"), an_incident("inc-2", run_id="abc1")])
    assert "abc1" == store.find_run("abc").run_id
    assert "%_" == store.find_run("%").run_id
    assert "inc-2" == store.find_incident("inc-2").incident_id
    for find, given, words in (
        (store.find_run, "ab", "2 runs begin with 'ab': abc1, abd2"),
        (store.find_run, "_", "no run '_'"),
        (store.find_run, "", "no run ''"),
        (store.find_incident, "inc", "2 incidents begin with 'inc'"),
        (store.find_incident, "x", "no incident 'x'"),
    ):
        try:
            find(given)
        except NotFoundError as exc:
            assert words in str(exc), str(exc)
        else:
            raise AssertionError(f"{given!r} was found")
    store.close()


def check_newest_events_come_first(make_store: MakeStore) -> None:
    """Check that `get_traces` returns the newest events over all runs, by agent, run, time and number."""
    store = fill_store(
        make_store, *(an_event(n // 2, run_id=f"run-{n % 2}", timestamp=AT + n) for n in range(8))
    )
    store.write([an_event(0, agent_id="other", run_id="old", timestamp=AT - 9)])
    times = [event.timestamp - AT for event in store.get_traces()]
    assert [7, 6, 5, 4, 3, 2, 1, 0, -9] == times
    assert [7, 6, 5] == [event.timestamp - AT for event in store.get_traces("agent", limit=3)]
    assert [6, 4] == [event.timestamp - AT for event in store.get_traces(run_id="run-0", since=AT + 3)]
    store.close()


def check_findings_come_back(make_store: MakeStore) -> None:
    """Check that findings are read back as written, newest first, and counted on their run."""
    low, high = a_finding(0, score=0.2), a_finding(1)
    store = fill_store(make_store, an_event(0), low, high)
    assert [high, low] == store.get_drift_events()
    assert [high] == store.get_drift_events(severity=Severity.MED)
    assert [high] == store.get_drift_events("agent", "run", since=AT + 0.5)
    assert [] == store.get_drift_events("nobody")
    assert 2 == store.find_run("run").findings
    store.close()


STORE_CHECKS: Final = tuple(
    check
    for module in (
        globals(),
        vars(store_baseline_checks),
        vars(store_incident_checks),
        vars(store_upkeep_checks),
    )
    for name, check in list(module.items())
    if name.startswith("check_")
)
"""Every check of a store, by role."""
