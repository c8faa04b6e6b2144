import json
from collections import Counter

from conftest import in_order
from killed_streams import write_files, write_messages

from steadyhelm import RunInfo, TraceEvent
from steadyhelm.replay import Replayer
from steadyhelm.scale import ParquetSink, encode_end, encode_event, read_files, read_results, start_stream
from steadyhelm.settings import Settings


def judge_files(spark, folder, out, **options):
    """Judge everything in a folder, a file a batch; return the results."""
    query = start_stream(
        spark,
        read_files(str(folder), {"maxFilesPerTrigger": "1"}),
        ParquetSink(str(out / "results")),
        checkpoint=str(out / "checkpoint"),
        settings=Settings(),
        until_caught_up=True,
        **options,
    )
    query.awaitTermination()
    return [(row, json.loads(row.body)) for row in read_results(spark, str(out / "results")).collect()]


def expected_findings(runs):
    return Counter(
        (run.info.run_id, found.at, found.detector, found.severity, found.score, found.message)
        for run in runs
        for found in Replayer(Settings()).judge(run).report.findings
    )


def seen_findings(results):
    return Counter(
        (row.run_id, int(it["event_id"]), it["detector"], it["severity"], it["score"], it["message"])
        for row, it in results
        if row.kind == "finding"
    )


class TestStream:
    def test_it_says_what_a_scan_says(self, spark, runs, tmp_path):
        """
        Runs that are cut over three batches have the findings of a scan, each once, at the same places.
        """
        write_messages(runs, tmp_path / "in", files=3)
        results = judge_files(spark, tmp_path / "in", tmp_path, idle_s=None)

        assert expected_findings(runs) == seen_findings(results)
        assert {run.info.run_id for run in runs} == {row.run_id for row, _ in results if row.kind == "run"}

    def test_a_silent_run_ends_by_its_timer(self, spark, runs, tmp_path):
        """
        Without a message of its end, a run ends when event time has passed its last event by `idle_s`.

            run-0 ── 30 s ── run-1 ── a day ── later: both have ended, later has not
        """
        first, second = in_order(runs[:2])
        far = RunInfo(agent_id="mender", run_id="later")
        files = [
            [encode_event(run.info, step) for run in (first, second) for step in run.events],
            [encode_event(far, event(far, 0, at=1_700_100_000.0))],
            [encode_event(far, event(far, 1, at=1_700_100_001.0)), b"no message at all"],
        ]
        write_files(tmp_path / "in", files)
        results = judge_files(spark, tmp_path / "in", tmp_path, idle_s=30.0, lateness_s=5.0)
        ended = {row.run_id: it for row, it in results if row.kind == "run"}

        assert {"run-0", "run-1"} == set(ended)
        assert [first.events[-1].timestamp, len(first.events)] == [
            ended["run-0"]["ended_at"],
            ended["run-0"]["events"],
        ]
        assert 1 == sum(row.kind == "unreadable" for row, _ in results)

    def test_what_is_delivered_twice_or_late(self, spark, tmp_path):
        """
        A repeated and a late event are told apart, and a run that has ended stays as it was.
        """
        run = RunInfo(agent_id="mender", run_id="r")
        places = [encode_event(run, event(run, place, at=1_700_000_000.0 + place)) for place in range(6)]
        end = encode_end(run, 1_700_000_006.0)
        files = [[places[0], places[1], places[4]], [places[2], places[4], places[5], end], [places[5], end]]
        write_files(tmp_path / "in", files)
        results = judge_files(spark, tmp_path / "in", tmp_path, idle_s=None)

        assert {(2, "late"), (4, "repeated")} == {
            (it["seq"], it["skipped"]) for row, it in results if row.kind == "skipped"
        }
        assert [4] == [it["events"] for row, it in results if row.kind == "run"]


def event(run, place, *, at):
    return TraceEvent(
        agent_id=run.agent_id,
        run_id=run.run_id,
        action_type="tool_call",
        action_name="read",
        timestamp=at,
        event_id=str(place),
        seq=place,
        output_data={"text": f"line {place}"},
    )
