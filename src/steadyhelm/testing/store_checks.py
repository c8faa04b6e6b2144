"""Check that a store fulfils its contract: runs and baselines here, other roles in their own modules.

Each check takes a function that creates an empty store, and raises AssertionError when it finds a fault::

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_store(check, tmp_path):
        check(lambda: SQLiteStore(tmp_path / "runs.db"))
"""

# ruff: noqa: SIM300, PLR2004, PT017 - a check is a test: expected on the left, numbers specify, no pytest needed

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.errors import NotFoundError
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.sink import PinnedBaseline, SavedState
from steadyhelm.store import Store
from steadyhelm.store_rows import RunState
from steadyhelm.testing import store_incident_checks, store_upkeep_checks
from steadyhelm.testing.store_records import (
    AT,
    MakeStore,
    a_finding,
    a_profile,
    a_summary,
    an_event,
    an_incident,
    fill_store,
)


def check_clean_runs_teach(make_store: MakeStore) -> None:
    """Check that baselines learn only from ended runs without incidents, false alarms apart; oldest first."""
    summaries = [
        a_summary(f"run-{n}", had_incident=n in (1, 2), words=bytes([n]), similarities=[0.5])
        for n in range(4)
    ]
    store = fill_store(make_store, *summaries, an_event(run_id="running"), a_summary("other", version="2"))
    store.write([an_incident("i1", run_id="run-1"), an_incident("i2", run_id="run-2")])
    assert [summaries[0], summaries[3]] == store.list_run_summaries("agent")
    store.review("i1", "false_alarm")
    assert ["run-0", "run-1", "run-3"] == [summary.run_id for summary in store.list_run_summaries("agent")]
    assert ["run-1", "run-3"] == [summary.run_id for summary in store.list_run_summaries("agent", limit=2)]
    store.review("i1", "")
    assert ["run-0", "run-3"] == [summary.run_id for summary in store.list_run_summaries("agent")]
    assert ["other"] == [summary.run_id for summary in store.list_run_summaries("agent", version="2")]
    store.close()


def check_a_reset_starts_learning_anew(make_store: MakeStore) -> None:
    """Check that after a reset the baseline is gone, and it no longer learns from earlier runs."""
    baseline = BaselineStats(
        agent_id="agent", calibration_runs=3, word_counts=b"\0\2", common_sequences=[["a", "b"]]
    )
    store = fill_store(make_store, a_summary("before"))
    store.save_baseline(baseline, updated_at=AT)
    other = BaselineStats(agent_id="agent", version="2")
    store.save_baseline(other)
    assert baseline == store.get_baseline("agent")
    assert [baseline, other] == store.list_baselines("agent")
    assert (True, False) == (store.reset_baseline("agent"), store.reset_baseline("agent"))
    assert (None, [other]) == (store.get_baseline("agent"), store.list_baselines())
    assert [] == store.list_run_summaries("agent")
    store.write([a_summary("after")])
    assert ["after"] == [summary.run_id for summary in store.list_run_summaries("agent")]
    assert store.reset_baseline("nobody") is False
    store.close()


def check_a_baseline_is_pinned_once(make_store: MakeStore) -> None:
    """Check that a run keeps its first pinned baseline, and that what no run has any more is deleted."""
    store = fill_store(make_store, an_event(0), an_event(0, run_id="other"))
    first, later = (PinnedBaseline("agent", "run", 0, text, text.encode()) for text in ("first", "later"))
    store.write([first, structs.replace(first, run_id="other", seq=3)])
    store.write([later])
    assert first == store.get_pinned_baseline("agent", "run")
    assert 3 == (store.get_pinned_baseline("agent", "other") or first).seq
    assert store.get_pinned_baseline("agent", "unknown") is None
    store.delete_run("agent", "run")
    assert b"first" == (store.get_pinned_baseline("agent", "other") or later).content
    store.close()


def check_every_write_changes_the_version(make_store: MakeStore) -> None:
    """Check that the version of the store is the same until something is written."""
    store = fill_store(make_store, an_event(0))
    before = store.get_version()
    assert before == store.get_version()
    store.write([an_event(1)])
    assert before != store.get_version()
    store.close()


def check_versions_of_different_threads_can_be_compared(make_store: MakeStore) -> None:
    """Check that a write is seen by comparing the version before it, in one thread, with that in another.

    this thread    version 0   write           write           write
    other threads                    version 1       version 2       version 3    no two are equal
    """
    store = fill_store(make_store, an_event(0))
    seen = [store.get_version()]
    for seq in range(1, 6):
        store.write([an_event(seq)])
        with ThreadPoolExecutor(1) as fresh_thread:
            seen.append(fresh_thread.submit(store.get_version).result())
    assert len(set(seen)) == len(seen)
    store.close()


def check_a_profile_is_replaced(make_store: MakeStore) -> None:
    """Check that a profile saved again replaces the one before; others are left unchanged."""
    store = make_store()
    store.save_profile(a_profile(tasks=9))
    other = a_profile(agent_id="other")
    store.save_profile(other)
    replaced = a_profile(tasks=1, steps=4, tokens=700, cost_usd=0.25, wall_s=12.5)
    store.save_profile(replaced)
    assert [replaced, other] == store.list_profiles()
    assert [replaced] == store.list_profiles("agent")
    assert [] == store.list_profiles("nobody")
    store.close()


def check_tasks_are_added(make_store: MakeStore) -> None:
    """Check that the totals of a task are added to the profile of its agent and type."""
    store = make_store()
    store.add_tasks(a_profile(tasks=1, steps=4, tokens=100, cost_usd=0.5, wall_s=2.0))
    store.add_tasks(a_profile(tasks=1, steps=6, tokens=300, cost_usd=0.25, wall_s=3.0))
    store.add_tasks(a_profile(task_type="review", tasks=1, steps=1))
    fix, review = store.list_profiles("agent")
    assert a_profile(tasks=2, steps=10, tokens=400, cost_usd=0.75, wall_s=5.0) == fix
    assert ("review", 1) == (review.task_type, review.tasks)
    store.close()


def check_odd_profiles_are_kept(make_store: MakeStore) -> None:
    """Check that a task with odd numbers and texts is counted all the same."""
    store = make_store()
    odd = a_profile(
        task_type="half \ud800", tasks=1, steps=-1, tokens=10**30, cost_usd=math.nan, wall_s=math.inf
    )
    for _ in range(3):
        store.add_tasks(odd)
    (found,) = store.list_profiles()
    assert ("half ?", 3, 0, 0.0, 0.0) == (
        found.task_type, found.tasks, found.steps, found.cost_usd, found.wall_s
    )  # fmt: skip
    assert isinstance(found.tokens, int)
    store.close()


def check_profiles_outlive_runs(make_store: MakeStore) -> None:
    """Check that profiles stay when their runs are deleted, and are deleted with the agent."""
    store = fill_store(make_store, an_event(0), an_event(0, agent_id="other"))
    store.add_tasks(a_profile())
    store.add_tasks(a_profile(agent_id="other"))
    store.delete_run("agent", "run")
    store.prune(runs_before=AT + 999)
    assert 2 == len(store.list_profiles())
    store.delete_agent("agent")
    assert (["other"], []) == ([profile.agent_id for profile in store.list_profiles()], store.check())
    store.close()


def _read_state(store: Store) -> RunState:
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
    assert ("suspended", ["run"]) == (_read_state(store), store.list_suspended("agent"))
    assert (b"state", None) == (store.take_state("agent", "run"), store.take_state("agent", "run"))
    store.write([an_event(1)])
    assert "running" == _read_state(store)
    store.write([an_event(2), SavedState("agent", "run", b"again", AT + 2)])
    assert "suspended" == _read_state(store)
    store.write([SavedState("agent", "run", b"more", AT + 3), info])
    assert ("running", []) == (_read_state(store), store.list_suspended("agent"))
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
        vars(store_incident_checks),
        vars(store_upkeep_checks),
    )
    for name, check in list(module.items())
    if name.startswith("check_")
)
"""Every check of a store, by role."""
