"""Where a run's scores are going, as pictures.

A digit is a score in tens; the threshold is 60.
Below each: `.` steady  `^` spike  `a` adaptive spike  `r` recovering  `V` velocity alarm
`C` chronic subclinical  `R` repeating spike  `D` degenerative.
"""

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from steadyhelm.style.trajectory import (
    DRIFT_SHAPES,
    SCORES_KEPT,
    Trajectory,
    find_gravest_shape,
    measure_slope,
    read_scores,
)

LETTERS = {
    "steady": ".",
    "spike": "^",
    "adaptive_spike": "a",
    "recovering": "r",
    "velocity_alarm": "V",
    "chronic_subclinical": "C",
    "repeating_spike": "R",
    "degenerative": "D",
}
SCORES = st.lists(st.floats(0, 100), max_size=40)


def drawn(picture, **settings):
    readings = read_scores([int(digit) * 10 for digit in picture], **settings)
    return "".join(LETTERS[reading.shape] for reading in readings)


class TestSteady:
    @pytest.mark.parametrize(
        "picture", ["0", "0000000000", "1213121312", "3434343434", "5040302010", "4444444444"]
    )
    def test_ordinary(self, picture):
        """
        Low scores are steady, whatever they do among themselves.
        """
        assert "." * len(picture) == drawn(picture)


class TestAdaptiveSpike:
    def test_one_spike(self):
        """
        One high reply that is taken back at once is adaptive, and nothing else.
        """
        assert "..^a..." == drawn("1191111")

    def test_at_the_start(self):
        """
        The first reply may be the high one.
        """
        assert "^a.." == drawn("9111")

    def test_far_apart(self):
        """
        Two spikes far apart are two isolated ones.
        """
        assert "..^a.....^a.." == drawn("1191111119111")

    def test_two_high_replies(self):
        """
        Two high replies in a row are not enough for anything.
        """
        assert "..^^.." == drawn("119911")

    @pytest.mark.parametrize("before", ["", "0", "1111", "12121212", "555"])
    @pytest.mark.parametrize("height", "6789")
    @pytest.mark.parametrize("after", ["", "0", "1111"])
    def test_never_drift(self, before, height, after):
        """
        An isolated spike is never drift, however high it is and wherever it stands.
        """
        assert set(drawn(before + height + after)).isdisjoint("DRCV")


class TestDegenerative:
    def test_sustained(self):
        """
        The third high reply in a row is drift.
        """
        assert "..^^DDD" == drawn("1177777")

    def test_climb(self):
        """
        A climb past the threshold that goes on is drift before the third high reply.
        """
        assert "...VVVDDD" == drawn("123456789")

    def test_plateau(self):
        """
        Replies that stay around the threshold are drift, even if few are over it.
        """
        scores = [55, 61, 54, 56, 55]

        assert "degenerative" == read_scores(scores)[-1].shape


class TestChronicSubclinical:
    def test_parked_under_the_threshold(self):
        """
        Five replies parked just under the threshold are noticed, though none is over it.
        """
        assert "....CCC" == drawn("5555555")

    def test_well_under_it(self):
        """
        Scores at two thirds of the threshold are left in peace.
        """
        assert "......." == drawn("4444444")

    def test_not_parked(self):
        """
        A low reply in between is a sign of life.
        """
        assert "........." == drawn("555515555")


class TestRepeatingSpike:
    def test_every_other_reply(self):
        """
        The third spike in ten replies is a cycle, though each was taken back.
        """
        assert ".^a^aR" == drawn("191919")

    def test_with_pauses(self):
        """
        A cycle may have pauses.
        """
        assert ".^a..^a..R" == drawn("1911191119")

    def test_too_far_apart(self):
        """
        Three spikes in a long run are three spikes.
        """
        assert "...^a....^a....^a" == drawn("11191111191111191")

    def test_held_while_it_falls(self):
        """
        After the third spike a low reply counts as recovering, the fourth spike as the cycle again.
        """
        assert ".^a^aRrR" == drawn("19191919")


class TestVelocityAlarm:
    def test_creep(self):
        """
        Scores that rise by ten from reply to reply are an alarm long before the threshold.
        """
        assert "...VV" == drawn("01345")

    def test_slower_than_the_alarm(self):
        """
        The profile says how fast is too fast.
        """
        assert "...V." == drawn("12344")
        assert "....." == drawn("12344", velocity_threshold=20)

    def test_a_jump_is_no_creep(self):
        """
        One jump, or two steps, is no rise over several replies.
        """
        assert "....." == drawn("00005")
        assert "....." == drawn("00035")

    def test_low_scores_may_rise(self):
        """
        A rise among low scores is no alarm.
        """
        assert "..." == drawn("012")


class TestRecovering:
    def test_after_drift(self):
        """
        After drift, replies that fall back are recovering; then all is steady.
        """
        assert "^^DDDrrrr..." == drawn("777771111111")

    def test_not_while_high(self):
        """
        A small fall above the threshold is no recovery.
        """
        assert "^^DDD" == drawn("99887")

    def test_not_out_of_nothing(self):
        """
        Falling without drift before it is just falling.
        """
        assert "....." == drawn("54321")


class TestReadings:
    def test_ewma(self):
        """
        The smoothed score moves two fifths of the way to the next.
        """
        assert [10.0, 30.0, 42.0] == [it.ewma for it in read_scores([10, 60, 60])]

    def test_velocity(self):
        """
        Velocity is the slope of the last five.
        """
        assert 10.0 == read_scores([90, 0, 10, 20, 30, 40])[-1].velocity
        assert 0.0 == measure_slope([5])

    def test_reason(self):
        """
        A reading says in words what it saw.
        """
        assert "3 spikes in 6 replies" == read_scores([10, 90] * 3)[-1].reason

    def test_gravest(self):
        """
        A run is as bad as its worst moment.
        """
        assert "degenerative" == find_gravest_shape(read_scores([90, 90, 90, 10, 10]))
        assert "steady" == find_gravest_shape([])


class TestState:
    @given(SCORES, st.integers(0, 40))
    def test_taken_up_again(self, scores, cut):
        """
        Put aside in the middle and taken up again, a run reads the same.
        """
        course = Trajectory()
        first = [course.record_score(score) for score in scores[:cut]]
        course = msgspec.msgpack.decode(msgspec.msgpack.encode(course), type=Trajectory)

        assert list(read_scores(scores)) == first + [course.record_score(score) for score in scores[cut:]]

    @given(SCORES)
    def test_memory_is_bounded(self, scores):
        """
        Only the latest scores are kept.
        """
        course = Trajectory()
        for score in scores * 5:
            course.record_score(score)

        assert len(course.recent) <= SCORES_KEPT

    @pytest.mark.parametrize("score", [float("nan"), float("inf"), None, "90", True])
    def test_no_score(self, score):
        """
        What is no score is left out.
        """
        course = Trajectory()
        course.record_score(10)

        assert "not a score: left out" == course.record_score(score).reason
        assert [10.0] == course.recent

    @given(SCORES)
    def test_nothing_high_nothing_near(self, scores):
        """
        Scores that all stay under half the threshold are never drift.
        """
        assert DRIFT_SHAPES.isdisjoint(it.shape for it in read_scores([score * 0.29 for score in scores]))

    @given(
        st.lists(st.floats(0, 20), max_size=12), st.floats(60, 100), st.lists(st.floats(0, 20), max_size=12)
    )
    def test_isolated(self, before, spike, after):
        """
        One spike among low scores is never drift, unless they climb to it.
        """
        assume(len(before) < 2 or before[-1] <= before[-2])
        assert DRIFT_SHAPES.isdisjoint(it.shape for it in read_scores([*before, spike, *after]))
