import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import SettingsError
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident, Thresholds
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


SUBJECTS = st.sampled_from(["", "search", "read → edit"])


def finding(of):
    """A finding as it leads to this incident."""
    return DriftEvent(
        agent_id=of.agent_id,
        run_id=of.run_id,
        detector=of.detector,
        kind=of.kind,
        severity=of.severity,
        score=of.peak,
        message=of.message,
        suggested_action=of.suggested_action,
        timestamp=0.0,
        event_id="r.0",
        context={"subject": of.subject, "repeat_count": of.repeats},
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

    @given(st.floats(0, 1), st.integers(0, 100), SUBJECTS)
    def test_works_for_every_incident(self, peak, repeats, subject):
        """
        Whatever was called a false alarm, its like is silent from then on.
        """
        marked = incident(peak, repeats=repeats, subject=subject)

        assert build_threshold(marked, at=0.0).covers(marked)

    def test_a_subject_is_silent_up_to_twice_as_many_repetitions(self):
        """
        Six repetitions of a tool were no drift: twelve are silent, whichever detector sees it; more are not.
        """
        threshold = build_threshold(incident(1.0, subject="search", repeats=6), at=0.0)

        assert threshold.covers(incident(1.0, subject="search", repeats=12, detector="failing_loop"))
        assert not threshold.covers(incident(1.0, subject="search", repeats=13))
        assert not threshold.covers(incident(0.5, subject="fetch", repeats=3))

    @given(st.lists(st.builds(incident, st.floats(0.5, 1), subject=SUBJECTS, repeats=st.integers(0, 9))))
    def test_several_marks_cover_what_each_of_them_covers(self, marked):
        """
        A finding is silent exactly when one of the marks covers an incident like it.
        """
        thresholds = [build_threshold(it, at=0.0) for it in marked]
        combined = Thresholds.combine(thresholds)
        for it in marked:
            for repeats in (0, it.repeats, 2 * it.repeats, 2 * it.repeats + 1):
                like = incident(it.peak, subject=it.subject, repeats=repeats)
                assert combined.cover(finding(like)) == any(one.covers(like) for one in thresholds)

    def test_a_hard_limit_never_adapts(self):
        """
        An incident about a hard limit is no false alarm: the limit is what to change.
        """
        with pytest.raises(
            SettingsError, match=r"hard limit.*raise or remove the limit of detector 'resource_spike'"
        ):
            build_threshold(incident(detector="resource_spike", hard_limit=True), at=0.0)

    @pytest.mark.parametrize("count", ["several", -3, None, 2.5])
    def test_a_count_that_is_none_counts_nothing(self, count):
        """
        A plug-in may put anything into its finding: what is no number is no repetition.
        """
        odd = finding(incident(0.9, subject="search"))
        odd.context["repeat_count"] = count

        assert 0 == odd.repeats


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
