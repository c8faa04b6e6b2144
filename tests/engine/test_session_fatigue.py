import pytest
from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.decisions import DriftAction
from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.engine.session import Session
from steadyhelm.events import RunInfo
from steadyhelm.testing import events


@pytest.fixture
def session():
    return Session(
        RunInfo(agent_id="tested", run_id="run"),
        [ActionLoop()],
        BaselineStats(agent_id="tested"),
        mode="guide",
    )


def decisions(session, picture):
    return [session.observe(event).decision for event in events(picture)]


class TestFatigue:
    def test_the_same_advice_is_not_given_at_every_step(self, session):
        """
        Advice is given again only when it is stronger; what was noticed is recorded all the same.
        """
        given = decisions(session, "a" * 10)

        assert [3, 5, 6, 8] == [place + 1 for place, decision in enumerate(given) if decision.guidance]
        assert all(decision.findings for decision in given[2:])
        assert DriftAction.ASK_USER is given[-1].action

    def test_after_a_while_it_is_said_again(self, session):
        """
        A loop that goes on and on is spoken of again once the cooldown has passed.
        """
        given = decisions(session, "a" * 60)

        assert 4 < sum(bool(decision.guidance) for decision in given) < 12

    def test_what_goes_on_becomes_chronic(self, session):
        """
        When a pattern fires at step after step, the decision says that it has become hard.
        """
        given = decisions(session, "a" * 12)

        assert not given[2].hard
        assert given[-1].hard

    def test_fatigue_survives_being_put_aside(self, session):
        """
        A run put aside in the middle of a loop is not nagged about anew when it goes on.
        """
        trace = events("a" * 12)
        whole = [session.observe(event).decision for event in trace]
        first = Session(session.run, [ActionLoop()], session.baseline, mode="guide")
        for event in trace[:8]:
            first.observe(event)
        second = Session(session.run, [ActionLoop()], session.baseline, mode="guide")
        second.restore(first.state())

        assert whole[8:] == [second.observe(event).decision for event in trace[8:]]


class TestTrust:
    def test_findings_bring_a_tool_into_doubt(self, session):
        """
        A tool that findings keep pointing at stands in the run's summary, with the trust left in it.
        """
        decisions(session, "bcd" + "a" * 14)
        summary = session.end(at=0.0).summary

        assert [("tool", "a")] == [doubt[:2] for doubt in summary.doubts]
        assert summary.doubts[0][2] < 0.4

    def test_a_file_too(self, session):
        """
        So does a file that the calls name.
        """
        for event in events("a" * 14):
            session.observe(structs.replace(event, input_data={"path": "src/app.py"}))

        assert ("file", "src/app.py") in [doubt[:2] for doubt in session.end(at=0.0).summary.doubts]

    def test_clean_use_leaves_no_doubt(self, session):
        """
        A run without findings doubts nothing.
        """
        decisions(session, "abc.ABC." * 5)

        assert [] == session.end(at=0.0).summary.doubts
