"""What importers share: the JSON documents they read and the entries they write."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Document(NamedTuple):
    """One JSON file and its value."""

    file: Path
    value: Any


Importer = Callable[[list[Document]], Iterator[dict[str, Any]]]


class Entries:
    """The entries of a run that is being built."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    def add(self, kind: str, **keys: Any) -> int:
        """Add an entry without the keys that are None, and return its index."""
        known = {key: value for key, value in keys.items() if value is not None}
        self.all.append({"type": kind, **known})
        return len(self.all) - 1


def get_text(content: Any) -> str:
    """Return the text of a message, whether its content is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if isinstance(part, dict) and "text" in part)
    return ""


def parse_json_text(value: Any) -> Any:
    """Return the value of a string of JSON; return anything else unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
