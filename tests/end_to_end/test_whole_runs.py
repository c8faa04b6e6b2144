"""Whole runs through a live monitor: healthy work is left in peace, a loop in disguise is found."""

import subprocess
import sys

import pytest

from steadyhelm import DriftMonitor

PAGE = "The shop is closed while its shelves are filled. Come back tomorrow, or write to us. " * 4
CLEAN = "nothing to commit, working tree clean"


def call(name, arguments, result, error=None):
    return {"action_name": name, "input_data": arguments, "output_data": result, "error": error}


HEALTHY = {
    "a row for each customer": [
        call(
            "run_sql",
            {"query": f"SELECT name, total FROM orders WHERE customer = {1042 + n}"},
            f"{n * 37} EUR",
        )
        for n in range(12)
    ],
    "a search for each month": [
        call("search", {"query": f"sales of {month}"}, f"{month}: {n * 37} sold, {n} returned")
        for n, month in enumerate(["January", "February", "March", "April", "May", "June", "July", "August"])
    ],
    "a search for each person": [
        call("vector_search", {"query": f"reviews by {name}", "k": 5}, f"{name} wrote {n * 3} reviews")
        for n, name in enumerate(["Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Gus", "Hal", "Ida", "Jon"])
    ],
    "page after page": [
        call("search", {"query": f"open invoices page {n}"}, f"invoices {n * 10} to {n * 10 + 9}")
        for n in range(20)
    ],
    "downloads that all say the same": [
        call("download", {"url": f"https://files.example/{name}.pdf"}, "saved 1 file to the downloads folder")
        for name in "abcdefghijklmnopqrst"
    ],
    "users of equal status": [
        call("get_user", {"id": 17 * n + 3}, "status: active, plan: free") for n in range(20)
    ],
    "a clean status between reads": [
        step
        for n in range(10)
        for step in (
            call("bash", {"command": "git status"}, CLEAN),
            call("read_file", {"path": f"src/f{n}.py"}, f"def f{n}(): return {n}"),
        )
    ],
    "tests and fixes with a plain error": [
        step
        for n in range(10)
        for step in (
            call("run_tests", {}, f"{20 - 2 * n} failed", "exit 1"),
            call("edit_file", {"path": "a.py", "old": f"x{n}", "new": f"x{n + 1}"}, "ok"),
        )
    ],
}

LOOPS = {
    "an attempt is counted": [
        call("fetch", {"url": "https://shop.example", "attempt": n}, "503 error page") for n in range(30)
    ],
    "a number in the address": [
        call("bash", {"command": f"curl https://shop.example/?n={n}"}, PAGE) for n in range(30)
    ],
    "a time": [
        call("click", {"element": "Save", "ts": 1_700_000_000 + n}, "nothing happened") for n in range(15)
    ],
    "a try is counted": [
        call("send_email", {"to": "x@y.example", "body": "hello", "try": n}, "rejected: mailbox full")
        for n in range(30)
    ],
}


@pytest.fixture
def watch(tmp_path):
    """Record these calls in one run; return the verdicts and the incidents."""

    def watched(steps, mode):
        monitor = DriftMonitor("researcher", db_path=tmp_path / "runs.db", mode=mode)
        with monitor.run(goal="go through all of it"):
            verdicts = {monitor.record_event("tool_call", **step).verdict for step in steps}
        monitor.close()
        return verdicts, monitor.get_recent_alerts()

    return watched


@pytest.mark.parametrize("steps", HEALTHY.values(), ids=HEALTHY)
def test_healthy_work_is_never_stopped(watch, steps):
    """
    In enforce mode nothing is said or stopped, and no incident is opened.
    """
    assert ({"proceed"}, []) == watch(steps, "enforce")


@pytest.mark.parametrize("steps", LOOPS.values(), ids=LOOPS)
def test_a_counter_hides_no_loop(watch, steps):
    """
    The same call with the same result is a loop, whatever number is counted up in its arguments.
    """
    _, incidents = watch(steps, "observe")

    assert {"loop"} == {incident.kind for incident in incidents}


def test_tests_that_are_started_by_a_decorated_function(tmp_path):
    """
    A test run that fails by an exception is how one works, as long as something new is written between.
    """
    monitor = DriftMonitor("coder", db_path=tmp_path / "runs.db", mode="enforce")

    @monitor.tool
    def run_tests():
        subprocess.run([sys.executable, "-c", "raise SystemExit(1)"], check=True)

    @monitor.tool
    def write_file(path, content):
        return "ok"

    with monitor.run(goal="make the tests pass"):
        for n in range(10):
            with pytest.raises(subprocess.CalledProcessError):
                run_tests()
            write_file("a.py", f"x = {n}")
    monitor.close()

    assert [] == monitor.get_recent_alerts()
