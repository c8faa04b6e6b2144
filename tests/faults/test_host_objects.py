"""Whatever object the host passes: it is not asked anything, nothing is raised, and the event is kept."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import sys
import threading
import types
import uuid
import weakref
import xmlrpc.client
from typing import NamedTuple
from unittest.mock import MagicMock

import attrs
import msgspec
import numpy as np
import pydantic
import pytest

from steadyhelm import DriftMonitor


class Touched(BaseException):
    """Raised by whatever is asked of an object that must not be asked."""


def refuse(*_args, **_kwargs):
    raise Touched("hands off")


ASKED = (
    "__hash__", "__bool__", "__len__", "__iter__", "__getitem__", "__contains__", "__eq__", "__ne__",
    "__str__", "__repr__", "__format__", "__bytes__", "__int__", "__float__", "__index__", "__call__",
    "__enter__", "__exit__", "__reversed__", "__dir__", "__sizeof__", "__reduce_ex__", "__copy__",
    "__deepcopy__", "get", "keys", "items", "values", "pop", "model_dump", "to_dict", "dict", "json",
    "encode", "decode", "strip", "lower", "read", "copy",
)  # fmt: skip


def hostile(*bases, **attributes):
    """Return a class that raises at everything that could be asked of its objects."""
    methods = dict.fromkeys(ASKED, refuse)
    if not bases:
        methods |= {"__getattr__": refuse, "__getattribute__": refuse}
    return type("Hostile", bases, methods | attributes)


class Lying:
    """Says that its class cannot be known, as an unbound proxy does."""

    __class__ = property(refuse)


class LyingText:
    """Says that it is a text."""

    __class__ = str


class LyingDict:
    """Says that it is a dict."""

    __class__ = dict
    get = keys = items = refuse


class _Lookup:
    def __get__(self, instance, owner):
        raise RuntimeError("working outside of a context")


class LocalProxy:
    """A proxy without anything behind it, built as web frameworks build theirs."""

    __slots__ = ("__wrapped",)
    __class__ = __bool__ = __len__ = __iter__ = __await__ = __next__ = __aiter__ = __anext__ = _Lookup()
    __str__ = __repr__ = __hash__ = __eq__ = __call__ = __dict__ = _Lookup()

    def __getattr__(self, name):
        raise RuntimeError("working outside of a context")


class Mocked:
    """Its attributes are properties that must not be computed."""

    usage = content = text = output = raw = property(refuse)


class Meta(type):
    """A metaclass that answers nothing."""

    __hash__ = __eq__ = __repr__ = __instancecheck__ = __subclasscheck__ = refuse

    def __getattribute__(cls, name):
        refuse()


def built_by_meta():
    return object.__new__(Meta("Odd", (), {}))


class Slotted:
    """Has a slot without a value, and a `__dict__` that is a property."""

    __slots__ = ("usage",)
    __dict__ = property(refuse)


def proxy_of_nothing():
    class Gone:
        pass

    return weakref.proxy(Gone())


def bound_key():
    """A dict whose key compares itself, with the hash of a name that we look up."""

    class Key(str):
        __slots__ = ()

        def __hash__(self):
            return hash("usage")

        __eq__ = refuse

    return {Key("usage"): 1}


OBJECTS = {
    "object": hostile(),
    "dict": lambda: hostile(dict)({"a": 1}),
    "list": lambda: hostile(list)([1, 2]),
    "tuple": lambda: hostile(tuple)((1, 2)),
    "set": lambda: hostile(set)({1}),
    "frozenset": lambda: hostile(frozenset)({1}),
    "text": lambda: hostile(str)("words"),
    "bytes": lambda: hostile(bytes)(b"words"),
    "bytearray": lambda: hostile(bytearray)(b"words"),
    "int": lambda: hostile(int)(7),
    "float": lambda: hostile(float)(7.5),
    "deque": lambda: hostile(collections.deque)([1]),
    "ordered dict": lambda: hostile(collections.OrderedDict)({"a": 1}),
    "user dict": lambda: hostile(collections.UserDict)({"a": 1}),
    "mapping": hostile(collections.abc.Mapping),
    "path": lambda: hostile(type(pathlib.Path("a")))("a/b"),
    "date": lambda: hostile(dt.datetime)(2026, 1, 1),
    "zone": lambda: dt.datetime(2026, 1, 1, tzinfo=type("Zone", (dt.tzinfo,), {"utcoffset": refuse})()),
    "decimal": lambda: hostile(decimal.Decimal)("1.5"),
    "uuid": lambda: hostile(uuid.UUID)(int=5),
    "array": lambda: np.arange(3).view(hostile(np.ndarray, __array_finalize__=lambda *_: None)),
    "lying class": Lying,
    "lying text": LyingText,
    "lying dict": LyingDict,
    "unbound proxy": LocalProxy,
    "weak proxy": proxy_of_nothing,
    "metaclass": built_by_meta,
    "slots": Slotted,
    "properties": Mocked,
    "own class": hostile,
    "key": bound_key,
    "module": lambda: type("Module", (types.ModuleType,), {"__getattr__": refuse})("odd"),
    "namespace": lambda: types.SimpleNamespace(inner=hostile()()),
    "struct": hostile(msgspec.Struct),
}


# By name: a test runner would show the object itself when a test fails.
any_object = pytest.mark.parametrize("kind", OBJECTS)


@pytest.fixture
def monitor(tmp_path):
    monitor = DriftMonitor("guest", db_path=tmp_path / "guest.db")
    yield monitor
    monitor.close()


def stored(monitor, run_id):
    assert monitor.flush(60).complete
    return monitor.store.get_run_traces("guest", run_id)


class TestUntouched:
    @any_object
    def test_as_the_data_of_an_event(self, monitor, kind):
        """
        As argument, result and metadata, alone and inside of other data, it is recorded without being asked.
        """
        thing = OBJECTS[kind]()
        run_id = monitor.start_run(metadata={"it": thing})
        monitor.record_event("tool_call", "one", input_data=thing, output_data=thing, metadata=thing)
        monitor.record_event(
            "tool_call", "two", input_data={"a": [thing]}, output_data=[thing, (thing,)], metadata={1: thing}
        )
        monitor.end_run(run_id)

        assert ["one", "two"] == [event.action_name for event in stored(monitor, run_id)]
        assert {} == monitor.health.totals()

    @any_object
    def test_as_what_a_host_reports(self, monitor, kind):
        """
        As a plan, a goal, a reason or a checkpoint it is survived too.
        """
        thing = OBJECTS[kind]()
        run_id = monitor.start_run()
        monitor.record_event("tool_call", "one", run_id=run_id)
        for report in (monitor.plan, monitor.new_goal, monitor.not_carried_out, monitor.call_refused):
            report(thing, run_id=run_id)
        monitor.progress(thing, stuck=thing, run_id=run_id)
        monitor.grant(thing, daily_tokens=1, run_id=run_id)
        monitor.request_extension(thing, run_id=run_id)

        assert [] == monitor.list_written_files(thing, run_id=run_id)
        assert "one" in {event.action_name for event in stored(monitor, run_id)}

    @any_object
    def test_as_verdicts(self, monitor, kind):
        """
        As verdicts it is not asked either: the run starts, its steps are recorded, and each is counted.
        """
        thing = OBJECTS[kind]()
        run_id = monitor.start_run(can=thing)
        monitor.record_event("tool_call", "one", run_id=run_id, can=thing)
        monitor.record_event("tool_call", "two", run_id=run_id, can=[thing, "proceed"])

        assert ["one", "two"] == [event.action_name for event in stored(monitor, run_id)]
        assert not [reason for reason in monitor.health.totals() if reason.startswith("error")]

    def test_as_verdicts_that_are_computed(self, monitor):
        """
        An iterator is not asked for its verdicts, whatever it would raise: what the run can do holds.
        """

        def verdicts():
            raise SystemExit("computing the verdicts")
            yield "proceed"

        run_id = monitor.start_run(can=verdicts())
        monitor.record_event("tool_call", "one", run_id=run_id, can=verdicts())

        assert ["one"] == [event.action_name for event in stored(monitor, run_id)]
        [(reason, count)] = monitor.health.totals().items()
        assert ("verdicts that were not given as a set", 2) == (reason[:37], count)

    @any_object
    def test_as_every_other_parameter(self, monitor, kind):
        """
        As a name, an id, a number, an error, a goal or an outcome it is survived, and the event is kept.
        """
        thing = OBJECTS[kind]()
        run_id = monitor.start_run(thing, goal=thing, task_type=thing, version=thing, parent_run_id=thing)
        monitor.record_event(
            thing,
            thing,
            run_id=run_id,
            timestamp=thing,
            event_id=thing,
            token_count=thing,
            duration_ms=thing,
            started_seq=thing,
            call_id=thing,
            parent_run_id=thing,
            error=thing,
            cost_usd=thing,
        )
        monitor.record_event("tool_call", "by its id", run_id=thing)
        monitor.before_tool(thing, thing, run_id=run_id)
        monitor.call_refused(thing, reason=thing, decision=thing, call_id=thing, run_id=run_id)
        monitor.not_carried_out(thing, run_id=run_id)
        monitor.progress(thing, stuck=thing, run_id=run_id)
        monitor.request_extension(thing, steps=thing, run_id=run_id)
        monitor.end_run(run_id, outcome=thing)

        assert 5 == len(stored(monitor, run_id))
        assert not [reason for reason in monitor.health.totals() if reason.startswith("error")]

    @any_object
    def test_as_what_functions_take_and_return(self, monitor, kind):
        """
        A watched tool or model takes and returns the very object, and both calls are recorded.
        """
        thing = OBJECTS[kind]()

        @monitor.tool
        def tool(it, *others, **named):
            return it

        @monitor.model
        def model(it):
            return it

        with monitor.run() as run:
            assert tool(thing, thing, named=thing) is thing
            assert model(thing) is thing

        assert ["tool", "model"] == [event.action_name for event in stored(monitor, run.run_id)]
        assert {} == monitor.health.totals()

    @any_object
    def test_as_what_an_object_takes_and_returns(self, monitor, kind):
        """
        A wrapped object takes and returns the very object, whatever it seems to be.
        """
        thing = OBJECTS[kind]()

        class Agent:
            def invoke(self, given):
                return given

        assert monitor.wrap(Agent()).invoke(thing) is thing

        monitor.flush()
        [run_id] = monitor.store.get_run_ids("guest")
        assert ["agent_invoke", "agent_complete"] == [event.action_name for event in stored(monitor, run_id)]
        assert {} == monitor.health.totals()


class TestProxies:
    def test_a_mock_has_no_calls_of_ours(self, monitor):
        """
        A mock that is passed everywhere was called by nobody, and has no attribute that we asked for.
        """
        mock, plain = MagicMock(), MagicMock()
        children = set(plain._mock_children)

        @monitor.tool
        def tool(it):
            return it

        with monitor.run(goal=mock, metadata=mock) as run:
            run.record("tool_call", mock, input_data=mock, output_data=mock, error=mock, metadata={"m": mock})
            tool(mock)

        assert [] == mock.mock_calls == mock.method_calls
        assert children == set(mock._mock_children)
        assert 2 == len(stored(monitor, run.run_id))

    def test_a_remote_proxy_is_not_asked_over_the_network(self, monitor):
        """
        A proxy of a server makes no request: every attribute of it would be one.
        """
        asked = []

        class Transport(xmlrpc.client.Transport):
            def request(self, *args, **kwargs):
                asked.append(args)
                return (("answer",),)

        server = xmlrpc.client.ServerProxy("http://127.0.0.1:9/", transport=Transport())

        @monitor.model
        def model(it):
            return it

        with monitor.run(goal=server, metadata={"server": server}) as run:
            run.record("tool_call", "call", input_data={"server": server}, output_data=server)
            model(server)

        assert [] == asked
        assert 2 == len(stored(monitor, run.run_id))

    def test_a_mock_can_be_wrapped(self, monitor):
        """
        A wrapped mock works as the mock does, and is called once.
        """
        mock = MagicMock()
        mock.invoke.return_value = {"output": "done"}

        assert {"output": "done"} == monitor.wrap(mock).invoke("go")
        mock.invoke.assert_called_once_with("go")


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    inner: object


@dataclasses.dataclass(slots=True)
class SlottedPoint:
    x: int


class Record(msgspec.Struct):
    name: str


class Model(pydantic.BaseModel):
    name: str
    key: pydantic.SecretStr = pydantic.SecretStr("hunter2")
    hidden: str = pydantic.Field("hunter2", exclude=True)


@attrs.define
class Attributes:
    x: int


class Pair(NamedTuple):
    a: int
    b: int


class TestKnownObjects:
    @pytest.mark.parametrize(
        ("value", "plain"),
        [
            (Point(1, Record("ann")), {"x": 1, "inner": {"name": "ann"}}),
            (SlottedPoint(2), {"x": 2}),
            (Model(name="ann"), {"name": "ann", "key": "<SecretStr>"}),
            (Attributes(3), {"x": 3}),
            (Pair(1, 2), [1, 2]),
            (Colour.RED, "red"),
            (Level.HIGH, 3),
            (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "2026-01-02 00:00:00+00:00"),
            (dt.timedelta(seconds=3), "0:00:03"),
            (pathlib.PurePosixPath("/a/b"), "/a/b"),
            (decimal.Decimal("1.50"), "1.50"),
            (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
            (collections.OrderedDict(a=1), {"a": 1}),
            (collections.Counter("aa"), {"a": 2}),
            (collections.UserDict(a=1), {"a": 1}),
            (types.SimpleNamespace(a=1), {"a": 1}),
            (types.MappingProxyType({"a": 1}), {"a": 1}),
            (np.float64(1.5), 1.5),
            (np.int32(3), 3),
            (np.array([1, 2]), {"array": "int64", "shape": [2], "values": [1, 2]}),
            (ValueError("no"), "no"),
            (MagicMock(), "<MagicMock>"),
            (hostile()(), "<Hostile>"),
            (Point, "<class Point>"),
            (len, "<builtin_function_or_method>"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_what_is_recorded(self, monitor, value, plain):
        """
        An object of a known kind is recorded by its fields or its text, any other by the name of its type.
        """
        run_id = monitor.start_run()
        monitor.record_event("tool_call", "look", output_data={"value": value})

        assert {"value": plain} == stored(monitor, run_id)[0].output_data

    def test_different_results_stay_different(self, monitor):
        """
        Two large arrays that differ at their ends are two results.
        """
        first, second = np.zeros(100_000), np.zeros(100_000)
        second[-1] = 1
        run_id = monitor.start_run()
        for array in (first, second):
            monitor.record_event("tool_call", "look", output_data=array)

        events = stored(monitor, run_id)
        assert events[0].result_hash != events[1].result_hash

    def test_a_table_is_described_without_to_dict(self, monitor, monkeypatch):
        """
        Of a table its shape, its columns and a few rows are recorded, by slices alone.
        """

        class Rows:
            def __init__(self, frame, rows=slice(None)):
                self.frame, self.rows = frame, rows

            def __getitem__(self, place):
                return Rows(self.frame, place if isinstance(place, slice) else slice(None))

            @property
            def iloc(self):
                return self

            def to_numpy(self):
                return np.array(self.frame.cells[self.rows])

        class DataFrame:
            def __init__(self, cells):
                self.cells = cells
                self.shape = (len(cells), len(cells[0]))
                self.columns = ["a", "b"]
                self.iloc = Rows(self)

            to_dict = to_json = __str__ = __repr__ = __iter__ = refuse

        pandas = types.ModuleType("pandas")
        pandas.DataFrame = DataFrame
        monkeypatch.setitem(sys.modules, "pandas", pandas)
        run_id = monitor.start_run()
        monitor.record_event("tool_call", "load", output_data=DataFrame([[n, -n] for n in range(9)]))

        assert {
            "table": "DataFrame",
            "shape": [9, 2],
            "columns": ["a", "b"],
            "first": [[0, 0], [1, -1], [2, -2]],
            "last": [[6, -6], [7, -7], [8, -8]],
        } == stored(monitor, run_id)[0].output_data


class TestData:
    def test_it_is_a_copy(self, monitor):
        """
        What the host does to its data afterwards changes nothing, and we keep none of its objects alive.
        """

        class Held:
            pass

        held = Held()
        gone = weakref.ref(held)
        arguments = {"inner": {"n": 1}, "held": held}
        run_id = monitor.start_run()
        monitor.record_event("tool_call", "look", input_data=arguments, output_data=[held])
        arguments["inner"]["n"] = 2
        del held
        arguments.clear()

        assert gone() is None
        assert {"inner": {"n": 1}, "held": "<Held>"} == stored(monitor, run_id)[0].input_data

    def test_a_dict_that_another_thread_changes(self, monitor):
        """
        Data that changes while it is read is recorded, as far as it could be read.
        """
        shared, done = {"a": object()}, threading.Event()

        def change():
            n = 0
            while not done.is_set():
                n += 1
                shared[f"k{n % 50}"] = n
                shared.pop(f"k{(n * 7) % 50}", None)

        other = threading.Thread(target=change)
        other.start()
        run_id = monitor.start_run()
        try:
            for _ in range(300):
                monitor.record_event("tool_call", "look", input_data={"shared": shared}, output_data=shared)
        finally:
            done.set()
            other.join(60)

        assert 300 == len(stored(monitor, run_id))
        assert {} == monitor.health.totals()

    def test_a_dict_that_changes_at_every_look(self):
        """
        A collection that never holds still is named as such, and what is beside it is kept.
        """
        from steadyhelm import fingerprints

        calls = []

        def never():
            calls.append(1)
            raise RuntimeError("dictionary changed size during iteration")

        assert fingerprints._read_items(never) is None
        assert 3 == len(calls)

    @pytest.mark.parametrize("kind", [list, dict])
    def test_what_contains_itself(self, monitor, kind):
        """
        A list or a dict that contains itself, and one nested ten thousand deep, are cut.
        """
        endless = kind()
        deep = kind()
        if kind is list:
            endless += [endless, endless]
        else:
            endless["a"] = endless["b"] = endless
        for _ in range(10_000):
            deep = [deep] if kind is list else {"a": deep}
        run_id = monitor.start_run(metadata={"it": endless})
        monitor.record_event("tool_call", "look", input_data=endless, output_data=deep, metadata={"m": deep})

        assert 1 == len(stored(monitor, run_id))
        assert {} == monitor.health.totals()


class TestText:
    @pytest.mark.parametrize(
        "odd", ["half \ud800", "nul \0 inside", "\udfff", "", 7, None, b"bytes", 1.5, ("a", 1), Colour.RED]
    )
    def test_every_name_and_id_can_be_stored(self, monitor, odd):
        """
        Half surrogates, NUL characters and what is no text: everything stored is valid UTF-8.
        """
        run_id = monitor.start_run(odd, goal=odd, task_type=odd, version=odd)
        monitor.record_event(
            odd,
            odd,
            run_id=run_id,
            event_id=odd,
            call_id=odd,
            error=odd,
            input_data={odd: 1},
            metadata={odd: 1},
        )
        monitor.end_run(run_id, outcome=odd)
        [event] = stored(monitor, run_id)
        run = monitor.store.find_run(run_id)

        texts = (event.action_name, event.error or "", event.event_id, run.goal, run.outcome, run.task_type)
        assert "\0" not in "".join(texts)
        assert "".join(texts).encode() is not None
        noted = {name for name in monitor.health.totals() if not name.startswith("step of a kind")}
        assert set() == noted

    def test_one_bad_name_costs_nobody_else(self, monitor):
        """
        Names that no store can hold, in two runs, cost a third run nothing.
        """
        for _ in range(2):
            with monitor.run(task_type="\ud800", version="\ud800") as run:
                run.record("tool_call", "\ud800")
        with monitor.run() as run:
            for n in range(6):
                run.record("tool_call", f"step {n}")

        assert 6 == len(stored(monitor, run.run_id))
        assert {} == monitor.health.totals()

    def test_ids_of_unknown_objects_do_not_mix(self, monitor):
        """
        Two objects without a text are two runs.
        """
        first, second = hostile()(), hostile()()
        ids = [monitor.start_run(it) for it in (first, second, 7, uuid.UUID(int=1))]

        assert 4 == len(set(ids))
        assert ids[2:] == ["7", "00000000-0000-0000-0000-000000000001"]
        monitor.record_event("tool_call", "one", run_id=first)
        assert (1, 0) == (monitor.count_events(first), monitor.count_events(second))
