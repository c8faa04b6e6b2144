import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.decisions import DriftAction
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.policy.guidance import Wordings, write_guidance


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


def said(*args, **kwargs):
    return write_guidance(*args, **kwargs).text


class TestGuidance:
    def test_nothing_to_say(self):
        """
        An agent that may go on is told nothing.
        """
        assert ("", "") == write_guidance(DriftAction.CONTINUE, [finding(severity=Severity.LOW)], "a goal")

    def test_a_blocked_call_is_named_as_such_first(self):
        """
        The text of a blocked call says that it was not run, then why, then what to do.
        """
        lines = said(DriftAction.SUMMARIZE_REPLAN, [finding()], "book a flight", is_blocked=True).splitlines()

        assert "This call was not run." == lines[0]
        assert lines[1].startswith("- ")
        assert lines[2].startswith("Stop here.")
        assert "Your goal: book a flight" == lines[3]

    def test_the_evidence_and_the_goal(self):
        """
        The words name what repeats, what to do instead, and the goal.
        """
        assert (
            "Before you go on:\n- read_file called 4 times. Try something else.\nYour goal: find the bug"
        ) == said(DriftAction.INJECT_REMINDER, [finding()], "find the bug")

    def test_without_a_goal_none_is_named(self):
        """
        Without a goal the words end with the evidence.
        """
        assert "goal" not in said(DriftAction.INJECT_REMINDER, [finding()], "")

    def test_what_is_only_noticed_is_not_said(self):
        """
        A LOW finding beside a worse one is not mentioned.
        """
        words = said(DriftAction.INJECT_REMINDER, [finding("loud"), finding("quiet", Severity.LOW)], "goal")

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
            other: said(other, [finding()], "").splitlines()[0]
            for other in DriftAction
            if other is not DriftAction.CONTINUE
        }

        assert 1 == list(openings.values()).count(openings[action])

    @given(st.text(), st.text())
    def test_hostile_words_stay_on_their_line(self, message, goal):
        """
        A tool's name or a goal with line breaks in it cannot write lines of its own.
        """
        lines = said(DriftAction.INJECT_REMINDER, [finding(message)], goal).splitlines()

        assert len(lines) <= 3

    def test_long_words_are_cut(self):
        """
        A message and a goal of a thousand characters are cut.
        """
        _, evidence, goal = said(DriftAction.INJECT_REMINDER, [finding("ä" * 1000)], "ö" * 1000).splitlines()

        assert (300, 300) == (evidence.count("ä"), goal.count("ö"))

    def test_what_was_tried_is_named(self):
        """
        Earlier ways that led nowhere are named, each on the same line.
        """
        words = said(DriftAction.SUMMARIZE_REPLAN, [finding()], "", tried=["reading a.py\nagain", "guessing"])

        assert "Already tried, do not repeat: reading a.py again; guessing" == words.splitlines()[-1]


class TestWordings:
    def test_a_wording_is_named_for_its_rung_and_its_drift(self):
        """
        Words are counted under the level they belong to and the kind of drift they speak of.
        """
        assert ["remind.loop", "replan.loop", "rollback.loop", "ask.loop"] == [
            write_guidance(action, [finding()], "").wording for action in list(DriftAction)[1:]
        ]

    def test_your_own_words_have_a_name_of_their_own(self):
        """
        Another opening sentence is said as it is given and counted apart; the other levels keep theirs.
        """
        own = Wordings(remind="Hold on.")
        words = write_guidance(DriftAction.INJECT_REMINDER, [finding()], "", wordings=own)

        assert "Hold on." == words.text.splitlines()[0]
        assert words.wording.startswith("remind.loop@")
        assert (
            "replan.loop"
            == write_guidance(DriftAction.SUMMARIZE_REPLAN, [finding()], "", wordings=own).wording
        )
