import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.lab.training.classifier_metrics import (
    auc,
    choose_approval_ratio,
    choose_drift_threshold,
    count_confusions,
    decision_f1,
    estimate_by_group,
    macro_f1,
    tabulate_calibration,
)
from steadyhelm.lab.training.fitting import make_folds

CASES = st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1, max_size=40)
GROUPS = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=30)


class TestRanking:
    @pytest.mark.parametrize(
        ("truth", "scores", "expected"),
        [
            ([True, False], [0.9, 0.1], 1.0),
            ([True, False], [0.1, 0.9], 0.0),
            ([True, False], [0.5, 0.5], 0.5),
            ([True, False, True, False], [0.9, 0.8, 0.7, 0.1], 0.75),
            ([True, True], [0.1, 0.9], None),
        ],
    )
    def test_by_hand(self, truth, scores, expected):
        """
        The share of pairs in the right order, ties counting half; undefined without both kinds.
        """
        assert expected == auc(truth, scores)

    @given(CASES)
    def test_turned_around(self, cases):
        """
        The opposite ranking has the opposite figure.
        """
        truth, scores = zip(*cases, strict=True)
        value = auc(truth, scores)

        assert value is None or pytest.approx(1 - value) == auc(truth, [-score for score in scores])


class TestDecisions:
    def test_f1(self):
        """
        One of two found and one false alarm make one half.
        """
        assert 0.5 == decision_f1([True, True, False], [True, False, True])

    def test_macro_f1_leaves_out_the_rare(self):
        """
        Style, frustration and new tasks are not in the mean: there are too few to measure.
        """
        truth = ["continuation", "correction_substance", "approval", "frustration"]

        assert 1.0 == macro_f1(truth, [*truth[:3], "new_task"])

    def test_confusion(self):
        """
        Each pair of said and meant is counted.
        """
        assert {("a", "b"): 2, ("b", "b"): 1} == count_confusions(["a", "a", "b"], ["b", "b", "b"])

    def test_the_threshold_is_in_the_middle_of_the_gap(self):
        """
        Where a wide range decides alike, the threshold keeps away from both ends.
        """
        threshold = choose_drift_threshold([True] * 5 + [False] * 5, [0.9] * 5 + [0.1] * 5)

        assert 0.2 < threshold < 0.7

    def test_the_ratio(self):
        """
        The ratio chosen is the one that decides best.
        """
        truth = ["approval", "continuation"]

        assert choose_approval_ratio(truth, lambda ratio: truth if ratio > 1 else truth[::-1]) > 1


class TestCalibration:
    @given(CASES)
    def test_every_case_is_in_a_part(self, cases):
        """
        The parts hold all cases, lowest first.
        """
        truth, scores = zip(*cases, strict=True)
        parts = tabulate_calibration(truth, scores)

        assert len(cases) == sum(count for _, _, count in parts)
        assert sorted(said for said, _, _ in parts) == pytest.approx([said for said, _, _ in parts])


class TestIntervals:
    def test_it_resamples_groups(self):
        """
        Cases that always come together count as one: the interval is as wide as for a few.
        """
        values = [1.0] * 50 + [0.0] * 50
        groups = ["a"] * 50 + ["b"] * 50
        found = estimate_by_group(
            lambda places: sum(values[p] for p in places) / len(places), groups, samples=200
        )

        assert (0.0, 0.5, 1.0) == (found.low, found.value, found.high)

    def test_an_undefined_figure(self):
        """
        What is undefined has no interval.
        """
        assert None is estimate_by_group(lambda _: None, ["a"], samples=5).value


class TestFolds:
    @given(GROUPS, st.none() | st.integers(2, 5))
    def test_a_group_is_never_on_both_sides(self, groups, parts):
        """
        Whatever is kept back shares no group with what is learnt from, and everything is kept back once.
        """
        made = make_folds(groups, parts)

        assert list(range(len(groups))) == sorted(place for fold in made for place in fold.keep)
        for fold in made:
            assert not {groups[place] for place in fold.learn} & {groups[place] for place in fold.keep}

    @given(GROUPS)
    def test_always_the_same(self, groups):
        """
        The same groups give the same folds.
        """
        assert make_folds(groups, 3) == make_folds(list(groups), 3)
