"""The same deed done again: what differs in its answer is the number that it was given."""

import functools
import re
from typing import Any, Final

from steadyhelm.loops.steps import ToolStep, find_command, find_path
from steadyhelm.noise import mask_noise

_MAX_ANSWER_CHARS: Final = 400
_MIN_WORDS_OF_TEXT: Final = 2

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# What others see or pay for: no second one is wanted.
_DEEDS: Final = frozenset(
    {"announce", "book", "broadcast", "charge", "comment", "create", "email", "file", "invite", "log", "mail",
     "message", "notify", "open", "order", "pay", "post", "publish", "purchase", "refund", "register",
     "reply", "report", "request", "reserve", "schedule", "send", "share", "submit", "transfer", "tweet"}
)  # fmt: skip
# Of these several may be wanted: one call hands out one at a time.
_SEVERAL: Final = frozenset(
    """
    agent branch card cell environment fixture heartbeat input instance job key keys machine node
    pod process replica room row sandbox server session shape slide tab temp thread token vm window
    worker
    """.split()  # noqa: SIM905 - so many quoted words read worse
)
_ID: Final = re.compile(
    r"(?<![\w.])(?:#\d+|[A-Za-z]{1,12}[-_#]?\d[\w-]*|\d{4,}|(?=[a-f\d-]{0,16}\d)[a-f\d-]{6,64})(?![\w%])(?!\.\d)"
    r"|(?i:(?<=id\W)|(?<=id\W\W)|(?<=id\W\W\W)|(?<=number\W)|(?<=no\W)|(?<=no\.\W)|(?<=ticket\W)|(?<=comment\W)"
    r"|(?<=reference\W))\d+\b"
)


def is_deed(step: ToolStep) -> bool:
    """Return whether a call does something that is not done twice with the same words.

    Its arguments say what, in full. Files and commands are left out, and what one may want several of.
    """
    args = step.event.input_data
    if step.kind != "work" or step.outcome.failed or not 0 < step.outcome.size <= _MAX_ANSWER_CHARS:
        return False
    if not _is_deed_by_name(step.event.action_name) or not isinstance(args, dict):
        return False
    if find_command(args) is not None or find_path(args) is not None:
        return False
    return any(map(_says_what, args.values()))


@functools.lru_cache(maxsize=256)
def _is_deed_by_name(name: str) -> bool:
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    return not words.isdisjoint(_DEEDS) and words.isdisjoint(_SEVERAL)


def _says_what(value: Any) -> bool:
    """Return whether a value tells this deed from others of its kind: a text, or the name of one thing."""
    if not isinstance(value, str):
        return False
    return len(value.split()) >= _MIN_WORDS_OF_TEXT or any(map(str.isdigit, value))


def find_new_ids(one: str, other: str) -> tuple[str, ...] | None:
    """Return the numbers of the later answer if the answers differ in nothing else, else None.

    >>> find_new_ids("Created OPS-521", "Created OPS-522"), find_new_ids("3 items in cart", "4 items in cart")
    (('OPS-522',), None)
    """
    first, second = mask_noise(one), mask_noise(other)
    if _ID.sub("~", first) != _ID.sub("~", second):
        return None
    return tuple(it for it in _ID.findall(second)[:5] if it not in first) or None
