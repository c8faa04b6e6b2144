import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.baselines import Cusum, Trend
from steadyhelm.windows import (
    FROZEN_MIN_RUNS,
    LEARNING_MIN_RUNS,
    conformal_threshold,
    may_alarm_next,
    next_trend,
    quantile,
)

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60).map(sorted)
SHARES = st.floats(0, 1)


class TestQuantile:
    def test_nothing_has_no_quantile(self):
        """
        Of no values the quantile is 0.
        """
        assert 0.0 == quantile([], 0.5)

    def test_between_two_values(self):
        """
        A quantile between two values lies between them.
        """
        assert 1.25 == quantile([1.0, 2.0], 0.25)

    @given(VALUES, SHARES, SHARES)
    def test_a_larger_share_is_never_lower(self, values, one, other):
        """
        Quantiles grow with the share.
        """
        low, high = sorted((one, other))

        assert quantile(values, low) <= quantile(values, high) + 1e-6

    @given(VALUES)
    def test_the_ends_are_the_least_and_the_greatest(self, values):
        """
        The share 0 gives the least value, the share 1 the greatest.
        """
        assert (values[0], values[-1]) == (quantile(values, 0), quantile(values, 1))

    @given(VALUES, SHARES, st.floats(0, 100))
    def test_higher_values_never_give_a_lower_quantile(self, values, share, more):
        """
        When every value rises, so does the quantile.
        """
        assert quantile(values, share) <= quantile([value + more for value in values], share) + 1e-6


class TestConformalThreshold:
    def test_too_few_promise_nothing(self):
        """
        One in ten cannot be promised from eight observations; from nine it can.
        """
        assert [None, 0.0] == [conformal_threshold([0.1 * n for n in range(count)], 0.1) for count in (8, 9)]

    @given(VALUES, st.floats(0.01, 0.49), st.floats(0.01, 0.49))
    def test_a_looser_promise_is_never_lower(self, values, one, other):
        """
        The more false alarms are allowed, the higher the threshold.
        """
        strict, loose = (conformal_threshold(values, alpha) for alpha in sorted((one, other)))

        assert strict is None or loose >= strict

    @given(st.lists(st.floats(0, 1), min_size=9, max_size=200).map(sorted))
    def test_at_most_a_tenth_of_what_it_was_learnt_from_lies_below(self, values):
        """
        Of the observations themselves at most one in ten lies below the threshold.
        """
        threshold = conformal_threshold(values, 0.1)

        assert sum(value < threshold for value in values) <= 0.1 * len(values)


class TestNextTrend:
    @given(st.lists(st.floats(0, 1e12), max_size=120))
    def test_sums_are_never_negative(self, values):
        """
        Runs that take less than usual never make the sums negative.
        """
        trend = Trend()
        for value in values:
            shift = next_trend(trend, value)
            trend = shift.trend
            assert min(shift.learning, shift.frozen, trend.learning.total, trend.frozen.total) >= 0.0
            assert math.isfinite(trend.learning.mean)

    @given(st.lists(st.sampled_from([10.0, 11.0, 13.0, 20.0, 1e6]), min_size=20, max_size=120))
    def test_no_alarm_comes_unforeseen(self, values):
        """
        Before each run that raises an alarm it is known that the next run may.
        """
        trend = Trend()
        for value in values:
            shift = next_trend(trend, value)
            assert may_alarm_next(trend) or not shift.is_alarm
            trend = shift.trend

    def test_steady_runs_come_near_no_alarm(self):
        """
        An agent whose runs take the same is never one run from an alarm.
        """
        trend = Trend()
        for _ in range(100):
            trend = next_trend(trend, 1000.0).trend
            assert not may_alarm_next(trend)

    def test_it_says_nothing_before_it_knows(self):
        """
        The first 20 runs never raise the learning sum, the first 50 never the frozen one.
        """
        trend = Trend()
        first = {"learning": None, "frozen": None}
        for run in range(80):
            shift = next_trend(trend, 1000.0 if run < 10 else 10.0**run)
            for name, place in first.items():
                if place is None and getattr(shift, name) > 0:
                    first[name] = run
            trend = shift.trend

        assert {"learning": LEARNING_MIN_RUNS, "frozen": FROZEN_MIN_RUNS} == first

    def test_the_frozen_reference_stays(self):
        """
        After 50 runs the frozen reference learns nothing more; the learning one goes on.
        """
        trend = Trend()
        for _ in range(FROZEN_MIN_RUNS):
            trend = next_trend(trend, 1000.0).trend
        later = trend
        for _ in range(30):
            later = next_trend(later, 1500.0).trend

        assert (FROZEN_MIN_RUNS, trend.frozen.mean) == (later.frozen.count, later.frozen.mean)
        assert later.learning.mean > trend.learning.mean

    def test_steady_runs_never_alarm(self):
        """
        An agent that always takes the same is never alarmed about.
        """
        trend, alarms = Trend(), 0
        for _ in range(500):
            shift = next_trend(trend, 1000.0)
            trend, alarms = shift.trend, alarms + shift.is_alarm

        assert 0 == alarms

    def test_one_outlier_is_no_trend(self):
        """
        A single run, however large, does not raise an alarm.
        """
        known = Cusum(count=60, mean=7.0, squares=38.0)

        assert not next_trend(Trend(learning=known, frozen=known), 1e12).is_alarm

    def test_an_alarm_starts_the_sum_afresh(self):
        """
        After an alarm the sum begins at 0, so that a lasting rise is told again, not at every run.
        """
        known = Cusum(count=60, mean=7.0, squares=38.0)
        trend, alarmed = Trend(learning=known, frozen=known), []
        for _ in range(8):
            shift = next_trend(trend, 1e6)
            trend = shift.trend
            alarmed.append(shift.is_alarm)
            if shift.frozen >= 1.0:
                assert 0.0 == trend.frozen.total

        assert 1 <= sum(alarmed) < 8

    def test_the_learning_reference_starts_again_with_the_new_normal(self):
        """
        After an alarm the runs before it are no longer what is compared with.
        """
        known = Cusum(count=60, mean=7.0, squares=38.0, total=4.9)
        learning = next_trend(Trend(learning=known), 1e6).trend.learning

        assert (1, math.log(1e6), 0.0) == (learning.count, learning.mean, learning.total)

    @pytest.mark.parametrize("value", [0.0, -5.0, 0.5])
    def test_less_than_one_counts_as_one(self, value):
        """
        A run that took nothing counts as one that took one.
        """
        assert next_trend(Trend(), 1.0) == next_trend(Trend(), value)


class TestTrendsOnSimulatedAgents:
    """Runs whose size is lognormal with a spread of .8: half take between .58 and 1.7 of the usual."""

    RUNS_BEFORE = 50

    def alarms(self, random_, factor, runs):
        """The places of the alarms after a change of size by this factor."""
        trend, places = Trend(), []
        for run in range(self.RUNS_BEFORE + runs):
            size = random_.lognormvariate(8.0, 0.8) * (factor if run >= self.RUNS_BEFORE else 1.0)
            shift = next_trend(trend, size)
            trend = shift.trend
            if run >= self.RUNS_BEFORE and shift.is_alarm:
                places.append(run - self.RUNS_BEFORE)
        return places

    def first_alarms(self, factor, streams, runs):
        random_ = random.Random(7)
        return [min(self.alarms(random_, factor, runs), default=runs) for _ in range(streams)]

    def test_false_alarms_are_rare(self):
        """
        An agent that stays the same gives at most three false alarms in a thousand runs.
        """
        random_ = random.Random(7)
        alarms = sum(len(self.alarms(random_, 1.0, 100)) for _ in range(300))

        assert alarms <= 3 * 30

    def test_a_lasting_change_is_not_reported_for_ever(self):
        """
        An agent that takes four times as much from one day on is reported at most nine times in 400 runs.
        """
        random_ = random.Random(7)

        assert max(len(self.alarms(random_, 4.0, 400)) for _ in range(50)) <= 9

    def test_twice_the_size_is_found(self):
        """
        An agent that comes to take twice as much is found within 40 runs in most streams.
        """
        assert sum(place < 40 for place in self.first_alarms(2.0, 100, 40)) >= 80

    def test_four_times_the_size_is_found_soon(self):
        """
        An agent that comes to take four times as much is found within 15 runs in nearly every stream.
        """
        assert sum(place < 15 for place in self.first_alarms(4.0, 100, 15)) >= 90
