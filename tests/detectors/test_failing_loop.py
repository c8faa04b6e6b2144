import msgspec
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.baselines import BaselineStats
from steadyhelm.detectors.failing_loop import FailingLoop
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.testing.traces import AGENT, RUN, events, fired_at


def findings(trace, detector=None):
    detector = detector or FailingLoop()
    detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
    return [it for event in trace if (it := detector.check(event, BaselineStats(agent_id=AGENT)))]


def failing(picture, *errors):
    """The calls of a picture, each failing with its error."""
    trace = events(picture)
    return [
        msgspec.structs.replace(event, output_data=None, error=error)
        for event, error in zip(trace, errors, strict=True)
    ]


class TestFailingLoop:
    def test_the_same_failure_again_and_again(self):
        """
        A tool that fails with the same words a third time in a row is a loop.
        """
        assert [4] == fired_at(FailingLoop(), "..xxxx")

    def test_success_is_fine(self):
        """
        Steps that succeed are none of its business, however alike they are.
        """
        assert [] == fired_at(FailingLoop(), "aaaaaaaa........")

    def test_work_between(self):
        """
        New work between two failures begins anew.
        """
        assert [] == fired_at(FailingLoop(), "xx.xx.xx.xx")

    def test_a_users_words_do_not_hide_it(self):
        """
        The same call failing again after the user spoke is still the same call failing.
        """
        trace = [
            msgspec.structs.replace(event, error="no such file", output_data=None)
            if event.action_type == "tool_call"
            else event
            for event in events("a a a a")
        ]

        assert 4 in [
            int(it.event_ids[-1].removeprefix("run."))
            for it in findings(trace)
            if it.severity is not Severity.LOW
        ]

    def test_it_is_explained(self):
        """
        The finding says what failed, how often, how it was seen, and which events prove it.
        """
        *_, finding = findings(failing("aaa", "no route", "bad name", "refused by peer"))

        assert "a failed 3 times with the same arguments" == finding.message
        assert ("loop", Severity.MED, 0.5) == (finding.kind, finding.severity, finding.score)
        assert {
            "pattern": "failing call",
            "subject": "a",
            "repeat_count": 3,
            "event_ids": ["run.0", "run.1", "run.2"],
        } == finding.context
        assert finding.suggested_action

    @given(st.text(alphabet="aAx. ", max_size=40), st.integers(0, 40))
    def test_put_aside_anywhere_it_goes_on_alike(self, picture, cut):
        """
        Put aside after any event and taken up by another detector, it finds the same.
        """
        first, second, trace = FailingLoop(), FailingLoop(), events(picture)
        before = findings(trace[:cut], first)
        second.restore(first.state())

        assert findings(trace) == before + findings(trace[cut:], second)
