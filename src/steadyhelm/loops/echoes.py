"""Results that only say again what the call itself contained."""

import functools
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from steadyhelm.loops.similarity import TOKEN
from steadyhelm.noise import find_difference, mask_noise

_MIN_ECHO_CHARS: Final = 3
_MIN_WORDS_BESIDE_ECHO: Final = 2
_MIN_COMMAND_CHARS: Final = 8
_MAX_PLACE_CHARS: Final = 60
_MAX_PROMPT_CHARS: Final = 1000
_MAX_DEPTH: Final = 3
_PROMPT_SIGNS: Final = ("$", "#", ">", "%")

_ECHO_RUN: Final = re.compile(r"~(?:[^\w~]{0,4}~)+")
_LETTER: Final = re.compile(r"[^\W\d_]")


def remove_echo(result: str, arguments: bytes) -> str:
    """Return a result without the words that the call itself contained.

    >>> remove_echo("no module named 'kestrel'", b'{"name": "kestrel"}')
    "no module named '~'"
    """
    result = result.replace('\\"', '"')  # as JSON in JSON writes it
    for value in _list_texts(arguments):
        result = result.replace(value, "~")
    said = frozenset(TOKEN.findall(arguments.decode("utf-8", "replace").lower().replace("\\n", " ")))

    def replace(found: re.Match[str]) -> str:
        word = found[0].lower().rstrip(".!`").lstrip("`")
        return "~" if len(word) >= _MIN_ECHO_CHARS and word in said else found[0]

    # One call may have said in three words what another said in one.
    return _ECHO_RUN.sub("~", TOKEN.sub(replace, mask_noise(result)))


def is_equal_but_echo(one: str, arguments: bytes, other: str, other_arguments: bytes) -> bool:
    """Return whether two results are equal but for words that each call itself contained.

    A result that is hardly more than the echo is an answer of its own: 100 for 100 is not 101 for 101.
    Cheap where they are not: the words at the first and the last difference are looked for in the arguments.

    >>> is_equal_but_echo("no kestrel here", b'{"q":"kestrel"}', "no heron here", b'{"q":"heron"}')
    True
    """
    if is_echoed_prompt(one, arguments) and is_echoed_prompt(other, other_arguments):
        return True
    first = find_difference(one, other)
    if not (_is_echo(one, first, arguments) and _is_echo(other, first, other_arguments)):
        return False
    last = find_difference(one[::-1], other[::-1])
    if not (
        _is_echo(one, len(one) - last - 1, arguments)
        and _is_echo(other, len(other) - last - 1, other_arguments)
    ):
        return False
    # What is said of the call may be a word of one of the calls as well, so the texts alone are tried too.
    return any(
        _has_words(rest := remove(one, arguments)) and rest == remove(other, other_arguments)
        for remove in (remove_echo, _remove_texts)
    )


def _has_words(rest: str) -> bool:
    words = sum(_LETTER.search(word) is not None for word in TOKEN.findall(rest))
    return words >= _MIN_WORDS_BESIDE_ECHO


def _remove_texts(result: str, arguments: bytes) -> str:
    """Return a result without the whole texts that the call contained."""
    for value in _list_texts(arguments):
        result = result.replace(value, "~")
    return result


def is_echoed_prompt(text: str, arguments: bytes) -> bool:
    r"""Return whether a terminal shows nothing but its prompt and the command.

    >>> is_echoed_prompt("$ find / -name a\n$ ", b'{"command":"find / -name a"}')
    True
    """
    if len(text) > _MAX_PROMPT_CHARS or not text.rstrip().endswith(_PROMPT_SIGNS):
        return False
    for value in _list_texts(arguments):
        before, found, rest = text.partition(value)
        if found and before.rstrip().endswith(_PROMPT_SIGNS) and len(value) > _MIN_COMMAND_CHARS:
            return _LETTER.search(rest) is None or rest.strip() == before.strip()
    return False


def _is_echo(text: str, place: int, arguments: bytes) -> bool:
    place = max(0, place)
    start = max(0, place - _MAX_PLACE_CHARS)
    for found in TOKEN.finditer(text[start : place + _MAX_PLACE_CHARS]):
        if found.end() >= place - start:
            word = found[0].strip("`.!\\").lower()
            return bool(word) and word.encode("utf-8", "replace") in arguments.lower()
    return False


@functools.lru_cache(maxsize=16)  # two results are compared, each in two ways
def _list_texts(arguments: bytes) -> tuple[str, ...]:
    """Return the texts among canonical arguments that are long enough to be an echo, the longest first."""
    try:
        read = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()  # none, or cut off, or nested too deeply
    texts = (text for text in _iterate_texts(read, 0) if len(text) >= _MIN_ECHO_CHARS)
    return tuple(sorted(texts, key=len, reverse=True))


def _iterate_texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < _MAX_DEPTH:
        for it in value.values() if isinstance(value, dict) else value:
            yield from _iterate_texts(it, depth + 1)
