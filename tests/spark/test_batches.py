import json

import pytest
from typer.testing import CliRunner

from steadyhelm.cli.main import app
from steadyhelm.components import open_store
from steadyhelm.hostile_text import encode_safe_json
from steadyhelm.replay import Replayer
from steadyhelm.replay_pool import Workers, open_replayer
from steadyhelm.scale import encode_run, judge_messages, judge_run_lines, read_snapshot
from steadyhelm.settings import Settings


def steadyhelm(*arguments):
    return CliRunner().invoke(app, [str(it) for it in arguments])


@pytest.fixture
def store(known):
    store = open_store(Settings(db=str(known)), read_only=True)
    yield store
    store.close()


def reports(runs, store=None):
    replayer = Replayer(Settings(), store=store)
    return {run.info.run_id: encode_safe_json(replayer.judge(run).report).decode() for run in runs}


class TestCommands:
    @pytest.mark.parametrize("kind", ["json", "text"])
    def test_a_scan_is_the_same_to_the_byte(self, spark, run_file, known, kind):
        """
        With learnt baselines, and with what cannot be read in its place, a report is the same on Spark.
        """
        arguments = ("scan", run_file, "--format", kind, "--baseline", known)
        here, there = (steadyhelm(*arguments, *more) for more in ((), ("--engine", "spark")))

        assert here.stdout_bytes
        assert (here.exit_code, here.stdout_bytes) == (there.exit_code, there.stdout_bytes)

    @pytest.mark.parametrize("command", ["eval", "false-alarms"])
    def test_the_lab_measures_the_same(self, spark, run_file, tmp_path, command):
        """
        What the lab measures does not depend on where runs are judged.
        """
        readable = tmp_path / "readable.jsonl"
        readable.write_text(run_file.read_text().replace("{broken\n", ""))
        here, there = (
            steadyhelm("lab", command, readable, "--json", *more) for more in ((), ("--engine", "spark"))
        )

        assert json.loads(here.stdout)
        assert here.stdout == there.stdout


class TestJudge:
    def test_runs_come_back_in_order(self, spark, runs, store):
        """
        Runs, incidents, answers and summaries are those of one process, in the order of the runs.
        """
        expected = list(Replayer(Settings(), store=store).judge_all(runs))
        with open_replayer(Settings(), workers=Workers(spark_master="local[2]"), store=store) as replayer:
            judged = list(replayer.judge_all(runs))

        assert expected == judged

    def test_the_session_that_is_there_is_used(self, spark, runs):
        """
        Where Spark runs already, as on a cluster's notebook, it is used and not stopped.
        """
        with open_replayer(Settings(), workers=Workers(spark_master="local[2]")) as replayer:
            next(replayer.judge_all(runs[:1]))

        assert 1 == spark.range(1).count()


class TestFrames:
    def test_lines_of_run_files(self, spark, run_file, runs, store):
        """
        Every readable line is a run, and its report is that of `steadyhelm scan`.
        """
        lines = spark.read.text(str(run_file))
        judged = judge_run_lines(lines, Settings(), read_snapshot(store)).collect()

        assert reports(runs, store) == {row.run_id: row.report for row in judged}
        assert {True, False} == {row.flagged for row in judged}

    def test_events_in_parquet(self, spark, runs, store, tmp_path):
        """
        Events in any order, as rows of Parquet files or of a table, are joined to runs.
        """
        rows = [(message.decode(),) for run in runs for message in encode_run(run)]
        rows = rows[1::2] + rows[::2] + rows[:3]  # shuffled, and some of them twice
        spark.createDataFrame(rows, "value string").write.parquet(str(tmp_path / "events"))
        events = spark.read.parquet(str(tmp_path / "events"))
        judged = judge_messages(events, Settings(), read_snapshot(store)).collect()

        assert reports(runs, store) == {row.run_id: row.report for row in judged}
