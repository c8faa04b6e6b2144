import io
import json

import pytest

from steadyhelm.corrections.deferred import find_corrections
from steadyhelm.lab.evaluation.labelled_runs import LabelQuestion, read_expectation
from steadyhelm.lab.importers.layouts import write_runs
from steadyhelm.lab.training.labelled_replies import label_runs
from steadyhelm.recordings.run_file import ReadRun, RunFile

CALL = {"type": "tool_call", "name": "edit", "args": {"file_path": "parser.py"}, "call_id": "1"}
RESULT = {"type": "tool_result", "name": "edit", "text": "ok", "call_id": "1"}
DONE = {"type": "llm_output", "text": "The parser is fixed."}


def said(text):
    return {"type": "user_message", "text": text}


def line(*events, **keys):
    return {"run_id": "r", "agent_id": "a", "source": "made", "events": list(events), **keys}


def read(*lines):
    found = list(RunFile(io.BytesIO(b"\n".join(json.dumps(one).encode() for one in lines))))
    assert all(isinstance(one, ReadRun) for one in found)
    return found


CORRECTED = line(said("fix the parser"), CALL, RESULT, DONE, said("no, that is still broken"), DONE)
ACCEPTED = line(said("fix the parser"), CALL, RESULT, DONE, said("thanks, now commit it"), DONE)
UNANSWERED = line(said("fix the parser"), CALL, RESULT, DONE)


class TestLabels:
    def test_a_label_at_the_turn(self):
        """
        A corrected turn has a label at its last step, with the message and how likely it is.
        """
        [run] = label_runs(read(CORRECTED))
        [label] = run["labels"]

        assert ("correction", 2, 1, 3) == (label["kind"], label["at"], label["from"], label["message"])
        assert label["derived"]
        assert 0.5 < label["probability"] <= 1

    def test_places_are_those_of_the_new_file(self, tmp_path):
        """
        Written and read again, the label points at the reply that was corrected.
        """
        write_runs(label_runs(read(CORRECTED)), tmp_path / "labelled.jsonl")
        [run] = list(RunFile(tmp_path / "labelled.jsonl"))

        assert "The parser is fixed." == run.events[run.labels[0]["at"]].text
        assert {1} == find_corrections(run.events).corrected

    def test_labels_that_were_there_move_along(self):
        """
        A label at a call's result stands at the call, which holds both now; odd ones stay as they are.
        """
        marks = [{"kind": "loop", "at": 2}, {"kind": "loop", "at": 3}, {"kind": "odd", "at": None}, "what"]
        [run] = label_runs(read(line(*CORRECTED["events"], labels=marks)))

        assert [1, 2, None] == [label["at"] for label in run["labels"][:3]]
        assert "what" == run["labels"][3]

    def test_a_run_nobody_answered_is_left_out(self):
        """
        Where the user said nothing more, nobody knows what came of it.
        """
        assert [] == list(label_runs(read(UNANSWERED)))

    @pytest.mark.parametrize(("run", "expected"), [(CORRECTED, True), (ACCEPTED, False)])
    def test_the_lab_understands_them(self, run, expected):
        """
        With `--label correction` the lab takes a run with such a label for drift, and one without for clean.
        """
        lines = label_runs(read(run))
        [labelled] = read(*lines)

        assert (
            expected
            is read_expectation(labelled, LabelQuestion(kind="loop", label="correction"), is_used=True).run
        )
