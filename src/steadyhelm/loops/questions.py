"""Questions put to a tool, and how two of them differ: in one value, in spelling, or in wording."""

import re
from typing import Any, Final, Literal
from zlib import crc32

import msgspec

from steadyhelm.loops.content_words import content_overlap, list_content_words
from steadyhelm.loops.loop_detector import split_words
from steadyhelm.loops.similarity import find_slot, is_variant

Relation = Literal["value", "number", "spelling", "wording", "other"]

_MAX_TEXT_CHARS: Final = 1000
_MAX_PIECES: Final = 40
_MAX_RESULT_CHARS: Final = 6000
_MIN_PIECE_CHARS: Final = 8
_SIMILAR_WORDING: Final = 0.5

_WORD: Final = re.compile(r"\w+")
_DIGITS: Final = re.compile(r"\d+")
_NOT_DIGIT: Final = re.compile(r"\D+")
_PIECE_END: Final = re.compile(r"\n+|\\n|(?<=[.!?])\s+|\},?\s*\{|\",\s*\"")
_AROUND_PIECE: Final = " \t\r\n\"'[]{},"
_SAYS_NOTHING: Final = re.compile(
    r"\Z|\W{0,80}(?:no\b|none\b|not found|nothing|0 |\[\]|\{\}|empty|null)"
    r"|.{0,60}\b(?:not found|no (?:\w+ )?(?:results?|matches|match|hits|records?|entries|rows|such|trace|file"
    r"|items?)"
    r"|nothing|does ?n[o']t exist|do not exist|could ?n[o']t (?:be )?(?:find|found|locate)|unable to"
    r"|cannot find|there (?:is|are|was|were) no\b"
    r"|(?:matches|hits|results|total|count)\W{1,4}0\b"
    r"|can'?t find|unknown|no one|did not find|0 results|without (?:success|a result))",
    re.IGNORECASE | re.DOTALL,
)


_REFUSES: Final = re.compile(
    r"\b(?:rejected|denied|blocked|forbidden|refused|unauthori[sz]ed|captcha|robot|content (?:filter|policy)"
    r"|not (?:allowed|permitted|authori[sz]ed|available)|unavailable|paywall|(?:sign|log) ?in to|too many)\b",
    re.IGNORECASE,
)


_NOT_DONE_WORDS: Final = ("not ", "false", "can be")
_NOT_DONE: Final = re.compile(
    r"\"(?:sent|saved|done|success|ok|accepted|created|booked|added|stored|delivered|applied|changed|updated)\""
    r" ?: ?false\b"
    r"|\bnot (?:understood|sent|saved|done|accepted|recogni[sz]ed|processed|delivered|booked|stored|created"
    r"|added|applied)\b"
    r"|\bno (?:question|request|order|booking|message)s? can be\b",
    re.IGNORECASE,
)


def says_not_done(text: str) -> bool:
    """Return whether the answer to an action says that it was not carried out.

    >>> says_not_done('{"sent": false, "why": "list is sealed"}'), says_not_done('{"sent": true}')
    (True, False)
    """
    lowered = text.lower()
    return any(it in lowered for it in _NOT_DONE_WORDS) and _NOT_DONE.search(text) is not None


def says_refused(text: str) -> bool:
    """Return whether an answer refuses what was asked.

    >>> says_refused("Rejected by the content filter."), says_refused("saved to logo.png")
    (True, False)
    """
    return _REFUSES.search(text) is not None


def says_nothing(text: str) -> bool:
    """Return whether an answer says that there is nothing.

    >>> says_nothing("I could not find the ledger."), says_nothing("3 rows")
    (True, False)
    """
    return _SAYS_NOTHING.match(text) is not None


def says_same_nothing(one: str, other: str) -> bool:
    """Return whether two answers begin with the same words that there is nothing, and only then differ.

    What follows may be a hint or an advertisement; a number in it may be progress.

    >>> says_same_nothing("No articles found. Try the app.", "No articles found. We are closed today.")
    True
    >>> says_same_nothing("Nothing found. 3 folders left", "Nothing found. 2 folders left")
    False
    """
    first, *rest = _PIECE_END.split(one, maxsplit=1)
    second, *other_rest = _PIECE_END.split(other, maxsplit=1)
    if not first or first != second or not says_nothing(first):
        return False
    return not any(map(str.isdigit, "".join(rest + other_rest)))


def read_question(arguments: bytes, between: str = " ") -> str:
    """Return the values of canonical arguments as one text, with this between them."""
    try:
        data = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return arguments.decode("utf-8", "replace")[:_MAX_TEXT_CHARS]
    return between.join(_list_values(data))[:_MAX_TEXT_CHARS]


def _list_values(data: Any) -> list[str]:
    if isinstance(data, dict):
        return [text for value in data.values() for text in _list_values(value)]
    if isinstance(data, list):
        return [text for value in data for text in _list_values(value)]
    return [] if data is None or data == "" else [str(data)]


def relate_questions(one: str, other: str) -> Relation:
    """Return how two different questions are related.

    >>> relate_questions("orders of customer 1042", "orders of customer 1043")
    'number'
    >>> relate_questions("orders of Bergen", "orders of Oslo")
    'value'
    >>> relate_questions("scroll|pan", "pan|scroll")
    'wording'
    >>> relate_questions("retry_policy", "RetryPolicy")
    'spelling'
    >>> relate_questions("how to limit retries in kestrel", "kestrel: guide for the limit of retries")
    'wording'
    """
    if split_words(one.encode("utf-8", "replace")) == split_words(other.encode("utf-8", "replace")):
        return "wording"
    slot = find_slot(one, other)
    values = (
        _find_replaced_value(one, other) if slot is None else (_cut_slot(one, slot), _cut_slot(other, slot))
    )
    if values is not None:
        return _relate_values(*values)
    if content_overlap(list_content_words(one), list_content_words(other)) >= _SIMILAR_WORDING:
        return "wording"
    return "other"


def _relate_values(one: str, other: str) -> Relation:
    if is_variant(one, other):
        return "spelling"
    is_number = all(_NOT_DIGIT.sub("", value) for value in (one, other))
    return "number" if is_number and _DIGITS.sub("", one) == _DIGITS.sub("", other) else "value"


def _find_replaced_value(one: str, other: str) -> tuple[str, str] | None:
    """Return the value that another one replaces, in one place or in several; None when more differs.

    >>> _find_replaced_value("cut in/oslo.png by half out/oslo.png", "cut in/rome.png by half out/rome.png")
    ('oslo', 'rome')
    >>> _find_replaced_value("oslo to bergen", "bergen to oslo") is None
    True
    """
    slot = find_slot(one, other)
    if slot is not None:
        return _cut_slot(one, slot), _cut_slot(other, slot)
    before, after = _WORD.findall(one), _WORD.findall(other)
    if len(before) != len(after) or _WORD.sub("", one) != _WORD.sub("", other):
        return None
    replaced = {pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]}
    return replaced.pop() if len(replaced) == 1 else None


def _cut_slot(text: str, slot: tuple[int, int]) -> str:
    words = text.split()
    return " ".join(words[slot[0] : len(words) - slot[1]])


def hash_pieces(result: str) -> list[int]:
    """Return hashes of the lines or sentences of a result, the first of them."""
    pieces = (piece.strip(_AROUND_PIECE) for piece in _PIECE_END.split(result[:_MAX_RESULT_CHARS]))
    kept = dict.fromkeys(piece for piece in pieces if len(piece) >= _MIN_PIECE_CHARS)
    hashes = [crc32(piece.encode("utf-8", "replace")) for piece in kept][:_MAX_PIECES]
    return hashes or [crc32(result.strip().encode("utf-8", "replace"))]
