"""Errors are carried to other processes and copied, as pools of processes and test runners do."""

import copy
import inspect
import multiprocessing
import pickle

import pytest

from steadyhelm import DriftMonitor, RunStopped, errors


def run_until_stopped(db_path):
    """Repeat a call until the run is stopped, in a worker of a pool."""
    monitor = DriftMonitor("worker", mode="enforce", db_path=db_path)
    search = monitor.tool(lambda query: "no flights found", name="search")
    try:
        with monitor.run(goal="find the cheapest flight to Oslo"):
            for _ in range(30):
                search("flights Oslo")
    finally:
        monitor.close()


def make_errors():
    """Return one error of every class."""
    kinds = {kind for _, kind in inspect.getmembers(errors, inspect.isclass)}
    plain = sorted(kinds - {errors.MissingExtraError, RunStopped}, key=lambda kind: kind.__name__)
    return [
        *(kind("what is wrong") for kind in plain),
        errors.MissingExtraError("page", extra="server"),
        RunStopped("Run stopped.", run_id="run", decision="why"),
    ]


@pytest.mark.parametrize("error", make_errors(), ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("carry", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_an_error_is_the_same_on_the_other_side(error, carry):
    """Class, text, arguments, attributes and notes of an error arrive."""
    error.add_note("told by the host")
    arrived = carry(error)
    assert (type(arrived), str(arrived), arrived.args) == (type(error), str(error), error.args)
    assert vars(arrived) == vars(error)


def test_a_stop_in_a_pool_of_processes_reaches_who_waits_for_the_result(tmp_path):
    """The stop of a worker's run is raised where its result is read, and the pool goes on."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(RunStopped) as stopped:
            pool.apply_async(run_until_stopped, (tmp_path / "worker.db",)).get(60)
        assert stopped.value.run_id
        assert stopped.value.decision.verdict == "stop"
        assert pool.apply_async(len, ("alive",)).get(60) == 5
