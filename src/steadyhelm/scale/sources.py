"""Where the messages of a stream come from: a Kafka-protocol broker, or files."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KAFKA_PACKAGE: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
"""The connector, of Spark's own version: not part of pyspark, given with `--packages` or `spark.jars`."""


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
