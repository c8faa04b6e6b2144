import random

import pytest

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.budgets.status import BudgetForecast


def spent(budget, *tokens):
    """Let a budget take a step for each number of tokens."""
    for turn, used in enumerate(tokens):
        budget.record_step(turn, used, None)
    return budget


class TestTheForecast:
    def test_the_first_limit_to_go_counts(self):
        """
        At 10,000 tokens a step, 100,000 tokens end the budget long before 50 steps do.
        """
        foreseen = spent(AdaptiveBudget(), 10_000, 10_000).forecast()

        assert (8.0, "tokens") == (foreseen.steps, foreseen.limit)

    def test_steps_are_certain(self):
        """
        Where steps are what ends it there is nothing to guess.
        """
        foreseen = spent(AdaptiveBudget(), 1, 1, 1).forecast()

        assert BudgetForecast(steps=47.0, low=47.0, high=47.0, limit="steps") == foreseen

    def test_the_recent_rate_counts(self):
        """
        A run that has become cheap is foreseen at what it costs now.
        """
        budget = spent(AdaptiveBudget(None, 10**6), *[9000] * 50, *[1000] * 50)

        assert pytest.approx(500, rel=0.01) == budget.forecast().steps

    def test_growth_goes_on(self):
        """
        Where each call takes along all that was said before, the forecast reckons with that.
        """
        budget = AdaptiveBudget(None, 200_000, adaptive_limits=())
        growing = [500 + 100 * step for step in range(60)]
        spent(budget, *growing[:30])
        true = next(steps for steps in range(60) if sum(growing[: 30 + steps]) >= 200_000)
        foreseen = budget.forecast()

        assert pytest.approx(true, rel=0.1) == foreseen.steps
        assert foreseen.low < foreseen.steps < foreseen.high

    def test_growth_that_stops_is_in_the_range(self):
        """
        A run that has become expensive, and stays as it is, ends at the range's far side.
        """
        budget = spent(AdaptiveBudget(None, 10**6), *[1000] * 50, *[9000] * 50)

        assert pytest.approx(500_000 / 9000, rel=0.02) == budget.forecast().high

    def test_uneven_steps_widen_it(self):
        """
        The more steps differ, the wider the range.
        """
        even = spent(AdaptiveBudget(None), 1000, 1100, 900, 1000).forecast()
        uneven = spent(AdaptiveBudget(None), 100, 3000, 200, 700).forecast()

        assert even.low < even.steps < even.high
        assert uneven.high - uneven.low > even.high - even.low

    def test_two_steps_give_no_range(self):
        """
        Two steps say nothing about how much steps differ.
        """
        foreseen = spent(AdaptiveBudget(), 5000, 5000).forecast()

        assert (None, None) == (foreseen.low, foreseen.high)

    @pytest.mark.parametrize(
        "budget",
        [AdaptiveBudget(), spent(AdaptiveBudget(None, None), 5), spent(AdaptiveBudget(None), 0, 0, 0)],
        ids=["no step yet", "no limit", "steps that use nothing"],
    )
    def test_nothing_can_be_said(self, budget):
        """
        Without a step, a limit, or anything used, there is no forecast.
        """
        assert BudgetForecast() == budget.forecast()
        assert budget.get_status().steps_to_exhaustion is None

    def test_an_exhausted_budget_has_none_to_go(self):
        """
        What is used up is good for no step.
        """
        assert 0.0 == spent(AdaptiveBudget(initial_steps=1), 5).forecast().steps

    def test_it_stands_in_the_status(self):
        """
        The status tells the same number.
        """
        budget = spent(AdaptiveBudget(), 10_000, 8000)

        assert budget.forecast().steps == budget.get_status().steps_to_exhaustion

    @pytest.mark.parametrize(
        "limit", [30_000, 100_000, 400_000], ids=["nearly there", "on the way", "far off"]
    )
    def test_the_range_holds_about_eight_times_in_ten(self, limit):
        """
        Over many runs with steps of very different size the true end lies in the range as often as promised.
        """
        chance = random.Random(4)
        held = counted = 0
        while counted < 300:
            budget = AdaptiveBudget(None, limit, adaptive_limits=())
            spent(budget, *(int(chance.lognormvariate(7, 0.5)) for _ in range(15)))
            if budget.is_exhausted():
                continue
            foreseen, steps = budget.forecast(), 0
            while not budget.is_exhausted():
                spent(budget, int(chance.lognormvariate(7, 0.5)))
                steps += 1
            counted += 1
            # The last step is rarely used in full.
            held += foreseen.low <= steps <= foreseen.high + 1

        assert 0.7 <= held / counted <= 0.9
