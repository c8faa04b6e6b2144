"""The forest over sessions: what it sees, how it is kept, what it finds in runs, and what would be a leak."""

import json
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from once_per_run import compute_once
from typer.testing import CliRunner

from steadyhelm.cli.main import app
from steadyhelm.errors import FormatError
from steadyhelm.events import TraceEvent
from steadyhelm.lab.training.labelled_replies import LabelledReply, ReplyLabels
from steadyhelm.lab.training.session_forest import (
    REPLY,
    SESSION,
    DecisionTree,
    DriftForest,
    SessionTurn,
    judge_turns,
    measure_session,
    measure_sessions,
    read_forest,
    read_turns,
    write_forest,
)

SAID = {
    "correction_substance": [
        "it still fails",
        "no, that is wrong",
        "why did you remove it?",
        "this is broken",
    ],
    "approval": ["yes", "sounds good", "ok, perfect"],
    "continuation": ["now add a test", "what does it do?", "commit it", "can you rename it?"],
}
TREE = DecisionTree(
    feature=(0, -1, -1), limit=(0.5, 0, 0), left=(1, 0, 0), right=(2, 0, 0), share=(0, 0.1, 0.9)
)
FOREST = DriftForest(
    steadyhelm_forest=1,
    features=(f"{REPLY}cue: still",),
    drift_from=0.5,
    replies=2,
    sessions=1,
    projects=1,
    trees=(TREE,),
)


def labelled(sessions=12, each=6):
    """Made-up replies in as many sessions of three projects and two agents."""
    draw = random.Random(3)
    return [
        LabelledReply(
            repo=f"project-{session % 3}",
            agent=f"agent-{session % 2}",
            session=f"session-{session}",
            turn=turn,
            reply=draw.choice(SAID[kind]),
            assistant_before=draw.choice(["Done, it works now.", "I changed it. Shall I commit it?"]),
            tool_calls_since_prompt=draw.randrange(9),
            labels=ReplyLabels(primary=kind, drift=int(kind == "correction_substance")),
        )
        for session in range(sessions)
        for turn in range(1, each + 1)
        for kind in [draw.choice(list(SAID))]
    ]


def step(kind, **data):
    return TraceEvent(agent_id="coder", run_id="r", action_type=kind, action_name=kind, **data)


def said(text):
    return step("user_message", input_data={"text": text})


RUN = [
    said("fix the parser"),
    step("tool_call", input_data={"file": "parser.py"}),
    step("llm_request", output_data={"text": "Fixed, all tests pass."}),
    said("it still fails on empty lines"),
    step("tool_call", input_data={"file": "parser.py"}, error="exit 1"),
    step("llm_request", output_data={"text": "Fixed, really."}),
    said("thanks, now add a test"),
]


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """A forest of few trees, trained once."""
    pytest.importorskip("sklearn", reason="the lab extra is not installed")
    from steadyhelm.lab.training.tree_training import train_tree

    return compute_once(
        tmp_path_factory, "tree-report", lambda: train_tree(labelled(), quick=True, samples=20, trees=15)
    )


turns = st.builds(
    SessionTurn,
    turn=st.integers(1, 40),
    reply=st.sampled_from([text for texts in SAID.values() for text in texts]),
    assistant_before=st.sampled_from(["", "Done.", "Perhaps it basically works, I think, more or less."]),
    tool_calls=st.integers(0, 50),
    tool_errors=st.integers(0, 5),
    interrupted=st.booleans(),
)


class TestNumbers:
    @given(session=st.lists(turns, min_size=1, max_size=6), later=st.lists(turns, max_size=3))
    def test_never_from_later(self, session, later):
        """
        What comes after a turn and its reply changes none of its numbers.
        """
        assert list(measure_session(session)) == list(measure_session([*session, *later]))[: len(session)]

    @given(session=st.lists(turns, min_size=1, max_size=4), reply=st.text(max_size=40))
    def test_known_before_the_reply(self, session, reply):
        """
        The numbers of a session do not depend on the reply that is to be judged.
        """
        other = [*session[:-1], structs.replace(session[-1], reply=reply)]

        def known(given):
            return {
                name: it for name, it in list(measure_session(given))[-1].items() if name.startswith(SESSION)
            }

        assert known(session) == known(other)

    def test_each_session_by_itself(self):
        """
        Sessions in one file do not mix, and their replies may be in any order.
        """
        replies = labelled(3, 4)
        mixed = replies[::-1]

        assert measure_sessions(replies) == measure_sessions(mixed)[::-1]

    def test_turns_of_a_run(self):
        """
        A run has the turns that the user replied to, with what was said and done in each.
        """
        first, second = read_turns(RUN)

        assert (3, "it still fails on empty lines", 1, 0) == (
            first.place,
            first.turn.reply,
            first.turn.tool_calls,
            first.turn.tool_errors,
        )
        assert (6, "Fixed, really.", 1) == (
            second.place,
            second.turn.assistant_before,
            second.turn.tool_errors,
        )


class TestForest:
    def test_written_and_read(self, report, tmp_path):
        """
        A forest that is read again is the one that was written.
        """
        write_forest(report.forest, tmp_path / "tree.json")

        assert report.forest == read_forest(tmp_path / "tree.json")

    def test_the_same_as_the_library(self):
        """
        Without scikit-learn a forest predicts what it predicted with it.
        """
        pytest.importorskip("sklearn", reason="the lab extra is not installed")
        from steadyhelm.lab.training.tree_training import _build_forest, _ForestLearner

        replies = labelled()
        rows, learner = measure_sessions(replies), _ForestLearner(15)
        forest = _build_forest(replies, rows, learner)
        expected = learner.score(rows, [reply.is_drift for reply in replies], rows)

        assert expected == pytest.approx([forest.predict(row) for row in rows], abs=0.02)

    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            ({"steadyhelm_forest": 9}, "version 9"),
            ({"trees": []}, "no tree"),
            ({"features": ["a", "a"]}, "names of their own"),
            ({"features": []}, "not listed"),
            ({"trees": [[[0, -1], [0.5, 0], [0, 0], [1, 0], [0, 1]]]}, "does not come after it"),
            ({"trees": [[[-1], [0], [0], [0], [7]]]}, "between 0 and 1"),
            ({"trees": [[[-1], [0], [0], [0], []]]}, "differ in length"),
            ({"drift_from": "x"}, "not a forest"),
        ],
    )
    def test_broken_files(self, tmp_path, change, fault):
        """
        A file that is no forest, or one that would not end or name a number, is refused with the reason.
        """
        file = tmp_path / "tree.json"
        file.write_text(json.dumps({**msgspec.to_builtins(FOREST), **change}))

        with pytest.raises(FormatError, match=fault):
            read_forest(file)

    @given(
        columns=st.lists(
            st.tuples(st.integers(-2, 2), st.integers(-1, 5), st.integers(-1, 5)), min_size=1, max_size=6
        )
    )
    def test_every_accepted_tree_ends(self, columns):
        """
        A tree in which no fault is found leads every row to a leaf.
        """
        size = len(columns)
        tree = DecisionTree(
            feature=tuple(it[0] for it in columns),
            limit=(0.0,) * size,
            left=tuple(it[1] for it in columns),
            right=tuple(it[2] for it in columns),
            share=(0.5,) * size,
        )

        assert list(tree.find_faults(2)) or 0.5 == tree.predict([1.0, -1.0])


class TestFigures:
    def test_beside_the_linear_one(self, report):
        """
        The forest and the linear model are measured on the same sessions and projects.
        """
        assert {("session", "tree"), ("session", "linear"), ("project", "tree"), ("project", "linear")} == {
            (one.held_out, one.model.split(",")[0]) for one in report.figures
        }
        assert all(0.5 < one.auc.value <= 1 for one in report.figures)

    def test_a_label_in_disguise(self):
        """
        A number that was made from the label is found by its own ranking, whichever way it points.
        """
        from steadyhelm.lab.training.tree_training import rank_single_numbers

        truth = [True, False] * 30
        draw = random.Random(1)
        rows = [{"leak": float(not drift), "noise": draw.random()} for drift in truth]
        best, rest = rank_single_numbers(rows, truth)

        assert ("leak", 1.0, True) == (best.name, best.auc, best.is_made_from_label)
        assert not rest.is_made_from_label

    def test_a_leak_is_reported(self, report):
        """
        A leak is named in the report, which is then not clean.
        """
        from steadyhelm.lab.training.tree_training import SingleNumber, format_tree_report
        from steadyhelm.lab.training.validation import LeakFigure

        leak = LeakFigure(shuffled="labels", drift=0.9, must_fall=True)
        spoilt = structs.replace(report, leaks=[leak], singles=[SingleNumber(name="leak", auc=1.0)])

        assert not spoilt.is_clean
        assert "LEAK" in format_tree_report(spoilt)
        assert "THE LABEL" in format_tree_report(spoilt)


class TestCommands:
    def test_judged_turns(self):
        """
        Each reply in a run has a probability, by the place of the message.
        """
        assert [(3, 0.9, True), (6, 0.1, False)] == [
            (it.place, it.probability, it.is_drift) for it in judge_turns(RUN, FOREST)
        ]

    def test_trained_and_applied(self, tmp_path, monkeypatch):
        """
        `lab train --model tree` writes a forest that `lab apply` reads.
        """
        pytest.importorskip("sklearn", reason="the lab extra is not installed")
        monkeypatch.chdir(tmp_path)
        lines = b"".join(msgspec.json.encode(one) + b"\n" for one in labelled(8, 5))
        (tmp_path / "replies.jsonl").write_bytes(lines)
        command = ["lab", "train", "replies.jsonl", "--model", "tree", "--quick", "-o", "tree.json", "--json"]
        command += ["--trees", "3"]
        trained = CliRunner().invoke(app, command)

        assert trained.exit_code in {0, 3}, trained.exception
        assert 40 == json.loads(trained.stdout)["replies"]
        assert 40 == read_forest(tmp_path / "tree.json").replies

    def test_applied_to_runs(self, tmp_path, monkeypatch):
        """
        The runs are listed with the turn that was most likely corrected, secrets removed.
        """
        monkeypatch.chdir(tmp_path)
        write_forest(FOREST, tmp_path / "tree.json")
        key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
        events = [
            {"type": "user_message", "text": "fix the parser"},
            {"type": "llm_output", "text": "Fixed."},
            {"type": "user_message", "text": f"it still fails with {key}"},
        ]
        (tmp_path / "runs.jsonl").write_text(json.dumps({"run_id": "one", "events": events}))
        shown = CliRunner().invoke(app, ["lab", "apply", "tree.json", "runs.jsonl"])
        document = json.loads(
            CliRunner().invoke(app, ["lab", "apply", "tree.json", "runs.jsonl", "--json"]).stdout
        )

        assert "1 turn with a reply: 1 likely corrected" in shown.stderr
        assert key not in shown.stdout + json.dumps(document)
        [turn] = document["runs"][0]["turns"]
        assert (2, 0.9, True) == (turn["place"], turn["probability"], turn["is_drift"])

    def test_no_model(self, tmp_path):
        """
        A file that is no model is refused in words.
        """
        (tmp_path / "weights.json").write_text("{}")
        (tmp_path / "runs.jsonl").write_text(json.dumps({"run_id": "one", "events": []}))
        answer = CliRunner().invoke(
            app, ["lab", "apply", str(tmp_path / "weights.json"), str(tmp_path / "runs.jsonl")]
        )

        assert isinstance(answer.exception, FormatError)
        assert "lab train --model tree" in str(answer.exception)
