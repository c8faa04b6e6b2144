"""What holds of every budget, whatever happens to it."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.budgets.memory import MAX_DECISIONS
from steadyhelm.budgets.meters import LIMITS

NUMBERS = st.one_of(
    st.integers(0, 40),
    st.integers(),
    st.floats(0, 5),
    st.floats(),
    st.sampled_from([None, True, "7", 10**400]),
)
TOKENS = st.one_of(st.integers(0, 400), NUMBERS)
DELTAS = st.one_of(st.sampled_from([None, 0.0, 0.005, 0.05, 0.3, -0.1]), st.floats())
LIMIT = st.none() | st.integers(1, 60)
ROOTS = st.builds(
    AdaptiveBudget,
    initial_steps=LIMIT,
    initial_tokens=st.none() | st.integers(1, 5000),
    cost_usd=st.none() | st.floats(0.01, 20),
    wall_s=st.none() | st.floats(0.1, 100),
    velocity_window=st.integers(1, 6),
    expansion_factor=st.floats(1, 4),
    contraction_factor=st.floats(0, 1),
    stuck_factor=st.floats(0, 1),
    stuck_steps=st.integers(1, 6),
    ceiling_factor=st.floats(1, 5),
    landing_reserve=st.sampled_from([0, 0.1, 0.5]),
    adaptive_limits=st.sampled_from([("steps", "tokens"), LIMITS, ()]),
    extension_progress=st.floats(0, 1),
    extension_share=st.floats(0, 1),
    most_extensions=st.integers(0, 3),
)
SHARES = st.fixed_dictionaries(
    {}, optional={"steps": NUMBERS, "tokens": TOKENS, "cost_usd": NUMBERS, "wall_s": NUMBERS}
)


def meters(budget):
    """The four limits of a budget, from the inside."""
    return budget._memory.meters()


def check_sound(budget):
    """What must hold of a budget at every moment."""
    now, rules = budget.get_status(), budget.rules
    for name, meter in meters(budget).items():
        assert meter.used >= 0
        assert meter.reserved >= 0
        if meter.limit is None:
            assert meter.remaining is None
            assert not meter.exhausted
            continue
        granted = meter.original * rules.extension_share * rules.most_extensions
        assert 0 <= meter.limit <= meter.original * rules.ceiling_factor + granted * (1 + 1e-6) + 1e-3
        assert meter.reserved <= meter.limit
        assert 0 <= meter.remaining <= meter.limit
        if name not in rules.adaptive_limits and not budget._memory.extensions:
            assert meter.limit == meter.original
        if meter.remaining:
            assert meter.limit == meter.used + meter.reserved + meter.remaining
    lent = budget._memory.children.values()
    for name in ("steps", "tokens", "cost_usd"):
        if meters(budget)[name].limit is not None:
            assert meters(budget)[name].reserved == sum(getattr(loan, name) for loan in lent)
    assert now.exhausted == budget.is_exhausted()
    assert not (now.landing and now.exhausted)
    assert now.pace is None or -1.0 <= now.pace <= 1.0
    assert now.velocity is None or -1.0 <= now.velocity <= 1.0
    assert math.isfinite(now.adjustment_factor)
    foreseen = budget.forecast()
    if foreseen.low is not None:
        assert 0 <= foreseen.low <= foreseen.steps <= foreseen.high
    assert len(budget.decisions) <= MAX_DECISIONS


class Life(RuleBasedStateMachine):
    """A budget, its children and theirs, through everything that can happen to them."""

    budgets = Bundle("budgets")
    lent = Bundle("lent")

    def __init__(self):
        super().__init__()
        self.known = []
        self.used = {}

    @rule(target=budgets, budget=ROOTS)
    def begin(self, budget):
        self.known.append(budget)
        return budget

    @rule(budget=budgets, tokens=TOKENS, delta=DELTAS, cost=NUMBERS, wall=NUMBERS, turn=NUMBERS)
    def step(self, budget, tokens, delta, cost, wall, turn):
        steps = budget.get_status().steps_used
        with unrevived(budget):
            budget.record_step(turn, tokens, delta, cost, wall)
        assert steps + 1 == budget.get_status().steps_used

    @rule(budget=budgets, delta=st.sampled_from([0.0, 0.02, 0.1]), count=st.integers(1, 12))
    def walk(self, budget, delta, count):
        with unrevived(budget):
            for turn in range(count):
                budget.record_step(turn, 50, delta, 0.01, 0.5)

    @rule(budget=budgets, tokens=TOKENS, cost=NUMBERS, wall=NUMBERS)
    def spend(self, budget, tokens, cost, wall):
        with unrevived(budget):
            budget.record_spending(tokens, cost, wall)

    @rule(budget=budgets, delta=DELTAS)
    def get_on(self, budget, delta):
        with unrevived(budget):
            budget.record_progress(delta)

    @rule(target=lent, budget=budgets, asked=SHARES)
    def reserve(self, budget, asked):
        before = {name: meter.remaining for name, meter in meters(budget).items()}
        with unrevived(budget):
            child = budget.reserve(**asked)
        for name, meter in meters(child).items():
            if before[name] is not None:
                assert 0 <= meter.limit <= before[name]
        self.known.append(child)
        return budget, child

    @rule(target=budgets, pair=lent)
    def employ(self, pair):
        return pair[1]

    @rule(pair=consumes(lent), again=st.booleans())
    def give_back(self, pair, again):
        parent, child = pair
        mine = child.budget_id in parent._memory.children
        used = parent.get_status().steps_used
        took = child.get_status().steps_used + child.get_status().steps_reserved
        with unrevived(parent):
            assert mine == parent.give_back(child)
            if again:
                assert not parent.give_back(child)
        assert used + (took if mine else 0) == parent.get_status().steps_used

    @rule(budget=budgets, other=budgets)
    def give_back_a_stranger(self, budget, other):
        if other.budget_id in budget._memory.children:
            return
        before = budget.state()
        assert not budget.give_back(other)
        assert before == budget.state()

    @rule(
        budget=budgets, steps=NUMBERS, tokens=NUMBERS, cost=NUMBERS, wall=NUMBERS, why=st.text() | st.none()
    )
    def extend(self, budget, steps, tokens, cost, wall, why):
        before, granted = budget.get_status(), budget._memory.extensions
        decision = budget.request_emergency_extension(
            why, steps, tokens, requested_cost_usd=cost, requested_wall_s=wall
        )
        assert decision == budget.decisions[-1]
        if decision.approved:
            assert granted < budget.rules.most_extensions
            assert not budget.is_exhausted()
        else:
            assert before == budget.get_status()

    @rule(budget=budgets, name=st.text() | st.none(), used=NUMBERS, done=DELTAS)
    def complete(self, budget, name, used, done):
        before = budget.get_status()
        budget.record_task_completion(name, used, used, done)
        budget.get_task_budget_recommendation(name)
        assert before == budget.get_status()

    @rule(budget=budgets)
    def put_aside_and_take_up(self, budget):
        state, now = budget.state(), budget.get_status()
        budget.restore(state)
        assert (state, now) == (budget.state(), budget.get_status())

    @rule(budget=budgets, delta=DELTAS)
    def go_back(self, budget, delta):
        then = budget.state()
        with unrevived(budget):
            budget.record_step(1, 5, delta)
            used = budget.get_status().steps_used
            budget.rewind(then)
        assert used == budget.get_status().steps_used

    @invariant()
    def all_are_sound(self):
        for budget in self.known:
            check_sound(budget)
            for name, meter in meters(budget).items():
                key = (id(budget), name)
                assert self.used.get(key, 0) <= meter.used
                self.used[key] = meter.used


class unrevived:  # noqa: N801 - reads as a word
    """Whatever is used up when this begins is used up when it ends, with nothing left."""

    def __init__(self, budget):
        self.budget = budget

    def __enter__(self):
        self.before = self.budget.get_status()

    def __exit__(self, *_fault):
        now = self.budget.get_status()
        assert set(self.before.exhausted_by) <= set(now.exhausted_by)
        for name in self.before.exhausted_by:
            assert meters(self.budget)[name].remaining == 0


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

PLANS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 800), st.integers(0, 9)), min_size=1, max_size=6)


def families(plan):
    """A parent and its children: each with a share of steps and tokens, and the steps it then took."""
    parent = AdaptiveBudget(50, 10_000, cost_usd=1.0)
    children = [parent.reserve(steps=steps, tokens=tokens, cost_usd=0.1) for steps, tokens, _ in plan]
    return parent, children


class TestFamilies:
    @given(PLANS, st.randoms(use_true_random=False))
    def test_order_of_children_does_not_matter(self, plan, chance):
        """
        Whoever works first and whoever comes back first, the parent ends up the same to the last digit.
        """
        ends = []
        for shuffled in (False, True):
            parent, children = families(plan)
            work = [
                (child, turn)
                for child, (_, _, took) in zip(children, plan, strict=True)
                for turn in range(took)
            ]
            if shuffled:
                chance.shuffle(work)
            for child, turn in work:
                child.record_step(turn, 130, 0.01, 0.1 / 3, 0.7)
            if shuffled:
                chance.shuffle(children)
            for child in children:
                parent.give_back(child)
            ends.append(parent.state())

        assert ends[0] == ends[1]

    @given(PLANS, st.lists(st.integers(0, 6), max_size=80))
    def test_children_never_exceed_the_parent(self, plan, turns):
        """
        As long as everybody stops when it has nothing left, all together never use more than the parent had.
        """
        parent, children = families(plan)
        everybody = [parent, *children]
        for turn in turns:
            one = everybody[turn % len(everybody)]
            if one.get_status().steps_remaining and one.get_status().tokens_remaining:
                one.record_step(turn, 1, None)
        for child in children:
            parent.give_back(child)
        now = parent.get_status()

        assert now.steps_used <= now.steps_limit
        assert now.tokens_used <= now.tokens_limit
        assert len([child for child in children if child.get_status().steps_remaining]) == 0

    @given(PLANS)
    def test_shares_add_up(self, plan):
        """
        What all children were given is what the parent set aside, and the landing reserve is not in it.
        """
        parent, children = families(plan)
        now = parent.get_status()

        assert now.steps_reserved == sum(child.get_status().steps_limit for child in children)
        assert now.tokens_reserved == sum(child.get_status().tokens_limit for child in children)
        assert (5, 1000) <= (now.steps_remaining, now.tokens_remaining)


class TestLongRuns:
    @given(st.lists(st.sampled_from([0.0, 0.005, 0.02, 0.2, None]), max_size=200), st.floats(1, 4))
    def test_the_ceiling_holds(self, deltas, ceiling):
        """
        No run of progress takes a limit past its ceiling, and no audit line is missing.
        """
        budget = AdaptiveBudget(10**4, 10**6, ceiling_factor=ceiling, velocity_window=3)
        limit = budget.get_status().steps_limit
        for turn, delta in enumerate(deltas):
            made = budget.decisions_made
            budget.record_step(turn, 10, delta)
            now = budget.get_status()

            assert now.steps_limit <= 10**4 * ceiling + 1e-6
            assert now.tokens_limit <= 10**6 * ceiling + 1e-6
            if now.steps_limit != limit:
                assert made + 1 == budget.decisions_made
                assert now.steps_limit - limit == budget.decisions[-1].granted_steps
            limit = now.steps_limit

    @given(ROOTS, st.lists(st.tuples(TOKENS, DELTAS, NUMBERS), max_size=60))
    def test_landing_comes_before_the_end(self, budget, steps):
        """
        With a reserve, an adjustment never takes the last that is left: only a step can.
        """
        for tokens, delta, cost in steps:
            before = {name: meter.used for name, meter in meters(budget).items()}
            ended = set(budget.get_status().exhausted_by)
            budget.record_step(1, tokens, delta, cost)
            for name in set(budget.get_status().exhausted_by) - ended:
                meter = meters(budget)[name]

                assert meter.used > before[name] or not budget.rules.landing_reserve
