import json
import os
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from steadyhelm.cli import lab
from steadyhelm.cli.context import GlobalOptions
from steadyhelm.errors import SteadyhelmError

DATA = Path(os.environ.get("STEADYHELM_DATA", Path(__file__).parents[3] / "shared" / "data"))


def call(answer, **keys):
    return {"type": "tool_call", "name": "find", "args": {"q": "x"}, "result": answer, **keys}


LOOP = {"run_id": "stuck", "labels": [{"kind": "loop", "at": 3}], "events": [call("none")] * 12}
FINE = {"run_id": "fine", "labels": [], "events": [call(f"row {i} of many", args={"q": i}) for i in range(6)]}


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(run) + "\n" for run in (LOOP, FINE)))
    return path


@pytest.fixture
def steadyhelm(tmp_path):
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    app.add_typer(lab.app, name="lab")

    def run(line):
        result = CliRunner().invoke(app, shlex.split(line), obj=GlobalOptions())
        if isinstance(result.exception, SteadyhelmError):
            return 1, result.stdout, str(result.exception)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


class TestEval:
    def test_text(self, steadyhelm, runs):
        """
        The report has a line for all detectors together, for each of them, and for each simple rule.
        """
        status, out, _ = steadyhelm(f"lab eval {runs} --bootstrap 20")
        assert 0 == status
        assert "together" in out
        assert "exact repeat, 2 in a row" in out

    def test_json(self, steadyhelm, runs):
        """
        As JSON the report is one document.
        """
        _, out, _ = steadyhelm(f"lab eval {runs} --bootstrap 20 --json")
        [one] = json.loads(out)["sets"]
        assert {"tp": 1, "fp": 0, "fn": 0, "tn": 1} == one["figures"][0]["counts"]

    def test_html(self, steadyhelm, runs, tmp_path):
        """
        The page is written beside the text.
        """
        status, _, err = steadyhelm(f"lab eval {runs} --bootstrap 20 --html {tmp_path / 'lab.html'}")
        assert (0, True) == (status, "lab.html" in err)
        assert "<svg" in (tmp_path / "lab.html").read_text()

    def test_another_label(self, steadyhelm, runs):
        """
        Findings can be held against another label; where nobody used it there are no figures.
        """
        _, out, _ = steadyhelm(f"lab eval {runs} --label resource_abuse --json")
        assert 0 == json.loads(out)["sets"][0]["labelled"]

    def test_broken_lines(self, steadyhelm, runs):
        """
        A line that cannot be read is named, the rest is measured, and the status is 1.
        """
        runs.write_text(runs.read_text() + "broken\n")
        status, out, err = steadyhelm(f"lab eval {runs} --bootstrap 20")
        assert (1, True, True) == (status, "runs:3" in err, "together" in out)

    @pytest.mark.parametrize(("line", "expected"), [("nowhere.jsonl", 2), ("", 2), ("{} --kind x", 2)])
    def test_usage(self, steadyhelm, runs, line, expected):
        """
        A path that is not there, no path, or a kind nobody knows is a mistake in usage.
        """
        assert expected == steadyhelm(f"lab eval {line.format(runs)}")[0]

    def test_no_runs(self, steadyhelm, tmp_path):
        """
        A file without runs is said to hold none.
        """
        (tmp_path / "empty.jsonl").write_text("\n")
        status, _, err = steadyhelm(f"lab eval {tmp_path / 'empty.jsonl'}")
        assert (1, True) == (status, "no runs were found" in err)

    def test_a_named_pipe(self, steadyhelm, tmp_path):
        """
        A pipe, which may never end, is refused in words.
        """
        os.mkfifo(tmp_path / "pipe.jsonl")
        status, _, err = steadyhelm(f"lab eval {tmp_path / 'pipe.jsonl'}")
        assert (1, True) == (status, "is a named pipe, which may never end" in err)


class TestCompare:
    def test_two_settings(self, steadyhelm, runs, tmp_path):
        """
        The runs that two settings judge differently are named.
        """
        for name, repeats in (("a", 3), ("b", 40)):
            (tmp_path / f"{name}.toml").write_text(f"[detectors.action_loop]\nmax_repeats = {repeats}\n")
        status, out, _ = steadyhelm(f"lab compare {tmp_path / 'a.toml'} {tmp_path / 'b.toml'} {runs} --json")
        [one] = json.loads(out)["sets"]
        assert (0, 2) == (status, one["runs"])
        assert one["changed"] == [] or "stuck" == one["changed"][0]["run_id"]

    def test_bad_settings(self, steadyhelm, runs, tmp_path):
        """
        A settings file that is not there is named.
        """
        assert "none.toml" in steadyhelm(f"lab compare {tmp_path / 'none.toml'} {runs} {runs}")[2]


class TestLeakCheck:
    def test_text(self, steadyhelm, runs):
        """
        Each thing shuffled has a line with what came of it.
        """
        status, out, _ = steadyhelm(f"lab leak-check {runs}")
        assert "the order of runs" in out
        assert "LEAK" not in out
        assert status in {0, 3}

    def test_json(self, steadyhelm, runs):
        """
        As JSON there is one report for each set.
        """
        assert ["runs"] == [
            report["name"] for report in json.loads(steadyhelm(f"lab leak-check {runs} --json")[1])["sets"]
        ]


class TestImport:
    @pytest.fixture
    def original(self, tmp_path):
        path = tmp_path / "tasks.json"
        path.write_text(
            json.dumps([{"task_id": 1, "reward": 0, "traj": [{"role": "user", "content": "hi"}]}])
        )
        return path

    def test_written(self, steadyhelm, original, tmp_path):
        """
        The run file holds the runs, with their labels.
        """
        target = tmp_path / "out.jsonl"
        status, _, err = steadyhelm(f"lab import tau {original} -o {target}")
        assert (0, True) == (status, "Wrote 1 run to" in err)
        assert "tau-tasks-1-0" == json.loads(target.read_text())["run_id"]

    def test_a_file_is_not_replaced_unasked(self, steadyhelm, original, tmp_path):
        """
        A file that exists is replaced only when that was said.
        """
        target = tmp_path / "out.jsonl"
        target.write_text("mine")
        assert 2 == steadyhelm(f"lab import tau {original} -o {target}")[0]
        assert "mine" == target.read_text()
        assert 0 == steadyhelm(f"lab import tau {original} -o {target} --yes")[0]

    def test_another_layout(self, steadyhelm, original, tmp_path):
        """
        A file in another layout is refused, and nothing is written.
        """
        status, _, err = steadyhelm(f"lab import trail {original} -o {tmp_path / 'out.jsonl'}")
        assert (1, True) == (status, "not in the layout of TRAIL" in err)
        assert not (tmp_path / "out.jsonl").exists()


class TestAccuracy:
    def test_no_data(self, steadyhelm, tmp_path):
        """
        Without labelled data it says so.
        """
        assert "There is no labelled data" in steadyhelm(f"lab accuracy --data {tmp_path / 'none'}")[2]

    @pytest.mark.skipif(not DATA.is_dir(), reason="the labelled data is not here; set STEADYHELM_DATA")
    def test_table(self, steadyhelm):
        """
        The table has a row for every target.
        """
        status, out, _ = steadyhelm(f"lab accuracy --data {DATA} --no-cost")
        assert status in {0, 3}
        assert 10 == len(out.strip().splitlines())


class TestPlants:
    @pytest.fixture
    def healthy(self, tmp_path):
        path = tmp_path / "healthy.jsonl"
        path.write_text(json.dumps(FINE | {"events": FINE["events"] * 2}) + "\n")
        return path

    def test_planted_and_measured(self, steadyhelm, healthy):
        """
        What `lab mutate` plants, `lab accuracy` measures by class; missed targets end with status 3.
        """
        target = healthy.with_name("planted.jsonl.gz")
        status, _, said = steadyhelm(
            f"lab mutate {healthy} -o {target} --plants 2 --class exact --class echo"
        )
        measured, out, _ = steadyhelm(f"lab accuracy {target} --json")
        classes = {one["name"]: (one["plants"], one["flagged"]) for one in json.loads(out)["classes"]}

        assert (0, "Wrote 4 runs of 2 classes") == (status, said[:25])
        assert (2, 2) == classes["exact"]
        assert 3 == measured or classes["echo"] == (2, 2)

    def test_for_people(self, steadyhelm, healthy):
        """
        The tables name each class with its share and the targets.
        """
        target = healthy.with_name("planted.jsonl")
        steadyhelm(f"lab mutate {healthy} -o {target} --plants 2 --class exact --class batch")
        status, out, _ = steadyhelm(f"lab accuracy {target}")

        assert 0 == status
        assert "planted loops" in out
        assert "healthy stretches" in out
        assert "met." in out.splitlines()[-1]

    def test_runs_without_plants(self, steadyhelm, healthy):
        """
        Files of another origin are refused, with the command that writes the right ones.
        """
        status, _, said = steadyhelm(f"lab accuracy {healthy}")

        assert (2, True) == (status, "steadyhelm lab mutate" in said)

    def test_a_missing_file(self, steadyhelm, tmp_path):
        """
        A path that does not exist is a usage error.
        """
        status, _, said = steadyhelm(f"lab mutate {tmp_path}/none.jsonl -o {tmp_path}/out.jsonl")

        assert (2, True) == (status, "there is no file" in said)

    def test_spliced_and_measured(self, steadyhelm, tmp_path):
        """
        What `lab splice` joins is measured as goal drift, with a baseline learnt from other runs.
        """
        source, target = tmp_path / "tasks.jsonl", tmp_path / "spliced.jsonl"
        tasks = [
            FINE | {"run_id": f"r{n}", "goal": f"task {n}", "events": FINE["events"] * 2} for n in range(4)
        ]
        source.write_text("".join(json.dumps(task) + "\n" for task in tasks))
        wrote, _, said = steadyhelm(f"lab splice {source} -o {target} --plants 3")
        status, out, _ = steadyhelm(f"lab accuracy {target} --learn {source} --learn-from 2 --json")

        assert (0, "Wrote 3 runs") == (wrote, said[:12])
        assert (0, ["spliced"]) == (status, [one["name"] for one in json.loads(out)["classes"]])


class TestFalseAlarms:
    def test_counted(self, steadyhelm, runs):
        """
        Flagged runs are counted by kind, with the runs that were judged.
        """
        status, out, _ = steadyhelm(f"lab false-alarms {runs} --json")
        [counted] = json.loads(out)["sets"]

        assert (0, 2, {"loop": 1}) == (status, counted["runs"], counted["flagged"])

    def test_too_many_to_learn_from(self, steadyhelm, runs):
        """
        Learning from all runs leaves none to judge: a usage error.
        """
        status, _, said = steadyhelm(f"lab false-alarms {runs} --learn-from 2")

        assert (2, True) == (status, "leaves no run to judge" in said)

    def test_weights_by_run_are_of_one_process(self, steadyhelm, runs):
        """
        With labelled replies every run has weights of its own, which only this process knows.
        """
        status, _, said = steadyhelm(f"lab false-alarms {runs} --replies replies.jsonl --jobs 2")

        assert (2, True) == (status, "leave out --jobs" in said)
