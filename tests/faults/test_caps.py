"""However large something is: it costs the caller little time and memory, and little of it is kept."""

import gc
import subprocess
import sys
import textwrap
import time
import tracemalloc

import numpy as np
import pytest

from steadyhelm import DriftMonitor
from steadyhelm.engine.capture import MAX_ID_CHARS, MAX_NAME_CHARS
from steadyhelm.fingerprints import MAX_CHARS

HUGE = 200_000_000
MOST_BYTES = 10_000_000
"""Half a megabyte is usual; a copy of something huge takes 30 to 200."""
MOST_S = 0.05
"""Less than 5 ms are usual; reading something huge takes 60 and more."""
TRIES = 40
"""Other work of the machine makes a time longer, so one good try is enough."""


class Text(str):
    """A text of the host's own class."""

    __slots__ = ()


class HostError(Exception):
    """An error of the host."""


def endless():
    value = []
    value.extend([value] * 900)
    return value


def deep():
    value = {}
    for _ in range(10_000):
        value = {"a": value}
    return value


MAKERS = {
    "text": lambda: "x" * HUGE,
    "own text": lambda: Text("x" * HUGE),
    "wide text": lambda: "é" * (HUGE // 2),
    "bytes": lambda: bytes(HUGE),
    "bytearray": lambda: bytearray(HUGE),
    "memoryview": lambda: memoryview(bytes(HUGE)),
    "list": lambda: [0] * 10_000_000,
    "tuple": lambda: (0,) * 10_000_000,
    "dict": lambda: dict.fromkeys(range(2_000_000)),
    "dict of texts": lambda: dict.fromkeys(map(str, range(2_000_000))),
    "set": lambda: set(range(2_000_000)),
    "texts": lambda: ["x" * 9000] * 20_000,
    "nested": lambda: [[{"a": n, "b": [n]} for n in range(1000)]] * 1000,
    "array": lambda: np.zeros(HUGE // 8),
    "array of objects": lambda: np.array([None] * 1_000_000, dtype=object),
    "integer": lambda: 1 << HUGE,
    "error": lambda: HostError("x" * HUGE),
    "key error": lambda: KeyError("x" * HUGE),
    "error of parts": lambda: HostError("x" * HUGE, "y", b"z" * 1000),
    "error about a list": lambda: HostError([0] * 10_000_000),
    "key error about a dict": lambda: KeyError(dict.fromkeys(range(2_000_000))),
    "error about an error": lambda: HostError("no", OSError([["x" * 9000] * 20_000])),
    "error about everything": lambda: HostError(*range(1_000_000)),
    "long key": lambda: {"x" * HUGE: 1},
    "itself": endless,
    "deep": deep,
}


@pytest.fixture(scope="module", params=MAKERS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def huge(kind):
    made = MAKERS[kind]()
    yield made
    del made
    gc.collect()


@pytest.fixture
def monitor(tmp_path):
    monitor = DriftMonitor("guest", db_path=tmp_path / "guest.db")
    yield monitor
    monitor.close()


def find_costs(action):
    """Return what an action takes too much of: memory, which is counted, or time, with a wide limit."""
    action()
    bytes_taken, least_s = count_bytes(action), find_least_s(action)
    costs = {f"{bytes_taken} bytes": bytes_taken > MOST_BYTES, f"{least_s} s": least_s > MOST_S}
    return [cost for cost, is_high in costs.items() if is_high]


def count_bytes(action):
    """Return how much memory an action takes at once, on whatever thread."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        action()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before


def find_least_s(action):
    """Return the CPU time of this thread for the action: the least of several, until one is low enough."""
    least_s = float("inf")
    for _ in range(TRIES):
        began = time.thread_time()
        action()
        least_s = min(least_s, time.thread_time() - began)
        if least_s <= MOST_S:
            break
    return least_s


class TestCost:
    def test_of_the_data_of_an_event(self, monitor, huge):
        """
        As argument, as result and as metadata, whatever it is.
        """
        monitor.start_run(goal="look at much")

        assert [] == find_costs(lambda: monitor.record_event("tool_call", "load", input_data={"it": huge}))
        assert [] == find_costs(lambda: monitor.record_event("tool_call", "load", output_data=huge))
        assert [] == find_costs(
            lambda: monitor.record_event("llm_request", "load", output_data={"text": huge})
        )
        assert [] == find_costs(
            lambda: monitor.record_event("user_message", "user", input_data={"text": huge})
        )
        assert [] == find_costs(lambda: monitor.record_event("tool_call", "load", metadata={"it": huge}))
        assert [] == find_costs(lambda: monitor.before_tool("load", huge))
        assert {} == monitor.health.totals()

    def test_of_everything_else_of_an_event(self, monitor, huge):
        """
        As an error, as a name, as an id or as a number.
        """
        monitor.start_run()

        assert [] == find_costs(lambda: monitor.record_event("tool_call", "load", error=huge))
        assert [] == find_costs(lambda: monitor.record_event("tool_call", huge))
        assert [] == find_costs(lambda: monitor.record_event(huge, "load"))
        assert [] == find_costs(
            lambda: monitor.record_event("tool_call", "load", call_id=huge, event_id=huge)
        )
        assert [] == find_costs(
            lambda: monitor.record_event("tool_call", "load", token_count=huge, cost_usd=huge)
        )
        assert [] == find_costs(lambda: monitor.call_refused(huge, reason=huge))
        assert not [reason for reason in monitor.health.totals() if "error" in reason]

    def test_of_a_run(self, monitor, huge):
        """
        As a goal, a run's metadata, a task type, a version, an id or an outcome.
        """

        def run():
            run_id = monitor.start_run(
                huge, goal=huge, task_type=huge, version=huge, parent_run_id=huge, metadata={"it": huge}
            )
            monitor.end_run(run_id, outcome=huge)

        assert [] == find_costs(run)
        assert not [reason for reason in monitor.health.totals() if "error" in reason]

    @pytest.mark.parametrize("plan", ["\n" * HUGE, "- [ ] a\n" * 1_000_000, ["a step"] * 1_000_000], ids=type)
    def test_of_a_plan(self, monitor, plan):
        """
        As a plan, also one of nothing but empty lines.
        """
        monitor.start_run()

        assert [] == find_costs(lambda: monitor.plan(plan))

    def test_of_a_call_of_a_watched_function(self, monitor, huge):
        """
        As what a tool or a model takes and returns.
        """

        @monitor.tool
        def tool(it):
            return it

        @monitor.model
        def model(it):
            return it

        monitor.start_run()

        assert [] == find_costs(lambda: tool(huge))
        assert [] == find_costs(lambda: model(huge))


class TestSize:
    def test_what_is_kept(self, monitor, tmp_path, huge):
        """
        Of everything a bounded part is stored, and it is valid UTF-8.
        """
        run_id = monitor.start_run(huge, goal=huge, task_type=huge, version=huge, metadata={"it": huge})
        monitor.record_event(
            "tool_call",
            huge,
            input_data=huge,
            output_data=huge,
            metadata={"it": huge},
            error=huge,
            call_id=huge,
        )
        monitor.end_run(run_id, outcome=huge)
        assert monitor.flush(30).complete
        [event] = monitor.store.get_run_traces("guest", run_id)
        run = monitor.store.find_run(run_id)

        cut = len("…[200000000 characters]…")
        assert len(run_id) <= MAX_ID_CHARS + cut
        assert len(event.call_id) <= MAX_ID_CHARS + cut
        assert len(event.action_name) <= MAX_NAME_CHARS + cut
        for name in (run.task_type, run.version, run.outcome):
            assert len(name) <= MAX_NAME_CHARS + cut
        assert len(run.goal) <= 5 * MAX_CHARS
        assert len(event.error) <= 5 * MAX_CHARS
        assert (tmp_path / "guest.db").stat().st_size < 2_000_000

    def test_long_ids_stay_different(self, monitor):
        """
        Two long ids that differ at their ends are two runs, and each is found again by its id.
        """
        first, second = "x" * HUGE + "1", "x" * HUGE + "2"
        ids = [monitor.start_run(it) for it in (first, second)]
        monitor.record_event("tool_call", "look", run_id=second)

        assert 2 == len(set(ids))
        assert (0, 1) == (monitor.count_events(first), monitor.count_events(second))


@pytest.mark.sqlite
def test_forgotten_monitors_are_noted(tmp_path):
    """
    A program that makes a monitor for each request and closes none hears of it before its files run out.
    """
    program = """
        import sys
        from steadyhelm import DriftMonitor
        monitors = [DriftMonitor(f"agent-{number}", db_path=sys.argv[1]) for number in range(50)]
        monitors[0].close()
        DriftMonitor("again", db_path=sys.argv[1])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "steadyhelm.db")],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert 1 == done.stderr.count("50 monitors are open in this process"), done.stderr
