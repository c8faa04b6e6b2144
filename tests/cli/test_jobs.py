"""Several processes judge runs: the same reports, in the same order."""

import os
import sys

import pytest
from whole_program import call, healthy_line, looping_line, process, run_line, steadyhelm, written

from steadyhelm.assembly import DriftMonitor
from steadyhelm.errors import MissingExtraError, SteadyhelmError
from steadyhelm.recordings.run_file import RunFile
from steadyhelm.replay_pool import Workers, open_replayer
from steadyhelm.settings import Settings


@pytest.fixture
def runs(apart):
    """A folder of runs, with lines and a file in between that cannot be read."""
    folder = apart / "runs"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.jsonl").write_text((healthy_line() + looping_line()) * 3 + "{broken\n")
    (folder / "1b.jsonl").write_text("no run at all\n")
    return folder


class TestScan:
    @pytest.mark.parametrize("kind", ["text", "json", "junit"])
    def test_the_same_report_to_the_byte(self, runs, apart, kind):
        """
        A report is the same with two processes, what cannot be read included, in its place.
        """
        for jobs in ("1", "2"):
            answer = process("scan", runs, "--format", kind, "--output", apart / jobs, "--jobs", jobs)
            assert 1 == answer.status

        assert (apart / "1").read_bytes() == (apart / "2").read_bytes()

    def test_with_baselines(self, runs, apart):
        """
        Each process reads the baselines that were named.
        """
        monitor = DriftMonitor("agent", db_path=apart / "known.db", calibration_runs=1)
        with monitor.run():
            monitor.record_event("tool_call", "ls", output_data="a")
        monitor.close()
        reports = [
            process("scan", runs, "--format", "json", "--baseline", apart / "known.db", "--jobs", jobs).out
            for jobs in ("1", "2")
        ]

        assert reports[0]
        assert reports[0] == reports[1]

    def test_runs_of_every_size(self, apart):
        """
        Runs that are sent alone for their size, and short ones that are sent together, keep their order.
        """
        long = run_line(*(call(result=f"{step} " * 30_000) for step in range(5)), run_id="long")
        file = written(apart, *([healthy_line(), looping_line(), long, healthy_line("last")] * 3))
        one, two = (process("scan", file, "--format", "json", "--jobs", jobs).out for jobs in ("1", "2"))

        assert 12 == one.count('"run_id"')
        assert one == two

    def test_no_number_of_processes(self, runs):
        """
        Fewer than one is refused.
        """
        assert 2 == steadyhelm("scan", runs, "--jobs", "0").status


class TestEngine:
    def test_a_cluster_needs_the_engine(self, runs):
        """
        The address of a cluster alone is refused, with the option that is missing.
        """
        answer = steadyhelm("scan", runs, "--master", "spark://cluster:7077")

        assert 2 == answer.status
        assert "--engine spark" in answer.err

    def test_spark_is_an_extra(self, runs, monkeypatch):
        """
        Where Spark is not installed, the message says how to install it.
        """
        monkeypatch.setitem(sys.modules, "pyspark.sql", None)

        with pytest.raises(MissingExtraError, match=r"steadyhelm\[spark\]"):
            steadyhelm("scan", runs, "--engine", "spark")


class TestLab:
    @pytest.mark.parametrize("command", ["eval", "simulate", "false-alarms", "leak-check"])
    def test_the_same_figures(self, runs, command):
        """
        Whatever the lab measures does not depend on how many processes judge.
        """
        files = [runs / f"{number}.jsonl" for number in range(2)]
        one, two = (process("lab", command, *files, "--json", "--jobs", jobs).out for jobs in ("1", "2"))

        assert one
        assert one == two


def _end_process(replayer, run):
    os._exit(9)


class TestPool:
    def test_a_process_that_ends_is_named(self, runs):
        """
        A process that the system ended is an error with what to try, not a wait without end.
        """
        with (
            open_replayer(Settings(), workers=Workers(2)) as replayer,
            pytest.raises(SteadyhelmError, match="--jobs 1"),
        ):
            list(replayer.apply(_end_process, list(RunFile(runs / "0.jsonl"))[:2]))

    def test_a_caller_that_stops_early(self, runs):
        """
        Who looks at the first run only does not wait for all of them.
        """
        with open_replayer(Settings(), workers=Workers(2)) as replayer:
            judged = next(iter(replayer.judge_all(list(RunFile(runs / "0.jsonl"))[:6])))

        assert "fine" == judged.run.info.run_id
