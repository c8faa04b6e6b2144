"""`steadyhelm config`: every setting, its value, and where that comes from."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import Struct

from steadyhelm.cli.context import Shared
from steadyhelm.cli.output import print_json, print_rows
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.settings import Loaded

HIDDEN: Final = "(hidden)"
_NOT_SETTINGS: Final = frozenset({"STEADYHELM_HOME", "STEADYHELM_CONFIG", "STEADYHELM_DATA"})
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


def every_value(loaded: "Loaded") -> Iterator[Value]:
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


def _options(loaded: "Loaded") -> Iterator[Value]:
    from steadyhelm.cli.detector_options import installed, options_of
    from steadyhelm.fingerprints import canonical
    from steadyhelm.redaction import Redactor

    redactor = Redactor()
    for detector in installed():
        given = loaded.settings.detectors.get(detector, {})
        for option in options_of(detector):
            name = f"detectors.{detector}.{option.name}"
            value = given.get(option.name, option.default)
            # Somebody else's detector may take a key: what is named like a secret is shown like one.
            pair = {option.name: value}
            cleaned, _ = redactor.clean(pair, canonical(pair)) if isinstance(value, str) else (pair, b"")
            shown = value if cleaned == pair else HIDDEN
            yield Value(name=name, value=shown, origin=loaded.origins.get(name, "default"))


def unknown_variables() -> list[str]:
    """Environment variables that look like settings and are none: most likely misspelt."""
    from steadyhelm.settings import PREFIX, SETTINGS

    known = {setting.variable for setting in SETTINGS} | _NOT_SETTINGS
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)


def _written(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "-"
    return str(value) if value != "" else "-"
