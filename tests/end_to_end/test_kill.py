import os
import signal
import struct
import subprocess
import sys
from typing import NamedTuple

import pytest

from steadyhelm import SQLiteStore
from steadyhelm.components import store_pending
from steadyhelm.settings import Settings

ANSWERED = struct.Struct("<I")
QUEUE_CAP = 100

RECORDS_WITHOUT_END = """
import os, struct, sys
from steadyhelm import DriftMonitor

monitor = DriftMonitor("doomed", db_path=sys.argv[1], durability=sys.argv[2])
answered = 0
while True:
    if answered % 50 == 0:
        if answered:
            monitor.end_run()
        monitor.start_run()
    data = {"text": f"answer {answered}"}
    monitor.record_event("tool_call", f"tool{answered % 5}", input_data={"n": answered}, output_data=data)
    answered += 1
    os.write(1, struct.pack("<I", answered))
"""


class Death(NamedTuple):
    """What a killed process had answered, and the store it left, with its journal."""

    answered: int
    store: SQLiteStore

    @property
    def kept(self) -> int:
        """Events that are there when each run's are counted again."""
        return sum(
            len(self.store.get_run_traces(run.agent_id, run.run_id))
            for run in self.store.list_runs(limit=10_000)
        )


@pytest.fixture
def killed(tmp_path):
    """Starts a process that records without end, and kills it after so many answers."""
    stores = []

    def kill(mode: str, *, after: int) -> Death:
        database = tmp_path / f"{mode}{after}.db"
        command = [sys.executable, "-c", RECORDS_WITHOUT_END, str(database), mode]
        environment = {**os.environ, "STEADYHELM_QUEUE_CAP": str(QUEUE_CAP)}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as child:
            said = child.stdout.read(after * ANSWERED.size)
            os.kill(child.pid, signal.SIGKILL)
            said += child.stdout.read()
        whole = len(said) - len(said) % ANSWERED.size
        store_pending(Settings(db=str(database)))
        stores.append(SQLiteStore(database))
        return Death(*ANSWERED.unpack(said[whole - ANSWERED.size : whole]), stores[-1])

    yield kill
    for store in stores:
        store.close()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
class TestKill:
    @pytest.mark.parametrize("after", [1, 130, 700])
    def test_durable_keeps_what_was_answered(self, killed, after):
        """
        In durable mode every event that was answered is there after kill -9.
        """
        death = killed("durable", after=after)

        assert death.answered <= death.kept <= death.answered + 1

    @pytest.mark.parametrize("after", [1, 700, 3000])
    def test_fast_keeps_what_was_answered(self, killed, after):
        """
        In fast mode every event that was answered is there after kill -9, once the journal is stored.
        """
        death = killed("fast", after=after)

        assert death.answered <= death.kept <= death.answered + 1

    @pytest.mark.parametrize("mode", ["durable", "fast"])
    def test_the_database_is_sound(self, killed, mode):
        """
        The database of a killed process has no faults.
        """
        assert [] == killed(mode, after=400).store.check()

    @pytest.mark.parametrize("mode", ["durable", "fast"])
    def test_the_sums_are_true(self, killed, mode):
        """
        A run's own count of its events is what is there, wherever the kill fell.
        """
        death = killed(mode, after=400)

        assert death.kept == sum(run.events for run in death.store.list_runs(limit=10_000))

    def test_a_run_has_no_gaps(self, killed):
        """
        In durable mode each run's events follow each other without a gap.
        """
        store = killed("durable", after=230).store
        runs = [store.get_run_traces(run.agent_id, run.run_id) for run in store.list_runs()]

        assert all(list(range(len(events))) == [event.seq for event in events] for events in runs)
