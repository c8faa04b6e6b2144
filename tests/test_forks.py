"""A process that forks: no lock that another thread holds at that moment may hang the child."""

import ast
import os
import select
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import steadyhelm
from steadyhelm import DriftMonitor
from steadyhelm.adapters.clients.conversations import ConversationTable
from steadyhelm.boundary.driver import Boundary
from steadyhelm.bounded import BoundedDict
from steadyhelm.checkpoints.memory import MemoryKeeper
from steadyhelm.engine.dispatch import Dispatch
from steadyhelm.engine.health import Health
from steadyhelm.forks import ForkSafeLock
from steadyhelm.lazy_properties import lazy_property

SOURCE = Path(steadyhelm.__file__).parent

RESTARTED = {
    "engine/dispatch.py": "queue, lock and thread begin anew together, in `after_fork`",
    "sinks/alerts/worker.py": "lock and thread begin anew together, in `after_fork`",
    "stores/postgres/connections.py": "locks and connections begin anew together, in `after_fork`",
    "stores/connections.py": "its locks are taken before a fork, so that no connection is in use during it",
    "stores/database.py": "its lock is made anew by the connections of either database, in `after_fork`",
    "testing/store_upkeep_checks.py": "a check for tests, which waits for a thread of its own",
}

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def goes_on_in_child(lock, work: Callable[[], object]) -> bool:
    """Return whether a child does its work although another thread held the lock when it was forked."""
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            may_end.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(60)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        work()
        os.write(writer, b"done")
        os._exit(0)
    may_end.set()
    holder.join()
    has_answered = bool(select.select([reader], [], [], 60)[0])
    if not has_answered:
        os.kill(child, 9)
    os.waitpid(child, 0)
    return has_answered


def _uses_cached_property(path: Path) -> bool:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return "cached_property" in names | attributes


@needs_fork
class TestForking:
    def test_a_lock_is_free_in_the_child(self):
        """
        A lock that another thread held is free in the child, as often as it is needed.
        """
        lock = ForkSafeLock()

        def use() -> None:
            with lock, lock:
                pass

        assert goes_on_in_child(lock, use)

    def test_counts_go_on(self):
        """
        Losses can be counted in the child although the parent was counting.
        """
        health = Health()

        assert goes_on_in_child(health.lock, lambda: health.count("in the child"))

    def test_checkpoints_go_on(self):
        """
        Checkpoints can be pruned in the child although the parent was keeping one.
        """
        keeper = MemoryKeeper()

        assert goes_on_in_child(keeper._lock, lambda: keeper.prune(0.0))

    def test_conversations_of_clients_go_on(self):
        """
        A client can be used in the child although a conversation was being looked up in the parent.
        """
        conversations = ConversationTable()

        assert goes_on_in_child(conversations.lock, conversations.lock.acquire)

    def test_a_run_goes_on(self, tmp_path):
        """
        Steps of a run can be recorded in the child although one was being recorded in the parent.
        """
        monitor = DriftMonitor("agent", db_path=tmp_path / "steadyhelm.db")
        run = Boundary(monitor, "test", {"before_tool": {"stop"}}).start_run("go")

        def use() -> None:
            run.before_tool("c1", "fetch")
            run.after_tool("c1", "page")
            assert monitor.health.totals() == {"run continued in a forked process": 1}

        assert goes_on_in_child(run.lock, use)
        monitor.close()

    def test_runs_can_be_started(self, tmp_path):
        """
        Runs can be started and found in the child although the tables of runs were in use in the parent.
        """
        monitor = DriftMonitor("agent", db_path=tmp_path / "steadyhelm.db")
        boundary = Boundary(monitor, "test", {"before_tool": {"stop"}})

        assert goes_on_in_child(boundary._lock, lambda: boundary.start_run("go", key="a"))
        assert goes_on_in_child(monitor.runs.lock, lambda: boundary.start_run("go", key="b"))
        monitor.close()

    def test_a_property_can_be_computed(self):
        """
        A lazy property can be computed in the child although another thread of the parent was computing one.
        """
        is_computing, may_end = threading.Event(), threading.Event()

        class Slow:
            @lazy_property
            def value(self) -> int:
                is_computing.set()
                may_end.wait(60)
                return 1

        parent = threading.Thread(target=lambda: Slow().value)
        parent.start()
        assert is_computing.wait(60)

        def compute() -> None:
            may_end.__init__()  # the parent's thread has its lock
            may_end.set()
            assert 1 == Slow().value

        assert goes_on_in_child(ForkSafeLock(), compute)
        may_end.set()
        parent.join()

    def test_the_queue_goes_on(self):
        """
        Records can be queued in the child although the parent was queueing one.
        """
        dispatch = Dispatch([], health=Health())

        def use() -> None:
            dispatch.after_fork()
            dispatch.flush(1.0)

        assert goes_on_in_child(dispatch._backlog.lock, use)


class TestTheSource:
    def test_no_property_holds_a_lock(self):
        """
        No class uses `functools.cached_property`: a child would wait for a thread that computes one.
        """
        users = [path for path in SOURCE.rglob("*.py") if _uses_cached_property(path)]

        assert [] == users

    def test_every_lock_is_safe_to_fork(self):
        """
        No class makes a lock of another kind, except those that restart as a whole.
        """
        others = {
            str(path.relative_to(SOURCE))
            for path in SOURCE.rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"threading.Lock", "threading.RLock"}
        }

        assert others <= set(RESTARTED)


class TestBoundedDict:
    def test_the_newest_stay(self):
        """
        Of more items than the limit the newest are kept, and the one that is dropped is returned.
        """
        known: BoundedDict[str, int] = BoundedDict(2)
        dropped = [known.put(name, place) for place, name in enumerate("abc")]

        assert ([None, None, ("a", 0)], {"b": 1, "c": 2}) == (dropped, dict(known))

    def test_an_item_set_again_is_new(self):
        """
        An item that is set again outlives those that were set after it the first time.
        """
        known: BoundedDict[str, int] = BoundedDict(2)
        for name in "abac":
            known[name] = 1

        assert ["a", "c"] == list(known)

    def test_a_default_counts(self):
        """
        An item that is added as a default makes room as well.
        """
        known: BoundedDict[int, str] = BoundedDict(1)
        known.setdefault(1, "one")
        known.setdefault(2, "two")

        assert {2: "two"} == dict(known)
