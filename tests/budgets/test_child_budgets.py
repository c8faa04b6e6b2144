import math

import pytest

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.budgets.memory import MAX_CHILDREN


def work(budget, steps, *, tokens=100, cost_usd=0.0, wall_s=0.0):
    """Let a budget take so many steps."""
    for turn in range(steps):
        budget.record_step(turn, tokens, None, cost_usd, wall_s)
    return budget


class TestReserving:
    def test_a_share_is_set_aside(self):
        """
        What a child is given is no longer the parent's, and is not spent either.
        """
        parent = AdaptiveBudget()
        child = parent.reserve(steps=10, tokens=20_000)
        now = parent.get_status()

        assert (10, 20_000) == (child.get_status().steps_limit, child.get_status().tokens_limit)
        assert (0, 10, 40) == (now.steps_used, now.steps_reserved, now.steps_remaining)
        assert (0, 20_000, 80_000) == (now.tokens_used, now.tokens_reserved, now.tokens_remaining)

    def test_the_landing_reserve_is_never_lent(self):
        """
        Whoever asks for everything gets all but the parent's reserve.
        """
        child = AdaptiveBudget().reserve(steps=1000, tokens=10**9).get_status()

        assert (45, 90_000) == (child.steps_limit, child.tokens_limit)

    def test_a_limit_not_named_is_all_there_is(self):
        """
        A child asked for with steps alone is limited by all that is left of the rest.
        """
        child = AdaptiveBudget(cost_usd=1.0).reserve(steps=5).get_status()

        assert (5, 90_000, 0.9, None) == (
            child.steps_limit,
            child.tokens_limit,
            child.cost_limit_usd,
            child.wall_limit_s,
        )

    def test_no_limit_lends_any(self):
        """
        Where the parent has no limit the child has what was asked, or none.
        """
        parent = AdaptiveBudget(None, None)
        child = parent.reserve(steps=7).get_status()

        assert (7, None, 0) == (child.steps_limit, child.tokens_limit, parent.get_status().steps_reserved)

    def test_nothing_left_is_an_exhausted_child(self):
        """
        When nothing can be lent the child is used up from the start.
        """
        child = work(AdaptiveBudget(initial_steps=10), 9).reserve(steps=5)

        assert child.is_exhausted()
        assert ("steps",) == child.get_status().exhausted_by

    def test_a_step_that_uses_none_of_it_does_no_harm(self):
        """
        A parent that lent all its tokens may take a step that uses none.
        """
        parent = AdaptiveBudget(landing_reserve=0)
        parent.reserve(steps=5)
        parent.record_step(1, 0, None)
        assert not parent.is_exhausted()
        parent.record_step(2, 1, None)

        assert ("tokens",) == parent.get_status().exhausted_by

    def test_a_share_has_the_bounds_of_a_limit(self):
        """
        From a parent without limits nobody gets more than a limit can be.
        """
        assert 10**15 == AdaptiveBudget(None, None).reserve(steps=10**30).get_status().steps_limit

    @pytest.mark.parametrize("odd", [-1, math.nan, math.inf, True, "5", object()])
    def test_what_is_no_number_is_nothing(self, odd):
        """
        A request that makes no sense gives nothing: no child gets more for a mistake.
        """
        parent = AdaptiveBudget(cost_usd=1.0)
        child = parent.reserve(steps=odd, tokens=odd, cost_usd=odd, wall_s=odd).get_status()

        assert (0, 0, 0.0) == (child.steps_limit, child.tokens_limit, child.cost_limit_usd)
        assert 50 == parent.get_status().steps_remaining

    def test_a_child_does_not_outgrow_its_share(self):
        """
        However well a child gets on, its limits stay what was set aside; it may shrink and come back.
        """
        child = AdaptiveBudget(velocity_window=2).reserve(steps=10)
        limits = []
        for delta in (0.1, 0.1, 0.001, 0.001, 0.1, 0.1):
            child.record_step(1, 1, delta)
            limits.append(child.get_status().steps_limit)

        assert [10, 10, 10, 7, 7, 10] == limits

    def test_a_parent_cannot_be_cut_below_what_it_lent(self):
        """
        Contraction leaves what was used, what was lent, and the reserve.
        """
        parent = AdaptiveBudget()
        parent.reserve(steps=30)
        for turn in range(10):
            parent.record_step(turn, 1, 0.0)

        assert 10 + 30 + 5 == parent.get_status().steps_limit


class TestGivingBack:
    def test_what_is_unused_returns(self):
        """
        What the child used is spent, the rest is free again.
        """
        parent = AdaptiveBudget(cost_usd=1.0)
        child = parent.reserve(steps=10, tokens=20_000, cost_usd=0.5)
        work(child, 3, tokens=1000, cost_usd=0.1)
        assert parent.give_back(child)
        now = parent.get_status()

        assert (3, 0, 47) == (now.steps_used, now.steps_reserved, now.steps_remaining)
        assert (3000, 0, 97_000) == (now.tokens_used, now.tokens_reserved, now.tokens_remaining)
        assert (0.3, 0.0, 0.7) == (now.cost_used_usd, now.cost_reserved_usd, now.cost_remaining_usd)

    def test_twice_is_once(self):
        """
        A child given back again changes nothing.
        """
        parent = AdaptiveBudget()
        child = work(parent.reserve(steps=10), 3)
        parent.give_back(child)
        before = parent.state()

        assert not parent.give_back(child)
        assert before == parent.state()

    def test_a_copy_counts_once(self):
        """
        A child that was saved and taken up again is the same child.
        """
        parent = AdaptiveBudget()
        child = parent.reserve(steps=10)
        copy = AdaptiveBudget.from_state(work(child, 2).state())

        assert [True, False] == [parent.give_back(copy), parent.give_back(child)]
        assert 2 == parent.get_status().steps_used

    @pytest.mark.parametrize(
        "stranger",
        [
            AdaptiveBudget(),
            AdaptiveBudget(budget_id="other").reserve(steps=10),
            AdaptiveBudget().reserve(steps=9),
        ],
    )
    def test_a_stranger_is_not_taken(self, stranger):
        """
        Only a child of this budget can be given back to it.
        """
        parent = AdaptiveBudget()
        parent.reserve(steps=10)
        before = parent.state()

        assert not parent.give_back(stranger)
        assert before == parent.state()

    def test_the_child_has_nothing_left(self):
        """
        What was given back cannot be spent.
        """
        parent = AdaptiveBudget()
        child = parent.reserve(steps=10)
        parent.give_back(child)

        assert (0, True) == (child.get_status().steps_remaining, child.is_exhausted())

    def test_a_child_that_overdrew_is_charged_in_full(self):
        """
        A last step larger than what was left is the parent's to pay.
        """
        parent = AdaptiveBudget()
        child = parent.reserve(steps=10, tokens=1000)
        work(child, 1, tokens=5000)
        parent.give_back(child)

        assert (5000, 95_000) == (parent.get_status().tokens_used, parent.get_status().tokens_remaining)

    def test_one_child_may_overdraw_what_another_holds(self):
        """
        Nothing is left then, never less than nothing; and what the other brings back is free again.
        """
        parent = AdaptiveBudget(initial_tokens=1000, landing_reserve=0)
        greedy, modest = parent.reserve(steps=5, tokens=100), parent.reserve(steps=5, tokens=900)
        parent.give_back(work(greedy, 1, tokens=400))
        assert 0 == parent.get_status().tokens_remaining
        parent.give_back(modest)

        assert (600, False) == (parent.get_status().tokens_remaining, parent.is_exhausted())

    def test_children_can_use_the_parent_up(self):
        """
        When what came back is as much as there was, the parent is used up too.
        """
        parent = AdaptiveBudget(initial_steps=10, landing_reserve=0)
        child = parent.reserve(steps=10)
        assert (0, False) == (parent.get_status().steps_remaining, parent.is_exhausted())
        parent.give_back(work(child, 10))

        assert parent.is_exhausted()

    def test_what_returns_revives_nothing(self):
        """
        A parent that used its own part up while a child was out stays used up.
        """
        parent = AdaptiveBudget(initial_steps=10)
        child = parent.reserve(steps=5)
        work(parent, 5)
        assert parent.is_exhausted()
        parent.give_back(child)

        assert (True, 0) == (parent.is_exhausted(), parent.get_status().steps_remaining)

    def test_a_grandchild_still_out_counts_as_used(self):
        """
        What a child lent on and did not get back is spent: somebody may still be spending it.
        """
        parent = AdaptiveBudget()
        child = parent.reserve(steps=20)
        grandchild = child.reserve(steps=5)
        assert "/1/1" == grandchild.budget_id
        parent.give_back(child)

        assert 5 == parent.get_status().steps_used

    def test_children_that_never_return_are_bounded(self):
        """
        Beyond a hundred or so children the oldest share counts as spent, and cannot come back any more.
        """
        parent = AdaptiveBudget(initial_steps=10_000)
        children = [parent.reserve(steps=10, tokens=1) for _ in range(MAX_CHILDREN + 1)]
        now = parent.get_status()

        assert (10, 10 * MAX_CHILDREN) == (now.steps_used, now.steps_reserved)
        assert [False, True] == [parent.give_back(children[0]), parent.give_back(children[1])]


class TestTime:
    def test_it_is_shared_not_split(self):
        """
        Two children side by side may each use all the time their parent has left.
        """
        parent = AdaptiveBudget(wall_s=100.0)
        both = [parent.reserve(steps=10, tokens=100).get_status().wall_limit_s for _ in range(2)]

        assert [90.0, 90.0] == both
        assert 100.0 == parent.get_status().wall_remaining_s

    def test_only_the_parents_own_steps_tell_its_time(self):
        """
        Children that ran for a minute side by side cost the parent the minute its own step tells, once.
        """
        parent = AdaptiveBudget(wall_s=100.0)
        children = [parent.reserve(steps=10, tokens=100) for _ in range(2)]
        for child in children:
            parent.give_back(work(child, 1, wall_s=60.0))
        work(parent, 1, wall_s=61.0)

        assert 61.0 == parent.get_status().wall_used_s

    def test_a_child_gets_no_more_than_is_left(self):
        """
        A deadline asked for beyond the parent's is cut to the parent's, the landing reserve taken off.
        """
        parent = work(AdaptiveBudget(wall_s=100.0), 1, wall_s=40.0)

        # One step of the parent takes 40 seconds: that much is kept for its landing.
        assert 20.0 == parent.reserve(wall_s=500.0).get_status().wall_limit_s
