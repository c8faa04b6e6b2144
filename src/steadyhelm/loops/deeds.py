"""The same deed done again: what differs in its answer is the number that it was given."""

import functools
import re
from typing import Final

from steadyhelm.loops.call_arguments import find_command, find_path
from steadyhelm.loops.steps import ToolStep
from steadyhelm.noise import mask_noise

_MAX_ANSWER_CHARS: Final = 400
_MIN_WORDS_OF_TEXT: Final = 2

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# What others see or pay for: no second one is wanted.
_DEEDS: Final = frozenset(
    {"announce", "book", "broadcast", "charge", "comment", "create", "dispatch", "email", "fax", "file",
     "invite", "log", "mail", "message", "notify", "open", "order", "pay", "post", "print", "publish",
     "purchase", "refund", "register", "reply", "report", "request", "reserve", "schedule", "send", "share",
     "ship", "submit", "transfer", "trigger", "tweet", "upload"}
)  # fmt: skip
# With one of these first, a name is that of a deed, also where it is not among the usual words of work.
_BEGINS_DEED: Final = frozenset(
    {"announce", "broadcast", "dispatch", "fax", "notify", "order", "place", "print", "request", "reserve",
     "schedule", "share", "ship", "trigger"}
)  # fmt: skip
_LOOKS: Final = frozenset(
    {"details", "get", "history", "info", "list", "logs", "lookup", "search", "show", "status"}
)
# These send a file somewhere; the first of them are told no more than one name.
_NAMED_IN_A_WORD: Final = frozenset({"dispatch", "fax", "print", "trigger", "upload"})
_WITH_FILE: Final = _NAMED_IN_A_WORD | {"email", "mail", "send", "share"}
# Of these several may be wanted: one call hands out one at a time.
_SEVERAL: Final = frozenset(
    """
    agent branch card cell environment fixture heartbeat input instance job key keys machine node
    pod process replica room row sandbox server session shape slide tab temp thread token vm window
    worker
    """.split()  # noqa: SIM905 - so many quoted words read worse
)
# Of what is entered in full the same is not entered twice.
_ENTERS: Final = frozenset({"add", "append", "insert", "write"})
_ENTRIES: Final = frozenset({"entry", "line", "lead", "record", "row"})
# A new one of these has consequences, however little is said about it.
_BEGINS: Final = frozenset({"create", "file", "new", "open", "raise", "register", "start"})
_CASES: Final = frozenset(
    {"booking", "case", "claim", "complaint", "incident", "invoice", "order", "payment", "refund",
     "reservation", "ticket"}
)  # fmt: skip
_MIN_VALUES_OF_ENTRY: Final = 2
_ID: Final = re.compile(
    r"(?<![\w.])(?:#\d+|[A-Za-z]{1,12}[-_#]?\d[\w-]*|\d{4,}|(?=[a-f\d-]{0,16}\d)[a-f\d-]{6,64})(?![\w%])(?!\.\d)"
    r"|(?i:(?<=id\W)|(?<=id\W\W)|(?<=id\W\W\W)|(?<=number\W)|(?<=no\W)|(?<=no\.\W)|(?<=ticket\W)|(?<=comment\W)"
    r"|(?<=reference\W))\d+\b"
)
# The number of a thing that was begun: no count, no place in a row, no amount.
_NUMBER_OF_THING: Final = re.compile(
    r"(?i:\b(?:row|line|entry|batch|booking|build|case|claim|comment|confirmation|delivery|dispatch|document|event|incident"
    r"|invoice|issue|job|message|notification|order|payment|pipeline|post|print|record|report|request"
    r"|reservation|shipment|submission|task|ticket|transaction|upload|workflow)"
    r"[ _-]?(?:id|key|no\.?|nr\.?|number|ref)?[\"']?\s?[:=]?\s?[\"'#]?)"
    r"(\d{1,18})\b(?![.,]\d|\s?(?:%|/|of\b|out\b|times\b|x\b))(?!\s[a-z]{2,20}s\b)"
)


def is_deed(step: ToolStep) -> bool:
    """Return whether a call does something that is not done twice with the same words.

    Its arguments say what, in full. Commands are left out, files unless they are sent somewhere, and what one
    may want several of.
    """
    args, name = step.event.input_data, step.event.action_name
    if step.outcome.failed or not 0 < step.outcome.size <= _MAX_ANSWER_CHARS:
        return False
    if opens_case(name) or _enters_by_name(name):
        return isinstance(args, dict) and any(opens_case(name) or _is_entry(it) for it in args.values())
    if not (_is_deed_by_name(name) if step.kind == "work" else step.kind == "look" and _begins_deed(name)):
        return False
    if isinstance(args, str):
        args = {"": args}
    if not isinstance(args, dict) or find_command(args) is not None:
        return False
    if find_path(args) is not None:
        return _has_word(name, _WITH_FILE)
    says_what = bool if _has_word(name, _NAMED_IN_A_WORD) else _says_what
    return any(isinstance(it, str) and says_what(it) for it in args.values())


@functools.lru_cache(maxsize=256)
def _is_deed_by_name(name: str) -> bool:
    words = _split_name(name)
    return not _DEEDS.isdisjoint(words) and _SEVERAL.isdisjoint(words)


@functools.lru_cache(maxsize=256)
def _begins_deed(name: str) -> bool:
    words = _split_name(name)
    return not _BEGINS_DEED.isdisjoint(words[:1]) and (_SEVERAL | _LOOKS).isdisjoint(words)


@functools.lru_cache(maxsize=256)
def opens_case(name: str) -> bool:
    """Return whether a tool opens a case of some weight, by the words of its name.

    >>> opens_case("new_claim"), opens_case("claim_next_job")
    (True, False)
    """
    words = _split_name(name)
    return not _BEGINS.isdisjoint(words[:1]) and not _CASES.isdisjoint(words) and _LOOKS.isdisjoint(words)


@functools.lru_cache(maxsize=256)
def _enters_by_name(name: str) -> bool:
    words = _split_name(name)
    return not _ENTERS.isdisjoint(words[:1]) and not _ENTRIES.isdisjoint(words)


def _is_entry(value: object) -> bool:
    """Return whether a value is a row with what is in it."""
    return (
        isinstance(value, list | dict)
        and len(value) >= _MIN_VALUES_OF_ENTRY
        and any(isinstance(it, str) for it in (value.values() if isinstance(value, dict) else value))
    )


def _has_word(name: str, words: frozenset[str]) -> bool:
    return not words.isdisjoint(_split_name(name))


def _split_name(name: str) -> list[str]:
    return [word.lower() for word in _WORD_IN_NAME.findall(name[:100])]


def _says_what(value: str) -> bool:
    """Return whether a value tells this deed from others of its kind: a text, or the name of one thing."""
    return len(value.split()) >= _MIN_WORDS_OF_TEXT or any(map(str.isdigit, value))


def find_new_ids(one: str, other: str) -> tuple[str, ...] | None:
    """Return the numbers of the later answer if the answers differ in nothing else, else None.

    >>> find_new_ids("Created OPS-521", "Created OPS-522"), find_new_ids("3 items in cart", "4 items in cart")
    (('OPS-522',), None)
    >>> find_new_ids('{"job": 300, "pages": 2}', '{"job": 301, "pages": 2}')
    ('301',)
    """
    first, second = mask_noise(one), mask_noise(other)
    if _mask_ids(first) != _mask_ids(second):
        return None
    ids = (*_NUMBER_OF_THING.findall(second), *_ID.findall(second))[:5]
    return tuple(it for it in ids if it not in first) or None


def _mask_ids(text: str) -> str:
    return _ID.sub("~", _NUMBER_OF_THING.sub("~", text))
