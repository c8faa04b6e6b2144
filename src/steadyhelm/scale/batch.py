"""Judge recorded runs on Spark: the same reports as `steadyhelm scan`."""

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from steadyhelm.decisions import Mode
from steadyhelm.findings import Severity
from steadyhelm.hostile_text import encode_safe_json
from steadyhelm.lazy_properties import lazy_property
from steadyhelm.recordings.run_file import ReadRun, RunFile
from steadyhelm.replay import RemoteReplayer, Replayer, call_counted
from steadyhelm.scale.messages import join_messages
from steadyhelm.scale.snapshot import KnowledgeSnapshot, read_snapshot
from steadyhelm.scale.spark import open_spark
from steadyhelm.settings import Settings
from steadyhelm.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession


_RUNS_A_ROUND: Final = 2_000
"""Runs that are sent to Spark at once by `open_spark_replayer`: they wait in the driver's memory."""
_TASKS_PER_CORE: Final = 4
"""Runs differ in length: with several tasks per core the last one does not hold up the rest."""

REPORT_COLUMNS: Final = (
    "agent_id string, run_id string, flagged boolean, report string, problems array<string>"
)
"""What a judged run is in a frame: `report` is one of the runs of `steadyhelm scan --format json`."""


class _Job:
    """What every worker needs to make its replayer, once for all its runs."""

    def __init__(
        self,
        settings: Settings,
        knowledge: KnowledgeSnapshot | None,
        kinds: tuple[str, ...] | None,
        mode: Mode,
    ) -> None:
        self._settings = settings
        self._knowledge = knowledge
        self._kinds = kinds
        self._mode: Mode = mode

    @lazy_property
    def replayer(self) -> Replayer:
        return Replayer(self._settings, store=self._knowledge, kinds=self._kinds, mode=self._mode)


def judge_run_lines(
    lines: "DataFrame", settings: Settings, knowledge: KnowledgeSnapshot | None = None
) -> "DataFrame":
    """Judge the lines of run files; return a frame with `REPORT_COLUMNS`, a row for each run.

    Args:
        lines: A frame whose first column has one run per row, such as `spark.read.text("runs/")` returns.
        settings: The detectors and their options.
        knowledge: The baselines, which are broadcast; None judges each run alone.
    """
    job = _broadcast(lines.sparkSession, settings, knowledge)
    return lines.mapInArrow(partial(_judge_lines, job), REPORT_COLUMNS)


def judge_messages(
    messages: "DataFrame", settings: Settings, knowledge: KnowledgeSnapshot | None = None
) -> "DataFrame":
    """Judge runs whose events are rows, of Parquet files or of a table; return a row for each run.

    Args:
        messages: A frame with a column `value`: messages as `encode_event` writes them, in any order.
        settings: The detectors and their options.
        knowledge: The baselines, which are broadcast; None judges each run alone.
    """
    job = _broadcast(messages.sparkSession, settings, knowledge)
    keyed = messages.selectExpr(
        "get_json_object(CAST(value AS STRING), '$.run.agent_id') AS agent_id",
        "get_json_object(CAST(value AS STRING), '$.run.run_id') AS run_id",
        "CAST(value AS BINARY) AS value",
    )
    grouped = keyed.where("run_id IS NOT NULL").groupBy("agent_id", "run_id")
    # Not a partial function: Spark reads the annotations of what it is given, and knows no annotated ones.
    return grouped.applyInArrow(lambda table: _judge_group(job, table), REPORT_COLUMNS)


@contextmanager
def open_spark_replayer(
    settings: Settings,
    *,
    master: str = "local[*]",
    store: Store | None = None,
    kinds: Collection[str] | None = None,
    mode: Mode = "observe",
) -> Iterator[Replayer]:
    """Yield a replayer whose `judge_all` and `apply` work on Spark, with results in the order of the runs."""
    with open_spark(master) as spark:
        yield _SparkReplayer(spark, settings, store=store, kinds=kinds, mode=mode)


class _SparkReplayer(RemoteReplayer):
    """A replayer that sends runs to Spark, and receives what its workers say of them."""

    def __init__(
        self,
        spark: "SparkSession",
        settings: Settings,
        *,
        store: Store | None,
        kinds: Collection[str] | None,
        mode: Mode,
    ) -> None:
        super().__init__(settings, store=store, kinds=kinds, mode=mode)
        self._spark = spark
        self._job = _broadcast(
            spark,
            settings,
            None if store is None else read_snapshot(store),
            None if kinds is None else tuple(kinds),
            mode,
        )

    def _send(
        self, function: Callable[[Replayer, ReadRun], Any], runs: Iterable[ReadRun]
    ) -> Iterator[tuple[ReadRun, Any]]:
        waiting = iter(runs)
        while sent := list(islice(waiting, _RUNS_A_ROUND)):
            results = self._judge_round(function, sent)
            for place, run in enumerate(sent):
                result, troubles = pickle.loads(results[place])  # noqa: S301 - our own workers wrote it
                self._remote_troubles.update(troubles)
                yield run, result

    def _judge_round(
        self, function: Callable[[Replayer, ReadRun], Any], runs: Sequence[ReadRun]
    ) -> dict[int, bytes]:
        import pyarrow as pa  # noqa: PLC0415 - an extra

        packed = [pickle.dumps(run) for run in runs]
        table = pa.table({"place": list(range(len(runs))), "run": pa.array(packed, pa.binary())})
        tasks = min(len(runs), _TASKS_PER_CORE * self._spark.sparkContext.defaultParallelism)
        frame = self._spark.createDataFrame(table).repartition(tasks)
        judged = frame.mapInArrow(
            partial(_call_with_replayer, self._job, function), "place long, result binary"
        )
        return {row.place: bytes(row.result) for row in judged.collect()}


def _broadcast(
    spark: "SparkSession",
    settings: Settings,
    knowledge: KnowledgeSnapshot | None,
    kinds: tuple[str, ...] | None = None,
    mode: Mode = "observe",
) -> "Broadcast[_Job]":
    return spark.sparkContext.broadcast(_Job(settings, knowledge, kinds, mode))


# --- on the workers --------------------------------------------------------------------------------------


def _judge_lines(job: "Broadcast[_Job]", batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    replayer = job.value.replayer
    for batch in batches:
        lines = (line.encode() if isinstance(line, str) else line for line in batch.column(0).to_pylist())
        read = (item for line in lines if line for item in RunFile(BytesIO(line)))
        yield _make_batch([_report(replayer, run) for run in read if isinstance(run, ReadRun)])


def _judge_group(job: "Broadcast[_Job]", table: "pa.Table") -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415 - an extra

    run = join_messages(table.column("value").to_pylist())
    rows = [] if run is None else [_report(job.value.replayer, run)]
    return pa.Table.from_batches([_make_batch(rows)])


def _report(replayer: Replayer, run: ReadRun) -> dict[str, Any]:
    report = replayer.judge(run).report
    return {
        "agent_id": run.info.agent_id,
        "run_id": run.info.run_id,
        "flagged": report.worst >= Severity.MED.rank,
        "report": encode_safe_json(report).decode(),
        "problems": run.problems,
    }


def _make_batch(rows: Sequence[dict[str, Any]]) -> "pa.RecordBatch":
    import pyarrow as pa  # noqa: PLC0415 - an extra

    text = pa.string()
    schema = pa.schema(
        {
            "agent_id": text,
            "run_id": text,
            "flagged": pa.bool_(),
            "report": text,
            "problems": pa.list_(text),
        }
    )
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def _call_with_replayer(
    job: "Broadcast[_Job]",
    function: Callable[[Replayer, ReadRun], Any],
    batches: "Iterable[pa.RecordBatch]",
) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa  # noqa: PLC0415 - an extra

    replayer = job.value.replayer
    for batch in batches:
        results = []
        for packed in batch.column("run"):
            run = pickle.loads(packed.as_py())  # noqa: S301 - the driver wrote it
            results.append(pickle.dumps(call_counted(replayer, function, run)))
        yield pa.RecordBatch.from_arrays(
            [batch.column("place"), pa.array(results, pa.binary())], names=["place", "result"]
        )
