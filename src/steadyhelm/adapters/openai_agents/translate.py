"""Translate items of the OpenAI Agents SDK: text, calls and results.

Items are objects in the output of a model and dicts in its input; both are read alike.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from steadyhelm.host_objects import has_methods, is_a

Maker = Literal["tool", "runner", "provider"]

# Item types of calls that the runner makes without approval.
_RUNNER_CALLS: Final = frozenset(
    {"custom_tool_call", "computer_call", "shell_call", "local_shell_call", "apply_patch_call"}
)
_ARGUMENT_FIELDS: Final = ("arguments", "action", "actions", "operation", "queries", "code", "input")
_RESULT_FIELDS: Final = ("output", "results", "outputs")
_CALL_SUFFIX: Final = "_call"
_OUTPUT_SUFFIX: Final = "_output"


class SDKCall(Struct, kw_only=True):
    """A call that a model requested.

    A call of a function `tool` can be blocked; one that the `runner` makes (a shell, a computer) cannot, and
    one that the model's `provider` made has its result already.
    """

    call_id: str
    name: str
    args: Any
    maker: Maker
    item: Any
    result: Any = None
    error: str | None = None


def find_calls(output: Iterable[Any], handoffs: Iterable[str] = ()) -> list[SDKCall]:
    """Return the calls in a model's output, without hand-offs to another agent."""
    output = list(output)
    handoff_names, results = frozenset(handoffs), find_results(output)
    found = []
    for item in output:
        kind = str(_get(item, "type") or "")
        if not kind.endswith(_CALL_SUFFIX) or (
            kind == "function_call" and str(_get(item, "name")) in handoff_names
        ):
            continue
        call = _read_call(item, kind)
        if call.call_id in results:
            call.maker, call.result = "provider", results[call.call_id]
        found.append(call)
    return found


def read_unannounced_call(context: Any) -> SDKCall:
    """Return a call that was not known before its result came."""
    return SDKCall(
        call_id=context.tool_call_id,
        name=context.tool_name,
        args=read_json(context.tool_arguments),
        maker="runner",
        item=None,
    )


def is_named_in(message: str, call: SDKCall) -> bool:
    """Return whether the message of an error names the tool of this call."""
    return re.search(rf"\b{re.escape(call.name)}\b", message) is not None


def read_text(output: Iterable[Any]) -> str:
    """Return the text of a model's output."""
    return "\n".join(text for item in output if _get(item, "type") == "message" for text in _iter_texts(item))


def count_failed_attempts(usage: Any) -> int:
    """Return how many requests the SDK made in vain before a reply: each is an entry without tokens."""
    entries = getattr(usage, "request_usage_entries", None) or ()
    used = [(it.input_tokens or 0) + (it.output_tokens or 0) > 0 for it in entries]
    # The reply itself is the last entry, whether its provider counts tokens or not.
    return used.index(True) if any(used) else max(len(used) - 1, 0)


def find_results(items: Iterable[Any]) -> dict[str, Any]:
    """Return the results in a conversation, by call id."""
    found = {}
    for item in items:
        call_id = _get(item, "call_id")
        if str(_get(item, "type") or "").endswith(_OUTPUT_SUFFIX) and is_a(call_id, str):
            found[call_id] = simplify(_get(item, "output"))
    return found


def read_goal(given: Any) -> str:
    """Return the goal of an input: the last messages of the user."""
    if is_a(given, str):
        return given
    last: list[str] = []
    is_answered = False
    for item in given if is_a(given, list) else ():
        if _get(item, "role") != "user":
            is_answered = True
            continue
        last = [*(() if is_answered else last), *_iter_texts(item)]
        is_answered = False
    return "\n".join(last)


def has_matching_results(items: Iterable[Any]) -> bool:
    """Return whether each function call in a conversation has its result, and each result its call."""
    calls, results = set(), set()
    for item in items:
        kind = _get(item, "type")
        if kind == "function_call":
            calls.add(str(_get(item, "call_id")))
        elif kind == "function_call_output":
            results.add(str(_get(item, "call_id")))
    return calls == results


def read_json(text: Any) -> Any:
    """Return arguments decoded from JSON, or as they are where they cannot be decoded."""
    if not is_a(text, str):
        return simplify(text)
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError:
        return text


def _read_call(item: Any, kind: str) -> SDKCall:
    name = str(_get(item, "name") or kind.removesuffix(_CALL_SUFFIX))
    space = _get(item, "namespace")
    call_id = str(_get(item, "call_id") or _get(item, "id") or "")
    maker: Maker = "runner" if kind in _RUNNER_CALLS else "tool" if kind == "function_call" else "provider"
    call = SDKCall(
        call_id=call_id,
        name=f"{space}.{name}" if is_a(space, str) and space != name else name,
        args=read_json(_get_first_field(item, _ARGUMENT_FIELDS)),
        maker=maker,
        item=item,
    )
    if maker == "provider":
        call.result = simplify(_get_first_field(item, _RESULT_FIELDS))
        failed = _get(item, "error") or (_get(item, "status") if _get(item, "status") == "failed" else None)
        call.error = str(failed) if failed else None
    return call


def _iter_texts(item: Any) -> Iterator[str]:
    content = _get(item, "content")
    if is_a(content, str):
        yield content
        return
    for part in content if is_a(content, list) else ():
        text = _get(part, "text") or _get(part, "refusal")
        if is_a(text, str):
            yield text


def _get_first_field(item: Any, names: Iterable[str]) -> Any:
    return next((value for name in names if (value := _get(item, name)) is not None), None)


def _get(item: Any, name: str) -> Any:
    return item.get(name) if is_a(item, Mapping) else getattr(item, name, None)


def simplify(value: Any) -> Any:
    """Return a model object of the SDK as a dict; anything else unchanged."""
    if is_a(value, list):
        return [simplify(part) for part in list.__iter__(value)]
    # A tool may return anything: a proxy or a mock has no method of its own type.
    return value.model_dump(mode="json", exclude_none=True) if has_methods(value, "model_dump") else value
