"""What can be set for each detector: read from its constructor and from the words in its docstring."""

import inspect
import re
from typing import Any, Final, NamedTuple

from steadyhelm.engine import registry

_ARGS: Final = re.compile(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", re.MULTILINE)
_ENTRY: Final = re.compile(r"^ {4}(\w+): ((?:.+\n?)(?: {8}.+\n?)*)", re.MULTILINE)

# Chosen once for the whole agent by the setting `embedder`, not by a detector's table.
_NOT_OPTIONS: Final = frozenset({"embedder"})


class Option(NamedTuple):
    """One option of a detector: its name, its default and what it is for."""

    name: str
    default: Any
    about: str


def options_of(detector: str) -> list[Option]:
    """Every option of an installed detector, `enabled` first."""
    kind = registry.load(registry.DETECTORS, detector)
    about = _described(inspect.getdoc(kind) or "")
    options = [
        Option(name, parameter.default, about.get(name, ""))
        for name, parameter in inspect.signature(kind).parameters.items()
        if name not in _NOT_OPTIONS and parameter.default is not inspect.Parameter.empty
    ]
    return [Option("enabled", default=True, about="Whether this detector looks at all."), *options]


def installed() -> list[str]:
    """The names of all detectors, ours first."""
    return registry.names(registry.DETECTORS)


def _described(docstring: str) -> dict[str, str]:
    section = _ARGS.search(docstring + "\n")
    if section is None:
        return {}
    return {name: " ".join(words.split()) for name, words in _ENTRY.findall(section[1])}
