import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.calibration import RUN_START, add_transitions, compute_surprise

RUNS = st.lists(st.lists(st.sampled_from("abcde"), max_size=12), max_size=12)


def learnt(runs, most=64):
    counts = {}
    for run in runs:
        counts = add_transitions(counts, run, most)
    return counts


class TestSurprise:
    def test_the_usual_next_step(self):
        """
        What always follows tells next to nothing.
        """
        assert compute_surprise(learnt([["read", "edit", "test"]] * 30), "read", "edit") < 0.1

    def test_what_never_followed(self):
        """
        What never followed tells a lot, and the more so the more is known.
        """
        few, many = (learnt([["read", "edit", "test"]] * times) for times in (3, 300))

        assert 2 < compute_surprise(few, "read", "test") < compute_surprise(many, "read", "test")

    def test_even_odds(self):
        """
        One of two that follow equally often tells about a bit.
        """
        assert 1.0 == pytest.approx(compute_surprise(learnt([["a"], ["b"]] * 500), RUN_START, "a"), abs=0.01)

    def test_nothing_learnt(self):
        """
        Where nothing is known nothing surprises.
        """
        assert 0.0 == compute_surprise({}, "a", "b")

    @given(RUNS, st.sampled_from("abcdef"), st.sampled_from("abcdef"))
    def test_a_number_of_bits(self, runs, before, action):
        """
        It is a finite number of bits, never below zero.
        """
        assert 0.0 <= compute_surprise(learnt(runs), before, action) < 100


class TestLearning:
    def test_what_followed_what(self):
        """
        A run's actions are counted in order, the first after the start.
        """
        assert {"": {"a": 1}, "a": {"b": 1}, "b": {"b": 1}} == learnt([["a", "b", "b"]])

    def test_what_was_known_stays_as_it_was(self):
        """
        Learning from one more run leaves the counts before untouched.
        """
        before = learnt([["a", "b"]])
        add_transitions(before, ["a", "b"], 64)

        assert {"": {"a": 1}, "a": {"b": 1}} == before

    @given(RUNS, st.integers(1, 4))
    def test_bounded(self, runs, most):
        """
        However many different actions there are, so many are kept at most.
        """
        counts = learnt(runs, most)

        assert len(counts) <= most
        assert all(len(follows) <= most for follows in counts.values())

    @given(RUNS)
    def test_every_step_is_counted(self, runs):
        """
        With room enough every step of every run is counted once.
        """
        counts = learnt(runs)

        assert sum(map(len, runs)) == sum(sum(follows.values()) for follows in counts.values())
