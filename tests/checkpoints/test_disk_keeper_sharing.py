"""Several processes on one folder, and one that is killed in the middle."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import steadyhelm
from steadyhelm.checkpoints.disk import DiskKeeper
from steadyhelm.testing.checkpoint_checks import a_checkpoint

KEEP_FOR_EVER = """
import itertools, sys
from steadyhelm.checkpoints.disk import DiskKeeper
from steadyhelm.testing.checkpoint_checks import a_checkpoint
keeper = DiskKeeper(sys.argv[1], per_run=5)
for seq in itertools.count():
    assert keeper.keep(a_checkpoint(seq, conversation_history=["x" * 200_000])).kept
    print(seq, flush=True)
"""


def work(folder, number, rounds):
    """Keep, read, drop and prune beside others; what was lost."""
    losses = []
    keeper = DiskKeeper(folder, per_run=4, on_loss=losses.append)
    for seq in range(rounds):
        keeper.keep(a_checkpoint(seq, run_id=f"own-{number}"))
        keeper.keep(a_checkpoint(seq, run_id="shared", checkpoint_id=f"{number}.{seq}"))
        keeper.get_last_checkpoint("shared")
        keeper.list_checkpoints("shared")
        if seq % 5 == number:
            keeper.drop("dropped")
        keeper.keep(a_checkpoint(seq, run_id="dropped"))
        keeper.prune(0.0)
    return losses


class TestSharing:
    def test_processes_share_a_folder(self, folder):
        """
        Three processes keep, read, drop and prune at once: nothing is lost, and the bound holds.
        """
        with multiprocessing.get_context("spawn").Pool(3) as pool:
            losses = pool.starmap(work, [(str(folder), number, 25) for number in range(3)])
        keeper = DiskKeeper(folder, per_run=4)

        assert [[], [], []] == losses
        for number in range(3):
            assert [24, 23, 22, 21, 0] == [it.seq for it in keeper.list_checkpoints(f"own-{number}")]
        assert 24 == keeper.get_last_checkpoint("shared").seq
        assert 3 <= len(keeper.list_checkpoints("shared")) <= 5
        assert [] == list(folder.rglob("*.new"))

    def test_threads_share_a_keeper(self, keeper):
        """
        Threads of one process may use one keeper.
        """
        threads = [
            threading.Thread(
                target=lambda n=n: [keeper.keep(a_checkpoint(i, run_id=f"r{n}")) for i in range(20)]
            )
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [5] * 4 == [len(keeper.list_checkpoints(f"r{n}")) for n in range(4)]

    @pytest.mark.parametrize("kill", range(3))
    def test_a_killed_writer_leaves_whole_files(self, folder, kill):
        """
        What a killed process said it had kept is there and can be read; what it had begun is not seen.
        """
        environment = {**os.environ, "PYTHONPATH": str(Path(steadyhelm.__file__).parents[1])}
        command = [sys.executable, "-c", KEEP_FOR_EVER, str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
            said = [int(writer.stdout.readline()) for _ in range(7 + kill)]
            writer.send_signal(signal.SIGKILL)
            said += [int(line) for line in writer.stdout.read().splitlines() if line.strip()]
        losses = []
        keeper = DiskKeeper(folder, per_run=5, on_loss=losses.append)

        assert keeper.get_last_checkpoint("run").seq >= said[-1]
        assert len(keeper.list_checkpoints("run")) >= 6
        assert [] == losses
        assert keeper.keep(a_checkpoint(10**6)).kept
