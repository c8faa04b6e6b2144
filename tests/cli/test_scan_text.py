import re
from pathlib import Path

import pytest
from whole_program import call, healthy_line, looping_line, process, run_line, steadyhelm, written


@pytest.fixture
def runs(apart):
    """A file with a clean run and a looping one."""
    file = apart / "runs.jsonl"
    file.write_text(healthy_line() + looping_line())
    return file


class TestText:
    def test_block(self, apart):
        """
        A flagged run shows what was found and when, the repeated call, and what would have been done.
        """
        file = written(apart, looping_line(agent_id="finder"))
        lines = [line.rstrip() for line in steadyhelm("scan", file).out.splitlines()]

        assert lines[0].endswith(f" stuck  finder  {file}:1")
        assert "  goal      find x" == lines[1]
        assert lines[2].startswith("  loop      ")
        assert lines[3].startswith("  when      steps 1-6 of 6, noticed at step ")
        assert [
            '              6x search {"q":"x"} → nothing',
            "  run       [......]",
        ] == lines[4:6]
        assert lines[6].startswith("  response  remind at step ")
        assert re.search(r"; \d steps? and \d00 of 600 tokens came after a new plan was due$", lines[6])

    def test_clean_runs_are_counted(self, apart):
        """
        Clean runs take no room; --verbose names them.
        """
        file = written(apart, healthy_line("one"), healthy_line("two"))

        assert "one" not in steadyhelm("scan", file).out
        assert "· clean one  5 steps" in steadyhelm("scan", file, "--verbose").out
        assert "2 runs, 0 flagged" == steadyhelm("scan", file).out.splitlines()[-1]

    def test_blindness_is_told(self, apart):
        """
        What could not be checked is counted at the end.
        """
        out = steadyhelm("scan", written(apart, healthy_line())).out

        assert "not checked: goal_drift in 1 of 1 runs (no goal was given)" in out

    def test_hostile_words(self, apart):
        """
        Nothing an agent wrote reaches the terminal unescaped.
        """
        evil = "\x1b[2J\u202e\r"
        events = [call(name=f"rm{evil}", result=evil)] * 6
        answer = process("scan", written(apart, run_line(*events, run_id=f"r{evil}", goal=evil)))

        assert not set("\x1b\u202e\r") & set(answer.out + answer.err)

    def test_secrets(self, apart):
        """
        A secret among the evidence is not shown.
        """
        events = [call(args={"url": "https://ann:hunter2@example.org"}, result="password=swordfish1")] * 6
        out = steadyhelm("scan", written(apart, run_line(*events))).out

        assert "6x search" in out
        assert "hunter2" not in out
        assert "swordfish1" not in out

    def test_plain_in_a_pipe(self, runs):
        """
        Without a terminal there are no colours and no bar.
        """
        answer = process("scan", runs, environment={"NO_COLOR": ""})

        assert ("", True) == (answer.err, "\x1b" not in answer.out)

    def test_poor_terminals(self, runs):
        """
        A terminal that knows only ASCII gets escapes, not a traceback.
        """
        answer = process("scan", runs, environment={"PYTHONIOENCODING": "ascii"})

        assert (3, "") == (answer.status, answer.err)


class TestDocs:
    def test_the_example_is_real(self, apart):
        """
        The example on the page about scan prints what the page says.
        """
        page = (Path(__file__).parents[2] / "docs" / "scan.md").read_text()
        file, report = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
        [text] = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
        Path("support.jsonl").write_text(file)

        assert text == steadyhelm("scan", "support.jsonl").out
        assert (
            report == steadyhelm("scan", "support.jsonl", "--format", "json").out.splitlines(keepends=True)[1]
        )
