"""Kill a stream as a machine dies, and compare what it says in the end with what a scan says."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from steadyhelm.scale import encode_end, encode_run, read_results

DRIVER = Path(__file__).with_name("stream_driver.py")


def write_files(folder, files):
    """Write messages to files that are a second apart: Spark reads files in the order of their times."""
    folder.mkdir()
    for number, lines in enumerate(files):
        path = folder / f"{number}.txt"
        path.write_bytes(b"\n".join(lines) + b"\n")
        os.utime(path, (1_700_000_000 + number,) * 2)


def write_messages(runs, folder, *, files):
    """Write the messages of all runs to files, so that every run is cut over all of them."""
    parts = [[] for _ in range(files)]
    for run in runs:
        messages = [*encode_run(run), encode_end(run.info, run.events[-1].timestamp)]
        for number, part in enumerate(parts):
            part.extend(messages[len(messages) * number // files : len(messages) * (number + 1) // files])
    write_files(folder, parts)


def judge_and_kill_twice(folder):
    """Judge the three files in `folder/in`, compared with `folder/known.db`, and kill the stream twice.

    batch 0   batch 1 ── written, killed   batch 1 again   batch 2 ── half judged, killed   batch 2 again
    """
    kill_at(folder, "after-write", 1)
    assert not (folder / "checkpoint/commits/1").exists()
    kill_at(folder, "mid-batch", 2)
    assert (folder / "checkpoint/commits/1").exists()
    assert not (folder / "results/batch=00000002").exists()
    last = start(folder, "never", 0)
    assert 0 == last.wait(), (folder / "never.log").read_text()


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
    """Kill the driver and Java once they have reached the point."""
    driver = start(folder, point, batch)
    marker = folder / f"{point}-reached"
    try:
        while not marker.exists():
            assert driver.poll() is None, (folder / f"{point}.log").read_text()
            time.sleep(0.2)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def read_rows(spark, folder):
    """Return the newest version of each result with its body, and how many findings were written twice."""
    results = str(folder / "results")
    written = spark.read.parquet(results).where("kind = 'finding'").collect()
    twice = len(written) - len({(it.agent_id, it.run_id, it.id) for it in written})
    return [(row, json.loads(row.body)) for row in read_results(spark, results).collect()], twice


def find_differences(rows, judged_runs):
    """Return what the stream says otherwise than a scan: of which run, and of what."""
    by_run = {}
    for row, body in rows:
        by_run.setdefault((row.agent_id, row.run_id), []).append((row, body))
    found = []
    for judged in judged_runs:
        mine = by_run.get((judged.run.info.agent_id, judged.run.info.run_id), [])
        compared = {
            "findings": (_list_findings(judged), _list_streamed_findings(mine)),
            "incidents": (_list_incidents(judged), _list_streamed_incidents(mine)),
            "responses": (
                [(judged.report.action, judged.report.tokens_saved)],
                [(it["action"], it["tokens_saved"]) for row, it in mine if row.kind == "run"],
            ),
        }
        found += [f"{what} of {judged.run.info.run_id}" for what, (a, b) in compared.items() if a != b]
    return found


def _list_findings(judged):
    return Counter(
        (it.at, it.detector, str(it.severity), it.score, it.message) for it in judged.report.findings
    )


def _list_streamed_findings(rows):
    return Counter(
        (int(it["event_id"]), it["detector"], it["severity"], it["score"], it["message"])
        for row, it in rows
        if row.kind == "finding"
    )


def _list_incidents(judged):
    return {
        it.incident_id: (
            *(it.kind, it.opened_seq, it.last_seq),
            *(round(it.peak, 4), str(it.severity), it.message),
        )
        for it in judged.incidents
    }


def _list_streamed_incidents(rows):
    return {
        row.id: (
            *(it["kind"], it["opened_seq"], it["last_seq"]),
            *(round(it["peak"], 4), it["severity"], it["message"]),
        )
        for row, it in rows
        if row.kind == "incident"
    }
