import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from conftest import write_messages

from steadyhelm.components import open_store
from steadyhelm.replay import Judge
from steadyhelm.scale import read_results
from steadyhelm.settings import Settings

DRIVER = Path(__file__).with_name("stream_driver.py")


def start(folder, point, batch):
    """Start the driver in a process group of its own, with Spark's Java in it."""
    with (folder / f"{point}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(DRIVER), str(folder), point, str(batch)],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def kill_at(folder, point, batch):
    """Kill the driver and Java, as a machine dies, once they have reached the point."""
    driver = start(folder, point, batch)
    marker = folder / f"{point}-reached"
    try:
        while not marker.exists():
            assert driver.poll() is None, (folder / f"{point}.log").read_text()
            time.sleep(0.2)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def incident(kind, first, last, peak, severity, message):
    return kind, first, last, round(peak, 4), str(severity), message


def test_killed_twice_it_says_the_same(spark, runs, known, tmp_path):
    """
    Killed after the sink wrote, and again half way through a batch, a stream goes on: the same findings,
    incidents and places, with learnt baselines, and nothing twice.

        batch 0   batch 1 ── written, killed   batch 1 again   batch 2 ── half judged, killed   batch 2 again
    """
    write_messages(runs, tmp_path / "in", files=3)
    kill_at(tmp_path, "after-write", 1)
    assert not (tmp_path / "checkpoint/commits/1").exists()
    kill_at(tmp_path, "mid-batch", 2)
    assert (tmp_path / "checkpoint/commits/1").exists()
    assert not (tmp_path / "results/batch=00000002").exists()
    last = start(tmp_path, "never", 0)
    assert 0 == last.wait(), (tmp_path / "never.log").read_text()

    written = spark.read.parquet(str(tmp_path / "results")).collect()
    rows = [(row, json.loads(row.body)) for row in read_results(spark, str(tmp_path / "results")).collect()]
    assert max(Counter((it.run_id, it.id) for it in written if it.kind == "finding").values()) == 1
    store = open_store(Settings(db=str(known)), read_only=True)
    judge = Judge(Settings(), store=store)
    for run in runs:
        report, incidents = judge.judge(run)[1:3]
        mine = [(row, it) for row, it in rows if row.run_id == run.info.run_id]
        assert Counter((it.at, it.detector, it.severity, it.score, it.message) for it in report.findings) == (
            Counter(
                (int(it["event_id"]), it["detector"], it["severity"], it["score"], it["message"])
                for row, it in mine
                if row.kind == "finding"
            )
        )
        assert {
            it.incident_id: incident(it.kind, it.opened_seq, it.last_seq, it.peak, it.severity, it.message)
            for it in incidents
        } == {
            row.id: incident(
                it["kind"], it["opened_seq"], it["last_seq"], it["peak"], it["severity"], it["message"]
            )
            for row, it in mine
            if row.kind == "incident"
        }
    store.close()
    assert any(row.kind == "incident" for row, _ in rows)
    assert any(json.loads(row.body)["not_checked"] for row, _ in rows if row.kind == "run")
