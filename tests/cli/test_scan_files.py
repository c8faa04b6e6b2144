import gzip
import json
import os
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from whole_program import healthy_line, looping_line, process, scanned, steadyhelm

from steadyhelm.errors import SettingsError


@pytest.fixture
def runs(apart):
    """A file with a clean run and a looping one."""
    file = apart / "runs.jsonl"
    file.write_text(healthy_line() + looping_line())
    return file


class TestInput:
    def test_folders_in_order(self, apart):
        """
        A folder gives its run files, sorted, plain and gzip, and leaves the rest alone.
        """
        folder = apart / "folder"
        (folder / "deeper").mkdir(parents=True)
        (folder / "b.jsonl").write_text(healthy_line("b"))
        (folder / "a.jsonl.gz").write_bytes(gzip.compress(healthy_line("a").encode()))
        (folder / "deeper" / "c.jsonl").write_text(healthy_line("c"))
        (folder / "notes.txt").write_text("not a run")

        assert ["a", "b", "c"] == [report["run_id"] for report in scanned(folder)]

    def test_standard_input(self, apart):
        """
        A dash reads standard input.
        """
        answer = process("scan", "-", "--format", "json", stdin=looping_line().encode())

        assert ["stuck"] == [report["run_id"] for report in answer.documents]

    def test_each_file_once(self, runs):
        """
        A file named twice, or with its folder, is read once.
        """
        assert 2 == len(steadyhelm("scan", runs, runs, runs.parent, "--format", "json").documents)

    def test_what_may_never_end_is_refused(self, runs, apart):
        """
        A named pipe, a socket and a device are refused in words, and the files beside them are read.
        """
        pipe, listening = apart / "pipe.jsonl", socket.socket(socket.AF_UNIX)
        os.mkfifo(pipe)
        with listening:
            listening.bind("listening")
            answer = process("scan", pipe, "listening", "/dev/zero", runs)

        assert 1 == answer.status
        assert f"steadyhelm: '{pipe}' is a named pipe, which may never end. Give a file" in answer.err
        assert "'listening' is a socket, which may never end" in answer.err
        assert "'/dev/zero' is a device, which may never end" in answer.err
        assert "2 runs, 1 flagged" in answer.out

    def test_a_pipe_is_not_followed(self, apart):
        """
        A named pipe cannot be followed, and is not waited for.
        """
        os.mkfifo(apart / "pipe.jsonl")
        answer = process("scan", apart / "pipe.jsonl", "--follow-for", "1")

        assert 2 == answer.status
        assert "--follow takes one file that is being written, not a folder, a pipe" in answer.err

    def test_the_pipe_of_a_shell(self):
        """
        What the program was started with is read under the name that a shell gives it.
        """
        answer = process("scan", "/dev/stdin", "--format", "json", stdin=looping_line().encode())

        assert ["stuck"] == [report["run_id"] for report in answer.documents]

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(content=st.binary(max_size=300))
    def test_anything(self, apart, content):
        """
        Whatever comes in, scan ends with one of its exit statuses and without a traceback.
        """
        assert steadyhelm("scan", "-", stdin=content).status in {0, 1, 3}


class TestOutput:
    def test_to_a_file(self, runs, apart):
        """
        The report goes to the file, the summary to standard error, nothing to standard output.
        """
        answer = process("scan", runs, "--output", "report.txt")

        assert (3, "") == (answer.status, answer.out)
        assert "2 runs, 1 flagged" in answer.err
        assert (apart / "report.txt").read_text().endswith("2 runs, 1 flagged (1 loop)\n")

    @pytest.mark.parametrize("form", ["text", "html", "json", "junit", "github"])
    def test_only_its_owner_may_read_it(self, runs, apart, form):
        """
        A report quotes what agents did: only its owner may read it, and nothing is left beside it.
        """
        steadyhelm("scan", runs, "--format", form, "-o", apart / "report.out")

        assert 0o600 == stat.S_IMODE((apart / "report.out").stat().st_mode)
        assert [] == list(apart.glob(".report*"))

    @pytest.mark.parametrize("form", ["text", "html", "json", "junit", "github"])
    def test_hostile_names_are_harmless_in_every_form(self, runs, apart, form):
        """
        A file, a run or a tool with control or bidirectional characters in its name moves nobody's cursor.
        """
        hostile = "x\x1b[2J\x9b\u202e\u2028y"
        lines = [json.loads(line) for line in Path(runs).read_text().splitlines()]
        for line in lines:
            line["run_id"] += hostile
            for event in line["events"]:
                event["name"] = hostile
        named = apart / f"{hostile}.jsonl"
        named.write_text("".join(json.dumps(line) + "\n" for line in lines))
        shown = steadyhelm("scan", named, "--format", form)
        assert "run" in shown.out
        assert not set("\x1b\x9b\u202e\u2028") & set(shown.out + shown.err)

    def test_replaced_as_a_whole(self, runs, apart):
        """
        A report that cannot be finished leaves the older one as it is.
        """
        report = apart / "report.json"
        report.write_text("older")
        (apart / "steadyhelm.toml").write_text("[detectors.no_such]\nx = 1\n")
        with pytest.raises(SettingsError, match="no_such"):
            steadyhelm("scan", runs, "--output", report)

        assert "older" == report.read_text()
        assert [] == list(apart.glob(".report*"))

    def test_never_over_its_input(self, runs):
        """
        A file that is being read is not written.
        """
        before = runs.read_text()

        assert 2 == steadyhelm("scan", runs, "--output", runs).status
        assert before == runs.read_text()

    @pytest.mark.parametrize("output", ["missing/report.txt", "."])
    def test_no_such_place(self, runs, output):
        """
        An output that cannot be written is a usage error, before anything is read.
        """
        assert 2 == process("scan", runs, "--output", output).status

    def test_devices_stay_devices(self, runs):
        """
        An output that is no ordinary file is written to, not replaced.
        """
        steadyhelm("scan", runs, "--output", os.devnull)

        assert not Path(os.devnull).is_file()
