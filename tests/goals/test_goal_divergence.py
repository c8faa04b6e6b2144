import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.goals.vocabulary import GoalDNA, find_divergence, find_targets

LOGIN = "Fix the login bug in auth.py"


def kind(goal, step, **grown):
    """How a step diverges from a goal whose vocabulary has grown by these texts."""
    dna = GoalDNA(goal)
    for source, text in grown.items():
        dna.grow(text, source)
    found = find_divergence(dna, step)
    return found and found.kind


class TestTopicChange:
    @pytest.mark.parametrize(
        ("goal", "step"),
        [
            (LOGIN, "Researching quantum computing papers"),
            ("find the cheapest flight to Oslo", "Here is a poem on winter and snow"),
            ("Refund the customer", "Watering the plants in my garden"),
        ],
    )
    def test_nothing_of_the_goal_is_left(self, goal, step):
        """
        A step without a word of the task, and with words of its own, is another topic.
        """
        assert "topic_change" == kind(goal, step)

    def test_what_the_user_asked_for_is_no_other_topic(self):
        """
        What a user asked for later belongs to the task.
        """
        assert (
            kind(LOGIN, "Researching quantum computing papers", user="read papers on quantum physics") is None
        )

    def test_work_on_touched_files_is_no_other_topic(self):
        """
        A step about the files at hand is about the task, though nobody named them.
        """
        assert kind(LOGIN, "The session cookie is parsed", file="src/session/cookie_parser.py") is None


class TestScopeCreep:
    def test_much_nobody_asked_for(self):
        """
        The goal's things and much more than was asked: the scope creeps.
        """
        step = "Login fixed; also adding a dashboard, avatars, badges and weekly newsletters"

        assert "scope_creep" == kind(LOGIN, step)

    def test_a_detail_more_is_no_creep(self):
        """
        A step always names a few new things.
        """
        assert kind(LOGIN, "The login bug comes from the session cookie") is None

    def test_the_plan_may_ask_for_more(self):
        """
        What the plan names was agreed on.
        """
        step = "Login fixed; also adding a dashboard, avatars, badges and weekly newsletters"

        assert kind(LOGIN, step, plan="dashboard, avatars and badges; newsletters") is None


class TestWrongTarget:
    @pytest.mark.parametrize(
        ("goal", "step"),
        [
            (LOGIN, "Fixing the login bug in payments.py"),
            ("Fix auth.py", "I will fix billing.py now"),
            ("Cancel order #W2378156", "I have cancelled order #W9999999"),
            ("find the cheapest flight to Oslo", "The cheapest flight to Rome costs 80 euros."),
            ("Rename the class InvoiceWriter", "I renamed the class LedgerReader"),
        ],
    )
    def test_the_right_work_on_another_thing(self, goal, step):
        """
        The same kind of work on a file, an id or a name nobody gave is a wrong target.
        """
        assert "wrong_target" == kind(goal, step)

    @pytest.mark.parametrize(
        ("goal", "step"),
        [
            ("Cancel order #W2378156", "I have cancelled order #W2378156 as you asked"),
            ("find the cheapest flight to Oslo", "The cheapest flight to Oslo leaves from Rome"),
            (LOGIN, "The login bug in auth.py is called from payments.py"),
            ("Fix the login bug", "Fixing the login bug in payments.py"),
        ],
    )
    def test_naming_what_was_asked_is_enough(self, goal, step):
        """
        A step may name other things beside the one asked for, and any thing when none was asked for.
        """
        assert kind(goal, step) is None

    def test_a_thing_the_user_named_later_is_right(self):
        """
        The user may point at another file after the goal was set.
        """
        assert (
            kind(LOGIN, "Fixing the login bug in payments.py", user="it may sit in payments.py too") is None
        )


class TestEvidence:
    def test_the_words_that_show_it(self):
        """
        Foreign words, missing words and shared words are given as they were written.
        """
        found = find_divergence(
            GoalDNA("Fix the login bug of the mobile shop"),
            "Login fixed; also adding dashboards, avatars, badges and newsletters",
        )

        assert ("dashboards", "newsletters", "avatars", "badges") == found.foreign
        assert (("mobile", "shop"), ("login",)) == (found.missing, found.shared)

    def test_in_plain_words(self):
        """
        A wrong target names the thing that was worked on instead.
        """
        found = find_divergence(GoalDNA(LOGIN), "Fixing the login bug in payments.py")

        assert "the right kind of work on another thing (payments.py)" == found.description

    def test_things_by_kind(self):
        """
        Files, ids and names are told apart; a word at a sentence's start is no name.
        """
        found = find_targets("Refund order #W91 to Mia as in refunds.py, see RefundPolicy. Then stop.")

        assert {"file": ["refunds.py"], "id": ["w91"], "name": ["Mia", "RefundPolicy"]} == found

    @pytest.mark.parametrize("step", ["", "ok", "Run pytest", "\ud800", "." * 1000])
    def test_too_little_is_no_divergence(self, step):
        """
        A step that says nothing does not diverge.
        """
        assert find_divergence(GoalDNA(LOGIN), step) is None

    @given(st.text(), st.text())
    def test_any_text_is_judged(self, goal, step):
        """
        Whatever the texts are, a divergence names something foreign.
        """
        found = find_divergence(GoalDNA(goal), step)

        assert found is None or found.foreign
