from contextlib import closing

from killed_streams import find_differences, judge_and_kill_twice, read_rows, write_messages

from steadyhelm.components import open_store
from steadyhelm.replay import Replayer
from steadyhelm.settings import Settings


def test_killed_twice_it_says_the_same(spark, runs, known, tmp_path):
    """
    Killed after the sink wrote, and again half way through a batch, a stream goes on: the same findings,
    incidents, places and ends of runs, with learnt baselines, and nothing twice.
    """
    write_messages(runs, tmp_path / "in", files=3)
    judge_and_kill_twice(tmp_path)

    rows, twice = read_rows(spark, tmp_path)
    with closing(open_store(Settings(db=str(known)), read_only=True)) as store:
        judged = list(Replayer(Settings(), store=store).judge_all(runs))
    assert ([], 0) == (find_differences(rows, judged), twice)
    assert any(row.kind == "incident" for row, _ in rows)
    assert any(body["not_checked"] for row, body in rows if row.kind == "run")
