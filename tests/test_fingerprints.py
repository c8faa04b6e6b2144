import dataclasses
import enum
import types
from collections.abc import Mapping
from pathlib import PurePosixPath

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.fingerprints import (
    MAX_CHARS,
    encode_canonical,
    fingerprint,
    hash_bytes,
    hash_call,
    to_plain_data,
)

LARGEST = 1_000_000

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.dates()
    | st.decimals()
    | st.complex_numbers()
    | st.uuids()
)
KEYS = st.text() | st.integers() | st.none() | st.booleans() | st.tuples(st.integers(), st.text())
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner) | st.sets(st.integers())
    ),
    max_leaves=30,
)


class _Raises:
    """Fails at whatever is asked of it."""

    __hash__ = None

    def _fail(self, *args):
        raise RuntimeError("hands off")

    __eq__ = __bool__ = __len__ = __iter__ = __str__ = __repr__ = __getattr__ = _fail


class _RaisingClass:
    @property
    def __class__(self):
        raise RuntimeError("hands off")


class _RaisingList(list):
    def __iter__(self):
        raise RuntimeError("hands off")


class _RaisingMapping(Mapping):
    def __getitem__(self, key):
        raise RuntimeError("hands off")

    def __len__(self):
        return 1

    def __iter__(self):
        return iter(["a"])


class _RaisingText(str):
    __slots__ = ()

    def __len__(self):
        raise RuntimeError("hands off")

    def encode(self, *args):
        raise RuntimeError("hands off")


class _Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class _Point:
    x: int
    others: list


class _Record(msgspec.Struct):
    name: str


class _Model(pydantic.BaseModel):
    field: int = 1
    hidden: str = pydantic.Field("x", exclude=True)


@attrs.define
class _Attributes:
    x: int


class _Dumps:
    def model_dump(self):
        raise RuntimeError("hands off")


def turned(value):
    """The same data, every mapping written down in the other order."""
    if isinstance(value, dict):
        return {key: turned(item) for key, item in reversed(value.items())}
    return [turned(item) for item in value] if isinstance(value, list) else value


def in_itself(times):
    value = []
    value.extend([value] * times)
    return value


class TestCanonical:
    @given(DATA)
    def test_never_raises(self, value):
        """
        Whatever nested data an agent hands over, it has a canonical form, and that is JSON.
        """
        encoded = encode_canonical(value)

        assert b"" == encoded or msgspec.json.decode(encoded) is not Ellipsis

    @given(DATA)
    def test_the_order_of_keys_does_not_matter(self, value):
        """
        Two calls with the same arguments in another order are the same call.
        """
        assert encode_canonical(value) == encode_canonical(turned(value))

    @pytest.mark.parametrize("value", [None, "", {}, [], ()])
    def test_nothing_is_nothing(self, value):
        """
        No data has no canonical form, however it was left out.
        """
        assert b"" == encode_canonical(value)

    @pytest.mark.parametrize("value", [0, False, 0.0, [None], {"": None}])
    def test_a_zero_is_not_nothing(self, value):
        """
        A zero, a False and an empty place in a list are data.
        """
        assert b"" != encode_canonical(value)

    @pytest.mark.parametrize(
        "hostile",
        [_Raises, _RaisingClass, lambda: _RaisingList([1]), _RaisingMapping, lambda: _RaisingText("é")],
    )
    def test_a_hostile_object_is_named_by_its_type(self, hostile):
        """
        An object that fails when it is looked at is named by its type, and what stands beside it is kept.
        """
        encoded = encode_canonical({"before": 1, "hostile": hostile(), "behind": 2})

        assert {"before", "hostile", "behind"} == set(msgspec.json.decode(encoded))
        assert encode_canonical(hostile())

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (_Colour.RED, b'"red"'),
            (_Point(1, [2]), b'{"others":[2],"x":1}'),
            (_Record("ann"), b'{"name":"ann"}'),
            (_Model(), b'{"field":1}'),
            (_Attributes(2), b'{"x":2}'),
            (types.MappingProxyType({"a": 1}), b'{"a":1}'),
            (_Dumps(), b'"<_Dumps>"'),
            (PurePosixPath("/a/b"), b'"/a/b"'),
            ({"b", "a"}, b'["a","b"]'),
            (object(), b'"<object>"'),
            (iter([1]), b'"<list_iterator>"'),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_objects_have_a_form(self, value, expected):
        """
        An object of a known kind is its fields or its text; any other is named by its type.
        """
        assert expected == encode_canonical(value)

    def test_bytes_are_only_counted(self):
        """
        Bytes are kept as their number and a hash, never as they are.
        """
        encoded = encode_canonical({"file": b"password=hunter2"})

        assert b'{"file":"<16 bytes ' == encoded[:19]
        assert encoded != encode_canonical({"file": b"password=hunter3"})

    def test_lone_surrogates_are_replaced(self):
        """
        A text that cannot be written as UTF-8 is kept without what cannot.
        """
        assert b'{"a":"x?"}' == encode_canonical({"a": "x\ud800"})

    def test_keys_that_look_alike_are_told_apart_by_type(self):
        """
        A number and a text that read alike give the same form in either order.
        """
        assert encode_canonical({1: "a", "1": "b"}) == encode_canonical({"1": "b", 1: "a"})


class TestBounds:
    @pytest.mark.parametrize(
        "value",
        [
            "x" * 5_000_000,
            b"x" * 5_000_000,
            {"x" * 5_000_000: 1},
            [["x" * 9000] * 50] * 50,
            {str(n): "x" * 8000 for n in range(3000)},
            list(range(200_000)),
            {n: n for n in range(200_000)},
            set(range(200_000)),
            "\0" * 100_000,
            _Point(1, ["x" * 9000] * 500),
            _Record("x" * 1_000_000),
            10**5000,
            in_itself(1),
            in_itself(10),
            in_itself(900),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_a_form_is_bounded(self, value):
        """
        However large a value is, or whether it holds itself, its form is small and there soon.
        """
        assert LARGEST > len(encode_canonical(value))
        assert LARGEST > len(msgspec.json.encode(to_plain_data(value)))

    def test_deep_nesting_ends(self):
        """
        A value nested a hundred thousand deep is cut off.
        """
        value = []
        for _ in range(100_000):
            value = [value]

        assert encode_canonical(value).endswith(b"]")

    @given(st.text(min_size=1, max_size=20).map(lambda words: words * (MAX_CHARS + 1)))
    def test_a_long_text_keeps_its_ends_and_its_length(self, text):
        """
        Of a long text the beginning, the length and the end are kept.
        """
        kept = to_plain_data(text)
        clean = text.encode("utf-8", "replace").decode()

        assert clean[:4096] == kept[:4096]
        assert clean[-4096:] == kept[-4096:]
        assert f"[{len(text)} characters]" in kept

    def test_a_text_as_long_as_we_look_is_kept_whole(self):
        """
        8 KiB are kept as they are.
        """
        assert "x" * MAX_CHARS == to_plain_data("x" * MAX_CHARS)

    def test_what_finds_room_does_not_depend_on_the_order(self):
        """
        Where there is more than we look at, the order of the keys decides what is kept, not who wrote them.
        """
        value = {f"{n:02}": f"{n}" * 6000 for n in range(30)}

        assert encode_canonical(value) == encode_canonical(turned(value))

    @given(DATA)
    def test_reduced_data_stays_as_it_is(self, value):
        """
        Reducing what is already reduced changes nothing.
        """
        once = to_plain_data(value)

        assert once == to_plain_data(once)


class TestFingerprint:
    def event(self, **fields):
        return TraceEvent(agent_id="a", run_id="r", action_type=TOOL_CALL, action_name="search", **fields)

    def test_the_same_call_has_the_same_fingerprint(self):
        """
        Arguments in another order make the same call.
        """
        one = self.event(input_data={"q": "x", "n": 1}, output_data="r")
        other = self.event(input_data={"n": 1, "q": "x"}, output_data="r")

        assert fingerprint(one) == fingerprint(other)

    @pytest.mark.parametrize("change", [{"input_data": {"q": "y"}}, {"output_data": "s"}, {"error": "no"}])
    def test_whatever_differs_shows(self, change):
        """
        Another argument, another result or an error makes another fingerprint.
        """
        plain = {"input_data": {"q": "x"}, "output_data": "r"}

        assert fingerprint(self.event(**plain)) != fingerprint(self.event(**plain | change))

    def test_an_events_own_hashes_count(self):
        """
        An event that carries its fingerprint is not computed again.
        """
        assert (7, 8) == fingerprint(self.event(input_data="x", call_hash=7, result_hash=8))

    def test_the_tool_is_part_of_the_call(self):
        """
        Two tools with the same arguments are two calls.
        """
        assert hash_call("read", b"{}") != hash_call("write", b"{}")

    @given(st.text(), st.binary())
    def test_a_call_is_never_zero(self, name, encoded):
        """
        Zero means "not computed": no call has it, and every hash fits a signed 64-bit column.
        """
        assert 0 != hash_call(name, encoded)
        assert -(2**63) <= hash_call(name, encoded) < 2**63
        assert -(2**63) <= hash_bytes(encoded) < 2**63
