import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.decisions import DriftAction, DriftSeverity, DriftSignals
from steadyhelm.errors import SettingsError
from steadyhelm.policy.drift_engine import SIGNALS, WEIGHTS, DriftEngine

PARTS = st.none() | st.floats(0, 1)
SIGNED = st.none() | st.floats(-1, 1)
ANY_SIGNALS = st.builds(
    DriftSignals,
    goal_dna_drift=PARTS,
    loop_risk=PARTS,
    budget_velocity=SIGNED,
    quality_degradation=PARTS,
    stuck_time=PARTS,
)


def all_at(value, **others):
    return DriftSignals(**{**dict.fromkeys(SIGNALS, value), "budget_velocity": -value, **others})


class TestScore:
    def test_the_seeds_example(self):
        """
        The five example signals come to .295, as the formula says, whatever its page claims.
        """
        signals = DriftSignals(
            goal_dna_drift=0.45,
            loop_risk=0.20,
            budget_velocity=-0.30,
            quality_degradation=0.15,
            stuck_time=0.10,
        )
        assessment = DriftEngine().score_drift(signals)

        assert (0.295, "CONTINUE", DriftSeverity.LOW) == (
            assessment.overall_score,
            assessment.response_level,
            assessment.severity,
        )

    @pytest.mark.parametrize(
        ("score", "action"),
        [
            (0.0, "CONTINUE"),
            (0.29, "CONTINUE"),
            (0.3, "INJECT_REMINDER"),
            (0.49, "INJECT_REMINDER"),
            (0.5, "SUMMARIZE_REPLAN"),
            (0.7, "CHECKPOINT_RESET"),
            (0.89, "CHECKPOINT_RESET"),
            (0.9, "ASK_USER"),
            (1.0, "ASK_USER"),
        ],
    )
    def test_thresholds_are_met_by_what_equals_them(self, score, action):
        """
        Every threshold is inclusive.
        """
        assert action == DriftEngine().score_drift(all_at(score)).response_level

    def test_good_velocity_is_no_drift(self):
        """
        Getting on faster than spending never counts, however fast.
        """
        assert 0.0 == DriftEngine().score_drift(DriftSignals(budget_velocity=0.9)).overall_score

    @given(ANY_SIGNALS)
    def test_the_parts_add_up(self, signals):
        """
        The contributions of the signals sum to the score.
        """
        assessment = DriftEngine().score_drift(signals)

        assert math.isclose(assessment.overall_score, sum(assessment.contributions.values()), abs_tol=1e-6)

    @given(ANY_SIGNALS)
    def test_the_score_stays_between_its_parts(self, signals):
        """
        A weighted mean is never above its largest part, and never below 0.
        """
        parts = [getattr(signals, name) for name in SIGNALS if name != "budget_velocity"]
        parts.append(max(0.0, -(signals.budget_velocity or 0.0)))

        assert (
            0.0 <= DriftEngine().score_drift(signals).overall_score <= max(it or 0.0 for it in parts) + 1e-9
        )

    @pytest.mark.parametrize("nonsense", [math.nan, math.inf, -math.inf, "0.9", True])
    def test_what_is_no_number_is_unknown(self, nonsense):
        """
        A signal that is no finite number is left out, not trusted.
        """
        assessment = DriftEngine().score_drift(DriftSignals(goal_dna_drift=nonsense, loop_risk=0.2))

        assert (0.2, True) == (assessment.overall_score, "goal_dna_drift" in assessment.unknown)

    def test_beyond_its_range_a_signal_is_cut(self):
        """
        A signal above 1 counts as 1.
        """
        assert 1.0 == DriftEngine().score_drift(all_at(7.0)).overall_score


class TestUnknown:
    def test_weights_are_shared_out_and_said_so(self):
        """
        The weight of unknown signals goes to the known ones, and the assessment says which and why.
        """
        signals = DriftSignals(
            goal_dna_drift=0.4, loop_risk=0.4, reasons={"budget_velocity": "no budget was set"}
        )
        assessment = DriftEngine().score_drift(signals)

        assert 0.4 == assessment.overall_score
        assert {"goal_dna_drift": 0.5833, "loop_risk": 0.4167} == assessment.weights
        assert "no budget was set" == assessment.unknown["budget_velocity"]
        assert "spending ahead of progress (no budget was set)" in assessment.explanation

    def test_nothing_known_is_no_drift(self):
        """
        Without any signal the score is 0, and all five are named as unknown.
        """
        assessment = DriftEngine().score_drift(DriftSignals())

        assert (0.0, "CONTINUE", set(SIGNALS)) == (
            assessment.overall_score,
            assessment.response_level,
            set(assessment.unknown),
        )


class TestCertain:
    def test_a_certain_loop_acts_by_itself(self):
        """
        In the sum a proven loop would count a quarter and do nothing; it acts by itself.
        """
        assessment = DriftEngine().score_drift(all_at(0.0, loop_risk=0.95))

        assert ("CHECKPOINT_RESET", True, ("a loop is certain",)) == (
            assessment.response_level,
            assessment.certain,
            assessment.raised_by,
        )

    def test_an_exhausted_budget_too(self):
        """
        A budget that is used up leads to the user, whatever the score.
        """
        assessment = DriftEngine().score_drift(all_at(0.0), exhausted=True)

        assert ("ASK_USER", True) == (assessment.response_level, assessment.certain)


class TestTrend:
    def test_the_seeds_example(self):
        """
        Scores that rise from .25 to .50 in ever larger steps are accelerating.
        """
        engine = DriftEngine()
        for turn, score in [(10, 0.25), (11, 0.30), (12, 0.38), (13, 0.50)]:
            engine.record_drift(turn=turn, drift_score=score)
        trend = engine.get_drift_trend(window=4)

        assert trend.is_accelerating
        assert math.isclose(0.25 / 3, trend.velocity, abs_tol=1e-6)

    def test_acceleration_raises_one_rung(self):
        """
        The same score is answered one level higher when it was reached ever faster.
        """
        engine = DriftEngine()
        calm = engine.score_drift(all_at(0.4)).response_level
        for turn, score in enumerate([0.05, 0.1, 0.2, 0.4]):
            engine.record_drift(turn, score)
        rising = engine.score_drift(all_at(0.4))

        assert ("INJECT_REMINDER", "SUMMARIZE_REPLAN") == (calm, rising.response_level)
        assert ("drift grows ever faster",) == rising.raised_by

    def test_nothing_is_raised_where_nothing_is_called_for(self):
        """
        A low score that rises fast is still a low score.
        """
        engine = DriftEngine()
        for turn, score in enumerate([0.0, 0.02, 0.1, 0.25]):
            engine.record_drift(turn, score)

        assert DriftAction.CONTINUE is engine.score_drift(all_at(0.25)).recommended_action

    @pytest.mark.parametrize("scores", [[], [0.5], [0.5, 0.4, 0.3, 0.2], [0.1, 0.3, 0.4, 0.45]])
    def test_no_acceleration_without_reason(self, scores):
        """
        Too few scores, falling ones and ones that level off do not accelerate.
        """
        engine = DriftEngine()
        for turn, score in enumerate(scores):
            engine.record_drift(turn, score)

        assert not engine.get_drift_trend().is_accelerating

    def test_memory_is_bounded(self):
        """
        A run of a hundred thousand turns keeps the latest scores only.
        """
        engine = DriftEngine()
        for turn in range(100_000):
            engine.record_drift(turn, 0.1)

        assert len(engine.history.scores) <= 400


class TestSettings:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"nudge_threshold": 0}, "nudge_threshold must be above 0"),
            ({"stop_threshold": 1.1}, "stop_threshold must be above 0 and at most 1, got 1.1"),
            ({"replan_threshold": math.nan}, "replan_threshold"),
            ({"nudge_threshold": 0.8}, "must not fall"),
            ({"signal_weights": {"mood": 1}}, "has no 'mood'. Signals: goal_dna_drift"),
            ({"signal_weights": {"loop_risk": -1}}, "signal_weights.loop_risk must be 0 or more, got -1"),
            ({"signal_weights": dict.fromkeys(WEIGHTS, 0)}, "at least one signal"),
        ],
    )
    def test_nonsense_is_refused_with_words(self, options, message):
        """
        A threshold or weight that makes no sense is refused, with its name and value.
        """
        with pytest.raises(SettingsError, match=message):
            DriftEngine(**options)

    def test_weights_of_your_own(self):
        """
        Weights given replace the usual ones; the others stay, and all are taken in proportion.
        """
        engine = DriftEngine(signal_weights={"goal_dna_drift": 0.0, "stuck_time": 1.0})
        assessment = engine.score_drift(DriftSignals(goal_dna_drift=1.0, stuck_time=0.5))

        assert 0.5 == assessment.overall_score
