"""`steadyhelm lab judge` on small files: figures, export, import, and what is refused."""

import json
import shlex

import pytest
import typer
from typer.testing import CliRunner

from steadyhelm.cli import lab
from steadyhelm.cli.context import GlobalOptions
from steadyhelm.settings import load


def call(answer, **keys):
    return {"type": "tool_call", "name": "find", "args": {"q": "x"}, "result": answer, **keys}


STUCK = {"run_id": "stuck", "expect_loop": True, "tier": "core", "events": [call("none")] * 6}
WANTED = {"run_id": "wanted", "expect_loop": False, "tier": "hard", "events": [call("empty")] * 3}


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(run) + "\n" for run in (STUCK, WANTED)))
    return path


@pytest.fixture
def steadyhelm():
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    app.add_typer(lab.app, name="lab")

    def run(line):
        result = CliRunner().invoke(app, shlex.split(line), obj=GlobalOptions())
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


def test_an_oracle_shows_the_most_that_a_judge_can_reach(steadyhelm, runs):
    """What is found and what is a false alarm, without and with the judge, and what it cost."""
    status, out, _ = steadyhelm(f"lab judge {runs} --oracle")
    assert 0 == status
    rows = {line.split("  ")[0]: line.split()[-6:] for line in out.splitlines() if line.startswith("loop")}
    assert {"loop, found", "loop, false alarms", "loop, F1"} == set(rows)
    assert "2 questions (2 loop)" in out
    assert "fixed: 2 of the 100 labelled verdicts" in out


def test_one_document_has_everything(steadyhelm, runs):
    """As JSON the same figures, with the verdicts counted."""
    _, out, _ = steadyhelm(f"lab judge {runs} --oracle --json")
    document = json.loads(out)
    [one] = document["sets"]
    assert {"healthy": 1, "no_progress": 1} == one["questions"]["verdicts"]
    assert [1.0, 0.0] == [one["kinds"][0]["false_alarms"][place]["value"] for place in (0, 1)]
    assert {"sets", "replies", "weight", "failures", "unusable"} == set(document)


def test_a_wrong_oracle_is_wrong(steadyhelm, runs):
    """With every answer wrong, the loop that people want stays flagged, and runs can be named."""
    _, out, _ = steadyhelm(f"lab judge {runs} --oracle --oracle-errors 1 --wrong")
    assert "  loop: wanted" in out
    assert "0 of 2 agree with the labels" in out


def test_questions_are_exported_judged_elsewhere_and_imported(steadyhelm, runs, tmp_path):
    """Bad lines are reported by number, and do not end the command."""
    asked, told = tmp_path / "asked.jsonl", tmp_path / "told.jsonl"
    status, _, err = steadyhelm(f"lab judge {runs} --export {asked}")
    assert (0, True) == (status, "Wrote 2 questions" in err)
    lines = [json.loads(line) for line in asked.read_text().splitlines()]
    verdicts = [json.dumps({"question_id": it["question_id"], "label": "healthy"}) for it in lines]
    told.write_text("\n".join([*verdicts, "{", '{"question_id": "x", "label": "healthy"}']))
    status, out, err = steadyhelm(f"lab judge {runs} --import {told}")
    assert 0 == status
    assert "Verdicts: 2 healthy; 1 of 2 agree with the labels." in out
    assert "told.jsonl:3: not a verdict" in err.replace("\n", "")
    assert "line 4: no such question" in err


@pytest.fixture
def labelled(steadyhelm, tmp_path):
    """A hundred different runs with verdicts on what they raise: nine of ten are right."""
    path, asked, told = (tmp_path / name for name in ("many.jsonl", "asked.jsonl", "told.jsonl"))
    runs = [{**STUCK, "run_id": f"{n}", "goal": f"find {n}"} for n in range(100)]
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    steadyhelm(f"lab judge {path} --export {asked}")
    ids = [json.loads(line)["question_id"] for line in asked.read_text().splitlines()]
    labels = ["healthy" if n % 10 == 0 else "no_progress" for n in range(len(ids))]
    told.write_text("".join(map(write_verdict, ids, labels)))
    return path, told


def write_verdict(question_id, label):
    return json.dumps({"question_id": question_id, "label": label}) + "\n"


def test_a_learnt_weight_is_saved_in_one_step(steadyhelm, labelled, tmp_path):
    """The change is shown first; without --yes nothing is written, and twice changes nothing."""
    path, told = labelled
    settings = tmp_path / "steadyhelm.toml"
    settings.write_text('# ours\nmode = "observe"\n')
    status, out, err = steadyhelm(f"lab judge {path} --import {told} --save")
    assert (2, True) == (status, "--yes" in err)
    assert "+weight = 0.892" in out
    assert "weight" not in settings.read_text()
    status, _, err = steadyhelm(f"lab judge {path} --import {told} --save --yes")
    assert (0, True) == (status, "Set judging.weight" in err)
    assert '# ours\nmode = "observe"\n\n[judging]\nweight = 0.892\n' == settings.read_text()
    assert 0.892 == load().settings.judging_weight
    _, _, err = steadyhelm(f"lab judge {path} --import {told} --save")
    assert "holds this weight already" in err


def test_a_weight_of_too_few_labels_is_not_saved(steadyhelm, labelled, tmp_path):
    """The message says how many there are; the settings stay."""
    path, told = labelled
    told.write_text("".join(told.read_text().splitlines(keepends=True)[:99]))
    status, _, err = steadyhelm(f"lab judge {path} --import {told} --save --yes")
    assert (1, True) == (status, "100 verdicts on labelled cases or more, and there are 99" in err)
    assert not (tmp_path / "steadyhelm.toml").exists()


def test_a_file_that_exists_is_not_replaced_without_a_word(steadyhelm, runs, tmp_path):
    """Verdicts of people are not overwritten by a new export."""
    kept = tmp_path / "kept.jsonl"
    kept.write_text("work")
    status, _, err = steadyhelm(f"lab judge {runs} --export {kept}")
    assert (2, True) == (status, "--yes" in err)
    assert "work" == kept.read_text()


def test_only_runs_of_a_group_are_judged(steadyhelm, runs):
    """Tiers are measured by themselves; a group that nobody is in is an error."""
    _, out, _ = steadyhelm(f"lab judge {runs} --oracle --group hard --json")
    assert 1 == json.loads(out)["sets"][0]["runs"]
    status, _, err = steadyhelm(f"lab judge {runs} --oracle --group none")
    assert (2, True) == (status, "no run is in the group none" in err)


def test_runs_without_labels_are_only_counted(steadyhelm, tmp_path):
    """The report says so, instead of showing figures of nothing."""
    path = tmp_path / "plain.jsonl"
    path.write_text(json.dumps({"run_id": "r", "events": [call("row 1")]}) + "\n")
    _, out, _ = steadyhelm(f"lab judge {path} --oracle")
    assert "No run is labelled" in out
    assert "No question was raised." in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "give run files, or --replies FILE"),
        ("runs.jsonl --oracle --import told.jsonl", "exclude each other"),
        ("runs.jsonl --oracle --judge openai:m", "exclude each other"),
        ("runs.jsonl --oracle-errors 0.1", "--oracle-errors needs --oracle"),
        ("--replies missing.jsonl", "there is no file"),
        ("runs.jsonl --oracle --save", "--save needs verdicts of a judge"),
    ],
)
def test_options_that_make_no_sense_are_refused(steadyhelm, options, said):
    """The message says what to give."""
    status, _, err = steadyhelm(f"lab judge {options}")
    assert (2, True) == (status, said in err)
