"""A signal handler that raises, wherever Python may run it: no lock stays held, and the queue goes on."""

import ctypes
import dis
import signal
import sys
import threading
import weakref
from collections import Counter

import pytest

from steadyhelm import DriftMonitor, forks, logs
from steadyhelm.engine import backlog as backlog_module
from steadyhelm.engine import dispatch as dispatch_module
from steadyhelm.engine import health as health_module
from steadyhelm.engine import run_control, turns
from steadyhelm.engine.backlog import Backlog
from steadyhelm.engine.dispatch import Dispatch
from steadyhelm.engine.health import Health
from steadyhelm.events import RunInfo
from steadyhelm.journal import files
from steadyhelm.sink import Sink

# Where the start of a thread is interrupted, Python itself may end that thread with an exception.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

WAIT_S = 60.0
INTERRUPTED = {
    module.__file__
    for module in (
        backlog_module, dispatch_module, files, forks, health_module, logs, run_control, threading, turns
    )
}  # fmt: skip
LOOKS_FOR_SIGNALS = ("CALL", "JUMP_BACKWARD")
"""How the names of the instructions begin behind which Python runs the handlers of signals that came.

It runs them where a function begins, too.
"""

send_interrupt = ctypes.pythonapi.PyErr_SetInterrupt
"""Marks SIGINT as come. It is called by a weak reference, with that as its argument."""
send_interrupt.argtypes, send_interrupt.restype = [ctypes.py_object], None


class InterruptError(Exception):
    """What the signal handler raises."""


def raise_interrupt(*_):
    raise InterruptError


@pytest.fixture(autouse=True)
def _handler():
    before = signal.signal(signal.SIGINT, raise_interrupt)
    yield
    signal.signal(signal.SIGINT, before)


class Interrupter:
    """Lets a signal come at one of the instructions behind which Python looks for one, in the queue."""

    def __init__(self, place):
        self._left = place
        self._token = None

    @property
    def has_interrupted(self):
        """Whether there was such an instruction."""
        return self._token is not None

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename not in INTERRUPTED:
            return None
        frame.f_trace_opcodes = True
        name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        self._left -= event == "call" or (event == "opcode" and name.startswith(LOOKS_FOR_SIGNALS))
        if self._left >= 0:
            return self
        sys.settrace(None)
        token = type(self)(0)
        # The token is gone when this function is left: no instruction of its own is behind that.
        self._token = weakref.ref(token, send_interrupt)
        return None

    def interrupt(self, job):
        """Do a job; return the exception that left it."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            job()
            sys.settrace(None)  # behind it Python looks for a signal that came at the end
        except BaseException as exc:  # noqa: BLE001 - it is compared
            return exc
        finally:
            sys.settrace(before)
        return None


def is_free(lock):
    """Return whether another thread gets the lock."""
    taken = []

    def take():
        taken.append(lock.acquire(timeout=WAIT_S))
        if taken[0]:
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return taken[0]


def make_record(name):
    return RunInfo(agent_id="a", run_id=name)


class Collected(Sink):
    """Keeps the ids of the runs that it gets."""

    name = "collected"

    def __init__(self):
        self.ids = []

    def write(self, records):
        self.ids += [record.run_id for record in records if isinstance(record, RunInfo)]


BACKLOG_JOBS = {
    "put": lambda backlog: backlog.put("e", [make_record("put")]),
    "hold": lambda backlog: backlog.hold("h", [make_record("held")]),
    "miss": lambda backlog: backlog.miss(1),
    "keep": lambda backlog: backlog.keep([]),
    "wait": lambda backlog: backlog.wait_until_done(backlog.put_count, 0.001),
    "complete": lambda backlog: backlog.complete(0),
}


@pytest.mark.parametrize("cap", [10, 1], ids=["in memory", "in the file"])
@pytest.mark.parametrize("job", BACKLOG_JOBS)
def test_the_backlog_counts_right(tmp_path, job, cap):
    """
    What was put before and afterwards is taken once, the interrupted record at most once; nothing remains.
    """
    place, has_interrupted = 0, True
    while has_interrupted:
        backlog = Backlog(cap=cap, may_drop=True, database=tmp_path / "a.db", journal_cap=1 << 20)
        backlog.open_journal()
        backlog.put("e", [make_record("before")])
        interrupter = Interrupter(place)
        raised = interrupter.interrupt(lambda backlog=backlog: BACKLOG_JOBS[job](backlog))
        has_interrupted = interrupter.has_interrupted

        assert type(raised) is (InterruptError if has_interrupted else type(None)), place
        assert is_free(backlog.lock), place
        backlog.put("e", [make_record("after")])
        taken = Counter()
        while (batch := backlog.take(1))[0]:
            assert 0 == batch[1], place
            taken.update(record.run_id for _, record in batch[0])
            backlog.complete(len(batch[0]))
        taken.pop("put", None)
        assert {"before": 1, "after": 1} == taken, place
        assert 0 == backlog.remaining, place
        backlog.close(is_counted=True)
        place += 1
    assert place > 1


DISPATCH_JOBS = {
    "put": lambda dispatch: dispatch.put("", make_record("put")),
    "flush": lambda dispatch: dispatch.flush(WAIT_S),
    "job": lambda dispatch: dispatch.run_on_writer(lambda: None),
    "acknowledge": lambda dispatch: dispatch.acknowledge(),
}


@pytest.mark.parametrize("durable", [False, True], ids=["fast", "durable"])
@pytest.mark.parametrize("job", DISPATCH_JOBS)
def test_the_writer_goes_on(job, durable):
    """
    Whatever is interrupted, the writer writes what is put before and afterwards, once, and flush says so.
    """
    place, has_interrupted = 0, True
    while has_interrupted:
        sink = Collected()
        dispatch = Dispatch([sink], health=Health(), durable=durable, linger_s=0.0)
        dispatch.put("", make_record("before"))
        interrupter = Interrupter(place)
        raised = interrupter.interrupt(lambda dispatch=dispatch: DISPATCH_JOBS[job](dispatch))
        has_interrupted = interrupter.has_interrupted

        assert type(raised) is (InterruptError if has_interrupted else type(None)), place
        dispatch.put("", make_record("after"))
        assert dispatch.flush(WAIT_S).complete, place
        assert dispatch.close(WAIT_S).complete, place
        counted = Counter(sink.ids)
        counted.pop("put", None)
        assert {"before": 1, "after": 1} == counted, place
        place += 1
    assert place > 1


MONITOR_JOBS = {
    "record": lambda monitor: monitor.record_event("tool_call", "interrupted"),
    "flush": lambda monitor: monitor.flush(WAIT_S),
    "end": lambda monitor: monitor.end_run(),
}


@pytest.mark.parametrize("job", MONITOR_JOBS)
def test_a_monitor_goes_on(tmp_path, job):
    """
    After each interruption the locks of a monitor are free, its lines are logged, and its events are stored.
    """
    monitor = DriftMonitor("host", db_path=str(tmp_path / "host.db"))
    place, has_interrupted = 0, True
    while has_interrupted:
        recorder = monitor.runs.get(monitor.start_run())
        interrupter = Interrupter(place)
        raised = interrupter.interrupt(lambda: MONITOR_JOBS[job](monitor))
        has_interrupted = interrupter.has_interrupted

        assert type(raised) is (InterruptError if has_interrupted else type(None)), place
        assert all(map(is_free, (recorder.lock, *monitor._control.services.inner_locks))), place
        assert not logs.logger.is_held(), place
        monitor.record_event("tool_call", "after")
        monitor.end_run()
        place += 1
    assert monitor.flush(WAIT_S).complete
    store = monitor.store
    stored = [
        event for run in store.get_run_ids("host", limit=1000) for event in store.get_run_traces("host", run)
    ]
    assert place == sum(event.action_name == "after" for event in stored) > 1
    assert monitor.close(WAIT_S).complete
