import msgspec
import pytest
from labelled_runs import ALARM, CLEAN, LOOPING, MISSED, judge_with, line, mark, set_of

from steadyhelm.findings import Severity
from steadyhelm.lab.evaluation.evaluator import TOGETHER, Evaluator
from steadyhelm.lab.evaluation.labelled_runs import LabelQuestion

FOUR = (LOOPING, MISSED, CLEAN, ALARM)


@pytest.fixture(scope="module")
def judge():
    return judge_with()


@pytest.fixture
def report(judge):
    return Evaluator(judge, LabelQuestion(), samples=50).report_set(set_of(*FOUR))


class TestFigures:
    def test_counts(self, report):
        """
        Of two loops one is found, of two clean runs one is flagged.
        """
        assert {"tp": 1, "fp": 1, "fn": 1, "tn": 1} == report.figures[0].counts
        assert 0.5 == report.figures[0].run_level["f1"].value

    def test_every_finder(self, report):
        """
        All detectors together come first, then each by itself, then the simple rules.
        """
        assert [TOGETHER, "repeats"] == [one.finder for one in report.figures[:2]]
        assert {True} == {one.is_rule for one in report.figures[2:]}

    def test_delay(self, report):
        """
        Delay is counted over the loops that were found.
        """
        assert [2] == report.figures[0].delay.values

    def test_tokens(self, report):
        """
        Tokens after the first finding count for runs that people do not call clean.
        """
        assert 500 == report.figures[0].tokens_after

    def test_unlabelled(self, judge):
        """
        Where nobody said anything, what is flagged is listed and no figure is made up.
        """
        report = Evaluator(judge, LabelQuestion()).report_set(set_of(line("aaaa"), line("AB")))
        assert (0, {}, 1) == (report.labelled, report.figures[0].run_level, report.figures[0].flagged)
        assert ["flagged, not labelled"] == [miss.wrong for miss in report.misses]

    def test_step_level(self, judge):
        """
        Where every pair was judged, figures are given step by step too.
        """
        run = line("aaaaB", source="sola-x", labels=[mark(1), mark(3)])
        question = LabelQuestion(severity=Severity.LOW, adjacent=True)
        figures = Evaluator(judge, question).report_set(set_of(run)).figures[0]
        assert {"tp": 1, "fp": 0, "fn": 1, "tn": 2} == figures.step_counts

    def test_groups(self, judge):
        """
        Tiers are reported by themselves, and can be left out.
        """
        cases = [line("aaaa", expect_loop=True, tier=tier) for tier in ("core", "hard", "contested")]
        evaluator = Evaluator(judge, LabelQuestion(), groups=("core", "hard"))
        assert ["core", "hard"] == list(evaluator.report_set(set_of(*cases)).by_group)

    def test_same_twice(self, judge):
        """
        The same runs and the same seed give the same report, byte for byte.
        """
        first, again = (
            msgspec.json.encode(Evaluator(judge, LabelQuestion(), samples=20).evaluate([set_of(*FOUR)]))
            for _ in range(2)
        )
        assert first == again


class TestMisses:
    def test_named(self, report):
        """
        Every run that was judged wrongly is named with the way in which it was.
        """
        assert {"missed": "missed", "alarm": "false alarm"} == {m.run_id: m.wrong for m in report.misses}

    def test_events_are_shown(self, report):
        """
        The events around the label or the finding stand beside it.
        """
        missed = next(miss for miss in report.misses if miss.run_id == "missed")
        assert [3] == [event.at for event in missed.events if event.labelled]
        assert "path=A → answer 3" in [event.said for event in missed.events]

    def test_late(self, judge):
        """
        A loop found after it was due is wrong too.
        """
        case = line("aaaaaa", expect_loop=True, at_event=1)
        assert ["late"] == [
            miss.wrong for miss in Evaluator(judge, LabelQuestion()).report_set(set_of(case)).misses
        ]
