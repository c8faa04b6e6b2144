"""What a judge changes, measured: the same questions as in a live run, and honest figures."""

import io
import itertools
import json
import warnings

import pytest

from steadyhelm.judge import DRIFT_LABELS, FIXED_WEIGHT, JudgeVerdict, Question
from steadyhelm.lab.evaluation.labelled_runs import RunSet
from steadyhelm.lab.judging.answers import (
    Answer,
    ImportedAnswers,
    JudgeAnswers,
    NoAnswers,
    Oracle,
    count_tokens,
    read_verdicts,
    write_questions,
)
from steadyhelm.lab.judging.judged_replay import MIN_LABELS, AskedQuestion, LabelTruth, learn_weight
from steadyhelm.lab.judging.measure import JudgeMeasurement
from steadyhelm.lab.training.labelled_replies import LabelledReply, ReplyLabels
from steadyhelm.recordings.run_file import RunFile
from steadyhelm.settings import Settings

QUESTION = Question.build("loop", "Goal:\n| find it\n\nStep 1:\n| the test failed", subject="s", place=3)


def call(place, result="nothing", **keys):
    return {"type": "tool_call", "name": "find", "args": {"q": "x"}, "result": result, "t": place, **keys}


def read(*lines):
    runs = list(RunFile(io.BytesIO("".join(json.dumps(line) + "\n" for line in lines).encode())))
    return RunSet(name="set", runs=runs, broken=[])


STUCK = {"run_id": "stuck", "goal": "find x", "expect_loop": True, "events": [call(n) for n in range(6)]}
# Rules take this for a loop; people say that the user wanted it so.
WANTED = {"run_id": "wanted", "expect_loop": False, "events": [call(n, "still empty") for n in range(3)]}
# Words differ in calls and results, so that rules find progress in it.
SHAPES = ("rhombus", "kite", "helix", "spiral", "lattice", "prism", "cone", "torus")
REWORDED = {
    "run_id": "reworded",
    "expect_loop": True,
    "events": [
        call(
            n,
            f"{shape} BUILD FAILED in 12s",
            args={"command": f"echo {shape}; cat build/report.txt | tail -5"},
        )
        for n, shape in enumerate(SHAPES)
    ],
}
NAMES = ["".join(letters) for letters in itertools.islice(itertools.permutations("abcdefg", 4), 40)]
FINE = {
    "run_id": "fine",
    "expect_loop": False,
    "events": [call(n, f"{name} {name[::-1]}", args={"q": name * 2}) for n, name in enumerate(NAMES)],
}


def measure(answers, *lines):
    """Return the figures of one set of these runs, and the measurement."""
    measurement = JudgeMeasurement(Settings(), answers)
    [figures] = measurement.measure_sets([read(*lines)])
    return figures, measurement


class TestRuns:
    def test_questions_without_answers_change_nothing(self):
        """
        Asking alone moves no figure: what nobody answers is as without a judge.
        """
        figures, measurement = measure(NoAnswers(), STUCK, WANTED, REWORDED, FINE)
        [loop, *_] = figures.kinds
        assert loop.recall[0] == loop.recall[1]
        assert loop.false_alarms[0] == loop.false_alarms[1]
        assert figures.questions.asked == len(measurement.list_open_questions()) > 0

    def test_an_oracle_finds_what_rules_miss_and_clears_what_they_flag(self):
        """
        With labels as answers every run is right, and healthy work is asked about only where it looks alike.
        """
        figures, measurement = measure(Oracle(), STUCK, WANTED, REWORDED, FINE)
        [loop, *_] = figures.kinds
        assert (0.5, 1.0) == (loop.recall[0].value, loop.recall[1].value)
        assert (0.5, 0.0) == (loop.false_alarms[0].value, loop.false_alarms[1].value)
        assert not loop.wrong
        assert "set/fine" not in {source for source, _ in measurement._asked}

    def test_a_judge_that_is_always_wrong_harms_by_one_step_only(self):
        """
        A loop that was MED is cleared, one of identical calls beyond ten stays.
        """
        certain = {**STUCK, "run_id": "certain", "events": [call(n) for n in range(14)]}
        figures, _ = measure(Oracle(errors=1.0), certain, FINE)
        [loop, *_] = figures.kinds
        assert 1.0 == loop.recall[1].value

    def test_tokens_steps_and_shares_are_counted(self):
        """
        What was asked is reported with its tokens, estimated by length where nobody reports them.
        """
        figures, measurement = measure(Oracle(), STUCK, FINE)
        asked = figures.questions
        assert 1 == asked.asked == asked.labelled == asked.right
        assert (46, 1000 / 46) == (figures.steps, asked.per_1000_steps)
        assert 0.5 == asked.share.value
        assert asked.tokens == sum(count_tokens(it.question, it.answer.verdict) for it in measurement.asked)
        assert asked.cost_usd is None
        assert asked.median_seconds is None

    def test_a_run_that_taught_the_baseline_is_not_judged(self):
        """
        Figures are of runs that nothing was learnt from.
        """
        one = read(STUCK, FINE)
        measurement = JudgeMeasurement(Settings(), Oracle())
        [figures] = measurement.measure_sets([one], teachers=one.runs[1:])
        assert 1 == figures.runs

    def test_evidence_and_places_are_those_of_the_run(self):
        """
        Verdicts are events of their own: steps after them keep their places and their order.
        """
        figures, measurement = measure(Oracle(), {**STUCK, "events": [call(n) for n in range(40)]})
        assert all(it.question.evidence[-1].isdecimal() for it in measurement.asked)
        assert not figures.kinds[0].wrong


class TestTruth:
    def test_a_planted_loop_counts_where_its_steps_are_shown(self):
        """
        A question about other steps of the run is about healthy work.
        """
        about = {"name": "exact", "kind": "loop", "first": 5, "last": 9, "seed": 0}
        one = read({"run_id": "r", "events": [call(n) for n in range(12)], "plant": about})
        truth, [run] = LabelTruth(one.runs), one.runs
        shown = [
            Question.build("loop", "?", subject="", place=0, evidence=ids) for ids in (["4", "5"], ["0", "1"])
        ]
        assert [True, False] == [truth.is_drift(run, it) for it in shown]

    def test_a_spliced_run_has_left_its_goal_when_half_of_the_latest_steps_are_foreign(self):
        """
        One foreign step is no departure.
        """
        about = {"name": "spliced", "kind": "goal", "first": 4, "last": 9, "seed": 0}
        one = read({"run_id": "r", "goal": "g", "events": [call(n) for n in range(10)], "plant": about})
        truth, [run] = LabelTruth(one.runs), one.runs
        shown = [
            Question.build(
                "goal", "?", subject="", place=0, evidence=[str(at) for at in range(last - 4, last)]
            )
            for last in (5, 6)
        ]
        assert [False, True] == [truth.is_drift(run, it) for it in shown]

    def test_a_run_without_labels_has_no_truth_about_loops(self):
        """
        What nobody labelled is neither right nor wrong; its goal counts as served.
        """
        one = read({"run_id": "r", "goal": "find x", "events": [call(0)]})
        truth, [run] = LabelTruth(one.runs), one.runs
        assert truth.expect(run, "loop").run is None
        assert truth.expect(run, "goal").run is False


class TestAnswers:
    def test_an_oracle_errs_in_the_given_share_and_always_alike(self):
        """
        The same question gets the same answer, whenever it is asked.
        """
        questions = [Question.build("loop", f"{n}", subject="", place=n) for n in range(2_000)]
        said = [Oracle(errors=0.05, seed=1).answer(it, True).verdict.label for it in questions]
        assert said == [Oracle(errors=0.05, seed=1).answer(it, True).verdict.label for it in questions]
        wrong = sum(label != DRIFT_LABELS["loop"] for label in said)
        assert 70 <= wrong <= 130

    def test_an_oracle_without_labels_is_unsure(self):
        """
        It does not guess.
        """
        assert "unsure" == Oracle().answer(QUESTION, None).verdict.label

    @pytest.mark.parametrize(
        ("verdict", "reason"),
        [
            (JudgeVerdict(label="perhaps", confidence=1.0), "the label is none of those allowed"),
            (JudgeVerdict(label="healthy", confidence=7.0), "the confidence is not from 0 to 1"),
            (
                JudgeVerdict(label="healthy", confidence=1.0, quote="all fine"),
                "the quote does not occur in the text shown",
            ),
        ],
    )
    def test_an_answer_that_cannot_be_used_is_counted_and_changes_nothing(self, verdict, reason):
        """
        Other labels, impossible confidences and invented quotes are no verdict.
        """
        asked = JudgeAnswers(_Fixed(verdict))
        assert "unsure" == asked.answer(QUESTION, None).verdict.label
        assert {reason: 1} == asked.failures

    def test_a_judge_that_raises_costs_only_its_verdict(self):
        """
        The measurement goes on, and the error is counted by its name.
        """
        asked = JudgeAnswers(_Fixed(None))
        assert "unsure" == asked.answer(QUESTION, None).verdict.label
        assert {"RuntimeError": 1} == asked.failures

    def test_a_judge_is_asked_each_question_once_and_no_more_than_allowed(self):
        """
        Equal questions are answered from memory; beyond the limit nobody is asked.
        """
        judge = _Fixed(JudgeVerdict(label="healthy", confidence=1.0, quote="the test failed"))
        ticks = itertools.count()
        asked = JudgeAnswers(judge, max_questions=1, clock=lambda: float(next(ticks)))
        other = Question.build("loop", "another", subject="", place=0)
        answers = [asked.answer(it, None) for it in (QUESTION, QUESTION, other)]
        assert ["healthy", "healthy", "unsure"] == [it.verdict.label for it in answers]
        assert 1 == judge.calls
        assert 1.0 == answers[0].seconds


class _Fixed:
    """A judge that always says the same; None makes it fail."""

    def __init__(self, verdict):
        self.verdict = verdict
        self.calls = 0

    def judge(self, question):
        self.calls += 1
        if self.verdict is None:
            raise RuntimeError(question.question_id)
        return self.verdict


class TestFiles:
    def test_exported_questions_answered_offline_change_the_figures(self, tmp_path):
        """
        Export, judge elsewhere, import: the same figures as if the judge had been asked at once.
        """
        _, measurement = measure(NoAnswers(), STUCK, REWORDED)
        path = tmp_path / "questions.jsonl"
        assert write_questions(path, measurement.list_open_questions()) == 2
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert ["no_progress", "healthy", "unsure"] == lines[0]["labels"]
        path.write_text(
            "".join(
                json.dumps({"question_id": it["question_id"], "label": "no_progress"}) + "\n" for it in lines
            )
        )
        verdicts, bad = read_verdicts(path)
        figures, again = measure(ImportedAnswers(verdicts), STUCK, REWORDED)
        assert not bad
        assert 1.0 == figures.kinds[0].recall[1].value
        assert not again.list_open_questions()

    def test_lines_that_are_no_verdict_are_reported_by_number(self, tmp_path):
        """
        Broken JSON, other types, impossible shares, long quotes: the other lines count.
        """
        path = tmp_path / "verdicts.jsonl"
        lines = [
            b'{"question_id": "a", "label": "healthy"}',
            b"{broken",
            b"\xff\xfe",
            b"",
            b'{"question_id": "b"}',
            b'{"question_id": "c", "label": "healthy", "confidence": 2}',
            b'{"question_id": "d", "label": "healthy", "quote": "' + b"x" * 400 + b'"}',
        ]
        path.write_bytes(b"\n".join(lines))
        verdicts, bad = read_verdicts(path)
        assert ["a"] == list(verdicts)
        assert [2, 3, 5, 6, 7] == [it.line for it in bad]

    def test_verdicts_that_fit_no_question_are_reported(self, tmp_path):
        """
        An unknown question, a label of another kind and an invented quote change nothing.
        """
        path = tmp_path / "verdicts.jsonl"
        others = [Question.build("loop", f"{n}\n| shown", subject="", place=n) for n in range(2)]
        lines = [
            {"question_id": "unknown", "label": "healthy"},
            {"question_id": others[0].question_id, "label": "serves"},
            {"question_id": others[1].question_id, "label": "healthy", "quote": "never said"},
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        answers = ImportedAnswers(read_verdicts(path)[0])
        assert ["unsure", "unsure"] == [answers.answer(it, None).verdict.label for it in others]
        assert [1, 2, 3] == list(answers.list_problems())


class TestWeight:
    def make_asked(self, right, wrong):
        answers = [Answer(JudgeVerdict(label="no_progress", confidence=1.0))] * (right + wrong)
        return [AskedQuestion(QUESTION, it, place < right) for place, it in enumerate(answers)]

    def test_it_is_fixed_until_there_are_a_hundred_labels(self):
        """
        A few labels say too little about a judge.
        """
        learnt = learn_weight(self.make_asked(MIN_LABELS - 1, 0))
        assert (FIXED_WEIGHT, False, MIN_LABELS - 1) == (learnt.weight, learnt.is_learnt, learnt.labels)

    def test_it_is_the_share_of_right_verdicts_from_then_on(self):
        """
        A judge that is right in nine of ten cases is trusted by about as much.
        """
        learnt = learn_weight(self.make_asked(90, 10))
        assert (True, pytest.approx(0.892)) == (learnt.is_learnt, learnt.weight)

    def test_verdicts_that_say_nothing_are_no_labels(self):
        """
        What was unsure is neither right nor wrong.
        """
        unsure = Answer(JudgeVerdict(label="unsure", confidence=0.0))
        assert 0 == learn_weight([AskedQuestion(QUESTION, unsure, True)] * 200).labels


SAID = {
    "correction_substance": ("no, the {} is still wrong", "the {} again"),
    "continuation": ("now rename the {} please", "the {} too"),
    "approval": ("yes, perfect", "ok"),
}


def make_replies():
    """Made-up replies in three projects; one in five says too little to tell."""
    return [
        LabelledReply(
            repo=f"project-{n % 4 % 3}",
            session=f"session-{n % 10}",
            turn=n,
            reply=SAID[kind][n % 5 == 0].format(("cache", "page", "index", "form")[n % 4]),
            prompt_before="please sort the list",
            assistant_before="Done, it works now.",
            labels=ReplyLabels(primary=kind, drift=int(kind == "correction_substance")),
        )
        for n, kind in enumerate(list(SAID) * 30)
    ]


class TestReplies:
    def test_an_oracle_is_right_about_whatever_is_asked(self):
        """
        Replies in the band are asked about, with what came before them; the F1 does not fall.
        """
        pytest.importorskip("sklearn", reason="the lab extra is not installed")
        measurement = JudgeMeasurement(Settings(), Oracle())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figures = measurement.measure_replies("replies", make_replies())
        assert (90, 30, 3) == (figures.replies, figures.positive, figures.projects)
        assert figures.f1[1] >= figures.f1[0]
        asked = measurement.asked
        assert len(asked) == figures.questions.asked == figures.questions.right
        for it in asked:
            assert "| please sort the list" in it.question.text
            assert "| Done, it works now." in it.question.text
