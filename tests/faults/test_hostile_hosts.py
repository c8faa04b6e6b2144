"""Hosts that pass objects which lie, raise, never end or change, and call back at the worst moment.

Whatever they do, nothing leaves through us, and every event is stored.
"""

import array
import asyncio
import collections
import copy
import decimal
import fractions
import functools
import gc
import inspect
import itertools
import os
import pickle
import signal
import sqlite3
import threading
import time
from contextlib import closing
from unittest import mock

import pytest

from steadyhelm import DriftMonitor

DATA_FIELDS = ("input_data", "output_data", "metadata", "error")
NUMBER_FIELDS = ("token_count", "duration_ms", "timestamp", "cost_usd", "started_seq")
WAIT_S = 60.0
INSIDE_ANOTHER = "event recorded while another event was being recorded"


@functools.lru_cache
def squared(value):
    """The square of a value."""
    return value * value


class Refusing:
    """Raises whatever is asked of it, in a different way each time."""

    def __bool__(self):
        raise RuntimeError("bool")

    def __eq__(self, other):
        raise RuntimeError("eq")

    def __hash__(self):
        raise RuntimeError("hash")

    def __len__(self):
        raise RuntimeError("len")

    def __iter__(self):
        raise RuntimeError("iter")

    def __repr__(self):
        raise SystemExit("repr")

    def __str__(self):
        raise KeyboardInterrupt

    def __getattribute__(self, name):
        raise OSError(name)


class RefusingType(type):
    """The type of a class about which nothing can be asked."""

    def __instancecheck__(cls, instance):
        raise RuntimeError("instancecheck")

    def __getattribute__(cls, name):
        raise RuntimeError(name)

    def __eq__(cls, other):
        raise RuntimeError("eq")

    def __hash__(cls):
        return 1


class LyingText(str):
    __slots__ = ()

    def __str__(self):
        raise RuntimeError("str")

    def __len__(self):
        return 10**12

    def __getitem__(self, key):
        raise RuntimeError("getitem")

    def __eq__(self, other):
        raise RuntimeError("eq")

    def __hash__(self):
        return 0

    def encode(self, *_):
        raise RuntimeError("encode")

    def isascii(self):
        raise RuntimeError("isascii")

    def lower(self):
        raise RuntimeError("lower")


class LyingDict(dict):
    def items(self):
        raise RuntimeError("items")

    def get(self, *_):
        raise RuntimeError("get")

    def __iter__(self):
        raise RuntimeError("iter")

    def __len__(self):
        raise RuntimeError("len")


class EndlessList(list):
    def __iter__(self):
        return itertools.count()


class LyingInt(int):
    def __add__(self, other):
        raise RuntimeError("add")

    __radd__ = __lt__ = __gt__ = __add__

    def __int__(self):
        raise RuntimeError("int")

    def __float__(self):
        raise RuntimeError("float")

    def __repr__(self):
        raise RuntimeError("repr")


class LyingFloat(float):
    def __float__(self):
        raise RuntimeError("float")

    def __eq__(self, other):
        raise RuntimeError("eq")

    def __hash__(self):
        return 0


class EndlessMapping(collections.abc.Mapping):
    def __getitem__(self, key):
        return EndlessMapping()

    def __iter__(self):
        return itertools.count()

    def __len__(self):
        return 10**18


class EndlessSequence(collections.abc.Sequence):
    def __getitem__(self, key):
        return self

    def __len__(self):
        return 10**18


@pytest.fixture
def monitor(tmp_path, quiet):
    monitor = DriftMonitor("host", db_path=str(tmp_path / "host.db"))
    yield monitor
    monitor.close(WAIT_S)


@pytest.fixture
def count_stored(monitor, tmp_path):
    """Return a function that returns how many events are stored, once all are that could be recorded."""

    def count():
        result = monitor.flush(WAIT_S)
        assert (0, monitor.health.lost) == (result.remaining, result.losses.get(INSIDE_ANOTHER, 0))
        with closing(sqlite3.connect(tmp_path / "host.db")) as database:
            return database.execute("SELECT count(*) FROM events").fetchone()[0]

    return count


def fail_repeatedly(monitor, times=8):
    """Record a call that fails the same way again and again, which is drift."""
    for _ in range(times):
        monitor.record_event("tool_call", "fetch", input_data={"a": 1}, output_data="x", error="refused")
    return times


class TestObjects:
    def test_an_object_that_refuses_everything(self, monitor, count_stored):
        """
        An object that raises at every question may be passed anywhere: data, numbers, names and ids.
        """
        fields = (*DATA_FIELDS, *NUMBER_FIELDS, "call_id", "event_id")
        for field in fields:
            monitor.record_event("tool_call", "fetch", **{field: Refusing()})
        monitor.record_event(Refusing(), Refusing())

        assert len(fields) + 1 == count_stored()

    def test_a_class_that_refuses_everything(self, monitor, count_stored):
        """
        Neither is the class of an object asked, nor a class that is passed itself.
        """

        class OfRefusingType(metaclass=RefusingType):
            pass

        instance = object.__new__(OfRefusingType)
        for field in DATA_FIELDS:
            monitor.record_event("tool_call", "fetch", **{field: instance})
        monitor.record_event(
            "tool_call", "fetch", input_data=[instance, (instance,)], output_data=OfRefusingType
        )

        assert len(DATA_FIELDS) + 1 == count_stored()

    def test_a_text_that_lies(self, monitor, count_stored):
        """
        A subclass of str whose methods raise is read as the text that it is.
        """
        text = LyingText("hello")
        monitor.start_run(goal=text, version=text, task_type=text)
        monitor.record_event(text, text, input_data={text: text}, error=text, call_id=text, event_id=text)
        monitor.record_event("user_message", "user", input_data=text)
        monitor.record_event("llm_request", "model", output_data=text, metadata={text: text})
        monitor.end_run(outcome=text)

        assert 3 == count_stored()

    def test_containers_and_numbers_that_lie(self, monitor, count_stored):
        """
        Subclasses of dict, list, int and float whose methods raise or never end do no harm.
        """
        monitor.record_event(
            "tool_call", "fetch", input_data=LyingDict(a=1), output_data=EndlessList([1]),
            metadata=LyingDict(b=1), token_count=LyingInt(5), duration_ms=LyingFloat(2.0),
            timestamp=LyingFloat(5.0), cost_usd=LyingFloat(1.0),
        )  # fmt: skip
        monitor.record_event("llm_request", "model", output_data=LyingDict(text="x"))
        monitor.progress(LyingFloat(0.5), stuck=LyingFloat(0.1))

        assert 3 == count_stored()

    def test_containers_without_an_end(self, monitor, count_stored):
        """
        A mapping and a sequence that never end are not walked.
        """
        monitor.record_event("tool_call", "fetch", input_data=EndlessMapping(), output_data=EndlessSequence())

        assert 1 == count_stored()

    def test_mocks_are_not_called(self, monitor, count_stored):
        """
        A mock keeps no trace of us.
        """
        mocked = mock.MagicMock()
        for value in (mocked, mock.Mock(spec=str), mock.AsyncMock(), mock.sentinel.a, mock.call(1)):
            monitor.record_event("tool_call", "fetch", **dict.fromkeys(DATA_FIELDS, value))

        assert (5, []) == (count_stored(), mocked.mock_calls)

    def test_iterators_keep_what_they_have(self, monitor, count_stored):
        """
        Generators, coroutines and iterators are not advanced.
        """

        def never_run():
            raise AssertionError
            yield

        async def never_awaited():
            raise AssertionError

        coroutine, iterator = never_awaited(), iter([1, 2])
        lazy = {"a": never_run(), "b": coroutine, "c": iterator, "d": range(10**12), "e": map(int, "12")}
        monitor.record_event("tool_call", "fetch", input_data=lazy, output_data=never_run())
        coroutine.close()

        assert (1, [1, 2]) == (count_stored(), list(iterator))

    def test_data_that_changes_meanwhile(self, monitor, count_stored):
        """
        What other threads change while it is read is stored as it was seen.
        """
        shared, listed, is_over = dict.fromkeys(range(200), 0), list(range(200)), threading.Event()

        def change():
            for number in itertools.count():
                if is_over.is_set():
                    return
                shared[number % 400] = number
                shared.pop(number * 7 % 400, None)
                listed.append(number)
                del listed[:1]
                time.sleep(0)  # else the interpreter lets this thread run alone for long

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(100):
                monitor.record_event("tool_call", "fetch", input_data=shared, output_data={"a": listed})
        finally:
            is_over.set()
            thread.join()

        assert 100 == count_stored()


class TestValues:
    @pytest.mark.parametrize(
        "value",
        [
            float("nan"), float("inf"), -float("inf"), 10**400, -(10**400), -1, True, 2**63, 1e308,
            "12", b"12", decimal.Decimal("sNaN"), fractions.Fraction(1, 3), complex(1, 2),
        ],
        ids=lambda value: f"{type(value).__name__} {value!r:.12}",
    )  # fmt: skip
    def test_numbers_that_are_none(self, monitor, count_stored, value):
        """
        Every number of an event, and the progress of a run, may be anything.
        """
        for field in NUMBER_FIELDS:
            monitor.record_event("llm_request", "model", **{field: value})
        monitor.progress(value, stuck=value)

        assert len(NUMBER_FIELDS) + 1 == count_stored()
        assert "error in record_event" not in monitor.flush(WAIT_S).losses

    @pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e300, 10**400, -1, None, "soon"])
    def test_waits_of_any_length(self, tmp_path, value):
        """
        A host may wait for any time: what is no time waits for none, and what has no end for very long.
        """
        with DriftMonitor("agent", db_path=tmp_path / "agent.db") as monitor:
            monitor.record_event("tool_call", "search")
            assert monitor.flush(WAIT_S).complete
            monitor.flush(value)
            monitor.close(value)

            assert monitor.close(value).complete

    def test_halves_of_characters(self, monitor, count_stored):
        """
        Half surrogates, zero bytes and signs of direction may be in every text.
        """
        odd = "\ud800x\udfff\x00\u202e\ufeff"
        monitor.start_run(goal=odd, run_id=odd, version=odd, task_type=odd)
        kinds = ("tool_call", "llm_request", "user_message", "state_transition", odd)
        for kind in kinds:
            monitor.record_event(
                kind,
                odd,
                input_data={odd: [odd]},
                output_data=odd,
                error=odd,
                metadata={odd: odd},
                call_id=odd,
            )
        monitor.plan([odd])
        monitor.new_goal(odd)
        monitor.end_run(outcome=odd)

        assert len(kinds) + 2 == count_stored()

    def test_keys_of_every_kind(self, monitor, count_stored):
        """
        Keys that are no texts, and bytes that are no UTF-8, are stored in some form.
        """
        odd = {b"\xff": b"\xfe", 1: 2, None: 3, (1, 2): 4, float("nan"): 5, frozenset([1]): 6, "__proto__": 7}
        monitor.record_event("tool_call", "fetch", input_data=odd, output_data=odd, metadata=odd)

        assert 1 == count_stored()

    def test_two_hundred_megabytes(self, monitor, count_stored):
        """
        Of 200 MB of anything a small part is stored.
        """
        size = 200_000_000
        makers = (
            lambda: "ab" * (size // 2),
            lambda: bytes(size),
            lambda: array.array("d", [0.0]) * (size // 8),
            lambda: [0] * (size // 8),
        )
        for make in makers:
            huge = make()
            monitor.record_event(
                "tool_call", "a", input_data=huge, output_data={"a": huge}, metadata={"b": huge}
            )
        text = makers[0]()
        monitor.record_event(text, text, error=text, call_id=text, event_id=text)
        monitor.record_event("user_message", "user", input_data=text)
        monitor.plan(text)

        assert 7 == count_stored()

    def test_an_error_that_cannot_be_told(self, monitor, count_stored):
        """
        An exception whose text raises, which is its own cause, or which is a group of exits, is recorded.
        """

        class SilentError(Exception):
            def __str__(self):
                raise GeneratorExit

        circular = ValueError()
        circular.__cause__, circular.args = circular, (circular,)
        errors = (
            SilentError(),
            SilentError,
            circular,
            BaseExceptionGroup("x", [KeyboardInterrupt(), SystemExit()]),
        )
        for error in errors:
            monitor.record_event("tool_call", "fetch", error=error, input_data=error)

        assert len(errors) == count_stored()

    def test_calls_in_no_order(self, monitor, count_stored):
        """
        What is said about runs that do not exist, or to no run at all, raises nothing.
        """
        for unknown in ("nope", object(), 5):
            monitor.end_run(unknown)
            monitor.suspend(unknown)
            monitor.before_tool("fetch", {}, run_id=unknown)
            monitor.guidance(unknown)
            monitor.roll_back(unknown)
        for nothing in (None, 5, object(), Refusing()):
            monitor.progress(nothing)
            monitor.new_goal(nothing)
            monitor.plan(nothing)
            monitor.start_run(goal=nothing, run_id=nothing, metadata=nothing)
            monitor.end_run()

        assert monitor.flush(WAIT_S).complete


class TestCallbacks:
    @pytest.mark.parametrize(
        "error",
        [
            SystemExit,
            KeyboardInterrupt,
            GeneratorExit,
            asyncio.CancelledError,
            StopIteration,
            MemoryError,
            RecursionError,
        ],
    )
    def test_one_that_raises(self, monitor, count_stored, error):
        """
        Whatever a callback raises, exits included, ends there.
        """

        def raise_error(*_):
            raise error("callback")

        monitor.on_drift(raise_error, min_severity="LOW")
        monitor.on_decision(raise_error)
        monitor.on_incident(raise_error)

        assert fail_repeatedly(monitor) == count_stored()

    def test_one_that_calls_everything(self, monitor, count_stored):
        """
        A callback may record, start and end runs, wait and read: nothing is lost, and it ends.
        """
        calls = []

        def call_everything(*_):
            if len(calls) >= 20:
                return
            calls.append(1)
            run_id = f"inner {len(calls)}"
            monitor.start_run(goal="inner", run_id=run_id)
            monitor.record_event("tool_call", "inner", run_id=run_id)
            monitor.end_run(run_id)
            monitor.flush(0.01)
            monitor.get_recent_alerts()

        monitor.on_drift(call_everything, min_severity="LOW")
        monitor.on_incident(call_everything)
        with monitor.run(goal="outer") as run:
            for _ in range(8):
                monitor.record_event(
                    "tool_call", "a", input_data={"a": 1}, error="refused", run_id=run.run_id
                )

        assert 8 + len(calls) == count_stored()
        assert calls

    def test_one_that_waits_for_another_thread(self, monitor, count_stored):
        """
        A callback may wait for a thread that records to the same run: no lock is held around it.
        """
        waited = []

        def wait_for_thread(*_):
            thread = threading.Thread(target=monitor.record_event, args=("tool_call", "other"))
            thread.start()
            thread.join(WAIT_S)
            waited.append(thread.is_alive())

        monitor.on_drift(wait_for_thread, min_severity="LOW")
        times = fail_repeatedly(monitor, 6)

        assert times + len(waited) == count_stored()
        assert waited
        assert not any(waited)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
    def test_one_that_forks(self, monitor, count_stored):
        """
        A callback may fork; the child records its own events, and the parent goes on.
        """
        children = []

        def fork(*_):
            child = os.fork()
            if not child:
                try:
                    with monitor.run(goal="child"):
                        monitor.record_event("tool_call", "child")
                    monitor.flush(WAIT_S)
                finally:
                    os._exit(0)
            children.append(child)

        monitor.on_incident(fork)
        times = fail_repeatedly(monitor, 6)
        for child in children:
            os.waitpid(child, 0)

        assert times + len(children) == count_stored()
        assert children

    def test_one_that_closes_the_monitor(self, monitor):
        """
        A callback may close the monitor: what is recorded afterwards is counted.
        """
        monitor.on_incident(lambda *_: monitor.close(WAIT_S))
        fail_repeatedly(monitor, 12)

        assert 0 < monitor.flush(WAIT_S).losses["recorded after close"]


class TestInterruptions:
    def test_finalizers(self, monitor, count_stored):
        """
        Objects that record when the garbage collector finds them do so in the middle of our own work.
        """
        made = 0

        class Dying:
            def __del__(self):
                monitor.record_event("tool_call", "dying")

        before = gc.get_threshold()
        gc.set_threshold(5)
        try:
            for number in range(200):
                one, two = Dying(), Dying()
                one.other, two.other = two, one
                del one, two
                made += 2
                monitor.record_event(
                    "tool_call", "fetch", input_data={"a": number}, output_data=[number] * 20
                )
        finally:
            gc.set_threshold(*before)
        gc.collect()
        counted = monitor.flush(WAIT_S).losses.get(INSIDE_ANOTHER, 0)

        assert 200 + made == count_stored() + counted

    @pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such timer")
    def test_signals(self, monitor, count_stored):
        """
        A signal handler that records meets every line of ours; each event is stored or counted.
        """
        handled, recorded = [], 0

        def record(*_):
            handled.append(1)
            monitor.record_event("tool_call", "signal")

        before = signal.signal(signal.SIGALRM, record)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
            limit = time.monotonic() + WAIT_S
            while len(handled) < 200 and time.monotonic() < limit:
                monitor.record_event("tool_call", "fetch", input_data={"a": recorded}, output_data="y" * 300)
                recorded += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        counted = monitor.flush(WAIT_S).losses.get(INSIDE_ANOTHER, 0)

        assert recorded + len(handled) == count_stored() + counted
        assert handled

    def test_time_that_makes_no_sense(self, monitor, count_stored, monkeypatch):
        """
        Clocks that were replaced, as by a library that patches them, change nothing.
        """
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: float("nan"))
            patched.setattr(time, "perf_counter", lambda: 0.0)
            with monitor.run(goal="x"):
                for number in range(20):
                    monitor.record_event("tool_call", "fetch", input_data={"a": number})

        assert 20 == count_stored()


class TestWatchedFunctions:
    def test_exits_pass_unchanged(self, monitor):
        """
        What a watched function raises, exits and cancellation included, reaches its caller.
        """

        @monitor.tool
        def leave(error):
            raise error

        @monitor.tool
        async def leave_later(error):
            raise error

        for error in (SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()):
            with pytest.raises(type(error)) as caught:
                leave(error)
            assert caught.value is error

        async def call():
            with pytest.raises(asyncio.CancelledError):
                await leave_later(asyncio.CancelledError())

        asyncio.run(call())

    def test_whatever_can_be_called(self, monitor, count_stored):
        """
        Methods, static and class methods, partials, builtins, classes and objects are called as before.
        """

        class Kit:
            @monitor.tool
            def get_self(self):
                return self

            @staticmethod
            @monitor.tool
            def get_one():
                return 1

            @classmethod
            @monitor.tool
            def get_class(cls):
                return cls

            def __call__(self, value):
                return value

        kit = Kit()

        assert (kit, 1, Kit) == (kit.get_self(), Kit.get_one(), Kit.get_class())
        assert (2, 5, 3) == (monitor.tool(len)([1, 2]), monitor.tool(int)("5"), monitor.tool(Kit())(3))
        assert 8 == monitor.tool(functools.partial(pow, 2))(3)
        assert 7 == count_stored()

    def test_methods_of_what_can_be_called(self, monitor, count_stored, monkeypatch):
        """
        A function with a cache keeps its methods, its signature and its place in its module.
        """
        watched = monitor.tool(squared)
        monkeypatch.setitem(globals(), "squared", watched)

        assert [9, 9] == [watched(3), watched(3)]
        assert (1, 1) == watched.cache_info()[:2]
        watched.cache_clear()
        assert (0, 0) == watched.__wrapped__.cache_info()[:2]
        assert inspect.signature(watched.__wrapped__) == inspect.signature(watched)
        assert watched is pickle.loads(pickle.dumps(watched))
        assert 2 == count_stored()

    def test_methods_of_a_class_with_a_cache(self, monitor, count_stored):
        """
        A method with a cache is still a method, whose cache can be asked for and cleared.
        """

        class Kit:
            @monitor.tool
            @functools.lru_cache(maxsize=8)  # noqa: B019 - it is how hosts write it
            def double(self, value):
                return 2 * value

        kit = Kit()

        assert [4, 4] == [kit.double(2), kit.double(2)]
        assert (1, 1) == Kit.double.cache_info()[:2] == kit.double.cache_info()[:2]
        assert 2 == count_stored()

    def test_methods_of_an_object_that_can_be_called(self, monitor, count_stored):
        """
        An object keeps its methods, and none of its code runs while it is wrapped.
        """

        class Task:
            limit = property(lambda self: pytest.fail("a property was read"))

            def __init__(self):
                self.calls = []

            def __call__(self):
                return self.calls

            def delay(self, value):
                self.calls.append(value)

        watched = monitor.tool(Task())
        watched.delay(7)

        assert [7] == watched() == watched.calls
        assert not hasattr(watched, "limit")
        assert 1 == count_stored()

    def test_copies(self, monitor, count_stored):
        """
        A host may copy an object that has a monitor, a run or a watched function in it.
        """
        kept = {"monitor": monitor, "run": monitor.run(goal="x"), "tool": monitor.tool(lambda: 1)}
        copied = copy.deepcopy(kept)
        with copied["run"]:
            copied["tool"]()

        assert copied["monitor"] is monitor
        assert 1 == count_stored()

    def test_results_that_refuse_everything(self, monitor, count_stored):
        """
        A watched function returns the very object, whatever it is.
        """
        refusing = Refusing()

        assert monitor.tool(lambda: refusing)() is refusing
        assert monitor.tool(lambda _: NotImplemented)(refusing) is NotImplemented
        assert 2 == count_stored()
