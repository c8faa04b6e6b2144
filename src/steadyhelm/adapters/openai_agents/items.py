"""What stands in the items of the OpenAI Agents SDK: words, calls and what came of them.

Items are objects where a model gives them and dicts where it is given them; both are read alike.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

Maker = Literal["tool", "runner", "provider"]

# Calls the runner makes without asking whether it may, by the type of their items.
_RUNNER_MAKES: Final = frozenset(
    {"custom_tool_call", "computer_call", "shell_call", "local_shell_call", "apply_patch_call"}
)
_ARGUMENTS: Final = ("arguments", "action", "actions", "operation", "queries", "code", "input")
_RESULTS: Final = ("output", "results", "outputs")
_CALL: Final = "_call"
_OUTPUT: Final = "_output"


class Asked(Struct, kw_only=True):
    """A call that a model asked for.

    A function `tool` can be refused beforehand; what the `runner` makes (a shell, a computer) cannot, and
    what the model's `provider` made itself has its result already.
    """

    call_id: str
    name: str
    args: Any
    maker: Maker
    item: Any
    result: Any = None
    error: str | None = None


def asked_in(output: Iterable[Any], handoffs: Iterable[str] = ()) -> list[Asked]:
    """The calls in a model's answer, those apart that only hand over to another agent."""
    output = list(output)
    elsewhere, done = frozenset(handoffs), results_in(output)
    found = []
    for item in output:
        kind = str(_get(item, "type") or "")
        if not kind.endswith(_CALL) or (kind == "function_call" and str(_get(item, "name")) in elsewhere):
            continue
        asked = _asked(item, kind)
        if asked.call_id in done:
            asked.maker, asked.result = "provider", done[asked.call_id]
        found.append(asked)
    return found


def unannounced(context: Any) -> Asked:
    """A call of which nothing was known before it came back."""
    return Asked(
        call_id=context.tool_call_id,
        name=context.tool_name,
        args=read_json(context.tool_arguments),
        maker="runner",
        item=None,
    )


def spoken_of(message: str, asked: list[Asked]) -> list[Asked]:
    """The calls an error speaks of: those whose tool it names, or the only one there is."""
    named = [it for it in asked if re.search(rf"\b{re.escape(it.name)}\b", message)]
    return named or (asked if len(asked) == 1 else [])


def words_in(output: Iterable[Any]) -> str:
    """What a model says in its answer."""
    return "\n".join(words for item in output if _get(item, "type") == "message" for words in _texts(item))


def results_in(items: Iterable[Any]) -> dict[str, Any]:
    """What came of calls, by their ids, as far as a conversation tells."""
    found = {}
    for item in items:
        call_id = _get(item, "call_id")
        if str(_get(item, "type") or "").endswith(_OUTPUT) and isinstance(call_id, str):
            found[call_id] = plain(_get(item, "output"))
    return found


def goal_in(given: Any) -> str:
    """What the user asks for: the words they end with."""
    if isinstance(given, str):
        return given
    last: list[str] = []
    answered = False
    for item in given if isinstance(given, list) else ():
        if _get(item, "role") != "user":
            answered = True
            continue
        last = [*(() if answered else last), *_texts(item)]
        answered = False
    return "\n".join(last)


def is_whole(items: Iterable[Any]) -> bool:
    """Whether each function call in a conversation has its result, and each result its call."""
    calls, results = set(), set()
    for item in items:
        kind = _get(item, "type")
        if kind == "function_call":
            calls.add(str(_get(item, "call_id")))
        elif kind == "function_call_output":
            results.add(str(_get(item, "call_id")))
    return calls == results


def read_json(text: Any) -> Any:
    """Arguments as they were meant, or as they stand where they cannot be read."""
    if not isinstance(text, str):
        return plain(text)
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError:
        return text


def _asked(item: Any, kind: str) -> Asked:
    name = str(_get(item, "name") or kind.removesuffix(_CALL))
    space = _get(item, "namespace")
    call_id = str(_get(item, "call_id") or _get(item, "id") or "")
    maker: Maker = "runner" if kind in _RUNNER_MAKES else "tool" if kind == "function_call" else "provider"
    asked = Asked(
        call_id=call_id,
        name=f"{space}.{name}" if isinstance(space, str) and space != name else name,
        args=read_json(_first(item, _ARGUMENTS)),
        maker=maker,
        item=item,
    )
    if maker == "provider":
        asked.result = plain(_first(item, _RESULTS))
        failed = _get(item, "error") or (_get(item, "status") if _get(item, "status") == "failed" else None)
        asked.error = str(failed) if failed else None
    return asked


def _texts(item: Any) -> Iterator[str]:
    content = _get(item, "content")
    if isinstance(content, str):
        yield content
        return
    for part in content if isinstance(content, list) else ():
        words = _get(part, "text") or _get(part, "refusal")
        if isinstance(words, str):
            yield words


def _first(item: Any, names: Iterable[str]) -> Any:
    return next((value for name in names if (value := _get(item, name)) is not None), None)


def _get(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def plain(value: Any) -> Any:
    """A model of the SDK as the dict it stands for; anything else as it is."""
    if isinstance(value, list):
        return [plain(part) for part in value]
    dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_none=True) if callable(dump) else value
