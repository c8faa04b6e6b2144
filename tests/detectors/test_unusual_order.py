import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.calibration import calibrate
from steadyhelm.detectors.unusual_order import UnusualOrder
from steadyhelm.events import RunInfo, RunSummary
from steadyhelm.findings import Severity
from steadyhelm.testing.traces import AGENT, RUN, events, fired_at


def lived(picture, baseline, detector=None):
    """A run watched from beginning to end: its findings, and what it teaches."""
    detector = detector or UnusualOrder()
    detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
    found = [it for event in events(picture) if (it := detector.check(event, baseline))]
    return found, detector.teach(RunSummary(agent_id=AGENT, run_id=RUN, tool_calls=len(picture)))


def brought_up(runs=30, seed=7):
    """The baseline of an agent that reads (a), edits (b) and tests (c), now and then looking around (d)."""
    chance, baseline, recent = random.Random(seed), BaselineStats(agent_id=AGENT, required_runs=20), []
    for _ in range(runs):
        picture = "".join(chance.choice(["ABC", "ABC", "ABC", "ADBC"]) for _ in range(chance.randint(3, 6)))
        _, summary = lived(picture, baseline)
        recent.append(summary)
        baseline = calibrate(baseline, summary, recent)
    return baseline


@pytest.fixture(scope="module")
def usual():
    """What thirty runs have taught."""
    return brought_up()


def reported(picture, baseline):
    return [it for it in lived(picture, baseline)[0] if it.severity is not Severity.LOW]


class TestUnknownTool:
    def test_at_once(self, usual):
        """
        A tool the agent's runs never use is noticed when it is first used, and once.
        """
        found, _ = lived("ABCEE", usual)

        assert [("e was used, which this agent's runs never use", "LOW", ["run.3"])] == [
            (it.message, it.severity, it.event_ids) for it in found
        ]

    def test_known_tools(self, usual):
        """
        Tools it knows are not.
        """
        assert [] == lived("ABCADBC", usual)[0]


class TestUnusualOrder:
    def test_the_usual_order(self, usual):
        """
        A run like the others is left in peace.
        """
        assert [] == reported("ABCABCADBCABC", usual)

    def test_another_order(self, usual):
        """
        A run whose steps follow each other as they never do is reported, with what was most surprising.
        """
        finding = reported("CBACBACBACBA", usual)[-1]

        assert "transition" == finding.kind
        assert finding.message.startswith("actions in an unusual order, above all a after b: ")
        assert finding.context["mean_surprise"] > 1.5 * finding.context["usual"]
        assert finding.context["max_surprise"] >= finding.context["mean_surprise"]
        assert finding.event_ids

    def test_after_unusual_runs_a_reset_is_suggested(self, usual):
        """
        Where the runs before it were unusual too, the agent may have been changed, and a person is asked.
        """
        outdated = structs.replace(usual, unusual_runs=4)
        before, after = (reported("CBACBACBACBA", it)[-1] for it in (usual, outdated))

        assert "Compare with its usual order: a step may have been skipped." == before.suggested_action
        assert "`steadyhelm baseline reset`" in after.suggested_action
        assert (before.score, before.message) == (after.score, after.message)

    def test_an_order_that_stays_unusual_is_listed_where_it_gets_worse(self, usual):
        """
        It is listed when it is noticed, when it is reported, and when it is clearly worse; in between what is
        reported goes on, and what is only noticed is not repeated.
        """
        found, _ = lived("ABCABC" + "CBA" * 12, usual)
        listed = [it for it in found if not it.is_ongoing]

        assert 1 < len(listed) < len(found)
        assert all(later.score > before.score for before, later in pairwise(listed))
        assert Severity.LOW not in {it.severity for it in found if it.is_ongoing}
        assert any(it.severity is Severity.MED for it in listed)

    def test_a_short_run_in_another_order(self):
        """
        Where an agent's runs differ much from each other, a short one with steps swapped is still rarer.
        """
        chance, baseline, recent = random.Random(3), BaselineStats(agent_id=AGENT, required_runs=20), []
        for _ in range(60):
            picture = "A" + "".join(chance.choice(["BC", "DE", "BDE", "DBC"]) for _ in range(4)) + "F"
            _, summary = lived(picture, baseline)
            recent.append(summary)
            baseline = calibrate(baseline, summary, recent)

        assert [] == reported("ABCDEBDEBCF", baseline)
        assert reported("ABCDEEDBBCF", baseline)

    def test_not_from_one_step(self, usual):
        """
        A few steps in another order say nothing yet.
        """
        assert [] == reported("CBACB", usual)

    def test_a_loop_of_likely_steps_is_none(self, usual):
        """
        The usual steps over and over surprise nobody: that is what the loop detectors are for.
        """
        assert [] == reported("ABC" * 20, usual)

    def test_what_is_said_does_not_count(self, usual):
        """
        Replies and users' turns between the calls change nothing.
        """
        assert [] == reported("Ar BrC ArBrCr", usual)


class TestLearning:
    def test_until_enough_runs_are_known(self):
        """
        Before twenty runs are known it finds nothing, and says how far it is.
        """
        detector = UnusualOrder()

        assert [] == fired_at(detector, "ECBAECBAECBA", brought_up(runs=10))
        assert "learning the order of actions, 9/20 runs" == detector.not_checked

    def test_afterwards_it_looks(self, usual):
        """
        Then it looks.
        """
        detector = UnusualOrder()
        fired_at(detector, "ABC", usual)

        assert detector.not_checked is None

    def test_what_a_run_teaches(self, usual):
        """
        A run teaches its actions in order, and how surprising it was.
        """
        _, summary = lived("ABCABC", usual)

        assert list("abcabc") == summary.actions
        assert 0 < summary.surprise < 1

    def test_a_short_run_teaches_no_surprise(self, usual):
        """
        A run of a few steps is no measure for others.
        """
        assert lived("ABC", usual)[1].surprise is None

    def test_a_long_run_teaches_its_beginning(self, usual):
        """
        Of a very long run the first actions are taught.
        """
        assert 400 == len(lived("ABC" * 300, usual)[1].actions)

    def test_a_baseline_without_an_order(self):
        """
        A baseline from before there was an order to learn is survived.
        """
        assert [] == fired_at(UnusualOrder(), "ABCABCABC", BaselineStats(agent_id=AGENT, is_calibrated=True))


class TestState:
    @given(st.text(alphabet="ABCDE ", max_size=40), st.integers(0, 40))
    def test_put_aside_anywhere_it_goes_on_alike(self, picture, cut):
        """
        Put aside after any event and taken up by another detector, it finds and teaches the same.
        """
        first, second, trace = UnusualOrder(), UnusualOrder(), events(picture)
        whole, taught = lived(picture, TAUGHT)
        before = [it for event in trace[:cut] if (it := first.check(event, TAUGHT))]
        second.restore(first.state())
        after = [it for event in trace[cut:] if (it := second.check(event, TAUGHT))]

        assert whole == before + after
        assert taught == second.teach(RunSummary(agent_id=AGENT, run_id=RUN, tool_calls=len(picture)))


TAUGHT = brought_up()
