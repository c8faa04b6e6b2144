import pytest

from steadyhelm.baselines import BaselineStats
from steadyhelm.detectors.reply_style import ReplyStyle
from steadyhelm.errors import NotFoundError
from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.testing import DETECTOR_CHECKS
from steadyhelm.testing.traces import AGENT, RUN, fired_at, replies, said_at

PLAIN = "The parser dropped the last line of each file; that is fixed, and all 40 tests pass."
PADDED = (
    "Great question! I'd be happy to help. Basically, let me explain. Perhaps, in a sense, it is worth "
    "noting that, I think, essentially, it seems amazing."
)


def findings(*texts, **settings):
    detector = ReplyStyle(**settings)
    detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
    return [it for event in replies(*texts) if (it := detector.check(event, BaselineStats(agent_id=AGENT)))]


def coding_findings(*texts, **settings):
    """The findings in replies that follow a command, and the detector."""
    detector = ReplyStyle(**settings)
    command = TraceEvent(
        agent_id=AGENT,
        run_id=RUN,
        action_type="tool_call",
        action_name="shell",
        input_data={"command": "make test"},
    )
    checked = [detector.check(event, BaselineStats(agent_id=AGENT)) for event in (command, *replies(*texts))]
    return [it for it in checked if it], detector


class TestReplyStyle:
    @pytest.mark.parametrize("check", DETECTOR_CHECKS, ids=lambda check: check.__name__)
    def test_contract(self, check):
        """
        It holds to the contract of a detector.
        """
        check(ReplyStyle)

    def test_plain_replies(self):
        """
        Plain replies are left in peace.
        """
        assert [] == said_at(ReplyStyle(), *[PLAIN] * 10)

    def test_one_padded_reply(self):
        """
        One padded reply is noticed and not reported.
        """
        (finding,) = findings(PLAIN, PADDED, PLAIN, PLAIN)

        assert ("style", "LOW") == (finding.kind, finding.severity.value)

    def test_a_run_of_them(self):
        """
        From the third in a row on it is reported, with the offenders and a nudge.
        """
        found = findings(PLAIN, *[PADDED] * 3)

        assert ["LOW", "LOW", "MED"] == [it.severity.value for it in found]
        assert "style degenerative: 3 replies in a row at 60 or above" == found[-1].message
        assert found[-1].suggested_action.startswith("A note on style: recent replies lean on filler (")
        assert "degenerative" == found[-1].context["shape"]
        assert ["run.0", "run.1", "run.2", "run.3"] == found[-1].event_ids

    def test_far_above_the_threshold(self):
        """
        Where it goes on and the average of the scores is far above the threshold it is HIGH, never more.
        """
        severities = [it.severity.value for it in findings(*[PADDED] * 6)]

        assert ["LOW", "LOW", *["HIGH"] * 4] == severities

    def test_in_a_coding_session(self):
        """
        In a coding session it is shown as LOW and not part of the drift score.
        """
        found, detector = coding_findings(PLAIN, *[PADDED] * 3)

        assert ["LOW", "LOW", "LOW"] == [it.severity.value for it in found]
        assert "degenerative" == found[-1].context["shape"]
        assert found[-1].context["lowered_because"].startswith("in coding sessions style is shown")
        assert detector.level is None

    def test_in_a_coding_session_with_a_profile(self):
        """
        Who chooses a profile has it reported in a coding session too.
        """
        found, detector = coding_findings(PLAIN, *[PADDED] * 3, profile="standard")

        assert ["LOW", "LOW", "MED"] == [it.severity.value for it in found]
        assert detector.level > 0

    def test_points_are_evidence(self):
        """
        A finding's points sum to the reply's score.
        """
        context = findings(PADDED)[0].context

        assert context["style_score"] == pytest.approx(sum(context["points"].values()))

    def test_short_lines_show_no_manner(self):
        """
        What an agent says between two calls is too short to judge.
        """
        assert [] == said_at(ReplyStyle(), *["Great question! Let me explain."] * 10)

    def test_hard_rules(self):
        """
        A hard rule that is broken is reported at once.
        """
        (finding,) = findings("Done.", profile="machine")

        assert "MED" == finding.severity.value
        assert "a rule of profile machine is broken: valid_json: not JSON" in finding.message

    def test_nothing_about_notes(self):
        """
        Between two notes the advice is still one an agent can follow.
        """
        advice = [it.suggested_action for it in findings(*[PADDED] * 6) if it.severity.value != "LOW"]

        assert ["A note on style", "Give the answer first", "Style", "Give the answer first"] == [
            it.split(":")[0].split(",")[0] for it in advice
        ]

    def test_getting_better(self):
        """
        While replies get better, high as they are, nothing is reported.
        """
        found = findings(*(" ".join([PADDED, *[PLAIN] * times]) for times in (0, 0, 0, 3, 4, 5)))

        assert {"degenerative"} == {it.context["shape"] for it in found[2:]}
        assert [False, False, True, False, False, False] == [it.severity.value != "LOW" for it in found]

    @pytest.mark.parametrize("reply", ['{"done": true}', "[]"])
    def test_data_is_checked(self, reply):
        """
        Data has no manner: when the rules were checked, everything was.
        """
        detector = ReplyStyle(profile="machine")
        said_at(detector, reply)

        assert detector.not_checked is None

    def test_only_rules_are_checked(self):
        """
        It says when only the rules of short replies were checked, until a longer one comes.
        """
        detector = ReplyStyle(profile="machine")
        said_at(detector, "Done.")

        assert "only the rules were checked" in detector.not_checked

        said_at(detector, f'["{PLAIN}"] {PLAIN}', "Done.")

        assert detector.not_checked is None

    def test_short_lines_without_rules(self):
        """
        Without rules nothing was checked as long as replies are short.
        """
        detector = ReplyStyle()
        said_at(detector, "Done.")

        assert "no reply long enough to judge seen yet" == detector.not_checked

    def test_taken_up_again(self):
        """
        What was judged before a restart counts as judged after it.
        """
        before, after = ReplyStyle(), ReplyStyle()
        said_at(before, PLAIN)
        after.restore(before.state())

        assert after.not_checked is None

    def test_calls_are_not_words(self):
        """
        Calls are others' business.
        """
        assert [] == fired_at(ReplyStyle(), "aaaa....xx  aa")

    def test_another_language(self):
        """
        It says when it could only look at the structure.
        """
        detector = ReplyStyle()
        said_at(detector, "Das ist nicht der Fehler, den wir gesucht haben, aber er ist auch nicht schön.")

        assert "judged by structure only" in detector.not_checked

    def test_unknown_profile(self):
        """
        A profile that does not exist is refused at the start.
        """
        with pytest.raises(NotFoundError, match="no profile 'pirate'"):
            ReplyStyle(profile="pirate")
