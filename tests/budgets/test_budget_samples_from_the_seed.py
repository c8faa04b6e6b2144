"""The budget samples of the anti-drift design, as their users would type them."""

import pytest

from holdfast.budgets.adaptive_budget import AdaptiveBudget, BudgetDecision, BudgetState


def window(budget, first_turn, delta, *, tokens=1000):
    """One whole window of steps with the same progress."""
    for turn in range(first_turn, first_turn + budget.rules.velocity_window):
        budget.record_step(turn=turn, tokens_used=tokens, progress_delta=delta)
    return budget.get_status().steps_limit


class TestTheFirstSample:
    def test_it_prints_what_it_says(self, capsys):
        """
        Two steps print the design's own lines, the percentage with the decimal its format asks for.
        """
        budget = AdaptiveBudget(
            initial_steps=50,
            initial_tokens=100000,
            min_velocity=0.01,
            velocity_window=10,
            expansion_factor=1.5,
            contraction_factor=0.7,
        )
        budget.record_step(
            turn=1,
            tokens_used=1500,
            progress_delta=0.05,
        )
        budget.record_step(
            turn=2,
            tokens_used=2000,
            progress_delta=0.04,
        )
        status = budget.get_status()
        print(f"Steps remaining: {status.steps_remaining}")
        print(f"Tokens remaining: {status.tokens_remaining}")
        print(f"Progress velocity: {status.velocity:.3f} per step")
        print(f"Budget adjustment: {status.adjustment_factor:.1%}")

        assert isinstance(status, BudgetState)
        assert [
            "Steps remaining: 48",
            "Tokens remaining: 96500",
            "Progress velocity: 0.045 per step",
            "Budget adjustment: 150.0%",
        ] == capsys.readouterr().out.splitlines()

    def test_velocity_over_a_full_window(self):
        """
        Ten steps that make up half of the work are .05 a step.
        """
        budget = AdaptiveBudget()
        for turn, delta in enumerate((0.05, 0.04, 0.06, 0.03, 0.05, 0.04, 0.07, 0.05, 0.06, 0.05), start=1):
            budget.record_step(turn, 1000, delta)

        assert pytest.approx(0.05) == budget.get_velocity()


class TestTheAdjustmentChain:
    def test_good_then_poor_then_stuck(self):
        """
        With whole windows of five between them the claims hold as a chain: 50, 75, 52, 26.
        """
        budget = AdaptiveBudget(velocity_window=5)

        assert [75, 52, 26] == [window(budget, 1, 0.08), window(budget, 6, 0.005), window(budget, 11, 0.0)]

    def test_what_was_used_stays(self):
        """
        With windows of ten, 30 steps are used by then: no limit can be 26, and a tenth is left to land.
        """
        budget = AdaptiveBudget(velocity_window=10)

        assert [75, 52, 30 + 5] == [
            window(budget, 1, 0.08),
            window(budget, 11, 0.005),
            window(budget, 21, 0.0),
        ]

    def test_one_step_reports_and_changes_nothing(self):
        """
        A single good step, as it is typed there, reports its factor; the limit waits for the window.
        """
        budget = AdaptiveBudget()
        budget.record_step(turn=10, tokens_used=1000, progress_delta=0.08)
        status = budget.get_status()

        assert (0.08, 1.5, 50) == (status.velocity, status.adjustment_factor, status.steps_limit)

    def test_five_steps_without_progress(self):
        """
        The stuck scenario as it is typed there reports a factor of .5.
        """
        budget = AdaptiveBudget()
        for i in range(5):
            budget.record_step(turn=30 + i, tokens_used=1000, progress_delta=0.0)

        assert (0.0, 0.5) == (budget.get_velocity(), budget.get_status().adjustment_factor)


class TestProfilesAndExtensions:
    def test_a_recommendation(self):
        """
        Two completed endpoints recommend 20 steps and 33,000 tokens for the next.
        """
        budget = AdaptiveBudget()
        budget.record_task_completion(
            task_type="implement_api_endpoint",
            steps_used=15,
            tokens_used=25000,
            total_progress=1.0,
        )
        budget.record_task_completion(
            task_type="implement_api_endpoint",
            steps_used=18,
            tokens_used=30000,
            total_progress=1.0,
        )
        recommended = budget.get_task_budget_recommendation(task_type="implement_api_endpoint")

        assert (20, 33000) == (recommended.steps, recommended.tokens)

    def test_an_extension_for_the_last_steps(self):
        """
        An agent past nine tenths and out of budget gets its five steps.
        """
        budget = AdaptiveBudget(ceiling_factor=1)
        progress = 0.0
        for turn in range(1, 51):
            progress += 0.019
            budget.record_step(turn=turn, tokens_used=2000, progress_delta=0.019)
        emergency_extension = None
        if progress > 0.9 and budget.is_exhausted():
            emergency_extension = budget.request_emergency_extension(
                justification="Task is 90% complete, need 5 more steps to finish",
                requested_steps=5,
                requested_tokens=10000,
            )

        assert isinstance(emergency_extension, BudgetDecision)
        assert emergency_extension.approved
        assert (5, 10000) == (budget.get_status().steps_remaining, budget.get_status().tokens_remaining)

    def test_the_whole_configuration(self):
        """
        The configuration sample builds a budget.
        """
        budget = AdaptiveBudget(
            initial_steps=50,
            initial_tokens=100000,
            min_velocity=0.01,
            velocity_window=10,
            expansion_factor=1.5,
            contraction_factor=0.7,
            enable_historical_profiling=True,
            enable_emergency_extensions=True,
        )

        assert AdaptiveBudget().rules == budget.rules
