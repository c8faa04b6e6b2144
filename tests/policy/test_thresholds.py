import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import SettingsError
from steadyhelm.findings import Severity
from steadyhelm.incidents import Incident
from steadyhelm.policy.alerting import build_threshold, preview_threshold


def incident(peak=0.6, **fields):
    return Incident(
        **{
            "incident_id": f"i{peak}",
            "agent_id": "a",
            "run_id": "r",
            "detector": "action_loop",
            "kind": "loop",
            "severity": Severity.from_score(peak),
            "peak": peak,
            "message": "m",
            "suggested_action": "s",
            "opened_at": 0.0,
            "opened_seq": 0,
            "last_at": 0.0,
            "last_seq": 0,
        }
        | fields
    )


class TestThresholdFor:
    def test_just_above_the_false_alarm(self):
        """
        Incidents like the false alarm stay quiet from now on, worse ones do not.
        """
        threshold = build_threshold(incident(0.6), at=7.0)

        assert ("a", "action_loop", pytest.approx(0.61), "i0.6", 7.0) == (
            threshold.agent_id,
            threshold.detector,
            threshold.min_score,
            threshold.incident_id,
            threshold.set_at,
        )

    @given(st.floats(0, 1))
    def test_a_detector_is_never_made_blind(self, peak):
        """
        Whatever was called a false alarm, the surest findings still count.
        """
        assert 0.5 < build_threshold(incident(peak), at=0.0).min_score <= 0.95

    def test_a_hard_limit_never_adapts(self):
        """
        An incident about a hard limit is no false alarm: the limit is what to change.
        """
        with pytest.raises(
            SettingsError, match=r"hard limit.*raise or remove the limit of detector 'resource_spike'"
        ):
            build_threshold(incident(detector="resource_spike", hard_limit=True), at=0.0)


class TestEffect:
    def test_what_would_have_been_silenced(self):
        """
        The effect counts past incidents of this agent and detector, and which of them would have been quiet.
        """
        threshold = build_threshold(incident(0.6), at=0.0)
        past = [
            incident(0.5),
            incident(0.6, review="confirmed"),
            incident(0.8),
            incident(0.5, hard_limit=True, incident_id="limit"),
            incident(0.5, agent_id="other"),
            incident(0.5, detector="goal_drift"),
        ]
        effect = preview_threshold(threshold, past)

        assert (4, 2, 1, ("i0.5", "i0.6")) == (
            effect.incidents,
            effect.silenced,
            effect.confirmed_silenced,
            effect.silenced_ids,
        )

    def test_nothing_past_nothing_changed(self):
        """
        Without past incidents there is no effect.
        """
        effect = preview_threshold(build_threshold(incident(), at=0.0), [])

        assert (0, 0, 0, ()) == (
            effect.incidents,
            effect.silenced,
            effect.confirmed_silenced,
            effect.silenced_ids,
        )

    @given(st.floats(0, 0.94))
    def test_the_false_alarm_itself_is_silenced(self, peak):
        """
        The incident that was called a false alarm would have been quiet.
        """
        false_alarm = incident(peak)

        assert 1 == preview_threshold(build_threshold(false_alarm, at=0.0), [false_alarm]).silenced
