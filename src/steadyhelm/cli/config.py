"""`steadyhelm config`: every setting, its value, and where that comes from."""

import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
from msgspec import Struct

from steadyhelm.cli.context import Shared
from steadyhelm.cli.output import print_json, print_rows
from steadyhelm.engine import registry
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.settings import LoadedSettings

HIDDEN: Final = "(hidden)"
_LONGEST: Final = 60


class Value(Struct, frozen=True, kw_only=True):
    """One setting as it stands."""

    name: str
    value: Any
    origin: str


def config(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for programs.")] = False,
) -> None:
    """Show every setting, its value, and where the value comes from."""
    shared: Shared = context.obj
    values = list(every_value(shared.load()))
    if as_json:
        print_json({"settings": values})
    else:
        rows = [(it.name, safe(_written(it.value), most=_LONGEST), it.origin) for it in values]
        print_rows(("setting", "value", "from"), rows, empty="")
    for name in unknown_variables():
        say(f"steadyhelm: {safe(name)} is set, but there is no such setting.")


def every_value(loaded: "LoadedSettings") -> Iterator[Value]:
    """Every setting and every detector's option, secrets hidden."""
    from steadyhelm.settings import SETTINGS

    for setting in SETTINGS:
        value = getattr(loaded.settings, setting.attribute)
        if setting.secret and value:
            value = HIDDEN
        elif setting.name == "db_path":
            value = str(loaded.settings.database)
        yield Value(name=setting.name, value=value, origin=loaded.origins[setting.name])
    yield from _options(loaded)


def _options(loaded: "LoadedSettings") -> Iterator[Value]:
    from steadyhelm.fingerprints import encode_canonical
    from steadyhelm.redaction import Redactor

    redactor = Redactor()
    for detector in list_detectors():
        given = loaded.settings.detectors.get(detector, {})
        for option in list_options(detector):
            name = f"detectors.{detector}.{option.name}"
            value = given.get(option.name, option.default)
            # Somebody else's detector may take a key: what is named like a secret is shown like one.
            pair = {option.name: value}
            cleaned, _ = (
                redactor.redact(pair, encode_canonical(pair)) if isinstance(value, str) else (pair, b"")
            )
            shown = value if cleaned == pair else HIDDEN
            yield Value(name=name, value=shown, origin=loaded.origins.get(name, "default"))


def unknown_variables() -> list[str]:
    """Environment variables that look like settings and are none: most likely misspelt."""
    from steadyhelm.environment import NOT_SETTINGS, get_variables
    from steadyhelm.settings import SETTINGS

    known = {setting.variable for setting in SETTINGS} | NOT_SETTINGS
    return sorted(name for name in get_variables() if name not in known)


def _written(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "-"
    return str(value) if value != "" else "-"


_ARGS_SECTION: Final = re.compile(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", re.MULTILINE)
_ARGS_ENTRY: Final = re.compile(r"^ {4}(\w+): ((?:.+\n?)(?: {8}.+\n?)*)", re.MULTILINE)

# Chosen once for the whole agent by the setting `embedder`, not by a detector's table.
_NOT_OPTIONS: Final = frozenset({"embedder"})


class DetectorOption(NamedTuple):
    """One option of a detector: its name, its default and what it is for."""

    name: str
    default: Any
    about: str


def list_options(detector: str) -> list[DetectorOption]:
    """Every option of an installed_detectors detector, `enabled` first."""
    kind = registry.load(registry.DETECTORS, detector)
    about = _described(inspect.getdoc(kind) or "")
    options = [
        DetectorOption(name, parameter.default, about.get(name, ""))
        for name, parameter in inspect.signature(kind).parameters.items()
        if name not in _NOT_OPTIONS and parameter.default is not inspect.Parameter.empty
    ]
    return [DetectorOption("enabled", default=True, about="Whether this detector looks at all."), *options]


def list_detectors() -> list[str]:
    """The names of all detectors, ours first."""
    return registry.names(registry.DETECTORS)


def _described(docstring: str) -> dict[str, str]:
    section = _ARGS_SECTION.search(docstring + "\n")
    if section is None:
        return {}
    return {name: " ".join(words.split()) for name, words in _ARGS_ENTRY.findall(section[1])}
