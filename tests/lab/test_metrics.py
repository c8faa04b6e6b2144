import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from steadyhelm.lab.evaluation.metrics import (
    STATISTICS,
    Counts,
    balanced_accuracy,
    bootstrap,
    estimate_all,
    estimate_share,
    f1,
    false_alarms,
    precision,
    recall,
    sum_counts,
)

answers = st.lists(
    st.builds(lambda e, f: Counts.of(expected=e, found=f), st.booleans(), st.booleans()),
    min_size=1,
    max_size=30,
)
counts = st.builds(Counts, *[st.integers(0, 50)] * 4)


class TestByHand:
    # Ten runs: 4 loops of which 3 are found, 6 clean ones of which 1 is flagged.
    COUNTS = Counts(tp=3, fp=1, fn=1, tn=5)

    @pytest.mark.parametrize(
        ("statistic", "expected"),
        [
            (precision, 3 / 4),
            (recall, 3 / 4),
            (f1, 3 / 4),
            (false_alarms, 1 / 6),
            (balanced_accuracy, (3 / 4 + 5 / 6) / 2),
        ],
    )
    def test_figures(self, statistic, expected):
        """
        Each figure is what one computes by hand.
        """
        assert expected == pytest.approx(statistic(self.COUNTS))

    def test_f1_is_the_harmonic_mean(self):
        """
        Precision 1/2 and recall 1/4 give an F1 of 1/3.
        """
        assert pytest.approx(1 / 3) == f1(Counts(tp=1, fp=1, fn=3))

    def test_wilson(self):
        """
        The interval of 3 in 10 is Wilson's, as tables give it.
        """
        share = estimate_share(3, 10)
        assert (0.3, 0.1078, 0.6032) == (share.value, round(share.low, 4), round(share.high, 4))

    def test_nothing_flagged_has_no_precision(self):
        """
        A figure that would divide by nothing is undefined, not zero.
        """
        assert [None, None, None] == [
            precision(Counts(fn=2)),
            recall(Counts(tn=2)),
            estimate_share(0, 0).value,
        ]

    def test_short_words(self):
        """
        A figure is shown with at most three places, and says so when it is undefined.
        """
        assert ("1 [.207, 1]", "undefined") == (str(estimate_share(1, 1)), str(estimate_share(0, 0)))


class TestInvariants:
    @given(st.lists(st.booleans(), min_size=2))
    def test_a_perfect_predictor(self, truth):
        """
        Who is always right has precision, recall, F1 and balanced accuracy 1 and no false alarm.
        """
        assume(any(truth) and not all(truth))
        sums = sum_counts(Counts.of(expected=one, found=one) for one in truth)
        assert [1, 1, 1, 1, 0] == [statistic(sums) for statistic in STATISTICS.values()]

    @given(st.lists(st.booleans(), min_size=2))
    def test_who_is_always_wrong(self, truth):
        """
        Who is always wrong has balanced accuracy 0.
        """
        assume(any(truth) and not all(truth))
        assert 0 == balanced_accuracy(sum_counts(Counts.of(expected=one, found=not one) for one in truth))

    @given(counts)
    def test_between_zero_and_one(self, sums):
        """
        Every figure lies between 0 and 1 or is undefined.
        """
        assert all(
            value is None or 0 <= value <= 1
            for value in (statistic(sums) for statistic in STATISTICS.values())
        )

    @given(answers)
    def test_the_interval_holds_the_estimate(self, runs):
        """
        Every interval holds its estimate and stays between 0 and 1.
        """
        for estimate in estimate_all(runs, samples=30).values():
            if estimate.value is not None and estimate.low is not None:
                assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1

    @given(answers, st.integers(0, 5))
    def test_same_seed_same_interval(self, runs, seed):
        """
        The same runs and the same seed give the same interval.
        """
        first, again = (bootstrap(runs, f1, samples=20, seed=seed) for _ in range(2))
        assert first == again

    @given(st.integers(0, 40), st.integers(1, 40))
    def test_wilson_holds_the_share(self, hits, of):
        """
        A share lies in its interval, which is never a point.
        """
        assume(hits <= of)
        share = estimate_share(hits, of)
        assert share.low <= share.value <= share.high
        assert share.low < share.high


class TestResampling:
    def test_runs_are_resampled_not_steps(self):
        """
        Many steps in few runs give a wide interval: the steps of one run stand or fall together.
        """
        few = [Counts(tp=50), Counts(fn=50)]
        many = [Counts(tp=1), Counts(fn=1)] * 50
        wide, narrow = bootstrap(few, recall), bootstrap(many, recall)
        assert (0, 1) == (wide.low, wide.high)
        assert narrow.high - narrow.low < 0.3

    def test_a_share_of_one_keeps_an_interval(self):
        """
        Three of three found does not prove that all ever will be.
        """
        assert estimate_all([Counts(tp=1)] * 3)["recall"].low < 0.5

    def test_no_samples_no_interval(self):
        """
        Without resampling the figure stands alone.
        """
        assert bootstrap([Counts(tp=1)], f1, samples=0).low is None

    def test_no_runs(self):
        """
        No runs give no figures.
        """
        assert {} == estimate_all([])
