"""Compute something slow once for all workers of a test run."""

import fcntl
import os
import pickle


def compute_once(tmp_path_factory, name, compute):
    """Return what `compute` returned in the first worker that needed it; other workers wait for it."""
    folder = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        # Each worker has a folder of its own inside the folder of the run.
        folder = folder.parent
    result = folder / f"{name}.pickle"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_bytes(pickle.dumps(compute()))
    return pickle.loads(result.read_bytes())
