import pytest
from labelled_runs import ALARM, CLEAN, LOOPING, Repeats, judge_with, line, mark, set_of

from steadyhelm.lab.evaluation.labelled_runs import LabelQuestion
from steadyhelm.lab.evaluation.leak_check import LeakCheck
from steadyhelm.lab.evaluation.report_text import format_leak_reports


class ReadsNames(Repeats):
    """A detector that knows loops by the names of their runs."""

    def check(self, event, baseline):
        if not event.run_id.startswith("loop"):
            return None
        return self.finding(event, score=0.9, message="named so", suggested_action="")


class ReadsCalendars(Repeats):
    """A detector that looks at the date."""

    def check(self, event, baseline):
        if event.timestamp > 1000:
            return None
        return super().check(event, baseline)


LOOPS = [line("B" + "a" * 6, run_id=f"loop-{i}", labels=[mark(2)]) for i in range(12)]
CLEANS = [line(f"ABCDE{sign}", run_id=f"clean-{sign}", labels=[]) for sign in "FGHIJKLMNOPQ"]


def checked(detector, *lines):
    return LeakCheck(judge_with(detector), LabelQuestion()).check(set_of(*lines))


def verdicts(report):
    return {row.shuffled: row.verdict for row in report.rows}


class TestLeakCheck:
    def test_an_honest_detector(self):
        """
        Names, labels, order, date and future do not matter; results do.
        """
        report = checked(Repeats, *LOOPS, *CLEANS)
        assert {"ok"} == set(verdicts(report).values())
        assert report.is_clean

    def test_names_of_runs(self):
        """
        A detector that reads run ids is found out.
        """
        report = checked(ReadsNames, *LOOPS, *CLEANS)
        assert "LEAK" == verdicts(report)["run ids and sources"]
        assert not report.is_clean

    def test_results_that_are_not_used(self):
        """
        A detector whose figures stay when every call gets another result does not look at results.
        """
        report = checked(ReadsNames, *LOOPS, *CLEANS)
        assert "NOT USED" == verdicts(report)["results and replies, between all steps of the set"]

    def test_the_date(self):
        """
        A detector that depends on the day is found out.
        """
        assert "LEAK" == verdicts(checked(ReadsCalendars, *LOOPS, *CLEANS))["the day it happened"]

    def test_nothing_to_lose(self):
        """
        Where nobody labelled anything, one not checked whether figures fall.
        """
        report = checked(Repeats, line("aaaa"), line("ABC"))
        assert "not checked" == verdicts(report)["labels, between runs"]
        assert report.is_clean

    def test_same_seed(self):
        """
        The same seed shuffles the same way.
        """
        first, again = (checked(Repeats, LOOPING, CLEAN, ALARM) for _ in range(2))
        assert first == again

    @pytest.mark.parametrize("words", ["must not matter", "run ids and sources", "LEAK"])
    def test_text(self, words):
        """
        The text says what was shuffled, whether it may matter, and what came of it.
        """
        assert words in format_leak_reports([checked(ReadsNames, *LOOPS, *CLEANS)])
