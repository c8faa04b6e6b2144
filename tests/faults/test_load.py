"""However fast agents record, everything is stored."""

import threading

import pytest
from fault_tools import Account, find_journals, make_monitor, record

from steadyhelm.journal.abandoned import list_pending


class TestLoad:
    def test_eight_threads_flat_out(self, database):
        """
        50,000 events of 1,000 runs from eight threads are all stored.
        """
        monitor = make_monitor(database)

        def work(thread):
            for n in range(125):
                run_id = monitor.start_run(f"run-{thread}-{n}")
                record(monitor, 50, run_id)
                monitor.end_run(run_id)

        run_in_threads(work, 8)
        result = monitor.flush(600)
        monitor.close()

        account = Account(database)
        assert (True, 50_000, 0) == (result.complete, account.stored, account.lost)
        assert {50} == set(account.runs.values())
        assert [] == list_pending(find_journals(database))

    @pytest.mark.slow
    def test_short_runs_from_threads(self, database):
        """
        10,000 runs of one event from four threads are all stored.
        """
        monitor = make_monitor(database)

        def work(thread):
            for n in range(2500):
                run_id = monitor.start_run(f"run-{thread}-{n}")
                record(monitor, 1, run_id)
                monitor.end_run(run_id)

        run_in_threads(work, 4)
        result = monitor.flush(600)
        monitor.close()

        account = Account(database)
        assert (True, 10_000, 0) == (result.complete, len(account.runs), account.lost)
        assert {1} == set(account.runs.values())


def run_in_threads(work, count):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
