import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.goals.tracker import apply_change, classify_message
from steadyhelm.goals.vocabulary import GoalDNA

GOAL = "Build a REST API for user management with PostgreSQL"
OTHER_TASK = "Translate the Norwegian brochure on glaciers into Finnish"


def kind(message, **options):
    return classify_message(GoalDNA(GOAL), message, **options).kind


class TestKinds:
    @pytest.mark.parametrize(
        "message",
        [
            "yes",
            "go on",
            "ok, continue",
            "Thanks!",
            "sounds good, do it",
            "please proceed",
            "commit it",
            "",
            "2",
        ],
    )
    def test_going_on_is_the_same_task(self, message):
        """
        A go-on, thanks or a bare word of work changes nothing.
        """
        assert "same" == kind(message)

    @pytest.mark.parametrize(
        "message",
        [
            "the API must support OAuth tokens",
            "use UUIDs as primary keys for users",
            "no, use MySQL",
            "don't log passwords",
            "it should also be deployed on Kubernetes with autoscaling enabled",
            "why does Alembic complain about missing revisions and heads?",
            "ok, and document everything in Markdown with diagrams",
        ],
    )
    def test_a_detail_more_refines(self, message):
        """
        A constraint, a wish, a question or something taken back belongs to the task.
        """
        assert "refines" == kind(message)

    @pytest.mark.parametrize(
        "message",
        [
            OTHER_TASK,
            "Plot quarterly revenue against marketing spend for Scandinavia",
            "New task: rewrite the onboarding guide for volunteers",
        ],
    )
    def test_another_task_is_a_new_goal(self, message):
        """
        A full message that shares nothing with the task, or announces another, sets a new goal.
        """
        assert "new_goal" == kind(message)

    @pytest.mark.parametrize(
        "message",
        [
            "Actually, stop. I need you to fix the login bug instead",
            "Forget that. Can you translate the brochure into Finnish?",
            "stop, look at the flaky billing tests",
            "Never mind, let's plan the offsite in Lisbon",
            "Wait, stop. Write a blog post about sourdough starters",
        ],
    )
    def test_who_breaks_off_and_names_other_work_sets_a_new_goal(self, message):
        """
        A user who stops the agent and names other work in one breath has set another task.
        """
        assert "new_goal" == kind(message)

    @pytest.mark.parametrize(
        "message",
        [
            "Stop. I need you to use MySQL instead",
            "stop, fix the users endpoint",
            "Actually, use UUIDs instead",
            "Wait, stop. Let's do it with sequences",
            "stop what you are doing",
        ],
    )
    def test_who_breaks_off_to_correct_sets_none(self, message):
        """
        Who stops the agent over how it does the task, or to do more of it, stays with the task.
        """
        assert kind(message) in {"refines", "same"}

    def test_an_answer_is_no_new_task(self):
        """
        What answers the agent's question belongs to the task, whatever its words.
        """
        assert "same" == kind("Yusuf Rossi, Elm Avenue, Philadelphia, Pennsylvania", answering=True)

    def test_a_word_pointing_back_is_no_new_task(self):
        """
        Who says "it" speaks of what was there before.
        """
        assert "refines" == kind("deploy it to the Frankfurt cluster behind nginx tonight")

    def test_nothing_is_new_while_little_is_known(self):
        """
        Against a goal that says nothing no other task can be told apart.
        """
        assert "refines" == classify_message(GoalDNA("hello there"), OTHER_TASK).kind

    def test_the_goal_again_is_the_same(self):
        """
        A user who repeats the goal has set no other.
        """
        assert "same" == kind(GOAL)


class TestEvidence:
    def test_it_says_why_and_by_which_words(self):
        """
        The reason and the known and new words are given.
        """
        change = classify_message(GoalDNA(GOAL), "users need avatars")

        assert "it uses words of the task" == change.reason
        assert (("user",), ("avatar",)) == (change.known, change.new)

    @pytest.mark.parametrize(
        ("message", "accepts"), [("yes, go on", True), ("no, stop", False), ("that fails", False)]
    )
    def test_only_a_go_on_accepts(self, message, accepts):
        """
        What the agent said last becomes part of the task when the user lets it go on, not when not.
        """
        assert accepts == classify_message(GoalDNA(GOAL), message).accepts


class TestFollowed:
    def test_a_detail_is_taken_in(self):
        """
        After a refinement work on the detail is on course.
        """
        dna = GoalDNA(GOAL)
        step = "Generating Kubernetes manifests with autoscaling"
        before = dna.calculate_drift(step)
        message = "it should be deployed on Kubernetes with autoscaling manifests"
        after = apply_change(dna, message, classify_message(dna, message))

        assert after.calculate_drift(step) < 0.2 < before

    def test_a_new_task_is_never_judged_against_the_old_goal(self):
        """
        After another task was set, work on it is on course and work on the old one is not.
        """
        dna = GoalDNA(GOAL)
        after = apply_change(dna, OTHER_TASK, classify_message(dna, OTHER_TASK))

        assert OTHER_TASK == after.goal
        assert after.calculate_drift("The brochure on glaciers in Finnish, first chapter") < 0.2
        assert after.calculate_drift("PostgreSQL users, REST API and management") > 0.3

    @given(st.text(), st.text(), st.booleans())
    def test_any_message_is_followed(self, goal, message, answering):
        """
        Whatever a user says, the task goes on with it; the same words are never two things.
        """
        dna = GoalDNA(goal)
        change = classify_message(dna, message, answering=answering)

        assert change == classify_message(dna, message, answering=answering)
        assert change.kind in {"same", "refines", "new_goal"}
        assert isinstance(apply_change(dna, message, change), GoalDNA)
