"""What every store must do, as checks that any store can be put through.

Each check takes a function that makes a fresh, empty store, and raises AssertionError when it finds a fault::

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_store(check, tmp_path):
        check(lambda: SQLiteStore(tmp_path / "runs.db"))
"""

# ruff: noqa: SIM300, PLR2004, PT017 - a check is a test: expected on the left, numbers specify, no pytest needed

from typing import Final

from steadyhelm.baselines import BaselineStats
from steadyhelm.decisions import DriftAction, Intervention
from steadyhelm.errors import NotFoundError
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.incidents import Mute, Threshold
from steadyhelm.sink import SavedState
from steadyhelm.store import RunState, Store
from steadyhelm.testing import store_effect_checks, store_upkeep_checks
from steadyhelm.testing.store_records import (
    AT,
    MakeStore,
    a_delivery,
    a_finding,
    a_summary,
    an_event,
    an_incident,
    kept,
)


def _state(store: Store) -> RunState:
    return store.find_run("run").state


def check_events_come_back(make_store: MakeStore) -> None:
    """An event is read back as it was written, whatever is in it."""
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
    store = kept(make_store, *events)
    assert events == list(store.iter_run_events("agent", "run"))
    assert [recorded.event for recorded in events] == store.get_run_traces("agent", "run")
    store.close()


def check_a_repeated_event_is_left_as_it_is(make_store: MakeStore) -> None:
    """An event under a run and seq already kept changes nothing, in the same batch or a later one."""
    store = kept(make_store, an_event(0), an_event(0, action_name="other"))
    store.write([an_event(0, action_name="third"), an_event(1)])
    assert ["read", "read"] == [event.action_name for event in store.get_run_traces("agent", "run")]
    run = store.find_run("run")
    assert (2, 20, 2, 10.0) == (run.events, run.tokens, run.tool_calls, run.duration_ms)
    store.close()


def check_a_run_sums_up_its_events(make_store: MakeStore) -> None:
    """The list of runs, a run's tools and its statistics say what its events say."""
    failed = an_event(1, action_name="edit", error="no such file", cost_usd=0.5)
    store = kept(make_store, an_event(0), failed, an_event(2, action_type="llm_request", action_name="model"))
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
    """Runs come newest first, of one agent or all, a page at a time."""
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
    """A run is running, suspended with its state, running again, and ended."""
    info = RunInfo(
        agent_id="agent", run_id="run", goal="mend it", started_at=AT, version="2", task_type="fix"
    )
    store = kept(make_store, info, an_event(0))
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
    """A run or an incident is found by a unique beginning of its id; else the error names candidates."""
    store = kept(make_store, an_event(run_id="abc1"), an_event(run_id="abd2"), an_event(run_id="%_"))
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
    """`get_traces` gives the newest events over all runs, and narrows by agent, run, time and number."""
    store = kept(make_store, *(an_event(n // 2, run_id=f"run-{n % 2}", timestamp=AT + n) for n in range(8)))
    store.write([an_event(0, agent_id="other", run_id="old", timestamp=AT - 9)])
    times = [event.timestamp - AT for event in store.get_traces()]
    assert [7, 6, 5, 4, 3, 2, 1, 0, -9] == times
    assert [7, 6, 5] == [event.timestamp - AT for event in store.get_traces("agent", limit=3)]
    assert [6, 4] == [event.timestamp - AT for event in store.get_traces(run_id="run-0", since=AT + 3)]
    store.close()


def check_findings_come_back(make_store: MakeStore) -> None:
    """Findings are read back as written, newest first, and counted on their run."""
    low, high = a_finding(0, score=0.2), a_finding(1)
    store = kept(make_store, an_event(0), low, high)
    assert [high, low] == store.get_drift_events()
    assert [high] == store.get_drift_events(severity=Severity.MED)
    assert [high] == store.get_drift_events("agent", "run", since=AT + 0.5)
    assert [] == store.get_drift_events("nobody")
    assert 2 == store.find_run("run").findings
    store.close()


def check_an_incident_grows(make_store: MakeStore) -> None:
    """A new version replaces the one before it, but never what people said about it."""
    answer = Intervention(
        action=DriftAction.INJECT_REMINDER, verdict="guide", seq=4, timestamp=AT, guidance="stop"
    )
    store = kept(make_store, an_event(0), an_incident())
    store.acknowledge("incident", at=AT + 5)
    store.review("incident", "confirmed")
    grown = an_incident(peak=0.95, findings=7, event_ids=("run.3", "run.4"), interventions=(answer,))
    store.write([an_incident(peak=0.9), grown])
    found = store.find_incident("incident")
    assert ("confirmed", AT + 5, 7, (answer,)) == (
        found.review, found.acknowledged_at, found.findings, found.interventions
    )  # fmt: skip
    run = store.find_run("run")
    assert (1, 0.95) == (run.incidents, run.peak)
    assert 1 == store.list_agents()[0].open_incidents
    store.write([an_incident(state="closed", closed_at=AT + 9)])
    assert 0 == store.list_agents()[0].open_incidents
    store.close()


def check_incidents_are_narrowed(make_store: MakeStore) -> None:
    """Incidents come newest first, by agent, run, state, detector, severity and time."""
    store = kept(
        make_store,
        an_incident("1", last_at=AT + 1, state="closed"),
        an_incident("2", last_at=AT + 2, severity=Severity.MED),
        an_incident("3", last_at=AT + 3, agent_id="other", run_id="r", detector="goal_drift"),
    )
    for expected, asked in (
        ("321", {}),
        ("32", {"state": "open"}),
        ("1", {"state": "closed"}),
        ("21", {"agent_id": "agent"}),
        ("3", {"run_id": "r"}),
        ("3", {"detector": "goal_drift"}),
        ("31", {"severity": Severity.HIGH}),
        ("32", {"since": AT + 2}),
        ("3", {"limit": 1}),
    ):
        found = store.list_incidents(**asked)
        assert expected == "".join(incident.incident_id for incident in found), asked
    store.close()


def check_clean_runs_teach(make_store: MakeStore) -> None:
    """Only ended runs without incidents, or with nothing but false alarms, teach; oldest first."""
    summaries = [
        a_summary(f"run-{n}", had_incident=n in (1, 2), words=bytes([n]), similarities=[0.5])
        for n in range(4)
    ]
    store = kept(make_store, *summaries, an_event(run_id="running"), a_summary("other", version="2"))
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
    """After a reset the baseline is gone, and earlier runs no longer teach it."""
    baseline = BaselineStats(
        agent_id="agent", calibration_runs=3, word_counts=b"\0\2", common_sequences=[["a", "b"]]
    )
    store = kept(make_store, a_summary("before"))
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


def check_mutes_end(make_store: MakeStore) -> None:
    """A mute holds until its time, is replaced by a later one, and can be lifted."""
    store = make_store()
    store.mute(Mute(agent_id="agent", detector="action_loop", until=AT, set_at=1.0))
    later = Mute(agent_id="agent", detector="action_loop", until=AT + 9, set_at=2.0)
    store.mute(later)
    assert ([later], []) == (store.list_mutes(at=AT + 1), store.list_mutes(at=AT + 9))
    assert (True, False) == (store.unmute("agent", "action_loop"), store.unmute("agent", "action_loop"))
    assert [] == store.list_mutes(at=AT)
    store.close()


def check_thresholds_can_be_undone(make_store: MakeStore) -> None:
    """Thresholds come newest last, and the move an incident caused can be taken back."""
    store = make_store()
    first = Threshold(agent_id="agent", detector="action_loop", min_score=0.8, incident_id="1", set_at=1.0)
    second = Threshold(agent_id="agent", detector="action_loop", min_score=0.9, incident_id="2", set_at=2.0)
    for threshold in (second, first):
        store.save_threshold(threshold)
    assert [first, second] == store.list_thresholds("agent")
    assert [] == store.list_thresholds("other")
    assert (True, False) == (store.drop_threshold("2"), store.drop_threshold("2"))
    assert [first] == store.list_thresholds()
    store.close()


def check_a_delivery_is_claimed_once(make_store: MakeStore) -> None:
    """A due alert goes to one claimer until the lease is over; each claim counts as an attempt."""
    store = make_store()
    store.enqueue(a_delivery("1", next_at=5.0))
    store.enqueue(a_delivery("1", reason="again"))
    store.enqueue(a_delivery("2", next_at=50.0))
    assert [] == store.claim_deliveries(now=4.0, lease_s=10.0)
    (claimed,) = store.claim_deliveries(now=6.0, lease_s=10.0)
    assert ("1", 1, "opened") == (claimed.delivery_id, claimed.attempts, claimed.reason)
    assert [] == store.claim_deliveries(now=15.0, lease_s=10.0)
    (claimed,) = store.claim_deliveries(now=16.0, lease_s=10.0)
    assert 2 == claimed.attempts
    store.settle_delivery("1", "pending", next_at=20.0, error="refused")
    assert ["refused"] == [delivery.error for delivery in store.claim_deliveries(now=20.0, lease_s=10.0)]
    store.settle_delivery("1", "sent")
    assert ["2", "1"] == [delivery.delivery_id for delivery in store.list_deliveries()]
    assert ["1"] == [delivery.delivery_id for delivery in store.list_deliveries(state="sent")]
    store.close()


def check_the_last_alert_is_known(make_store: MakeStore) -> None:
    """The alert queued last for an agent and detector is what cooldown is measured from."""
    store = make_store()
    assert store.get_last_alert("agent", "action_loop") is None
    store.enqueue(a_delivery("1", created_at=AT))
    store.enqueue(a_delivery("2", created_at=AT + 1, severity=Severity.CRITICAL, incident_id="second"))
    last = store.get_last_alert("agent", "action_loop")
    assert last is not None
    assert (AT + 1, Severity.CRITICAL, "second") == (last.at, last.severity, last.incident_id)
    assert store.get_last_alert("agent", "goal_drift") is None
    store.close()


STORE_CHECKS: Final = tuple(
    check
    for module in (globals(), vars(store_effect_checks), vars(store_upkeep_checks))
    for name, check in list(module.items())
    if name.startswith("check_")
)
"""Every check, those of `store_effect_checks` and `store_upkeep_checks` among them."""
