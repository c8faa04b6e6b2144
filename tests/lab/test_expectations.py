import pytest
from labelled_runs import mark, run_of

from steadyhelm.lab.evaluation.labelled_runs import (
    Expectation,
    LabelQuestion,
    has_label,
    read_expectation,
)

LOOP = LabelQuestion()


def expected(picture="abc", *, question=LOOP, is_used=True, **keys):
    return read_expectation(run_of(picture, **keys), question, is_used=is_used)


class TestLayouts:
    def test_a_case(self):
        """
        A scenario says as a whole whether it is a loop, no later than where, and in which tier.
        """
        case = expected(expect_loop=True, at_event=2, tier="core")
        assert Expectation(run=True, at_most=2, group="core") == case

    def test_a_clean_case(self):
        """
        A clean scenario has no place by which it must be found.
        """
        assert Expectation(run=False, group="hard") == expected(expect_loop=False, at_event=None, tier="hard")

    def test_every_pair_judged(self):
        """
        Where every pair of calls was judged, a step without a label is a clean step.
        """
        labels = [mark(2), mark(1, "redundant_thought"), mark(1)]
        assert frozenset({1, 2}) == expected(source="sola-openhands", labels=labels).steps
        assert Expectation(run=False, steps=frozenset()) == expected(source="sola-openhands")

    def test_bound_to_events(self):
        """
        Labels bound to events tell about the run and where it began, not about every step.
        """
        labels = [mark(7), mark(4), mark(1, "goal_deviation")]
        assert Expectation(run=True, first=4) == expected(source="trail-gaia", labels=labels)

    def test_a_set_that_does_not_know_the_label(self):
        """
        Where nobody used a label, its absence says nothing.
        """
        assert expected(labels=[], is_used=False).run is None

    @pytest.mark.parametrize("source", ["whowhen-generated", "agentrx-tau-retail"])
    def test_typed_for_some_runs_only(self, source):
        """
        A run whose failure nobody typed answers nothing about types, and one whose was does.
        """
        assert expected(source=source, labels=[mark(1, "decisive_error")]).run is None
        assert expected(source=source, labels=[mark(1, "dead_end")]).run is False

    @pytest.mark.parametrize(("outcome", "answer"), [("failure", True), ("success", False), (None, None)])
    def test_outcome(self, outcome, answer):
        """
        The label `failure` asks how the run ended.
        """
        assert answer is expected(question=LabelQuestion(label="failure"), outcome=outcome).run

    def test_reviewed(self):
        """
        In our own store a confirmed incident is a loop, a false alarm is none, and silence says nothing.
        """
        confirmed, alarm = mark(1, false_alarm=False), mark(1, false_alarm=True)
        runs = [expected(reviewed=True, labels=labels) for labels in ([confirmed], [alarm], [])]
        assert [True, False, None] == [answer.run for answer in runs]


class TestBadLabels:
    @pytest.mark.parametrize("label", ["loop", 5, None, {}, {"kind": None}, {"kind": ["loop"]}])
    def test_no_label(self, label):
        """
        What is no label is left out.
        """
        assert expected(labels=[label]).run is False

    @pytest.mark.parametrize("at", [None, -1, "4", True, 2.5])
    def test_no_place(self, at):
        """
        A label with a place that is none still tells about the run.
        """
        assert Expectation(run=True) == expected(labels=[mark(at)])


class TestUses:
    def test_any_run(self):
        """
        A set uses a label as soon as one of its runs carries it.
        """
        runs = [run_of("a", labels=[]), run_of("b", labels=[mark(0)])]
        assert (True, False) == (has_label(runs, "loop"), has_label(runs, "goal_deviation"))
