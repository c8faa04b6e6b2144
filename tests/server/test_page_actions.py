"""What people do on the page: each change, its effect before it is saved, its undo, and the audit log."""

import pytest
from served_store import record_loop
from written_runs import write_run

from steadyhelm import DriftMonitor
from steadyhelm.findings import Severity
from steadyhelm.incidents import Mute
from steadyhelm.server.routes import PREFIX
from steadyhelm.stores import open_store


@pytest.fixture
def store(database):
    opened = open_store(database)
    yield opened
    opened.close()


@pytest.fixture
def incident(store):
    """The loop of the recorded run."""
    return next(it for it in store.list_incidents() if it.kind == "loop")


@pytest.fixture
def act(client, incident):
    """Post to an action of the incident; return the answer."""

    def post(action, /, path=None, **body):
        target = path or f"/incidents/{incident.incident_id}/{action}"
        response = client.post(PREFIX + target, json=body)
        assert response.status_code == 200, response.text
        return response.json()

    return post


@pytest.fixture
def alike(database, store):
    """The id of one of three incidents of the same pattern, of which two go on."""
    monitor = DriftMonitor("worker", db_path=database, mode="observe", alert_webhook="")
    for run_id in [monitor.start_run(goal=f"goal {number}") for number in range(2)]:
        for _ in range(8):
            monitor.record_event(
                "tool_call", "test", run_id=run_id, input_data={}, output_data={"text": "no"}, error="no"
            )
    monitor.flush()
    yield next(it.incident_id for it in store.list_incidents(state="open") if it.kind == "loop")
    monitor.close()


def audit(client):
    return [row["action"] for row in client.get(f"{PREFIX}/audit").json()["rows"]]


class TestIncidents:
    def test_acknowledge_and_undo(self, act, store, incident, client):
        """An incident is acknowledged by who did it, and not any more."""
        act("acknowledge")
        assert store.find_incident(incident.incident_id).acknowledged_at is not None
        card = client.get(f"{PREFIX}/incidents/{incident.incident_id}").json()
        assert "token" == card["acknowledged_by"]
        act("acknowledge", undo=True)
        assert store.find_incident(incident.incident_id).acknowledged_at is None
        assert ["take back acknowledgement", "acknowledge"] == audit(client)

    def test_each_tab_has_its_incidents(self, act, client, database):
        """
        An incident is in one tab at a time: what is marked as a false alarm is done with.

            open --acknowledge--> acknowledged --mute--> muted --false alarm--> closed
        """
        monitor = DriftMonitor("poller", db_path=database, alert_webhook="")
        run = monitor.start_run(goal="wait")
        for _ in range(9):
            monitor.record_event("tool_call", "ask", run_id=run, input_data={"job": 7}, output_data={"n": 0})
        monitor.flush()
        (opened,) = monitor.store.list_incidents("poller", state="open")
        places = []
        for action, body in {
            "": {},
            "acknowledge": {},
            "mute": {"until": "1h"},
            "false-alarm": {"reason": "other"},
        }.items():
            if action:
                act(action, path=f"/incidents/{opened.incident_id}/{action}", **body)
            for tab in ("open", "acknowledged", "muted", "closed"):
                listed = client.get(f"{PREFIX}/incidents", params={"tab": tab, "agent": "2"}).json()
                if opened.incident_id in {group["newest"] for group in listed["groups"]}:
                    places.append((action, tab, listed["totals"][tab]))
        monitor.close()
        assert [
            ("", "open", 1),
            ("acknowledge", "acknowledged", 1),
            ("mute", "muted", 1),
            ("false-alarm", "closed", 1),
        ] == places
        found = client.get(f"{PREFIX}/overview").json()
        assert [[]] == [it["open_incidents"] for it in found["agents"] if it["name"] == "poller"]

    @pytest.mark.parametrize(("until", "field"), [("1h", None), ("worse", "up_to"), ("version", "version")])
    def test_mute_always_ends(self, act, store, incident, until, field):
        """A mute ends after its time, at the latest after 14 days, and can be lifted."""
        act("mute", until=until)
        (mute,) = store.list_mutes(at=0.0)
        assert 0 < mute.until - mute.set_at <= 14 * 86_400
        if field is not None:
            assert getattr(mute, field) is not None
        act("mute", undo=True)
        assert [] == store.list_mutes(at=0.0)

    def test_a_false_alarm_shows_its_effect_and_can_be_undone(self, act, store, incident, client):
        """The effect is shown before saving; saving changes what it said; undo changes it back."""
        effect = act("false-alarm/preview", reason="level")
        assert (1, 0, True) == (effect["silenced"], effect["right_lost"], effect["allowed"])
        assert "1 of 1 would not have been raised." == effect["sentence"]
        assert [] == store.list_thresholds()
        act("false-alarm", reason="level", note="known")
        assert "false_alarm" == store.find_incident(incident.incident_id).review
        assert 1 == len(store.list_thresholds())
        (row,) = client.get(f"{PREFIX}/precision").json()["detectors"][:1]
        assert 1 == row["false"]
        act("undo")
        assert ("", []) == (store.find_incident(incident.incident_id).review, store.list_thresholds())

    def test_a_polling_tool_is_declared(self, act, store, incident):
        """The reason `polls` declares the tool; the effect comes from judging the run again."""
        effect = act("false-alarm/preview", reason="polls", tool_kind="poll")
        assert {it["effect"] for it in effect["incidents"]} <= {"silenced", "raised"}
        act("false-alarm", reason="polls", tool_kind="poll")
        assert [("test", "poll")] == [(it.tool, it.kind) for it in store.list_tool_marks("worker")]
        act("undo")
        assert [] == store.list_tool_marks("worker")

    def test_each_reason_says_what_it_changes(self, act, client, incident):
        """The card has what each reason of a false alarm changes: the words of its effect."""
        changes = client.get(f"{PREFIX}/incidents/{incident.incident_id}").json()["false_alarm_changes"]
        shown = {reason: act("false-alarm/preview", reason=reason)["change"] for reason in changes}
        assert ["polls", "new_task", "level", "other"] == list(changes)
        assert shown == changes
        assert len(set(changes.values())) == len(changes)

    def test_right_counts_as_lost_in_an_effect(self, act):
        """An incident that was marked right shows as lost where it would not have been raised."""
        act("right")
        effect = act("false-alarm/preview", reason="other")
        assert (1, "1 of 1 would not have been raised. 1 that was marked right would be lost.") == (
            effect["right_lost"],
            effect["sentence"],
        )

    def test_comments_are_text(self, act, client, incident):
        """A comment comes back as it was written."""
        act("comments", text="<script>alert(1)</script>")
        card = client.get(f"{PREFIX}/incidents/{incident.incident_id}").json()
        assert ["<script>alert(1)</script>"] == [it["text"] for it in card["comments"]]

    @pytest.mark.parametrize(
        ("action", "body", "undo", "tab"),
        [
            ("acknowledge", {}, ("acknowledge", {"undo": True, "whole_group": True}), "acknowledged"),
            ("mute", {"until": "1h"}, ("mute", {"undo": True, "whole_group": True}), "muted"),
            ("right", {}, ("undo", {}), "closed"),
            ("false-alarm", {"reason": "new_task"}, ("undo", {}), "closed"),
        ],
    )
    def test_a_whole_group_leaves_its_tab_and_comes_back(self, act, client, alike, action, body, undo, tab):
        """Every incident of the group leaves the open ones, also those that ended; undo brings all back."""

        def count():
            asked = {it: {"tab": it, "kind": "loop"} for it in ("open", tab)}
            found = {it: client.get(f"{PREFIX}/incidents", params=asked[it]).json()["groups"] for it in asked}
            return {it: [group["count"] for group in groups] for it, groups in found.items()}

        assert {"open": [3], tab: []} == count()
        act("", path=f"/incidents/{alike}/{action}", whole_group=True, **body)
        assert {"open": [], tab: [3]} == count()
        act("", path=f"/incidents/{alike}/{undo[0]}", **undo[1])
        assert {"open": [3], tab: []} == count()

    def test_a_group_of_two_detectors_is_muted_as_one(self, act, store):
        """Both detectors are muted up to the worst they saw, and undo ends these mutes and no other."""
        write_run(store, "a", agent_id="pair", severity=Severity.MED)
        write_run(store, "b", agent_id="pair", severity=Severity.HIGH)
        write_run(store, "c", agent_id="pair", severity=Severity.MED, detector="retry_loop")
        act("", path="/incidents/i-a/mute", until="worse", whole_group=True)
        assert {"action_loop": "HIGH", "retry_loop": "MED"} == {
            it.detector: it.up_to for it in store.list_mutes(at=0.0)
        }
        store.mute(Mute(agent_id="pair", detector="goal_drift", until=9e9, set_at=1.0))
        undo = {"path": "/incidents/i-a/mute", "undo": True, "whole_group": True}
        assert ["Alerts are sent again.", "It was not muted."] == [
            act("", **undo)["message"] for _ in range(2)
        ]
        assert ["goal_drift"] == [it.detector for it in store.list_mutes(at=0.0)]

    def test_undo_leaves_what_was_acknowledged_before(self, act, alike, incident, store):
        """Undoing the acknowledgement of a group takes back what that request did, and nothing else."""
        act("acknowledge")
        assert (
            "Acknowledged: 2 incidents."
            == (act("", path=f"/incidents/{alike}/acknowledge", whole_group=True)["message"])
        )
        act("", path=f"/incidents/{alike}/acknowledge", whole_group=True, undo=True)
        acknowledged = [it.incident_id for it in store.list_incidents() if it.acknowledged_at is not None]
        assert [incident.incident_id] == acknowledged

    def test_a_group_shows_the_newest_of_the_tab_asked_for(self, act, client, alike, incident):
        """When the newer ones are dealt with, the card of the group is about the one that is left."""
        before = client.get(f"{PREFIX}/incidents/{incident.incident_id}/group").json()
        act("acknowledge", path=f"/incidents/{alike}/acknowledge", whole_group=True)
        act("acknowledge", undo=True)
        after = client.get(f"{PREFIX}/incidents/{incident.incident_id}/group").json()
        assert before["newest"]["row"]["incident_id"] != incident.incident_id
        assert (incident.incident_id, "open", False) == tuple(
            after["newest"]["row"][it] for it in ("incident_id", "tab", "ongoing")
        )

    def test_undo_takes_back_every_mark_of_a_group(self, act, alike, store):
        """What one request marked, one undo takes back: every mark, and every threshold."""
        act("", path=f"/incidents/{alike}/false-alarm", reason="level", whole_group=True)
        marked = [it.incident_id for it in store.list_incidents() if it.review == "false_alarm"]
        assert 3 == len(marked)
        assert "Took the mark back: 3 incidents." in act("", path=f"/incidents/{marked[-1]}/undo")["message"]
        assert {""} == {it.review for it in store.list_incidents()}
        assert [] == store.list_thresholds()


class TestAgents:
    def test_the_baseline_manager(self, act, store, client):
        """A baseline is frozen, learns again, and is reset."""
        path = "/agents/1/baseline"
        act("", path=path, action="freeze")
        assert store.get_baseline("worker").is_frozen
        act("", path=path, action="unfreeze")
        assert not store.get_baseline("worker").is_frozen
        act("", path=path, action="reset")
        assert store.get_baseline("worker") is None
        assert 404 == client.post(PREFIX + path, json={"action": "freeze"}).status_code

    def test_exclude_a_run(self, act, store, client):
        """A run is left out of baselines, and taken in again."""
        counts = [len(store.list_run_summaries("worker"))]
        first = client.get(f"{PREFIX}/runs").json()["runs"][-1]["key"]
        for excluded in (True, False):
            act("", path="/agents/1/exclude", run=first, excluded=excluded)
            counts.append(len(store.list_run_summaries("worker")))
        assert [6, 5, 6] == counts
        assert 404 == client.post(f"{PREFIX}/agents/1/exclude", json={"run": 99}).status_code

    def test_declare_a_tool(self, act, store, client):
        """A declaration shows its effect, is saved with who and when, and is taken back."""
        effect = act("", path="/agents/1/declarations/preview", tool="test", kind="schedule")
        assert "silenced" in {it["effect"] for it in effect["incidents"]}
        act("", path="/agents/1/declarations", tool="test", kind="schedule")
        found = client.get(f"{PREFIX}/agents/1").json()["declarations"]
        assert [("schedule", "page", "token")] == [
            (it["kind"], it["source"], it["by"]) for it in found if it["tool"] == "test"
        ]
        act("", path="/agents/1/declarations", tool="test", kind="")
        assert [] == store.list_tool_marks("worker")


class TestSettings:
    def test_keys(self, act, client, running_server):
        """A key is shown once, works, is listed without its secret, and is revoked."""
        made = act("", path="/keys", name="ci", scopes=["read"], days=1)
        with running_server.client(authorization=f"Bearer {made['secret']}") as other:
            assert 200 == other.get(f"{PREFIX}/runs").status_code
            assert made["secret"] not in client.get(f"{PREFIX}/keys").text
            assert 200 == client.delete(f"{PREFIX}/keys/{made['key']['id']}").status_code
            assert 401 == other.get(f"{PREFIX}/runs").status_code
        assert ["revoke key", "make key"] == audit(client)

    def test_prune_and_channel(self, act, client):
        """Retention deletes what is old; a channel that is not set up says so."""
        assert {"payloads": 0, "runs": 0, "events": 0} == act("", path="/retention/prune")
        response = client.post(f"{PREFIX}/channels/test", json={})
        assert (409, "conflict") == (response.status_code, response.json()["code"])


def test_a_loop_can_be_recorded_while_it_serves(running_server, database, client):
    """The server and an agent use the same file at the same time."""
    monitor = DriftMonitor("other", db_path=database, alert_webhook="")
    run_id = record_loop(monitor)
    monitor.close()
    assert run_id in {run["run_id"] for run in client.get(f"{PREFIX}/runs").json()["runs"]}
