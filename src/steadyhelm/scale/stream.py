"""Judge streams of events on Spark, after the fact: the state of each run is its saved session.

Messages come from a Kafka-protocol broker or from files. Spark keeps the state of runs in its checkpoint: a
batch that is repeated after a crash has the same results.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from steadyhelm.scale.results import RESULT_COLUMNS, StreamSink
from steadyhelm.scale.snapshot import KnowledgeSnapshot
from steadyhelm.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


class Source(Struct, frozen=True):
    """A source of Spark: its format and its options. Both kinds are opened the same way."""

    format: str
    options: dict[str, str] = field(default_factory=dict)

    def open(self, spark: "SparkSession") -> "DataFrame":
        """Return the stream of messages, with a column `value`."""
        opened = spark.readStream.format(self.format).options(**self.options).load()
        return opened.selectExpr("CAST(value AS STRING) AS value")


def read_kafka(servers: str, topic: str, options: Mapping[str, str] | None = None) -> Source:
    """Return the source of a topic whose messages are keyed by run id.

    Kafka, Redpanda and other brokers that speak its protocol keep the order of messages with the same key.

    Args:
        servers: Addresses of the brokers, as `host:port,host:port`.
        topic: The topic.
        options: Further options of Spark's Kafka source, such as `kafka.security.protocol`.

    >>> read_kafka("broker:9092", "steps").options["subscribe"]
    'steps'
    """
    given = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "50000",
    }
    return Source("kafka", {**given, **(options or {})})


def read_files(folder: str, options: Mapping[str, str] | None = None) -> Source:
    """Return the source of a folder to which files are added, with a message on each line.

    A file must appear whole: write it elsewhere, then move it into the folder.

    >>> read_files("/data/steps").options["path"]
    '/data/steps'
    """
    return Source("text", {"path": folder, "maxFilesPerTrigger": "1000", **(options or {})})


IDLE_S: Final = 1800.0
LATENESS_S: Final = 600.0


def judge_stream(
    messages: "DataFrame",
    settings: Settings,
    knowledge: KnowledgeSnapshot | None = None,
    *,
    idle_s: float | None = IDLE_S,
    lateness_s: float = LATENESS_S,
) -> "DataFrame":
    """Judge a stream of messages; return the stream of results, with `RESULT_COLUMNS`.

    Args:
        messages: A stream with a column `value`: messages as `encode_event` writes them.
        settings: The detectors and their options.
        knowledge: The baselines, sent to every worker; a run keeps the one it began with.
        idle_s: Seconds of event time without an event after which a run has ended; None ends runs by
            `encode_end` alone, without a watermark.
        lateness_s: How far behind the latest event of all runs an event may be; a later one is dropped.
    """
    from steadyhelm.scale.run_processor import RunProcessor  # noqa: PLC0415 - an extra

    keyed = messages.selectExpr(
        "get_json_object(value, '$.run.agent_id') AS agent_id",
        "get_json_object(value, '$.run.run_id') AS run_id",
        "timestamp_seconds(CAST(coalesce(get_json_object(value, '$.event.timestamp'), "
        "get_json_object(value, '$.ended_at')) AS DOUBLE)) AS event_time",
        "value",
    )
    if idle_s is not None:
        keyed = keyed.withWatermark("event_time", f"{lateness_s:g} seconds")
    processor = RunProcessor(settings, knowledge, idle_s)
    return keyed.groupBy("agent_id", "run_id").transformWithState(
        statefulProcessor=processor,
        outputStructType=RESULT_COLUMNS,
        outputMode="Update",
        timeMode="None" if idle_s is None else "EventTime",
    )


def start_stream(
    spark: "SparkSession",
    source: Source,
    sink: StreamSink,
    *,
    checkpoint: str,
    settings: Settings,
    knowledge: KnowledgeSnapshot | None = None,
    idle_s: float | None = IDLE_S,
    lateness_s: float = LATENESS_S,
    until_caught_up: bool = False,
) -> "StreamingQuery":
    """Start to judge a source, with results to a sink; started again, it goes on where it was.

    Args:
        spark: The Spark session.
        source: Where messages come from.
        sink: Where results are written.
        checkpoint: The folder of Spark's checkpoint: offsets, and the state of every run.
        settings: See `judge_stream`, as for the next three.
        knowledge: See there.
        idle_s: See there.
        lateness_s: See there.
        until_caught_up: End when everything that is there now was judged, instead of waiting for more.
    """
    results = judge_stream(source.open(spark), settings, knowledge, idle_s=idle_s, lateness_s=lateness_s)
    writer = results.writeStream.outputMode("update").foreachBatch(sink.write)
    writer = writer.option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if until_caught_up else writer).start()
