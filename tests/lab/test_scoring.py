import pytest
from labelled_runs import run_of

from steadyhelm.findings import Severity
from steadyhelm.lab.evaluation.labelled_runs import Expectation, LabelQuestion
from steadyhelm.lab.evaluation.metrics import Counts
from steadyhelm.lab.evaluation.scoring import RunScore, describe_expectation, select_findings
from steadyhelm.replay import FindingReport


def finding(at, *, evidence=(), severity=Severity.MED, kind="loop"):
    return FindingReport(
        at=at,
        detector="d",
        kind=kind,
        severity=severity,
        score=0.5,
        message="",
        evidence=[*evidence, at],
    )


def score(expected, *places, picture="abcdef"):
    return RunScore(run=run_of(picture), expected=expected, found=[finding(at) for at in places])


class TestCounted:
    def test_kind_and_severity(self):
        """
        Only findings of the kind, of the severity or above, answer a question.
        """
        run = run_of("abc")
        found = [finding(0, severity=Severity.LOW), finding(1), finding(2, kind="goal")]
        assert [1] == [one.at for one in select_findings(run, found, LabelQuestion())]

    def test_adjacent(self):
        """
        Where pairs were judged, a finding counts when its evidence holds the call just before it.
        """
        run = run_of("ab.c")
        found = [finding(3, evidence=[1]), finding(3, evidence=[0]), finding(0)]
        assert [[1, 3]] == [one.evidence for one in select_findings(run, found, LabelQuestion(adjacent=True))]


class TestRunScore:
    @pytest.mark.parametrize(
        ("expected", "places", "counts"),
        [
            (True, [3], Counts(tp=1)),
            (True, [], Counts(fn=1)),
            (False, [3], Counts(fp=1)),
            (False, [], Counts(tn=1)),
            (None, [3], Counts()),
        ],
    )
    def test_run_level(self, expected, places, counts):
        """
        A run is right or wrong as a whole, and nothing when not labelled.
        """
        assert counts == score(Expectation(run=expected), *places).counts

    def test_step_level(self):
        """
        Of five calls with one before them, one is found, one missed, one flagged wrongly, two left alone.
        """
        steps = Expectation(run=True, steps=frozenset({1, 2}))
        assert Counts(1, 1, 1, 2) == score(steps, 2, 4).step_counts

    @pytest.mark.parametrize(("places", "answer"), [([4, 2], True), ([3], False), ([], False)])
    def test_in_time(self, places, answer):
        """
        The first finding has to come no later than it is due.
        """
        assert answer is score(Expectation(run=True, at_most=2), *places).in_time

    def test_no_time_is_named(self):
        """
        Without such a place nothing is late.
        """
        assert score(Expectation(run=True), 3).in_time is None

    @pytest.mark.parametrize(("places", "delay"), [([5], 2), ([1, 5], -2), ([], None)])
    def test_delay(self, places, delay):
        """
        Delay runs from the first labelled entry to the first finding, and is negative when we are earlier.
        """
        assert delay == score(Expectation(run=True, first=3), *places).delay


class TestInWords:
    @pytest.mark.parametrize(
        ("expected", "words"),
        [
            (Expectation(run=None), "not labelled"),
            (Expectation(run=False, steps=frozenset()), "clean"),
            (Expectation(run=True, steps=frozenset({4, 2})), "at 2, 4"),
            (Expectation(run=True, at_most=3), "no later than 3"),
            (Expectation(run=True, first=3), "first at 3"),
            (Expectation(run=True), "somewhere"),
        ],
    )
    def test_words(self, expected, words):
        """
        What people say about a run can be said in a few words.
        """
        assert words == describe_expectation(expected)
