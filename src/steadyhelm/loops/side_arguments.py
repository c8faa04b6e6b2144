"""Arguments whose values a caller makes up to tell its calls apart: a random tag, the number of a step.

They are given beside the target of a call, and say nothing of it. Their names alone are no proof, since a tag
or a session may be the target: their values have to be made up at random, or counted on, each time.
"""

import functools
import re
from typing import Any, Final

import msgspec

from steadyhelm.loops.call_keys import is_aside

_MAX_DEPTH: Final = 4
_MIN_TAG_CHARS: Final = 4
_MAX_TAG_CHARS: Final = 100
_MIN_PHRASE_WORDS: Final = 3
_MIN_RANDOM_NUMBER: Final = 10_000

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TAG_WORDS: Final = frozenset(
    """
    anchor cb client context debug extra fresh guid handle invocation label mark marker op operation probe
    random ref reference req request run seed session sid stamp suffix tag token tracker tracking uid unique
    uuid
    """.split()  # noqa: SIM905 - thirty quoted words read worse
)
_WORDS_BESIDE_TAG: Final = frozenset(
    {"id", "key", "no", "number", "value", "name", "my", "log", "trace", "hex"}
)
_COUNTING_NAMES: Final = frozenset({"step", "turn", "iteration", "counter", "seq", "round", "pass", "run"})
_RANDOM: Final = re.compile(r"(?:[A-Za-z]{1,8}[-_])?([0-9A-Za-z]{4,64}|[0-9a-f]{8}-[0-9a-f-]{20,40})")
_HEX: Final = re.compile(r"[0-9a-fA-F-]+")

Varied = tuple[str, Any, Any]


def list_varied(before: dict[str, Any], now: dict[str, Any], depth: int = 0) -> list[Varied]:
    """Return the arguments in which two calls differ, at any depth, without those that only explain a call.

    >>> list_varied({"q": "a", "meta": {"tag": "x", "at": 1}}, {"q": "a", "meta": {"tag": "y", "at": 1}})
    [('tag', 'x', 'y')]
    """
    varied: list[Varied] = []
    for name in before | now:
        one, other = before.get(name), now.get(name)
        if one == other:
            continue
        if isinstance(one, dict) and isinstance(other, dict) and depth < _MAX_DEPTH:
            varied += list_varied(one, other, depth + 1)
        else:
            varied.append((name, one, other))
    return varied


def is_made_up_beside(name: str, one: Any, other: Any) -> bool:
    """Return whether an argument only tells a call from the one before, by its name and both values.

    >>> is_made_up_beside("tag", "ed2b", "bae2"), is_made_up_beside("tag", "v2.1", "v2.2")
    (True, False)
    >>> is_made_up_beside("step", 3, 4), is_made_up_beside("commit", "ed2b", "bae2")
    (True, False)
    """
    if _is_aside(name):
        return True
    if name in _COUNTING_NAMES and isinstance(one, int) and isinstance(other, int):
        return bool(other == one + 1)
    return _is_tag_name(name) and _are_random(one, other)


@functools.lru_cache(maxsize=512)
def _is_aside(name: str) -> bool:
    return is_aside(name, "look")


@functools.lru_cache(maxsize=512)
def _is_tag_name(name: str) -> bool:
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    return not words.isdisjoint(_TAG_WORDS) and words <= _TAG_WORDS | _WORDS_BESIDE_TAG


def varies_phrase(arguments: bytes, other_arguments: bytes) -> bool:
    """Return whether two calls have one target, and differ in the wording of a text beside it.

    >>> varies_phrase(b'["Ida","kindly asked to come"]', b'["Ida","gently asked to come"]')
    True
    >>> varies_phrase(b'["Ida","oak"]', b'["Ida","elm"]')
    False
    """
    before, now = _list_values(arguments), _list_values(other_arguments)
    if len(now) != len(before) or len(now) == 1:
        return False
    varied = [(one, other) for one, other in zip(before, now, strict=True) if one != other]
    return len(varied) == 1 and all(
        isinstance(it, str) and it.count(" ") + 1 >= _MIN_PHRASE_WORDS for it in varied[0]
    )


def _list_values(arguments: bytes) -> list[Any]:
    try:
        read = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    return list(read.values()) if isinstance(read, dict) else read if isinstance(read, list) else []


def is_equal_but_tags(one: str, arguments: bytes, other: str, other_arguments: bytes) -> bool:
    """Return whether two results differ in nothing but what only tells their calls apart.

    >>> is_equal_but_tags("try 1: dark", b'{"lamp":2,"try":1}', "try 2: dark", b'{"lamp":2,"try":2}')
    True
    """
    before, now = read_fields(arguments), read_fields(other_arguments)
    if before is None or now is None or len(now) == 1:
        return False
    varied = list_varied(before, now)
    if not varied or not all(is_made_up_beside(*it) for it in varied):
        return False
    for name, value, other_value in varied:
        one, other = _drop_tag(one, name, value), _drop_tag(other, name, other_value)
    return bool(one == other)


def _drop_tag(text: str, name: str, value: Any) -> str:
    """Return a text without a value that a call made up, a short one only behind its name."""
    tag = re.escape(str(value)[:_MAX_TAG_CHARS])
    before = "" if len(tag) >= _MIN_TAG_CHARS else rf"(?i:{re.escape(name)})\W{{1,4}}"
    return re.sub(rf"(?<!\w){before}{tag}(?!\w)", "~", text)


def read_fields(arguments: bytes) -> dict[str, Any] | None:
    """Return the arguments of a call by name; None where they have no names, or are not JSON."""
    try:
        read = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # none, or cut off, or nested too deeply
    return read if isinstance(read, dict) else None


def _are_random(one: Any, other: Any) -> bool:
    """Return whether two values of one form were made up, and none of them counts on from the other."""
    if isinstance(one, int) and isinstance(other, int):
        return bool(min(one, other) >= _MIN_RANDOM_NUMBER and abs(one - other) > _MIN_RANDOM_NUMBER)
    if not isinstance(one, str) or not isinstance(other, str) or len(one) != len(other):
        return False
    first, second = _RANDOM.fullmatch(one), _RANDOM.fullmatch(other)
    if first is None or second is None:
        return False
    values = first[1], second[1]
    if not any(any(map(str.isdigit, it)) for it in values):
        return False
    if len(values[0]) < 2 * _MIN_TAG_CHARS and not all(map(_HEX.fullmatch, values)):
        return False
    common: int = sum(a == b for a, b in zip(*values, strict=True))
    return bool(2 * common <= len(values[0]))
