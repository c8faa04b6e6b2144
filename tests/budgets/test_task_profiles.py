import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.budgets import profiles
from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.budgets.profiles import MAX_PROFILES
from steadyhelm.decisions import TaskProfile
from steadyhelm.errors import FormatError

NAMES = st.sampled_from(["refactor", "write tests", "ändern"])
PROFILES = st.lists(
    st.builds(
        TaskProfile,
        agent_id=st.sampled_from(["a", "b"]),
        task_type=NAMES,
        tasks=st.integers(1, 50),
        steps=st.integers(0, 10**6),
        tokens=st.integers(0, 10**9),
        cost_usd=st.floats(0, 1000).map(lambda dollars: round(dollars, 9)),
        wall_s=st.floats(0, 10**5).map(lambda seconds: round(seconds, 6)),
    ),
    max_size=8,
)


def document(**changes):
    """An export of one profile, with some of its fields changed; a field of ... is left out."""
    profile = {"agent_id": "me", "task_type": "refactor", "tasks": 2, "steps": 30, "tokens": 5000, **changes}
    kept = {name: value for name, value in profile.items() if value is not ...}
    return json.dumps({"steadyhelm_task_profiles": 1, "profiles": [kept]})


class TestLearning:
    def test_a_completed_task_is_added(self):
        """
        What a task took is added to what is known of its type, and the profile is handed out to be stored.
        """
        budget = AdaptiveBudget(agent_id="me")
        budget.record_task_completion("refactor", 10, 2000, 1.0, cost_usd=0.25, wall_s=60.0)
        profile = budget.record_task_completion("refactor", 20, 4000, 0.95)

        assert profile == TaskProfile(
            agent_id="me", task_type="refactor", tasks=2, steps=30, tokens=6000, cost_usd=0.25, wall_s=60.0
        )
        assert (profile,) == budget.task_profiles

    def test_an_unfinished_task_teaches_nothing(self):
        """
        A task that ended before nine tenths were done says nothing about what it takes.
        """
        budget = AdaptiveBudget()

        assert budget.record_task_completion("refactor", 10, 2000, 0.89) is None
        assert ((), 0) == (budget.task_profiles, budget.not_counted)

    @pytest.mark.parametrize(
        "task",
        [
            ("", 1, 1, 1.0),
            (None, 1, 1, 1.0),
            ("refactor", -1, 1, 1.0),
            ("refactor", 1, math.nan, 1.0),
            ("refactor", True, 1, 1.0),
            ("refactor", 1, 1, math.inf),
            ("refactor", 1, 1, None),
        ],
    )
    def test_what_makes_no_sense_is_counted(self, task):
        """
        A task without a name, or a number that is none, teaches nothing and is counted.
        """
        budget = AdaptiveBudget()

        assert budget.record_task_completion(*task) is None
        assert ((), 1) == (budget.task_profiles, budget.not_counted)

    def test_types_are_bounded(self):
        """
        The type untouched for longest is forgotten when there are too many.
        """
        budget = AdaptiveBudget()
        for number in range(MAX_PROFILES):
            budget.record_task_completion(f"task {number}", 1, 1, 1.0)
        budget.record_task_completion("task 0", 1, 1, 1.0)
        budget.record_task_completion("one more", 1, 1, 1.0)
        known = {profile.task_type for profile in budget.task_profiles}

        assert MAX_PROFILES == len(known)
        assert {"task 0", "one more"} <= known
        assert "task 1" not in known

    @pytest.mark.parametrize("name", ["x" * 10**6, "half \ud83d"])
    def test_any_name_is_survived(self, name):
        """
        A name of any length and make is cut and made writable, and found again.
        """
        budget = AdaptiveBudget()
        budget.record_task_completion(name, 10, 10, 1.0)

        assert 12 == AdaptiveBudget.from_state(budget.state()).get_task_budget_recommendation(name).steps

    def test_profiles_given_count(self):
        """
        What was learnt in runs before is recommended from the start, several profiles of a type as one.
        """
        before = [
            TaskProfile(agent_id="me", task_type="refactor", tasks=1, steps=10, tokens=1000),
            TaskProfile(agent_id="you", task_type="refactor", tasks=1, steps=20, tokens=1000),
        ]
        budget = AdaptiveBudget(agent_id="me", task_profiles=before)

        assert 18 == budget.get_task_budget_recommendation("refactor").steps
        assert ["me"] == [profile.agent_id for profile in budget.task_profiles]


class TestRecommendation:
    @pytest.mark.parametrize(
        ("steps", "tasks", "advised"), [(33, 2, 20), (5, 1, 6), (1, 1, 2), (10, 1, 12), (7, 3, 3)]
    )
    def test_mean_and_a_fifth_rounded_up(self, steps, tasks, advised):
        """
        The mean and a fifth of it, rounded up.
        """
        known = TaskProfile(agent_id="a", task_type="t", tasks=tasks, steps=steps)

        assert advised == profiles.recommend_budget(known, "t").steps

    def test_money_and_time_too(self):
        """
        Cost and time are recommended where they were told.
        """
        known = TaskProfile(agent_id="a", task_type="t", tasks=2, steps=2, cost_usd=0.5, wall_s=100.0)
        advice = profiles.recommend_budget(known, "t")

        assert (0.3, 60.0, None) == (advice.cost_usd, advice.wall_s, advice.tokens)

    def test_without_history_it_is_false_and_says_why(self):
        """
        A type nobody has completed gives a record without limits that counts as false.
        """
        advice = AdaptiveBudget().get_task_budget_recommendation("never seen")

        assert not advice
        assert (None, None, 0) == (advice.steps, advice.tokens, advice.tasks)
        assert "No completed task of this type is known." == advice.reason

    def test_with_history_it_is_true(self):
        """
        A recommendation that rests on something counts as true.
        """
        budget = AdaptiveBudget()
        budget.record_task_completion("refactor", 1, 1, 1.0)

        assert budget.get_task_budget_recommendation("refactor")

    def test_switched_off(self):
        """
        Without profiling nothing is learnt and nothing recommended, and that is said.
        """
        budget = AdaptiveBudget(enable_historical_profiling=False)
        budget.record_task_completion("refactor", 1, 1, 1.0)

        assert () == budget.task_profiles
        assert "Task profiles are switched off." == budget.get_task_budget_recommendation("refactor").reason

    def test_it_can_be_used_as_it_is(self):
        """
        What is recommended is what a budget takes.
        """
        budget = AdaptiveBudget()
        budget.record_task_completion("refactor", 1, 0, 1.0)
        advice = budget.get_task_budget_recommendation("refactor")

        assert 2 == AdaptiveBudget(advice.steps, advice.tokens).get_status().steps_limit


class TestMerging:
    @given(PROFILES, st.randoms(use_true_random=False))
    def test_order_does_not_matter(self, some, chance):
        """
        Profiles add up to the same whatever order they come in.
        """
        shuffled = list(some)
        chance.shuffle(shuffled)

        assert profiles.merge_profiles(some) == profiles.merge_profiles(shuffled)

    @given(PROFILES)
    def test_nothing_is_lost(self, some):
        """
        The sums of all profiles stay what they were, and each agent and type stands once.
        """
        together = profiles.merge_profiles(some)

        assert sum(profile.steps for profile in some) == sum(profile.steps for profile in together)
        assert len(together) == len({(profile.agent_id, profile.task_type) for profile in some})


class TestFiles:
    @given(PROFILES)
    def test_what_is_exported_can_be_imported(self, some):
        """
        An export read back is what was exported.
        """
        assert profiles.merge_profiles(some) == profiles.import_profiles(profiles.export_profiles(some))

    def test_cost_and_time_may_be_missing(self):
        """
        A profile somebody wrote by hand needs neither cost nor time, and may have fields we do not know.
        """
        (profile,) = profiles.import_profiles(document(note="by hand"))

        assert TaskProfile(agent_id="me", task_type="refactor", tasks=2, steps=30, tokens=5000) == profile

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("", "not JSON"),
            ("{", "not JSON"),
            (b"\xff\xfe", "not JSON"),
            ("[" * 100_000, "not JSON"),
            ("[]", 'there is no "steadyhelm_task_profiles" at the top'),
            ("{}", 'there is no "steadyhelm_task_profiles" at the top'),
            ('{"steadyhelm_task_profiles": 2}', "have format 2, and only 1 can be read"),
            ('{"steadyhelm_task_profiles": 1}', '"profiles" must be a list, got NoneType'),
            ('{"steadyhelm_task_profiles": 1, "profiles": [7]}', "Task profile 1 must be an object, got int"),
            (document(task_type=...), "Task profile 1: task_type is missing."),
            (document(agent_id=None), "agent_id must be text of at most 200 characters"),
            (document(task_type="x" * 201), "task_type must be text of at most 200 characters"),
            (document(tasks=0), "tasks must be a whole number of 1 or more, got 0."),
            (document(steps=-4), "steps must be a whole number of 0 or more, got -4."),
            (document(steps=2.5), "steps must be a whole number of 0 or more, got 2.5."),
            (document(tokens=True), "tokens must be a whole number of 0 or more, got True."),
            (document(tokens=10**300), "tokens must be a whole number of 0 or more"),
            (document(cost_usd=-1), "cost_usd must be a number of 0 or more, got -1."),
            (document(wall_s="long"), "wall_s must be a number of 0 or more, got 'long'."),
        ],
    )
    def test_a_fault_is_named(self, text, fault):
        """
        What cannot be read says what is wrong, in which profile, and with which value.
        """
        with pytest.raises(FormatError) as caught:
            profiles.import_profiles(text)

        assert fault in str(caught.value)

    def test_a_number_of_any_length_is_named(self):
        """
        A number too long to be written out does not break the message.
        """
        text = document(steps=1).replace('"steps": 1', '"steps": ' + "9" * 5000)

        with pytest.raises(FormatError):
            profiles.import_profiles(text)
