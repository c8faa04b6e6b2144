"""Read what agents, tools and models take and return: its text, and the tokens it took.

No code of the host runs, but that of an attribute that is asked for by `get_attribute`.
"""

from typing import Any, Final

from steadyhelm.fingerprints import encode_canonical
from steadyhelm.host_objects import MISSING, is_a, read_field
from steadyhelm.interrupts import pass_on_signal

_CHARACTERS_PER_TOKEN: Final = 4
_USAGE_NAMES: Final = ("usage", "usage_metadata", "token_usage")
_COUNT_NAMES: Final = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens")
_TEXT_KEYS: Final = (
    "input", "query", "question", "topic", "task", "text", "output", "content", "result",
)  # fmt: skip
_TEXT_ATTRIBUTES: Final = ("content", "text", "output", "raw")


def count_tokens(result: Any) -> int:
    """Return the tokens that a result reports; a quarter of its characters where it reports none."""
    usage = next((it for name in _USAGE_NAMES if (it := _read(result, name)) is not None), None)
    for total in ("total_tokens", "totalTokenCount"):
        if type(count := _read(usage, total)) is int:
            return count
    parts = [count for name in _COUNT_NAMES if type(count := _read(usage, name)) is int]
    if parts:
        return sum(parts)
    text = find_text(result)
    return str.__len__(text) // _CHARACTERS_PER_TOKEN


def _read(value: Any, name: str) -> Any:
    """Return an item or an attribute that an object holds, without running its code; None for none."""
    if value is None or is_a(value, (str, list, tuple)):
        return None
    try:
        found = dict.get(value, name) if is_a(value, dict) else read_field(value, name)
    except BaseException as exc:  # noqa: BLE001 - a key of the host's dict may compare itself with the name
        pass_on_signal(exc)
        return None
    return None if found is MISSING else found


def get_attribute(thing: Any, attribute: str) -> Any:
    """Return an attribute of the object that is wrapped; None where it has none, or reading it fails."""
    try:
        return getattr(thing, attribute, None)
    except BaseException as exc:  # noqa: BLE001 - a property may raise anything
        pass_on_signal(exc)
        return None


def find_text(value: Any) -> str:
    """Return the text in whatever an agent takes or returns, as long as it is."""
    if is_a(value, str):
        return value
    names = _TEXT_KEYS if is_a(value, dict) else _TEXT_ATTRIBUTES
    for name in names:
        text = _read(value, name)
        if is_a(text, str):
            return text
    return "" if value is None else encode_canonical(value).decode("utf-8", "replace")
