"""Two writers, one agent, one run id: nothing is lost and nothing is mixed."""

import threading
from collections import Counter

import pytest
from fault_tools import Account, make_monitor, record, start_process, with_tools

from steadyhelm.stores import open_store

THREADS = 4

RECORDS_RUNS = """
import sys
from fault_tools import make_monitor, record
monitor = make_monitor(sys.argv[1], durability=sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
for n in range(int(sys.argv[2])):
    with monitor.run(run_id=f"job-{n}"):
        for _ in range(int(sys.argv[3])):
            monitor.record_event("tool_call", f"tool-{sys.argv[5]}", input_data=n)
monitor.flush(30)
monitor.close()
"""


def tools_by_run(database):
    store = open_store(database, read_only=True)
    try:
        return {
            run.run_id: Counter(event.action_name for event in store.get_run_traces(run.agent_id, run.run_id))
            for run in store.list_runs(limit=1000)
        }
    finally:
        store.close()


def record_in_processes(database, processes, runs, each, mode="fast"):
    make_monitor(database).close()
    children = [
        start_process(RECORDS_RUNS, database, runs, each, mode, number, env=with_tools())
        for number in range(processes)
    ]
    for child in children:
        child.stdout.readline()
    for child in children:
        child.stdin.write(b"go\n")
        child.stdin.flush()
    for child in children:
        assert child.wait(60) == 0
        child.stdin.close()
        child.stdout.close()


class TestTwoWriters:
    @pytest.mark.parametrize("mode", ["fast", "durable"])
    def test_two_processes_one_id(self, database, mode):
        """
        Two processes that record a run of one id at the same time leave two runs.
        """
        record_in_processes(database, 2, 1, 50, mode)

        account, tools = Account(database), tools_by_run(database)
        assert ({"job-0": 50, "job-0~2": 50}, 0) == (account.runs, account.lost)
        assert [[50], [50]] == [list(names.values()) for names in tools.values()]

    def test_three_processes_twenty_ids(self, database):
        """
        Three processes that record twenty runs of the same ids leave sixty runs.
        """
        record_in_processes(database, 3, 20, 20)

        account, tools = Account(database), tools_by_run(database)
        assert (60, 1200, 0) == (len(account.runs), account.stored, account.lost)
        assert {(20,)} == {tuple(names.values()) for names in tools.values()}

    def test_two_monitors_one_id(self, database):
        """
        Two monitors of one agent in one process leave two runs, each with its own events and end.
        """
        first, second = make_monitor(database), make_monitor(database)
        ids = [monitor.start_run("job") for monitor in (first, second)]
        for _ in range(50):
            record(first, 1, ids[0])
            record(second, 1, ids[1])
        first.end_run(ids[0], outcome="first")
        second.end_run(ids[1], outcome="second")
        first.close()
        second.close()

        store = open_store(database, read_only=True)
        outcomes = {run.outcome: run.events for run in store.list_runs()}
        store.close()
        assert {"first": 50, "second": 50} == outcomes
        assert 0 == Account(database).lost

    def test_incidents_of_two_runs_of_one_id(self, database):
        """
        The same loop in two runs of one id is two incidents, each with evidence from its own run.
        """
        monitors = [make_monitor(database, detectors={}) for _ in range(2)]
        ids = [monitor.start_run("job") for monitor in monitors]
        for _ in range(8):
            for monitor, run_id in zip(monitors, ids, strict=True):
                monitor.record_event("tool_call", "search", run_id=run_id, input_data="x", output_data="y")
        for monitor in monitors:
            monitor.close()

        store = open_store(database, read_only=True)
        incidents = store.list_incidents()
        findings = store.get_drift_events(limit=1000)
        store.close()
        assert 2 == len({it.incident_id for it in incidents}) == len({it.run_id for it in incidents})
        for one in [*incidents, *findings]:
            assert all(event_id.rpartition(".")[0] == one.run_id for event_id in one.event_ids)

    def test_a_child_of_a_renamed_run(self, database):
        """
        A run inside a run that was stored under another id names the id it was stored under.
        """
        first, second = make_monitor(database), make_monitor(database)
        record(first, 1, "job")
        first.flush()
        with second.run(run_id="job"):
            record(second, 1)
            with second.run(run_id="inner"):
                record(second, 1)
        second.close()
        first.close()

        store = open_store(database, read_only=True)
        parent = store.find_run("inner").parent_run_id
        runs = {run.run_id: run.events for run in store.list_runs()}
        store.close()
        assert "job~2" == parent
        assert {"job": 1, "job~2": 1, "inner": 1} == runs

    @pytest.mark.sqlite
    def test_checkpoints_of_two_runs_of_one_id(self, database, tmp_path):
        """
        Of two runs of one id, each returns to its own checkpoints when it is resumed.
        """
        settings = tmp_path / "steadyhelm.toml"
        settings.write_text(f'[checkpoints]\nfolder = "{tmp_path / "kept"}"\n')
        first, second = (make_monitor(database, config=settings) for _ in range(2))
        for monitor, said in ((first, "first"), (second, "second")):
            monitor.start_run("job")
            record(monitor, 3)
            monitor.checkpoint(conversation_history=[said])
            assert monitor.flush().complete
        second.end_run("job")
        first.suspend("job")
        first.close()
        second.close()
        again = make_monitor(database, config=settings)
        again.start_run("job")
        assert again.flush().complete

        assert ["first"] == again.get_last_checkpoint("job").conversation_history
        again.close()

    def test_a_run_used_again_later(self, database):
        """
        A run id that was used before is stored with a number behind it.
        """
        for _ in range(3):
            monitor = make_monitor(database)
            with monitor.run(run_id="job"):
                record(monitor, 5)
            monitor.close()

        assert {"job": 5, "job~2": 5, "job~3": 5} == Account(database).runs


class TestClosing:
    def test_threads_that_go_on(self, database):
        """
        A run that a thread goes on recording while the monitor closes does not begin a second time.
        """
        for _ in range(5):
            monitor = make_monitor(database)
            are_done = threading.Event()

            def work(monitor=monitor, are_done=are_done):
                with monitor.run():
                    while not are_done.is_set():
                        record(monitor, 1)

            threads = [threading.Thread(target=work) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            record(monitor, 20)
            monitor.close(30)
            record(monitor, 20)
            are_done.set()
            for thread in threads:
                thread.join()
            assert "run id seen twice" not in monitor.health.totals()
