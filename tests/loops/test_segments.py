import pytest
from agent_steps import call, edit, failing, restored_copy, run, says, shell, user, write
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.events import ANSWERS_QUESTION, TOOL_CALL
from steadyhelm.loops.loop_detector import SegmentTracker
from steadyhelm.loops.steps import read_step


def observe(tracker, event):
    if event.action_type == TOOL_CALL:
        step = read_step(event)
        return "work" if step.is_work_done and tracker.record_work(step) else ""
    return "message" if tracker.record_message(event) else ""


def openings(*steps):
    tracker = SegmentTracker()
    return [observe(tracker, event) for event in run(*steps)]


class TestWork:
    def test_new_work_opens(self):
        """
        An edit, a written file and a commit are new work.
        """
        assert ["work"] * 3 == openings(edit("a", "x", "y"), write("b", "z"), shell("git commit -m c", "ok"))

    def test_looking_does_not(self):
        """
        Reading and testing open nothing.
        """
        assert ["", ""] == openings(call("Read", {"file_path": "a"}, "x"), shell("pytest", "3 passed"))

    def test_the_same_work_again_does_not(self):
        """
        The same edit made again is nothing new, whatever was done in between.
        """
        assert ["work", "work", ""] == openings(write("a", "x"), write("a", "y"), write("a", "x"))

    def test_failed_work_does_not(self):
        """
        An edit that failed has changed nothing.
        """
        assert [""] == openings(failing("Edit", {"file_path": "a"}, "no match"))

    def test_work_without_a_result_does_not(self):
        """
        Of an edit whose result is not known nobody can say that it was done.
        """
        assert [""] == openings(call("Edit", {"file_path": "a"}))


class TestWords:
    def test_a_users_new_words_open(self):
        """
        What a user says is a new beginning.
        """
        assert ["message", "message"] == openings(user("fix it"), user("now test it"))

    def test_the_same_words_again_do_not(self):
        """
        A harness that sends the same text again is no user.
        """
        assert ["message", "", "", ""] == openings(
            user("look there"), user("look there"), shell("ls", "a"), user("look there")
        )

    @pytest.mark.parametrize(
        "text",
        ["continue", "go on", "Please continue.", "ok, carry on with the task", "keep going!", "weiter"],
    )
    def test_continue_does_not(self, text):
        """
        Telling the agent to go on, in whatever words, asks for nothing new.
        """
        assert [""] == openings(user(text))

    @pytest.mark.parametrize("text", ["Go on.", "yes", "sure"])
    def test_continue_as_an_answer_does(self, text):
        """
        A user who was asked about the repetition, and allows it, starts a new segment.
        """
        answer = user(text) | {"metadata": {ANSWERS_QUESTION: True}}

        assert ["message", "", "message"] == openings(user("find it"), shell("ls", "a"), answer)

    @pytest.mark.parametrize("text", ["continue with the login page", "go on with part 2", "no, stop that"])
    def test_what_names_something_does(self, text):
        """
        A message that names something is a new one.
        """
        assert ["message"] == openings(user(text))

    def test_the_models_words_do_not(self):
        """
        What the model says opens nothing.
        """
        assert [""] == openings(says("I shall look into it."))


class TestMemory:
    def test_bounded(self):
        """
        Of very many edits the latest are remembered.
        """
        tracker = SegmentTracker()
        for event in run(*[write(f"{n}.txt", "x") for n in range(500)]):
            observe(tracker, event)

        assert 64 == len(tracker.work_calls)

    @given(
        st.lists(st.sampled_from([user("a"), user("b"), write("f", "x"), write("f", "y"), shell("ls", "f")]))
    )
    def test_put_aside_anywhere(self, steps):
        """
        Put aside and taken up again after every event, it says the same.
        """
        tracker, seen = SegmentTracker(), []
        for event in run(*steps):
            tracker = restored_copy(tracker)
            seen.append(observe(tracker, event))

        assert openings(*steps) == seen
