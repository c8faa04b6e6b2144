"""The same sessions on Spark: recorded runs as a batch, streams of events after the fact.

Needs the extra `spark`; pyspark is imported when a function is called. Nothing here stops an agent: that
happens in the agent's own process.
"""

from steadyhelm.scale.batch import judge_messages, judge_run_lines, open_spark_replayer
from steadyhelm.scale.messages import MessageSink, encode_end, encode_event, encode_run
from steadyhelm.scale.results import ParquetSink, PostgresSink, read_results
from steadyhelm.scale.snapshot import KnowledgeSnapshot, read_snapshot
from steadyhelm.scale.spark import open_spark
from steadyhelm.scale.stream import Source, judge_stream, read_files, read_kafka, start_stream

__all__ = [
    "KnowledgeSnapshot",
    "MessageSink",
    "ParquetSink",
    "PostgresSink",
    "Source",
    "encode_end",
    "encode_event",
    "encode_run",
    "judge_messages",
    "judge_run_lines",
    "judge_stream",
    "open_spark",
    "open_spark_replayer",
    "read_files",
    "read_kafka",
    "read_results",
    "read_snapshot",
    "start_stream",
]
