"""The number that identifies a call, without the arguments that only explain it."""

import functools
import re
from typing import Any, Final

from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import encode_canonical, hash_call
from steadyhelm.loops.call_arguments import COMMAND_ARGUMENTS
from steadyhelm.loops.kinds import StepKind, is_handoff
from steadyhelm.loops.search_commands import normalize_search

MAX_ARGUMENT_BYTES: Final = 2048

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

# Arguments that only explain a call, count its attempts, or say how long to wait for it: they do not make it
# another call. Those of the second list are the content of a call that changes something.
_EXPLAINING_WORDS: Final = frozenset(
    {"reason", "reasoning", "explanation", "rationale", "justification", "purpose", "thought", "thoughts",
     "thinking", "intent", "timeout", "attempt", "attempts", "try", "tries", "retry", "retries", "nonce",
     "ts", "bust", "buster", "cachebust", "cachebuster", "salt", "rand", "correlation", "idempotency",
     "trace", "span", "progress", "why"}
)  # fmt: skip
_CONTENT_NAMES: Final = frozenset(
    {"description", "comment", "note", "notes", "remark", "timestamp", "summary", "iteration", "counter",
     "seq", "turn", "max_length", "max_chars", "max_bytes", "max_results", "num_results"}
)  # fmt: skip
_ASIDE_NAMES: Final = frozenset(
    {"request_id", "request_no", "request_number", "requestId", "requested_at", "requestedAt", "request_time",
     "called_at", "calledAt", "invoked_at", "invokedAt", "asked_at", "tool_call_id", "call_id", "toolCallId",
     "call_no", "callNo", "call_count", "callCount", "client_ref", "clientRef", "client_reference",
     "client_request_id", "client_token", "now", "_"}
)  # fmt: skip
_QUALIFYING_WORDS: Final = frozenset(
    {"count", "counter", "number", "no", "num", "id", "key", "index", "n", "text", "task", "current", "ms",
     "s", "seconds", "secs", "max", "cache", "left"}
)  # fmt: skip
_VOLATILE_PARAMETER: Final = re.compile(
    r"(?<=[?&])(?:_|_?ts?|cb|cache_?bust(?:er)?|nonce|rand(?:om)?|attempt|retry|timestamp|sig(?:nature)?|csrf"
    r"|sid|session(?:_?id)?|expires)=[^&#\s\"']*&?",
    re.IGNORECASE,
)
"""A parameter of an address that says nothing of the page it leads to."""
_NAMES_OF_ADDRESSES: Final = ("url", *COMMAND_ARGUMENTS)
_LENGTHS: Final = frozenset({"duration", "minutes", "ms", "seconds", "secs", "time", "timeout"})
"""How long a tool that only waits is to wait."""
_VALUE_IN_TEXT: Final = re.compile(
    r"(?:\A|(?<=[\s,;(]))(?:--?)?(?:nonce|cache_?bust(?:er)?|attempt|retry|try|(?:req(?:uest)?|call|trace"
    r"|correlation)[_-]?id|rand(?:om)?|salt|(?:ts|timestamp|now)(?==1[4-9]\d{8}))=[\w.:-]+[,;]?\s{0,9}",
    re.IGNORECASE,
)
_ENDS_OF_NAMES: Final = (
    "try=",
    "nonce=",
    "attempt=",
    "id=",
    "rand",
    "salt=",
    "ts=",
    "timestamp=",
    "now=",
    "bust",
)
_MAX_TEXT_CHARS: Final = 400
_MAX_DEPTH: Final = 4


def read_call(event: TraceEvent, kind: StepKind) -> tuple[int, bytes | None]:
    """Return the number of a call, and its canonical arguments if they had to be encoded for it."""
    args = event.input_data
    meant = args
    if isinstance(args, dict):
        meant = _drop_asides(event.action_name, args, kind)
    elif isinstance(args, str):
        meant = drop_asides_of_text(args)
    if meant is not args:
        return hash_call(event.action_name, encode_canonical(meant)), None
    if event.call_hash:
        return event.call_hash, None
    encoded = encode_canonical(args)
    return hash_call(event.action_name, encoded), encoded[:MAX_ARGUMENT_BYTES]


def _drop_asides(tool: str, args: dict[str, Any], kind: StepKind) -> dict[str, Any]:
    """Return arguments without asides; the same object where there are none."""
    meant = args
    if len(args) > 1:
        if "command" in args:
            kind = "look"  # what stands beside a command explains it, whatever the command does
        asides = _find_asides(tuple(args), kind)
        if asides:
            meant = {name: value for name, value in args.items() if name not in asides}
    elif is_handoff(tool) and is_aside(next(iter(args), ""), "look"):
        return {}  # who is handed over to is in the name, and why is no other call
    elif kind == "wait" and not _LENGTHS.isdisjoint(args):
        return {}  # however long it waits
    meant = _drop_asides_of_texts(_drop_inner_asides(meant, kind))
    for name in _NAMES_OF_ADDRESSES:
        address = meant.get(name)
        if isinstance(address, str) and "?" in address and "=" in address:
            named = _VOLATILE_PARAMETER.sub("", address)
            if named != address:
                meant = {**meant, name: named}
    return meant


@functools.lru_cache(maxsize=1024)
def _find_asides(names: tuple[str, ...], kind: StepKind) -> frozenset[str]:
    """Return the arguments that are asides; none where nothing else is left."""
    asides = frozenset(name for name in names if isinstance(name, str) and is_aside(name, kind))
    return asides if len(asides) < len(names) else frozenset()


def _drop_inner_asides(args: dict[str, Any], kind: StepKind, depth: int = 0) -> dict[str, Any]:
    """Return arguments without asides in objects, at any depth, and without objects of nothing else."""
    meant = args
    for name, value in args.items():
        if not isinstance(value, dict) or not value:
            continue
        inner = _drop_asides_of_object(value, kind, depth)
        if inner is value:
            continue
        if meant is args:
            meant = dict(args)
        if inner:
            meant[name] = inner
        else:
            del meant[name]
    return meant if meant or depth else args


def _drop_asides_of_object(value: dict[str, Any], kind: StepKind, depth: int) -> dict[str, Any]:
    inner = {key: it for key, it in value.items() if not (isinstance(key, str) and is_aside(key, kind))}
    if len(inner) == len(value):
        inner = value
    return _drop_inner_asides(inner, kind, depth + 1) if inner and depth < _MAX_DEPTH else inner


def _drop_asides_of_texts(args: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with their command, or their only text, without what says nothing of the target."""
    for name in args if len(args) == 1 else COMMAND_ARGUMENTS:
        text = args.get(name)
        if isinstance(text, str):
            meant = drop_asides_of_text(text)
            if name in COMMAND_ARGUMENTS:
                meant = normalize_search(meant)
            if meant != text:
                return {**args, name: meant}
    return args


def drop_asides_of_text(text: str) -> str:
    """Return a short text without values such as a nonce or the number of an attempt.

    >>> drop_asides_of_text("show bed-4 nonce=47ca23"), drop_asides_of_text("make check jobs=4")
    ('show bed-4', 'make check jobs=4')
    """
    if "=" not in text or len(text) > _MAX_TEXT_CHARS:
        return text
    lowered = text.lower()
    if not any(it in lowered for it in _ENDS_OF_NAMES):
        return text
    meant, found = _VALUE_IN_TEXT.subn("", text)
    return meant.strip() or text if found else text


def is_aside(name: str, kind: StepKind) -> bool:
    """Return whether an argument of this name says nothing of what a call of this kind is about.

    >>> is_aside("retryCount", "look"), is_aside("note", "look"), is_aside("note", "work")
    (True, True, False)
    """
    if name in _ASIDE_NAMES:
        return True
    if name in _CONTENT_NAMES:
        return kind != "work"
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    return not words.isdisjoint(_EXPLAINING_WORDS) and words <= _EXPLAINING_WORDS | _QUALIFYING_WORDS
