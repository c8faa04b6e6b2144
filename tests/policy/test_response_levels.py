import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.decisions import MODES, RESPONSE_LEVELS, DriftAction
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.policy.response_levels import (
    DRIFT_SCORE,
    FIRST_LEVEL,
    VERDICTS,
    VERDICTS_AFTER_STEP,
    VERDICTS_BEFORE_CALL,
    LastResponse,
    choose_verdict,
    is_unlike_earlier_runs,
    respond,
)
from steadyhelm.testing.store_records import an_incident

KINDS = ("loop", "goal", "resource")


def finding(severity, kind="loop", detector="", **context):
    return DriftEvent(
        agent_id="a",
        run_id="r",
        detector=detector or f"{kind} detector",
        kind=kind,
        severity=Severity(severity),
        score=0.5,
        message="m",
        suggested_action="s",
        timestamp=0.0,
        event_id="e",
        context=context,
    )


FINDINGS = st.lists(st.builds(finding, st.sampled_from(Severity), st.sampled_from(KINDS)), max_size=4)
ABILITIES = st.sets(st.sampled_from(VERDICTS))
ACTIONS = st.sampled_from(DriftAction)
OUTCOMES = st.sampled_from(["unknown", "worked", "ignored", "worse"])
ANSWERED = st.dictionaries(
    st.sampled_from(KINDS),
    st.builds(LastResponse, ACTIONS.filter(lambda action: action is not DriftAction.CONTINUE), OUTCOMES),
)


def action(findings, answered=None, **circumstances):
    return respond(findings, answered or {}, **circumstances).action


def after(last, outcome, kind="loop"):
    return {kind: LastResponse(DriftAction(last), outcome)}


class TestUnlikeEarlierRuns:
    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"kind": "transition", "detector": "unusual_order"}, True),
            ({"kind": "resource", "detector": "resource_spike"}, True),
            ({"kind": "resource", "detector": "resource_spike", "hard_limit": True}, False),
            ({"kind": "resource", "detector": DRIFT_SCORE}, False),
            ({"kind": "loop", "detector": "action_loop"}, False),
            ({"kind": "goal", "detector": "goal_drift"}, False),
        ],
    )
    def test_only_comparisons(self, fields, expected):
        """
        Another order and more spending differ from earlier runs; a loop, a limit or a fast budget is more.
        """
        assert expected == is_unlike_earlier_runs(an_incident(**fields))


class TestRespond:
    def test_nothing_noticed_nothing_done(self):
        """
        Without findings the agent goes on.
        """
        assert DriftAction.CONTINUE is action([], after("INJECT_REMINDER", "ignored"))

    @pytest.mark.parametrize(
        ("severity", "first"),
        [
            ("LOW", "CONTINUE"),
            ("MED", "INJECT_REMINDER"),
            ("HIGH", "SUMMARIZE_REPLAN"),
            ("CRITICAL", "CHECKPOINT_RESET"),
        ],
    )
    def test_a_loop_stands_on_the_rung_of_its_severity(self, severity, first):
        """
        A loop was seen, not guessed: it acts by itself, as strongly as it is bad.
        """
        assert first == action([finding(severity)])

    @pytest.mark.parametrize("severity", ["MED", "HIGH", "CRITICAL"])
    def test_signs_of_drift_only_remind(self, severity):
        """
        Replies far from the goal point to drift and do not prove it: by themselves they only remind.
        """
        assert "INJECT_REMINDER" == action([finding(severity, "goal")])

    @pytest.mark.parametrize("kind", ["correction", "style"])
    def test_words_are_answered_with_words(self, kind):
        """
        A user's corrections and an agent's manner are answered with a reminder, however often it is ignored.
        """
        ignored = {kind: LastResponse(DriftAction.SUMMARIZE_REPLAN, "ignored")}

        assert "INJECT_REMINDER" == action([finding("CRITICAL", kind)], ignored, chronic={kind})

    def test_a_limit_that_was_passed_is_no_guess(self):
        """
        A hard limit acts as strongly as it is passed, but for a rollback: the steps would be paid for twice.
        """
        assert "SUMMARIZE_REPLAN" == action([finding("HIGH", "resource", hard_limit=True)])
        assert "ASK_USER" == action([finding("CRITICAL", "resource", hard_limit=True)])

    def test_an_ignored_limit_leads_to_the_user(self):
        """
        After a new plan that was ignored the user is asked: going back refunds nothing.
        """
        passed = finding("HIGH", "resource", hard_limit=True)

        assert "ASK_USER" == action([passed], after("SUMMARIZE_REPLAN", "ignored", kind="resource"))

    @pytest.mark.parametrize("outcome", ["unknown", "ignored", "worse"])
    def test_a_longer_run_than_usual_gets_a_reminder_and_never_more(self, outcome):
        """
        It may be a longer task, and stays longer than usual whatever the agent does.
        """
        unusual = finding("CRITICAL", "resource")

        assert "INJECT_REMINDER" == action([unusual], after("INJECT_REMINDER", outcome, kind="resource"))
        assert "INJECT_REMINDER" == action([unusual], chronic={"resource"})

    def test_the_score_decides_for_its_own_findings(self):
        """
        What the drift score noticed is answered as the score says.
        """
        noticed = finding("HIGH", "goal", DRIFT_SCORE)

        assert "SUMMARIZE_REPLAN" == action([noticed], by_score=DriftAction.SUMMARIZE_REPLAN)

    @pytest.mark.parametrize(
        ("last", "outcome", "now"),
        [
            ("INJECT_REMINDER", "unknown", "INJECT_REMINDER"),
            ("INJECT_REMINDER", "ignored", "SUMMARIZE_REPLAN"),
            ("INJECT_REMINDER", "worse", "SUMMARIZE_REPLAN"),
            ("SUMMARIZE_REPLAN", "ignored", "CHECKPOINT_RESET"),
            ("CHECKPOINT_RESET", "ignored", "ASK_USER"),
            ("ASK_USER", "ignored", "ASK_USER"),
        ],
    )
    def test_a_failed_answer_is_followed_by_a_stronger_one(self, last, outcome, now):
        """
        An answer that was ignored or did harm is followed by the next stronger one.
        """
        assert now == action([finding("MED")], after(last, outcome))

    def test_success_lowers_the_next_answer(self):
        """
        Where the last answer worked, a gentler one is tried first; never nothing.
        """
        worked = after("INJECT_REMINDER", "worked")

        assert ["INJECT_REMINDER", "INJECT_REMINDER", "SUMMARIZE_REPLAN"] == [
            action([finding(severity)], worked) for severity in ("MED", "HIGH", "CRITICAL")
        ]

    def test_within_one_incident_no_answer_is_weaker(self):
        """
        While an answer is being tried and its drift goes on, a milder finding calls for no less.
        """
        going_on = {"loop": LastResponse(DriftAction.SUMMARIZE_REPLAN, "unknown", going_on=True)}

        assert "SUMMARIZE_REPLAN" == action([finding("MED")], going_on)

    def test_what_is_chronic_is_answered_more_strongly(self):
        """
        A pattern that comes back again and again is answered one level higher.
        """
        assert "SUMMARIZE_REPLAN" == action([finding("MED")], chronic={"loop"})

    def test_failing_and_chronic_at_once_is_one_rung(self):
        """
        A loop that goes on fails the last answer and grows chronic: one reason, one level.
        """
        assert "SUMMARIZE_REPLAN" == action(
            [finding("MED")], after("INJECT_REMINDER", "ignored"), chronic={"loop"}
        )

    def test_anothers_answer_does_not_count(self):
        """
        That an answer to drift of another kind failed makes this one no worse.
        """
        assert "INJECT_REMINDER" == action(
            [finding("MED")], {"goal": LastResponse(DriftAction.ASK_USER, "ignored")}
        )

    def test_the_reasons_are_told(self):
        """
        A response says why it is stronger than the finding alone calls for.
        """
        response = respond([finding("MED")], after("INJECT_REMINDER", "ignored"), chronic={"loop"})

        assert ("the last response was ignored", "it has become chronic") == response.reasons

    def test_only_what_is_beyond_doubt_is_certain(self):
        """
        A loop of the highest severity is confirmed; others and mere signs are not.
        """
        assert [True, False, False] == [
            respond([it], {}).certain
            for it in (finding("CRITICAL"), finding("HIGH"), finding("CRITICAL", "goal"))
        ]

    @given(FINDINGS, FINDINGS, ANSWERED)
    def test_more_findings_never_weaken_the_answer(self, some, more, answered):
        """
        The strongest answer that any finding calls for is given.
        """
        assert action(some + more, answered).level == max(
            action(some, answered).level, action(more, answered).level
        )

    @given(FINDINGS, ANSWERED, st.sets(st.sampled_from(KINDS)))
    def test_one_rung_at_a_time(self, findings, answered, chronic):
        """
        No answer stands more than one level above both what the findings call for and the last answer.
        """
        first = action(findings).level
        last = max((it.action.level for it in answered.values()), default=0)

        assert action(findings, answered, chronic=chronic).level <= max(first, last) + 1


class TestVerdict:
    @given(ACTIONS, ABILITIES, st.booleans(), st.booleans())
    def test_observe_always_proceeds(self, advised, can, certain, before_call):
        """
        In observe mode nothing is ever said or stopped.
        """
        assert ("proceed", None) == choose_verdict(
            advised, "observe", can, certain=certain, before_call=before_call
        )

    @given(ACTIONS, ABILITIES, st.booleans(), st.booleans())
    def test_guide_only_speaks(self, advised, can, certain, before_call):
        """
        In guide mode the strongest answer is words.
        """
        answer = choose_verdict(advised, "guide", can, certain=certain, before_call=before_call)

        assert answer.verdict in {"proceed", "guide"}

    @given(ACTIONS, st.sampled_from(MODES), ABILITIES, st.booleans())
    def test_nobody_is_asked_for_what_it_cannot(self, advised, mode, can, certain):
        """
        The answer is one the caller can give; going on is always possible.
        """
        assert choose_verdict(advised, mode, can, certain=certain).verdict in can | {"proceed"}

    @given(st.sampled_from(MODES), ABILITIES)
    def test_nothing_advised_is_nothing_done(self, mode, can):
        """
        CONTINUE is proceed, whatever the mode.
        """
        assert ("proceed", None) == choose_verdict(DriftAction.CONTINUE, mode, can)

    @given(ACTIONS.filter(lambda action: action is not DriftAction.ASK_USER), ABILITIES)
    def test_what_it_cannot_falls_to_something_weaker(self, advised, can):
        """
        An answer the caller cannot give becomes a weaker one, never a stronger one.
        """
        given_instead = choose_verdict(advised, "enforce", can).verdict

        assert VERDICTS.index(given_instead) <= VERDICTS.index(VERDICTS_AFTER_STEP[advised])

    @given(ACTIONS, ABILITIES)
    def test_what_is_certain_does_not_fade(self, advised, can):
        """
        For a confirmed loop the caller does something stronger rather than something weaker, if it can.
        """
        wanted = VERDICTS_AFTER_STEP[advised]
        stronger = set(VERDICTS[VERDICTS.index(wanted) :]) & can - {"deny"}
        answer = choose_verdict(advised, "enforce", can, certain=True)

        assert not stronger or wanted == "proceed" or answer.verdict in stronger

    @given(ABILITIES.filter(lambda can: can & {"ask", "stop"}))
    def test_the_strongest_action_does_not_fade(self, can):
        """
        Where nobody can be asked but the run can be stopped, it is stopped.
        """
        expected = "ask" if "ask" in can else "stop"

        assert expected == choose_verdict(DriftAction.ASK_USER, "enforce", can).verdict

    @given(ACTIONS, ABILITIES, st.booleans())
    def test_what_was_wanted_is_reported(self, advised, can, certain):
        """
        Where something else is done than the action calls for, the answer says what that was.
        """
        answer = choose_verdict(advised, "enforce", can, certain=certain)

        assert (
            None if answer.verdict == VERDICTS_AFTER_STEP[advised] else VERDICTS_AFTER_STEP[advised]
        ) == answer.wanted

    def test_enforce_does_what_the_table_says(self):
        """
        A caller that can do everything is asked for exactly what the action calls for.
        """
        assert ["proceed", "guide", "guide", "rollback", "ask"] == [
            choose_verdict(action, "enforce").verdict for action in RESPONSE_LEVELS
        ]

    @given(ACTIONS, ABILITIES, st.booleans())
    def test_what_is_done_cannot_be_refused(self, advised, can, certain):
        """
        A call that was made is never denied, and before a call nothing is rolled back.
        """
        assert "deny" != choose_verdict(advised, "enforce", can, certain=certain).verdict
        assert (
            "rollback" != choose_verdict(advised, "enforce", can, certain=certain, before_call=True).verdict
        )

    def test_before_a_call_it_can_be_refused(self):
        """
        A call that has not been made is refused where one already made would lead to a new plan or a reset.
        """
        assert ["proceed", "guide", "deny", "deny", "ask"] == [
            choose_verdict(action, "enforce", before_call=True).verdict for action in RESPONSE_LEVELS
        ]


class TestLadder:
    def test_rungs_rise(self):
        """
        The levels are in order, each raised to the next, the highest to itself.
        """
        assert [*RESPONSE_LEVELS[1:], RESPONSE_LEVELS[-1]] == [
            action.next_stronger() for action in RESPONSE_LEVELS
        ]
        assert [0, 1, 2, 3, 4] == [action.level for action in RESPONSE_LEVELS]

    def test_rungs_fall(self):
        """
        Each level is lowered to the one before, the lowest to itself.
        """
        assert [RESPONSE_LEVELS[0], *RESPONSE_LEVELS[:-1]] == [
            action.next_gentler() for action in RESPONSE_LEVELS
        ]

    def test_every_severity_and_every_action_has_a_place(self):
        """
        No severity is without an action and no action without a verdict.
        """
        assert (set(Severity), set(DriftAction), set(DriftAction)) == (
            set(FIRST_LEVEL),
            set(VERDICTS_AFTER_STEP),
            set(VERDICTS_BEFORE_CALL),
        )
