import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import SettingsError
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident
from steadyhelm.policy.alerting import Alert, AlertPolicy
from steadyhelm.store_rows import LastAlert

INCIDENT = Incident(
    incident_id="i1",
    agent_id="researcher",
    run_id="r1",
    detector="action_loop",
    kind="loop",
    severity=Severity.HIGH,
    peak=0.8,
    message="search was called 5 times with the same result",
    suggested_action="Try something else.",
    opened_at=1000.0,
    opened_seq=3,
    last_at=1010.0,
    last_seq=9,
    findings=4,
    event_ids=("e1", "e2"),
)


def incident(**changes):
    """An ordinary incident, with changes."""
    return msgspec.structs.replace(INCIDENT, **changes)


def alerted(at, *, incident_id="i1", severity=Severity.HIGH):
    """An alert that was sent at that time."""
    return LastAlert(at=at, severity=severity, incident_id=incident_id)


class TestFirstAlert:
    def test_an_incident_is_told_when_it_opens(self):
        """
        With no alert before it, an incident of sufficient severity is told at once.
        """
        assert "opened" == AlertPolicy().decide(incident(), None, now=1010.0)

    @pytest.mark.parametrize(
        ("lowest", "told"),
        [("LOW", 4), ("MED", 3), ("HIGH", 2), ("CRITICAL", 1)],
    )
    def test_nothing_below_the_lowest_severity_is_told(self, lowest, told):
        """
        Only incidents of the lowest severity asked for and above are told.
        """
        policy = AlertPolicy(min_severity=lowest)

        reasons = [policy.decide(incident(severity=severity), None, now=0.0) for severity in Severity]

        assert [None] * (4 - told) + ["opened"] * told == reasons

    def test_another_incident_waits_for_the_cooldown(self):
        """
        A second incident of the same agent and detector is held while the cooldown lasts.
        """
        last = alerted(1000.0, incident_id="earlier")

        assert None is AlertPolicy(cooldown_s=60).decide(incident(), last, now=1059.9)

    def test_a_held_incident_is_told_when_it_outlasts_the_cooldown(self):
        """
        An incident that was held and still goes on after the cooldown is told then.
        """
        last = alerted(1000.0, incident_id="earlier")

        assert "opened" == AlertPolicy(cooldown_s=60).decide(incident(), last, now=1060.0)

    def test_a_closed_incident_nobody_was_told_about_is_told(self):
        """
        An incident that ends before anybody was told is told at its end.
        """
        assert "opened" == AlertPolicy().decide(incident(state="closed"), None, now=1010.0)

    def test_one_event_from_the_future_silences_nobody(self):
        """
        An alert dated years ahead does not hold back the alerts of today.
        """
        last = alerted(9e9, incident_id="earlier")

        assert "opened" == AlertPolicy().decide(incident(), last, now=1010.0)


class TestFurtherAlerts:
    def test_a_worse_severity_is_told_at_once(self):
        """
        An incident that becomes worse than last told is told again, cooldown or not.
        """
        worse = incident(severity=Severity.CRITICAL)

        assert "worse" == AlertPolicy(cooldown_s=60).decide(worse, alerted(1000.0), now=1000.1)

    def test_the_same_severity_is_not_told_twice(self):
        """
        A new version of an incident that is no worse is no news.
        """
        assert None is AlertPolicy().decide(incident(), alerted(1000.0), now=1100.0)

    def test_a_lower_severity_is_no_news(self):
        """
        An incident that got milder is not told again.
        """
        milder = incident(severity=Severity.MED)

        assert None is AlertPolicy().decide(milder, alerted(1000.0), now=1100.0)

    def test_an_incident_that_goes_on_is_told_again(self):
        """
        An incident that still goes on when the digest is due is told as still drifting.
        """
        assert "still" == AlertPolicy(digest_s=600).decide(incident(), alerted(1000.0), now=1600.0)

    def test_an_endless_digest_interval_never_tells_again(self):
        """
        With an infinite interval there are no digests.
        """
        assert None is AlertPolicy(digest_s=math.inf).decide(incident(), alerted(0.0), now=1e12)

    def test_the_end_of_an_incident_is_not_told(self):
        """
        When an incident that was told has ended, nothing more is said about it.
        """
        ended = incident(state="closed", severity=Severity.CRITICAL)

        assert None is AlertPolicy().decide(ended, alerted(1000.0), now=9000.0)

    def test_its_own_alert_counts_before_a_later_one(self):
        """
        Given the incident's own last alert, a later alert of another incident does not hide it.
        """
        last, own = alerted(1100.0, incident_id="other"), alerted(1000.0, severity=Severity.MED)

        assert "worse" == AlertPolicy().decide(incident(), last, own=own, now=1101.0)


class TestAlertIds:
    def test_the_same_alert_has_the_same_id(self):
        """
        A replay of the same incident gives the same delivery id, so nothing is sent twice.
        """
        first, again = (AlertPolicy().build_alert(incident(), "opened", now=now) for now in (1010.0, 1020.0))

        assert first.to_delivery("ops").delivery_id == again.to_delivery("ops").delivery_id

    def test_what_differs_has_different_ids(self):
        """
        Reason, severity, incident, digest number and channel each make a delivery another one.
        """
        policy = AlertPolicy(digest_s=600)
        alerts = [
            policy.build_alert(incident(), "opened", now=1010.0),
            policy.build_alert(incident(incident_id="i2"), "opened", now=1010.0),
            policy.build_alert(incident(severity=Severity.MED), "opened", now=1010.0),
            policy.build_alert(incident(), "worse", now=1010.0),
            policy.build_alert(incident(), "still", now=1600.0),
            policy.build_alert(incident(), "still", now=2200.0),
        ]

        ids = {alert.to_delivery(channel).delivery_id for alert in alerts for channel in ("ops", "chat")}

        assert 12 == len(ids)

    @given(st.lists(st.floats(0, 300), min_size=1, max_size=60), st.floats(1, 600))
    def test_digests_of_one_incident_never_share_an_id(self, gaps, digest_s):
        """
        However the steps of an incident are spaced, each of its alerts has an id of its own.
        """
        policy = AlertPolicy(digest_s=digest_s)
        ids, last, now = [], None, 1000.0
        for gap in gaps:
            now += gap
            reason = policy.decide(incident(), last, now=now)
            if reason is not None:
                ids.append(policy.build_alert(incident(), reason, now=now).alert_id)
                last = alerted(now)

        assert len(ids) == len(set(ids))


class TestAlert:
    def test_its_event_is_a_drift_event(self):
        """
        A program that reads DriftEvents reads the alert's event as one.
        """
        event = AlertPolicy().build_alert(incident(), "opened", now=1010.0).to_event()

        assert ("action_loop", Severity.HIGH, 0.8, ["e1", "e2"]) == (
            (found := DriftEvent.from_dict(event)).detector,
            found.severity,
            found.score,
            found.event_ids,
        )

    def test_a_delivery_carries_the_whole_alert(self):
        """
        What is put in the outbox reads back as the same alert, addressed to its channel.
        """
        alert = AlertPolicy().build_alert(incident(), "opened", now=1010.0, also=3)

        assert msgspec.structs.replace(alert, channel="ops") == Alert.from_body(alert.to_delivery("ops").body)

    def test_half_a_surrogate_pair_does_not_stop_an_alert(self):
        """
        Text that cannot be encoded is replaced, not raised at.
        """
        alert = AlertPolicy().build_alert(incident(message="bad \ud800 text"), "opened", now=1010.0)

        assert "bad ? text" == Alert.from_body(alert.to_delivery("ops").body).incident.message


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"min_severity": "URGENT"}, "alerts.min_severity must be one of LOW, MED, HIGH, CRITICAL"),
            ({"min_severity": None}, "got None"),
            ({"cooldown_s": -1}, "alerts.cooldown_s must be 0 or more seconds, got -1"),
            ({"cooldown_s": math.nan}, "alerts.cooldown_s"),
            ({"cooldown_s": math.inf}, "alerts.cooldown_s"),
            ({"cooldown_s": "60"}, "got '60'"),
            ({"cooldown_s": True}, "got True"),
            ({"digest_s": 0}, "alerts.digest_s must be more than 0 seconds, got 0"),
            ({"digest_s": math.nan}, "alerts.digest_s"),
        ],
    )
    def test_a_bad_setting_is_named(self, settings, words):
        """
        A setting that cannot be is refused with its name, its value and what is allowed.
        """
        with pytest.raises(SettingsError, match=words):
            AlertPolicy(**settings)

    def test_a_severity_may_be_written_small(self):
        """
        The lowest severity may be given as a word in any case.
        """
        assert Severity.HIGH is AlertPolicy(min_severity="high").min_severity
