from functools import partial

from labelled_runs import CLEAN, LOOPING, Repeats, judge_with, line, set_of

from steadyhelm.lab.evaluation.comparison import Comparer
from steadyhelm.lab.evaluation.labelled_runs import LabelQuestion
from steadyhelm.lab.evaluation.report_text import format_comparison


def compared(before, after, *lines):
    judges = [judge_with(partial(Repeats, times=times)) for times in (before, after)]
    return Comparer(*judges, LabelQuestion(), samples=20).compare(set_of(*lines))


class TestCompare:
    def test_later(self):
        """
        A higher threshold finds the same loop later.
        """
        [change] = compared(4, 6, line("aaaaaa")).changed
        assert ("later", 3, 5) == (change.change, change.before, change.after)

    def test_earlier(self):
        """
        A lower threshold finds it earlier.
        """
        [change] = compared(6, 4, line("aaaaaa")).changed
        assert "earlier" == change.change

    def test_no_longer(self):
        """
        A run that is not flagged any more is named, with what had been found.
        """
        [change] = compared(4, 6, line("aaaa")).changed
        assert ("no longer flagged", None) == (change.change, change.after)
        assert "4 times" in change.words

    def test_newly(self):
        """
        A run that is flagged now is named, with its label.
        """
        comparison = compared(6, 4, {**line("aaaa"), "labels": []}, CLEAN, LOOPING)
        newly = [change for change in comparison.changed if change.change == "newly flagged"]
        assert [("aaaa", False)] == [(change.run_id, change.expected) for change in newly]
        assert (1, 2) == comparison.flagged

    def test_the_same(self):
        """
        The same settings change nothing.
        """
        comparison = compared(4, 4, LOOPING, CLEAN)
        assert [] == comparison.changed
        assert comparison.f1[0] == comparison.f1[1]

    def test_no_labels_no_figure(self):
        """
        Without labels there is no F1 to compare.
        """
        assert compared(4, 6, line("aaaa")).f1 is None


class TestText:
    def test_words(self):
        """
        The text says what changed for which run.
        """
        from steadyhelm.lab.evaluation.comparison import Comparison

        one = compared(4, 6, line("aaaa", run_id="r\x1b[2J"))
        text = format_comparison(Comparison(before="a", after="b", question=LabelQuestion(), sets=[one]))
        assert "no longer flagged  r\\x1b[2J" in text
