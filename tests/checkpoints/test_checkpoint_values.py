"""What an agent's state is made of comes back as it was, or as something plain, and the record says so."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import math
import pathlib
import types

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.checkpoints.packing import copy_as_plain_data, pack, unpack
from steadyhelm.checkpoints.plain_data import PlainDataConverter, TooLargeError, to_utf8_text
from steadyhelm.testing.checkpoint_checks import a_checkpoint

ROOM = 1 << 20

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
whole = st.integers(-(2**63) + 1, 2**63 - 1)
plain = st.recursive(
    st.none() | st.booleans() | whole | st.floats(allow_nan=False) | text | st.binary(max_size=30),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text | whole, inner, max_size=5),
    max_leaves=20,
)
anything = st.recursive(
    plain
    | st.text(max_size=10)
    | st.integers()
    | st.floats()
    | st.datetimes()
    | st.decimals()
    | st.builds(object)
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers() | st.text(max_size=3), max_size=4)
        | st.dictionaries(st.none() | st.booleans() | st.floats() | st.text(max_size=3), inner, max_size=4)
        | st.builds(types.SimpleNamespace, inner=inner)
    ),
    max_leaves=20,
)


def reduced(value, max_bytes=ROOM):
    """A value as it is kept, and what was noted."""
    reduction = PlainDataConverter(max_bytes)
    return reduction.convert(value, (None, "it")), reduction.notes


def there_and_back(checkpoint):
    return unpack(pack(checkpoint, max_bytes=ROOM).content)


class TestPlainData:
    @given(plain)
    def test_it_comes_back_as_it_was(self, value):
        """
        Text, numbers, bytes, lists and dicts are the same afterwards, and nothing is noted.
        """
        checkpoint = a_checkpoint(conversation_history=[value])

        assert checkpoint == there_and_back(checkpoint)

    def test_a_text_may_be_long(self):
        """
        Nothing is cut, however long.
        """
        checkpoint = a_checkpoint(conversation_history=["x" * 300_000, "ü" * 100_000])

        assert checkpoint == there_and_back(checkpoint)

    def test_no_number_stays_no_number(self):
        """
        A float that is no number, or infinite, is kept as it is.
        """
        history = there_and_back(a_checkpoint(conversation_history=[math.nan, math.inf])).conversation_history

        assert (True, math.inf) == (math.isnan(history[0]), history[1])

    def test_equal_kinds_are_not_noted(self):
        """
        A subclass that equals its plain form is kept as that, without a word.
        """

        class Role(enum.StrEnum):
            USER = "user"

        class Count(int):
            pass

        given_value = collections.OrderedDict(
            role=Role.USER, count=Count(3), rest=collections.defaultdict(list)
        )

        assert ({"role": "user", "count": 3, "rest": {}}, ()) == reduced(given_value)


class TestPlainDataConverter:
    @given(anything)
    def test_anything_is_kept_as_something(self, value):
        """
        Whatever arrives can be kept, and what was kept once is kept the second time as it is.
        """
        once = there_and_back(a_checkpoint(conversation_history=[value], meta={"value": value}))
        again = there_and_back(once)

        assert repr(once) == repr(again)

    @pytest.mark.parametrize(
        ("value", "kept", "note"),
        [
            ((1, 2), [1, 2], "tuple kept as a list"),
            ({2, 1}, [1, 2], "set kept as a list"),
            (collections.deque(["a"]), ["a"], "deque kept as a list"),
            (types.MappingProxyType({"a": 1}), {"a": 1}, "mappingproxy kept as a dict"),
            (bytearray(b"ab"), b"ab", "bytearray kept as bytes"),
            (memoryview(b"ab"), b"ab", "memoryview kept as bytes"),
            (2**64, "18446744073709551616", "a number of 65 bits kept as text"),
            (1 << 10_000, "<integer of 10001 bits>", "a number of 10001 bits kept as text"),
            ("a\ud800", "a?", "half a surrogate pair replaced"),
            (decimal.Decimal("1.50"), "1.50", "Decimal kept as its text"),
            (pathlib.PurePosixPath("a/b"), "a/b", "PurePosixPath kept as its text"),
            (dt.date(2024, 2, 29), "2024-02-29", "date kept as its text"),
            (iter([1]), "<list_iterator>", "list_iterator kept as its text"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_what_has_no_plain_form_gets_one(self, value, kept, note):
        """
        Each kind has one plain form, and the note says which.
        """
        assert (kept, (f"it: {note}",)) == reduced(value)

    def test_messages_of_a_framework_are_kept_as_their_fields(self):
        """
        Dataclasses, msgspec structs and Pydantic models become dicts.
        """

        @dataclasses.dataclass
        class Message:
            role: str
            parts: list

        class Part(msgspec.Struct):
            text: str

        class Model(pydantic.BaseModel):
            type: str
            n: int

        kept, notes = reduced([Message("user", [Part("hi")]), Model(type="ai", n=1)])

        assert [{"role": "user", "parts": [{"text": "hi"}]}, {"type": "ai", "n": 1}] == kept
        assert (
            "it[0]: Message kept as its fields",
            "it[0].parts[0]: Part kept as its fields",
            "it[1]: Model kept as its fields",
        ) == notes

    def test_keys_become_text(self):
        """
        A key that is neither text nor a whole number is kept as text; of two that read the same, the later.
        """
        kept, notes = reduced({None: 1, "None": 2, (1, 2): 3, 5: 4})

        assert {"None": 2, "(1, 2)": 3, 5: 4} == kept
        assert 3 == len(notes)

    def test_what_holds_itself_ends(self):
        """
        A list that holds itself, or a dict far too deep, is left out from there on.
        """
        endless = [1]
        endless.append(endless)
        deep = {}
        for _ in range(200):
            deep = {"a": deep}

        assert ([1, "…"], 1) == (reduced(endless)[0], len(reduced(endless)[1]))
        assert 1 == len(reduced(deep)[1])

    def test_the_same_twice_is_no_circle(self):
        """
        One object in two places is kept in both.
        """
        shared = {"a": [1]}

        assert ([shared, shared], ()) == reduced([shared, shared])

    def test_notes_are_bounded(self):
        """
        Of many changes the first are named and the rest counted.
        """
        _, notes = reduced([(number,) for number in range(100)])

        assert (21, "and 80 more") == (len(notes), notes[-1])

    def test_a_generator_is_not_used_up(self):
        """
        What can be looked at only once is left to the agent.
        """
        generator = (number for number in range(3))
        reduced({"it": generator})

        assert [0, 1, 2] == list(generator)

    def test_objects_that_fail_are_named(self):
        """
        An object that raises whenever it is touched costs its own place only.
        """

        class Hostile(collections.UserDict):
            def items(self):
                raise RuntimeError("no")

        class Leaver(collections.UserList):
            def __iter__(self):
                raise SystemExit(3)

        kept, notes = reduced(["before", Hostile(a=1), Leaver(), "after"])

        assert ["before", "<Hostile>", "<Leaver>", "after"] == kept
        assert 2 == sum("cannot be read" in note for note in notes)

    def test_what_an_object_says_of_its_class_is_not_asked(self):
        """
        A proxy that lies about its class, or ends the process when asked, is named by its real type.
        """
        asked = []

        def ask(self, *_):
            asked.append(self)
            raise SystemExit(3)

        class Meta(type):
            __hash__ = __eq__ = ask

        class Liar:
            __class__ = property(lambda self: dict)
            items = __iter__ = __len__ = __repr__ = __getattr__ = ask

        class Proxy(metaclass=Meta):
            __class__ = property(ask)

        kept, _ = reduced([Liar(), Proxy(), {1: Liar()}, {Proxy(): "x"}])

        assert ["<Liar>", "<Proxy>", {1: "<Liar>"}, {"<Proxy>": "x"}] == kept
        assert [] == asked

    def test_classes_that_inherit_from_built_in_ones_are_read_as_those(self):
        """
        The methods of a class of the agent's own are not called where it inherits from a built-in type.
        """

        def fail(*_):
            raise AssertionError("called")

        own = {
            "items": fail,
            "__iter__": fail,
            "__bytes__": fail,
            "__str__": fail,
            "__repr__": fail,
            "__len__": fail,
        }
        dict_, list_, set_, bytes_, str_ = (
            type("Own", (kind,), own) for kind in (dict, list, set, bytes, str)
        )

        kept, _ = reduced([dict_(a=1), list_([1]), set_([2]), bytes_(b"ab"), str_("cd")])

        assert [{"a": 1}, [1], [2], b"ab", "cd"] == kept

    @pytest.mark.parametrize(
        "value",
        ["x" * 101, b"x" * 101, ["x" * 60] * 2, {"x" * 60: "x" * 60}],
        ids=lambda value: type(value).__name__,
    )
    def test_too_much_is_refused(self, value):
        """
        What does not fit is refused as a whole: half a history would be another history.
        """
        with pytest.raises(TooLargeError):
            pack(a_checkpoint(conversation_history=[value]), max_bytes=300)

    def test_too_many_are_refused(self):
        """
        A value with more places than anybody's history is refused, an endless one too.
        """

        class Endless(collections.abc.Sequence):
            def __len__(self):
                return 1

            def __getitem__(self, index):
                return index

        for value in ([0] * 600_000, Endless()):
            with pytest.raises(TooLargeError, match="more than 500000 values"):
                reduced(value)


class TestFields:
    def test_files_are_kept_whole_or_left_out(self):
        """
        Contents are bytes, text, nothing or a reference; anything else is left out and named.
        """
        files = {
            "bytes": bytearray(b"b"),
            "text": "t",
            "latin": "caf\udce9",
            "gone": None,
            "reference": {"git": "4f2a", 1: "x"},
            "number": 5,
            "half": "\ud800",
            pathlib.Path("a") / "b": b"c",
            "not utf-8 \udce9": b"d",
            7: b"e",
        }
        kept = copy_as_plain_data(a_checkpoint(state_files=files), max_bytes=ROOM)

        assert {
            "bytes": b"b",
            "text": "t",
            "latin": b"caf\xe9",
            "gone": None,
            "reference": {"git": "4f2a", "1": "x"},
            "a/b": b"c",
        } == kept.state_files
        assert (
            "state_files.number: left out, int is not the contents of a file",
            "state_files.half: left out, str is not the contents of a file",
            "state_files.not utf-8 ?: left out, its path is not text",
            "state_files[7]: left out, its path is not text",
        ) == kept.reduced

    @pytest.mark.parametrize("value", [None, [1], "text", 5, object()], ids=lambda it: type(it).__name__)
    def test_fields_of_another_kind_are_made_to_fit(self, value):
        """
        Whatever stands in a field, what is kept has the type the field says.
        """
        strange = dict.fromkeys(
            (
                "conversation_history",
                "goal_tree",
                "state_files",
                "file_modes",
                "meta",
                "session_state",
                "label",
            ),
            value,
        )
        kept = there_and_back(a_checkpoint(**strange))

        assert (list, dict, dict, dict, bytes, str) == (
            type(kept.conversation_history),
            type(kept.state_files),
            type(kept.file_modes),
            type(kept.meta),
            type(kept.session_state),
            type(kept.label),
        )
        assert kept.goal_tree is None or isinstance(kept.goal_tree, dict)

    def test_modes_are_permissions_only(self):
        """
        The bits that give a program its owner's rights are not kept, nor anything that is no mode.
        """
        modes = {"a": 0o4755, "b": "rw", 3: 0o644, "half \ud800": 0o644}

        assert {"a": 0o755} == copy_as_plain_data(a_checkpoint(file_modes=modes), max_bytes=ROOM).file_modes

    def test_where_it_cannot_be_told_it_is_an_incident(self):
        """
        A checkpoint of which nobody knows whether it was clean is not one to return to.
        """

        class Both:
            def __bool__(self):
                raise ValueError("both")

        assert copy_as_plain_data(a_checkpoint(in_incident=Both()), max_bytes=ROOM).in_incident

    def test_earlier_notes_stay(self):
        """
        One that is kept again still says what it lost the first time.
        """
        once = there_and_back(a_checkpoint(meta={"at": (1,)}))

        assert ("meta.at: tuple kept as a list",) == there_and_back(once).reduced

    @given(st.text(max_size=20))
    def test_an_id_is_the_same_each_time(self, text):
        """
        Any text becomes one that can be written down, and stays that.
        """
        assert to_utf8_text(text) == to_utf8_text(to_utf8_text(text))
        to_utf8_text(text).encode()
