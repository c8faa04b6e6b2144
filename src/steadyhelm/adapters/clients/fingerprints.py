"""Recognise a conversation by the fingerprints of its messages.

A message has a fingerprint of who speaks, what they say and the ids of calls. Instructions and reasoning have
none, since hosts rewrite and drop them; nor do the contents of results, since hosts shorten them later.
"""

import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from steadyhelm.adapters.clients.translate import get_field, get_text
from steadyhelm.bounded import BoundedDict
from steadyhelm.host_objects import is_a, read_own_attributes

_ROLES_WITHOUT_FINGERPRINT: Final = frozenset({"system", "developer", "reasoning", "item_reference"})
_REASONING_TYPES: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_PART_FIELDS: Final = ("text", "refusal", "tool_use_id", "id")
_MAX_REQUESTS_CACHED: Final = 64
_MAX_MESSAGES_ADDED: Final = 24
_MESSAGES_READ_AGAIN: Final = 2


def fingerprint_messages(messages: Iterable[Any], previous: int = 0) -> list[int]:
    """Return for each message a fingerprint of the conversation up to it; `previous` is of what came before.

    A message without a fingerprint of its own has that of the message before it.
    """
    fingerprints, latest = [], previous
    for message in messages:
        own = _fingerprint_message(message)
        if own is not None:
            latest = hash((latest, own))
        fingerprints.append(latest)
    return fingerprints


def group_by_fingerprint(messages: Sequence[Any], fingerprints: Sequence[int]) -> list[list[Any]]:
    """Return the messages in groups that end with one that has a fingerprint; those behind it are left out.

    Places in a conversation are counted in groups, since messages without a fingerprint come and go.
    """
    groups: list[list[Any]] = []
    group: list[Any] = []
    previous = 0
    for message, fingerprint in zip(messages, fingerprints, strict=True):
        group.append(message)
        if fingerprint != previous:
            groups.append(group)
            group, previous = [], fingerprint
    return groups


class _CachedRequest(NamedTuple):
    """The messages of a request, kept so that no other object can have the id of one of them."""

    messages: list[Any]
    fingerprints: list[int]


class FingerprintCache:
    """The fingerprints of the latest requests, so that only the new messages of the next one are read.

    A host keeps its messages and adds to them: where a request begins with the very objects of an earlier
    one, it begins with the same fingerprints. The first and the last of these messages are read again, since
    a host may change a message that it has sent.
    """

    def __init__(self) -> None:
        self._requests: BoundedDict[int, _CachedRequest] = BoundedDict(_MAX_REQUESTS_CACHED)

    def fingerprint(self, messages: Sequence[Any]) -> list[int]:
        """Return the fingerprints of a request, the same as those of `fingerprint_messages`."""
        earlier = self._take_earlier(messages)
        if earlier is None:
            fingerprints = fingerprint_messages(messages)
        else:
            known = len(earlier.messages) - _MESSAGES_READ_AGAIN
            fingerprints = earlier.fingerprints[:known]
            fingerprints += fingerprint_messages(messages[known:], fingerprints[-1])
        if len(messages) > 2 * _MESSAGES_READ_AGAIN:
            self._requests[id(messages[-1])] = _CachedRequest(list(messages), fingerprints)
        return fingerprints

    def forget(self, messages: Sequence[Any], length: int) -> None:
        """Forget a request that had the first `length` of these messages: its conversation is over."""
        if 0 < length <= len(messages):
            self._requests.pop(id(messages[length - 1]), None)

    def _take_earlier(self, messages: Sequence[Any]) -> _CachedRequest | None:
        for index in range(len(messages) - 1, max(-1, len(messages) - 1 - _MAX_MESSAGES_ADDED), -1):
            cached = self._requests.get(id(messages[index]))
            if cached is None or len(cached.messages) != index + 1:
                continue
            if not all(map(operator.is_, cached.messages, messages)):
                continue
            first = fingerprint_messages(messages[:_MESSAGES_READ_AGAIN])
            if first != cached.fingerprints[:_MESSAGES_READ_AGAIN]:
                continue
            del self._requests[id(messages[index])]
            return cached
        return None


def _fingerprint_message(message: Any) -> Hashable | None:
    # This is called for every message of every request: it must be fast.
    get = message.get if is_a(message, dict) else _make_getter(message)
    role, content = get("role"), get("content")
    if not is_a(role, str):
        role = str(get("type"))
    if role in _ROLES_WITHOUT_FINGERPRINT:
        return None
    # Only results are known by the call they answer; it takes long to see that a reply has no such field.
    call_id = None if role == "assistant" else get("tool_call_id") or get("call_id")
    if is_a(call_id, str):
        return (role, call_id)
    calls = get("tool_calls")
    call_ids = tuple([get_text(call, "id") for call in calls]) if is_a(calls, list) else ()
    return (role, content if is_a(content, str) else _fingerprint_content(content), call_ids)


def _make_getter(message: Any) -> Callable[[str], Any]:
    """Return a function that returns a field of an object, mostly one that the object itself holds."""
    own = read_own_attributes(message)

    def get(name: str) -> Any:
        return own[name] if name in own else get_field(message, name)

    return get


def _fingerprint_content(content: Any) -> Hashable:
    if not is_a(content, list):
        return ""
    found = [fingerprint for fingerprint in map(_fingerprint_part, content) if fingerprint]
    return found[0] if len(found) == 1 else tuple(found)


def _fingerprint_part(part: Any) -> str:
    if is_a(part, str):
        return part
    # Objects of a client hold their fields themselves; it takes long to see that they have no other.
    own = part if is_a(part, dict) else read_own_attributes(part)
    kind = own.get("type")
    if not is_a(kind, str):
        kind = "" if own is part else get_text(part, "type")
    if kind in _REASONING_TYPES:
        return ""
    text = _find_text(own.get)
    if not text and own is not part:
        text = _find_text(partial(get_field, part))
    return text or kind


def _find_text(get: Callable[[str], Any]) -> str:
    """Return the first text of the fields by which a part is known; empty for none."""
    for name in _PART_FIELDS:
        value = get(name)
        if value and is_a(value, str):
            return value
    return ""
