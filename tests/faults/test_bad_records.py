"""A record that cannot be stored is lost alone."""

import pytest
from fault_tools import Account, make_monitor, record

from steadyhelm.engine.dispatch import Dispatch
from steadyhelm.engine.health import Health
from steadyhelm.sink import RecordedEvent, StoringSink
from steadyhelm.sinks.store import StoreSink
from steadyhelm.stores import open_store
from steadyhelm.testing import events


class Picky(StoringSink):
    """A store in memory that cannot take some of the records."""

    name = "store"
    path = None
    replacements = 0

    def __init__(self, bad, error):
        self.bad = bad
        self.error = error
        self.kept = []

    def reserve_runs(self, runs):
        return {run.epoch: run.run_id for run in runs}

    def write(self, records):
        seqs = [record.event.seq for record in records if isinstance(record, RecordedEvent)]
        if self.bad.intersection(seqs):
            raise self.error
        self.kept += seqs


class TestBadRecords:
    @pytest.mark.parametrize("field", ["name", "task_type", "version", "run_id", "outcome"])
    def test_half_surrogates_in_two_runs(self, database, field):
        """
        Half a surrogate pair in two runs costs a third one nothing, nor themselves.
        """
        monitor = make_monitor(database, detectors={})
        odd = "odd\ud800"
        for number in (1, 2, 3):
            is_odd = number < 3
            options = {field: odd} if is_odd and field in ("task_type", "version") else {}
            run_id = f"run-{number}" + (odd if is_odd and field == "run_id" else "")
            monitor.start_run(run_id, **options)
            for _ in range(6):
                name = odd if is_odd and field == "name" else "search"
                monitor.record_event("tool_call", name, run_id=run_id, input_data="x", output_data="y")
            monitor.end_run(run_id, outcome=odd if is_odd and field == "outcome" else "done")
        monitor.flush(60)
        monitor.close()

        account = Account(database)
        assert [6, 6, 6] == list(account.runs.values())
        assert 6 == account.runs["run-3"]
        assert 0 == account.lost

    @pytest.mark.parametrize("error", [ValueError("odd"), TypeError("odd"), SystemExit(1)])
    @pytest.mark.parametrize("bad", [{0}, {3, 4}, {0, 99}, set(range(0, 100, 7))])
    def test_bad_ones_are_found_by_halving(self, bad, error):
        """
        However many records of a batch are bad, all others are stored, in order, and each bad one is counted.
        """
        health, store = Health(), Picky(bad, error)
        dispatch = Dispatch([store], health=health)
        dispatch.put("", *[RecordedEvent.of(event) for event in events("." * 100)])
        result = dispatch.flush(60)
        dispatch.close()

        assert [n for n in range(100) if n not in bad] == store.kept
        assert len(bad) == health.lost == sum(health.totals().values())
        assert (False, 0) == (result.complete, result.remaining)

    def test_a_value_no_column_takes(self, database):
        """
        A record with a value that fits no column is counted in the database, and its neighbours are stored.
        """
        health = Health()
        dispatch = Dispatch([StoreSink(open_store(database))], health=health)
        good, bad, last = (RecordedEvent.of(event) for event in events("..."))
        dispatch.put("", good, RecordedEvent(bad.event, ["not bytes"]), last)
        dispatch.flush(60)
        dispatch.close()

        account = Account(database)
        assert (2, 1) == (account.stored, account.lost)

    def test_what_comes_after_the_close_is_counted(self, database):
        """
        Events recorded after the close are counted as lost.
        """
        monitor = make_monitor(database)
        record(monitor, 5, "run")
        monitor.flush()
        dispatch = monitor._dispatch
        monitor.close()

        assert not dispatch.put("", *[RecordedEvent.of(event) for event in events("...")])
        assert 3 == monitor.health.lost
