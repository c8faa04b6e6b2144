"""Start Spark, or use the session that is there."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from steadyhelm.errors import MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL: Final = "local"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.ui.showConsoleProgress": "false",
}
"""What the functions of this package need, or are better with; `transformWithState` needs RocksDB."""


@contextmanager
def open_spark(
    master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> "Iterator[SparkSession]":
    """Yield a Spark session: the active one where there is one, else a new one that is stopped at the end.

    Args:
        master: The cluster's URL, or `local[N]` for N threads of this machine.
        settings: Further settings of Spark.

    Raises:
        MissingExtraError: pyspark is not installed.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise MissingExtraError("Spark engine", extra="spark") from exc
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    if master.startswith(_LOCAL):
        # The workers of this machine use this Python, with what is installed in it.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("steadyhelm")
    for name, value in {**_choose_local_settings(master), **SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _choose_local_settings(master: str) -> dict[str, str]:
    """Return settings for one machine: no page, nothing but the loopback address, few partitions."""
    if not master.startswith(_LOCAL):
        return {}
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    }
