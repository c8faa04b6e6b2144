import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdfast.decisions import LADDER, MODES, DriftAction
from holdfast.findings import DriftEvent, Severity
from holdfast.policy.ladder import ENFORCED, FIRST_RUNG, VERDICTS, respond, verdict

KINDS = ("loop", "goal", "resource")


def finding(severity, kind="loop"):
    return DriftEvent(
        agent_id="a",
        run_id="r",
        detector=f"{kind} detector",
        kind=kind,
        severity=Severity(severity),
        score=0.5,
        message="m",
        suggested_action="s",
        timestamp=0.0,
        event_id="e",
    )


FINDINGS = st.lists(st.builds(finding, st.sampled_from(Severity), st.sampled_from(KINDS)), max_size=4)
ABILITIES = st.sets(st.sampled_from(VERDICTS))
ACTIONS = st.sampled_from(DriftAction)


class TestRespond:
    def test_nothing_noticed_nothing_done(self):
        """
        Without findings the agent goes on.
        """
        assert DriftAction.CONTINUE is respond([], {"loop"})

    @pytest.mark.parametrize(
        ("severity", "first", "again"),
        [
            ("LOW", "CONTINUE", "CONTINUE"),
            ("MED", "INJECT_REMINDER", "SUMMARIZE_REPLAN"),
            ("HIGH", "SUMMARIZE_REPLAN", "CHECKPOINT_RESET"),
            ("CRITICAL", "CHECKPOINT_RESET", "ASK_USER"),
        ],
    )
    def test_severity_to_action(self, severity, first, again):
        """
        Each severity has its rung, and one higher when the same incident goes on after an answer.
        """
        assert (first, again) == (
            respond([finding(severity)], set()),
            respond([finding(severity)], {"loop"}),
        )

    def test_another_detectors_word_on_the_same_does_count(self):
        """
        Whichever detector was answered, drift of that kind is answered one rung higher when it goes on.
        """
        other = structs.replace(finding("MED"), detector="failing_loop")

        assert "SUMMARIZE_REPLAN" == respond([other], {"loop"})

    def test_anothers_incident_does_not_count(self):
        """
        That drift of another kind goes on makes this one no worse.
        """
        assert "INJECT_REMINDER" == respond([finding("MED")], {"goal"})

    @given(FINDINGS, FINDINGS, st.sets(st.sampled_from(KINDS)))
    def test_more_findings_never_weaken_the_answer(self, some, more, going_on):
        """
        The strongest answer that any finding calls for is given.
        """
        assert respond(some + more, going_on).rung == max(
            respond(some, going_on).rung, respond(more, going_on).rung
        )

    @given(FINDINGS, st.sets(st.sampled_from(KINDS)))
    def test_an_incident_that_goes_on_raises_by_one_rung_at_most(self, findings, going_on):
        """
        What goes on is answered one rung higher, never two, and never weaker.
        """
        first, again = respond(findings, set()), respond(findings, going_on)

        assert 0 <= again.rung - first.rung <= 1


class TestVerdict:
    @given(ACTIONS, ABILITIES)
    def test_observe_always_proceeds(self, action, can):
        """
        In observe mode nothing is ever said or stopped.
        """
        assert "proceed" == verdict(action, "observe", can)

    @given(ACTIONS, ABILITIES)
    def test_guide_only_speaks(self, action, can):
        """
        In guide mode the strongest answer is words.
        """
        assert verdict(action, "guide", can) in {"proceed", "guide"}

    @given(ACTIONS, st.sampled_from(MODES), ABILITIES)
    def test_nobody_is_asked_for_what_it_cannot(self, action, mode, can):
        """
        The answer is one the caller can give; going on is always possible.
        """
        assert verdict(action, mode, can) in can | {"proceed"}

    @given(st.sampled_from(MODES), ABILITIES)
    def test_nothing_advised_is_nothing_done(self, mode, can):
        """
        CONTINUE is proceed, whatever the mode.
        """
        assert "proceed" == verdict(DriftAction.CONTINUE, mode, can)

    @given(ACTIONS.filter(lambda action: action is not DriftAction.ASK_USER), ABILITIES)
    def test_what_it_cannot_falls_to_something_weaker(self, action, can):
        """
        An answer the caller cannot give becomes a weaker one, never a stronger one.
        """
        assert VERDICTS.index(verdict(action, "enforce", can)) <= VERDICTS.index(ENFORCED[action])

    @given(ABILITIES.filter(lambda can: can & {"ask", "stop"}))
    def test_the_strongest_action_does_not_fade(self, can):
        """
        Where nobody can be asked but the run can be stopped, it is stopped.
        """
        assert ("ask" if "ask" in can else "stop") == verdict(DriftAction.ASK_USER, "enforce", can)

    def test_enforce_does_what_the_table_says(self):
        """
        A caller that can do everything is asked for exactly what the action calls for.
        """
        assert ["proceed", "guide", "guide", "rollback", "ask"] == [
            verdict(action, "enforce") for action in LADDER
        ]


class TestLadder:
    def test_rungs_rise(self):
        """
        The rungs are in order, each raised to the next, the highest to itself.
        """
        assert [*LADDER[1:], LADDER[-1]] == [action.raised() for action in LADDER]
        assert [0, 1, 2, 3, 4] == [action.rung for action in LADDER]

    def test_every_severity_and_every_action_has_a_place(self):
        """
        No severity is without an action and no action without a verdict.
        """
        assert (set(Severity), set(DriftAction)) == (set(FIRST_RUNG), set(ENFORCED))
