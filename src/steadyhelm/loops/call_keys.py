"""The number that identifies a call, without the arguments that only explain it."""

import functools
import re
from typing import Any, Final

from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import encode_canonical, hash_call
from steadyhelm.loops.kinds import StepKind, is_handoff

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
    r"|sid|session(?:_?id)?|expires)=[^&#]*&?",
    re.IGNORECASE,
)
"""A parameter of an address that says nothing of the page it leads to."""


def read_call(event: TraceEvent, kind: StepKind) -> tuple[int, bytes | None]:
    """Return the number of a call, and its canonical arguments if they had to be encoded for it."""
    args = event.input_data
    if isinstance(args, dict):
        meant = args
        if len(args) > 1:
            if "command" in args:
                kind = "look"  # what stands beside a command explains it, whatever the command does
            asides = _find_asides(tuple(args), kind)
            if asides:
                meant = {name: value for name, value in args.items() if name not in asides}
            meant = _drop_inner_asides(meant, kind)
        elif is_handoff(event.action_name) and _is_aside(next(iter(args), ""), "look"):
            meant = {}  # who is handed over to is in the name, and why is no other call
        url = meant.get("url")
        if isinstance(url, str) and "?" in url and _VOLATILE_PARAMETER.search(url):
            meant = {**meant, "url": _VOLATILE_PARAMETER.sub("", url)}
        if meant is not args:
            return hash_call(event.action_name, encode_canonical(meant)), None
    if event.call_hash:
        return event.call_hash, None
    encoded = encode_canonical(args)
    return hash_call(event.action_name, encoded), encoded[:MAX_ARGUMENT_BYTES]


@functools.lru_cache(maxsize=1024)
def _find_asides(names: tuple[str, ...], kind: StepKind) -> frozenset[str]:
    """Return the arguments that are asides; none where nothing else is left."""
    asides = frozenset(name for name in names if isinstance(name, str) and _is_aside(name, kind))
    return asides if len(asides) < len(names) else frozenset()


def _drop_inner_asides(args: dict[str, Any], kind: StepKind) -> dict[str, Any]:
    """Return arguments without asides in objects, and without objects of nothing else."""
    for name, value in list(args.items()):
        if not isinstance(value, dict) or not value:
            continue
        inner = {key: it for key, it in value.items() if not (isinstance(key, str) and _is_aside(key, kind))}
        if len(inner) == len(value):
            continue
        args = {key: it for key, it in args.items() if key != name}
        if inner:
            args[name] = inner
    return args


def _is_aside(name: str, kind: StepKind) -> bool:
    """Return whether an argument of this name says nothing of what a call of this kind is about.

    >>> _is_aside("retryCount", "look"), _is_aside("note", "look"), _is_aside("note", "work")
    (True, True, False)
    """
    if name in _ASIDE_NAMES:
        return True
    if name in _CONTENT_NAMES:
        return kind != "work"
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    return not words.isdisjoint(_EXPLAINING_WORDS) and words <= _EXPLAINING_WORDS | _QUALIFYING_WORDS
