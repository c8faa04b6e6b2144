import random
import warnings

import pytest
from msgspec import structs
from once_per_run import compute_once

from steadyhelm.errors import FormatError
from steadyhelm.lab.training.labelled_replies import LabelledReply, ReplyLabels, read_replies

SAID = {
    "correction_substance": [
        "it still fails on {}",
        "no, {} is wrong",
        "why did you remove {}?",
        "{} is broken",
    ],
    "approval": ["yes", "yes please", "sounds good", "go ahead", "ok, perfect"],
    "continuation": ["now add {}", "what does {} do?", "commit {}", "can you rename {}", "update {} next"],
}
ANSWERS = [
    "Done, {} works now.",
    "I changed {}. Want me to commit it?",
    "Either {} or the old way. Which one?",
]


def labelled(sessions=16, each=6):
    """Made-up replies whose kind their words tell, in as many sessions of four projects."""
    draw = random.Random(7)
    return [
        LabelledReply(
            repo=f"project-{session % 4}",
            session=f"session-{session}",
            turn=turn,
            reply=draw.choice(SAID[kind]).format(draw.choice(["the cache", "the page", "the index"])),
            assistant_before=draw.choice(ANSWERS).format("it"),
            tool_calls_since_prompt=draw.randrange(9),
            labels=ReplyLabels(primary=kind, drift=int(kind == "correction_substance")),
        )
        for session in range(sessions)
        for turn in range(each)
        for kind in [draw.choices(list(SAID), [2, 2, 3])[0]]
    ]


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    pytest.importorskip("sklearn", reason="the lab extra is not installed")
    from steadyhelm.lab.training.train import train

    def compute():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return train(labelled(), quick=True, samples=50)

    return compute_once(tmp_path_factory, "training-report", compute)


@pytest.fixture(scope="session")
def leaks(tmp_path_factory):
    pytest.importorskip("sklearn", reason="the lab extra is not installed")
    from steadyhelm.lab.training.validation import check_leaks

    found = compute_once(tmp_path_factory, "training-leaks", lambda: check_leaks(labelled()))
    return {leak.shuffled: leak for leak in found}


class TestReading:
    LINE = (
        '{"id": "a", "repo": "r", "session": "s", "reply": "no", "labels": '
        '{"primary": "correction_substance", "drift": 1, "confidence": 2, "pasted": true, "second": {}}}\n'
    )

    def test_a_line(self, tmp_path):
        """
        A line gives a reply with its labels, and how surely they were given; the rest stays in the file.
        """
        file = tmp_path / "replies.jsonl"
        file.write_text(self.LINE + "\n")
        (reply,) = read_replies(file)

        assert ("no", "correction", True) == (reply.reply, reply.learnt_as, reply.is_drift)
        assert {"primary", "drift", "confidence"} == {field.name for field in structs.fields(reply.labels)}

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("", "holds no labelled reply"),
            ("{}\n", ":1: not a labelled reply"),
            ("\nnot json\n", ":2: not a labelled reply"),
            (LINE.replace("correction_substance", "praise"), "primary must be one of"),
        ],
    )
    def test_a_file_that_is_none(self, tmp_path, content, words):
        """
        What is wrong with a file is named with its line.
        """
        file = tmp_path / "replies.jsonl"
        file.write_text(content)

        with pytest.raises(FormatError, match=words):
            read_replies(file)

    def test_no_file(self, tmp_path):
        """
        A file that is not there is an error with its name.
        """
        with pytest.raises(FormatError, match="cannot be read"):
            read_replies(tmp_path / "none.jsonl")


class TestTraining:
    def test_it_learns(self, report):
        """
        What words tell is learnt: replies kept back are ranked almost without fault.
        """
        assert report.figures["session"]["drift AUC"].value > 0.95
        assert report.figures["project"]["class macro F1"].value > 0.85

    def test_two_in_a_row(self):
        """
        Neighbours of one session count, found from the threshold on and right where both are labelled, if
        the second takes up the first or is the third in a row.
        """
        from steadyhelm.lab.training.validation import HeldOutResults, measure_repeats

        judged = HeldOutResults(
            sessions=["a", "a", "b", "a", "b", "b", "c", "c", "c"],
            turns=[2, 1, 1, 3, 2, 4, 1, 2, 3],
            truth=[""] * 9,
            is_drift=[True, True, True, False, False, True, False, True, True],
            drift=[0.6, 0.6, 0.7, 0.2, 0.8, 0.9, 0.6, 0.6, 0.6],
            found=[True] * 9,
            primary=[""] * 9,
            takes_up=[True, False, False, True, True, True, False, False, False],
        )
        figures = measure_repeats(judged, 0.5)

        assert (3, 2) == (figures.found, figures.right)
        assert (3, 2, 2) == (figures.sessions_found, figures.sessions_right, figures.sessions_labelled)

    def test_every_figure_has_its_interval(self, report):
        """
        Each figure lies inside its interval.
        """
        for figures in report.figures.values():
            assert all(one.low <= one.value <= one.high for one in figures.values())

    def test_shuffled_labels_fall_to_chance(self, leaks):
        """
        With labels shuffled there is nothing to learn, and nothing is.
        """
        assert leaks["nothing"].drift > 0.95
        assert leaks["labels"].drift < 0.7

    def test_shuffled_texts_fall_to_chance(self, leaks):
        """
        With all texts shuffled the rest tells nothing.
        """
        assert leaks["texts"].drift < 0.7
        assert leaks["texts and counts"].drift < 0.7

    def test_other_ways(self):
        """
        The seed's forest and plain words are judged on the same folds.
        """
        pytest.importorskip("sklearn", reason="the lab extra is not installed")
        from steadyhelm.lab.training.fitting import make_folds, prepare
        from steadyhelm.lab.training.validation import measure_alternatives

        replies = labelled(8)
        found = measure_alternatives(prepare(replies), make_folds([reply.session for reply in replies], 2))

        assert 3 == len(found)
        assert all(one.auc > 0.8 for one in found)

    def test_a_project_s_own_words(self, report):
        """
        No term is learnt that fewer than three projects use.
        """
        assert report.weights.reply.terms
        assert 4 == report.weights.projects

    def test_the_same_replies_give_the_same_file(self, report, tmp_path):
        """
        Training twice writes the same bytes.
        """
        from steadyhelm.lab.training.fitting import learn_weights, prepare
        from steadyhelm.lab.training.train import write_weights

        one, two = tmp_path / "one.json", tmp_path / "two.json"
        write_weights(report.weights, one)
        write_weights(learn_weights(prepare(labelled())), two)

        assert one.read_bytes() == two.read_bytes()

    def test_annotation_changes_nothing(self, report):
        """
        Only what was said and done is read: two replies that differ in nothing else are the same case.
        """
        from steadyhelm.lab.training.fitting import prepare

        (reply, *_) = labelled()
        other = structs.replace(reply, labels=ReplyLabels(primary="approval", drift=0))
        one, two = prepare([reply, other])

        assert one.features == two.features

    def test_the_report(self, report):
        """
        The report says figures, confusion, calibration, importances, leaks and other learners.
        """
        from steadyhelm.lab.training.train import format_report
        from steadyhelm.lab.training.validation import AlternativeFigures, LeakFigure

        leak = LeakFigure(shuffled="labels", drift=0.9, must_fall=True)
        other = AlternativeFigures(name="ExtraTrees", f1=0.4, auc=0.8)
        text = format_report(structs.replace(report, leaks=[leak], alternatives={"session": [other]}))

        assert all(
            words in text
            for words in (
                "drift AUC",
                "labelled kind",
                "actual drift",
                "cue score",
                "LEAK",
                "ExtraTrees",
            )
        )


class TestTheCommand:
    def test_it_writes_the_file(self, tmp_path, capsys):
        """
        The command prints the report and writes the weights.
        """
        pytest.importorskip("sklearn", reason="the lab extra is not installed")
        import msgspec

        from steadyhelm.cli.lab_training import train
        from steadyhelm.corrections.model import CorrectionWeights

        replies, output = tmp_path / "replies.jsonl", tmp_path / "weights.json"
        replies.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in labelled(12, 4)))
        train(replies, output=output, quick=True)

        assert 48 == msgspec.json.decode(output.read_bytes(), type=CorrectionWeights).replies
        assert "Learnt from 48 replies" in capsys.readouterr().out

    def test_without_scikit_learn(self, monkeypatch):
        """
        Without the lab extra the error names it.
        """
        import sys

        from steadyhelm.errors import MissingExtraError
        from steadyhelm.lab.training.fitting import import_scikit

        monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)

        with pytest.raises(MissingExtraError, match=r"steadyhelm\[lab\]"):
            import_scikit("sklearn.linear_model")
