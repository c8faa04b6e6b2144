"""What stands in the messages of a request, whether they are plain objects or a client library's own.

A conversation is known again by its marks: one for each message, from who speaks, what they say and the ids
of calls. Instructions and thoughts leave no mark, since hosts rewrite and drop them; nor does what came of a
call, since hosts shorten it once it is old.
"""

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

from steadyhelm.recordings.content import (
    ContentPart,
    as_object,
    as_text,
    get_content,
    get_role,
    iter_calls,
    iter_parts,
    join_text,
)
from steadyhelm.recordings.run_entries import parse_arguments

_LOOKED_AT: Final = 8192
_UNMARKED: Final = frozenset({"system", "developer", "reasoning", "item_reference"})
_PART_MARKS: Final = ("text", "refusal", "tool_use_id", "id")
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})


def field(item: Any, name: str) -> Any:
    """A field of a plain object or of a library's own."""
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)


def word(item: Any, name: str) -> str:
    """A field that is a text; empty when it is none."""
    value = field(item, name)
    return value if isinstance(value, str) else ""


def many(item: Any, name: str) -> list[Any]:
    """A field that is a list; empty when it is none."""
    value = field(item, name)
    return value if isinstance(value, list) else []


def plain(item: Any) -> Any:
    """A message or a part of one as a plain object, with plain parts in it."""
    if not isinstance(item, dict):
        dump = getattr(item, "model_dump", None)
        return dump(exclude_none=True, warnings=False) if callable(dump) else item
    content = item.get("content")
    if isinstance(content, list) and not all(isinstance(part, (dict, str)) for part in content):
        return {**item, "content": [plain(part) for part in content]}
    return item


def listed(given: Any) -> list[Any]:
    """Messages as a list; what is none has no messages in it."""
    if isinstance(given, list):
        return given
    return list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes, dict)) else []


def count(usage: Any, name: str) -> int:
    """A number of tokens, as far as it is told."""
    told = field(usage, name)
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else 0


# --- marks ---------------------------------------------------------------------------------------------


def chain(items: Iterable[Any], after: int = 0) -> list[int]:
    """For each message, a number for the conversation up to it: the same for the same beginning."""
    marks, at = [], after
    for item in items:
        mark = _mark(item)
        if mark is not None:
            at = hash((at, mark))
        marks.append(at)
    return marks


def grouped(items: Sequence[Any], marks: Sequence[int]) -> list[list[Any]]:
    """The messages that left a mark, each with those before it that left none; the rest is left out.

    Places are counted so, since what leaves no mark comes and goes.
    """
    groups: list[list[Any]] = []
    group: list[Any] = []
    before = 0
    for item, mark in zip(items, marks, strict=True):
        group.append(item)
        if mark != before:
            groups.append(group)
            group, before = [], mark
    return groups


def _mark(item: Any) -> Hashable | None:
    # Every message of every request comes by here.
    get = item.get if isinstance(item, dict) else _getter(item)
    role, content = get("role"), get("content")
    if not isinstance(role, str):
        role = str(get("type"))
    if role in _UNMARKED:
        return None
    call_id = get("tool_call_id") or get("call_id")
    if isinstance(call_id, str):
        return (role, call_id)
    calls = get("tool_calls")
    asked = tuple([word(call, "id") for call in calls]) if isinstance(calls, list) else ()
    return (role, content if isinstance(content, str) else _said(content), asked)


def _getter(item: Any) -> Callable[[str], Any]:
    # To ask a model of Pydantic for a field that it has not takes longer than all the others together.
    is_model = isinstance(getattr(type(item), "__pydantic_fields__", None), dict)
    if is_model and not getattr(item, "__pydantic_extra__", True):
        told: dict[str, Any] = item.__dict__
        return told.get
    return functools.partial(_attribute, item)


def _attribute(item: Any, name: str) -> Any:
    return getattr(item, name, None)


def _said(content: Any) -> Hashable:
    if not isinstance(content, list):
        return ""
    said = [mark for mark in map(_part_mark, content) if mark]
    return said[0] if len(said) == 1 else tuple(said)


def _part_mark(part: Any) -> str:
    if isinstance(part, str):
        return part
    get = part.get if isinstance(part, dict) else _getter(part)
    kind = get("type")
    if isinstance(kind, str) and kind in _THOUGHTS:
        return ""
    for name in _PART_MARKS:
        value = get(name)
        if value and isinstance(value, str):
            return value
    return kind if isinstance(kind, str) else ""


def characters(items: Iterable[Any]) -> int:
    """About how much stands in these messages."""
    return sum(_length(field(item, "content") or field(item, "output")) for item in items)


def _length(content: Any) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(_length(field(part, "text")) for part in content) if isinstance(content, list) else 0


# --- steps ---------------------------------------------------------------------------------------------


def steps_of(item: Any) -> list[ContentPart]:
    """What a message tells: calls that were asked for, what came of calls, and what the user says."""
    told = as_object(plain(item))
    if as_text(told.get("call_id")) is not None:
        return [_item_step(told)]
    role = get_role(told)
    if role == "assistant":
        return [_named(call) for call in iter_calls(_with_functions(told))]
    if role == "tool":
        return [_tool_message(told)]
    return _user_message(told) if role == "user" else []


def is_users(item: Any) -> bool:
    """Whether the user says something in a message, and not only their tools."""
    return any(step.kind == "text" for step in steps_of(item))


def beginning(items: Sequence[Any]) -> int:
    """Where the latest turn of the user begins: what stands before it are examples, or is long done."""
    place = len(items) - 1
    while place >= 0 and not is_users(items[place]):
        place -= 1
    while place > 0 and word(items[place - 1], "role") in {"user", "system", "developer"}:
        place -= 1
    return max(place, 0)


def last_results(items: Sequence[Any]) -> int:
    """Where the results begin that follow the model's last message."""
    place = len(items)
    while place > 0 and any(step.kind != "call" for step in steps_of(items[place - 1])):
        place -= 1
    return place


def item_call(told: dict[str, Any]) -> ContentPart:
    """A call that is an item of its own, of whatever kind: its type may be all that names the tool."""
    name = as_text(told.get("name")) or str(told.get("type")).removesuffix("_call")
    args = next(
        (told[key] for key in ("arguments", "input", "action", "queries", "code") if key in told), None
    )
    call_id = as_text(told.get("call_id")) or as_text(told.get("id"))
    return ContentPart(kind="call", name=name, args=parse_arguments(args), call_id=call_id)


def _item_step(told: dict[str, Any]) -> ContentPart:
    if not str(told.get("type")).endswith("_output"):
        return item_call(told)
    output = told.get("output")
    kind = as_text(as_object(output).get("type"))
    # A screenshot is megabytes of letters that nobody reads.
    words = f"[{kind}]" if kind is not None and "text" not in as_object(output) else join_text(output)
    return _result(words, as_text(told.get("call_id")))


def _with_functions(told: dict[str, Any]) -> dict[str, Any]:
    """The same message with its free-form calls written like all others."""
    calls = told.get("tool_calls")
    if not isinstance(calls, list) or not any(as_object(call).get("custom") for call in calls):
        return told
    return {**told, "tool_calls": [_as_function(as_object(call)) for call in calls]}


def _as_function(call: dict[str, Any]) -> dict[str, Any]:
    custom = as_object(call.get("custom"))
    function = {"name": custom.get("name"), "arguments": custom.get("input")}
    return {**call, "function": function} if custom else call


def _named(call: ContentPart) -> ContentPart:
    """A call; one of the old kind without an id goes by the name of its tool."""
    return (
        call
        if call.call_id is not None
        else ContentPart(kind="call", name=call.name, args=call.args, call_id=call.name)
    )


def _tool_message(told: dict[str, Any]) -> ContentPart:
    name = as_text(told.get("name"))
    return _result(join_text(get_content(told)), as_text(told.get("tool_call_id")) or name, name)


def _result(words: Any, call_id: str | None, name: str | None = None) -> ContentPart:
    """What came of a call where the protocol has no word for failure: an object with an `error` is one."""
    answer = as_object(parse_arguments(words)) if isinstance(words, str) and len(words) <= _LOOKED_AT else {}
    failure = answer.get("error")
    return ContentPart(
        kind="result", words=failure or words, call_id=call_id, name=name, is_error=bool(failure)
    )


def _user_message(told: dict[str, Any]) -> list[ContentPart]:
    found, texts = [], []
    for part in iter_parts(get_content(told)):
        if part.kind == "result":
            found.append(part)
        elif part.kind == "text":
            texts.append(part.words)
        elif part.kind == "other" and part.name:
            texts.append(f"[{part.name}]")
    said = "\n".join(texts)
    return [*found, ContentPart(kind="text", words=said)] if said.strip() else found
