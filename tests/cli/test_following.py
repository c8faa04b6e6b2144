import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from test_scan_transcripts import lines, session
from whole_program import SOURCE, healthy_line, looping_line, process, steadyhelm, written

from steadyhelm.cli.following import Follower, GrowingFile, follow
from steadyhelm.replay import Replayer
from steadyhelm.settings import Settings


def told(*content):
    """What a follower says about each line."""
    follower = Follower(Replayer(Settings()), least=1)
    return [[said.plain for said in follower.read(line.encode())] for line in content]


class TestFollower:
    def test_a_transcript(self):
        """
        A finding is told with the line that completes it.
        """
        content = lines(*session()).splitlines(keepends=True)
        said = told(*content)

        assert [] == said[0] + said[1] + said[2]
        assert any("s1  step " in one and "loop: " in one for one in said[-1])

    def test_a_run_file(self):
        """
        A line of a run file is a whole run: all that is found in it is told at once.
        """
        healthy, stuck = told(healthy_line(), looping_line())

        assert [] == healthy
        assert any("stuck  step 6  loop: " in one for one in stuck)

    def test_what_cannot_be_read(self):
        """
        Lines that say nothing to us are passed over: the report at the end names them.
        """
        assert [[], [], [], []] == told("{\n", "\n", '{"a": 1}\n', "\x00\n")

    def test_before_the_user_speaks(self):
        """
        What a harness says first waits until the goal is known, and is judged then.
        """
        about = {"type": "user", "sessionId": "s", "isMeta": True}
        harness = {**about, "message": {"role": "user", "content": "a caveat"}}
        said = told(lines(harness), *lines(*session("s")).splitlines(keepends=True))

        assert any("step 8" in one for one in said[-1])


class TestGrowingFile:
    def test_complete_lines_only(self, apart):
        """
        A line is given when its end was written, and once.
        """
        file = apart / "f"
        file.write_bytes(b"one\ntw")
        with GrowingFile(str(file)) as growing:
            taken = [growing.read_lines()]
            with file.open("ab") as out:
                out.write(b"o\nthree\n")
            taken += [growing.read_lines(), growing.read_lines()]

        assert [[b"one\n"], [b"two\n", b"three\n"], []] == taken

    @pytest.mark.parametrize("how", ["cut", "replaced"])
    def test_another_file(self, apart, how):
        """
        A file that is cut or replaced is read from its beginning.
        """
        file = apart / "f"
        file.write_bytes(b"one\ntwo\n")
        with GrowingFile(str(file)) as growing:
            growing.read_lines()
            if how == "replaced":
                (apart / "g").write_bytes(b"another\nlonger one\n")
                (apart / "g").replace(file)
            else:
                file.write_bytes(b"new\n")

            assert growing.read_lines()[0] in {b"another\n", b"new\n"}
            assert growing.has_restarted

    def test_gone_for_a_moment(self, apart):
        """
        A file that is not there just now is waited for.
        """
        file = apart / "f"
        file.write_bytes(b"one\n")
        with GrowingFile(str(file)) as growing:
            file.unlink()

            assert [b"one\n"] == growing.read_lines()


class TestFollow:
    def test_waits_for_more(self, apart):
        """
        While nothing is written it pauses; what is written then is read, also into a new file.
        """
        file = written(apart, healthy_line(steps=50))
        writes = [
            lambda: file.write_text(healthy_line(steps=50) + looping_line("first")),
            lambda: file.write_text(looping_line("second")),
        ]
        said, over = [], [False] * 4 + [True]

        follow(
            str(file),
            lambda: Follower(Replayer(Settings()), least=1),
            lambda text: said.append(text.plain),
            is_over=lambda: over.pop(0),
            pause=lambda _: writes.pop(0)(),
        )

        assert any("first  step 6  loop: " in one for one in said)
        assert any("second  step 6  loop: " in one for one in said)


class TestCommand:
    def test_ends_with_the_usual_report(self, apart):
        """
        After the time given it reports as ever, with the findings in front.
        """
        file = written(apart, looping_line())
        answer = steadyhelm("scan", file, "--follow-for", "0")
        usual = steadyhelm("scan", file)

        assert (usual.status, True) == (answer.status, answer.out.endswith(usual.out))
        assert "stuck  step 6  loop: " in answer.out
        assert "following" in answer.err

    def test_data_and_messages(self, apart):
        """
        Beside data, findings are messages: standard output has the report alone.
        """
        file = written(apart, looping_line())
        answer = process("scan", file, "--follow-for", "0", "--format", "json")

        assert ["stuck"] == [document["run_id"] for document in answer.documents]
        assert "stuck  step 6  loop: " in answer.err

    @pytest.mark.parametrize("paths", [["."], ["-"], ["a.jsonl", "b.jsonl"], ["c.jsonl.gz"]])
    def test_one_file(self, apart, paths):
        """
        Only one file that is being written can be followed.
        """
        for name in ("a.jsonl", "b.jsonl", "c.jsonl.gz"):
            (apart / name).write_text(healthy_line())

        assert 2 == steadyhelm("scan", *paths, "--follow-for", "0").status

    @pytest.mark.skipif(os.name == "nt", reason="a child cannot be sent Ctrl-C there")
    def test_live(self, apart):
        """
        A finding comes while the session goes on; Ctrl-C ends it with the report and the exit status.
        """
        file = apart / "live.jsonl"
        values = list(session())
        file.write_text(lines(*values[:3]))
        with _following(file) as child:
            assert "following" in child.stderr.readline()
            with file.open("a") as out:
                out.writelines(json.dumps(value) + "\n" for value in values[3:])

            assert "loop: " in child.stdout.readline()
            child.send_signal(signal.SIGINT)
            out, _ = child.communicate(timeout=60)

        assert 3 == child.returncode
        assert out.endswith("1 run, 1 flagged (1 loop)\n")


@contextmanager
def _following(file):
    child = subprocess.Popen(
        [sys.executable, "-m", "steadyhelm", "scan", str(file), "--follow", "--follow-for", "120"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "utf-8"},
    )
    try:
        with child:
            yield child
    finally:
        child.kill()
