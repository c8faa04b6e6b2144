import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from watched_agent import CommandLine, work
from whole_program import SOURCE

from steadyhelm.assembly import DriftMonitor


class TestRuns:
    def test_newest_first(self, steadyhelm):
        """
        The list begins with the run that started last.
        """
        expected = ["child", "failing", "costly", "loop-long", "loop-short", "clean-2", "clean-1", "clean-0"]

        assert expected == [row["run_id"] for row in steadyhelm("runs --json").document["runs"]]

    def test_a_line_says_what_happened(self, steadyhelm):
        """
        A run's line has its agent, steps, tokens, findings, incidents with the worst severity, and goal.
        """
        [line] = [line for line in steadyhelm("runs").out.splitlines() if "loop-long" in line]

        began, ended = line.split(" done ")
        assert ["loop-long", "researcher"] == began.split()[:2]
        assert ["5", "500", "-", "4", "1", "■", "HIGH"] == ended.split()[:7]
        assert line.rstrip().endswith("find the cheapest flight to Oslo")

    def test_a_quiet_run_has_no_marks(self, steadyhelm):
        """
        Where nothing was noticed there is a dash, not a nought.
        """
        [line] = [line for line in steadyhelm("runs").out.splitlines() if "clean-0" in line]

        assert ["6", "780", "-", "-", "-"] == line.split(" done ")[1].split()[:5]

    def test_limit(self, steadyhelm):
        """
        No more runs than asked for are shown.
        """
        assert 2 == len(steadyhelm("runs --limit 2 --json").document["runs"])

    def test_limit_of_nothing(self, steadyhelm):
        """
        A list of no runs is a mistake, and a usage error.
        """
        assert 2 == steadyhelm("runs --limit 0").status

    def test_one_agent(self, steadyhelm, database):
        """
        Naming an agent leaves out the runs of others, and the beginning of its name is enough.
        """
        other = DriftMonitor("writer", db_path=database)
        work(other, "essay")
        other.close()

        assert ["essay"] == [row["run_id"] for row in steadyhelm("runs --agent wri --json").document["runs"]]

    def test_unknown_agent(self, steadyhelm):
        """
        A name nobody has is answered with the names there are.
        """
        answer = steadyhelm("runs --agent nobody")

        assert (1, "There is no agent 'nobody'. Known agents: researcher.") == (answer.status, answer.err)

    def test_ambiguous_agent(self, steadyhelm, database):
        """
        A beginning that fits several agents names them.
        """
        for name in ("research-2", "research-3"):
            monitor = DriftMonitor(name, db_path=database)
            work(monitor, f"run of {name}")
            monitor.close()

        answer = steadyhelm("runs --agent research-")

        assert 1 == answer.status
        assert "research-3, research-2. Give more of the name." in answer.err

    def test_hostile_names(self, steadyhelm, database):
        """
        What an agent calls itself or its goal cannot move the cursor or turn the text around.
        """
        hostile = DriftMonitor("evil\x1b[2J", db_path=database)
        work(hostile, "bad\x1b]0;title", goal="a\u202egoal\nsecond line")
        hostile.close()

        answer = steadyhelm("runs")

        assert not {"\x1b", "\u202e"} & set(answer.out)
        assert "evil\\x1b[2J" in answer.out
        assert "goal⏎second line" in answer.out

    def test_nothing_yet(self, empty):
        """
        An empty database gives no table, but what to do next.
        """
        answer = empty("runs")

        assert (0, "") == (answer.status, answer.out)
        assert "steadyhelm init" in answer.err

    def test_no_database(self, apart):
        """
        Without a database the command says where it looked, and what to do.
        """
        answer = CommandLine(apart / "none.db")("runs")

        assert 1 == answer.status
        assert f"There is no database at {apart / 'none.db'} yet." in answer.err

    def test_not_a_database(self, apart):
        """
        A file that is no database is named and left as it is.
        """
        path = apart / "notes.txt"
        path.write_text("dear diary " * 100)

        answer = CommandLine(path)("runs")

        assert 1 == answer.status
        assert str(path) in answer.err
        assert "dear diary " * 100 == path.read_text()


@contextmanager
def following(database):
    """The command in a process of its own, which is ended with the block."""
    command = [sys.executable, "-m", "steadyhelm", "--db", str(database), "runs", "--follow", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def read_changes(child, last):
    """The changes that the command prints, up to the first of this kind."""
    changes = [json.loads(child.stdout.readline())]
    while changes[-1]["change"] != last:
        changes.append(json.loads(child.stdout.readline()))
    return changes


class TestFollow:
    def test_the_list_comes_first(self, steadyhelm):
        """
        What is followed is listed first; runs that do not change are not reported again.
        """
        usual = steadyhelm("runs --limit 3 --json")
        followed = steadyhelm("runs --limit 3 --json --follow-for 0")

        assert (0, usual.document) == (followed.status, followed.document)
        assert "following" in followed.err

    @pytest.mark.skipif(os.name == "nt", reason="a child cannot be sent Ctrl-C there")
    def test_a_run_is_reported_while_it_works(self, database):
        """
        A run is reported when it starts, when an incident opens and when it ends; Ctrl-C ends the command.
        """
        monitor = DriftMonitor("watcher", db_path=database)
        with following(database) as child:
            assert "following" in child.stderr.readline()
            assert "runs" in json.loads(child.stdout.readline())
            with monitor.run(run_id="live", goal="find a flight"):
                for _ in range(5):
                    monitor.record_event("tool_call", "search", input_data={"q": "x"}, output_data="none")
                monitor.flush()
                changes = read_changes(child, "incident")
            monitor.close()
            changes += read_changes(child, "ended")
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=60)

        assert ["started", "incident", "ended"] == list(dict.fromkeys(it["change"] for it in changes))
        assert {"live"} == {it["run"]["run_id"] for it in changes}
        assert 0 == child.returncode
