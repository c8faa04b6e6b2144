import os

import pytest
from whole_program import call, healthy_line, looping_line, process, run_line, steadyhelm, written

LARGE = run_line({"type": "llm_output", "text": "a long story", "tokens": 90_000})


@pytest.fixture
def runs(apart):
    """A file with a clean run and a looping one."""
    file = apart / "runs.jsonl"
    file.write_text(healthy_line() + looping_line())
    return file


class TestExitStatus:
    def test_clean(self, apart):
        """
        0: nothing was found.
        """
        assert 0 == process("scan", written(apart, healthy_line())).status

    def test_flagged(self, runs):
        """
        3: a run was flagged.
        """
        assert 3 == process("scan", runs).status

    def test_unreadable_wins(self, apart):
        """
        1: a line could not be read, whatever else was found; the rest is judged.
        """
        answer = process("scan", written(apart, looping_line(), "{\n", healthy_line()))

        assert 1 == answer.status
        assert "written.jsonl:2: " in answer.err
        assert "2 runs, 1 flagged (1 loop), 1 unreadable" in answer.out

    def test_read_in_part(self, apart):
        """
        1: something of a run was left out; it is named with file, line and run.
        """
        answer = process("scan", written(apart, run_line(call(), {"type": "dance"})))

        assert 1 == answer.status
        assert "written.jsonl:1: run r1: event 1 has the unknown type 'dance'; left out" in answer.err
        assert "1 run, 0 flagged, 1 read in part" in answer.out

    def test_odd_but_read(self, apart):
        """
        What was odd and could still be read is told only to those who ask.
        """
        twice = written(apart, healthy_line(), healthy_line())

        assert (0, "") == (steadyhelm("scan", twice).status, steadyhelm("scan", twice).err)
        assert "has the run id 'fine' of line 1 again" in steadyhelm("scan", twice, "--verbose").err

    def test_missing_path(self, apart):
        """
        2: a path that is not there, with what to type.
        """
        answer = process("scan", "nowhere.jsonl")

        assert 2 == answer.status
        assert "there is no file or folder nowhere.jsonl. Try: steadyhelm scan runs.jsonl" in answer.err

    @pytest.mark.parametrize("command", ["scan", "corrections"])
    def test_empty_path(self, apart, command):
        """
        2: an empty path, of a variable that was not set, is not the working directory.
        """
        answer = process(command, "")

        assert (2, "") == (answer.status, answer.out)
        assert f"there is no file or folder ''. Try: steadyhelm {command} runs.jsonl" in answer.err

    @pytest.mark.parametrize(
        "options", [["--fail-on", "awful"], ["--format", "pdf"], ["--baseline", "no.db"]]
    )
    def test_usage(self, runs, options):
        """
        2: an option with a value it cannot have.
        """
        assert 2 == process("scan", runs, *options).status

    def test_no_path(self, apart):
        """
        2: nothing to scan was named.
        """
        assert 2 == process("scan").status

    @pytest.mark.parametrize("content", ["", "\n\n"])
    def test_no_runs(self, apart, content):
        """
        1: a file without runs, which is said.
        """
        answer = process("scan", written(apart, content))

        assert (1, "") == (answer.status, answer.out)
        assert "no runs were found" in answer.err

    def test_empty_folder(self, apart):
        """
        1: a folder without run files, which is named.
        """
        (apart / "folder").mkdir()
        answer = process("scan", "folder")

        assert 1 == answer.status
        assert "folder has no file that ends in .jsonl or .jsonl.gz" in answer.err

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_unreadable_file(self, apart, runs):
        """
        1: a file that may not be opened; the others are read.
        """
        closed = apart / "closed.jsonl"
        closed.touch(mode=0o000)
        answer = process("scan", closed, runs)

        assert 1 == answer.status
        assert "2 runs, 1 flagged" in answer.out

    def test_bad_settings(self, runs, apart):
        """
        2: a setting with a value it cannot have.
        """
        (apart / "steadyhelm.toml").write_text('mode = "shout"\n')

        assert 2 == process("scan", runs).status


class TestFailOn:
    @pytest.mark.parametrize(
        ("times", "level", "status"),
        [
            (6, "low", 3),
            (6, "med", 3),
            (6, "HIGH", 3),
            (4, "critical", 0),
            (9, "CRITICAL", 3),
            (1, "low", 0),
        ],
    )
    def test_from_that_severity(self, apart, times, level, status):
        """
        The exit status is 3 from the severity given; how it is written does not matter.
        """
        assert (
            status == steadyhelm("scan", written(apart, looping_line(times=times)), "--fail-on", level).status
        )

    def test_low_counts_when_asked_for(self, apart):
        """
        With --fail-on low what is only noticed flags a run too, and is shown.
        """
        answer = steadyhelm("scan", written(apart, LARGE), "--fail-on", "low")

        assert 3 == answer.status
        assert "90,000 tokens spent in this run, the limit is 50,000 (LOW, 1 times)" in answer.out

    def test_flagged_without_failing(self, apart):
        """
        A flagged run stays visible when only worse ones fail.
        """
        out = steadyhelm("scan", written(apart, looping_line(times=4)), "--fail-on", "critical").out

        assert "1 run, 1 flagged (1 loop), 0 of them CRITICAL or above" in out
