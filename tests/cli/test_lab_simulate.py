import json
import shlex

import pytest
from whole_program import steadyhelm as program

CALL = {"type": "tool_call", "name": "find", "args": {"q": "x"}, "tokens": 100}
STUCK = {"run_id": "stuck", "outcome": "failure", "events": [{**CALL, "result": "none"}] * 12}
FINE = {
    "run_id": "fine",
    "outcome": "success",
    "events": [{**CALL, "args": {"q": i}, "result": f"row {i} of many"} for i in range(6)],
}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path / "home"))
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(run) + "\n" for run in (STUCK, FINE)))
    return path


def simulate(line):
    return program("lab", "simulate", *shlex.split(line))


class TestSimulate:
    def test_text(self, runs):
        """
        The report says what looping and healthy runs would have got, and fits a screen.
        """
        answer = simulate(f"{runs} --bootstrap 20")
        assert 0 == answer.status
        assert "runs          1     1 1 [.21, 1]" in answer.out
        assert max(map(len, answer.out.splitlines())) <= 80

    def test_json(self, runs):
        """
        As JSON the report is one document.
        """
        [document] = simulate(f"{runs} --bootstrap 20 --json").documents
        assert (2, True) == (document["together"]["runs"], document["is_harmless"])

    def test_html(self, runs, tmp_path):
        """
        The page is written beside the text.
        """
        answer = simulate(f"{runs} --bootstrap 20 --html {tmp_path / 'page.html'}")
        assert (0, True) == (answer.status, "page.html" in answer.err)
        assert "<svg" in (tmp_path / "page.html").read_text()

    def test_a_settings_file(self, runs, tmp_path):
        """
        The policy is read from the file named, its budget too.
        """
        (tmp_path / "strict.toml").write_text("[budget]\nsteps = 3\n")
        [document] = simulate(f"{runs} --config {tmp_path / 'strict.toml'} --json").documents
        assert ["fine"] == [one["run_id"] for one in document["together"]["budget"]["harmed"]]

    def test_the_policy_by_itself(self, runs):
        """
        Single settings of the policy and its budget can be given by name.
        """
        [document] = simulate(
            f"{runs} --policy replan_threshold=0.4 --policy budget.steps=5 --json"
        ).documents
        assert (0.4, {"steps": 5}) == (document["thresholds"]["replan"], document["limits"])

    def test_too_many_disturbed(self, runs):
        """
        A policy that disturbs more than 2 in 100 healthy runs ends with status 3, and names them.
        """
        answer = simulate(f"{runs} --policy budget.steps=3")
        assert 3 == answer.status
        assert "NOT met" in answer.out
        assert "runs: fine" in answer.out

    def test_how_many_are_shown(self, runs):
        """
        As many disturbed runs are listed as were asked for; the rest is counted.
        """
        answer = simulate(f"{runs} --policy budget.steps=3 --shown 0")
        assert "1 not shown" in answer.out
        assert "runs: fine" not in answer.out

    def test_broken_lines(self, runs):
        """
        A line that cannot be read is named, the rest is simulated, and the status is 1.
        """
        runs.write_text(runs.read_text() + "broken\n")
        answer = simulate(f"{runs} --bootstrap 20")
        assert (1, True, True) == (answer.status, "runs:3" in answer.err, "RESPONSE LEVELS" in answer.out)

    @pytest.mark.parametrize(
        "line", ["nowhere.jsonl", "", "{} --policy steps", "{} --policy alerts.webhook=x"]
    )
    def test_usage(self, runs, line):
        """
        A path that is not there, no path, or a policy that is none is a mistake in usage.
        """
        assert 2 == simulate(line.format(runs)).status

    def test_a_setting_nobody_knows(self, runs):
        """
        A setting nobody knows is named.
        """
        from steadyhelm.errors import SettingsError

        with pytest.raises(SettingsError, match=r"policy\.nudge"):
            simulate(f"{runs} --policy nudge=1")

    def test_no_runs(self, tmp_path):
        """
        A file without runs is said to hold none.
        """
        (tmp_path / "empty.jsonl").write_text("\n")
        answer = simulate(str(tmp_path / "empty.jsonl"))
        assert (1, True) == (answer.status, "no runs were found" in answer.err)
