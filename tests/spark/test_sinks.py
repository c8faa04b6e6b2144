import psycopg

from steadyhelm.scale import ParquetSink, PostgresSink, read_results
from steadyhelm.scale.results import RESULT_COLUMNS


def rows(*given):
    """Results of one run: their ids, versions and bodies."""
    return [("agent", "run", "incident", key, version, "MED", 1.0, body) for key, version, body in given]


def batches(spark):
    """Two batches, the first of them twice, and an old version that comes last."""
    first = rows(("a", 1, "opened"), ("b", 1, "opened\0"))
    return [
        (number, spark.createDataFrame(it, RESULT_COLUMNS))
        for number, it in [
            (0, first),
            (0, first),
            (1, rows(("a", 5, "closed"))),
            (2, rows(("a", 3, "worse"))),
        ]
    ]


def test_postgres_keeps_the_newest_by_key(spark, postgres_url):
    """
    A batch that is written twice is there once, a newer version replaces an older one, and never the reverse.
    """
    sink = PostgresSink(postgres_url)
    for number, frame in batches(spark):
        sink.write(frame, number)
    with psycopg.connect(postgres_url) as connection:
        stored = connection.execute("SELECT id, version, body FROM steadyhelm_results ORDER BY id").fetchall()

    assert [("a", 5, "closed"), ("b", 1, "opened\u2400")] == stored


def test_parquet_replaces_the_part_of_a_batch(spark, tmp_path):
    """
    Each batch has one part, which replaces an earlier one; readers see the newest version of each result.
    """
    sink = ParquetSink(str(tmp_path / "results"))
    for number, frame in batches(spark):
        sink.write(frame, number)
    read = read_results(spark, str(tmp_path / "results")).collect()

    assert {("a", 5, "closed"), ("b", 1, "opened\0")} == {(row.id, row.version, row.body) for row in read}
    assert 4 == spark.read.parquet(str(tmp_path / "results")).count()
