"""A driver of a stream that a test kills: it judges a folder, and stops for good at the point it is told.

Usage: stream_driver.py FOLDER after-write|mid-batch|never BATCH
"""

import os
import sys
import time
from functools import partial
from pathlib import Path

from steadyhelm.components import open_store
from steadyhelm.scale import ParquetSink, open_spark, read_files, read_snapshot, start_stream
from steadyhelm.settings import Settings

# A Java that lives for a minute gains nothing from compiling well.
QUICK_START = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def stop_for_good(marker):
    """Say that the point is reached, and wait to be killed; a worker whose parent is gone ends."""
    parent = os.getppid()
    marker.touch()
    while os.getppid() == parent:
        time.sleep(0.1)
    os._exit(1)


def judge_half(marker, number, rows):
    """Judge the runs of the first partition; the second one never ends."""
    for _ in rows:
        pass
    if number:
        stop_for_good(marker)
    return iter([number])


class StoppingSink:
    """A Parquet sink that stops at one batch: after it was written, or when half of it was judged."""

    def __init__(self, folder, point, batch):
        self._folder = folder
        self._sink = ParquetSink(str(folder / "results"))
        self._point = point
        self._batch = batch

    def write(self, results, batch_id):
        marker = self._folder / f"{self._point}-reached"
        is_here = batch_id == self._batch
        if is_here and self._point == "mid-batch":
            results.rdd.mapPartitionsWithIndex(partial(judge_half, marker)).count()
        self._sink.write(results, batch_id)
        if is_here and self._point == "after-write":
            stop_for_good(marker)


def main(folder, point, batch):
    sys.path.insert(0, str(Path(__file__).parent))
    folder = Path(folder)
    store = open_store(Settings(db=str(folder / "known.db")), read_only=True)
    with open_spark("local[2]", {**QUICK_START, "spark.sql.shuffle.partitions": "2"}) as spark:
        start_stream(
            spark,
            read_files(str(folder / "in"), {"maxFilesPerTrigger": "1"}),
            StoppingSink(folder, point, int(batch)),
            checkpoint=str(folder / "checkpoint"),
            settings=Settings(),
            knowledge=read_snapshot(store),
            idle_s=None,
            until_caught_up=True,
        ).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
