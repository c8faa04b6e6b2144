"""Whatever a callback or an error's own text raises: it goes no further, and the step is recorded."""

import asyncio
import signal
import threading

import pytest

from steadyhelm import DriftMonitor, RunStopped
from steadyhelm.adapter import CONTINUE
from steadyhelm.boundary.driver import Boundary

RAISED = [
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    asyncio.CancelledError,
    StopIteration,
    ValueError,
    RecursionError,
]


@pytest.fixture
def monitor(tmp_path, quiet):
    monitor = DriftMonitor("guest", db_path=tmp_path / "guest.db", mode="enforce")
    yield monitor
    monitor.close()


def stored(monitor, run_id):
    assert monitor.flush(60).complete
    return monitor.store.get_run_traces("guest", run_id)


def drift(monitor, run_id, steps=8):
    """Record the same step until something is noticed."""
    return [
        monitor.record_event("tool_call", "look", run_id=run_id, input_data={"q": 1}, output_data="same")
        for _ in range(steps)
    ]


@pytest.fixture
def python_handles_interrupts():
    """Ctrl-C raises, also where the tests are a shell's background job, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class TestErrors:
    @pytest.mark.parametrize("raised", RAISED)
    def test_a_text_that_raises(self, monitor, raised):
        """
        An error whose text raises anything is recorded under the name of its class.
        """

        class UnspeakableError(Exception):
            def __str__(self):
                raise raised("in a text")

            __repr__ = __str__

        run_id = monitor.start_run()
        monitor.record_event(
            "tool_call", "look", error=UnspeakableError(), input_data={"it": UnspeakableError()}
        )

        [event] = stored(monitor, run_id)
        assert ("UnspeakableError", {"it": "<UnspeakableError>"}) == (event.error, event.input_data)
        assert {} == monitor.health.totals()

    @pytest.mark.parametrize("raised", RAISED)
    def test_a_tools_error_whose_text_raises(self, monitor, raised):
        """
        The caller of a tool gets the tool's own error, not what its text raises.
        """

        class UnspeakableError(Exception):
            def __str__(self):
                raise raised("in a text")

        problem = UnspeakableError()

        @monitor.tool
        def fails():
            raise problem

        with pytest.raises(UnspeakableError) as caught, monitor.run():
            fails()

        assert caught.value is problem

    @pytest.mark.usefixtures("python_handles_interrupts")
    def test_an_interrupt_while_a_text_is_made(self, monitor):
        """
        Ctrl-C that arrives while an error's text is made reaches the host.
        """

        class SlowError(Exception):
            def __str__(self):
                signal.raise_signal(signal.SIGINT)
                return "slow"

        run_id = monitor.start_run()
        with pytest.raises(KeyboardInterrupt):
            monitor.record_event("tool_call", "look", run_id=run_id, error=SlowError())

        monitor.record_event("tool_call", "after", run_id=run_id)
        assert "after" == stored(monitor, run_id)[-1].action_name


class TestCallbacks:
    @pytest.mark.parametrize("raised", RAISED)
    def test_for_findings(self, monitor, raised):
        """
        What a callback for findings raises is counted, and every step is recorded and decided.
        """
        calls = []

        @monitor.on_drift
        def callback(finding):
            calls.append(finding)
            raise raised("in a callback")

        run_id = monitor.start_run()
        decisions = drift(monitor, run_id)

        assert calls
        assert 8 == len(stored(monitor, run_id))
        assert any(decision.findings for decision in decisions)
        assert len(calls) == monitor.health.totals()["error in on_drift callback"]

    @pytest.mark.parametrize("raised", RAISED)
    def test_at_the_end_of_a_run(self, monitor, raised):
        """
        Nor does anything leave `end_run` or the block of a run.
        """

        @monitor.on_drift
        def callback(finding):
            raise raised("in a callback")

        with monitor.run() as run:
            drift(monitor, run.run_id)

        assert "done" == (monitor.flush(60), monitor.store.find_run(run.run_id).outcome)[1]

    @pytest.mark.parametrize("raised", RAISED)
    def test_for_questions(self, monitor, raised):
        """
        A function that asks the user and raises is no answer: the run is stopped, not the process.
        """

        def ask(question):
            raise raised("in a question")

        boundary = Boundary(monitor, "test", {"before_model": {"ask", "stop"}}, ask=ask)
        run = boundary.start_run("look")
        instructions = []
        for n in range(40):
            run.begin_tool_call(f"c{n}", "look", {"q": 1})
            run.after_tool(f"c{n}", "same")
            instructions.append(run.before_model(key=str(n)))
            run.after_model(key=str(n))
        left = run.finish()

        assert instructions[0] == CONTINUE
        assert left is None or isinstance(left, RunStopped)
        assert not [reason for reason in monitor.health.totals() if reason.startswith("error")]

    def test_a_task_is_not_cancelled(self, monitor):
        """
        A cancellation that a callback raises does not cancel the task it runs in.
        """

        @monitor.on_drift
        def callback(finding):
            raise asyncio.CancelledError

        async def work():
            async with monitor.run() as run:
                drift(monitor, run.run_id)
                await asyncio.sleep(0)
            return "finished"

        assert "finished" == asyncio.run(work())

    def test_a_time_limit_in_a_callback(self, monitor):
        """
        What a signal handler raises while a callback runs is the host's.
        """

        class TooLongError(Exception):
            pass

        def handle(*_):
            raise TooLongError

        @monitor.on_drift
        def callback(finding):
            signal.raise_signal(signal.SIGALRM)

        before = signal.signal(signal.SIGALRM, handle)
        try:
            run_id = monitor.start_run()
            with pytest.raises(TooLongError):
                drift(monitor, run_id)
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_on_another_thread(self, monitor):
        """
        On a thread that gets no signals a callback's `KeyboardInterrupt` is its own, and is counted.
        """

        @monitor.on_drift
        def callback(finding):
            raise KeyboardInterrupt

        run_id, left = monitor.start_run(), []

        def work():
            try:
                drift(monitor, run_id)
            except BaseException as exc:  # noqa: BLE001 - whatever leaves is a failure
                left.append(exc)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)

        assert [] == left
        assert 8 == len(stored(monitor, run_id))
