import math

import pytest

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.budgets.memory import MAX_DECISIONS
from steadyhelm.errors import SettingsError

NAN = float("nan")


def run(budget, deltas, *, tokens=100):
    """Record one step for each progress given."""
    for turn, delta in enumerate(deltas, start=1):
        budget.record_step(turn=turn, tokens_used=tokens, progress_delta=delta)
    return budget


def limits(budget):
    """The step and token limits as they are now."""
    now = budget.get_status()
    return now.steps_limit, now.tokens_limit


class TestBetweenSteps:
    def test_it_is_spent_at_once(self):
        """
        What a reply uses between two steps is used, without being a step.
        """
        budget = AdaptiveBudget(initial_steps=10, initial_tokens=1000)
        budget.record_spending(400)
        now = budget.get_status()

        assert (0, 600) == (now.steps_used, now.tokens_remaining)

    def test_it_can_use_the_budget_up(self):
        """
        A reply alone can use up the last tokens.
        """
        budget = AdaptiveBudget(initial_steps=10, initial_tokens=1000)
        budget.record_spending(1000)

        assert budget.is_exhausted()

    def test_progress_that_is_told(self):
        """
        Progress told between two steps counts for the latest one.
        """
        budget = AdaptiveBudget(initial_steps=10, initial_tokens=1000)
        budget.record_step(1, 100, 0.0)
        budget.record_progress(0.5)

        assert (0.5, 0.4) == (budget.get_velocity(), budget.get_pace())

    def test_it_counts_as_the_next_steps(self):
        """
        The forecast takes a step together with the reply that led to it.
        """
        apart, together = (AdaptiveBudget(initial_steps=None, initial_tokens=1000) for _ in range(2))
        apart.record_spending(60)
        apart.record_step(1, 40, None)
        together.record_step(1, 100, None)

        assert together.forecast() == apart.forecast()

    def test_it_counts_for_one_step_only(self):
        """
        A reply is part of the step after it, and of no other.
        """
        budget = AdaptiveBudget(initial_steps=None, initial_tokens=1000)
        budget.record_spending(60)
        for turn in range(4):
            budget.record_step(turn, 10, None)

        assert pytest.approx(900 / 25) == budget.forecast().steps

    def test_progress_told_late_ends_being_stuck(self):
        """
        A run held for stuck is not, once progress is heard of.
        """
        budget = run(AdaptiveBudget(), [0.0] * 5)
        assert 0.5 == budget.get_status().adjustment_factor
        budget.record_progress(0.1)

        assert 1.5 == budget.get_status().adjustment_factor

    def test_progress_before_the_first_step_is_progress(self):
        """
        What was done before anything was counted is known, and is nobody's velocity.
        """
        budget = AdaptiveBudget()
        budget.record_progress(0.25)
        budget.record_progress(NAN)

        assert (0.25, None, 1) == (budget.get_pace(), budget.get_velocity(), budget.not_counted)


class TestVelocity:
    def test_it_divides_by_the_steps_seen(self):
        """
        Two steps of .05 and .04 are .045 a step, however long the window is.
        """
        assert 0.045 == run(AdaptiveBudget(), [0.05, 0.04]).get_velocity()

    def test_only_the_window_counts(self):
        """
        Steps before the window are forgotten.
        """
        budget = run(AdaptiveBudget(velocity_window=3, ceiling_factor=1), [0.9, 0.0, 0.01, 0.02])

        assert pytest.approx(0.01) == budget.get_velocity()

    def test_it_is_unknown_at_the_start(self):
        """
        Before the first step, and while no step tells its progress, there is no velocity.
        """
        assert AdaptiveBudget().get_velocity() is None
        assert run(AdaptiveBudget(), [None, None]).get_velocity() is None

    def test_progress_told_late_speaks_for_the_steps_before(self):
        """
        A step that tells .3 after two that told nothing is .1 for each of the three.
        """
        assert pytest.approx(0.1) == run(AdaptiveBudget(), [None, None, 0.3]).get_velocity()

    def test_going_backwards_is_negative(self):
        """
        Progress that is lost again counts against the run.
        """
        assert run(AdaptiveBudget(), [0.1, -0.3]).get_velocity() < 0


class TestTheFactor:
    @pytest.mark.parametrize(
        ("deltas", "factor"),
        [
            ([], 1.0),
            ([0.05], 1.5),
            ([0.01] * 10, 1.5),
            ([0.005], 0.7),
            ([0.0] * 4, 0.7),
            ([0.0] * 5, 0.5),
            ([0.2, 0.0, 0.0, 0.0, 0.0, 0.0], 0.5),
            ([0.0] * 5 + [0.2], 1.5),
            ([-0.1] * 5, 0.5),
            ([None] * 20, 1.0),
            ([0.005, None], 1.0),
            ([0.0] * 4 + [None, 0.0], 1.0),
            ([0.5, None, None], 1.5),
        ],
    )
    def test_it_is_told_at_every_step(self, deltas, factor):
        """
        Good progress would expand, poor contract, five steps without any halve; the unknown changes nothing.
        """
        assert factor == run(AdaptiveBudget(velocity_window=20), deltas).get_status().adjustment_factor

    def test_it_is_applied_once_per_full_window(self):
        """
        Nine good steps change no limit, the tenth does, and the next change comes with the twentieth.
        """
        budget = AdaptiveBudget()
        seen = []
        for turn in range(1, 21):
            budget.record_step(turn, 100, 0.02)
            seen.append(limits(budget))

        assert [(50, 100_000)] * 9 + [(75, 150_000)] * 10 + [(112, 225_000)] == seen

    def test_poor_progress_contracts(self):
        """
        A window of poor progress takes three tenths off.
        """
        assert (35, 70_000) == limits(run(AdaptiveBudget(), [0.001] * 10))

    def test_being_stuck_halves(self):
        """
        A window that ends in five steps without progress halves the limits, whatever came before.
        """
        assert (25, 50_000) == limits(run(AdaptiveBudget(), [0.1] * 5 + [0.0] * 5))

    def test_unknown_progress_leaves_limits_alone(self):
        """
        A run that never tells its progress keeps its limits, and no decision is made.
        """
        budget = run(AdaptiveBudget(), [None] * 40)

        assert ((50, 100_000), ()) == (limits(budget), budget.decisions)

    def test_no_unit_is_lost_to_a_float(self):
        """
        Seven tenths of 90 are 63, though 90 * .7 is a hair less.
        """
        assert 90 * 0.7 < 63
        assert 63 == run(AdaptiveBudget(initial_steps=90), [0.001] * 10).get_status().steps_limit

    def test_money_and_time_stay_as_they_were_set(self):
        """
        Good progress never raises what a run may cost, unless that limit is named as one that adapts.
        """
        fixed = run(AdaptiveBudget(cost_usd=2.0, wall_s=60.0), [0.05] * 10).get_status()
        named = AdaptiveBudget(cost_usd=2.0, wall_s=60.0, adaptive_limits=("cost_usd",))
        moved = run(named, [0.05] * 10).get_status()

        assert (2.0, 60.0) == (fixed.cost_limit_usd, fixed.wall_limit_s)
        assert (50, 3.0, 60.0) == (moved.steps_limit, moved.cost_limit_usd, moved.wall_limit_s)


class TestTheCeiling:
    def test_it_holds(self):
        """
        However good the progress, a limit ends at three times the original.
        """
        budget = AdaptiveBudget()
        for turn in range(100):
            budget.record_step(turn, 1, 0.01)

        assert (150, 300_000) == limits(budget)

    def test_a_ceiling_of_one_is_a_fixed_budget(self):
        """
        With a ceiling of 1 nothing grows.
        """
        assert (50, 100_000) == limits(run(AdaptiveBudget(ceiling_factor=1), [0.02] * 30))

    def test_it_is_said_once(self):
        """
        A run that stays at its ceiling has one decision that says so, not one for every window.
        """
        budget = run(AdaptiveBudget(initial_steps=1000), [0.001] * 5 + [0.02] * 400, tokens=1)

        assert [True, True, True, False] == [decision.approved for decision in budget.decisions]
        assert "No limit can change any further" in budget.decisions[-1].reason


class TestContraction:
    def test_it_leaves_enough_to_land(self):
        """
        A stuck run keeps what it used and a tenth of the original on top, to hand over in order.
        """
        assert 20 + 5 == limits(run(AdaptiveBudget(), [0.0] * 20))[0]

    def test_it_is_told_as_landing(self):
        """
        A budget cut down to its reserve is landing, not exhausted.
        """
        now = run(AdaptiveBudget(), [0.0] * 20).get_status()

        assert (5, True, False) == (now.steps_remaining, now.landing, now.exhausted)

    def test_without_a_reserve_it_may_exhaust(self):
        """
        With no landing reserve a limit is cut down to what was used, and that is the end of it.
        """
        budget = run(AdaptiveBudget(landing_reserve=0), [0.0] * 20)
        now = budget.get_status()

        assert (20, 0, ("steps",)) == (now.steps_limit, now.steps_remaining, now.exhausted_by)

    def test_it_never_raises_a_limit(self):
        """
        A limit whose rest is already smaller than the reserve is not raised by contraction.
        """
        budget = AdaptiveBudget(initial_steps=50, ceiling_factor=1)
        run(budget, [0.02] * 38 + [0.0] * 10)

        assert 50 >= budget.get_status().steps_limit


class TestExhaustion:
    @pytest.mark.parametrize(
        ("settings", "step", "name"),
        [
            ({"initial_steps": 1}, {}, "steps"),
            ({"initial_tokens": 10}, {"tokens_used": 10}, "tokens"),
            ({"cost_usd": 0.5}, {"cost_usd": 0.5}, "cost_usd"),
            ({"wall_s": 3.0}, {"wall_s": 7.5}, "wall_s"),
        ],
    )
    def test_any_limit_ends_it(self, settings, step, name):
        """
        Whichever limit is used up ends the budget, and is named.
        """
        budget = AdaptiveBudget(**settings)
        budget.record_step(**{"turn": 1, "tokens_used": 1, "progress_delta": None, **step})

        assert budget.is_exhausted()
        assert (name,) == budget.get_status().exhausted_by

    def test_no_limit_never_ends(self):
        """
        None is no limit, for each of the four.
        """
        budget = run(AdaptiveBudget(None, None), [0.0] * 500, tokens=10**9)
        now = budget.get_status()

        assert not budget.is_exhausted()
        assert (None, None, None, 500) == (
            now.steps_remaining,
            now.tokens_remaining,
            now.steps_to_exhaustion,
            now.steps_used,
        )

    def test_good_progress_does_not_revive(self):
        """
        A step that uses the budget up is not undone by the window it fills, nor by any later one.
        """
        budget = run(AdaptiveBudget(initial_steps=10), [0.05] * 40)

        assert budget.is_exhausted()
        assert (10, 0) == (limits(budget)[0], budget.get_status().steps_remaining)

    def test_what_is_used_is_counted_beyond_the_end(self):
        """
        Steps after the end are counted as used; nothing remaining is ever below 0.
        """
        now = run(AdaptiveBudget(initial_steps=2), [0.1] * 5, tokens=60_000).get_status()

        assert (5, 0, 300_000, 0) == (
            now.steps_used,
            now.steps_remaining,
            now.tokens_used,
            now.tokens_remaining,
        )
        assert ("steps", "tokens") == now.exhausted_by

    def test_small_costs_add_up(self):
        """
        A thousand calls for a hundredth of a cent are ten cents, to the last digit.
        """
        budget = AdaptiveBudget(None, None, cost_usd=1.0)
        for turn in range(1000):
            budget.record_step(turn, 1, None, cost_usd=0.0001)

        assert 0.1 == budget.get_status().cost_used_usd

    def test_its_factor_is_one(self):
        """
        An exhausted budget is not adjusted, and says so.
        """
        assert 1.0 == run(AdaptiveBudget(initial_steps=2), [0.1] * 2).get_status().adjustment_factor


class TestLanding:
    def test_it_begins_where_only_the_reserve_is_left(self):
        """
        With 20 steps the last two are for landing.
        """
        budget = AdaptiveBudget(initial_steps=20, initial_tokens=None)
        landing = []
        for turn in range(1, 21):
            budget.record_step(turn, 0, None)
            if budget.is_landing():
                landing.append(turn)

        assert [18, 19] == landing

    def test_one_step_is_always_kept(self):
        """
        A tenth of three steps is no step: one is kept all the same.
        """
        budget = run(AdaptiveBudget(initial_steps=3), [None] * 2)

        assert budget.is_landing()

    def test_what_one_step_takes_is_kept(self):
        """
        When a step takes more tokens than a tenth of the limit, landing begins while one more step fits.
        """
        budget = run(AdaptiveBudget(initial_tokens=100_000), [None] * 4, tokens=20_000)

        assert (20_000, True) == (budget.get_status().tokens_remaining, budget.is_landing())

    def test_none_is_kept_when_it_is_switched_off(self):
        """
        With a reserve of 0 a run never lands.
        """
        budget = AdaptiveBudget(initial_steps=5, landing_reserve=0)

        assert [False] * 6 == [run(budget, [None]).is_landing() for _ in range(6)]


class TestPace:
    @pytest.mark.parametrize(
        ("deltas", "tokens", "pace"),
        [
            ([0.1] * 5, 100, 0.4),
            ([0.0] * 5, 100, -0.1),
            ([0.1] * 5, 16_000, -0.3),
            ([1.0], 0, 0.98),
            ([0.0], 200_000, -1.0),
        ],
    )
    def test_it_is_progress_minus_the_largest_share_used(self, deltas, tokens, pace):
        """
        Half done with a tenth of the steps used is .4 ahead; the limit furthest gone is the one compared.
        """
        budget = run(AdaptiveBudget(velocity_window=100), deltas, tokens=tokens)

        assert pytest.approx(pace) == budget.get_pace()
        assert budget.get_pace() == budget.get_status().pace

    def test_it_is_unknown_with_the_progress(self):
        """
        Where no step has told its progress there is no pace.
        """
        assert run(AdaptiveBudget(), [None] * 3).get_pace() is None
        assert run(AdaptiveBudget(), [None] * 3).get_status().progress is None

    def test_without_limits_it_is_the_progress(self):
        """
        Where nothing is limited nothing can be spent too fast.
        """
        assert 0.5 == run(AdaptiveBudget(None, None), [0.5]).get_pace()


class TestDecisions:
    def test_an_adjustment_is_written_down(self):
        """
        Every change of limits has its turn, its reason, its factor and what it changed.
        """
        budget = AdaptiveBudget(cost_usd=1.0)
        for turn in range(11, 21):
            budget.record_step(turn, 100, 0.03)
        (decision,) = budget.decisions

        assert ("adjustment", True, 20, 1.5) == (
            decision.kind,
            decision.approved,
            decision.turn,
            decision.factor,
        )
        assert (25, 50_000, 0.0) == (
            decision.granted_steps,
            decision.granted_tokens,
            decision.granted_cost_usd,
        )
        assert "Good progress: 0.03 a step over 10 steps, 0.01 is wanted; limits x 1.5." == decision.reason

    @pytest.mark.parametrize(
        ("delta", "steps", "word"),
        [(0.001, -15, "Poor progress: 0.001"), (0.0, -25, "Stuck: 10 steps in a row")],
    )
    def test_a_cut_is_below_zero(self, delta, steps, word):
        """
        What a cut took away stands there with a minus, and the reason says which rule it was.
        """
        (decision,) = run(AdaptiveBudget(), [delta] * 10).decisions

        assert steps == decision.granted_steps
        assert decision.reason.startswith(word)

    def test_they_are_bounded(self):
        """
        Only the latest are kept, however long the run; how many there were stays known.
        """
        budget = AdaptiveBudget(initial_steps=10**6, velocity_window=1, landing_reserve=0)
        run(budget, [0.005, 0.02] * 500, tokens=1)

        assert MAX_DECISIONS == len(budget.decisions)
        assert MAX_DECISIONS < budget.decisions_made


class TestGoingBack:
    def test_progress_goes_back_and_spending_does_not(self):
        """
        A return to a checkpoint takes progress back, and not one token.
        """
        budget = run(AdaptiveBudget(), [0.2])
        then = budget.state()
        run(budget, [0.3, 0.0])
        budget.rewind(then)
        now = budget.get_status()

        assert (0.2, 0.2, 3, 300) == (now.progress, now.velocity, now.steps_used, now.tokens_used)

    def test_it_revives_nothing(self):
        """
        A budget that is used up stays so when the run goes back to a time before.
        """
        budget = AdaptiveBudget(initial_steps=3)
        then = run(budget, [0.1]).state()
        run(budget, [0.1, 0.1]).rewind(then)

        assert budget.is_exhausted()


class TestBlindness:
    def test_a_limit_nobody_tells_about_is_named(self):
        """
        A limit on tokens, money or time cannot be judged while no step says what it took.
        """
        budget = AdaptiveBudget(cost_usd=1.0)
        assert {} == budget.not_checked
        budget.record_step(1, 50, 0.1)

        assert {"cost_usd": "no step has reported how much money it used"} == budget.not_checked

    @pytest.mark.parametrize("odd", [NAN, math.inf, -1, -0.5, True, "12", [3], object()])
    def test_a_number_that_makes_no_sense_is_counted(self, odd):
        """
        What is no number of 0 or more counts as nothing used, and is counted itself.
        """
        budget = AdaptiveBudget(cost_usd=1.0, wall_s=1.0)
        budget.record_step(odd, odd, 0.1, odd, odd)
        now = budget.get_status()

        assert (1, 0, 0.0, 0.0) == (now.steps_used, now.tokens_used, now.cost_used_usd, now.wall_used_s)
        assert 3 == budget.not_counted

    @pytest.mark.parametrize("odd", [NAN, math.inf, -math.inf, True, "0.5", object()])
    def test_progress_that_makes_no_sense_is_unknown(self, odd):
        """
        Progress that is no number is unknown progress.
        """
        budget = AdaptiveBudget()
        budget.record_step(1, 1, odd)

        assert (None, 1) == (budget.get_velocity(), budget.not_counted)

    def test_progress_is_cut(self):
        """
        More than everything in one step is everything.
        """
        now = run(AdaptiveBudget(), [10**400]).get_status()

        assert (1.0, 1.0) == (now.velocity, now.progress)

    def test_numbers_of_any_size_are_survived(self):
        """
        Tokens beyond all counting use the budget up, and the state can still be written.
        """
        budget = AdaptiveBudget(cost_usd=1.0)
        for turn in (10**400, -(10**400), 2**63):
            budget.record_step(turn, 10**400, 0.1, 1e308, 1e308)

        assert ("tokens", "cost_usd") == AdaptiveBudget.from_state(budget.state()).get_status().exhausted_by

    def test_none_is_simply_not_told(self):
        """
        Tokens, cost and time a host does not know are no mistake.
        """
        budget = AdaptiveBudget()
        budget.record_step(1, None, None, None, None)

        assert (1, 0) == (budget.get_status().steps_used, budget.not_counted)


class TestSettings:
    @pytest.mark.parametrize(
        ("setting", "value"),
        [
            ("initial_steps", 0),
            ("initial_steps", 2.5),
            ("initial_steps", True),
            ("initial_steps", 10**16),
            ("initial_tokens", -1),
            ("initial_tokens", "many"),
            ("cost_usd", 0),
            ("cost_usd", NAN),
            ("cost_usd", math.inf),
            ("wall_s", -5),
            ("wall_s", "1h"),
            ("min_velocity", -0.1),
            ("min_velocity", NAN),
            ("velocity_window", 0),
            ("velocity_window", 1.5),
            ("velocity_window", 10**6),
            ("expansion_factor", 0.9),
            ("expansion_factor", math.inf),
            ("contraction_factor", 1.1),
            ("contraction_factor", -0.1),
            ("enable_historical_profiling", "yes"),
            ("enable_emergency_extensions", None),
            ("stuck_steps", 0),
            ("stuck_factor", 2),
            ("ceiling_factor", 0.5),
            ("ceiling_factor", True),
            ("landing_reserve", 1.0),
            ("landing_reserve", "a tenth"),
            ("extension_progress", 1.5),
            ("extension_share", -1),
            ("most_extensions", -1),
            ("most_extensions", 0.5),
            ("adaptive_limits", ("steps", "luck")),
            ("adaptive_limits", "steps"),
            ("adaptive_limits", ([],)),
            ("agent_id", 7),
            ("budget_id", None),
        ],
    )
    def test_a_wrong_value_is_named(self, setting, value):
        """
        A setting that cannot be so is refused, with its name and the value.
        """
        with pytest.raises(SettingsError, match=rf"^{setting} must be .* got "):
            AdaptiveBudget(**{setting: value})

    def test_all_of_the_seeds_arguments_stand_in_order(self):
        """
        The eight arguments can be given by place.
        """
        budget = AdaptiveBudget(30, 9000, 0.02, 4, 1.2, 0.8, False, False)

        assert (30, 9000) == limits(budget)
        assert (0.02, 4, 1.2, 0.8, False, False) == (
            budget.rules.min_velocity,
            budget.rules.velocity_window,
            budget.rules.expansion_factor,
            budget.rules.contraction_factor,
            budget.rules.enable_historical_profiling,
            budget.rules.enable_emergency_extensions,
        )
