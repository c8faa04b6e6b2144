"""Log handlers are code of the host: they may raise, call us, or hold a lock that we know nothing of."""

import logging
import threading

import pytest

from steadyhelm import DriftMonitor
from steadyhelm.engine.health import Health

RAISED = [ValueError, SystemExit, KeyboardInterrupt, RecursionError]


@pytest.fixture
def log():
    """The log of Steadyhelm, open to everything, as it was afterwards."""
    logger = logging.getLogger("steadyhelm")
    before, level = list(logger.handlers), logger.level
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.handlers[:] = before
    logger.filters.clear()
    logger.setLevel(level)


@pytest.fixture
def monitor(tmp_path, quiet):
    monitor = DriftMonitor("guest", db_path=tmp_path / "guest.db")
    yield monitor
    monitor.close()


class Handler(logging.Handler):
    """A handler that does what it is made for with every line."""

    def __init__(self, do):
        super().__init__()
        self.do = do
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())
        self.do(record)


def raising(raised):
    def do(_):
        raise raised("in a handler")

    return do


def cause_lines(monitor, run_id):
    """Make us log: a run that ended, one that is not live, and a callback that fails."""
    monitor.end_run("unknown")
    monitor.on_drift(raising(ValueError))
    for _ in range(8):
        monitor.record_event("tool_call", "look", run_id=run_id, input_data={"q": 1}, output_data="same")


class TestRaising:
    @pytest.mark.parametrize("raised", RAISED)
    def test_handlers(self, monitor, log, raised):
        """
        What a handler raises reaches nobody, and every step is recorded.
        """
        handler = Handler(raising(raised))
        log.addHandler(handler)
        run_id = monitor.start_run()
        cause_lines(monitor, run_id)

        assert handler.lines
        assert monitor.flush(60).complete
        assert 8 == len(monitor.store.get_run_traces("guest", run_id))

    @pytest.mark.parametrize("raised", RAISED)
    def test_filters(self, monitor, log, raised):
        """
        So with a filter.
        """
        log.addFilter(raising(raised))
        run_id = monitor.start_run()
        cause_lines(monitor, run_id)

        assert monitor.flush(60).complete
        assert 8 == len(monitor.store.get_run_traces("guest", run_id))

    @pytest.mark.parametrize("raised", RAISED)
    def test_on_the_writers_thread(self, tmp_path, log, quiet, raised):
        """
        The thread that writes goes on after a handler has raised there.
        """
        log.addHandler(Handler(raising(raised)))
        monitor = DriftMonitor("guest", db_path=tmp_path / "guest.db", durability="durable")
        monitor._dispatch.run_on_writer(lambda: {}["missing"])
        run_id = monitor.start_run()
        for n in range(5):
            monitor.record_event("tool_call", "look", run_id=run_id, input_data={"n": n})

        assert monitor.flush(60).complete
        assert 5 == len(monitor.store.get_run_traces("guest", run_id))
        monitor.close()


class TestCallingUs:
    def test_a_handler_that_records_events(self, monitor, log):
        """
        A handler that records every line as an event is let through, and does not go round in circles.
        """
        handler = Handler(lambda record: monitor.record_event("state_transition", "logged", run_id=run_id))
        run_id = monitor.start_run()
        log.addHandler(handler)
        cause_lines(monitor, run_id)
        log.removeHandler(handler)

        assert monitor.flush(60).complete
        names = [event.action_name for event in monitor.store.get_run_traces("guest", run_id)]
        assert 8 == names.count("look")
        assert len(handler.lines) == names.count("logged") > 0

    def test_a_handler_that_makes_us_log(self, log):
        """
        A handler whose own call would be logged again adds no second line, and its count is kept.
        """
        health = Health()
        handler = Handler(lambda record: health.count("in a handler"))
        log.addHandler(handler)
        health.count("outside")

        assert ["Steadyhelm noted: outside (1 so far). See: steadyhelm doctor"] == handler.lines
        assert {"outside": 1, "in a handler": 1} == health.totals()

    def test_no_line_is_written_while_a_run_is_locked(self, monitor, log):
        """
        A handler may wait for another thread that records an event of the same run.
        """
        hung = []

        def wait_for_other(record):
            other = threading.Thread(
                target=monitor.record_event, args=("tool_call", "other"), kwargs={"run_id": run_id}
            )
            other.start()
            other.join(60)
            hung.append(other.is_alive())

        run_id = monitor.start_run()
        monitor.record_event("tool_call", "first", run_id=run_id, timestamp=2_000_000_000.0)
        log.addHandler(Handler(wait_for_other))
        # Counted, and logged, while the event is judged: it is older than the one before.
        monitor.record_event("tool_call", "second", run_id=run_id, timestamp=1_000_000_000.0)

        assert [False] == hung[:1]
        assert "event out of order" in monitor.health.totals()
