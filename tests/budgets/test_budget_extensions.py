import math

import pytest

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.budgets.adjustments import MAX_JUSTIFICATION_CHARS


def nearly_done(*, progress=0.95, tokens=900, **settings):
    """A budget of a hundred steps, used up, with this much done."""
    budget = AdaptiveBudget(**{"initial_steps": 100, "adaptive_limits": (), **settings})
    for turn in range(1, 101):
        budget.record_step(turn, tokens, None if progress is None else progress / 100)
    return budget


class TestApproval:
    def test_it_opens_the_budget_again(self):
        """
        An approved extension raises the limits by what was asked, and the run goes on.
        """
        budget = nearly_done()
        assert budget.is_exhausted()
        decision = budget.request_emergency_extension("two tests are left", 5, 1000)
        now = budget.get_status()

        assert (True, 5, 1000, 100) == (
            decision.approved,
            decision.granted_steps,
            decision.granted_tokens,
            decision.turn,
        )
        assert (105, 5, 101_000, ()) == (
            now.steps_limit,
            now.steps_remaining,
            now.tokens_limit,
            now.exhausted_by,
        )

    def test_exactly_nine_tenths_and_a_tenth_are_enough(self):
        """
        Both bounds are inclusive, whatever the last bit of a sum says.
        """
        assert nearly_done(progress=0.9).request_emergency_extension("", 10, 10_000).approved

    def test_a_sum_may_be_a_hair_less(self):
        """
        Ten steps of .09 are nine tenths, and 29 steps are 29 in a hundred, though floats say a hair less.
        """
        assert sum([0.09] * 10) < 0.9
        assert 100 * 0.29 < 29
        budget = AdaptiveBudget(100, extension_share=0.29, adaptive_limits=())
        for turn in range(10):
            budget.record_step(turn, 1, 0.09)

        assert budget.request_emergency_extension("", 29).approved

    def test_what_was_not_asked_for_stays(self):
        """
        An extension of steps leaves tokens as they were, even when all of them are lent out.
        """
        budget = AdaptiveBudget(landing_reserve=0)
        budget.reserve(steps=5)
        budget.record_progress(0.95)
        budget.request_emergency_extension("", 5)

        assert (0, False) == (budget.get_status().tokens_remaining, budget.is_exhausted())

    def test_it_may_be_asked_for_in_time(self):
        """
        A budget that is not used up yet can be extended too.
        """
        budget = AdaptiveBudget()
        budget.record_step(1, 10, 0.95)

        assert budget.request_emergency_extension("", requested_steps=2).approved
        assert 51 == budget.get_status().steps_remaining

    def test_money_and_time(self):
        """
        Money and time can be extended like steps and tokens.
        """
        budget = AdaptiveBudget(cost_usd=2.0, wall_s=100.0)
        budget.record_step(1, 10, 0.95, cost_usd=2.0, wall_s=100.0)
        decision = budget.request_emergency_extension("", requested_cost_usd=0.2, requested_wall_s=10.0)

        assert (True, 0.2, 10.0) == (decision.approved, decision.granted_cost_usd, decision.granted_wall_s)
        assert not budget.is_exhausted()

    def test_what_has_no_limit_needs_none(self):
        """
        A request may name a limit that is not set: nothing is granted of it.
        """
        decision = nearly_done(initial_tokens=None).request_emergency_extension("", 5, 10**9)

        assert (True, 5, 0) == (decision.approved, decision.granted_steps, decision.granted_tokens)


class TestRefusal:
    @pytest.mark.parametrize(
        ("settings", "request_", "reason"),
        [
            ({"progress": 0.89}, (5, 0), "Progress is 0.89, and an extension needs at least 0.9."),
            ({"progress": None}, (5, 0), "Progress is unknown, and an extension needs at least 0.9."),
            ({}, (11, 0), "11 steps are more than 10% of the original 100 steps."),
            ({}, (5, 10_001), "10001 tokens are more than 10% of the original 100000 tokens."),
            ({}, (0, 0), "Nothing was requested of any limit that is set."),
            ({}, (-1, 0), "What is requested must be a number of 0 or more for every limit."),
            ({}, (math.nan, 0), "What is requested must be a number of 0 or more for every limit."),
            ({}, (5, None), "What is requested must be a number of 0 or more for every limit."),
            ({"enable_emergency_extensions": False}, (5, 0), "Extensions are switched off."),
            ({"most_extensions": 0}, (5, 0), "0 granted before, and 0 is the most."),
            ({"initial_tokens": 89_500}, (5, 0), "more than 500 tokens would be needed."),
            ({"initial_tokens": 89_500}, (5, 500), "more than 500 tokens would be needed."),
            ({}, (0, 500), "The run would still be out of steps: more than 0 steps would be needed."),
        ],
    )
    def test_the_reason_is_told(self, settings, request_, reason):
        """
        A refused extension says why, changes nothing, and does not use up the one there is.
        """
        budget = nearly_done(**settings)
        before = budget.get_status()
        decision = budget.request_emergency_extension("please", *request_)

        assert not decision.approved
        assert decision.reason.endswith(reason)
        assert before == budget.get_status()

    def test_one_is_the_most(self):
        """
        The second extension is refused; with two allowed, the third.
        """
        for most in (1, 2):
            budget = nearly_done(most_extensions=most)
            answers = [budget.request_emergency_extension("", 2).approved for _ in range(3)]

            assert [True] * most + [False] * (3 - most) == answers

    def test_a_child_is_told_to_ask_its_parent(self):
        """
        A child's share is not extended: nothing may grow beyond what its parent set aside.
        """
        child = AdaptiveBudget().reserve(steps=10)
        child.record_step(1, 1, 0.95)

        assert "share of another budget" in child.request_emergency_extension("", 1).reason


class TestTheRecord:
    def test_every_decision_is_kept(self):
        """
        Asked for, granted or refused: each stands in the list with its turn, words and amounts.
        """
        budget = nearly_done()
        made = [
            budget.request_emergency_extension("too much", 50, 0),
            budget.request_emergency_extension("enough", 5, 0),
        ]

        assert tuple(made) == tuple(decision for decision in budget.decisions if decision.kind == "extension")
        assert [(50, 0, "too much"), (5, 5, "enough")] == [
            (decision.requested_steps, decision.granted_steps, decision.justification) for decision in made
        ]

    @pytest.mark.parametrize("text", ["", "x" * 10**6, "half \ud83d", None, 7, b"bytes"])
    def test_any_justification_is_survived(self, text):
        """
        The words may be anything: they are cut, made writable, and decide nothing.
        """
        budget = nearly_done()
        decision = budget.request_emergency_extension(text, 5, 0)

        assert decision.approved
        assert len(decision.justification) <= MAX_JUSTIFICATION_CHARS
        assert budget.decisions == AdaptiveBudget.from_state(budget.state()).decisions

    def test_the_ceiling_is_for_growth(self):
        """
        A budget at its ceiling can still be extended; a later good window adds nothing to that.
        """
        budget = AdaptiveBudget(ceiling_factor=2)
        for turn in range(40):
            budget.record_step(turn, 1, 0.025)
        assert 100 == budget.get_status().steps_limit
        budget.request_emergency_extension("", 5)
        for turn in range(40, 60):
            budget.record_step(turn, 1, 0.025)

        assert 105 == budget.get_status().steps_limit


class TestGrants:
    def test_the_user_may_give_more(self):
        """
        Limits belong to the user: what they grant opens the budget, whatever the progress.
        """
        budget = nearly_done(progress=None)
        decision = budget.grant("go on for a while", steps=50)

        assert (True, "grant", 50, False) == (
            decision.approved,
            decision.kind,
            decision.granted_steps,
            budget.is_exhausted(),
        )

    def test_it_uses_up_no_extension(self):
        """
        A grant leaves the run's own extension to it.
        """
        budget = nearly_done()
        budget.grant("a little", steps=1)

        assert budget.request_emergency_extension("one test left", 1).approved

    @pytest.mark.parametrize("steps", [0, -3, math.nan, "ten", None])
    def test_nothing_is_granted_by_nonsense(self, steps):
        """
        What is no number grants nothing, and is kept as such.
        """
        budget = nearly_done()

        assert not budget.grant("?", steps=steps).approved
        assert budget.is_exhausted()
