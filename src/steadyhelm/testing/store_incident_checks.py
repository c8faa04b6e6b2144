"""Check the incidents and the outbox of a store."""

# ruff: noqa: SIM300, PLR2004 - a check is a test: expected on the left, and a number is the specification

from steadyhelm.decisions import DriftAction, Intervention
from steadyhelm.findings import Severity
from steadyhelm.incidents import Mute, Threshold
from steadyhelm.testing.store_records import (
    AT,
    MakeStore,
    a_delivery,
    an_event,
    an_incident,
    an_intervention,
    fill_store,
)


def check_an_incident_grows(make_store: MakeStore) -> None:
    """Check that a new version of an incident replaces the one before it, but not its review."""
    answer = Intervention(
        action=DriftAction.INJECT_REMINDER, verdict="guide", seq=4, timestamp=AT, guidance="stop"
    )
    store = fill_store(make_store, an_event(0), an_incident())
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


def check_incident_filters(make_store: MakeStore) -> None:
    """Check that incidents come newest first, by agent, run, state, detector, severity and time."""
    store = fill_store(
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


def check_interventions_come_newest_first(make_store: MakeStore) -> None:
    """Check that interventions of all incidents come newest first, whichever incident they belong to."""
    store = fill_store(
        make_store,
        an_incident(
            "long", last_at=AT + 9, interventions=(an_intervention(1), an_intervention(6), an_intervention(9))
        ),
        an_incident("short", last_at=AT + 7, interventions=(an_intervention(5), an_intervention(7))),
        an_incident("other", agent_id="other", last_at=AT + 8, interventions=(an_intervention(8),)),
        an_incident("quiet", last_at=AT + 20),
    )
    for expected, asked in (
        ([9, 8, 7, 6, 5, 1], {}),
        ([9, 7, 6, 5, 1], {"agent_id": "agent"}),
        ([9, 8, 7], {"since": AT + 7}),
        ([9, 8, 7], {"limit": 3}),
        ([], {"limit": 0}),
        ([], {"agent_id": "nobody"}),
    ):
        assert expected == [it.intervention.seq for it in store.list_interventions(**asked)], asked
    store.close()


def check_an_intervention_names_its_incident(make_store: MakeStore) -> None:
    """Check that an intervention comes with its incident, its run and the review of the incident."""
    answer = an_intervention(
        3, outcome="worked", wording="replan.loop", evidence=("run.1", "run.3"), window=8
    )
    store = fill_store(make_store, an_incident(interventions=(answer,)))
    store.review("incident", "false_alarm")
    (found,) = store.list_interventions()
    assert answer == found.intervention
    assert ("incident", "agent", "run", "loop", "action_loop", "false_alarm") == (
        found.incident_id, found.agent_id, found.run_id, found.kind, found.detector, found.review
    )  # fmt: skip
    store.close()


def check_mutes_end(make_store: MakeStore) -> None:
    """Check that a mute holds until its time, is replaced by a later one, and can be lifted."""
    store = make_store()
    store.mute(Mute(agent_id="agent", detector="action_loop", until=AT, set_at=1.0))
    later = Mute(agent_id="agent", detector="action_loop", until=AT + 9, set_at=2.0)
    store.mute(later)
    assert ([later], []) == (store.list_mutes(at=AT + 1), store.list_mutes(at=AT + 9))
    assert (True, False) == (store.unmute("agent", "action_loop"), store.unmute("agent", "action_loop"))
    assert [] == store.list_mutes(at=AT)
    store.close()


def check_thresholds_can_be_undone(make_store: MakeStore) -> None:
    """Check that thresholds come newest last, and that the change an incident caused can be undone."""
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
    """Check that one claim gets a due alert until its lease expires; each claim counts as an attempt."""
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
    """Check that the last alert queued for an agent and detector is found."""
    store = make_store()
    assert store.get_last_alert("agent", "action_loop") is None
    store.enqueue(a_delivery("1", created_at=AT))
    store.enqueue(a_delivery("2", created_at=AT + 1, severity=Severity.CRITICAL, incident_id="second"))
    last = store.get_last_alert("agent", "action_loop")
    assert last is not None
    assert (AT + 1, Severity.CRITICAL, "second") == (last.at, last.severity, last.incident_id)
    assert store.get_last_alert("agent", "goal_drift") is None
    store.close()
