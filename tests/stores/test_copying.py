"""`db copy`: a SQLite store moves to PostgreSQL, whole and checked, or not at all."""

import time
from contextlib import closing

import pytest

from steadyhelm import DriftMonitor
from steadyhelm.errors import SettingsError, StoreError
from steadyhelm.stores import copying, open_store
from steadyhelm.stores.copying import copy_store, count_rows
from steadyhelm.stores.postgres.schema import PARTITIONED
from steadyhelm.testing.store_records import an_event


@pytest.fixture
def file(tmp_path):
    """A store with a loop, a budget, a suspended run, marks, and a tool whose name holds NUL."""
    path = tmp_path / "source.db"
    with closing(DriftMonitor("worker", db_path=path, mode="guide", calibration_runs=2)) as monitor:
        for number in range(3):
            with monitor.run(goal=f"task {number}", task_type="chore"):
                for place in range(4):
                    monitor.record_event(
                        "tool_call", f"read\0{place}", input_data={"n": [number, place]}, output_data="ok"
                    )
        with monitor.run(goal="mend it", run_id="loop"):
            for _ in range(9):
                monitor.record_event(
                    "tool_call", "test", input_data={"a": 1}, output_data="x", error="failed"
                )
        monitor.start_run("suspended")
        monitor.record_event("llm_request", "model", output_data={"text": "half done"}, token_count=12)
    with closing(open_store(path)) as store:
        incident = store.list_incidents("worker")[0]
        store.review(incident.incident_id, "confirmed")
    return path


@pytest.fixture
def source(file):
    with closing(open_store(file, read_only=True)) as store:
        yield store


@pytest.fixture
def target(postgres_url):
    with closing(open_store(postgres_url)) as store:
        yield store


class TestCopy:
    def test_everything_arrives(self, source, target):
        """
        Runs, steps, payloads, findings, incidents, marks, baselines and saved states are the same in both.
        """
        done = []
        copied = copy_store(source, target, done.append)

        assert copied.is_equal
        assert count_rows(source) == sum(done)
        assert len(source.list_runs()) == copied.runs_compared
        assert source.list_runs() == target.list_runs()
        for run in source.list_runs():
            found = [list(it.iter_run_events("worker", run.run_id)) for it in (source, target)]
            assert found[0] == found[1] != []
        assert source.list_incidents("worker") == target.list_incidents("worker")
        assert source.list_run_summaries("worker") == target.list_run_summaries("worker")
        assert [] == target.check()

    def test_runs_are_in_the_partitions_of_their_weeks(self, file, target):
        """
        Runs are copied into the weeks they began in, so that retention drops them; what began in the future,
        or before there were weeks, has a week too.
        """
        week_s = 604_800.0
        with closing(open_store(file)) as store:
            now = time.time()
            store.write([an_event(n, run_id="old", timestamp=now - 9 * week_s) for n in range(3)])
            store.write([an_event(0, run_id="odd", timestamp=5.0)])
            store.write([an_event(0, run_id="late", timestamp=now + 900 * week_s)])
            copy_store(store, target)
        with target.reading() as connection:
            counts = {
                table: connection.execute(f"SELECT count(*) FROM {table}_other").fetchone()[0]
                for table in PARTITIONED
            }
        before = len(target.list_runs())
        deleted = target.prune(runs_before=now - 8 * week_s)

        assert dict.fromkeys(PARTITIONED, 0) == counts
        assert (2, before - 2) == (deleted.runs, len(target.list_runs()))
        assert [] == target.check()

    def test_agents_go_on_there(self, source, target, postgres_url):
        """
        A monitor resumes a run that was suspended in the file, and begins new ones; no number is used twice.
        """
        copy_store(source, target)
        with closing(DriftMonitor("worker", db_path=postgres_url, mode="guide")) as monitor:
            monitor.start_run("suspended")
            monitor.record_event("llm_request", "model", output_data={"text": "done"})
            monitor.end_run("suspended")
            with monitor.run(run_id="new"):
                for _ in range(9):
                    monitor.record_event("tool_call", "again", input_data=1, output_data="x", error="no")

        assert 2 == len(target.get_run_traces("worker", "suspended"))
        assert 9 == len(target.get_run_traces("worker", "new"))
        assert len(source.list_incidents("worker")) < len(target.list_incidents("worker"))
        assert [] == target.check()

    def test_only_into_an_empty_database(self, source, target):
        """
        A second copy is refused: two stores are never mixed.
        """
        copy_store(source, target)
        before = target.describe()["rows"]
        with pytest.raises(StoreError, match="holds runs already"):
            copy_store(source, target)

        assert before == target.describe()["rows"]

    def test_all_or_nothing(self, source, target, monkeypatch):
        """
        A copy that differs, or is interrupted, leaves the target empty.
        """
        monkeypatch.setattr(copying, "_compute_digest", lambda connection, _: id(connection))
        with pytest.raises(StoreError, match="differs, and was not kept"):
            copy_store(source, target)

        def interrupt(rows):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            copy_store(source, target, interrupt)
        assert [] == target.list_agents()

    def test_only_from_a_file_to_a_server(self, source, target):
        """
        The other way round is refused in plain words.
        """
        with pytest.raises(SettingsError, match="in this order"):
            copy_store(target, source)
