import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.decisions import DriftAction
from holdfast.findings import DriftEvent, Severity
from holdfast.policy.guidance import guidance


def finding(message="read_file called 4 times", severity=Severity.MED):
    return DriftEvent(
        agent_id="a",
        run_id="r",
        detector="action_loop",
        kind="loop",
        severity=severity,
        score=0.5,
        message=message,
        suggested_action="Try something else.",
        timestamp=0.0,
        event_id="e",
    )


class TestGuidance:
    def test_nothing_to_say(self):
        """
        An agent that may go on is told nothing.
        """
        assert "" == guidance(DriftAction.CONTINUE, [finding(severity=Severity.LOW)], "a goal")

    def test_the_evidence_and_the_goal(self):
        """
        The words name what repeats, what to do instead, and the goal.
        """
        assert (
            "Before you go on:\n- read_file called 4 times. Try something else.\nYour goal: find the bug"
        ) == guidance(DriftAction.INJECT_REMINDER, [finding()], "find the bug")

    def test_without_a_goal_none_is_named(self):
        """
        Without a goal the words end with the evidence.
        """
        assert "goal" not in guidance(DriftAction.INJECT_REMINDER, [finding()], "")

    def test_what_is_only_noticed_is_not_said(self):
        """
        A LOW finding beside a worse one is not mentioned.
        """
        words = guidance(
            DriftAction.INJECT_REMINDER, [finding("loud"), finding("quiet", Severity.LOW)], "goal"
        )

        assert "loud" in words
        assert "quiet" not in words

    @pytest.mark.parametrize(
        "action", [action for action in DriftAction if action is not DriftAction.CONTINUE]
    )
    def test_every_rung_has_words_of_its_own(self, action):
        """
        Every action above CONTINUE opens with its own words.
        """
        openings = {
            other: guidance(other, [finding()], "").splitlines()[0]
            for other in DriftAction
            if other is not DriftAction.CONTINUE
        }

        assert 1 == list(openings.values()).count(openings[action])

    @given(st.text(), st.text())
    def test_hostile_words_stay_on_their_line(self, message, goal):
        """
        A tool's name or a goal with line breaks in it cannot write lines of its own.
        """
        lines = guidance(DriftAction.INJECT_REMINDER, [finding(message)], goal).splitlines()

        assert len(lines) <= 3

    def test_long_words_are_cut(self):
        """
        A message and a goal of a thousand characters are cut.
        """
        _, evidence, goal = guidance(
            DriftAction.INJECT_REMINDER, [finding("ä" * 1000)], "ö" * 1000
        ).splitlines()

        assert (300, 300) == (evidence.count("ä"), goal.count("ö"))
