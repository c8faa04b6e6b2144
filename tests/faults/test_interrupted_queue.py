"""A signal handler or a finalizer that records anything, wherever in the queue it interrupts: all is kept."""

import os
import sys

import pytest

from steadyhelm.engine import backlog as backlog_module
from steadyhelm.engine.backlog import Backlog
from steadyhelm.events import RunInfo
from steadyhelm.journal import files
from steadyhelm.journal.abandoned import claim, list_pending

INTERRUPTED = {backlog_module.__file__, files.__file__}
RECORDS = {name: RunInfo(agent_id="a", run_id=name) for name in ("before", "put", "held", "handler")}
JOBS = {
    "put": lambda backlog: backlog.put("e", [RECORDS["put"]]),
    "hold": lambda backlog: backlog.hold("h", [RECORDS["held"]]),
    "release": lambda backlog: backlog.release(0),
    "keep": lambda backlog: backlog.keep([]),
    "complete": lambda backlog: backlog.complete(0),
    "tidy": lambda backlog: backlog.tidy_journal(),
}


class Interrupter:
    """Calls something at one of the instructions of the queue, as a signal handler does."""

    def __init__(self, place, handle):
        self._left = place
        self._handle = handle
        self.has_interrupted = False

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename not in INTERRUPTED:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self._left -= 1
            if self._left < 0:
                sys.settrace(None)
                self.has_interrupted = True
                self._handle()
                return None
        return self


def interrupt(database, job, place):
    """Interrupt a job there; return whether it came so far, the records queued, and those in the file."""
    backlog = Backlog(cap=10, may_drop=True, database=database, journal_cap=1 << 20)
    backlog.open_journal()
    backlog.put("e", [RECORDS["before"]])
    interrupter = Interrupter(place, lambda: backlog.put("e", [RECORDS["handler"]]))
    before = sys.gettrace()
    sys.settrace(interrupter)
    try:
        JOBS[job](backlog)
    finally:
        sys.settrace(before)
    count = backlog.put_count
    queued = [record.run_id for _, record in backlog.take(10)[0]]
    backlog.close(is_counted=True)
    (path,) = list_pending(database)
    with claim(path) as journal:
        in_file = [record.run_id for entries in journal for _, record in entries]
        journal.delete()
    assert len(queued) == count
    return interrupter.has_interrupted, queued, in_file


@pytest.mark.parametrize("job", JOBS)
def test_nothing_is_lost_at_any_instruction(tmp_path, job):
    """
    Wherever it interrupts, the handler's record and the interrupted one are in the queue and in the journal.
    """
    place = 0
    while True:
        is_interrupted, queued, in_file = interrupt(tmp_path / "steadyhelm.db", job, place)
        if not is_interrupted:
            break
        expected = {"before", "handler"} | ({"put"} if job == "put" else set())
        assert expected == set(queued), place
        assert expected | ({"held"} if job == "hold" else set()) == set(in_file), place
        assert len(queued) == len(expected), place
        place += 1
    assert place > 10


def test_a_descriptor_that_the_host_took(tmp_path):
    """
    A host that closes all files, as a daemon does, keeps its own: the journal goes on in another file.
    """
    database = tmp_path / "steadyhelm.db"
    backlog = Backlog(cap=10, may_drop=True, database=database, journal_cap=1 << 20)
    backlog.open_journal()
    backlog.put("e", [RECORDS["before"]])
    taken = backlog.journal.segments[-1].descriptor
    host = tmp_path / "host.txt"
    with host.open("wb") as file:
        file.write(b"host" * 100)
        os.dup2(file.fileno(), taken)
    backlog.tidy_journal()
    backlog.put("e", [RECORDS["put"]])
    backlog.close(is_counted=True)

    os.close(taken)  # it is the host's, and open
    assert b"host" * 100 == host.read_bytes()
    in_files = set()
    for path in list_pending(database):
        with claim(path) as journal:
            in_files.update(record.run_id for entries in journal for _, record in entries)
    assert {"before", "put"} == in_files
    assert taken >= 400
