"""A signal handler that raises in the middle of a transaction: no lock stays taken, and no half is stored."""

import sys
import threading
from opcode import opname

import pytest

from steadyhelm.stores import connections as connections_module
from steadyhelm.stores import database as database_module
from steadyhelm.stores.connections import SQLiteConnections
from steadyhelm.stores.opening import prepare

INTERRUPTED = {connections_module.__file__, database_module.__file__}
SIGNALS_ARE_SEEN_AFTER = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME", "JUMP_BACKWARD", "YIELD_VALUE"}
"""The instructions after which the interpreter calls the handlers of signals."""


class Interrupted(BaseException):
    """What the handler raises."""


class Interrupter:
    """Raises at one of the places in the code of transactions where the handler of a signal may run."""

    def __init__(self, place):
        self._left = place
        self._last = {}
        self.has_interrupted = False

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename not in INTERRUPTED:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = self._last.get(id(frame))
            self._last[id(frame)] = opname[frame.f_code.co_code[frame.f_lasti]]
            self._left -= before in SIGNALS_ARE_SEEN_AFTER
            if self._left < 0:
                sys.settrace(None)
                self.has_interrupted = True
                raise Interrupted
        return self


def write_plainly(connections):
    with connections.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES ('a')")


def write_nested(connections):
    with connections.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES ('a')")
        with connections.transaction():
            connection.execute("INSERT INTO notes VALUES ('b')")


@pytest.fixture
def connections(tmp_path):
    path = tmp_path / "steadyhelm.db"
    prepare(path, timeout_s=5.0)
    connections = SQLiteConnections(
        path, read_only=False, synchronous="NORMAL", timeout_s=5.0, on_rollback=lambda: None
    )
    with connections.transaction() as connection:
        connection.execute("CREATE TABLE notes (word TEXT)")
    yield connections
    connections.close()


def interrupt(connections, work, place):
    """Interrupt work there, and return whether it came so far."""
    interrupter, before = Interrupter(place), sys.gettrace()
    sys.settrace(interrupter)
    try:
        work(connections)
    except Interrupted:
        pass
    finally:
        sys.settrace(before)
    return interrupter.has_interrupted


def write_in_thread(connections):
    """Write in another thread, empty the table, and return the words that were in it."""
    found = []

    def write():
        with connections.transaction() as connection:
            found.extend(word for (word,) in connection.execute("SELECT word FROM notes ORDER BY word"))
            connection.execute("DELETE FROM notes")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    writer.join(30)
    assert not writer.is_alive(), "the lock is still taken"
    return found


@pytest.mark.sqlite
@pytest.mark.parametrize(("work", "whole"), [(write_plainly, ["a"]), (write_nested, ["a", "b"])])
def test_no_lock_stays_taken(connections, work, whole):
    """
    Wherever it interrupts, another thread can write at once, and finds all of the transaction or nothing.
    """
    place = 0
    while interrupt(connections, work, place):
        assert write_in_thread(connections) in ([], whole), place
        place += 1

    assert whole == write_in_thread(connections)
    assert place > 20
